"""Reading a JSONL log: lines, the header, records, and what is wrong with them.

A line counts once its newline is there; what follows the last newline is torn. Every other fault
is a ``LogError`` that names the path, the line (1-based; the header is line 1) and the byte offset
of the line. Facts are numbered densely from 1, so that a lost or doubled line is seen.

Read with: ``jsonl.py`` (the writer), ``unspool.kernel.codec``.
"""

import os
import warnings
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NamedTuple, TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from unspool.kernel.codec import FORMAT_VERSION, Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

LogPath: TypeAlias = "str | os.PathLike[str]"

_CHUNK = 1 << 16  # bytes read at a time: microseconds when they are in the page cache
_MAGIC = b'{"unspool":'


class Header(msgspec.Struct, omit_defaults=True):
    """The first line of a log. ``unspool`` marks the file, ``format`` is the format's version."""

    unspool: int
    format: int
    writer: str = ""
    session: str = ""


_decode_header = msgspec.json.Decoder(Header).decode


class Line(NamedTuple):
    """A complete line: its number, the offset of its first byte, its bytes without the newline."""

    number: int
    offset: int
    raw: bytes


class Lines:
    """The complete lines of a file that may still grow; ``offset`` is where the next one begins."""

    def __init__(self, path: LogPath) -> None:
        self.path = os.fspath(path)
        self.number = 0
        self.offset = 0
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by ``close``)
        except OSError as error:
            raise LogError("log: cannot be read", path=self.path, reason=error.strerror) from error

    def close(self) -> None:
        self._file.close()

    def available(self) -> Iterator[Line]:
        """The lines that are complete by now; asking again goes on after the last one given."""
        while chunk := self._chunk():
            for raw in chunk:
                line = Line(self.number + 1, self.offset, raw)
                self.number += 1
                self.offset += len(raw) + 1
                yield line

    def rest(self, limit: int = -1) -> bytes:
        """What follows the last complete line given."""
        self._file.seek(self.offset)
        return self._file.read(limit) or b""

    def _chunk(self) -> list[bytes]:
        size = _CHUNK
        while True:
            data = self.rest(size)
            end = data.rfind(b"\n")
            if end >= 0:
                return data[:end].split(b"\n")
            if len(data) < size:
                return []
            size *= 2


class RecordReader:
    """The records of a log, checked: header, format version, JSON, dense numbering."""

    def __init__(self, path: LogPath, codec: Codec | None = None) -> None:
        self.header: Header | None = None
        self.seq = 0
        self._codec = codec or Codec()
        self._lines = Lines(path)

    def close(self) -> None:
        self._lines.close()

    @property
    def offset(self) -> int:
        """Where the first byte after the last complete line is."""
        return self._lines.offset

    def available(self) -> Iterator[Record]:
        """The records that are complete by now; asking again goes on after the last one given.

        Raises:
            LogError: this is no log, a newer format, or damaged; records before that were given.
        """
        for line in self._lines.available():
            if self.header is None:
                self.header = self._check_header(line)
            else:
                yield self._check_record(line)

    def torn(self) -> bytes:
        """What an interrupted write left after the last complete line.

        Raises:
            LogError: the file has no complete line, and what it has was never a log's.
        """
        rest = self._lines.rest()
        if self.header is None and not (rest.startswith(_MAGIC) or _MAGIC.startswith(rest)):
            raise self._fault(Line(1, 0, rest), "log: not an unspool log")
        return rest

    def warn_torn(self, what: str, stacklevel: int) -> None:
        """Warn of a torn last line, if there is one."""
        size = len(self.torn())
        if size:
            place = f"path={self._lines.path!r}, line={self._lines.number + 1}, offset={self.offset}"
            warnings.warn(
                f"log: the last line is torn, {what} ({place}, bytes={size})", stacklevel=stacklevel
            )

    def _check_header(self, line: Line) -> Header:
        if not line.raw.startswith(_MAGIC):
            raise self._fault(line, "log: not an unspool log")
        try:
            header = _decode_header(line.raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._fault(line, "log: damaged header", reason=str(error)) from error
        if header.format > FORMAT_VERSION:
            raise self._fault(
                line,
                "log: written in a newer format, a newer unspool can read it",
                format=header.format,
                supported=FORMAT_VERSION,
                writer=header.writer,
            )
        return header

    def _check_record(self, line: Line) -> Record:
        try:
            record = self._codec.record(line.raw)
        except Exception as error:
            raise self._fault(line, "log: damaged record", reason=str(error)) from error
        seq = record.fact.seq
        if seq != self.seq + 1:
            raise self._fault(line, "log: facts are missing or doubled", seq=seq, expected=self.seq + 1)
        self.seq = seq
        return record

    def _fault(self, line: Line, what: str, **details: Any) -> LogError:
        return LogError(what, path=self._lines.path, line=line.number, offset=line.offset, **details)


def iter_records(path: LogPath, codec: Codec | None = None) -> Iterator[Record]:
    """The records of a log, one by one, up to its end or to the first damage.

    A torn last line is left out, with a ``UserWarning``.

    Raises:
        LogError: the file cannot be read, is no log, in a newer format, or damaged.
    """
    reader = RecordReader(path, codec)
    try:
        yield from reader.available()
        reader.warn_torn("it is left out", stacklevel=3)
    finally:
        reader.close()


def load_records(path: LogPath, codec: Codec | None = None) -> list[Record]:
    """All records of a log with their bytes as stored: what this version does not know survives.

    Raises:
        LogError: as ``iter_records``.
    """
    return list(iter_records(path, codec))


def load(path: LogPath, codec: Codec | None = None) -> list[Fact]:
    """All facts of a log; ``fold`` makes a state of them.

    Raises:
        LogError: as ``iter_records``.
    """
    return [record.fact for record in iter_records(path, codec)]


async def read(
    path: LogPath, start: int = 0, stop: int | None = None, codec: Codec | None = None
) -> AsyncGenerator[Fact, None]:
    """Facts with ``start < seq``, and ``seq <= stop`` where given; a torn last line is left out.

    Raises:
        LogError: as ``iter_records``.
    """
    reader = RecordReader(path, codec)
    try:
        for fact in facts_after(reader, start):
            if stop is not None and fact.seq > stop:
                return
            yield fact
            if fact.seq % 256 == 0:
                await anyio.lowlevel.checkpoint()
    finally:
        reader.close()


async def follow(
    path: LogPath, start: int = 0, codec: Codec | None = None, *, poll_s: float = 0.1
) -> AsyncGenerator[Fact, None]:
    """Facts with ``start < seq`` as another process writes them; it waits for more until closed.

    Raises:
        LogError: as ``iter_records``.
    """
    reader = RecordReader(path, codec)
    try:
        while True:
            for fact in facts_after(reader, start):
                yield fact
            await anyio.sleep(poll_s)
    finally:
        reader.close()


def facts_after(reader: RecordReader, start: int) -> Iterator[Fact]:
    """The facts that ``reader`` has available, without the first ``start``."""
    return (record.fact for record in reader.available() if record.fact.seq > start)
