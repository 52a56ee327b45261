"""Sessions in one SQLite file.

Read with: ``sessions.py`` (what each method is for), ``sqlite.py``, ``sqlite_file.py``.
"""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import anyio
import msgspec

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact, SessionChanged

from .durability import BUFFERED, Durability
from .head import Head
from .header import Parent, make_header, seal_header
from .lines import LogPath
from .loading import decode_line
from .record import hash_of_record, peek
from .sessions import Infos, Names, SessionInfo, append_about, check_id, in_order, is_below, new_id, no_fact
from .sqlite import Lease, Rows, SqliteLog, facts_of_rows, find_session, header_of, records_of_rows
from .sqlite_file import Database, key_of, seq_of
from .sqlite_verify import salvage_rows, verify_rows
from .verify import Report, Salvaged

_LIST: Final = """
SELECT s.id, s.name, s.header, s.parent_seq,
  (SELECT max(r.id) FROM records r WHERE r.id > s.id << 40 AND r.id < (s.id + 1) << 40) AS newest
FROM sessions s
"""


class SqliteSessions:
    """A ``Sessions`` whose logs are in one file, ``:memory:`` for none; made if missing.

    Raises:
        LogError: the file cannot be opened, is none of ours, or in another format.
    """

    def __init__(
        self,
        path: LogPath,
        codec: Codec | None = None,
        *,
        durability: Durability = BUFFERED,
        redact: Iterable[str] = (),
        create: bool = True,
    ) -> None:
        self._database = Database(path, create=create)
        self.path = self._database.path
        self._codec = codec or Codec()
        self._durability = durability
        self._redact = tuple(redact)

    def create(
        self,
        session: str = "",
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        sender: str = "",
    ) -> SqliteLog:
        """See ``Sessions.create``."""
        session = check_id(session or new_id())
        self._insert(session, None, None, namespace, sender)
        log = self.open(session)
        append_about(log, title or None, metadata, time.time())
        return log

    def _insert(
        self, session: str, parent: Parent | None, parent_row: int | None, namespace: str, sender: str
    ) -> None:
        redacted = bool(self._redact)
        header = make_header(
            session, time.time(), redacted=redacted, namespace=namespace, sender=sender, parent=parent
        )
        line, hashed = seal_header(header)
        database = self._database
        with database.lock:
            database.execute("BEGIN IMMEDIATE")
            try:
                if database.rows("SELECT 1 FROM sessions WHERE name = ?", (session,)):
                    raise LogError(
                        "log: there is such a session already", kind="exists", path=self.path, session=session
                    )
                row = database.execute(
                    "INSERT INTO sessions (name, header, parent, parent_seq, namespace, sender, created)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        session,
                        line,
                        parent_row,
                        parent.seq if parent else 0,
                        namespace,
                        sender,
                        header.created,
                    ),
                ).lastrowid
                database.execute("INSERT INTO heads VALUES (?, ?)", (row, hashed))
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def open(self, session: str) -> SqliteLog:
        """See ``Sessions.open``."""
        return SqliteLog(self._database, session, self._codec, self._durability, self._redact)

    def list(
        self, *, namespace: str | None = None, sender: str | None = None, limit: int | None = None
    ) -> Infos:
        """See ``Sessions.list``."""
        infos = [self._info(row) for row in self._database.rows(_LIST)]
        wanted = [
            info
            for info in infos
            if is_below(info.namespace, namespace) and (sender is None or info.sender == sender)
        ]
        return in_order(wanted, limit)

    def info(self, session: str) -> SessionInfo:
        """See ``Sessions.info``."""
        row, _, _ = find_session(self._database, session)
        return self._info(self._database.rows(f"{_LIST} WHERE s.id = ?", (row,))[0])

    def _info(self, found: Any) -> SessionInfo:
        row, name, _, parent_seq, newest = found
        try:
            header, _ = header_of(self._database, row)
            updated = header.created
            if newest is not None:
                ((line,),) = self._database.rows("SELECT line FROM records WHERE id = ?", (newest,))
                updated = peek(line).time
            title, metadata = self._about(row)
        except (LogError, msgspec.DecodeError, UnicodeDecodeError) as error:
            return SessionInfo(session=name, path=self.path, problem=str(error))
        return SessionInfo(
            session=name,
            title=title,
            metadata=metadata,
            namespace=header.namespace,
            sender=header.sender,
            created=header.created,
            updated=updated,
            facts=parent_seq if newest is None else seq_of(newest),
            parent=header.parent,
            path=self.path,
        )

    def _about(self, row: int) -> tuple[str, dict[str, Any]]:
        """What people last called the session; a title and metadata may come from different facts."""
        title: str | None = None
        metadata: dict[str, Any] | None = None
        lines = self._database.rows(
            "SELECT r.id, r.line FROM titles t JOIN records r ON r.id = t.id WHERE t.id > ? AND t.id < ?"
            " ORDER BY t.id DESC",
            (key_of(row, 0), key_of(row + 1, 0)),
        )
        for key, line in lines:
            fact = decode_line(line, self._database.get_blob, self._codec, seq_of(key), self.path)
            if isinstance(fact, SessionChanged):
                title = fact.title if title is None else title
                metadata = fact.metadata if metadata is None else metadata
        return title or "", metadata or {}

    def facts(self, session: str) -> Iterator[Fact]:
        """See ``Sessions.facts``."""
        return facts_of_rows(self._database, session, self._codec)

    def records(self, session: str) -> Iterator[Record]:
        """See ``Sessions.records``."""
        return records_of_rows(self._database, session, self._codec)

    async def follow(
        self, session: str, start: int = 0, *, poll_s: float = 0.1
    ) -> AsyncGenerator[Fact, None]:
        """See ``Sessions.follow``."""
        rows = Rows(self._database, session)
        while True:
            for seq, line in rows.available():
                if seq > start:
                    yield decode_line(line, self._database.get_blob, self._codec, seq, self.path)
            await anyio.sleep(poll_s)

    def fork(self, session: str, at: int | None = None, *, to: str = "") -> str:
        """See ``Sessions.fork``."""
        to = check_id(to or new_id())
        database = self._database
        row, header, hashed = find_session(database, session)
        namespace, sender = header.namespace, header.sender
        at = self._last(row, header.parent) if at is None else at
        while header.parent is not None and at <= header.parent.seq:
            row, header, hashed = find_session(database, header.parent.session)
        if at > 0:
            lines = database.rows("SELECT line FROM records WHERE id = ?", (key_of(row, at),))
            if not lines or at < 0:
                raise no_fact(session, at, self._last(row, header.parent))
            sealed = hash_of_record(lines[0][0])
            if sealed is None:
                raise LogError("log: damaged record", kind="changed", path=self.path, session=session, seq=at)
            hashed = sealed
        parent = Parent(session=header.session, seq=at, hash=hashed.decode())
        self._insert(to, parent, row, namespace, sender)
        return to

    def _last(self, row: int, parent: Parent | None) -> int:
        """The number of the last fact of a session."""
        ((newest,),) = self._database.rows(
            "SELECT max(id) FROM records WHERE id > ? AND id < ?", (key_of(row, 0), key_of(row + 1, 0))
        )
        if newest is not None:
            return seq_of(newest)
        return parent.seq if parent else 0

    def annotate(
        self, session: str, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """See ``Sessions.annotate``."""
        with self.open(session) as log:
            append_about(log, title, metadata, time.time())

    def delete(self, session: str, *, forks: bool = False) -> Names:
        """See ``Sessions.delete``."""
        database = self._database
        row, _, _ = find_session(database, session)
        children = [name for (name,) in database.rows("SELECT name FROM sessions WHERE parent = ?", (row,))]
        if children and not forks:
            raise LogError(
                "log: forks share the facts of this session",
                kind="has_forks",
                session=session,
                forks=children,
            )
        gone = [other for child in children for other in self.delete(child, forks=True)]
        lease = Lease(self.path, row)
        try:
            self._remove(row)
        finally:
            lease.release(remove=True)
        return [*gone, session]

    def _remove(self, row: int) -> None:
        database, keys = self._database, (key_of(row, 0), key_of(row + 1, 0))
        with database.lock:
            database.execute("BEGIN IMMEDIATE")
            try:
                database.execute("DELETE FROM records WHERE id > ? AND id < ?", keys)
                database.execute("DELETE FROM titles WHERE id > ? AND id < ?", keys)
                for table in ("heads", "snapshots", "sessions"):
                    database.execute(f"DELETE FROM {table} WHERE id = ?", (row,))
                database.execute("DELETE FROM blob_uses WHERE session = ?", (row,))
                database.execute("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM blob_uses)")
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def verify(self, session: str, *, head: Head | str | None = None, repair: bool = False) -> Report:
        """See ``Sessions.verify``; SQLite tears nothing, so there is nothing to repair."""
        return verify_rows(self._database, session, self._codec, Head.of(head))

    def salvage(self, session: str) -> Salvaged:
        """See ``Sessions.salvage``."""
        return salvage_rows(self._database, session, self._codec)

    def close(self) -> None:
        """Let go of the file; logs of it that are open fail from now on."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
