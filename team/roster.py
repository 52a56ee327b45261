"""The roster of a team: who its members are, how each stands, and who waits for whom.

What every implementation promises (``check_roster`` tests it):

1. A name has at most one living member. Each time somebody joins under a name, or takes a member over, there is a
   new ``generation``, above all earlier ones of the team: what an earlier member of the same name still does is
   refused with ``StaleMember`` and changes nothing.
2. A member that has ended (stopped, failed) stays ended; its name can be given to a new member.
3. Nobody joins a closed team, and ``close`` is final. Each operation happens as a whole or not at all, and all of
   them are in one order, for all processes that use the roster.
4. Whoever waits for a change misses none: ``wait`` looks at the roster again after each.

Read with: ``memory_roster.py``, ``sqlite_roster.py``, ``roster_steps.py`` (the rules), ``roster_conformance.py``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from .errors import TeamError

Status: TypeAlias = Literal["starting", "running", "idle", "stopping", "stopped", "failed", "lost"]
"""``lost``: its process has died, and it waits for another to take it over."""
LIVING: Final = frozenset[Status]({"starting", "running", "idle", "stopping"})
ENDED: Final = frozenset[Status]({"stopped", "failed"})

LEAD: Final = "lead"
RESERVED: Final = frozenset({LEAD, "host", "all", "*"})
MAX_MEMBERS: Final = 64  # that live at once, besides the lead
KEPT_ENDED: Final = 1000  # members that have ended or are lost, newest first, that are remembered
SILENCE_S: Final = 60.0  # a member whose heart did not beat for so long can be taken over


class StaleMember(TeamError):
    """It is not the member of that name any more: it was removed, or somebody else goes by the name."""


class WrongStatus(TeamError):
    """The member stands in another way than was expected."""


class Owner(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The process that runs a member. ``token`` is random, and tells it from another that gets the same pid."""

    host: str = ""
    pid: int = 0
    token: str = ""


class MemberInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A member of a team.

    ``agent`` is the name of its definition, ``session`` that of its log, ``spawned_by`` a member or ""; ``depth``
    counts from 0, the lead's. ``reason`` says why it stands as it does. Times are in seconds since the epoch.
    The roster itself sets ``generation`` and the times; and ``owner`` and ``status`` where they are not given.
    """

    name: str
    role: Literal["lead", "member"] = "member"
    agent: str = ""
    description: str = ""
    session: str = ""
    spawned_by: str = ""
    depth: int = 0
    status: Status = "starting"
    reason: str = ""
    generation: int = 0
    joined_at: float = 0.0
    changed_at: float = 0.0
    owner: Owner = Owner()
    heartbeat_at: float = 0.0
    color: str = ""
    waiting_for: tuple[str, ...] = ()
    waiting_why: str = ""

    @property
    def is_living(self) -> bool:
        return self.status in LIVING


class TeamInfo(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The team itself. ``version`` grows with each change of it or its members, heartbeats aside."""

    name: str = ""
    description: str = ""
    closed: bool = False
    reason: str = ""
    version: int = 0


Members: TypeAlias = Sequence[MemberInfo]
"""Members by name, a snapshot."""


