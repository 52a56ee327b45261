"""Root directories by their names, and which of them a path starts from. Nothing here touches a file."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown, shown_list

_MAX_PATH = 4096  # characters; PATH_MAX of Linux


class Top(NamedTuple):
    """A root directory: its path as given, made absolute, and its real path."""

    given: str
    path: str


def locate(tops: Sequence[Top], path: str) -> tuple[Top, list[str]]:
    """The root that ``path`` starts from and the names below it, ``..`` among them.

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
        found = below(tops, path)
        if found is None:
            raise outside(tops, path)
        return found
    return tops[0], _parts(path)


def below(tops: Sequence[Top], path: str) -> tuple[Top, list[str]] | None:
    """The root that an absolute path is below by its text, and the rest of the path."""
    for top in tops:
        for prefix in (top.path, top.given):
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return top, _parts(path[len(prefix) :])
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def outside(tops: Sequence[Top], path: str) -> ToolError:
    if len(tops) == 1:
        return ToolError(f"{shown(path)} is outside the root directory: give a path below it")
    where = shown_list([top.path for top in tops], 8)
    return ToolError(f"{shown(path)} is outside the root directories: give a path below one of {where}")
