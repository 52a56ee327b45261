"""Whole lines of a file that are nearly the lines of an old text. Pure functions."""

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from .folding import FoldedView, fold
from .indent import Reindent
from .similarity import similarity
from .spans import Span, find_all

MIN_SIMILARITY = 0.7  # of what is between two anchors
_CLEAR_LEAD = 0.1  # over the second best block
_MAX_ANCHORS = 200  # blocks with the right first and last line that are compared


class Block(NamedTuple):
    span: Span
    indent: Reindent


class _Old(NamedTuple):
    """The lines of an old text, and whether the newline of the last one belongs to it."""

    lines: list[str]
    stripped: list[str]
    with_newline: bool


def reindented_blocks(file: FoldedView, old: str, new: str) -> list[Block]:
    """Blocks with the same lines but for their indentation, which differs the same way in all lines."""
    wanted = _old(old)
    if len(wanted.lines) < 2 or not any(wanted.stripped):
        return []
    stripped = [line.strip() for line in file.lines]
    ends = list(accumulate((len(line) + 1 for line in stripped), initial=1))
    # each line between two newlines, so that only whole lines are found
    blocks = []
    pattern = "\n".join(["", *wanted.stripped, ""])
    for start, _ in find_all("\n".join(["", *stripped, ""]), pattern, shared=1):
        first = bisect_left(ends, start + 1)
        if block := _block(file, wanted, new, first):
            blocks.append(block)
    return blocks


def anchored_blocks(file: FoldedView, old: str, new: str) -> list[Block]:
    """The block that is most like ``old`` among those with its first and last line; several if it's close.

    Only blocks of as many lines are looked at: a line that the model did not know of is never replaced.
    """
    wanted = _old(old)
    size = len(wanted.lines)
    if size < 3 or not wanted.stripped[0] or not wanted.stripped[-1]:
        return []
    stripped = [line.strip() for line in file.lines]
    firsts = [
        at
        for at in range(len(stripped) - size + 1)
        if stripped[at] == wanted.stripped[0] and stripped[at + size - 1] == wanted.stripped[-1]
    ]
    if len(firsts) > _MAX_ANCHORS:
        return []
    scored = [(similarity(wanted.stripped[1:-1], stripped[at + 1 : at + size - 1]), at) for at in firsts]
    near = [(score, at) for score, at in scored if score >= MIN_SIMILARITY]
    best = max(near, default=(0.0, 0))[0]
    blocks = [_block(file, wanted, new, at) for score, at in near if score > best - _CLEAR_LEAD]
    return [block for block in blocks if block]


def _old(old: str) -> _Old:
    lines = old.split("\n")
    with_newline = lines[-1] == ""
    if with_newline:
        lines.pop()
    return _Old(lines, [fold(line).strip() for line in lines], with_newline)


def _block(file: FoldedView, old: _Old, new: str, first: int) -> Block | None:
    stop = first + len(old.lines)
    indent = Reindent.learn([fold(line) for line in old.lines], file.lines[first:stop], new.split("\n"))
    if indent is None:
        return None
    return Block(file.line_span(first, stop, with_newline=old.with_newline), indent)
