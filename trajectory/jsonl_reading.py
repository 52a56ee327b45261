"""The records of a JSONL log, each checked: its seal, its number, its place in the chain.

Every fault is a ``LogError`` that names the path, the line (1-based; the header is line 1) and the byte
offset of the line, and says what ``kind`` of damage it is. A log that was forked begins with the records
of its parent, which are read from the parent's file.

Read with: ``jsonl.py`` (the writer), ``lines.py``, ``record.py``, ``loading.py`` (facts), ``verify.py``.
"""

import os
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from unspool.kernel.errors import LogError

from .blobs import FolderBlobs
from .decoding import NumberOf, number_of
from .files import real_path
from .header import MAGIC, Header, Parent, read_header
from .lines import Line, Lines, LogPath
from .record import hash_of_record, prev_of

MAX_HEADER: Final = 1 << 20  # bytes: what is no log is not read to its end to find that out


def blobs_of(path: str) -> FolderBlobs:
    """Where a log keeps its large contents: a folder beside its file, not beside a link to it."""
    return FolderBlobs(f"{real_path(path)}.blobs")


def snapshot_path(path: str) -> str:
    """Where a log keeps its snapshot: a file beside its own."""
    return f"{real_path(path)}.snapshot"


def may_begin_header(data: bytes) -> bool:
    """Whether a header may begin like this: one that is being written, or was left so."""
    return data.startswith(MAGIC) or MAGIC.startswith(data)


class StoredLine(NamedTuple):
    """A record whose seal, number and place in the chain are right, and where it and its blobs are."""

    seq: int
    line: bytes
    blobs: FolderBlobs
    path: str
    number: int  # of the line
    offset: int


