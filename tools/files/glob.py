"""``glob``: files by name, newest first."""

import heapq
from collections.abc import Iterable, Iterator
from typing import TypeVar

from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_RESULT, render, shown

from .patterns import Glob
from .root import Root
from .sweep import Sweep

MAX_HITS = 200
T = TypeVar("T")


def glob_tool(root: Root) -> FunctionTool[..., str]:
    """The tool ``glob`` on ``root``."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT)
    def glob(pattern: str, ctx: ToolContext, path: str = ".") -> str:
        """Find files by name, newest first.

        Args:
            pattern: a glob such as *.py, src/**/test_*.py or *.{ts,tsx}; without a / it is matched
                with base names at any depth; with a / at its end it finds directories
            path: the directory to search, relative to the root directory
        """
        compiled = Glob(pattern)
        sweep = Sweep(root, path, compiled, ("dir",) if compiled.only_dirs else ("file", "link"))
        found = _Counted(sweep.entries(ctx))
        hits = heapq.nsmallest(MAX_HITS, found, key=lambda entry: (-entry.mtime, entry.path))
        notes = sweep.notes()
        if not hits:
            notes.insert(0, f"nothing matches {shown(pattern)} in {shown(path)}")
        if found.count > len(hits):
            notes.insert(0, f"the newest {len(hits)} of {found.count}: use a narrower pattern or path")
        return render([shown(entry.path) for entry in hits], notes)

    return glob


class _Counted(Iterable[T]):
    """An iterable that knows how much of it was taken."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[T]:
        for item in self._items:
            self.count += 1
            yield item
