"""A log as a session in a SQLite file.

The records are the very lines that a JSONL log would hold, so that one can become the other. The head of
each log is kept beside its records: that records are missing at its end is found out.

Read with: ``sqlite_file.py``, ``sqlite_sessions.py`` (who makes one), ``jsonl.py`` (its sibling).
"""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import anyio
import anyio.lowlevel
from anyio import to_thread

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .blobs import attach
from .decoding import NumberOf, Once, number_of
from .durability import Durability
from .header import Header, read_header
from .lease import take_lease
from .loading import decode_line
from .record import body_of, hash_of_record, prev_of
from .sessions import no_session
from .sqlite_file import SHIFT, Database, key_of, seq_of
from .stored_log import StoredLog

BATCH: Final = 256  # records fetched at a time
_APPEND: Final = "INSERT INTO appends VALUES (?, ?, ?)"
CHANGED: Final = b'{"type":"session_changed"'
_SESSION: Final = "SELECT id, CAST(ifnull(header, '') AS BLOB) FROM sessions WHERE name = ?"
RECORDS: Final = (
    "SELECT id, CAST(ifnull(line, '') AS BLOB) FROM records WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
)
_HEAD: Final = (
    "SELECT CAST(head AS BLOB), (SELECT max(id) FROM records WHERE id > ? AND id < ?) FROM heads WHERE id = ?"
)


class Segment(NamedTuple):
    """Records of one session of the file: those after ``start``, up to ``stop``; ``hash`` is that record's,
    where it is known, ``header`` that of the session's header."""

    row: int
    start: int
    stop: int
    hash: str
    header: bytes


