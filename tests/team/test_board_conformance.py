"""The conformance kit for boards: our own pass, and what is broken is found by the check for it."""

from itertools import count
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from anyio import sleep

from unspool.kernel.conformance import ConformanceError
from unspool.team.board import BoardTask, TaskDraft, Tasks
from unspool.team.board_conformance import _CHECKS, _TRANSIENT, check_board
from unspool.team.memory_board import MemoryBoard
from unspool.team.sqlite_board import SqliteBoard

pytestmark = pytest.mark.anyio


async def test_memory_boards_pass() -> None:
    await check_board(lambda name: MemoryBoard(), durable=False)


async def test_sqlite_boards_pass(tmp_path: Path) -> None:
    await check_board(lambda name: SqliteBoard(tmp_path / name))


async def test_only_makers_and_known_checks_are_taken() -> None:
    with pytest.raises(TypeError, match="callable that gives an instance"):
        await check_board(MemoryBoard())  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(ValueError, match="no such check: wishes"):
        await check_board(lambda name: MemoryBoard(), skip=["wishes"])


class Partial(MemoryBoard):
    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        return [task for draft in drafts for task in await super().add(by, draft)]


class Forgetful(MemoryBoard):
    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        return await super().add(by, *(TaskDraft(title=each.title) if each.key else each for each in drafts))


class OldestFirst(MemoryBoard):
    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        tasks = await super().add(by, *drafts)
        for task in tasks if len(tasks) > 2 else ():
            await self.update(task.id, priority=0)
        return tasks


class Trusting(MemoryBoard):
    async def complete(self, id: str, by: str, result: str = "", /, **options: Any) -> BoardTask:
        holder = (await self.get(id)).assignee
        return await super().complete(id, holder or by, result, **options)


class Numberless(MemoryBoard):
    async def complete(self, id: str, by: str, result: str = "", /, **options: Any) -> BoardTask:
        return await super().complete(id, by, result, **{**options, "attempt": None})


class Endless(MemoryBoard):
    async def claim(self, by: str, /, **options: Any) -> BoardTask | None:
        wait_s = options.pop("wait_s", 0.0)
        return await super().claim(by, **{**options, "lease_s": None, "wait_s": wait_s and 0.1})


class Impatient(MemoryBoard):
    async def fail(self, id: str, by: str, reason: str = "", /, **options: Any) -> BoardTask:
        return await super().complete(id, by, reason, **options)


class Sleepy(MemoryBoard):
    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        place: Any = self._place
        wakers, place._wakers = place._wakers, []
        tasks = await super().add(by, *drafts)
        place._wakers = wakers
        return tasks


class Careless(MemoryBoard):
    async def claim(self, by: str, /, **options: Any) -> BoardTask | None:
        task = await super().claim(by, **options)
        await sleep(0.01)  # cancelled here, it is held for nobody
        return task


class Twice(MemoryBoard):
    async def claim(self, by: str, /, **options: Any) -> BoardTask | None:
        task = next(iter(await self.list({"open"})), None)
        await anyio.lowlevel.checkpoint()
        return task and (await super().claim(by, **options) or task)

    async def complete(self, id: str, by: str, result: str = "", /, **options: Any) -> BoardTask:
        return await self.get(id)


class Open(MemoryBoard):
    async def aclose(self) -> None:
        return None


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Partial, "adds"),
        (Forgetful, "keys"),
        (OldestFirst, "order"),
        (Trusting, "held"),
        (Numberless, "attempts"),
        (Endless, "leases"),
        (Impatient, "dependencies"),
        (Sleepy, "waits"),
        (Careless, "cancelled"),
        (Twice, "alone"),
        (Open, "closes"),
    ],
)
async def test_what_is_broken_is_found(broken: type[MemoryBoard], check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        skip = {each.name for each in _TRANSIENT} - {check}
        await check_board(lambda name: broken(), durable=False, timeout_s=0.4, grace_s=0.2, skip=skip)
    assert caught.value.checks == (check,)


async def test_a_place_that_is_another_each_time_is_found(tmp_path: Path) -> None:
    numbers = count()
    skip = {each.name for each in _CHECKS} - {"reopens"}
    with pytest.raises(ConformanceError) as caught:
        await check_board(lambda name: SqliteBoard(tmp_path / f"{name}-{next(numbers)}"), skip=skip)
    assert caught.value.checks == ("reopens",)
