"""What is worth keeping of a result that is taken away: its first line and the names that may be quoted
later.

Read with: ``clearing.py``.
"""

import re
from typing import Final

_LOOKED_AT: Final = 10_000  # characters, half of them from the end: summaries of test runs stand there
_WORD: Final = re.compile(r"[\w./-]+(?:::[\w.\[\]-]+)*")
_LONGEST: Final = 120  # characters of a name
# The strongest first: what is least likely to be said twice in other words.
_NAMES: Final = re.compile(
    r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"  # uuid
    r"|((?!UTF-|SHA-|ISO-|AES-)[A-Z][A-Z0-9]{1,9}-\d{1,7})"  # ticket
    r"|([\w./-]+(?:::[\w.\[\]-]+)+)"  # test of pytest
    r"|((?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})"  # commit
    r"|(test\w*(?:\.\w+){2,})"  # test of unittest
    r"|([\w.-]*(?:/[\w.-]+)*/[\w.-]+\.\w{1,8})"  # path
)


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
    ranked: dict[str, int] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isalpha() or len(word) > _LONGEST:
            continue
        name = word.strip(".-")
        if found := _NAMES.fullmatch(name):
            ranked.setdefault(name, found.lastindex or 0)
    return sorted([name for name in ranked if name not in known], key=lambda name: ranked[name])


def _fitting(names: list[str], room: int) -> str:
    """As many names as there is room for, commas between them."""
    taken: list[str] = []
    for name in names:
        room -= len(name) + (2 if taken else 0)
        if room < 0:
            break
        taken.append(name)
    return ", ".join(taken)
