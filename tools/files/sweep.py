"""The walk that ``glob`` and ``grep`` share: entries that match, and an account of the rest."""

from collections.abc import Iterator

from unspool.kernel.ports import ToolContext
from unspool.tools.text import shown_list

from .patterns import Glob
from .root import Entry, Kind, Root

IGNORED = frozenset({".git", "node_modules", "__pycache__", ".venv"})  # large, and rarely what is meant


class Sweep:
    """Entries of some kinds below a directory, all or those a pattern matches.

    Directories in ``IGNORED`` are left out unless the pattern names them.
    """

    def __init__(self, root: Root, path: str, pattern: Glob | None, kinds: tuple[Kind, ...]) -> None:
        self._root = root
        self._path = path
        self._pattern = pattern
        self._kinds = kinds
        self._ignored: list[str] = []
        self._unreadable: list[str] = []

    def entries(self, ctx: ToolContext) -> Iterator[Entry]:
        """The entries, level by level; run it to its end before asking for ``notes``."""
        pattern = self._pattern
        walk = self._root.walk(
            self._path,
            ignore=IGNORED - pattern.literals if pattern else IGNORED,
            enter=pattern.may_match_below if pattern else lambda below: True,
            stop=lambda: ctx.cancelled,
        )
        for entry in walk:
            if entry.kind == "ignored":
                self._ignored.append(f"{entry.path}/")
            elif entry.kind == "unreadable":
                self._unreadable.append(f"{entry.path}/")
            elif entry.kind in self._kinds and (pattern is None or pattern.matches(entry.below)):
                yield entry

    def notes(self) -> list[str]:
        notes = []
        if self._ignored:
            notes.append(f"left out: {shown_list(self._ignored, 5)}")
        if self._unreadable:
            notes.append(f"not readable: {shown_list(self._unreadable, 5)}")
        return notes
