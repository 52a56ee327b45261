"""Where two JSON values differ."""

from collections.abc import Iterator
from typing import Any, Final

_SHOWN_CHARS: Final = 200


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


def differences(ours: Any, theirs: Any, path: str = "$") -> Iterator[str]:
    """Where two JSON values differ, a line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key, ABSENT), theirs.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(our, their, f"{path}[{index}]")
    elif ours != theirs or (isinstance(ours, bool) != isinstance(theirs, bool)):
        yield f"{path}: {_shown(ours)} and {_shown(theirs)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
