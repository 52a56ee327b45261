"""Sessions in one SQLite file.

Read with: ``sessions.py`` (what each method is for), ``sqlite.py``, ``sqlite_file.py``.
"""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, Self

import msgspec
from msgspec.structs import replace

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .durability import BUFFERED, Durability
from .head import Head
from .header import Header, Parent, make_header, seal_header
from .lines import LogPath
from .loading import decode_line
from .names import check_id, new_id
from .record import hash_of_record, peek
from .sessions import (
    Infos,
    Names,
    SessionInfo,
    about,
    append_about,
    begun,
    exists,
    has_forks,
    in_order,
    is_below,
    name_new,
    no_fact,
    no_session,
)
from .sqlite import (
    Lease,
    SqliteLog,
    facts_of_rows,
    find_session,
    follow_rows,
    header_of,
    lineage,
    records_of_rows,
    segments_of,
    stored_session,
)
from .sqlite_file import Database, key_of, seq_of
from .sqlite_verify import salvage_rows, verify_rows
from .verify import Report, Salvaged

_LIST: Final = """
SELECT s.id, s.name, CAST(ifnull(s.header, '') AS BLOB), r.id, CAST(ifnull(r.line, '') AS BLOB)
FROM sessions s LEFT JOIN records r
  ON r.id = (SELECT max(n.id) FROM records n WHERE n.id > s.id << 40 AND n.id < (s.id + 1) << 40)
"""
_LINE: Final = "SELECT CAST(ifnull(line, '') AS BLOB) FROM records WHERE id = ?"
_TITLES: Final = """
SELECT r.id, CAST(ifnull(r.line, '') AS BLOB) FROM titles t JOIN records r ON r.id = t.id
WHERE t.id > ? AND t.id <= ? ORDER BY t.id DESC
"""


class SqliteSessions:
    """A ``Sessions`` whose logs are in one file, ``:memory:`` for none; made if missing.

    Without ``create`` a missing file is an error, and an empty one stays empty until a session is created.

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
        self._insert(session, None, None, namespace, sender, bool(self._redact))
        return name_new(self, self.open(session), title, metadata, time.time())

    def _insert(
        self,
        session: str,
        parent: Parent | None,
        parent_row: int | None,
        namespace: str,
        sender: str,
        redacted: bool,
    ) -> None:
        header = make_header(
            session, time.time(), redacted=redacted, namespace=namespace, sender=sender, parent=parent
        )
        line, hashed = seal_header(header)
        seq = parent.seq if parent else 0
        database = self._database
        database.make()
        with database.transaction():
            if parent and not database.rows("SELECT 1 FROM sessions WHERE id = ?", (parent_row,)):
                raise no_session(parent.session, self.path)  # it was deleted meanwhile
            if database.rows("SELECT 1 FROM sessions WHERE name = ?", (session,)):
                raise exists(session, self.path)
            row = database.execute(
                "INSERT INTO sessions (name, header, parent, parent_seq, namespace, sender, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session, line, parent_row, seq, namespace, sender, header.created),
            ).lastrowid
            database.execute("INSERT INTO heads VALUES (?, ?)", (row, hashed))

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
        for found in self._database.rows(f"{_LIST} WHERE s.name = ?", (session,)):
            return self._info(found)
        raise no_session(session, self.path)

    def _info(self, found: Any) -> SessionInfo:
        row, name, line, newest, last = found
        try:
            header, hashed = header_of(line, self.path, name)
        except LogError as error:
            return SessionInfo(session=name, path=self.path, problem=str(error))
        info = begun(name, self.path, header)
        try:
            if newest is not None:
                info = replace(info, facts=seq_of(newest), updated=peek(last).time)
            title, metadata = about(self._changes(row, header, hashed))
        except (LogError, msgspec.DecodeError, UnicodeDecodeError) as error:
            return replace(info, problem=str(error))
        return replace(info, title=title, metadata=metadata)

    def _changes(self, row: int, header: Header, hashed: bytes) -> Iterator[Fact]:
        """What people called the session, those it was forked from included, the newest first."""
        database = self._database
        for segment in segments_of(database, row, header, hashed)[::-1]:
            span = key_of(segment.row, segment.start), key_of(segment.row, segment.stop)
            for key, line in database.rows(_TITLES, span):
                yield decode_line(line, database.get_blob, self._codec, seq_of(key), self.path)

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
        async with aclosing(self.follow_records(session, start, poll_s=poll_s)) as records:
            async for record in records:
                yield record.fact

    def follow_records(
        self, session: str, start: int = 0, *, poll_s: float = 0.1
    ) -> AsyncGenerator[Record, None]:
        """The same with their bytes as stored."""
        return follow_rows(self._database, session, self._codec, start, poll_s)

    def fork(self, session: str, at: int | None = None, *, to: str = "") -> str:
        """See ``Sessions.fork``."""
        to = check_id(to or new_id())
        begin = row, header, hashed = find_session(self._database, session)
        namespace, sender = header.namespace, header.sender
        at = self._last(row, header.parent) if at is None else at
        for row, header, hashed in lineage(self._database, *begin):  # noqa: B007 (used below)
            if header.parent is None or at > header.parent.seq:
                break  # it holds the fact itself
        if at != 0:
            hashed = self._hash(session, row, at)
        parent = Parent(session=header.session, seq=at, hash=hashed.decode())
        self._insert(to, parent, row, namespace, sender, header.redacted or bool(self._redact))
        return to

    def _hash(self, session: str, row: int, at: int) -> bytes:
        """The hash of a record that the session in ``row`` holds itself."""
        lines = self._database.rows(_LINE, (key_of(row, at),)) if at > 0 else []
        if not lines:
            raise no_fact(session, at, self._last(row, None))
        hashed = hash_of_record(lines[0][0])
        if hashed is None:
            raise LogError("log: damaged record", kind="changed", path=self.path, session=session, seq=at)
        return hashed

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
        stored_session(self._database, session)  # an empty file has nothing to begin a transaction for
        leases: list[Lease] = []
        gone = False
        try:
            with self._database.transaction():  # nobody forks it meanwhile
                row, _ = stored_session(self._database, session)
                family = self._family(row, session)
                if len(family) > 1 and not forks:
                    raise has_forks(session, [name for _, name in self._children(row)])
                for row in family:
                    leases.append(Lease(self._database, row))
                self._database.execute("PRAGMA defer_foreign_keys = ON")
                for row in family:
                    self._remove(row)
            gone = True
        finally:
            for lease in leases:
                lease.release(remove=gone)
        return list(family.values())

    def _family(self, row: int, session: str) -> dict[int, str]:
        """A session and all that was forked from it, by row, itself last."""
        family, waiting = {row: session}, [row]
        while waiting:
            for child, name in self._children(waiting.pop(0)):
                if child not in family:
                    family[child] = name
                    waiting.append(child)
        return dict(reversed(family.items()))

    def _children(self, row: int) -> Any:
        return self._database.rows("SELECT id, name FROM sessions WHERE parent = ? ORDER BY id", (row,))

    def _remove(self, row: int) -> None:
        database, keys = self._database, (key_of(row, 0), key_of(row + 1, 0))
        database.execute("DELETE FROM records WHERE id > ? AND id < ?", keys)
        database.execute("DELETE FROM titles WHERE id > ? AND id < ?", keys)
        for table in ("heads", "snapshots", "sessions"):
            database.execute(f"DELETE FROM {table} WHERE id = ?", (row,))
        database.execute("DELETE FROM blob_uses WHERE session = ?", (row,))
        database.execute("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM blob_uses)")

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

    def __exit__(self, *_: object) -> None:
        self.close()