class FileReader:
    """The records that one file holds itself.

    ``header`` is known once the first line has been read; ``seq`` and ``hash`` are those of the last
    record given, or those that the first one continues.
    """

    def __init__(self, path: LogPath, number: NumberOf = number_of) -> None:
        self._number = number
        self._lines = Lines(path, MAX_HEADER)
        self.path = self._lines.path
        self.blobs = blobs_of(self.path)
        self.header: Header | None = None
        self.seq = 0
        self.hash = b""

    def close(self) -> None:
        self._lines.close()

    @property
    def offset(self) -> int:
        """Where the first byte after the last complete line is."""
        return self._lines.offset

    def available(self) -> Iterator[StoredLine]:
        """The records that are complete by now; asking again goes on after the last one given.

        Raises:
            LogError: this is no log, another format, or damaged; records before that were given.
        """
        for line in self._lines.available():
            if self.header is None:
                self._begin(line)
            else:
                yield self._check(line)

    def read_header(self) -> Header | None:
        """The header, read first if need be; None where the file has no complete line yet.

        Raises:
            LogError: as ``available``.
        """
        if self.header is None:
            for line in self._lines.available():
                self._begin(line)
                break
        return self.header

    def _begin(self, line: Line) -> None:
        self.header, self.hash = read_header(line.raw, **self._place(line))
        if self.header.parent is not None:
            self.seq = self.header.parent.seq

    def _check(self, line: Line) -> StoredLine:
        raw = line.raw
        hashed = hash_of_record(raw)
        if hashed is None:
            raise self._fault(line, "log: damaged record", kind="changed", reason="its checksum does not fit")
        try:
            seq = self._number(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._fault(line, "log: damaged record", kind="undecodable", reason=str(error)) from error
        if seq != self.seq + 1:
            raise self._fault(
                line, "log: facts are missing or doubled", kind="order", seq=seq, expected=self.seq + 1
            )
        if prev_of(raw) != self.hash:
            raise self._fault(line, "log: a record before this one was replaced", kind="chain", seq=seq)
        self.seq, self.hash = seq, hashed
        return StoredLine(seq, raw, self.blobs, self.path, line.number, line.offset)

    def check_place(self) -> None:
        """Make sure that the file is still there, as long as what was given of it.

        Raises:
            LogError: it is not.
        """
        self._lines.check_place()

    def torn(self) -> bytes | None:
        """What an interrupted write left after the last complete line; None where records came meanwhile.

        Raises:
            LogError: the file has no complete line, and what it has was never a log's; or what is left is
                no part of a record but a whole one whose end was changed.
        """
        rest = self._lines.torn()
        if rest is None:
            return None
        line = Line(self._lines.number + 1, self.offset, rest)
        if self.header is None and not may_begin_header(rest):
            raise self._fault(line, "log: not an unspool log", kind="not_a_log")
        if hash_of_record(rest[:-1]) is not None:
            raise self._fault(line, "log: damaged record", kind="changed", reason="its end was changed")
        return rest

    def warn_torn(self, what: str, stacklevel: int) -> bool:
        """Warn of a torn last line, if there is one; False where records came meanwhile, to be read first."""
        torn = self.torn()
        if torn is None:
            return False
        if size := len(torn):
            place = f"path={self.path!r}, line={self._lines.number + 1}, offset={self.offset}"
            warnings.warn(
                f"log: the last line is torn, {what} ({place}, bytes={size})", stacklevel=stacklevel + 1
            )
        return True

    def _place(self, line: Line) -> dict[str, Any]:
        return {"path": self.path, "line": line.number, "offset": line.offset}

    def _fault(self, line: Line, what: str, **details: Any) -> LogError:
        return LogError(what, **self._place(line), **details)


class LogReader(FileReader):
    """All records of a log: those it was forked from, then its own. ``seq`` counts through."""

    def __init__(self, path: LogPath, number: NumberOf = number_of) -> None:
        super().__init__(path, number)
        self._inherited = False

    def available(self) -> Iterator[StoredLine]:
        header = self.read_header()
        if header is None:
            return
        if not self._inherited:
            yield from inherited(header, self.path, self._number)
            self._inherited = True
        yield from super().available()


class _Segment(NamedTuple):
    """Records of one file, up to number ``seq``, whose hash is ``hash``."""

    path: str
    seq: int
    hash: str


def parent_path(parent: Parent, path: str) -> str:
    """The file of the log that the one at ``path`` was forked from."""
    return os.path.join(os.path.dirname(real_path(path)), parent.path or f"{parent.session}.jsonl")


def inherited(header: Header, path: str, number: NumberOf = number_of) -> Iterator[StoredLine]:
    """The records that a log begins with because it was forked, from the files of its ancestors.

    Raises:
        LogError: one of them is missing, damaged, or not what it was when the fork was made.
    """
    segments = _segments(header, path)
    expected = {segment.seq: segment for segment in segments}
    for segment in reversed(segments):
        reader = FileReader(segment.path, number)
        try:
            if reader.read_header() is not None and segment.seq == reader.seq:
                _compare(expected.get(reader.seq), reader.hash, path)
                continue  # it was forked where it began itself
            for stored in reader.available():
                if stored.seq in expected:
                    _compare(expected[stored.seq], reader.hash, path)
                yield stored
                if stored.seq == segment.seq:
                    break
            else:
                _compare(segment, b"", path)
        finally:
            reader.close()


def _segments(header: Header, path: str) -> list[_Segment]:
    """Where the inherited records are, the nearest ancestor first."""
    segments: list[_Segment] = []
    limit, hashed = (header.parent.seq, header.parent.hash) if header.parent else (0, "")
    seen: set[str] = set()
    while header.parent is not None:
        source = parent_path(header.parent, path)
        try:
            reader = FileReader(source)
            try:
                above = reader.read_header()
            finally:
                reader.close()
        except LogError as error:
            raise _no_parent(path, source, str(error)) from error
        if above is None:
            raise _no_parent(path, source, "it has no header")
        place = real_path(source)
        if place in seen:
            raise _no_parent(path, source, "forks go round in a circle")
        seen.add(place)
        if above.parent is None or limit > above.parent.seq:
            segments.append(_Segment(source, limit, hashed))
            limit, hashed = (above.parent.seq, above.parent.hash) if above.parent else (0, "")
        header, path = above, source
    return segments


def _no_parent(path: str, source: str, reason: str) -> LogError:
    what = "log: the log that this one was forked from cannot be read"
    return LogError(what, kind="missing_parent", path=path, parent=source, reason=reason)


def _compare(segment: _Segment | None, found: bytes, path: str) -> None:
    if segment is not None and found.decode() != segment.hash:
        what = "log: the log that this one was forked from is another one now"
        raise LogError(what, kind="changed_parent", path=path, parent=segment.path, seq=segment.seq)
