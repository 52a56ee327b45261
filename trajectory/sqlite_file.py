"""The SQLite file that holds many sessions: its schema, its connection, and waiting for its disk.

One connection for each file and process, shared by its logs under a lock. WAL, so that readers and a writer
don't wait for each other; each append is a commit of its own and survives the process. Commits don't wait
for the disk: a barrier does, by syncing the WAL file, and checkpoints run in the barrier, too, never in an
append.

Read with: ``sqlite.py``, ``sqlite_sessions.py``.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from unspool.kernel.errors import LogError

from .blobs import digest_of, sync_path
from .header import FORMAT
from .lines import LogPath

SHIFT: Final = 40  # a record's key is its session's row, and in the lower 40 bits its number
_MASK: Final = (1 << SHIFT) - 1
_APPLICATION: Final = 0x556E5370  # "UnSp", where the `file` command looks for it
_BUSY_S: Final = 5.0  # how long a commit of another process is waited for; one takes microseconds
_PAUSE_S: Final = 0.002  # between two tries where SQLite itself does not wait
_CHECKPOINT: Final = 8 << 20  # bytes of the WAL file beyond which a barrier has it written back
_MEMORY: Final = ":memory:"
_FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)  # the latter where a message quotes what is damaged
_OPENING = threading.Lock()  # closing a file gives back the locks that SQLite has on it in this process

_WAL: Final = "PRAGMA journal_mode = WAL"
_PRAGMAS: Final = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA foreign_keys = ON",
)
# AUTOINCREMENT: the row of a deleted session is given to no other, since leases and readers know sessions by it
_TABLES: Final = f"""
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, header BLOB NOT NULL,
  parent INTEGER REFERENCES sessions (id), parent_seq INTEGER NOT NULL DEFAULT 0,
  namespace TEXT NOT NULL DEFAULT '', sender TEXT NOT NULL DEFAULT '', created REAL NOT NULL);
