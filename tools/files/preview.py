"""What a person is shown of a file that is about to be written: the first lines, or the first differences."""

import difflib
from collections.abc import Sequence

from unspool.kernel.json_edge import clean_text
from unspool.tools.text import count_text

MAX_SHOWN = 12  # lines
_MAX_LINE = 200  # characters
_MAX_COMPARED = 4000  # lines on either side; to compare more takes too long


def new_lines(text: str) -> str:
    """The first lines of a new file, numbered, and how many there are more."""
    lines = _lines(text)
    return _cut([f"{number} + {line}" for number, line in enumerate(lines, 1)])


def changed_lines(old: str, new: str) -> str:
    """A unified diff without its header, cut, and how many lines it has more."""
    before, after = _lines(old), _lines(new)
    if before == after:
        return "no line changes"
    if max(len(before), len(after)) > _MAX_COMPARED:
        return f"{count_text(len(before), 'line')} before, {len(after)} after: too many to compare"
    return _cut(list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:])


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _cut(lines: Sequence[str]) -> str:
    shown = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…" for line in lines[:MAX_SHOWN]]
    if len(lines) > MAX_SHOWN:
        shown.append(f"… {count_text(len(lines) - MAX_SHOWN, 'more line')}")
    return clean_text("\n".join(shown))
