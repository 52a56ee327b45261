"""What each agent has read: which content of which file, all of it or a part.

Stamps are compared by the SHA-256 of the content: a new time on the same bytes is no change, other bytes of the same
size and time are one. They are bounded; what was read long ago is forgotten: it must be read again.
Thread-safe. Read with: ``workspace.py``.
"""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

from unspool.kernel.ports import ToolContext

MAX_READERS: Final = 256
MAX_FILES: Final = 4096  # for each reader

Reader: TypeAlias = tuple[str, tuple[str, ...]]
"""A session and the names of its agent."""
Lines: TypeAlias = tuple[int, int]
"""The first and the last line of a part, from 1."""


class Stamp(NamedTuple):
    """A content that was read. Of a part, ``seen`` are the lines in order; empty where they are not known."""

    sha256: str
    partial: bool = False
    seen: tuple[Lines, ...] = ()


class ReadState:
    """Stamps by reader and by path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamps: OrderedDict[Reader, OrderedDict[str, Stamp]] = OrderedDict()

    def get(self, reader: Reader, path: str) -> Stamp | None:
        with self._lock:
            stamps = self._stamps.get(reader)
            if not stamps or path not in stamps:
                return None
            stamps.move_to_end(path)
            return stamps[path]

    def add(
        self,
        reader: Reader,
        path: str,
        sha256: str,
        *,
        partial: bool = False,
        lines: Lines | None = None,
        total: int | None = None,
    ) -> None:
        """Note a reading. Parts of one content add up: lines 1 to ``total`` in several parts are all of it."""
        with self._lock:
            stamps = self._stamps.setdefault(reader, OrderedDict())
            old = stamps.get(path)
            if old is None or old.sha256 != sha256:
                old = Stamp(sha256, partial=True)
            if partial and old.partial:
                seen = _merged((*old.seen, *([lines] if lines else ())))
                stamps[path] = Stamp(sha256, total is None or seen != ((1, total),), seen)
            else:
                stamps[path] = Stamp(sha256)
            stamps.move_to_end(path)
            self._stamps.move_to_end(reader)
            if len(stamps) > MAX_FILES:
                stamps.popitem(last=False)
            if len(self._stamps) > MAX_READERS:
                self._stamps.popitem(last=False)

    def drop(self, reader: Reader, path: str) -> None:
        with self._lock:
            self._stamps.get(reader, OrderedDict()).pop(path, None)


def reader_of(ctx: ToolContext) -> Reader:
    """Whose stamps a call's are."""
    return ctx.session, tuple(ctx.agent)


def _merged(parts: tuple[Lines, ...]) -> tuple[Lines, ...]:
    """Ranges in order, those that touch made one."""
    merged: list[Lines] = []
    for first, last in sorted(parts):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
