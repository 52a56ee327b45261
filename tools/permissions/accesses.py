"""The accesses that a request is made of: each path, host, agent and command, decided one by one."""

import os
from collections.abc import Iterator

from msgspec.structs import replace

from unspool.kernel.errors import AgentError

from . import commands
from .hosts import canonical_host, host_of
from .paths import Place, is_plain_device, locate
from .requests import Request
from .scopes import Access


class UnusablePathError(AgentError):
    """A path that no file can have."""


def accesses_of(request: Request, base: str) -> list[Access]:
    """What a request would do, the main thing first; relative paths begin at ``base``.

    Raises:
        UnusablePathError: a path can't be one.
    """
    places = {path: list(_places(path, base)) for path in dict.fromkeys((*request.writes, *request.reads))}
    found = [
        *_command(request, base),
        *(Access(capability="write", place=place) for path in request.writes for place in places[path]),
        *(Access(capability="read", place=place) for path in request.reads for place in places[path]),
        *(Access(capability="network", url=url, host=_host(url)) for url in request.urls),
        *(Access(capability=request.capability, agent=agent) for agent in request.agents),
    ]
    if request.unclear or not any(access.capability == request.capability for access in found):
        found.insert(0, Access(capability="unknown" if request.unclear else request.capability))
    return found


def _command(request: Request, base: str) -> Iterator[Access]:
    """The command or code itself, where it runs, and what a command mentions."""
    if request.command is None and request.code is None:
        return
    cwd = _locate(request.cwd or ".", base)
    where = [Access(capability="write", place=cwd, mention=True, is_cwd=True)] if request.cwd else []
    if request.command is None:
        yield Access(capability="exec")
        yield from where
        return
    plan = commands.analyse(request.command)
    mentions = commands.mentions(plan, cwd.real)
    if not mentions.complete and commands.shows_paths(plan):  # then no rule may cover it
        plan = replace(
            plan, unknown=plan.unknown or "it names more paths than can be looked at, or strange ones"
        )
    yield Access(capability="exec", plan=plan)
    yield from where
    yield from _mentioned(mentions, cwd.real, reads_only=commands.is_read_only(plan))


def _mentioned(mentions: commands.Mentions, cwd: str, *, reads_only: bool) -> Iterator[Access]:
    """Paths of a command. Where it redirects, what it writes needs a permission of its own."""
    known: set[str] = set()
    for paths, capability in ((mentions.writes, "write"), (mentions.reads, "read")):
        for path in paths:
            place = _locate(path, cwd, alike=False)
            if capability == "read":
                known.add(place.path)
            if not is_plain_device(place):
                mention = capability == "read" or not mentions.redirects
                yield Access(
                    capability="write" if capability == "write" else "read", place=place, mention=mention
                )
    for word in mentions.words:
        try:
            place = locate(word, cwd, alike=False)
        except ValueError:
            continue  # no path then
        gone = reads_only and not os.path.lexists(place.path)
        if place.path not in known and not gone and not is_plain_device(place):
            yield Access(capability="read", place=place, mention=True, loose=not reads_only)


def _places(path: str, base: str) -> Iterator[Place]:
    """Where a path leads. A leading ``@`` of a name that is not there may be meant or not: both count."""
    place = _locate(path, base)
    yield place
    is_there = os.path.lexists(place.real) and ".." not in path.split("/")
    if path.startswith("@") and len(path) > 1 and not is_there:
        yield _locate(path[1:], base)


def _locate(path: str, base: str, *, alike: bool = True) -> Place:
    try:
        return locate(path, base, alike=alike)
    except ValueError as error:
        raise UnusablePathError(f"this is no path: {error}") from error


def _host(url: str) -> str | None:
    return host_of(url) if "://" in url else canonical_host(url)
