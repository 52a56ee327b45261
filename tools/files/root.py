"""A directory that paths given by a model cannot leave.

1. A path is walked name by name from the root, each name opened relative to the directory before
   it and never through a link (``openat`` with ``O_NOFOLLOW``): what was checked is what is opened,
   however the tree changes meanwhile.
2. Links are read and walked here. One that leads out of the root is refused, one that stays is fine.
3. ``..`` is taken from the names walked, not from the file system, and stops at the root.
4. Only regular files and directories are opened: a pipe, a device or a socket could block for ever.

Hard links and mounts inside the root are part of it. Everything here blocks: call it from a thread.
Read with: ``files.py`` (the tools that use it), ``tests/tools/test_root.py`` (the tricks).
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.tools.text import shown

_MAX_PATH = 4096  # characters; PATH_MAX of Linux
_MAX_HOPS = 40  # links followed, or changes met, on one path; Linux allows as many links
_CANCEL_EVERY = 256  # entries between two looks at ``stop``

_COMMON = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_AS_DIR = _COMMON | getattr(os, "O_DIRECTORY", 0)
_AS_FILE = _COMMON | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CHANGED = {errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.EMLINK, errno.ENXIO}  # a name was swapped

Kind: TypeAlias = Literal["file", "dir", "link", "special", "ignored", "unreadable"]


class MissingFileError(ToolError):
    """There is nothing at that path."""


class _StoppedError(ToolError):
    """The caller of ``walk`` wants no more."""


class Entry(NamedTuple):
    """One thing met by ``Root.walk``; links are told, not followed.

    ``path`` can be given back to the root, ``below`` is the same from where the walk began.
    ``ignored`` and ``unreadable`` are directories that were not entered.
    """

    path: str
    below: str
    kind: Kind
    size: int = 0
    mtime: float = 0.0


class Root:
    """An existing directory, and safe ways into it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.given = os.path.abspath(path)
        self.path = os.path.realpath(path)
        if not os.path.isdir(self.path):
            what = "is not a directory" if os.path.exists(self.path) else "does not exist"
            raise ToolDefinitionError(f"root: {what}", path=self.given)
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ToolDefinitionError("root: this platform can't open files relative to a directory")

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

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
        start = "/".join(self._parts(path)) or "."
        waiting = deque([("", 1)])
        while waiting:
            below, level = waiting.popleft()
            try:
                entries = self._scan(_join(start, below), stop)
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
        with self.open_dir(path) as fd, os.scandir(fd) as entries:
            for count, entry in enumerate(entries):
                if count % _CANCEL_EVERY == 0 and stop():
                    raise _StoppedError("cancelled")
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone since
                found.append((entry.name, _kind(info), info.st_size, info.st_mtime))
        return sorted(found, key=lambda item: (item[0].casefold(), item[0]))

    def _parts(self, path: str) -> list[str]:
        """The names of ``path`` below the root, ``..`` among them.

        Raises:
            ToolError: an absolute path elsewhere, or not a path at all.
        """
        if "\0" in path:
            raise ToolError("a path can't hold a NUL character")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError("the path is not valid text") from None
        if len(path) > _MAX_PATH:
            raise ToolError(f"the path is too long: {len(path)} characters")
        if path == "~" or path.startswith("~/"):
            raise ToolError("'~' is not expanded: give a path relative to the root directory")
        if path.startswith("/"):
            path = self._below(path)
        return [part for part in path.split("/") if part not in ("", ".")]

    def _below(self, path: str) -> str:
        for prefix in (self.path, self.given):
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return path[len(prefix) :]
        raise _outside(path)

    def _open(self, path: str) -> int:
        """A descriptor of the file or directory at ``path``, opened for reading."""
        try:
            return self._descend(path, deque(self._parts(path)))
        except OSError as error:
            raise _told(error, path) from error

    def _descend(self, path: str, pending: deque[str]) -> int:
        names: list[str] = []  # walked so far, none of them a link
        fd = self._open_top()
        hops = 0
        try:
            while pending:
                name = pending.popleft()
                if name == "..":
                    pending.extendleft(reversed(_parent(names, path)))
                    names, fd = [], self._swap(fd, self._open_top())
                    continue
                step = _step(name, fd, is_last=not pending)
                if isinstance(step, int):
                    names.append(name)
                    fd = self._swap(fd, step)
                    continue
                hops += 1
                if hops > _MAX_HOPS:
                    raise ToolError(f"{shown(path)} leads through too many links")
                if step.startswith("/"):
                    names, fd = [], self._swap(fd, self._open_top())
                pending.extendleft(reversed(self._link_parts(step, path)))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _open_top(self) -> int:
        try:
            return os.open(self.path, _AS_DIR)
        except OSError as error:
            raise ToolError(f"the root directory can't be opened: {error.strerror}") from error

    @staticmethod
    def _swap(old: int, new: int) -> int:
        os.close(old)
        return new

    def _link_parts(self, target: str, path: str) -> list[str]:
        if target.startswith("/"):
            try:
                target = self._below(target)
            except ToolError:
                raise _outside(path) from None
        return [part for part in target.split("/") if part not in ("", ".")]


def _step(name: str, fd: int, *, is_last: bool) -> int | str:
    """The next descriptor, or where a link points (its own name, when it was swapped meanwhile)."""
    mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    try:
        if stat.S_ISLNK(mode):
            return os.readlink(name, dir_fd=fd)
        if stat.S_ISDIR(mode):
            return os.open(name, _AS_DIR, dir_fd=fd)
        if not is_last:
            raise ToolError(f"{shown(name)} is not a directory")
        if not stat.S_ISREG(mode):
            raise _special(name)
        opened = os.open(name, _AS_FILE, dir_fd=fd)
    except OSError as error:
        if error.errno in _CHANGED:
            return name
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):  # swapped between the look and the opening
        os.close(opened)
        raise _special(name)
    return opened


def _parent(names: list[str], path: str) -> list[str]:
    if not names:
        raise _outside(path)
    return names[:-1]


def _kind(info: os.stat_result) -> Kind:
    if stat.S_ISDIR(info.st_mode):
        return "dir"
    if stat.S_ISREG(info.st_mode):
        return "file"
    return "link" if stat.S_ISLNK(info.st_mode) else "special"


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part not in ("", "."))


def _outside(path: str) -> ToolError:
    return ToolError(f"{shown(path)} is outside the root directory: give a path below it")


def _special(name: str) -> ToolError:
    return ToolError(f"{shown(name)} is a pipe, device or socket: only regular files can be read")


def _told(error: OSError, path: str) -> ToolError:
    match error.errno:
        case errno.ENOENT:
            return MissingFileError(f"there is no {shown(path)}")
        case errno.EACCES | errno.EPERM:
            return ToolError(f"{shown(path)} is not readable: permission denied")
        case errno.ENAMETOOLONG:
            return ToolError("the path is too long: a name in it has more than 255 bytes")
        case _:
            return ToolError(f"{shown(path)} can't be opened: {error.strerror}")
