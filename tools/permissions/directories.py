"""The directories of a workspace, and how a path stands to them."""

import copy
import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from .paths import Place, StrPath, below, fold, is_below, resolve, with_parents

Standing: TypeAlias = Literal["inside", "internal", "read-only", "outside"]
"""How a path stands to the roots, for one capability."""


class Views(NamedTuple):
    """A place as rules that restrict see it, folded: as it is written, where it leads, and what is above both.

    ``names`` are those of the place and of what is above it below the roots.
    """

    names: frozenset[str]
    relative: tuple[str, ...]
    absolute: tuple[str, ...]


class Directories:
    """The directories of a workspace.

    ``workspace`` is where relative paths begin; it may be read and written, as the ``write`` directories may.
    ``read`` ones may only be read. The ``internal`` ones belong to the host: what is done there is asked of nobody.
    ``protected`` files and directories are never written.
    """

    def __init__(
        self,
        workspace: StrPath,
        *,
        write: Iterable[StrPath] = (),
        read: Iterable[StrPath] = (),
        internal_write: Iterable[StrPath] = (),
        internal_read: Iterable[StrPath] = (),
        protected: Iterable[StrPath] = (),
    ) -> None:
        self.workspace = os.path.abspath(workspace)
        self.given = [self.workspace, *(os.path.abspath(path) for path in (*write, *read))]
        self.real = [resolve(path) for path in self.given]
        self._write = [resolve(path) for path in (workspace, *write)]
        self._internal_write = [resolve(path) for path in internal_write]
        self._internal_read = [*map(resolve, internal_read), *self._internal_write]
        self._protected = [resolve(path) for path in protected]
        self._views: dict[Place, Views] = {}
        self._links: dict[tuple[str, str], str | None] = {}

    def now(self) -> "Directories":
        """The same directories, for one decision: what is found in the file system is looked at once."""
        other = copy.copy(self)
        other._views, other._links = {}, {}
        return other

    def protect(self, path: StrPath) -> None:
        """Let nothing write ``path`` from now on."""
        self._protected.append(resolve(path))

    def for_reading(self, place: Place) -> Standing:
        if _is_in(place.real, self._internal_read) and not _is_in(place.real, self._write):
            return "internal"
        return "inside" if _is_in(place.real, self.real) else "outside"

    def for_writing(self, place: Place) -> Standing:
        if _is_in(place.real, self._write):
            return "inside"
        if _is_in(place.real, self._internal_write):
            return "internal"
        if _is_in(place.real, self._internal_read) or _is_in(place.real, self.real):
            return "read-only"
        return "outside"

    def is_protected(self, place: Place) -> bool:
        """Whether a path is something protected, is in it, or is the same file under another name."""
        return any(is_below(place.real, path) or _same_file(place.real, path) for path in self._protected)

    def relative(self, path: str, *, real: bool) -> list[str]:
        """``path`` relative to each root that it is below."""
        roots = self.real if real else [*self.given, *self.real]
        return [name for root in roots if (name := below(path, root)) is not None]

    def views(self, place: Place) -> Views:
        """All ways to see a place."""
        views = self._views.get(place)
        if views is None:
            views = self._views[place] = self._viewed(place)
        return views

    def _viewed(self, place: Place) -> Views:
        names: set[str] = set()
        relative: dict[str, None] = {}
        for path, real in ((place.path, False), (place.real, True)):
            below_roots = self.relative(path, real=real)
            names.update(name for one in below_roots for name in fold(one).split("/"))
            if not below_roots:
                names.add(fold(os.path.basename(path)))
            relative.update(dict.fromkeys(above for one in below_roots for above in with_parents(one)))
        absolute = dict.fromkeys((*with_parents(place.path), *with_parents(place.real)))
        return Views(frozenset(names), tuple(relative), tuple(absolute))

    def through_link(self, root: str, path: str) -> str | None:
        """Where ``path`` in a root leads, if that is through a link."""
        key = (root, path)
        if key not in self._links:
            try:
                real = resolve(path, root)
            except ValueError:
                real = os.path.join(root, path)  # a loop: nothing is there
            self._links[key] = real if real != os.path.join(root, path) else None
        return self._links[key]

    def shown(self, place: Place) -> str:
        """How a person reads a place: relative to the workspace where it is in it."""
        return below(place.real, self.real[0]) or place.real


def _is_in(path: str, roots: Sequence[str]) -> bool:
    return any(is_below(path, root) for root in roots)


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False  # one of them does not exist
