"""Small files that are there whole or not at all.

Read with: ``snapshots.py``.
"""

import os
from uuid import uuid4

from unspool.kernel.errors import LogError


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
        LogError: it cannot be written.
    """
    temporary = f"{path}.{uuid4().hex}.part"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise LogError("log: cannot be written", path=path, reason=error.strerror) from error
