"""Hunks from the lines of a patch, as both forms have them."""

import re
from collections.abc import Sequence

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .hunks import Hunk, HunkLine

_NUMBERS = re.compile(r"@@ +-(\d+)(?:,(\d+))? +\+(\d+)(?:,(\d+))? +@@")


class HunkBuilder:
    """Takes lines of the file ``path`` until the hunk is complete.

    ``counts`` are how many old and new lines its header announces.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.counts: tuple[int, int] | None = None
        self._first: tuple[int, int] | None = None  # in the old and in the new file
        self._headers: list[str] = []
        self._lines: list[HunkLine] = []
        self._solid = 0  # lines without the empty ones at the end, which may not belong to the hunk

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    @property
    def is_begun(self) -> bool:
        return bool(self._lines or self._headers)

    def header(self, line: str) -> None:
        """Take a line that begins with @@: line numbers, or a line of the file above the hunk."""
        if numbers := _NUMBERS.match(line):
            first, old, new_first, new = numbers.groups()
            self._first = int(first), int(new_first)
            self.counts = int(old or 1), int(new or 1)
            return
        text = line[2:].strip().removesuffix("@@").strip()
        if text.strip("."):  # "@@ ... @@" says nothing
            self._headers.append(text)

    def add(self, line: str) -> bool:
        """Take a line of the hunk; False for one that can't be. An empty one is a blank line of the file."""
        if line in ("", "\r"):
            if self._lines:
                self._lines.append(HunkLine(" ", line))
            return True
        match line[0]:
            case "\\" if self._lines:
                self._lines[-1] = self._lines[-1]._replace(has_newline=False)
            case " " | "-" | "+" as mark:
                self._lines.append(HunkLine(mark, line[1:]))
            case _:
                return False
        self._solid = len(self._lines)
        return True

    def build(self, before: Sequence[Hunk], *, at_end: bool = False, is_counted: bool = False) -> Hunk:
        """The hunk, after those ``before`` in the same file.

        Empty lines at its end belong to it only if the file ends there, or they were counted. Its line number is
        believed only if the numbers of its header fit its lines and each other: some writers make them up.

        Raises:
            ToolError: it changes nothing.
        """
        lines = tuple(self._lines if at_end or is_counted else self._lines[: self._solid])
        if all(line.mark == " " for line in lines):
            raise ToolError(
                f"hunk {len(before) + 1} of {shown(self._path)} changes nothing: mark removed lines with - and added "
                "ones with +"
            )
        hunk = Hunk(lines, None, tuple(self._headers), at_end)
        return (
            hunk._replace(first=self._first[0]) if self._first and self._is_consistent(hunk, before) else hunk
        )

    def _is_consistent(self, hunk: Hunk, before: Sequence[Hunk]) -> bool:
        counts = self.counts
        if not self._first or counts is None or counts != (len(hunk.old), len(hunk.old) + hunk.growth):
            return False
        first, new_first = self._first
        # of no lines, the number is that of the line before
        moved = (new_first + (counts[1] == 0)) - (first + (counts[0] == 0))
        return moved == sum(each.growth for each in before)