class Roster(Protocol):
    """The members of one team. All methods are safe for use by several tasks; each may be cancelled, and has then
    either happened or not.

    Raises:
        UnknownMember: (all methods that are given a ``name``) there is no such member.
        StaleMember: (all methods that are given a ``generation``) it is another member's by now.
        TeamError: (all methods) ``aclose`` was called.
    """

    async def add(self, info: MemberInfo, /) -> MemberInfo:
        """Have a member join; what it was registered as. It takes the place of one that has ended or is lost.

        Raises:
            NameTaken: a living member has the name, or it is reserved; ``lead`` is for the lead.
            TeamError: the name has other characters than ``a-z0-9_-``, does not begin with a letter or digit, or has
                more than 64; the member has ended already; the team is closed, or has ``max_members``.
        """
        ...

    async def get(self, name: str, /) -> MemberInfo:
        """The member of that name, living or not."""
        ...

    async def members(self, status: Collection[Status] | None = None) -> Members:
        """All members that are remembered, or those of these statuses, by name."""
        ...

    async def set_status(
        self,
        name: str,
        status: Status,
        reason: str = "",
        *,
        generation: int,
        expect: Collection[Status] | None = None,
    ) -> MemberInfo:
        """Say how a member stands now. To say again that it has ended changes nothing.

        Raises:
            WrongStatus: it has ended, or does not stand in one of the ways of ``expect``.
        """
        ...

    async def set_waiting(
        self, name: str, for_whom: Sequence[str], why: str = "", *, generation: int
    ) -> MemberInfo:
        """Say for whom a member waits; empty: for nobody. It is forgotten when the member ends or is taken over.

        Raises:
            WrongStatus: it has ended.
        """
        ...

    async def heartbeat(self, name: str, /, *, generation: int) -> MemberInfo:
        """Say that the member's process still runs it; how it stands, since others may have asked it to stop."""
        ...

    async def take_over(
        self, name: str, /, *, owner: Owner | None = None, silence_s: float = SILENCE_S
    ) -> MemberInfo:
        """Go on with a member that is lost, whose process has died, or whose heart has not beaten for ``silence_s``
        seconds: it is ``starting``, with a new generation, and belongs to ``owner`` (None: this process).

        Raises:
            WrongStatus: it lives, or has ended.
            TeamError: the team is closed.
        """
        ...

    async def remove(self, name: str, /, *, generation: int) -> None:
        """Forget a member, its name is free then.

        Raises:
            TeamError: it is the lead, which leaves with the team.
        """
        ...

    async def team(self) -> TeamInfo:
        """How the team stands."""
        ...

    async def rename_team(self, description: str = "", *, name: str = "") -> TeamInfo:
        """Give the team another description, or name; empty keeps the old one.

        Raises:
            TeamError: it is closed, or has living members besides the lead.
        """
        ...

    async def close(self, reason: str = "") -> TeamInfo:
        """Close the team: nobody joins or is taken over any more. Closing again changes nothing."""
        ...

    async def wait(
        self, until: Callable[[TeamInfo, Members], bool], /, *, timeout_s: float | None = None
    ) -> Members | None:
        """Wait until that is so, and give the members as they were then; None when the time is up before.

        ``until`` is called at once, and after changes of the team or its members; several may come together.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the place; what is durable stays. Whoever waits gets a ``TeamError``."""
        ...


def all_are(names: Iterable[str], status: Collection[Status]) -> Callable[[TeamInfo, Members], bool]:
    """What ``wait`` can wait for: these members all stand in one of these ways, or are gone."""
    wanted = frozenset(names)
    return lambda team, members: all(member.status in status for member in members if member.name in wanted)


def waits(members: Iterable[MemberInfo]) -> dict[str, tuple[str, ...]]:
    """Who waits for whom, of those who live."""
    return {each.name: each.waiting_for for each in members if each.is_living and each.waiting_for}


def find_cycle(edges: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Names each of which waits for the next, and the last for the first; empty where there is no such cycle.

    The same edges give the same cycle, which begins with its first name in the order of the alphabet.

    >>> find_cycle({"b": ("a", "c"), "a": ("b",)})
    ('a', 'b')
    """
    over: set[str] = set()  # no cycle goes through them
    for start in sorted(edges):
        path: list[str] = [] if start in over else [start]
        rest = [iter(sorted(edges[start]))] if path else []
        while path:
            following = next(rest[-1], None)
            if following is None:
                over.add(path.pop())
                rest.pop()
            elif following in path:
                cycle = path[path.index(following) :]
                first = cycle.index(min(cycle))
                return (*cycle[first:], *cycle[:first])
            elif following not in over:
                path.append(following)
                rest.append(iter(sorted(edges.get(following, ()))))
    return ()
