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
from .killmatrix_logs import SESSION, DoomedJsonl, DoomedSessions, Tell
from .killmatrix_points import Points
from .loading import decode_line
from .record import hash_of_record
from .sessions import SessionHandle, Sessions
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

    def open(self, points: Points, tell: Tell) -> tuple[SessionHandle, list[str]]:
        """The log, gone on with or begun, and what there was to warn of."""
        ...

    def report(self) -> Report | None:
        """What ``verify`` says; None where there is no log yet."""
        ...

    def stored(self) -> list[Stored]:
        """The facts stored by now; none where there is no log."""
        ...


def open_or_create(sessions: Sessions, session: str) -> SessionHandle:
    """The log of a session, begun where there is none."""
    try:
        return sessions.open(session)
    except LogError as error:
        if error.details.get("kind") != "no_session":
            raise
        return sessions.create(session)


class JsonlStore:
    """The session as a file of JSON lines."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "log.jsonl")

    def open(self, points: Points, tell: Tell) -> tuple[SessionHandle, list[str]]:
        """See ``Store.open``."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log = DoomedJsonl(self._path, points, tell)
        return log, [str(warning.message) for warning in caught]

    def report(self) -> Report | None:
        """See ``Store.report``."""
        return verify(self._path) if os.path.exists(self._path) else None

    def stored(self) -> list[Stored]:
        """See ``Store.stored``."""
        return stored_in_file(self._path) if os.path.exists(self._path) else []


def stored_in_file(path: str) -> list[Stored]:
    """The facts in a file of JSON lines."""
    reader, codec = LogReader(path), Codec()
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

    def open(self, points: Points, tell: Tell) -> tuple[SessionHandle, list[str]]:
        """See ``Store.open``."""
        sessions = DoomedSessions(self._path, points, lambda _: points, lambda _: tell)
        return open_or_create(sessions, SESSION), []

    def report(self) -> Report | None:
        """See ``Store.report``."""
        if not os.path.exists(self._path):
            return None
        with SqliteSessions(self._path) as sessions:
            return sessions.verify(SESSION) if sessions.list() else None

    def stored(self) -> list[Stored]:
        """See ``Store.stored``."""
        return stored_in_database(self._path).get(SESSION, []) if os.path.exists(self._path) else []


def stored_in_database(path: str) -> dict[str, list[Stored]]:
    """The facts in a SQLite file, by session."""
    database, codec = Database(path), Codec()
    try:
        return {
            session: [
                Stored(decode_line(line, database.get_blob, codec, seq, path), _hash_of(line))
                for seq, line in Rows(database, session).available()
            ]
            for (session,) in database.rows("SELECT name FROM sessions")
        }
    finally:
        database.close()


STORES: dict[str, Callable[[str], Store]] = {"jsonl": JsonlStore, "sqlite": SqliteStore}
