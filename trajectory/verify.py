"""Whether a log is what was written: everything that is wrong with it, and what can be saved.

``verify`` reads a log to its end whatever it finds, classifies each damage and changes nothing, but for a
torn tail when it is told to repair one. ``salvage`` gives the facts that are whole.

Read with: ``damage.py`` (what can be wrong), ``jsonl_reading.py`` (readers, which stop at the first fault).
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError, LogError
from unspool.kernel.events import Fact, UnknownFact
from unspool.kernel.state import AgentState, apply

from .blobs import attach
from .damage import Damage, DamageKind, Found, Inspector, Place, records_in
from .decoding import Once
from .head import Head
from .header import Header, read_header
from .jsonl_reading import blobs_of, inherited, may_begin_header
from .lease import take_lease
from .lines import Line, Lines, LogPath
from .record import body_of, hash_of_record


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``verify`` found. ``records`` are whole, of this log itself; ``head`` is its last one's.

    ``cut`` are the bytes of a torn tail that were cut off.
    """

    path: str
    session: str = ""
    records: int = 0
    head: str = ""
    damage: tuple[Damage, ...] = ()
    cut: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damage


class Salvaged(NamedTuple):
    """The facts of a damaged log that are whole, in their order, and what is wrong with the rest."""

    facts: list[Fact]
    report: Report


class Contents:
    """Looks into records whose bytes are right: do they fit their type, are their blobs there."""

    def __init__(self, get: Callable[[str], bytes], codec: Codec) -> None:
        self._get = get
        self._once = Once(codec)
        self.number_of = self._once.number_of
        self.damage: list[Damage] = []

    def fact(self, found: Found, place: Place) -> Fact | None:
        """The fact of a record; None where it is damaged."""
        try:
            whole = attach(found.line, self._get)
            fact = self._once.decode(whole)
            return self._once.decode(body_of(whole)) if type(fact) is UnknownFact else fact
        except (CodecError, RecursionError) as error:
            self._note("undecodable", str(error), found, place)
        except LogError as error:
            changed = error.details.get("kind") == "changed_blob"
            self._note("changed_blob" if changed else "missing_blob", str(error), found, place)
        return None

    def _note(self, kind: DamageKind, message: str, found: Found, place: Place) -> None:
        line, offset = place
        self.damage.append(Damage(kind=kind, message=message, seq=found.seq, line=line, offset=offset))


def folded(facts: Iterable[Fact], is_whole: Callable[[], bool]) -> list[Damage]:
    """What of ``facts`` cannot follow what came before, told as long as the log ``is_whole``."""
    state: AgentState | None = AgentState()
    damage: list[Damage] = []
    for fact in facts:
        if state is None or not is_whole() or fact.seq != state.seq + 1:
            state = None  # what is missing may be why
            continue
        try:
            state = apply(state, fact)
        except LogError as error:
            damage.append(Damage(kind="impossible", message=str(error), seq=fact.seq))
            state = None
    return damage


def verify(
    path: LogPath, codec: Codec | None = None, *, head: Head | str | None = None, repair: bool = False
) -> Report:
    """Everything that is wrong with the JSONL log at ``path``.

    ``head``, kept from an earlier look at the log, tells whether records are missing at its end. With
    ``repair`` a torn tail is cut off, if nothing else is wrong.

    Raises:
        LogError: the file cannot be read; or it is to be repaired and has a writer, or cannot be written.
    """
    scan = _Scan(os.fspath(path), codec or Codec(), Head.of(head))
    return _repaired(scan) if repair else _looked_over(scan)


def _looked_over(scan: "_Scan") -> Report:
    return scan.report(folded(scan.facts(), scan.is_whole))


