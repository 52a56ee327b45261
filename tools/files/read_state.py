"""What each agent has read: which content of which file, all of it or a part; and some of the contents themselves.

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
MAX_KEPT: Final = 256 << 10  # bytes of a content that is kept
MAX_ALL_KEPT: Final = 8 << 20

Reader: TypeAlias = tuple[str, tuple[str, ...]]
"""A session and the names of its agent."""
Lines: TypeAlias = tuple[int, int]
"""The first and the last line of a part, from 1."""


class Stamp(NamedTuple):
    """A content that was read. Of a part, ``seen`` are the lines in order; empty where they are not known.

    ``version`` is that of an open buffer; empty where there was none.
    """

    sha256: str
    partial: bool = False
    seen: tuple[Lines, ...] = ()
    version: str = ""


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
        version: str = "",
    ) -> None:
        """Note a reading. Parts of one content add up: lines 1 to ``total`` in several parts are all of it."""
        with self._lock:
            stamps = self._stamps.setdefault(reader, OrderedDict())
            old = stamps.get(path)
            if old is None or old.sha256 != sha256:
                old = Stamp(sha256, partial=True)
            if partial and old.partial:
                seen = _merged((*old.seen, *([lines] if lines else ())))
                stamps[path] = Stamp(sha256, total is None or seen != ((1, total),), seen, version)
            else:
                stamps[path] = Stamp(sha256, version=version)
            stamps.move_to_end(path)
            self._stamps.move_to_end(reader)
            if len(stamps) > MAX_FILES:
                stamps.popitem(last=False)
            if len(self._stamps) > MAX_READERS:
                self._stamps.popitem(last=False)

    def drop(self, reader: Reader, path: str) -> None:
        with self._lock:
            self._stamps.get(reader, OrderedDict()).pop(path, None)


class Contents:
    """Contents that were read last, by their SHA-256: to tell what is different now. Large ones are not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def get(self, sha256: str) -> bytes | None:
        with self._lock:
            return self._kept.get(sha256)

    def keep(self, sha256: str, data: bytes) -> None:
        if len(data) > MAX_KEPT:
            return
        with self._lock:
            if sha256 not in self._kept:
                self._kept[sha256] = data
                self._size += len(data)
            self._kept.move_to_end(sha256)
            while self._size > MAX_ALL_KEPT:
                self._size -= len(self._kept.popitem(last=False)[1])


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
