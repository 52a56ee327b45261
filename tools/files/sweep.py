"""The walk that ``glob`` and ``grep`` share: entries that match, and an account of the rest.

Each directory is opened relative to the one above it and never through a link, so the walk can't leave the tree,
whatever is moved meanwhile. Entries come in order of their paths, as ``rg --sort path`` has them.
"""

import errno
import os
from collections.abc import Generator, Iterator
from itertools import islice
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ToolContext
from unspool.tools.text import shown_list

from .descent import AS_DIR, AS_FILE, open_regular
from .ignore_files import MAX_IGNORE_FILE, IgnoreFile, Ignores
from .patterns import Glob
from .root import Roots

IGNORED = frozenset(
    {".git", ".unspool", "node_modules", "__pycache__", ".venv"}
)  # large, and rarely what is meant
MAX_DEPTH = 128  # levels of directories, each of which keeps a descriptor open
_CHUNK = 4096  # entries listed between two looks at ``cancelled``
_GONE = {
    errno.ENOENT,
    errno.ELOOP,
    errno.ENOTDIR,
}  # removed, or swapped for something else, since it was listed

Kind: TypeAlias = Literal["file", "link", "dir", "special"]


class Found(NamedTuple):
    """An entry of the walk; ``stat`` and ``open`` are good until the walk goes on."""

    path: str
    below: str
    entry: os.DirEntry[str]
    fd: int

    def stat(self) -> os.stat_result:
        return self.entry.stat(follow_symlinks=False)

    def open(self) -> BinaryIO:
        """The file, if it is still a regular one; the caller closes it. Raises ToolError or OSError."""
        return os.fdopen(open_regular(self.fd, self.entry.name), "rb", buffering=0)


class _Level(NamedTuple):
    """A directory whose entries are being looked at; ``names`` lead to it from the root directory."""

    fd: int
    entries: Iterator[os.DirEntry[str]]
    prefix: str
    names: tuple[bytes, ...]
    ignores: Ignores


