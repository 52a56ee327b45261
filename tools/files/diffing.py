"""A unified diff of two versions of a file, for people and models to read: bounded in time and in size."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from unspool.kernel.json_edge import clean_text
from unspool.tools.text import count_text, shown

from .merging import shared_ends
from .newlines import split_lines

CONTEXT = 4  # lines around a change
MAX_LINES = 160
MAX_SIZE = 12_000  # characters
_MAX_LINE = 500
_MAX_COMPARED = 2000  # lines on either side, between those that are the same at both ends


class Diff(NamedTuple):
    """``first_changed_line`` is counted from 1 in the new text; 0 where nothing changed."""

    text: str
    first_changed_line: int


def diff_texts(before: str, after: str, path: str) -> Diff:
    """What turned ``before`` into ``after``, as a unified diff with 4 lines of context, cut to a bound."""
    if before == after:
        return Diff("", 0)
    head, tail = shared_ends(before, after)
    head = before.rfind("\n", 0, head) + 1  # whole lines only
    above = before.count("\n", 0, head)
    newline = before.find("\n", len(before) - tail)
    tail = len(before) - newline - 1 if newline >= 0 else 0
    start, more = _back(before, head), _forth(before, len(before) - tail)
    old, new = split_lines(before[start:more]), split_lines(after[start : len(after) - len(before) + more])
    lines = [f"--- {shown(path)}", f"+++ {shown(path)}"]
    size, cut = 0, 0
    for line in _hunks(old, new, before.count("\n", 0, start)):
        size += len(line) + 1
        if len(lines) >= MAX_LINES or size > MAX_SIZE:
            cut += 1
        else:
            lines.append(line)
    if cut:
        lines.append(f"… (diff cut: {count_text(cut, 'line')} more)")
    return Diff(clean_text("\n".join(lines)), above + 1)


def _back(text: str, at: int) -> int:
    """The start of the line 4 lines above the one that begins at ``at``."""
    for _ in range(CONTEXT):
        at = text.rfind("\n", 0, max(at - 1, 0)) + 1
    return at


def _forth(text: str, at: int) -> int:
    """The start of the line 4 lines below the one that begins at ``at``, or the end of the text."""
    for _ in range(CONTEXT):
        at = text.find("\n", at) + 1 or len(text)
    return at


def _hunks(old: list[str], new: list[str], above: int) -> Iterator[str]:
    """The hunks of two lists of lines that come after ``above`` others."""
    is_short = max(len(old), len(new)) <= _MAX_COMPARED
    a, b = old[:_MAX_COMPARED], new[:_MAX_COMPARED]
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT):
        (_, i, _, k, _), (_, _, j, _, m) = group[0], group[-1]
        if not is_short and max(j, m) == _MAX_COMPARED and i:
            break  # the end of what was compared, not of what changed
        yield f"@@ -{_range(above + i, above + j)} +{_range(above + k, above + m)} @@"
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from _marked(" ", a[start:end])
            else:
                yield from _marked("-", a[start:end])
                yield from _marked("+", b[new_start:new_end])
    if not is_short:
        yield "… (too long to be compared further)"


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        body = line.removesuffix("\n").removesuffix("\r")
        yield mark + (body if len(body) <= _MAX_LINE else f"{body[:_MAX_LINE]}…")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _range(start: int, stop: int) -> str:
    """Lines as a hunk header counts them: the line before, for none."""
    count = stop - start
    return str(start + 1) if count == 1 else f"{start + (count > 0)},{count}"