CREATE INDEX sessions_by_parent ON sessions (parent);
CREATE TABLE records (id INTEGER PRIMARY KEY, line BLOB NOT NULL);
CREATE TABLE heads (id INTEGER PRIMARY KEY, head BLOB NOT NULL);
CREATE TABLE titles (id INTEGER PRIMARY KEY);
CREATE TABLE blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE blob_uses (session INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (session, hash)) WITHOUT ROWID;
CREATE TABLE snapshots (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE VIEW appends AS SELECT id, line, NULL AS head FROM records;
CREATE TRIGGER append INSTEAD OF INSERT ON appends BEGIN
  INSERT INTO records VALUES (new.id, new.line);
  UPDATE heads SET head = new.head WHERE id = new.id >> {SHIFT};
END;
"""
_MARKS: Final = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"


def key_of(row: int, seq: int) -> int:
    """The key of record ``seq`` of the session in ``row``."""
    return row << SHIFT | seq


def seq_of(key: int) -> int:
    """The number of the record with that key."""
    return key & _MASK


class Database:
    """A connection to a file of sessions, made if missing; used from any thread, one at a time.

    What the file is gets looked at before anything is written to it. Without ``create`` an empty one stays
    empty, a file without sessions, until ``make``. A file that may not be written, an archive for instance,
    can be read all the same. A connection does not survive a fork: the other process is refused.

    Raises:
        LogError: the file cannot be opened, is no such file, in another format, or damaged.
    """

    def __init__(self, path: LogPath, *, create: bool = True) -> None:
        self.path = os.fspath(path)
        self.lock = threading.RLock()
        self._pid = os.getpid()
        self.writers: set[int] = set()  # rows of the sessions that are written, where no file can tell
        self.in_memory = self.path == _MEMORY
        if not create and not self.in_memory and not os.path.exists(self.path):
            raise LogError("log: there is no such file", path=self.path)
        try:
            with _OPENING:
                self._identity = (0, 0) if self.in_memory else _made(self.path)
                self._read_only = not self.in_memory and _is_read_only(self.path)
                self._connection = sqlite3.connect(
                    f"{Path(self.path).absolute().as_uri()}?immutable=1" if self._read_only else self.path,
                    uri=self._read_only,
                    isolation_level=None,
                    check_same_thread=False,
                    timeout=_BUSY_S,
                    cached_statements=256,
                )
        except (OSError, ValueError, sqlite3.Error) as error:
            raise self.error("log: cannot be opened", error) from error
        self._connection.text_factory = _text
        try:
            self._settle(create=create)
        except BaseException:
            self._connection.close()
            raise

    def make(self) -> None:
        """Make the tables, where the file is empty so far.

        Raises:
            LogError: SQLite could not.
        """
        with self.lock:
            if self._empty:
                self._settle(create=True)

    def _settle(self, *, create: bool) -> None:
        self._empty = self._is_empty()
        if self._empty and not create:
            return
        if not self._read_only:
            self._use_wal()
            for pragma in _PRAGMAS:
                self._fetch(pragma)
        if self._empty:
            self._create()
            self._empty = self._is_empty()  # whoever was faster may have made something else

    def _is_empty(self) -> bool:
        """Whether there is nothing in the file yet.

        Raises:
            LogError: what is in it is not ours, in another format, or damaged.
        """
        try:
            application, version, schema = self._marks()
        except LogError as error:
            if "not a database" in str(error.details.get("reason")):
                raise LogError("log: not an unspool log", kind="not_a_log", path=self.path) from error
            raise
        if not application and not version and not schema:
            return True
        if application != _APPLICATION:
            raise LogError("log: not an unspool log", kind="not_a_log", path=self.path)
        if version != FORMAT:
            which = "a newer format, a newer unspool can read it" if version > FORMAT else "an old format"
            raise LogError(
                f"log: written in {which}", kind="format", path=self.path, format=version, supported=FORMAT
            )
        if not {statement.strip("; \n") for statement in _statements(_TABLES)} <= schema:
            raise LogError("log: its tables are not those that were made", kind="database", path=self.path)
        return False

    def _marks(self) -> tuple[int, int, set[str]]:
        """Application, format and schema, all of the same moment: another process may be making them."""
        self._fetch("BEGIN")
        try:
            ((application,),) = self._fetch("PRAGMA application_id")
            ((version,),) = self._fetch("PRAGMA user_version")
            return application, version, self._schema()
        finally:
            with suppress(sqlite3.Error):  # what went wrong before is what is told
                self._connection.rollback()

    def _schema(self) -> set[str]:
        """The statements that made what is in the file."""
        return {sql for (sql,) in self._fetch("SELECT sql FROM sqlite_master WHERE sql NOT NULL")}

    def _use_wal(self) -> None:
        """Have the file use a WAL. SQLite does not wait for others here, who may be doing just the same."""
        until = time.monotonic() + _BUSY_S
        while True:
            try:
                self._fetch(_WAL)
            except LogError as error:
                if not _is_busy(error.__cause__) or time.monotonic() >= until:
                    raise
                _pause()
            else:
                return

    def _create(self) -> None:
        with self.transaction():
            if not self._schema():  # nobody was faster
                for statement in _statements(_TABLES + _MARKS):
                    self.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside happens as a whole, or not at all.

        Raises:
            LogError: SQLite could not.
        """
        self._check_process()
        with self.lock:
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # on a full disk SQLite has taken it back itself
                    self.execute("ROLLBACK")
                raise

    def execute(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement.

        Raises:
            LogError: SQLite could not.
        """
        self._check_process()
        with self.lock:
            try:
                return self._connection.execute(statement, tuple(values))
            except _FAILURES as error:
                raise self.error("log: cannot be used", error) from error

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        """All rows of a query; none while the file is empty.

        Raises:
            LogError: SQLite could not.
        """
        self._check_process()
        with self.lock:
            if self._empty:
                self._settle(create=False)
            return [] if self._empty else self._fetch(statement, values)

    def _fetch(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except _FAILURES as error:
            raise self.error("log: cannot be read", error) from error

    def _check_process(self) -> None:
        """Before the lock: a thread that the fork left behind may have it.

        Raises:
            LogError: this is a forked process. SQLite's locks stayed with the one that opened the file.
        """
        if os.getpid() != self._pid:
            raise LogError(
                "log: another process opened it, which this one was forked from",
                kind="busy",
                path=self.path,
                pid=self._pid,
            )

    def error(self, what: str, error: Exception) -> LogError:
        """An error of SQLite's as one of the log's."""
        reason = error.strerror if isinstance(error, OSError) else str(error)
        # SQLite's own word for damage is the class itself; those derived from it say what was asked amiss
        damaged = type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeDecodeError)
        details = {"kind": "database"} if damaged else {}
        return LogError(what, path=self.path, reason=reason, **details)

    def put_blob(self, row: int, data: bytes) -> str:
        """Store a content for the session in ``row``, once for the whole file."""
        digest = digest_of(data)
        with self.transaction():
            self.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))
            self.execute("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", (row, digest))
        return digest

    def get_blob(self, digest: str) -> bytes:
        """A content by its hash.

        Raises:
            LogError: it is missing, or is not what was stored.
        """
        rows = self.rows("SELECT CAST(data AS BLOB) FROM blobs WHERE hash = ?", (digest,))
        if not rows:
            raise LogError("log: a blob is missing", kind="missing_blob", blob=digest, path=self.path)
        data: bytes = rows[0][0]
        if digest_of(data) != digest:
            raise LogError("log: a blob was changed", kind="changed_blob", blob=digest, path=self.path)
        return data

    def sync(self) -> None:
        """Wait until the disk has every commit so far; from any thread, and without holding up appends.

        Raises:
            OSError: the disk failed.
        """
        wal = f"{self.path}-wal"
        if not self.in_memory and os.path.exists(wal):
            sync_path(wal)

    def is_gone(self) -> bool:
        """Whether the file was removed, or another put in its place, while it is open."""
        if self.in_memory:
            return False
        try:
            return _identity(os.stat(self.path)) != self._identity
        except OSError:
            return True

    def needs_checkpoint(self) -> bool:
        """Whether the WAL file has grown so much that it should be written back."""
        try:
            return not self.in_memory and os.path.getsize(f"{self.path}-wal") > _CHECKPOINT
        except OSError:
            return False

    def checkpoint(self) -> None:
        """Write the WAL file back, by a connection of its own; what others use is left for another time.

        Raises:
            LogError: SQLite finds its file damaged.
        """
        self._check_process()
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.close()
        except sqlite3.OperationalError:
            return  # somebody reads or writes, or the disk is full: next time
        except sqlite3.Error as error:
            raise self.error("log: cannot be written back", error) from error

    def close(self) -> None:
        """Let go of the file; in a forked process it is the other's, and nothing happens."""
        if os.getpid() == self._pid:
            with self.lock:
                self._connection.close()


def _made(path: str) -> tuple[int, int]:
    """The identity of the file, which is made, for its owner alone, if it is missing.

    A file that is there is not opened: this process may have it open already, see ``_OPENING``.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if not os.path.exists(path):
        with suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return _identity(os.stat(path))


def _is_read_only(path: str) -> bool:
    """Whether a file can be read and no more. SQLite itself would want to write beside it.

    Raises:
        PermissionError: it was not closed, and what it has beside it would have to be written back first.
    """
    if os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK):
        return False
    wal = f"{path}-wal"
    if os.path.exists(wal) and os.path.getsize(wal):
        raise PermissionError(errno.EACCES, "not closed by its last writer, and not writable")
    return True


def _is_busy(error: BaseException | None) -> bool:
    """Whether SQLite says that others use the file."""
    return (
        isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    )


def _pause() -> None:
    time.sleep(_PAUSE_S)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _text(data: bytes) -> str:
    """Text as SQLite has it; what is damaged is found by other means than an error here."""
    return data.decode(errors="replace")


def _statements(script: str) -> Iterable[str]:
    """The statements of the schema; a trigger holds several semicolons."""
    statement = ""
    for part in script.rstrip("; \n").split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
