"""Logs that kill their process at any place inside an append or a flush, and what is on the disk then.

Nothing is faked: half a line is written by the system's own ``write``; a transaction of SQLite dies
between its statements, or in the middle of writing its WAL file, by a limit on the size of files that
the system enforces with a deadly signal.

Read with: ``killmatrix_points.py``, ``jsonl.py``, ``sqlite_file.py``.
"""

import os
import resource
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from unspool.kernel.codec import Codec
from unspool.kernel.events import Fact
from unspool.kernel.state import AgentState

from .blobs import FolderBlobs
from .durability import BUFFERED, EACH_FLUSH, Durability
from .header import MAGIC
from .jsonl import JsonlLog
from .killmatrix_points import Points, die
from .sqlite import SqliteLog
from .sqlite_file import Database

SESSION = "killed"
Tell = Callable[[str], None]
"""What an acknowledgement is told to: the head of the log as text."""


def durability_for(points: Points) -> Durability:
    """The disk is waited for where the process dies at a flush, or nobody kills it."""
    return BUFFERED if points.end and points.end.kind not in ("flush", "sync", "flushed") else EACH_FLUSH


class DoomedLog:
    """A log between the agent and the real one; tells what was acknowledged before it returns."""

    def __init__(self, log: JsonlLog | SqliteLog, points: Points, tell: Tell) -> None:
        self._log = log
        self._points = points
        self._tell = tell

    @property
    def session(self) -> str:
        return self._log.session

    def state(self, codec: Codec | None = None, /) -> AgentState:
        """See ``SessionLog.state``."""
        return self._log.state(codec)

    def append(self, fact: Fact, /) -> None:
        """See ``EventLog.append``."""
        self._points.reach("before")
        self._log.append(fact)
        self._tell(str(self._log.head))
        self._points.reach("acked")

    async def flush(self) -> None:
        """See ``EventLog.flush``."""
        self._points.reach("flush")
        await self._log.flush()
        self._points.reach("flushed")

    def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        """See ``EventLog.read``."""
        return self._log.read(start, stop)

    def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """See ``EventLog.tail``."""
        return self._log.tail(start)

    async def aclose(self) -> None:
        """See ``EventLog.aclose``."""
        await self._log.aclose()


class _DoomedBlobs(FolderBlobs):
    def __init__(self, folder: str, points: Points) -> None:
        super().__init__(folder)
        self._points = points

    def put(self, data: bytes, /) -> str:
        self._points.reach("aside")
        digest = super().put(data)
        self._points.reach("aside")
        return digest

    def _write(self, path: str, data: bytes) -> None:
        if self._points.is_end("aside"):
            super()._write(f"{path}.0-0.part", data[: len(data) // 2])  # what it is called until it is whole
            die()
        super()._write(path, data)


class DoomedJsonl(JsonlLog):
    def __init__(self, path: str, points: Points) -> None:
        self._points = points
        super().__init__(path, durability=durability_for(points), session=SESSION)
        self._blobs = _DoomedBlobs(self._blobs.folder, points)

    def _write(self, line: bytes) -> None:
        header = line.startswith(MAGIC)
        if self._points.is_end("aside" if header else "torn"):
            os.write(self._fd, line[: len(line) // 2])
            die()
        super()._write(line)
        self._points.reach("aside" if header else "written")

    def _sync(self) -> None:
        self._points.reach("sync")
        super()._sync()


_FRAME = 24 + 4096  # bytes of a page in the WAL file
_STATEMENTS = 4  # told of in an append: itself, its trigger, the record, the head


class DoomedDatabase(Database):
    def __init__(self, path: str, points: Points) -> None:
        self._points = points
        self._told = 0
        super().__init__(path)

    def execute(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        if not statement.startswith("INSERT INTO appends"):
            if not statement.startswith(("SELECT", "PRAGMA")):
                self._points.reach("aside")
            return super().execute(statement, values)
        if self._points.is_end("open"):
            self._connection.set_trace_callback(self._die_before_head)
        if self._points.is_end("torn"):
            self._limit_file(half_frames=1 if self._points.end and self._points.end.number % 2 else 3)
        cursor = super().execute(statement, values)
        self._points.reach("written")
        return cursor

    def _die_before_head(self, statement: str) -> None:
        self._told += 1
        if self._told == _STATEMENTS:
            die()  # the record is inserted, the head not updated, nothing committed

    def _limit_file(self, half_frames: int) -> None:
        """Let the system kill this process once the WAL file has grown by so much: within its next frame,
        or with that one whole and the one that commits it torn."""
        size = os.path.getsize(f"{self.path}-wal") + half_frames * _FRAME // 2
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def sync(self) -> None:
        self._points.reach("sync")
        super().sync()
