"""Facts and records of logs, for whoever reads.

Read with: ``jsonl_reading.py`` (what is checked), ``unspool.kernel.codec`` (how bytes become facts).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TypeVar

import anyio
import anyio.lowlevel

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import CodecError, LogError
from unspool.kernel.events import Fact, UnknownFact

from .blobs import attach
from .decoding import Once
from .jsonl_reading import LogReader, StoredLine
from .lines import LogPath
from .record import body_of

T = TypeVar("T")


def decode_line(
    line: bytes, get: Callable[[str], bytes], codec: Codec | Once, seq: int, path: str, /, **place: int
) -> Fact:
    """The fact of a stored record; ``get`` gives the blobs it refers to. ``place`` is for the errors.

    Raises:
        LogError: it does not fit its type, or a blob is missing or changed.
    """
    try:
        whole = attach(line, get)
        fact = codec.decode(whole)
        if type(fact) is UnknownFact:
            return codec.decode(body_of(whole))  # it keeps its bytes, without the seal
        return fact
    except (CodecError, RecursionError) as error:
        details = {"path": path, **place, "seq": seq, "reason": str(error)}
        raise LogError("log: damaged record", kind="undecodable", **details) from error
    except LogError as error:
        raise LogError(str(error.args[0]), **error.details, **place, seq=seq) from error


def fact_of(stored: StoredLine, codec: Codec | Once) -> Fact:
    """The fact of a record that a reader gave.

    Raises:
        LogError: as ``decode_line``.
    """
    seq, line, blobs, path, number, offset = stored
    return decode_line(line, blobs.get, codec, seq, path, line=number, offset=offset)


def reader_of(path: LogPath, codec: Codec | None = None) -> tuple[LogReader, Once]:
    """A reader of a log, and what decodes its records."""
    once = Once(codec or Codec())
    return LogReader(path, once.number_of), once


def facts_of(reader: LogReader, once: Once, start: int = 0) -> Iterator[Fact]:
    """The facts after number ``start`` that ``reader`` has available."""
    for stored in reader.available():
        if stored.seq > start:
            yield fact_of(stored, once)


def _to_end(
    path: LogPath, codec: Codec | None, items: Callable[[LogReader, Once], Iterable[T]]
) -> Iterator[T]:
    """What ``items`` makes of a log up to its end; a torn last line is warned of."""
    reader, once = reader_of(path, codec)
    try:
        while True:
            yield from items(reader, once)
            if reader.warn_torn("it is left out", stacklevel=4):
                return
    finally:
        reader.close()


def iter_records(path: LogPath, codec: Codec | None = None) -> Iterator[Record]:
    """The records of a log, one by one, up to its end or to the first damage.

    A torn last line is left out, with a ``UserWarning``.

    Raises:
        LogError: the file cannot be read, is no log, in another format, or damaged.
    """

    def records(reader: LogReader, once: Once) -> Iterator[Record]:
        for stored in reader.available():
            fact = fact_of(stored, once)
            yield Record(fact, attach(body_of(stored.line), stored.blobs.get))

    return _to_end(path, codec, records)


def load_records(path: LogPath, codec: Codec | None = None) -> list[Record]:
    """All records of a log with their bytes as stored: what this version does not know survives.

    Raises:
        LogError: as ``iter_records``.
    """
    return list(iter_records(path, codec))


def iter_facts(path: LogPath, codec: Codec | None = None) -> Iterator[Fact]:
    """The facts of a log, one by one; as ``iter_records``, without their bytes."""
    return _to_end(path, codec, facts_of)


def load(path: LogPath, codec: Codec | None = None) -> list[Fact]:
    """All facts of a log; ``fold`` makes a state of them.

    Raises:
        LogError: as ``iter_records``.
    """
    return list(iter_facts(path, codec))


async def read(
    path: LogPath, start: int = 0, stop: int | None = None, codec: Codec | None = None
) -> AsyncGenerator[Fact, None]:
    """Facts with ``start < seq``, and ``seq <= stop`` where given; a torn last line is left out.

    Raises:
        LogError: as ``iter_records``.
    """
    reader, once = reader_of(path, codec)
    try:
        for fact in facts_of(reader, once, start):
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
        LogError: as ``iter_records``; or the file is gone or another one (kind ``no_session``), or was
            cut off (``shortened``).
    """
    reader, once = reader_of(path, codec)
    try:
        while True:
            for fact in facts_of(reader, once, start):
                yield fact
            reader.check_place()
            await anyio.sleep(poll_s)
    finally:
        reader.close()
