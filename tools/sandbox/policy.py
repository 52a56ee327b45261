"""What of the host a sandbox shows: the system's programs and libraries, a Python, and what was asked for.

1. Nothing is visible that is not named here or by the host. Home directories, ``/run``, ``/var``, ``/sys``,
   ``/opt`` and most of ``/etc`` are not.
2. Of two places, one inside the other, the inner one decides: a Python environment inside a root stays
   read-only, so that sandboxed code can't change what the host runs.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from unspool.kernel.errors import ToolDefinitionError

_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr, or directories on old systems
_SYSTEM = (
    "/usr",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_FOR_NETWORK = ("/etc/hosts", "/etc/resolv.conf", "/etc/services", "/etc/protocols")
_NO_ROOTS = ("/proc", "/sys", "/dev", "/usr", "/etc", "/boot", "/run")

Access = Literal["readable", "writable", "hidden"]


class Place(NamedTuple):
    """A path of the host, and what a sandbox does with it. ``source`` is where it really is."""

    path: str
    source: str
    access: Access


class Mount(NamedTuple):
    """Options of bwrap for one path."""

    path: str
    args: tuple[str, ...]


def places(paths: Iterable[str | os.PathLike[str]], access: Access) -> list[Place]:
    """The places that a host names; they exist.

    Raises:
        ToolDefinitionError: one doesn't exist, or can't be had.
    """
    found = []
    for path in paths:
        given = os.path.abspath(os.fspath(path))
        real = os.path.realpath(given)
        if not os.path.exists(real):
            raise ToolDefinitionError("sandbox: there is no such path", path=given)
        if real == "/" or (access == "writable" and _is_system(real)):
            raise ToolDefinitionError(f"sandbox: this path can't be made {access}", path=real)
        found.append(Place(real, real, access))
        if access == "readable" and given != real:
            found.append(Place(given, real, access))
    return found


def _is_system(path: str) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in _NO_ROOTS)


def python_places() -> list[Place]:
    """Where the Python that runs now is, its environment and the one that it was made from."""
    folders = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *_links(sys.executable)}
    return places([folder for folder in sorted(folders) if not _within(folder, "/usr")], "readable")


def _links(program: str) -> Iterator[str]:
    """Installations that the links from ``program`` to the real one lead through: what holds its ``bin``."""
    path = Path(program)
    for _ in range(10):
        if path.parent.name == "bin" and path.parent.parent != Path("/"):
            yield str(path.parent.parent)
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def system_mounts(*, network: bool) -> list[Mount]:
    """What every sandbox shows of the system, read-only."""
    found = []
    for name in _LINKED:
        path = f"/{name}"
        if os.path.islink(path):
            found.append(Mount(path, ("--symlink", os.readlink(path), path)))
        elif os.path.isdir(path):
            found.append(Mount(path, ("--ro-bind", path, path)))
    wanted = (*_SYSTEM, *_FOR_NETWORK) if network else _SYSTEM
    found += [Mount(path, ("--ro-bind", path, path)) for path in wanted if os.path.exists(path)]
    return found


def place_mounts(given: Iterable[Place]) -> list[Mount]:
    """How the places are mounted, outer ones first. Roots inside roots need no mount of their own.

    Raises:
        ToolDefinitionError: one is no longer where it was. It might have been exchanged, by a link for
            instance, from inside a sandbox: the host must look.
    """
    by_path = {place.path: place for place in given}  # the last one said about a path holds
    found = []
    for place in by_path.values():
        if os.path.realpath(place.path) != place.source or not os.path.exists(place.source):
            raise ToolDefinitionError("sandbox: a path was moved or exchanged", path=place.path)
        outer = _outer(place, by_path)
        if outer is None or outer.access != place.access:
            found.append(Mount(place.path, _options(place)))
    return sorted(found, key=lambda mount: (mount.path.count("/"), mount.path))


def _outer(place: Place, by_path: dict[str, Place]) -> Place | None:
    """The nearest place that holds this one."""
    for parent in Path(place.path).parents:
        if str(parent) in by_path:
            return by_path[str(parent)]
    return None


def _options(place: Place) -> tuple[str, ...]:
    if place.access == "writable":
        return ("--bind", place.source, place.path)
    if place.access == "readable":
        return ("--ro-bind", place.source, place.path)
    if os.path.isdir(place.source):
        return ("--size", "4096", "--tmpfs", place.path, "--remount-ro", place.path)
    return ("--ro-bind", "/dev/null", place.path)
