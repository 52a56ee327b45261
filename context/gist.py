"""What is worth keeping of a result that is taken away: its first line and the names that may be quoted
later.

Read with: ``clearing.py``, ``ids.py``.
"""

import re
from typing import Final

from .ids import IdKind, find_ids

_LOOKED_AT: Final = 10_000  # characters, half of them from the end: summaries of test runs stand there
_PATH: Final = re.compile(r"(?<![\w./-])[\w.-]*(?:/[\w.-]+)*/[\w.-]*\w\.\w{1,8}(?![\w/-])")
_LONGEST: Final = 120  # characters of a name
# The strongest first: what is least likely to be said twice in other words; paths come last.
_ORDER: Final[tuple[IdKind, ...]] = ("uuid", "ticket", "test", "commit")


def gist(text: str, limit: int) -> str:
    """At most ``limit`` characters that tell what a text was: its first line that is not blank, then
    identifiers.

    Those are uuids, tickets such as ABC-123, tests, commits and paths; each once, the strongest kinds first,
    in the order of the text. The first line takes no more than half.
    """
    if limit <= 0:
        return ""
    first = next((line.strip() for line in text[:_LOOKED_AT].splitlines() if line.strip()), "")
    if len(first) > limit // 2:
        first = f"{first[: max(0, limit // 2 - 1)]}…"
    names = _fitting(_identifiers(_sample(text), first), limit - len(first) - 1)
    return f"{first}\n{names}" if names else first


def _sample(text: str) -> str:
    half = _LOOKED_AT // 2
    return text if len(text) <= _LOOKED_AT else f"{text[:half]}\n{text[-half:]}"


def _identifiers(text: str, known: str) -> list[str]:
    """The identifiers in a text that are not in ``known``, the strongest first."""
    found = sorted(find_ids(text), key=lambda each: (_ORDER.index(each.kind), each.at))
    names = [each.text for each in found] + [match.group().lstrip(".-") for match in _PATH.finditer(text)]
    ids = set(names[: len(found)])
    paths_of_tests = {name.partition("::")[0] for name in ids if "::" in name}
    return [
        name
        for name in dict.fromkeys(names)
        if len(name) <= _LONGEST and name not in known and name not in paths_of_tests
    ]


def _fitting(names: list[str], room: int) -> str:
    """As many names as there is room for, commas between them."""
    taken: list[str] = []
    for name in names:
        room -= len(name) + (2 if taken else 0)
        if room < 0:
            break
        taken.append(name)
    return ", ".join(taken)
