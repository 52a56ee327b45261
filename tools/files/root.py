"""Directories that paths given by a model cannot leave, and what can be read below them.

How a path is walked, and why it can't leave, is in ``descent.py``. Hard links and mounts inside a root are part of it.
Everything here blocks: call it from a thread.
Read with: ``paths.py`` (what paths mean), ``workspace.py`` (roots that are also written to), ``tests/tools/files/test_root.py``.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .descent import MissingFileError, Place, told
from .paths import Paths

__all__ = ["Entry", "Kind", "MissingFileError", "Root", "Roots"]

_CANCEL_EVERY = 256  # entries between two looks at ``stop``

Kind: TypeAlias = Literal["file", "dir", "link", "special", "ignored", "unreadable"]


class _StoppedError(ToolError):
    """The caller of ``walk`` wants no more."""


class Entry(NamedTuple):
    """One thing met by ``Roots.walk``; links are told, not followed.

    ``path`` can be given back to the roots, ``below`` is the same from where the walk began.
    ``ignored`` and ``unreadable`` are directories that were not entered.
    """

    path: str
    below: str
    kind: Kind
    size: int = 0
    mtime: float = 0.0


class Roots(Paths):
    """One or several existing directories, and safe ways into them. What paths mean there is said of ``Paths``."""

    def open_file(self, path: str) -> BinaryIO:
        """The regular file at ``path``, open for reading; the caller closes it."""
        fd = self._open(path)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.close(fd)
            raise ToolError(f"{shown(path)} is a directory: use list_dir")
        return os.fdopen(fd, "rb")

    @contextmanager
    def open_dir(self, path: str) -> Iterator[int]:
        """A descriptor of the directory at ``path``, good inside the ``with``."""
        fd = self._open(path)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise ToolError(f"{shown(path)} is a file, not a directory")
            yield fd
        finally:
            os.close(fd)

    def is_dir(self, path: str) -> bool:
        fd = self._open(path)
        try:
            return stat.S_ISDIR(os.fstat(fd).st_mode)
        finally:
            os.close(fd)

    @contextmanager
    def place(self, path: str, *, make_parents: bool = False, follow: bool = True) -> Iterator[Place]:
        """Where the file ``path`` is or would be, good inside the ``with``.

        Directories that lack are made with ``make_parents``. Without ``follow`` a link at the end of the path is the
        place itself.

        Raises:
            ToolError: ``path`` leads outside, or to something that is no file.
            MissingFileError: no file could be there: a part of the path that is missing is left with ``..``.
        """
        path = self.meant(path)
        try:
            place = self.descent(path).place(make_parents=make_parents, follow=follow)
        except OSError as error:
            raise told(error, self.relative(path)) from error
        try:
            yield place
        finally:
            os.close(place.fd)

    def walk(
        self,
        path: str = ".",
        *,
        depth: int | None = None,
        ignore: Collection[str] = (),
        enter: Callable[[str], bool] = lambda path: True,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Entry]:
        """What is below the directory ``path``: level by level, each directory in order of names.

        Directories named in ``ignore`` are told and not entered; those that ``enter`` declines,
        given their path below ``path``, are not entered either.

        Raises:
            ToolError: ``path`` can't be listed, or ``stop`` said so.
        """
        start = self.start(path)
        waiting = deque([("", 1)])
        while waiting:
            below, level = waiting.popleft()
            try:
                entries = self._scan(_join(start, below) or ".", stop)
            except _StoppedError:
                raise
            except ToolError:
                if not below:
                    raise
                yield Entry(_join(start, below), below, "unreadable")
                continue
            for name, kind, size, mtime in entries:
                inner = _join(below, name)
                if kind == "dir" and name in ignore:
                    kind = "ignored"
                yield Entry(_join(start, inner), inner, kind, size, mtime)
                if kind == "dir" and (depth is None or level < depth) and enter(inner):
                    waiting.append((inner, level + 1))

    def _scan(self, path: str, stop: Callable[[], bool]) -> list[tuple[str, Kind, int, float]]:
        """Name, kind, size and mtime of what is in a directory, in order whatever the case."""
        found: list[tuple[str, Kind, int, float]] = []
        try:
            with self.open_dir(path) as fd, os.scandir(fd) as entries:
                for count, entry in enumerate(entries):
                    if count % _CANCEL_EVERY == 0 and stop():
                        raise _StoppedError("cancelled")
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone since
                    found.append((entry.name, _kind(info), info.st_size, info.st_mtime))
        except OSError as error:
            raise told(error, path) from error
        return sorted(found, key=lambda item: (item[0].casefold(), item[0]))

    def _open(self, path: str) -> int:
        """A descriptor of the file or directory at ``path``, opened for reading."""
        path = self.meant(path)
        try:
            return self.descent(path).open()
        except OSError as error:
            raise told(error, path) from error


class Root(Roots):
    """An existing directory, and safe ways into it: ``Roots`` of one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.given, self.path = self.tops[0]


def _kind(info: os.stat_result) -> Kind:
    if stat.S_ISDIR(info.st_mode):
        return "dir"
    if stat.S_ISREG(info.st_mode):
        return "file"
    return "link" if stat.S_ISLNK(info.st_mode) else "special"


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part not in ("", "."))
