"""``glob``: files by name, newest first."""

import heapq
from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar

from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_RESULT, render, shown

from .patterns import Glob
from .root import Roots
from .sweep import Found, Kind, Sweep

MAX_HITS = 200
T = TypeVar("T")


def glob_tool(root: Roots) -> FunctionTool[..., str]:
    """The tool ``glob`` on ``root``."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT)
    def glob(pattern: str, ctx: ToolContext, path: str = ".", no_ignore: bool = False) -> str:
        """Find files by name, newest first. Hidden files are found, what .gitignore leaves out is not.

        Args:
            pattern: a glob such as *.py, src/**/test_*.py or *.{ts,tsx}; without a / it is matched
                with base names at any depth; with a / at its end it finds directories
            path: the directory to search, relative to the root directory
            no_ignore: find what .gitignore leaves out as well, and what is in .git, node_modules and the like
        """
        compiled = Glob(pattern)
        kinds: tuple[Kind, ...] = ("dir",) if compiled.only_dirs else ("file", "link")
        sweep = Sweep(root.at(ctx), path, compiled, kinds, no_ignore=no_ignore)
        dated = _Counted(_dated(sweep.entries(ctx)))
        hits = heapq.nsmallest(MAX_HITS, dated)
        notes = sweep.notes()
        if not hits:
            notes.insert(0, f"nothing matches {shown(pattern)} in {shown(path)}")
        if dated.count > len(hits):
            notes.insert(0, f"the newest {len(hits)} of {dated.count}: use a narrower pattern or path")
        return render([shown(path) for _, path in hits], notes)

    return glob


def _dated(entries: Iterator[Found]) -> Iterator[tuple[float, str]]:
    """How the entries are ordered: the newest first, then by path; at the end what has no time that can be known."""
    for found in entries:
        try:
            yield -found.stat().st_mtime, found.path
        except FileNotFoundError:
            continue  # gone since
        except OSError:
            yield inf, found.path


class _Counted(Iterable[T]):
    """An iterable that knows how much of it was taken."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[T]:
        for item in self._items:
            self.count += 1
            yield item
