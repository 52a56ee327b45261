"""Forking a JSONL log: a new file whose header points into an old one.

Nothing is copied. A record is found by its number by halving, so that a fork costs the same at any length.

Read with: ``jsonl_reading.py`` (how a fork is read), ``jsonl_sessions.py``.
"""

import os
import time
from typing import BinaryIO, Final, NamedTuple

import msgspec

from unspool.kernel.errors import LogError

from .files import open_file, real_path
from .header import About, Header, Parent, make_header, read_header, seal_header
from .jsonl_reading import MAX_HEADER, may_begin_header, parent_path
from .lease import folder_held
from .lines import LogPath
from .names import named_by
from .record import Peek, hash_of_record, peek

_STEP: Final = 4096  # bytes looked at around a place


class Stored(NamedTuple):
    """A record in a file: its number and time, its bytes, where it begins."""

    seq: int
    time: float
    line: bytes
    offset: int


def fork_log(
    path: LogPath,
    target: LogPath,
    at: int | None = None,
    *,
    session: str = "",
    namespace: str = "",
    sender: str = "",
    redacted: bool = False,
) -> Header:
    """Make the log ``target``, which begins with the facts of ``path`` up to number ``at`` (all, if None).

    It is ``redacted`` where the log that it begins with is. ``session`` is by default what the file is called.

    Raises:
        LogError: ``path`` cannot be read or has no such fact, ``target`` is there already or cannot be written.
    """
    source, place = os.fspath(path), os.fspath(target)
    session = session or named_by(place)
    with folder_held(os.path.dirname(real_path(place)), alone=False):
        return _forked(source, place, at, session, namespace, sender, redacted)


def _forked(
    source: str, place: str, at: int | None, session: str, namespace: str, sender: str, redacted: bool
) -> Header:
    parent, patterns = _parent(source, place, at)
    about: About = {"namespace": namespace, "sender": sender, "parent": parent}
    header = make_header(session, time.time(), redacted=redacted or patterns, **about)
    line, _ = seal_header(header)
    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(line + b"\n")
    except FileExistsError as error:
        raise LogError("log: there is such a file already", kind="exists", path=place) from error
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise LogError("log: cannot be made", path=place, reason=reason) from error
    return header


def _parent(source: str, target: str, at: int | None) -> tuple[Parent, bool]:
    """The record to fork at, in the file that holds it itself; whether that is redacted."""
    seen: set[str] = set()
    while True:
        check_circle(source, seen)
        header, hashed, last = _ends(source)
        begins = header.parent.seq if header.parent else 0
        at = (last.seq if last else begins) if at is None else at
        if header.parent is None or at > begins:
            break
        source = parent_path(header.parent, source)
    if at != 0:
        found = last if last is not None and last.seq == at else find_record(source, at)
        if found is None:
            raise LogError(
                "log: there is no such fact to fork at", kind="no_fact", path=source, at=at,
                last=last.seq if last else begins,
            )  # fmt: skip
        sealed = hash_of_record(found.line)
        if sealed is None:
            raise LogError("log: damaged record", kind="changed", path=source, seq=at, offset=found.offset)
        hashed = sealed
    path = os.path.relpath(real_path(source), os.path.dirname(real_path(target)))
    return Parent(session=header.session, seq=at, hash=hashed.decode(), path=path), header.redacted


def check_circle(path: str, seen: set[str]) -> None:
    """Add a log to those ``seen`` on the way to the oldest one.

    Raises:
        LogError: it is one of them.
    """
    place = real_path(path)
    if place in seen:
        raise LogError("log: forks go round in a circle", kind="missing_parent", path=path)
    seen.add(place)


def _ends(path: str) -> tuple[Header, bytes, Stored | None]:
    """The header of a log, its hash, and the last record of the file."""
    with open_file(path) as file:
        header, hashed, begin = first_record(file, path)
        return header, hashed, last_record(file, begin)


def first_record(file: BinaryIO, path: str) -> tuple[Header, bytes, int]:
    """The header of a log, its hash, and where the first record after it begins.

    Raises:
        LogError: there is none (kind ``torn`` where it is being written, or was when that was interrupted).
    """
    line = file.readline(MAX_HEADER)
    if len(line) < MAX_HEADER and not line.endswith(b"\n") and may_begin_header(line):
        raise LogError("log: the header is torn", kind="torn", path=path)
    header, hashed = read_header(line.removesuffix(b"\n"), path=path)
    return header, hashed, len(line)


def last_record(file: BinaryIO, begin: int) -> Stored | None:
    """The last complete record of a log whose records begin at byte ``begin``; None where there is none."""
    size = file.seek(0, os.SEEK_END)
    step = _STEP
    while True:
        start = max(begin, size - step)
        file.seek(start)
        data = file.read(size - start)
        end = data.rfind(b"\n")
        before = data.rfind(b"\n", 0, end) if end > 0 else -1
        if end >= 0 and (before >= 0 or start == begin):
            return _record(data[before + 1 : end], start + before + 1) if end > before else None
        if start == begin:
            return None
        step *= 4


def find_record(path: str, seq: int) -> Stored | None:
    """Record number ``seq`` of one file, found by halving; None where it is not there."""
    with open_file(path) as file:
        low = len(file.readline())
        high = file.seek(0, os.SEEK_END)
        while low < high:
            middle = (low + high) // 2
            found = _at_or_after(file, middle, high)
            if found is None or found.seq > seq:
                high = middle
            elif found.seq == seq:
                return found
            else:
                low = found.offset + len(found.line) + 1
    return None


def _at_or_after(file: BinaryIO, offset: int, end: int) -> Stored | None:
    """The first complete record that begins at or after ``offset`` and before ``end``."""
    file.seek(offset - 1)
    file.readline()  # the rest of the record before
    start = file.tell()
    if start >= end:
        return None
    line = file.readline()
    return _record(line[:-1], start) if line.endswith(b"\n") else None


def _record(line: bytes, offset: int) -> Stored:
    try:
        peeked: Peek = peek(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError("log: damaged record", kind="changed", offset=offset, reason=str(error)) from error
    return Stored(peeked.seq, peeked.time, line, offset)
