"""What can be wrong with a log, found by reading it to its end whatever comes.

Records are looked at one by one, in the order in which they are stored; ``Inspector`` remembers what it has
seen, so that it can tell a record that is gone from one that stands elsewhere, and one that was changed
from one that was put in its place.

Read with: ``verify.py`` (the callers), ``record.py``.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from .decoding import NumberOf, number_of
from .record import hash_of_record, prev_of

DamageKind: TypeAlias = Literal[
    "not_a_log", "format", "header", "changed", "missing", "duplicate", "moved", "replaced", "shortened", "torn",
    "undecodable", "impossible", "missing_blob", "changed_blob", "parent", "database",
]  # fmt: skip
"""What is wrong, as a stable label.

- ``not_a_log``, ``format``, ``header``: the first record is no header, is of another format, is damaged.
- ``changed``: the bytes of a record are not those that were written.
- ``missing``: records are gone; ``duplicate``: one is there twice; ``moved``: one stands at another place.
- ``replaced``: a record is whole, but not the one that those after it vouch for.
- ``shortened``: the log was longer once, by a head that was kept elsewhere.
- ``torn``: a write was interrupted; nothing that was acknowledged is lost.
- ``undecodable``: a record is what was written, and does not fit its type.
- ``impossible``: a record is what was written, and cannot follow what was recorded before it.
- ``missing_blob``, ``changed_blob``: a content that a record refers to.
- ``parent``: the log that this one was forked from is missing, damaged or another.
- ``database``: SQLite itself finds its file damaged.
"""


class Damage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a log.

    ``seq`` is the number of the fact concerned, 0 where it is not known, and ``last`` that of the last one
    of a range. ``line`` (from 1; the header is line 1) and ``offset`` say where in a file.
    """

    kind: DamageKind
    message: str
    seq: int = 0
    last: int = 0
    line: int = 0
    offset: int = 0


class Found(NamedTuple):
    """A whole record, wherever it stands: its number, its hash, its bytes."""

    seq: int
    hash: bytes
    line: bytes


class Place(NamedTuple):
    """Where a record is stored."""

    line: int = 0
    offset: int = 0


_SEAL_END: Final = re.compile(rb'","sum":"[0-9A-Za-z+/]{8}"}')


class Inspector:
    """Looks at the records of one log in the order of storage."""

    def __init__(self, number: NumberOf = number_of) -> None:
        self._number = number
        self.damage: list[Damage] = []
        self.whole = 0  # records that are there and whole, each counted once
        self.seq = -1  # the highest number seen; -1 as long as nobody knows where the log begins
        self.hash = b""  # of that record
        self._first = 0  # the number that the log continues
        self._hashes: dict[int, bytes] = {}
        self._missing: dict[int, Place] = {}
        self._unknown: list[int] = []  # places in ``damage`` of changed records whose number is not known yet

    def begin(self, seq: int, hashed: bytes) -> None:
        """The log continues the record of number ``seq`` with that hash."""
        self._first = self.seq = seq
        self._hashes[seq] = self.hash = hashed

    def look(self, raw: bytes, place: Place) -> Iterator[Found]:
        """Look at what is stored at ``place``; gives the whole records found there, as a rule one."""
        hashed = hash_of_record(raw)
        if hashed is not None:
            found = self._accept(Found(self._seq_of(raw), hashed, raw), place)
            if found is not None:
                yield found
            return
        self._unknown.append(len(self.damage))
        self._note("changed", "the record is not what was written", place)
        yield from self.search(raw, place)

    def search(self, raw: bytes, place: Place) -> Iterator[Found]:
        """The whole records in what is stored at ``place``, whatever else is wrong with it."""
        for line, hashed in records_in(raw):
            found = self._accept(Found(self._seq_of(line), hashed, line), place)
            if found is not None:
                yield found

    def _accept(self, found: Found, place: Place) -> Found | None:
        seq, hashed, line = found
        if seq in self._hashes:
            same = self._hashes[seq] == hashed
            kind: DamageKind = "duplicate" if same else "replaced"
            self._note(
                kind, "the record is there twice" if same else "two records have this number", place, seq
            )
            return None
        if seq <= self._first:
            self._note("moved", "the record is none of the facts of this log", place, seq)
            return None
        if seq <= self.seq:
            self._missing.pop(seq, None)
            self._note("moved", "the record stands at another place than it was written", place, seq)
        else:
            self._skip(seq, place)
            self.seq, self.hash = seq, hashed
        before = self._hashes.get(seq - 1)
        if before is not None and prev_of(line) != before:
            self._note("replaced", "the record before this one is not the one that was written", place, seq)
        self._hashes[seq] = hashed
        self.whole += 1
        return found

    def _skip(self, seq: int, place: Place) -> None:
        """Account for the numbers between the last record and number ``seq``."""
        if seq == self.seq + 1 and not self._unknown:
            return
        gap = range(self.seq + 1, seq) if self.seq >= 0 else range(0)
        unknown, self._unknown = self._unknown, []
        if len(unknown) <= len(gap):
            for index, number in zip(unknown, gap, strict=False):
                self.damage[index] = msgspec.structs.replace(self.damage[index], seq=number)
        for number in gap[len(unknown) :]:
            self._missing[number] = place

    def end(self) -> list[Damage]:
        """Everything that is wrong, with what never came."""
        for first, last, place in _ranges(self._missing):
            text = "the record is gone" if first == last else f"{last - first + 1} records are gone"
            self._note("missing", text, place, first, last if last != first else 0)
        self._missing = {}
        return sorted(self.damage, key=lambda damage: (damage.line, damage.seq))

    def _seq_of(self, line: bytes) -> int:
        """The number of a whole record; 0 for one that is no fact, a header for instance."""
        try:
            return self._number(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 0

    def _note(self, kind: DamageKind, message: str, place: Place, seq: int = 0, last: int = 0) -> None:
        line, offset = place
        self.damage.append(Damage(kind=kind, message=message, seq=seq, last=last, line=line, offset=offset))


def records_in(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The whole records inside a damaged line, with their hashes: beside zeros, or where a line's end was lost."""
    done = 0
    for seal in _SEAL_END.finditer(raw):
        end = seal.end()
        start = raw.find(b'{"', raw.rfind(b"\0", done, end) + 1 or done, end)
        done = end
        hashed = hash_of_record(raw[start:end]) if start >= 0 else None
        if hashed is not None:
            yield raw[start:end], hashed


def _ranges(missing: dict[int, Place]) -> Iterator[tuple[int, int, Place]]:
    """Runs of numbers that are missing at one place."""
    first = last = 0
    place = Place()
    for number in sorted(missing):
        if first and number == last + 1 and missing[number] == place:
            last = number
            continue
        if first:
            yield first, last, place
        first = last = number
        place = missing[number]
    if first:
        yield first, last, place
