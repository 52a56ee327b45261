"""Text in which what looks alike is alike, and the way back to the text itself. Pure functions.

Typographic quotes, dashes and spaces become ASCII, compatibility and composed characters their
decomposed forms (NFKD), and blanks at the ends of lines are left out. A place found in the folded text
counts only where it begins and ends with whole characters of the text: the e of é is not an e.
"""

import unicodedata
from bisect import bisect_right
from itertools import accumulate

from .newlines import View
from .spans import Span, find_all

_ALIKE = str.maketrans(
    dict.fromkeys("‘’‚‛", "'") | dict.fromkeys("“”„‟", '"') | dict.fromkeys("‐‑‒–—―−", "-") | {"\u1680": " "}
)
_BLANKS = " \t"
_CHUNK = 1024  # characters of a long line that are counted at once


def fold(text: str) -> str:
    """``text`` with look-alikes made alike; blanks stay. Each character is folded on its own."""
    return text if text.isascii() else unicodedata.normalize("NFKD", text).translate(_ALIKE)


class FoldedView:
    """A view, folded. ``lines`` are the folded lines; a last line without a newline counts as one with."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._plain = view.shown.split("\n")
        if self._plain[-1] == "":
            self._plain.pop()
        self.lines = [fold(line).rstrip(_BLANKS) for line in self._plain]
        self.shown = "".join([f"{line}\n" for line in self.lines])
        self._starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self._plain_starts = list(accumulate((len(line) + 1 for line in self._plain), initial=0))

    def find(self, old: str) -> list[Span]:
        """The places of ``old`` in the view's shown text."""
        *above, last = [fold(line) for line in old.split("\n")]
        kept = last.rstrip(_BLANKS)
        tail = last[len(kept) :]
        pattern = "\n".join([*(line.rstrip(_BLANKS) for line in above), kept])
        if not pattern.strip():
            return []
        spans: list[Span] = []
        free = 0  # the tail of one place may be where the next begins
        for start, end in find_all(self.shown, pattern):
            if tail and self.shown[end : end + 1] != "\n":
                if not self.shown.startswith(tail, end):
                    continue
                end += len(tail)
            if tail and start < free:
                continue
            if span := self._span(start, end):
                spans.append(span)
                free = end
        return spans

    def line_span(self, first: int, stop: int, *, with_newline: bool) -> Span:
        """The range of whole lines in the view's shown text, ``first`` and ``stop`` counted from 0."""
        end = self._plain_starts[stop] - (0 if with_newline else 1)
        return Span(self._plain_starts[first], min(end, len(self.view.shown)))

    def _span(self, start: int, end: int) -> Span | None:
        if self._is_mark(start) or self._is_mark(end):
            return None
        first, last = self._offset(start, is_end=False), self._offset(end, is_end=True)
        return None if first is None or last is None else Span(first, last)

    def _is_mark(self, at: int) -> bool:
        return unicodedata.combining(self.shown[at : at + 1] or " ") != 0

    def _offset(self, at: int, *, is_end: bool) -> int | None:
        """The same place in the view; blanks at the end of a line are outside what begins or ends there.

        None in the middle of a character.
        """
        line = bisect_right(self._starts, at) - 1
        if line == len(self.lines):
            return len(self.view.shown)
        column = at - self._starts[line]
        if column == len(self.lines[line]) and not is_end:
            return self._plain_starts[line] + len(self._plain[line])
        within = _column(self._plain[line], column)
        return None if within is None else self._plain_starts[line] + within


def _column(line: str, folded: int) -> int | None:
    """How many characters of ``line`` make that many folded ones; None where one is cut in two."""
    if line.isascii():
        return folded
    at = length = 0
    while (more := len(fold(line[at : at + _CHUNK]))) and length + more < folded:
        at, length = at + _CHUNK, length + more
    for count, char in enumerate(line[at : at + _CHUNK], at):
        if length >= folded:
            return count if length == folded else None
        length += len(fold(char))
    return min(at + _CHUNK, len(line)) if length == folded else None
