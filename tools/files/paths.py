"""What paths given by a model mean: which directories they start from, and how they are shown again.

Read with: ``root.py`` (what is done at the end of a path), ``descent.py`` (the way there).
"""

import copy
import os
import stat
from collections.abc import Callable
from typing import Self

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.kernel.ports import ToolContext
from unspool.tools.text import shown

from .descent import Descent, MissingFileError, told
from .tops import Top, locate

_NOWHERE, _NEAR, _FOUND, _REFUSED = range(4)  # how far a path leads


class Paths:
    """One or several existing directories, and paths in them.

    Relative paths start at the first one; absolute paths, and links, may lead into any of them. A leading ``@``, as
    mentions of files have it, is dropped where nothing has that name and what follows leads further.

    ``cwd``, asked for each call, says where relative paths start instead, ``""`` for the first root: for an agent that
    has another worktree. It must be a directory in one of the roots. See ``at``.

    Raises:
        ToolDefinitionError: no root, one that is not an existing directory, or a platform without ``openat``.
    """

    def __init__(
        self, *paths: str | os.PathLike[str], cwd: Callable[[ToolContext], str] | None = None
    ) -> None:
        if not paths:
            raise ToolDefinitionError("root: give at least one directory")
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ToolDefinitionError("root: this platform can't open files relative to a directory")
        self.tops = tuple(_top(path) for path in paths)
        self._cwd = cwd
        self._base = self.tops[0].path  # where relative paths start; free of links

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(top.path) for top in self.tops)})"

    def at(self, ctx: ToolContext) -> Self:
        """The same directories for one call: relative paths start, and are shown, where ``cwd`` says for it.

        Raises:
            ToolError: that is no directory in the roots.
        """
        given = self._cwd(ctx) if self._cwd is not None else ""
        if not given:
            return self
        try:
            base = self.directory(given)
        except ToolError as error:
            raise ToolError(f"the working directory can't be used: {error}") from error
        here = copy.copy(self)
        here._base, here._cwd = base, None
        return here

    def directory(self, path: str) -> str:
        """The absolute path without links of the directory at ``path``.

        Raises:
            ToolError: it is outside, or no directory.
        """
        path = self.meant(path)
        descent = self.descent(path)
        try:
            fd = descent.open()
        except OSError as error:
            raise told(error, path) from error
        is_dir = stat.S_ISDIR(os.fstat(fd).st_mode)
        os.close(fd)
        if not is_dir:
            raise ToolError(f"{shown(path)} is a file, not a directory")
        return descent.directory

    def meant(self, path: str) -> str:
        """``path``, without the ``@`` it begins with where nothing has that name and what follows is a path."""
        if path.startswith("@") and path != "@" and (depth := self._depth(path)) != _FOUND:
            return path[1:] if self._depth(path[1:]) > depth else path
        return path

    def descent(self, path: str) -> Descent:
        """A walk along ``path``, taken as it is."""
        return Descent(self.tops, self._absolute(path), path)

    def parts(self, path: str) -> tuple[Top, list[str]]:
        """The root that ``path`` starts from and the names below it, ``..`` among them."""
        return locate(self.tops, self._absolute(self.meant(path)))

    def start(self, path: str) -> str:
        """``path`` without what says nothing, as it is shown; ``.`` for where relative paths start."""
        top, parts = self.parts(path)
        absolute = "/".join([top.path.rstrip("/"), *parts]) or "/"
        return "." if absolute == self._base else self.relative(absolute)

    def relative(self, path: str) -> str:
        """An absolute path as it is shown: relative to where relative paths start, where it is below that."""
        return path.removeprefix(self._base.rstrip("/") + "/")

    def recorded(self, path: str) -> str:
        """An absolute path as hosts are told it: relative to the first root, wherever a call's paths start."""
        return path.removeprefix(self.tops[0].path.rstrip("/") + "/")

    def _absolute(self, path: str) -> str:
        """A relative path from where it starts, if that is not the first root; others as they are."""
        if self._base == self.tops[0].path or path.startswith(("/", "~/")) or path == "~":
            return path
        return f"{self._base}/{path}"

    def _depth(self, path: str) -> int:
        """How far ``path`` leads: nowhere, to a directory that lacks it, to something, to where it must not."""
        try:
            os.close(self.descent(path).open())
        except MissingFileError:
            return _NEAR if self._has_parent(path) else _NOWHERE
        except ToolError:
            return _REFUSED
        except OSError:
            return _NOWHERE
        return _FOUND

    def _has_parent(self, path: str) -> bool:
        try:
            place = self.descent(path).place()
        except (ToolError, OSError):
            return False
        os.close(place.fd)
        return not place.missing


def _top(path: str | os.PathLike[str]) -> Top:
    top = Top(os.path.abspath(path), os.path.realpath(path))
    if not os.path.isdir(top.path):
        what = "is not a directory" if os.path.exists(top.path) else "does not exist"
        raise ToolDefinitionError(f"root: {what}", path=top.given)
    return top
