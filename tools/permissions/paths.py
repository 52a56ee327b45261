"""Where a path leads.

A path is looked at twice: as it is written, and with every link resolved, of the nearest existing ancestor where
the path itself does not exist yet. A place is decided by where it really is: a name that is not there, while
another looks the same, is that other one, as it is for the file tools.
"""

import os
import stat
from collections import deque
from typing import NamedTuple, TypeAlias

from unspool.tools.files.variants import appearance

StrPath: TypeAlias = str | os.PathLike[str]

_MAX_PATH = 4096  # characters, as on Linux
_MAX_HOPS = 40  # links followed on one path, as Linux does
_PLAIN_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})


class Place(NamedTuple):
    """A path as it was ``given``, absolute without links looked at (``path``), and where it leads (``real``)."""

    given: str
    path: str
    real: str


def locate(given: str, base: str, *, alike: bool = True) -> Place:
    """Where ``given`` leads, relative to the directory ``base``; ``~`` and ``~/x`` are in the home directory.

    ``alike`` takes a name that is not there for the one that looks the same, as file tools do and commands don't.

    Raises:
        ValueError: it can't be a path, or leads through too many links.
    """
    if "\0" in given:
        raise ValueError("a path can't hold a NUL character")
    if len(given) > _MAX_PATH:
        raise ValueError(f"it has {len(given)} characters")
    os.fsencode(given)  # a UnicodeEncodeError is a ValueError
    path = os.path.expanduser(given) if given == "~" or given.startswith("~/") else given
    path = os.path.join(base, path)
    return Place(given, os.path.normpath(path), resolve(path, alike=alike))


def resolve(path: StrPath, base: str | None = None, *, alike: bool = False) -> str:
    """A path without links and ``..``, relative to ``base``, which has neither, or to the current directory.

    With ``alike`` names that only look like those that exist are taken for them.

    Raises:
        ValueError: too many links.
    """
    text = os.fspath(path)
    if base is None:
        text, base = os.path.join(os.getcwd(), text), "/"
    pending = deque(_names(text))
    here, hops, missing = "/" if text.startswith("/") else base, 0, False
    while pending:
        name = pending.popleft()
        if name == "..":
            here, missing = os.path.dirname(here), False
            continue
        inner = os.path.join(here, name)
        mode = None if missing else _mode(inner)
        if mode is None and alike and not missing and (seen := _looks_like(here, name)) is not None:
            inner = os.path.join(here, seen)
            mode = _mode(inner)
        target = _target(inner) if mode is not None and stat.S_ISLNK(mode) else None
        missing = mode is None
        if target is None:
            here = inner
            continue
        hops += 1
        if hops > _MAX_HOPS:
            raise ValueError("it leads through too many links")
        if target.startswith("/"):
            here = "/"
        pending.extendleft(reversed(_names(target)))
    return here


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None


def _target(link: str) -> str | None:
    """Where a link leads; None for one that nobody can follow: it is gone, or another user's in ``/proc``."""
    try:
        return os.readlink(link)
    except OSError:
        return None


def _looks_like(directory: str, name: str) -> str | None:
    """The one name in a directory that looks like ``name``."""
    wanted = appearance(name)
    try:
        with os.scandir(directory) as entries:
            found = [entry.name for entry in entries if appearance(entry.name) == wanted]
    except OSError:
        return None
    return found[0] if len(found) == 1 else None


def is_below(path: str, root: str) -> bool:
    """Whether an absolute path is ``root`` or something in it; both without links and ``..``."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def below(path: str, root: str) -> str | None:
    """``path`` relative to ``root``, ``.`` for itself; None where it is not below."""
    if not is_below(path, root):
        return None
    return path[len(root) :].strip("/") or "."


def fold(path: str) -> str:
    """A path in which names that a person may take for the same are the same."""
    return "/".join(appearance(name).casefold() for name in path.split("/"))


def with_parents(path: str) -> list[str]:
    """A path and each directory above it, folded; those of an absolute path begin below ``/``."""
    names = fold(path.strip("/")).split("/")
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]


def is_plain_device(place: Place) -> bool:
    """Whether nothing is read or written there that anybody keeps: ``/dev/null`` and the standard streams."""
    return place.path in _PLAIN_DEVICES
