"""The lines that ``grep`` shows: hits as path:line:text, those around them as path-line-text."""

from collections.abc import Iterable

from unspool.tools.text import MAX_OUTPUT, shown

from .search_pattern import Hit

MAX_LINE = 500  # characters shown of one line
_BEFORE = 100  # characters kept before a match in a line that is cut


class HitList:
    """Hits of one search, file after file, with ``context`` lines before and after each."""

    def __init__(self, context: int) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._context = context
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size >= MAX_OUTPUT

    def add(self, path: str, text: str, hits: Iterable[Hit]) -> None:
        """Show the hits in a file as they come; ``--`` stands between those that are apart."""
        lines: list[str] = []
        shown_to, after = -1, -1  # the last line shown, and the last that belongs to a hit
        for hit in hits:
            lines = lines or text.removesuffix("\n").split("\n")
            self._show_range(path, lines, range(shown_to + 1, min(after + 1, hit.number)))
            shown_to = max(shown_to, min(after, hit.number - 1))
            before = max(shown_to + 1, hit.number - self._context)
            if self._context and self.lines and (shown_to < 0 or before > shown_to + 1):
                self._show("--")
            self._show_range(path, lines, range(before, hit.number))
            self._show_line(path, hit.number, lines[hit.number], hit.at)
            self.count += 1
            shown_to, after = hit.number, hit.number + self._context
        self._show_range(path, lines, range(shown_to + 1, min(after + 1, len(lines))))

    def _show_range(self, path: str, lines: list[str], numbers: range) -> None:
        for number in numbers:
            self._show_line(path, number, lines[number])

    def _show_line(self, path: str, number: int, line: str, at: int | None = None) -> None:
        mark = "-" if at is None else ":"
        self._show(f"{shown(path)}{mark}{number + 1}{mark}{_cut(line, at or 0)}")

    def _show(self, line: str) -> None:
        if not self.is_full:
            self.lines.append(line)
            self._size += len(line.encode()) + 1


def _cut(line: str, at: int) -> str:
    """At most ``MAX_LINE`` characters of a line, the place ``at`` among them."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(at - _BEFORE, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
