"""The conformance kit for rosters: our own pass, and what is broken is found by the check for it."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from msgspec.structs import replace

from unspool.kernel.conformance import ConformanceError
from unspool.team.errors import TeamError
from unspool.team.memory_roster import MemoryRoster
from unspool.team.roster import MemberInfo, Members, TeamInfo
from unspool.team.roster_conformance import _CHECKS, _TRANSIENT, check_roster
from unspool.team.sqlite_roster import SqliteRoster

pytestmark = pytest.mark.anyio


async def test_memory_rosters_pass() -> None:
    await check_roster(lambda name: MemoryRoster(), durable=False)


async def test_sqlite_rosters_pass(tmp_path: Path) -> None:
    await check_roster(lambda name: SqliteRoster(tmp_path / name))


async def test_only_makers_and_known_checks_are_taken() -> None:
    with pytest.raises(TypeError, match="callable that gives an instance"):
        await check_roster(MemoryRoster())  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(ValueError, match="no such check: wishes"):
        await check_roster(lambda name: MemoryRoster(), skip=["wishes"])


class Unsorted(MemoryRoster):
    async def members(self, status: Any = None) -> Members:
        return (await super().members(status))[::-1]


class Lenient(MemoryRoster):
    async def add(self, info: MemberInfo, /) -> MemberInfo:
        name = info.name.lower() if info.name.isalpha() and info.name.isascii() else info.name
        return await super().add(replace(info, name=name[:64]))


class Overwriting(MemoryRoster):
    async def set_status(self, name: str, status: Any, reason: str = "", **options: Any) -> MemberInfo:
        return await super().set_status(name, status, reason, **{**options, "expect": None})


class Trusting(MemoryRoster):
    async def remove(self, name: str, /, *, generation: int) -> None:
        await super().remove(name, generation=(await self.get(name)).generation)


class Greedy(MemoryRoster):
    async def take_over(self, name: str, /, **options: Any) -> MemberInfo:
        return await super().take_over(name, silence_s=-1.0)


class Mute(MemoryRoster):
    async def set_waiting(
        self, name: str, for_whom: Sequence[str], why: str = "", *, generation: int
    ) -> MemberInfo:
        return await super().set_waiting(name, (), why, generation=generation)


class Reasonless(MemoryRoster):
    async def close(self, reason: str = "") -> TeamInfo:
        return await super().close()


class OneLook(MemoryRoster):
    async def wait(
        self, until: Callable[[TeamInfo, Members], bool], /, *, timeout_s: float | None = None
    ) -> Members | None:
        return await super().wait(until, timeout_s=0.0)


class Blind(MemoryRoster):
    async def members(self, status: Any = None) -> Members:
        return ()


class Racing(MemoryRoster):
    async def add(self, info: MemberInfo, /) -> MemberInfo:
        known = {each.name for each in await self.members()}
        await anyio.lowlevel.checkpoint()
        if info.name in known:
            return await super().add(info)
        try:
            return await super().add(info)
        except TeamError:
            return await self.get(info.name)


class Open(MemoryRoster):
    async def aclose(self) -> None:
        return None


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Unsorted, "adds"),
        (Lenient, "names"),
        (Overwriting, "statuses"),
        (Trusting, "namesakes"),
        (Greedy, "takes over"),
        (Mute, "waiting"),
        (Reasonless, "teams"),
        (OneLook, "waits"),
        (Blind, "cancelled"),
        (Racing, "alone"),
        (Open, "closes"),
    ],
)
async def test_what_is_broken_is_found(broken: type[MemoryRoster], check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        skip = {each.name for each in _TRANSIENT} - {check}
        await check_roster(lambda name: broken(), durable=False, timeout_s=0.4, grace_s=0.2, skip=skip)
    assert caught.value.checks == (check,)


async def test_a_place_that_is_another_each_time_is_found(tmp_path: Path) -> None:
    numbers = count()
    skip = {each.name for each in _CHECKS} - {"reopens"}
    with pytest.raises(ConformanceError) as caught:
        await check_roster(lambda name: SqliteRoster(tmp_path / f"{name}-{next(numbers)}"), skip=skip)
    assert caught.value.checks == ("reopens",)
