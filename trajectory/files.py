"""Files: opened to be read, found by where they really are, there whole or not at all.

Read with: ``blobs.py``, ``jsonl.py`` (snapshots), ``lines.py``.
"""

import itertools
import os
import stat
from typing import BinaryIO, Final

from unspool.kernel.errors import LogError

PART: Final = ".part"  # how the names of files end that are not whole yet
_numbers = itertools.count()


def whole_path(path: str | os.PathLike[str]) -> str:
    """``path`` from the root on, so that it leads to the same place from any folder; links are kept.

    It stays as it is where this process may not come down the way to the folder that it is in.
    """
    given = os.fspath(path)
    if os.path.isabs(given):
        return given
    try:
        folder = os.getcwd()
        os.stat(folder)
    except OSError:
        return given
    return os.path.join(folder, given)


def real_path(path: str) -> str:
    """Where ``path`` leads, with all links followed."""
    whole = whole_path(path)
    try:
        return os.path.realpath(whole) if os.path.isabs(whole) else path
    except ValueError:
        return path  # no file has such a name, which opening it will say


def open_file(path: str, buffering: int = -1) -> BinaryIO:
    """A regular file, open to be read. A pipe or a device is never waited for.

    Raises:
        LogError: it cannot be read, or is no regular file.
    """
    try:
        file: BinaryIO = open(path, "rb", buffering, opener=_open_at_once)  # noqa: SIM115
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise LogError("log: cannot be read", path=path, reason=reason) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise LogError("log: cannot be read", path=path, reason="not a regular file")
    return file


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether there is a SQLite file."""
    try:
        with open_file(os.fspath(path)) as file:
            return file.read(16) == b"SQLite format 3\0"
    except (LogError, OSError):
        return False  # reading it as a log will say why


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: str) -> bytes | None:
    """What a file holds; None where there is none, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def write_whole(path: str, data: bytes) -> None:
    """Put ``data`` in the place of a file, in one step: written under a name of its own, then renamed.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    temporary = f"{path}.{os.getpid()}-{next(_numbers)}{PART}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
