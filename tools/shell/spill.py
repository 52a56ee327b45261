"""Whole outputs on disk: a private directory with a file for each command that had much to say.

The directory has mode 0700 and goes when the store is closed, is no longer used, or the process ends. (When that is
killed, it stays: temporary directories are the system's to clean.)
Read with: ``output.py`` (the writer).
"""

import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import BinaryIO

from unspool.kernel.errors import ToolError

MAX_FILE = 64 << 20  # bytes kept of one output
MAX_FILES = 1 << 30  # bytes kept of all; the oldest go first


class OutputFiles:
    """A store of outputs. ``directory`` is where it is made: the system's place for temporary files by default."""

    def __init__(
        self, directory: str | None = None, *, max_file: int = MAX_FILE, max_files: int = MAX_FILES
    ) -> None:
        self.max_file = max_file
        self._max_files = max_files
        self._parent = directory
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._count = 0
        self._remove: weakref.finalize[..., OutputFiles] | None = None

    @property
    def path(self) -> Path:
        """The directory, which is made when it is first asked for.

        Raises:
            ToolError: it can't be made.
        """
        with self._lock:
            if self._path is None or not self._path.is_dir():  # some systems clean up what is old
                try:
                    self._path = Path(tempfile.mkdtemp(prefix="unspool-shell-", dir=self._parent))
                except OSError as error:
                    raise ToolError(f"there is no place for temporary files: {error.strerror}") from error
                self._remove = weakref.finalize(self, _remove, self._path, os.getpid())
            return self._path

    def close(self) -> None:
        """Remove the directory and all that is in it. The store may be used again."""
        with self._lock:
            if self._remove is not None:
                self._remove()
            self._path = self._remove = None

    def create(self) -> tuple[Path, BinaryIO]:
        """A new file, open for writing without a buffer.

        Raises:
            ToolError, OSError: it can't be made.
        """
        directory = self.path
        with self._lock:
            self._count += 1
            path = directory / f"output-{self._count}.log"
            self._make_room(directory)
        return path, open(path, "xb", buffering=0)

    def _make_room(self, directory: Path) -> None:
        files = [
            (entry.stat().st_mtime_ns, entry.stat().st_size, entry) for entry in directory.glob("output-*")
        ]
        total = sum(size for _, size, _ in files)
        for _, size, entry in sorted(files):
            if total + self.max_file <= self._max_files:
                return
            entry.unlink(missing_ok=True)
            total -= size


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked
        shutil.rmtree(path, ignore_errors=True)