class Rows:
    """The records of one session, each checked, those of the sessions it was forked from first.

    ``seq`` and ``hash`` are those of the last record given.
    """

    def __init__(self, database: Database, name: str, number: NumberOf = number_of) -> None:
        self._database = database
        self._number = number
        self.row, self.header, self.header_hash = find_session(database, name)
        self.seq = 0
        self.hash = b""
        self._segments = segments_of(database, self.row, self.header, self.header_hash)
        self._file = database.path

    def available(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of the records stored by now; asking again goes on after the last one given.

        Raises:
            LogError: the log is damaged; records before that were given.
        """
        for segment in self._segments:
            if self.seq < segment.stop or not self.hash:
                yield from self._segment(segment)

    def inherited(self) -> Iterator[tuple[int, bytes]]:
        """The same for what the session was forked with, without its own records."""
        for segment in self._segments[:-1]:
            yield from self._segment(segment)

    def _segment(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        if self.seq <= segment.start or not self.hash:
            self.hash = segment.header
        while self.seq < segment.stop:
            span = key_of(segment.row, self.seq), key_of(segment.row, segment.stop)
            lines = self._database.rows(RECORDS, (*span, BATCH))
            for key, line in lines:
                self._check(seq_of(key), line)
                yield self.seq, line
            if len(lines) < BATCH:
                break
        if segment.hash and (self.seq != segment.stop or self.hash.decode() != segment.hash):
            raise LogError(
                "log: the log that this one was forked from is another one now", kind="changed_parent",
                path=self._file, session=self.header.session, seq=segment.stop,
            )  # fmt: skip

    def _check(self, seq: int, line: bytes) -> None:
        hashed = hash_of_record(line)
        if hashed is None:
            raise self._fault("log: damaged record", seq, kind="changed", reason="its checksum does not fit")
        if seq != self.seq + 1 or self._number(line) != seq:
            raise self._fault("log: facts are missing or doubled", seq, kind="order", expected=self.seq + 1)
        if prev_of(line) != self.hash:
            raise self._fault("log: a record before this one was replaced", seq, kind="chain")
        self.seq, self.hash = seq, hashed

    def check_head(self) -> None:
        """After the last record: whether it is the last one that was written.

        Raises:
            LogError: records are missing at the end.
        """
        found = self._database.rows(_HEAD, (key_of(self.row, 0), key_of(self.row + 1, 0), self.row))
        head, newest = found[0] if found else (b"", None)
        if head != self.hash and (newest is None or seq_of(newest) <= self.seq):
            raise self._fault("log: records are missing at its end", self.seq, kind="shortened")

    def check_session(self) -> None:
        """Whether the session is still there.

        Raises:
            LogError: it was deleted; one of its name that was made since is another one.
        """
        if not self._database.rows("SELECT 1 FROM sessions WHERE id = ?", (self.row,)):
            raise no_session(self.header.session, self._file)

    def _fault(self, what: str, seq: int, **details: Any) -> LogError:
        return LogError(what, path=self._file, session=self.header.session, seq=seq, **details)


def find_session(database: Database, name: str) -> tuple[int, Header, bytes]:
    """Row, header and header's hash of a session.

    Raises:
        LogError: there is none of that name, or its header is damaged.
    """
    row, line = stored_session(database, name)
    return row, *header_of(line, database.path, name)


def stored_session(database: Database, name: str) -> tuple[int, bytes]:
    """Row and header of a session, as they are stored.

    Raises:
        LogError: there is none of that name.
    """
    for row, line in database.rows(_SESSION, (name,)):
        return row, line
    raise no_session(name, database.path)


def header_of(line: bytes, path: str, name: str) -> tuple[Header, bytes]:
    """The header that is stored for session ``name``, and its hash.

    Raises:
        LogError: it is damaged, or another session's.
    """
    header, hashed = read_header(line, path=path, session=name)
    if header.session != name:
        reason = f"it is that of session {header.session!r}"
        raise LogError("log: damaged header", kind="header", reason=reason, path=path, session=name)
    return header, hashed


def above(database: Database, header: Header) -> tuple[int, Header, bytes]:
    """The session that the one with ``header`` was forked from.

    Raises:
        LogError: it cannot be read.
    """
    assert header.parent is not None
    try:
        return find_session(database, header.parent.session)
    except LogError as error:
        raise no_parent(database, header, str(error)) from error


def no_parent(database: Database, header: Header, reason: str) -> LogError:
    """The error for a session whose ancestors cannot be read."""
    return LogError(
        "log: the log that this one was forked from cannot be read", kind="missing_parent",
        path=database.path, session=header.session, parent=header.parent and header.parent.session,
        reason=reason,
    )  # fmt: skip


def lineage(
    database: Database, row: int, header: Header, hashed: bytes
) -> Iterator[tuple[int, Header, bytes]]:
    """The session in ``row`` and those it was forked from, the oldest last.

    Raises:
        LogError: one cannot be read, or forks go round in a circle.
    """
    seen = {row}
    yield row, header, hashed
    while header.parent is not None:
        row, header, hashed = above(database, header)
        if row in seen:
            raise no_parent(database, header, "forks go round in a circle")
        seen.add(row)
        yield row, header, hashed


def segments_of(database: Database, row: int, header: Header, hashed: bytes) -> list[Segment]:
    """Where the records of a session are, its oldest ancestor first."""
    segments: list[Segment] = []
    limit, sealed = (1 << SHIFT) - 1, ""
    for at, found, its_hash in lineage(database, row, header, hashed):
        begins = found.parent.seq if found.parent else 0
        if at == row or found.parent is None or limit > begins:
            segments.append(Segment(at, begins, limit, sealed, its_hash))
            limit, sealed = begins, found.parent.hash if found.parent else ""
    return segments[::-1]


class SqliteLog(StoredLog):
    """An ``EventLog`` of one session in a file of many; ``SqliteSessions`` opens it.

    ``seq`` is the number of the last fact stored. An agent that is given a log with facts goes on from them.
    """

    _record_end = b'"}'

    def __init__(
        self,
        database: Database,
        name: str,
        codec: Codec,
        durability: Durability,
        redact: Iterable[str],
    ) -> None:
        super().__init__(codec, durability, redact, database.sync)
        self._database = database
        self._open = False
        self._lease = Lease(database, stored_session(database, name)[0])
        try:
            rows = Rows(database, name)
            for _ in rows.available():
                pass
            rows.check_head()
        except BaseException:
            self._lease.release()
            raise
        self._open = True
        self._row, self.header = rows.row, rows.header
        self.seq, self._hash = rows.seq, rows.hash
        self._key = key_of(self._row, 0)

    @property
    def path(self) -> str:
        """The file."""
        return self._database.path

    def _store(self, line: bytes, hashed: bytes, seq: int) -> None:
        database, key = self._database, self._key | seq
        if line.startswith(CHANGED):
            with database.transaction():
                database.execute(_APPEND, (key, line, hashed))
                database.execute("INSERT INTO titles VALUES (?)", (key,))
            return
        database.execute(_APPEND, (key, line, hashed))

    def _put(self, data: bytes) -> str:
        return self._database.put_blob(self._row, data)

    def _error(self, what: str, **details: Any) -> LogError:
        return LogError(what, path=self.path, session=self.session, **details)

    async def flush(self) -> None:
        """Return when the facts so far are as durable as the durability asks.

        Raises:
            LogError: the file was removed, or the disk failed; nothing more is stored.
        """
        if not self._open:
            return
        if self._database.is_gone():
            self._broken = "log: the file was removed"
            raise self._error(self._broken)
        if self._syncs:
            await self._syncer.flush()
        if self._database.needs_checkpoint():
            await to_thread.run_sync(self._database.checkpoint)

    def _folding(self, codec: Codec) -> Iterator[tuple[int, bytes, Callable[[], Fact]]]:
        once, database = Once(codec), self._database
        rows = Rows(database, self.session, once.number_of)
        for seq, line in rows.available():
            yield seq, rows.hash, partial(decode_line, line, database.get_blob, once, seq, self.path)
        rows.check_head()

    def _kept_snapshot(self) -> bytes | None:
        found = self._database.rows("SELECT data FROM snapshots WHERE id = ?", (self._row,))
        return found[0][0] if found else None

    def _keep_snapshot(self, data: bytes) -> None:
        self._database.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (self._row, data))

    def records(self) -> Iterator[Record]:
        """All records so far, those of the sessions it was forked from first."""
        return records_of_rows(self._database, self.session, self._codec)

    async def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        """Facts with ``start < seq``, and ``seq <= stop`` where given."""
        for fact in facts_of_rows(self._database, self.session, self._codec, start):
            if stop is not None and fact.seq > stop:
                return
            yield fact
            if fact.seq % BATCH == 0:
                await anyio.lowlevel.checkpoint()

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """Like ``read``, then waiting for more until this log or the generator is closed."""
        once = Once(self._codec)
        rows, waiter = Rows(self._database, self.session, once.number_of), self._tails.join()
        try:
            while True:
                closed = not self._open
                for seq, line in rows.available():
                    if seq > start:
                        yield decode_line(line, self._database.get_blob, once, seq, self.path)
                if closed:
                    return
                await waiter.wait()
        finally:
            self._tails.leave(waiter)

    def close(self) -> None:
        """Let go of the session; tails end once they have given what there is. Again: nothing."""
        self._syncer.close()
        with self._lock:
            self._open = False
            self._broken = self._broken or "log: closed"
            self._lease.release()
        self._tails.wake()

    def __del__(self) -> None:
        if getattr(self, "_open", False):  # so that a forgotten log does not keep its session
            self.close()


class Lease:
    """The right to write one session: a lock on a file of its own beside the database.

    Raises:
        LogError: another writer has it.
    """

    def __init__(self, database: Database, row: int) -> None:
        self._fd = -1
        self._writers: set[int] = set()
        self._row, path = row, database.path
        if database.in_memory:
            with database.lock:
                if row in database.writers:
                    raise LogError("log: another writer has it open", kind="busy", path=f"{path}#{row}")
                database.writers.add(row)
                self._writers = database.writers
            return
        folder = f"{os.path.realpath(path)}-leases"
        self._file = os.path.join(folder, str(row))
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._fd = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LogError("log: cannot be opened", path=self._file, reason=error.strerror) from error
        try:
            take_lease(self._fd, f"{path}#{row}")
        except BaseException:
            self.release()
            raise

    def release(self, *, remove: bool = False) -> None:
        """Give it back, and with ``remove`` the file it was a lock on: the session is gone."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if remove:
                os.unlink(self._file)
            os.close(fd)
        self._writers.discard(self._row)
        self._writers = set()


def facts_of_rows(database: Database, name: str, codec: Codec, start: int = 0) -> Iterator[Fact]:
    """The facts of a session after number ``start``.

    Raises:
        LogError: there is no such session, or it is damaged.
    """
    once = Once(codec)
    rows = Rows(database, name, once.number_of)
    for seq, line in rows.available():
        if seq > start:
            yield decode_line(line, database.get_blob, once, seq, database.path)
    rows.check_head()


def records_of_rows(database: Database, name: str, codec: Codec) -> Iterator[Record]:
    """The records of a session with their bytes as stored.

    Raises:
        LogError: there is no such session, or it is damaged.
    """
    once = Once(codec)
    rows = Rows(database, name, once.number_of)
    for seq, line in rows.available():
        yield _record(database, line, once, seq)
    rows.check_head()


async def follow_rows(
    database: Database, name: str, codec: Codec, start: int, poll_s: float
) -> AsyncGenerator[Record, None]:
    """The records of a session after number ``start``, and those to come, with their bytes as stored.

    Raises:
        LogError: there is no such session, or not any more; or it is damaged.
    """
    once = Once(codec)
    rows = Rows(database, name, once.number_of)
    while True:
        for seq, line in rows.available():
            if seq > start:
                yield _record(database, line, once, seq)
        await anyio.sleep(poll_s)
        if database.is_gone():
            raise LogError("log: the file was removed or replaced", kind="no_session", path=database.path)
        rows.check_session()


def _record(database: Database, line: bytes, once: Once, seq: int) -> Record:
    fact = decode_line(line, database.get_blob, once, seq, database.path)
    return Record(fact, attach(body_of(line), database.get_blob))