def _repaired(scan: "_Scan") -> Report:
    """What is wrong with a log after a torn tail, and nothing else, was cut off, as its one writer."""
    try:
        fd = os.open(scan.path, os.O_RDWR)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise LogError("log: cannot be opened", path=scan.path, reason=reason) from error
    try:
        take_lease(fd, scan.path)  # first: what looks torn may be another's write under way
        report = _looked_over(scan)
        if [damage.kind for damage in report.damage] != ["torn"]:
            return report
        os.ftruncate(fd, report.damage[0].offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    return msgspec.structs.replace(report, damage=(), cut=scan.torn)


def salvage(path: LogPath, codec: Codec | None = None) -> Salvaged:
    """What is whole of the JSONL log at ``path``, whatever is wrong with the rest; nothing is changed.

    Raises:
        LogError: the file cannot be read.
    """
    scan = _Scan(os.fspath(path), codec or Codec(), None)
    facts = {fact.seq: fact for fact in scan.facts()}
    return Salvaged([facts[seq] for seq in sorted(facts)], scan.report())


class _Scan:
    """One look at a file, from its beginning to its end."""

    def __init__(self, path: str, codec: Codec, head: Head | None) -> None:
        self.path = path
        self.torn = 0  # bytes
        self._head = head
        self._reached = head is None or head.seq == 0
        self._header: Header | None = None
        self._foreign = False  # of a format whose records cannot be judged
        self._damage: list[Damage] = []
        self._codec = codec
        self._contents = Contents(blobs_of(path).get, codec)
        self._inspector = Inspector(self._contents.number_of)

    def facts(self) -> Iterator[Fact]:
        """Look at everything; gives the facts that are whole, in the order of storage."""
        lines = Lines(self.path)
        try:
            rest = None
            while rest is None:  # a writer may go on meanwhile
                for line in lines.available():
                    yield from self._look(line) if line.number > 1 else self._begin(line)
                    if self._foreign:
                        return
                rest = lines.torn()
            if rest:
                yield from self._tail(Line(lines.number + 1, lines.offset, rest))
        finally:
            lines.close()

    def _begin(self, line: Line) -> Iterator[Fact]:
        """Look at the first line; gives the facts that the log was forked with, or what else is there."""
        try:
            header, hashed = read_header(line.raw)
        except LogError as error:
            kind = error.details["kind"]
            if kind == "not_a_log" and b'","sum":"' in line.raw:
                kind = "header"  # it has the seal of a record
            self._note(kind, str(error), line)
            self._foreign = kind == "format"
            if not self._foreign:
                yield from self._save(line)
            return
        self._start(header, hashed)
        yield from self._inherited()

    def _start(self, header: Header, hashed: bytes) -> None:
        self._header = header
        seq = header.parent.seq if header.parent else 0
        self._inspector.begin(seq, hashed)
        self._reached = self._reached or (seq, hashed.decode()) == self._head

    def _save(self, line: Line) -> Iterator[Fact]:
        """What is whole in a damaged first line: the header too, if only its end was changed."""
        rest = line.raw
        first, _ = next(records_in(rest), (b"", b""))
        with contextlib.suppress(LogError):
            self._start(*read_header(first))
            rest = rest[rest.index(first) + len(first) :]
        yield from self._inherited()
        place = Place(line.number, line.offset)
        yield from self._facts(self._inspector.search(rest, place), place)

    def _inherited(self) -> Iterator[Fact]:
        """The facts that the log was forked with."""
        if self._header is None:
            return
        head = self._head
        try:
            for stored in inherited(self._header, self.path):
                found = Found(stored.seq, hash_of_record(stored.line) or b"", stored.line)
                self._reached = self._reached or (found.seq, found.hash.decode()) == head
                contents = Contents(stored.blobs.get, self._codec)
                fact = contents.fact(found, Place())
                self._damage += contents.damage
                if fact is not None:
                    yield fact
        except LogError as error:
            self._damage.append(Damage(kind="parent", message=str(error)))

    def _look(self, line: Line) -> Iterator[Fact]:
        place = Place(line.number, line.offset)
        return self._facts(self._inspector.look(line.raw, place), place)

    def _facts(self, records: Iterable[Found], place: Place) -> Iterator[Fact]:
        for found in records:
            self._reached = self._reached or (found.seq, found.hash.decode()) == self._head
            fact = self._contents.fact(found, place)
            if fact is not None:
                yield fact

    def _tail(self, line: Line) -> Iterator[Fact]:
        """What follows the last line's end: left by an interrupted write, or a record whose end was changed."""
        if hash_of_record(line.raw[:-1]) is not None:
            yield from self._look(line) if line.number > 1 else self._begin(line)
            return
        if line.number == 1:
            if not may_begin_header(line.raw):
                self._note("not_a_log", "log: not an unspool log", line)
            return  # a log that is being made has no facts to lose
        self.torn = len(line.raw)
        self._note("torn", f"a write of {self.torn} bytes or more was interrupted", line)

    def is_whole(self) -> bool:
        """Whether nothing wrong was found so far."""
        return not (self._damage or self._inspector.damage or self._contents.damage)

    def report(self, more: Iterable[Damage] = ()) -> Report:
        """What was found; after ``facts``."""
        inspector = self._inspector
        damage = [*self._damage, *inspector.end(), *self._contents.damage, *more]
        if damage and damage[0].kind == "not_a_log":
            if self._header or inspector.whole:  # it is one all the same
                damage[0] = msgspec.structs.replace(damage[0], kind="header")
            else:
                damage = damage[:1]
        if not (self._reached or self._foreign):
            text = f"the log once came to {self._head}"
            damage.append(Damage(kind="shortened", message=text, seq=inspector.seq))
        return Report(
            path=self.path,
            session=self._header.session if self._header else "",
            records=inspector.whole,
            head=str(Head(inspector.seq, inspector.hash.decode())) if inspector.hash else "",
            damage=tuple(damage),
        )

    def _note(self, kind: DamageKind, message: str, line: Line) -> None:
        self._damage.append(Damage(kind=kind, message=message, line=line.number, offset=line.offset))
