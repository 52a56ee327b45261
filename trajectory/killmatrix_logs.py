"""Logs that kill their process at any place inside an append or a flush, and what is on the disk then.

Nothing is faked: half a line is written by the system's own ``write``; a transaction of SQLite dies
between its statements, or in the middle of writing its WAL file, by a limit on the size of files that
the system enforces with a deadly signal.

Read with: ``killmatrix_points.py``, ``jsonl.py``, ``sqlite_file.py``.
"""

import os
import resource
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from unspool.kernel.codec import Codec
from unspool.kernel.events import Fact, Signal

from .blobs import FolderBlobs
from .durability import BUFFERED, EACH_FLUSH, Durability
from .header import MAGIC, About
from .jsonl import JsonlLog
from .killmatrix_points import Points, die
from .sqlite import SqliteLog
from .sqlite_file import SHIFT, Database
from .sqlite_sessions import SqliteSessions
from .stored_log import StoredLog

SESSION = "killed"
Tell = Callable[[str], None]
"""What an acknowledgement is told to: the head of the log as text."""


def durability_for(points: Points) -> Durability:
    """The disk is waited for where the process dies at a flush, or nobody kills it."""
    return BUFFERED if points.end and points.end.kind not in ("flush", "sync", "flushed") else EACH_FLUSH


class _Doomed(StoredLog):
    """A log that comes to a place before and after each append; tells what was stored before it returns."""

    _points: Points
    _tell: Tell

    def append(self, fact: Fact | Signal, /) -> None:
        """See ``StoredLog.append``."""
        self._points.reach("before")
        super().append(fact)
        self._tell(str(self.head))
        self._points.reach("acked")


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


class DoomedJsonl(_Doomed, JsonlLog):
    def __init__(
        self, path: str, points: Points, tell: Tell, session: str = SESSION, **about: Unpack[About]
    ) -> None:
        self._points, self._tell = points, tell
        super().__init__(path, durability=durability_for(points), session=session, **about)
        self._blobs = _DoomedBlobs(self._blobs.folder, points)

    def _write(self, line: bytes) -> None:
        header = line.startswith(MAGIC)
        if self._points.is_end("aside" if header else "torn"):
            os.write(self._fd, line[: len(line) // 2])
            die()
        super()._write(line)
        self._points.reach("aside" if header else "written")

    async def flush(self) -> None:
        """See ``JsonlLog.flush``."""
        self._points.reach("flush")
        await super().flush()
        self._points.reach("flushed")

    def _sync(self) -> None:
        self._points.reach("sync")
        super()._sync()


_FRAME = 24 + 4096  # bytes of a page in the WAL file
_STATEMENTS = 4  # told of in an append: itself, its trigger, the record, the head


class DoomedSqlite(_Doomed, SqliteLog):
    def __init__(self, database: "DoomedDatabase", points: Points, tell: Tell, session: str) -> None:
        self._points, self._tell = points, tell
        super().__init__(database, session, Codec(), durability_for(points), ())

    async def flush(self) -> None:
        """See ``SqliteLog.flush``."""
        self._points.reach("flush")
        await super().flush()
        self._points.reach("flushed")


PointsOf = Callable[[str], Points]
"""The points of what a session comes to."""


class DoomedDatabase(Database):
    def __init__(self, path: str, points: Points, points_of: PointsOf) -> None:
        self._points = points
        self._points_of = points_of
        self._told = 0
        super().__init__(path)

    def execute(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        if not statement.startswith("INSERT INTO appends"):
            if not statement.startswith(("SELECT", "PRAGMA")):
                self._points.reach("aside")
            return super().execute(statement, values)
        values = tuple(values)
        points = self._points_of(self._session_of(values[0]))
        if points.is_end("open"):
            self._connection.set_trace_callback(self._die_before_head)
        if points.is_end("torn"):
            self._limit_file(half_frames=1 if points.end and points.end.number % 2 else 3)
        cursor = super().execute(statement, values)
        points.reach("written")
        return cursor

    def _session_of(self, key: int) -> str:
        return str(self.rows("SELECT name FROM sessions WHERE id = ?", (key >> SHIFT,))[0][0])

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


class DoomedSessions(SqliteSessions):
    """Sessions of a SQLite file, in it and in each of them places to die at."""

    def __init__(
        self, path: str, points: Points, points_of: PointsOf, tell_of: Callable[[str], Tell]
    ) -> None:
        database = DoomedDatabase(path, points, points_of)  # the first to come: it makes the tables
        super().__init__(path, durability=durability_for(points))
        self._database.close()
        self._doomed = self._database = database
        self._points_of, self._tell_of = points_of, tell_of

    def open(self, session: str) -> DoomedSqlite:
        """See ``Sessions.open``."""
        return DoomedSqlite(self._doomed, self._points_of(session), self._tell_of(session), session)
