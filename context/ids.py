"""Ids in texts: commits, UUIDs, tickets, tests. Who quotes one has been shown it.

Read with: ``items.py`` and ``gist.py`` (the callers), ``demands.py``.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

IdKind: TypeAlias = Literal["uuid", "ticket", "test", "commit"]

# Each begins with what is rare in a text, and is checked where it is found: one pattern for all takes 17 times as long.
_HEX: Final = re.compile(r"[0-9a-fA-F]{7,}(?:(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?")
_NUMBER: Final = re.compile(r"-[0-9]{1,7}(?!\w)")
_PROJECT: Final = re.compile(r"(?<!\w)[A-Z][A-Z0-9]{1,9}$")
_TEST: Final = re.compile(r"(?<![\w/.-])[\w/.-]{1,200}(?:::\w{1,100}){1,2}(?:\[[\w.-]{1,60}\])?")
_DOTTED_TEST: Final = re.compile(r"(?<![\w.])(?:\w{1,60}\.){1,8}test_\w{1,100}(?!\w|\.\w)")
_UUID: Final = 36  # characters
_NO_TICKETS: Final = frozenset({"UTF", "ISO", "SHA", "RFC", "PEP", "CP", "AES", "RSA", "CVE"})
_LONGEST_PROJECT: Final = 10
_HASH: Final = 7  # characters by which a commit is told from others
_LONGEST_HASH: Final = 40


class Found(NamedTuple):
    """An id in a text: where it begins, what kind it is, and itself."""

    at: int
    kind: IdKind
    text: str


def ids_in(text: str) -> tuple[str, ...]:
    """The ids in a text, each once: commits (by their first 7 digits), UUIDs, tickets, tests.

    >>> ids_in("fix CORE-12 in 3f2a9c1b77 (tests/test_a.py::test_b), UTF-8")
    ('CORE-12', '3f2a9c1', 'tests/test_a.py::test_b')
    """
    return tuple(
        dict.fromkeys([each.text[:_HASH] if each.kind == "commit" else each.text for each in find_ids(text)])
    )


def find_ids(text: str) -> list[Found]:
    """The ids in a text as they are written, first to last."""
    found = [*_hexadecimal(text), *_tickets(text)]
    if "::" in text:
        found += [Found(match.start(), "test", match.group()) for match in _TEST.finditer(text)]
    if "test_" in text:
        found += [Found(match.start(), "test", match.group()) for match in _DOTTED_TEST.finditer(text)]
    return sorted(found)


def _hexadecimal(text: str) -> Iterator[Found]:
    """UUIDs and commits."""
    for match in _HEX.finditer(text):
        id, start, end = match.group(), match.start(), match.end()
        if _goes_on(text, start - 1) or _goes_on(text, end):
            continue
        if len(id) == _UUID and "-" in id:
            yield Found(start, "uuid", id)
        elif len(id) <= _LONGEST_HASH and id == id.lower() and not (id.isdigit() or id.isalpha()):
            yield Found(start, "commit", id)


def _goes_on(text: str, at: int) -> bool:
    """Whether the character at a place would make a word of what is beside it longer."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


def _tickets(text: str) -> Iterator[Found]:
    for match in _NUMBER.finditer(text):
        start = match.start()
        project = _PROJECT.search(text, max(0, start - _LONGEST_PROJECT), start)
        if project is not None and project.group() not in _NO_TICKETS:
            yield Found(project.start(), "ticket", project.group() + match.group())
