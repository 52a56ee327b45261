"""The lines of a file that may still grow.

A line counts once its newline is there; what follows the last newline is torn. Only the newline ends a
line: other characters that some programs take for one are content.

Read with: ``jsonl_reading.py``.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from unspool.kernel.errors import LogError

LogPath: TypeAlias = "str | os.PathLike[str]"

_CHUNK = 1 << 16  # bytes read at a time: microseconds when they are in the page cache


class Line(NamedTuple):
    """A complete line: its number, the offset of its first byte, its bytes without the newline."""

    number: int
    offset: int
    raw: bytes


class Lines:
    """The complete lines of a file; ``offset`` is where the next one begins."""

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
