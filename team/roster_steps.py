"""The rules of a roster: each operation as one step on the members, which raises before it has changed anything.

Read with: ``roster.py`` (what is promised), ``place.py`` (where the steps are carried out).
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.ports import Clock

from .errors import NameTaken, TeamError, UnknownMember
from .owners import is_dead, this_process
from .roster import (
    ENDED,
    KEPT_ENDED,
    LEAD,
    LIVING,
    RESERVED,
    MemberInfo,
    Owner,
    StaleMember,
    Status,
    TeamInfo,
    WrongStatus,
)

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class RosterHead(Struct, frozen=True, gc=False, kw_only=True):
    """What there is once for a team. ``revision`` grows with each change, heartbeats among them."""

    team: TeamInfo = TeamInfo()
    generation: int = 0
    revision: int = 0


class RosterSteps:
    """The members, and the steps. ``changed`` names the members that a step has put or dropped.

    ``kept`` is how many that do not live are remembered.
    """

    def __init__(
        self,
        clock: Clock,
        max_members: int,
        *,
        kept: int = KEPT_ENDED,
        dead: Callable[[Owner], bool] = is_dead,
    ) -> None:
        if max_members < 1:
            raise ValueError(f"roster: a team takes at least one member (max_members={max_members})")
        self._clock = clock
        self._max_members = max_members
        self._kept = kept
        self._dead = dead
        self.head = RosterHead()
        self.all: dict[str, MemberInfo] = {}
        self.changed: set[str] = set()

    @property
    def version(self) -> int:
        return self.head.team.version

    # --- who there is

    def get(self, name: str) -> MemberInfo:
        info = self.all.get(name)
        if info is None:
            known = ", ".join(sorted(self.all)) or "nobody"
            raise UnknownMember(f"there is no member of that name, there are: {known}", member=name)
        return info

    def _current(self, name: str, generation: int) -> MemberInfo:
        info = self.get(name)
        if info.generation != generation:
            raise StaleMember(
                "another member goes by that name now",
                member=name,
                generation=generation,
                current=info.generation,
            )
        return info

    def members(self, status: Collection[Status] | None = None) -> tuple[MemberInfo, ...]:
        wanted = (self.all[name] for name in sorted(self.all))
        return tuple(info for info in wanted if status is None or info.status in status)

    def _teammates(self) -> Iterator[MemberInfo]:
        return (info for info in self.all.values() if info.is_living and info.role != "lead")

    # --- changes

    def _change_team(self, **changes: Any) -> None:
        head = self.head
        team = replace(head.team, version=head.team.version + 1, **changes)
        self.head = replace(head, team=team, revision=head.revision + 1)

    def _put(self, info: MemberInfo, **changes: Any) -> MemberInfo:
        info = replace(info, changed_at=self._clock.time(), **changes)
        self.all[info.name] = info
        self.changed.add(info.name)
        self._change_team()
        return info

    def _next_generation(self) -> int:
        self.head = replace(self.head, generation=self.head.generation + 1)
        return self.head.generation

    def add(self, info: MemberInfo) -> MemberInfo:
        self._check_team_is_open()
        self._check_name(info)
        old = self.all.get(info.name)
        if old is not None and old.is_living:
            raise NameTaken("there is a member of that name, take another", member=info.name)
        if info.status not in LIVING:
            raise TeamError("who joins is alive", member=info.name, status=info.status)
        if info.role != "lead" and sum(1 for _ in self._teammates()) >= self._max_members:
            raise TeamError(
                "the team has as many members as it may: have one stop first", max_members=self._max_members
            )
        now = self._clock.time()
        added = self._put(
            info,
            generation=self._next_generation(),
            joined_at=now,
            heartbeat_at=now,
            owner=this_process() if info.owner == Owner() else info.owner,
        )
        self._forget_the_oldest()
        return added

    def _check_team_is_open(self) -> None:
        if self.head.team.closed:
            raise TeamError("the team is closed", reason=self.head.team.reason)

    def _check_name(self, info: MemberInfo) -> None:
        if (info.role == "lead") != (info.name == LEAD):
            reserved = info.name == LEAD
            raise NameTaken(
                "that name is the lead's, take another" if reserved else f"the lead's name is {LEAD!r}",
                member=info.name,
            )
        if info.name in RESERVED and info.name != LEAD:
            raise NameTaken("that name is reserved, take another", member=info.name)
        if not _NAME.fullmatch(info.name):
            raise TeamError(
                "a name is 1 to 64 of a-z, 0-9, '_' and '-', and begins with a letter or digit",
                member=info.name[:80],
            )

    def _forget_the_oldest(self) -> None:
        gone = [info for info in self.all.values() if not info.is_living and info.role != "lead"]
        gone.sort(key=lambda info: (info.changed_at, info.generation))
        for info in gone[: max(0, len(gone) - self._kept)]:
            self._drop(info.name)

    def _drop(self, name: str) -> None:
        del self.all[name]
        self.changed.add(name)

    def set_status(
        self, name: str, status: Status, reason: str, generation: int, expect: Collection[Status] | None
    ) -> MemberInfo:
        info = self._current(name, generation)
        if expect is not None and info.status not in expect:
            raise WrongStatus(
                f"it is {info.status}, not {' or '.join(sorted(expect))}", member=name, status=info.status
            )
        if info.status in ENDED:
            if info.status == status:
                return info
            raise self._has_ended(info)
        if status in LIVING:
            return self._put(info, status=status, reason=reason)
        return self._put(info, status=status, reason=reason, waiting_for=(), waiting_why="")

    def _has_ended(self, info: MemberInfo) -> WrongStatus:
        return WrongStatus(f"it has ended ({info.status})", member=info.name, status=info.status)

    def set_waiting(self, name: str, for_whom: Sequence[str], why: str, generation: int) -> MemberInfo:
        info = self._current(name, generation)
        if info.status in ENDED:
            raise self._has_ended(info)
        wanted = tuple(dict.fromkeys(for_whom))
        if (info.waiting_for, info.waiting_why) == (wanted, why):
            return info
        return self._put(info, waiting_for=wanted, waiting_why=why if wanted else "")

    def heartbeat(self, name: str, generation: int) -> MemberInfo:
        info = self._current(name, generation)
        if info.status not in ENDED:
            info = self.all[name] = replace(info, heartbeat_at=self._clock.time())
            self.head = replace(self.head, revision=self.head.revision + 1)
            self.changed.add(name)
        return info

    def take_over(self, name: str, owner: Owner, silence_s: float) -> MemberInfo:
        info = self.get(name)
        if info.status in ENDED:
            raise self._has_ended(info)
        now = self._clock.time()
        silent = now - info.heartbeat_at > silence_s
        if info.status != "lost" and not silent and not self._dead(info.owner):
            raise WrongStatus("it lives, in a process of its own", member=name, status=info.status)
        self._check_team_is_open()
        return self._put(
            info,
            status="starting",
            reason="taken over",
            generation=self._next_generation(),
            owner=owner,
            heartbeat_at=now,
            waiting_for=(),
            waiting_why="",
        )

    def remove(self, name: str, generation: int) -> None:
        info = self._current(name, generation)
        if info.role == "lead":
            raise TeamError("the lead leaves with the team: close that", member=name)
        self._drop(name)
        self._change_team()

    def rename_team(self, description: str, name: str) -> TeamInfo:
        self._check_team_is_open()
        mates = sorted(info.name for info in self._teammates())
        if mates:
            raise TeamError("a team with members keeps its name and description", members=mates)
        team = self.head.team
        self._change_team(name=name or team.name, description=description or team.description)
        return self.head.team

    def close(self, reason: str) -> TeamInfo:
        if not self.head.team.closed:
            self._change_team(closed=True, reason=reason)
        return self.head.team
