"""Where the killed session is stored: how its log is opened, and looked at without opening it.

Read with: ``killmatrix_logs.py`` (what is opened), ``killmatrix_processes.py``.
"""

import os
import warnings
from collections.abc import Callable
from typing import NamedTuple, Protocol

from unspool.kernel.codec import Codec
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .jsonl_reading import LogReader
from .killmatrix_logs import SESSION, DoomedDatabase, DoomedJsonl, DoomedLog, Tell, durability_for
from .killmatrix_points import Points
from .loading import decode_line
from .record import hash_of_record
from .sqlite import Rows
from .sqlite_file import Database
from .sqlite_sessions import SqliteSessions
from .verify import Report, verify


class Stored(NamedTuple):
    """A fact, and the hash of its record."""

    fact: Fact
    hash: str


class Store(Protocol):
    """Where the log of the session is, whatever its kind."""

    def open(self, points: Points, tell: Tell) -> tuple[DoomedLog, list[str]]:
        """The log, gone on with or begun, and what there was to warn of."""
        ...

    def report(self) -> Report | None:
        """What ``verify`` says; None where there is no log yet."""
        ...

    def stored(self) -> list[Stored]:
        """The facts stored by now; none where there is no log."""
        ...


class JsonlStore:
    """The session as a file of JSON lines."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "log.jsonl")

    def open(self, points: Points, tell: Tell) -> tuple[DoomedLog, list[str]]:
        """See ``Store.open``."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log = DoomedLog(DoomedJsonl(self._path, points), points, tell)
        return log, [str(warning.message) for warning in caught]

    def report(self) -> Report | None:
        """See ``Store.report``."""
        return verify(self._path) if os.path.exists(self._path) else None

    def stored(self) -> list[Stored]:
        """See ``Store.stored``."""
        if not os.path.exists(self._path):
            return []
        reader, codec = LogReader(self._path), Codec()
        try:
            return [
                Stored(decode_line(at.line, at.blobs.get, codec, at.seq, at.path), _hash_of(at.line))
                for at in reader.available()
            ]
        finally:
            reader.close()


def _hash_of(line: bytes) -> str:
    return (hash_of_record(line) or b"").decode()


class SqliteStore:
    """The session in a SQLite file."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "sessions.db")

    def open(self, points: Points, tell: Tell) -> tuple[DoomedLog, list[str]]:
        """See ``Store.open``."""
        database = DoomedDatabase(self._path, points)  # the first to come: it makes the tables
        sessions = SqliteSessions(self._path, durability=durability_for(points))
        sessions._database.close()
        sessions._database = database
        try:
            log = sessions.open(SESSION)
        except LogError as error:
            if error.details.get("kind") != "no_session":
                raise
            log = sessions.create(SESSION)
        return DoomedLog(log, points, tell), []

    def report(self) -> Report | None:
        """See ``Store.report``."""
        if not os.path.exists(self._path):
            return None
        with SqliteSessions(self._path) as sessions:
            return sessions.verify(SESSION) if sessions.list() else None

    def stored(self) -> list[Stored]:
        """See ``Store.stored``."""
        if not os.path.exists(self._path):
            return []
        database, codec = Database(self._path), Codec()
        try:
            if not database.rows("SELECT 1 FROM sessions"):
                return []
            return [
                Stored(decode_line(line, database.get_blob, codec, seq, self._path), _hash_of(line))
                for seq, line in Rows(database, SESSION).available()
            ]
        finally:
            database.close()


STORES: dict[str, Callable[[str], Store]] = {"jsonl": JsonlStore, "sqlite": SqliteStore}
