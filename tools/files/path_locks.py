"""One lock for each file, whatever its spelling: who changes it waits for whoever is changing it.

The locks are of the whole process, so that agents with workspaces of their own exclude each other too. Other processes
are not kept out; what they do is noticed by the content of the file.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from unspool.kernel.errors import ToolError

from .descent import Place
from .variants import appearance

_WAIT_S: Final = 60.0  # for somebody who changes the same file
_POLL_S: Final = 0.05  # between two looks at whether the call was cancelled

Key: TypeAlias = tuple[int, int, str]
"""Device and inode of a directory, and a name in it as far as file systems may tell names apart."""


class _Lock:
    """A lock that is forgotten when nobody has it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0  # the thread


_known: weakref.WeakValueDictionary[Key, _Lock] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def lock_key(place: Place) -> Key:
    """What the lock of the file at a place goes by."""
    directory = os.fstat(place.fd)
    name = appearance("/".join([*place.missing, place.name])).casefold()
    return directory.st_dev, directory.st_ino, name


@contextmanager
def locked(key: Key, name: str, stop: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock of a file inside the ``with``. Not to be taken twice by one thread.

    Raises:
        ToolError: ``stop`` said so, or somebody else has held it for a minute.
    """
    with _guard:
        entry = _known.get(key)
        if entry is None:
            entry = _known[key] = _Lock()
    if entry.holder == threading.get_ident():
        raise RuntimeError(f"{name}: this thread is changing it already")
    until = time.monotonic() + _WAIT_S
    while not entry.lock.acquire(timeout=_POLL_S):
        if stop():
            raise ToolError("cancelled")
        if time.monotonic() > until:
            raise ToolError(f"{name} is being changed by another call: try again later")
    entry.holder = threading.get_ident()
    try:
        yield
    finally:
        entry.holder = 0
        entry.lock.release()
