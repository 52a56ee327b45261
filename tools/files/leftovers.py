"""Files that a process left beside the one it was writing, as it was killed: found by their names, and removed.

The name holds the number of the process. Removed is what no running process has and nobody wrote to for a while, as
numbers mean nothing to other machines and containers that share the directory.
Read with: ``saving.py``.
"""

import contextlib
import os
import re
import secrets
import stat
import time
from typing import Final

_NAME: Final = re.compile(r"\.unspool-([1-9][0-9]{0,9})-[0-9a-f]{16}\.tmp")
_IDLE_S: Final = 300.0  # since the last write to a file that is left
_MAX_KNOWN: Final = 4096
_looked_at: set[tuple[int, int]] = set()  # device and inode of directories


def beside_name() -> str:
    """A name for a file of this process that is to take the place of another."""
    return f".unspool-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def remove_leftovers(fd: int) -> None:
    """Remove what killed processes left in the directory ``fd``; looked for once in the life of this process."""
    info = os.fstat(fd)
    key = (info.st_dev, info.st_ino)
    if key in _looked_at:
        return
    if len(_looked_at) >= _MAX_KNOWN:
        _looked_at.clear()
    _looked_at.add(key)
    for name in os.listdir(fd):
        found = _NAME.fullmatch(name)
        if found and not _is_running(int(found[1])):
            with contextlib.suppress(OSError):  # gone, or not ours to remove: it harms nobody
                left = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISREG(left.st_mode) and time.time() - left.st_mtime > _IDLE_S:
                    os.unlink(name, dir_fd=fd)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, or no number of a process
        return True
    return True
