"""Opens the SQLite file of a mailbox, which is made if it is missing.

Read with: ``sqlite_boxes.py`` (its tables), ``sqlite_worker.py``.
"""

import os
import sqlite3
import threading
import time
from contextlib import suppress
from typing import Any, Final

from .errors import TeamError
from .sqlite_boxes import TABLES

BUSY_S: Final = 10.0  # how long a transaction of another process is waited for; one takes microseconds
_PAUSE_S: Final = 0.002  # between two tries where SQLite itself does not wait
_APPLICATION: Final = 0x556E4D62  # "UnMb", where the `file` command looks for it
_FORMAT: Final = 1
_OPENING = threading.Lock()  # closing a file gives back the locks that SQLite has on it in this process


def opened(path: str, *, full: bool) -> sqlite3.Connection:
    """A connection to the mailbox at ``path``, in WAL mode. ``full``: each commit waits for the disk.

    Raises:
        TeamError: it cannot be opened, or is something else.
    """
    try:
        with _OPENING:
            _make(path)
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
    except (OSError, sqlite3.Error) as error:
        raise failure(path, error) from error
    try:
        _check(connection, path)
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
        _create(connection)
        _check(connection, path)  # whoever was faster may have made something else
    except sqlite3.Error as error:
        connection.close()
        raise failure(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def failure(path: str, error: Exception) -> TeamError:
    """An error of the system's or SQLite's as one of the team's."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return TeamError("the team's file cannot be used", path=path, reason=reason)


def _make(path: str) -> None:
    """Make a missing file for its owner alone. One that is there is not opened, see ``_OPENING``."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if not os.path.exists(path):
        with suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Look at what it is before anything is written to it.

    Raises:
        TeamError: it is no mailbox, or in another format.
    """
    connection.execute("BEGIN")  # another process may be making it: all of the same moment
    try:
        application, version = (
            _one(connection, "PRAGMA application_id"),
            _one(connection, "PRAGMA user_version"),
        )
        tables = _one(connection, "SELECT count(*) FROM sqlite_master")
    finally:
        connection.rollback()
    if application == _APPLICATION and version == _FORMAT:
        return
    if application or version or tables:
        raise TeamError("not a team's file, or in a format of another version", path=path, format=version)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _one(connection, "SELECT count(*) FROM sqlite_master"):  # nobody was faster
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.rollback()


def _use_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for others here, who may be doing just the same."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _one(connection: sqlite3.Connection, query: str) -> Any:
    ((value,),) = connection.execute(query).fetchall()
    return value
