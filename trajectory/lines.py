"""The lines of a file that may still grow.

A line counts once its newline is there; what follows the last newline is torn. Only the newline ends a
line: other characters that some programs take for one are content.

Read with: ``jsonl_reading.py``.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from unspool.kernel.errors import LogError

from .files import open_file, whole_path

LogPath: TypeAlias = "str | os.PathLike[str]"

_CHUNK = 1 << 16  # bytes read at a time: microseconds when they are in the page cache


class Line(NamedTuple):
    """A complete line: its number, the offset of its first byte, its bytes without the newline."""

    number: int
    offset: int
    raw: bytes


class Lines:
    """The complete lines of a file; ``offset`` is where the next one begins.

    ``first`` is how long the first line may be, 0 for any length.

    Raises:
        LogError: the file cannot be read, or is no regular file.
    """

    def __init__(self, path: LogPath, first: int = 0) -> None:
        self.path = os.fspath(path)
        self.number = 0
        self.offset = 0
        self._first = first
        self._file = open_file(self.path, buffering=0)
        self._place = whole_path(self.path)

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

    def torn(self) -> bytes | None:
        """What follows the last line's end; None where lines were written meanwhile, which are available.

        What a write that is under way has left so far is looked at once more.
        """
        for again in (True, False):
            rest = self.rest()
            if b"\n" in rest:
                return None
            if not (rest and again):
                break
        return rest

    def check_place(self) -> None:
        """Make sure that the file is still where it was, and not shorter than what was given of it.

        Raises:
            LogError: it is gone, another one is in its place, or it was cut off.
        """
        opened = os.fstat(self._file.fileno())
        try:
            there = os.path.samestat(opened, os.stat(self._place))
        except OSError as error:
            raise LogError(
                "log: the file is gone", kind="no_session", path=self.path, reason=error.strerror
            ) from error
        if not there:
            raise LogError("log: another file is in its place", kind="no_session", path=self.path)
        if opened.st_size < self.offset:
            raise LogError(
                "log: it was longer once", kind="shortened", path=self.path,
                bytes=opened.st_size, given=self.offset,
            )  # fmt: skip

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
            if 0 < self._first < len(data) and self.offset == 0:
                what = "log: the first line is too long for a header"
                raise LogError(
                    what, kind="not_a_log", path=self.path, line=1, offset=0, max_bytes=self._first
                )
            if len(data) < size:
                return []
            size *= 2
