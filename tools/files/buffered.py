"""Directories in which some files are open in buffers of a host: what is read is what is in the buffers.

A path is resolved and confined before the host is asked for it.
Read with: ``buffers.py``.
"""

import os
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ToolContext

from .buffers import Buffer, Buffers, buffer_at
from .descent import MissingFileError
from .root import Roots


class BufferedRoots(Roots):
    """``Roots`` with the buffers that are open in a host, if there are any."""

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        cwd: Callable[[ToolContext], str] | None = None,
        buffers: Buffers | None = None,
    ) -> None:
        super().__init__(*paths, cwd=cwd)
        self.buffers = buffers

    def open_file(self, path: str) -> BinaryIO:
        """What is in the file at ``path``, open for reading; the caller closes it.

        It is the file, or bytes in memory (which have no ``fileno``) where a buffer is open on it.
        """
        buffer = self._buffer(path)
        return super().open_file(path) if buffer is None else BytesIO(buffer.data)

    def is_dir(self, path: str) -> bool:
        try:
            return super().is_dir(path)
        except MissingFileError:
            if self._buffer(path) is None:  # else a new file that was never saved
                raise
            return False

    def buffers_below(self, path: str) -> dict[str, bytes]:
        """What is in the open buffers of files in the directory ``path``, by their paths from there.

        Raises:
            ToolError: ``path`` can't be opened.
        """
        if self.buffers is None:
            return {}
        top = self.directory(path).rstrip("/") + "/"
        names = sorted(name for name in self.buffers.paths() if name.startswith(top))
        found = {name: self._buffer(name) for name in names}
        return {name.removeprefix(top): buffer.data for name, buffer in found.items() if buffer is not None}

    def _buffer(self, path: str) -> Buffer | None:
        """The buffer that is open on the file at ``path``; None where none is, or no file could be there."""
        if self.buffers is None:
            return None
        try:
            with self.place(path) as place:
                return buffer_at(place, self.buffers)
        except ToolError:  # whoever asks looks at the path again, and says what is wrong with it
            return None
