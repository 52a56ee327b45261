"""Hunks of a patch, whatever form it has."""

from typing import Literal, NamedTuple


class HunkLine(NamedTuple):
    """A line of a hunk without its newline; a \\r at its end is still there. ``has_newline`` is False only for the last
    line of a file that ends without one."""

    mark: Literal[" ", "-", "+"]
    text: str
    has_newline: bool = True


class Hunk(NamedTuple):
    """Lines that are kept, removed and added.

    ``first`` is the number of the first old line, if the patch has one that can be believed. ``headers`` are lines of the file above it.
    ``at_end`` says that the file ends with it.
    """

    lines: tuple[HunkLine, ...]
    first: int | None = None
    headers: tuple[str, ...] = ()
    at_end: bool = False

    @property
    def old(self) -> list[HunkLine]:
        return [line for line in self.lines if line.mark != "+"]

    @property
    def growth(self) -> int:
        """How many lines the file has more after it."""
        return sum({"+": 1, "-": -1, " ": 0}[line.mark] for line in self.lines)

    @property
    def ends_file(self) -> bool:
        """Whether a line of it has no newline, so that nothing can come after it."""
        return not all(line.has_newline for line in self.lines)
