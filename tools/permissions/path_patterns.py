"""Globs of rules, over places: ``*``, ``?``, ``[a-z]``, ``{a,b}`` and any number of ``**``.

1. A pattern with ``/`` begins at each root of the workspace (``src/**``, ``./x``), at ``/``, or at ``~``.
2. A pattern without ``/`` is a name, at any depth: ``Read(.env)``, ``Edit(*.lock)``.
3. A pattern that allows must match where the path really leads.
4. A pattern that restricts holds as soon as it matches the path as written, where it leads, or a directory
   above it; links in the pattern's own beginning are followed too. Upper and lower case, and letters that look the
   same, are then one.
"""

import os
import re
from functools import lru_cache

from unspool.tools.files.patterns import Glob

from .directories import Directories
from .paths import Place, below, fold, with_parents

_MAGIC = re.compile(r"[*?\[{]")


class PathPattern:
    """A compiled pattern. ``dir/`` is ``dir/**``. ``name`` is the one name that it is, folded, if it is one.

    Raises:
        ToolError: it can't be used; the message says why.
    """

    def __init__(self, pattern: str) -> None:
        if pattern.endswith("/"):
            pattern += "**"
        self._absolute = pattern.startswith("/")
        self.is_name = "/" not in pattern
        text = pattern.lstrip("/") or ("**" if self._absolute else "")
        self._fixed, self._rest = _split(text)
        self._exact = Glob(text if self.is_name else f"./{text}")
        folded = fold(text)
        self._folded = Glob(folded if self.is_name else f"./{folded}")
        self.name = folded if self.is_name and not self._rest else None
        self._tail = None if self.is_name or not self._rest else Glob(f"./{fold(self._rest)}")

    def allows(self, place: Place, roots: Directories) -> bool:
        """Whether it matches where a place really is."""
        if self._absolute:
            return self._exact.matches(place.real.lstrip("/"))
        names = roots.relative(place.real, real=True)
        return any(self._exact.matches(name) for name in names)

    def restricts(self, place: Place, roots: Directories) -> bool:
        """Whether it matches a place by any of its names, or something above it."""
        views = roots.views(place)
        if self.is_name:
            found = any(map(self._is_named, views.names))
        else:
            found = any(map(self._folded.matches, views.absolute if self._absolute else views.relative))
        return found or self._through_links(place, roots)

    def meets(self, real: str, roots: Directories) -> bool:
        """Whether it matches a path without links itself, whatever is above that."""
        if self.is_name:
            return self._is_named(fold(os.path.basename(real)))
        names = [real.lstrip("/")] if self._absolute else roots.relative(real, real=True)
        return any(self._folded.matches(fold(name)) for name in names)

    def _is_named(self, name: str) -> bool:
        return name == self.name if self.name is not None else self._folded.matches(name)

    def may_match_below(self, place: Place, roots: Directories) -> bool:
        """Whether something in a directory may match."""
        if self.is_name:
            return True
        names = [place.real] if self._absolute else roots.relative(place.real, real=True)
        return any(name == "." or self._folded.may_match_below(fold(name.strip("/"))) for name in names)

    def _through_links(self, place: Place, roots: Directories) -> bool:
        """Whether it matches where its own beginning leads, if that is through a link."""
        if not self._fixed:
            return False
        for root in ["/"] if self._absolute else roots.real:
            real = roots.through_link(root, self._fixed)
            inner = below(place.real, real) if real is not None else None
            if inner is not None and (
                self._tail is None or any(self._tail.matches(above) for above in with_parents(inner))
            ):
                return True
        return False


def path_pattern(pattern: str) -> PathPattern:
    """The compiled pattern; ``~`` and ``~/x`` are in what is the home directory now.

    Raises:
        ToolError: it can't be used; the message says why.
    """
    at_home = pattern == "~" or pattern.startswith("~/")
    return _compiled(os.path.expanduser(pattern) if at_home else pattern)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> PathPattern:
    return PathPattern(pattern)


def _split(text: str) -> tuple[str, str]:
    """The names before the first one with wildcards, and what is left."""
    names = text.split("/")
    fixed = next((i for i, name in enumerate(names) if _MAGIC.search(name)), len(names))
    return "/".join(names[:fixed]), "/".join(names[fixed:])