class Sweep:
    """Entries of some kinds below a directory, all or those a pattern matches.

    Left out is what ``.gitignore`` files in and above the directory say, and directories in ``IGNORED`` unless the pattern
    names them; nothing with ``no_ignore``. The directory itself is never left out.
    """

    def __init__(
        self,
        root: Roots,
        path: str,
        pattern: Glob | None,
        kinds: tuple[Kind, ...],
        *,
        no_ignore: bool = False,
    ) -> None:
        self.skipped = frozenset() if no_ignore else IGNORED - pattern.literals if pattern else IGNORED
        self.names = pattern.extension if pattern else ""  # all that it gives have names like this
        self.is_common = True  # no ``.gitignore`` so far that other programs may read differently
        self._obeys = not no_ignore
        self._root = root
        self._path = path
        self._pattern = pattern
        self._kinds = kinds
        self._left_out: list[str] = []
        self._unreadable: list[str] = []
        self._unread_rules: list[str] = []

    def entries(self, ctx: ToolContext) -> Generator[Found, None, None]:
        """The entries; run it to its end before asking for ``notes``.

        Raises:
            ToolError: the directory can't be listed, or the call was cancelled.
        """
        top, parts = self._root.parts(self._path)
        start = self._root.start(self._path)
        prefix = "" if start == "." else f"{start.rstrip('/')}/"
        with self._root.open_dir(self._path) as fd:
            levels = [self._level(os.dup(fd), prefix, *self._above(top.path, parts), ctx)]
            try:
                while levels:
                    yield from self._run(levels, len(prefix), ctx)
            finally:
                for level in levels:
                    os.close(level.fd)

    def notes(self) -> list[str]:
        notes = []
        if self._left_out:
            notes.append(f"left out: {shown_list(self._left_out, 5)}")
        if self._unreadable:
            notes.append(f"not readable: {shown_list(self._unreadable, 5)}")
        if self._unread_rules:
            notes.append(f"not obeyed, a link or too large: {shown_list(self._unread_rules, 5)}")
        return notes

    def _run(self, levels: list[_Level], start: int, ctx: ToolContext) -> Iterator[Found]:
        """Go on with the last level, until it ends or a directory in it becomes the last one."""
        level = levels[-1]
        kinds, pattern, rules = self._kinds, self._pattern, level.ignores
        for entry in level.entries:
            kind = _kind(entry)
            path = level.prefix + entry.name
            is_dir = kind == "dir"
            names = (*level.names, os.fsencode(entry.name)) if rules.files or is_dir else ()
            if (is_dir and entry.name in self.skipped) or (rules.files and rules.leave_out(names, is_dir)):
                self._left_out.append(f"{path}/" if is_dir else path)
                continue
            below = path[start:]
            if kind in kinds and (pattern is None or pattern.matches(below)):
                yield Found(path, below, entry, level.fd)
            if is_dir and (pattern is None or pattern.may_match_below(below)):
                inner = self._enter(levels, level, entry.name, names, ctx)
                if inner is not None:
                    levels.append(inner)
                    return
        os.close(levels.pop().fd)

    def _enter(
        self, levels: list[_Level], level: _Level, name: str, names: tuple[bytes, ...], ctx: ToolContext
    ) -> _Level | None:
        path = f"{level.prefix}{name}/"
        try:
            if len(levels) >= MAX_DEPTH:
                raise OSError(errno.EMFILE, "too deep")
            fd = os.open(name, AS_DIR, dir_fd=level.fd)
        except OSError as error:
            if error.errno not in _GONE:
                self._unreadable.append(path)
            return None
        return self._level(fd, path, names, level.ignores, ctx)

    def _level(
        self, fd: int, prefix: str, names: tuple[bytes, ...], above: Ignores, ctx: ToolContext
    ) -> _Level:
        """A directory that was opened as ``fd``, which is closed when it can't be listed."""
        try:
            entries = _listed(fd, ctx)
            ignores = self._rules(fd, prefix, names, above, entries) if self._obeys else above
        except BaseException:
            os.close(fd)
            raise
        return _Level(fd, iter(entries), prefix, names, ignores)

    def _rules(
        self,
        fd: int,
        prefix: str,
        names: tuple[bytes, ...],
        above: Ignores,
        entries: list[os.DirEntry[str]],
    ) -> Ignores:
        found = {entry.name: entry for entry in entries if entry.name in (".git", ".gitignore")}
        if not found:
            return above
        file = None
        if ".git" in found:
            self.is_common = self.is_common and not found[".git"].is_symlink()
        if ".gitignore" in found:
            file = _ignore_file(fd)
            self.is_common = self.is_common and file is not None and file.is_common
            if file is None and not found[".gitignore"].is_dir():
                self._unread_rules.append(f"{prefix}.gitignore")
        return above.within(len(names), file, is_repository=".git" in found)

    def _above(self, top: str, parts: list[str]) -> tuple[tuple[bytes, ...], Ignores]:
        """The names that lead to the directory, and the rules of those it lies in."""
        names: list[str] = []
        for part in parts:
            names = names[:-1] if part == ".." else [*names, part]
        ignores = Ignores()
        if self._obeys:
            for depth in range(len(names)):
                try:
                    with self._root.open_dir("/".join([top, *names[:depth]])) as fd:
                        is_repository = ".git" in os.listdir(fd)
                        ignores = ignores.within(depth, _ignore_file(fd), is_repository=is_repository)
                except ToolError:  # a way through links and back: these are not the names it goes by
                    return tuple(map(os.fsencode, names)), Ignores()
        return tuple(map(os.fsencode, names)), ignores


def _listed(fd: int, ctx: ToolContext) -> list[os.DirEntry[str]]:
    listed: list[os.DirEntry[str]] = []
    with os.scandir(fd) as entries:
        while True:
            if ctx.cancelled:
                raise ToolError("cancelled")
            chunk = list(islice(entries, _CHUNK))
            if not chunk:
                break
            listed += chunk
    return sorted(listed, key=_name)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return "dir"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "link" if entry.is_symlink() else "special"


def _ignore_file(fd: int) -> IgnoreFile | None:
    """The ``.gitignore`` in a directory; None when there is none that could be obeyed."""
    try:
        with os.fdopen(os.open(".gitignore", AS_FILE, dir_fd=fd), "rb", buffering=0) as file:
            data = file.read(MAX_IGNORE_FILE + 1) or b""
    except OSError:  # none, a link, a directory, or not ours to read
        return None
    return IgnoreFile(data) if len(data) <= MAX_IGNORE_FILE else None
