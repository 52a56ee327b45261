"""The way from a root directory down to a file, one name at a time.

1. Each name is opened relative to the directory before it and never through a link (``openat`` with ``O_NOFOLLOW``):
   what was checked is what is opened, however the tree changes meanwhile.
2. Links are read and walked here. One that leads out of the roots is refused, one that stays is fine.
3. ``..`` is taken from the names walked, not from the file system, and stops at the root.
4. Only regular files and directories are opened: a pipe, a device or a socket could block for ever.
5. A name that is not there is looked for under the names that look like it; see ``variants.py``.

Read with: ``root.py`` (what is done at the end of the way), ``tests/tools/files/test_path_attacks.py`` (the tricks).
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .tops import Top, below, locate, outside
from .variants import is_visible, variant

_MAX_NAME = 255  # bytes, on all common file systems
_MAX_HOPS = 40  # links followed, or changes met, on one path; Linux allows as many links

_COMMON = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
AS_DIR = _COMMON | getattr(os, "O_DIRECTORY", 0)
AS_FILE = _COMMON | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
# a name was swapped, or made by somebody else
_CHANGED = {errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.EMLINK, errno.ENXIO, errno.EEXIST}


class MissingFileError(ToolError):
    """There is nothing at that path."""


class Place(NamedTuple):
    """Where a file is, or would be: ``name`` in the open directory ``fd``.

    ``path`` is absolute and free of links. ``info`` is of the file; None where there is none. ``missing`` are
    the directories that would have to be made first, below ``fd``. ``is_link``: the path given ends in a link.
    """

    fd: int
    name: str
    path: str
    info: os.stat_result | None = None
    missing: tuple[str, ...] = ()
    is_link: bool = False


class Descent:
    """One walk along ``path``, which may be absolute in any of the roots or relative to the first.

    Errors call it ``given``, where that is another.

    Raises:
        ToolError: ``path`` is not a path, lies or leads outside, or is of a kind that is not opened.
        MissingFileError: there is nothing.
        OSError: the system refuses.
    """

    def __init__(self, tops: Sequence[Top], path: str, given: str = "") -> None:
        self._tops = tops
        self._path = given or path
        self._top, parts = locate(tops, path)
        self._pending = deque(parts)
        self._names: list[str] = []  # walked so far, none of them a link
        self._hops = 0
        self._ends_in_link = False
        self._is_for_new = False
        self._fd = self._open_top()

    def open(self) -> int:
        """A descriptor of the file or directory at the end, opened for reading."""
        try:
            while (last := self._walk()) is not None:
                name, info = last
                if info is None:
                    raise MissingFileError(f"there is no {shown(self._path)}")
                try:
                    return open_regular(self._fd, name)
                except OSError as error:
                    self._walk_again(name, error)
            return os.dup(self._fd)
        finally:
            os.close(self._fd)

    @property
    def directory(self) -> str:
        """The directory that the way has led to, or that the file at its end is in; absolute and free of links."""
        return "/".join([self._top.path.rstrip("/"), *self._names]) or "/"

    def place(self, *, make_parents: bool = False, follow: bool = True) -> Place:
        """Where the file is or would be; the caller closes its ``fd``. Directories that lack are made on request.

        Without ``follow`` a link at the end is not walked: the place is the link's own.
        """
        self._is_for_new = True
        try:
            if self._path.rpartition("/")[2] in ("", ".", ".."):
                raise ToolError(f"{shown(self._path)} names a directory, not a file")
            last = self._walk(make_parents=make_parents, follow=follow)
            if last is None:
                raise ToolError(f"{shown(self._path)} is a directory, not a file")
            *missing, name = (last[0], *self._pending)
            path = "/".join([self._top.path.rstrip("/"), *self._names, *missing, name])
            return Place(self._fd, name, path, last[1], tuple(missing), self._ends_in_link)
        except BaseException:
            os.close(self._fd)
            raise

    def _walk(
        self, *, make_parents: bool = False, follow: bool = True
    ) -> tuple[str, os.stat_result | None] | None:
        """Go on to the last name that is no directory, and what is there; None where the way ends in one.

        Where a name is missing on the way, it is the one that is given, and what comes after it is still pending.
        """
        while self._pending:
            name = self._pending.popleft()
            if name == "..":
                self._ascend()
                continue
            name, info = self._look(name)
            is_last = not self._pending
            try:
                if info is None:
                    self._check_new(name)
                    if is_last or not make_parents:
                        return name, None
                    os.mkdir(name, 0o755, dir_fd=self._fd)
                    self._enter(name)
                elif stat.S_ISLNK(info.st_mode):
                    self._ends_in_link = self._ends_in_link or is_last
                    if is_last and not follow:
                        return name, info
                    self._follow(os.readlink(name, dir_fd=self._fd))
                elif stat.S_ISDIR(info.st_mode):
                    self._enter(name)
                elif not is_last:
                    raise ToolError(f"{shown(name)} is not a directory")
                elif not stat.S_ISREG(info.st_mode):
                    raise special(name)
                else:
                    return name, info
            except OSError as error:
                self._walk_again(name, error)
        return None

    def _look(self, name: str) -> tuple[str, os.stat_result | None]:
        """What is at ``name``, or at the one name that looks like it."""
        try:
            return name, os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            like = variant(self._fd, name)
            if like is None:
                return name, None
            return like, os.stat(like, dir_fd=self._fd, follow_symlinks=False)

    def _check_new(self, name: str) -> None:
        """Refuse what could not be made, before anything is."""
        if ".." in self._pending:
            raise MissingFileError(
                f"there is no {shown(self._path)}: no directory {shown(name)} to go up from"
            )
        for part in (name, *self._pending):
            if self._is_for_new and (shown(part) != part or not is_visible(part)):
                raise ToolError(f"a new file can't be called {part!a}: leave out what can't be seen")
            if len(os.fsencode(part)) > _MAX_NAME:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def _enter(self, name: str) -> None:
        fd = os.open(name, AS_DIR, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = fd
        self._names.append(name)

    def _ascend(self) -> None:
        if self._names:
            self._pending.extendleft(reversed(self._names[:-1]))
        else:
            self._top, rest = self._beside()
            self._pending = deque(rest)
        self._restart()

    def _beside(self) -> tuple[Top, list[str]]:
        """The other root that the way leads to when it leaves this one upwards, and what comes after it."""
        at = self._top.path.split("/")[:-1]
        rest = list(self._pending)
        while rest:
            name = rest.pop(0)
            at = at[:-1] if name == ".." else [*at, name]
            ways = [top for top in self._tops if top.path.split("/")[: len(at)] == at]
            for top in ways:
                if top.path.split("/") == at and top != self._top:
                    return top, rest
            if not ways:  # real paths of roots hold no links; of another name that is not known
                break
        raise outside(self._tops, self._path)

    def _follow(self, target: str) -> None:
        self._hop()
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            found = below(self._tops, target)
            if found is None:
                raise outside(self._tops, self._path)
            self._top, parts = found
            self._restart()
        self._pending.extendleft(reversed(parts))

    def _restart(self) -> None:
        """Go back to the root."""
        fd = self._open_top()
        os.close(self._fd)
        self._fd, self._names = fd, []

    def _walk_again(self, name: str, error: OSError) -> None:
        """Look again at a name that was swapped meanwhile."""
        if error.errno not in _CHANGED:
            raise error
        self._hop()
        self._pending.appendleft(name)

    def _hop(self) -> None:
        self._hops += 1
        if self._hops > _MAX_HOPS:
            raise ToolError(f"{shown(self._path)} leads through too many links")

    def _open_top(self) -> int:
        try:
            return os.open(self._top.path, AS_DIR)
        except OSError as error:
            raise ToolError(f"the root directory can't be opened: {error.strerror}") from error


def open_regular(fd: int, name: str) -> int:
    """A descriptor of the regular file ``name`` in the directory ``fd``, for reading; never waits.

    Raises:
        ToolError: it is something else.
        OSError: it is a link, or the system refuses.
    """
    opened = os.open(name, AS_FILE, dir_fd=fd)
    if not stat.S_ISREG(os.fstat(opened).st_mode):  # swapped between the look and the opening
        os.close(opened)
        raise special(name)
    return opened


def special(name: str) -> ToolError:
    return ToolError(f"{shown(name)} is a pipe, device or socket: only regular files can be opened")


def told(error: OSError, path: str) -> ToolError:
    """What the system says of ``path``, for a model."""
    match error.errno:
        case errno.ENOENT:
            return MissingFileError(f"there is no {shown(path)}")
        case errno.EACCES | errno.EPERM:
            return ToolError(f"{shown(path)} can't be opened: permission denied")
        case errno.ENAMETOOLONG:
            return ToolError("the path is too long: a name in it has more than 255 bytes")
        case _:
            return ToolError(f"{shown(path)} can't be opened: {error.strerror}")
