"""One writer at a time: a lock on a file, which the system gives back when the process dies.

It says who holds it, so that the error can. A lock is never taken from a process that lives, however
old it is, and never kept by one that is dead; a link to the file leads to the same lock.

Read with: ``jsonl.py``, ``sqlite.py``.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from unspool.kernel.errors import LogError

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]


def take_lease(fd: int, path: str) -> None:
    """Become the one writer of the open file ``fd``, until it is closed.

    Where the system or the file system has no such locks there is a ``UserWarning``.

    Raises:
        LogError: another writer has it.
    """
    if fcntl is None:
        _warn(path, "this system has no file locks")
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        details = {"pid": pid} if (pid := _holder(fd)) else {}
        raise LogError("log: another writer has it open", kind="busy", path=path, **details) from error
    except OSError as error:
        _warn(path, f"this file system has no locks: {error.strerror}")


@contextmanager
def folder_held(path: str, *, alone: bool) -> Iterator[None]:
    """Within it, no log of a folder is deleted while another one is forked from it.

    Whoever forks holds the folder together with others, whoever deletes holds it ``alone``; each waits for
    its turn. Where there is no such folder, or no such locks, nothing is held.
    """
    try:
        fd = os.open(path or ".", os.O_RDONLY) if fcntl is not None else -1
    except (OSError, ValueError):
        fd = -1
    try:
        if fcntl is not None and fd >= 0:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _warn(path: str, why: str) -> None:
    warnings.warn(f"log: nothing keeps a second writer out, {why} (path={path!r})", stacklevel=4)


def _holder(fd: int) -> int:
    """The process that holds the lock, where the system tells; 0 where it does not."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                words = line.split()
                if words[1:2] == ["FLOCK"] and words[5:6] == [wanted]:
                    return int(words[4])
    except (OSError, ValueError, IndexError):
        return 0
    return 0
