"""Whether a session of a SQLite file is what was written.

Read with: ``verify.py`` (the same for JSONL), ``damage.py``, ``sqlite.py``.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from unspool.kernel.codec import Codec
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .damage import Damage, DamageKind, Found, Inspector, Place
from .head import Head
from .header import Header
from .record import hash_of_record
from .sqlite import BATCH, CHANGED, RECORDS, Rows, stored_session
from .sqlite_file import Database, key_of, seq_of
from .verify import Contents, Report, Salvaged, folded

_COLUMNS: Final = """
SELECT p.name, s.parent_seq, s.namespace, s.sender, s.created
FROM sessions s LEFT JOIN sessions p ON p.id = s.parent WHERE s.id = ?
"""


def verify_rows(database: Database, session: str, codec: Codec, head: Head | None) -> Report:
    """Everything that is wrong with a session.

    Raises:
        LogError: there is no such session.
    """
    scan = _Scan(database, session, codec, head)
    return scan.report(folded(scan.facts(), scan.is_whole))


def salvage_rows(database: Database, session: str, codec: Codec) -> Salvaged:
    """What is whole of a session.

    Raises:
        LogError: there is no such session.
    """
    scan = _Scan(database, session, codec, None)
    facts = {fact.seq: fact for fact in scan.facts()}
    return Salvaged([facts[seq] for seq in sorted(facts)], scan.report())


class _Scan:
    """One look at a session, from its beginning to its end."""

    def __init__(self, database: Database, session: str, codec: Codec, head: Head | None) -> None:
        self._database = database
        self._session = session
        self._head = head
        self._reached = head is None or head.seq == 0
        self._damage: list[Damage] = []
        self._contents = Contents(database.get_blob, codec)
        self._inspector = Inspector(self._contents.number_of)

    def facts(self) -> Iterator[Fact]:
        """Look at everything; gives the facts that are whole."""
        self._check_file()
        try:
            yield from self._inherited()
            yield from self._own()
        except LogError as error:
            if error.details.get("kind") == "no_session" and not self._damage:
                raise
            self._note("database", str(error))

    def _check_file(self) -> None:
        """What SQLite itself thinks of its file; one that is badly damaged cannot even be asked."""
        try:
            for (text,) in self._database.rows("PRAGMA integrity_check(3)"):
                if text != "ok":
                    self._note("database", f"SQLite says: {text}")
        except LogError as error:
            self._note("database", str(error))

    def _inherited(self) -> Iterator[Fact]:
        """The facts that the session was forked with, and where its own begin."""
        try:
            rows = Rows(self._database, self._session)
        except LogError as error:
            kind = error.details.get("kind")
            if kind == "no_session":
                raise
            self._note("parent" if kind == "missing_parent" else "header", str(error))
            return
        parent = rows.header.parent
        self._check_columns(rows.row, rows.header)
        self._inspector.begin(parent.seq if parent else 0, rows.header_hash)
        try:
            for seq, line in rows.inherited():
                found = Found(seq, hash_of_record(line) or b"", line)
                self._reached = self._reached or (seq, found.hash.decode()) == self._head
                fact = self._contents.fact(found, Place())
                if fact is not None:
                    yield fact
        except LogError as error:
            self._note("parent", str(error))

    def _check_columns(self, row: int, header: Header) -> None:
        """What the file says of a session once more, so that it is found quickly."""
        parent = header.parent
        wanted = (
            parent.session if parent else None, parent.seq if parent else 0,
            header.namespace, header.sender, header.created,
        )  # fmt: skip
        if self._database.rows(_COLUMNS, (row,)) != [wanted]:
            self._note("database", "the columns of the session do not say what its header says")

    def _own(self) -> Iterator[Fact]:
        row, _ = stored_session(self._database, self._session)
        titles: list[tuple[int]] = []
        for key, line in self._records(row):
            if line.startswith(CHANGED):
                titles.append((key,))
            yield from self._look(seq_of(key), line)
        heads = self._database.rows("SELECT CAST(head AS BLOB) FROM heads WHERE id = ?", (row,))
        if heads != [(self._inspector.hash,)]:
            self._note(
                "shortened", "the last record is not the last one that was written", self._inspector.seq
            )
        span = (key_of(row, 0), key_of(row + 1, 0))
        if self._database.rows("SELECT id FROM titles WHERE id > ? AND id < ? ORDER BY id", span) != titles:
            self._note("database", "the list of titles is not that of the records")

    def _records(self, row: int) -> Iterator[tuple[int, bytes]]:
        """The records of the session in ``row``, with their keys: each once, in a damaged file too."""
        key, end = key_of(row, 0), key_of(row + 1, 0) - 1
        while found := self._database.rows(RECORDS, (key, end, BATCH)):
            for after, line in found:
                if after <= key:
                    self._note("database", "the records are not in the order of their keys")
                    return
                key = after
                yield key, line

    def _look(self, seq: int, line: bytes) -> Iterator[Fact]:
        for found in self._inspector.look(line, Place(line=seq)):
            if found.seq != seq:
                self._note("moved", f"record {found.seq} stands in the place of record {seq}", found.seq)
            self._reached = self._reached or (found.seq, found.hash.decode()) == self._head
            fact = self._contents.fact(found, Place(line=seq))
            if fact is not None:
                yield fact

    def _note(self, kind: DamageKind, message: str, seq: int = 0) -> None:
        self._damage.append(Damage(kind=kind, message=message, seq=seq))

    def is_whole(self) -> bool:
        """Whether nothing wrong was found so far."""
        return not (self._damage or self._inspector.damage or self._contents.damage)

    def report(self, more: Iterable[Damage] = ()) -> Report:
        """What was found; after ``facts``."""
        inspector = self._inspector
        damage = [*self._damage, *inspector.end(), *self._contents.damage, *more]
        if not self._reached:
            text = f"the log once came to {self._head}"
            damage.append(Damage(kind="shortened", message=text, seq=inspector.seq))
        return Report(
            path=self._database.path,
            session=self._session,
            records=inspector.whole,
            head=str(Head(inspector.seq, inspector.hash.decode())) if inspector.hash else "",
            damage=tuple(damage),
        )
