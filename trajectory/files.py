"""Files that are there whole or not at all.

Read with: ``blobs.py``, ``jsonl.py`` (snapshots).
"""

import itertools
import os
from typing import Final

PART: Final = ".part"  # how the names of files end that are not whole yet
_numbers = itertools.count()


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
