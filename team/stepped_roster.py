"""A roster whose steps are carried out in some place.

Read with: ``roster_steps.py``, ``place.py``, ``memory_roster.py``, ``sqlite_roster.py``.
"""

from collections.abc import Callable, Collection, Sequence
from math import inf

from unspool.kernel.ports import Clock

from .owners import this_process
from .place import Place, repeated
from .roster import SILENCE_S, MemberInfo, Members, Owner, Status, TeamInfo
from .roster_steps import RosterSteps


class SteppedRoster:
    """A ``Roster``."""

    def __init__(self, place: Place[RosterSteps], clock: Clock) -> None:
        self._place = place
        self._clock = clock

    async def add(self, info: MemberInfo, /) -> MemberInfo:
        return await self._place.do(lambda steps: steps.add(info))

    async def get(self, name: str, /) -> MemberInfo:
        return await self._place.do(lambda steps: steps.get(name))

    async def members(self, status: Collection[Status] | None = None) -> Members:
        return await self._place.do(lambda steps: steps.members(status))

    async def set_status(
        self,
        name: str,
        status: Status,
        reason: str = "",
        *,
        generation: int,
        expect: Collection[Status] | None = None,
    ) -> MemberInfo:
        return await self._place.do(lambda steps: steps.set_status(name, status, reason, generation, expect))

    async def set_waiting(
        self, name: str, for_whom: Sequence[str], why: str = "", *, generation: int
    ) -> MemberInfo:
        return await self._place.do(lambda steps: steps.set_waiting(name, for_whom, why, generation))

    async def heartbeat(self, name: str, /, *, generation: int) -> MemberInfo:
        return await self._place.do(lambda steps: steps.heartbeat(name, generation))

    async def take_over(
        self, name: str, /, *, owner: Owner | None = None, silence_s: float = SILENCE_S
    ) -> MemberInfo:
        by = owner or this_process()
        return await self._place.do(lambda steps: steps.take_over(name, by, silence_s))

    async def remove(self, name: str, /, *, generation: int) -> None:
        await self._place.do(lambda steps: steps.remove(name, generation))

    async def team(self) -> TeamInfo:
        return await self._place.do(lambda steps: steps.head.team)

    async def rename_team(self, description: str = "", *, name: str = "") -> TeamInfo:
        return await self._place.do(lambda steps: steps.rename_team(description, name))

    async def close(self, reason: str = "") -> TeamInfo:
        return await self._place.do(lambda steps: steps.close(reason))

    async def wait(
        self, until: Callable[[TeamInfo, Members], bool], /, *, timeout_s: float | None = None
    ) -> Members | None:
        async def look() -> tuple[Members | None, int, float]:
            team, members = await self._place.do(lambda steps: (steps.head.team, steps.members()))
            return members if until(team, members) else None, team.version, inf

        return await repeated(look, self._place, self._clock, timeout_s)

    async def aclose(self) -> None:
        await self._place.aclose()
