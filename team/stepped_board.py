"""A task board whose steps are carried out in some place.

Read with: ``board_steps.py``, ``place.py``, ``memory_board.py``, ``sqlite_board.py``.
"""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from unspool.kernel.ports import Clock

from .board import BoardTask, TaskDraft, Tasks, TaskStatus
from .board_steps import BoardSteps, Claimed
from .place import Place, repeated

T = TypeVar("T")


class SteppedBoard:
    """A ``Board``."""

    def __init__(self, place: Place[BoardSteps], clock: Clock) -> None:
        self._place = place
        self._clock = clock

    async def _do(
        self, step: Callable[[BoardSteps], T], undo: Callable[[BoardSteps, T], None] | None = None
    ) -> T:
        def whole(steps: BoardSteps) -> T:
            steps.take_back()
            return step(steps)

        return await self._place.do(whole, undo)

    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        return await self._do(lambda steps: steps.add(by, drafts))

    async def claim(
        self,
        by: str,
        /,
        *,
        id: str | None = None,
        tags: Collection[str] = (),
        lease_s: float | None = None,
        wait_s: float | None = 0.0,
    ) -> BoardTask | None:
        _check_lease(lease_s)

        def step(steps: BoardSteps) -> tuple[Claimed | None, int, float]:
            claimed = steps.claim(by, id, tags, lease_s)
            return claimed, steps.version, steps.expires_in()

        async def attempt() -> tuple[Claimed | None, int, float]:
            return await self._do(step, lambda steps, made: steps.undo(made[0]))

        claimed = await repeated(attempt, self._place, self._clock, wait_s)
        return None if claimed is None else claimed.task

    async def renew(
        self, id: str, by: str, /, *, lease_s: float | None = None, attempt: int | None = None
    ) -> BoardTask:
        _check_lease(lease_s)
        return await self._do(lambda steps: steps.renew(id, by, lease_s, attempt))

    async def complete(
        self,
        id: str,
        by: str,
        result: str = "",
        /,
        *,
        attempt: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> BoardTask:
        return await self._do(lambda steps: steps.finish(id, by, "done", result, attempt, data))

    async def fail(self, id: str, by: str, reason: str = "", /, *, attempt: int | None = None) -> BoardTask:
        return await self._do(lambda steps: steps.finish(id, by, "failed", reason, attempt, None))

    async def release(self, id: str, by: str, /, *, attempt: int | None = None) -> BoardTask:
        return await self._do(lambda steps: steps.release(id, by, attempt))

    async def release_claims(self, *, of: str) -> Tasks:
        return await self._do(lambda steps: steps.release_claims(of))

    async def cancel(self, id: str, by: str, reason: str = "", /) -> BoardTask:
        return await self._do(lambda steps: steps.cancel(id, by, reason))

    async def update(
        self,
        id: str,
        /,
        *,
        title: str | None = None,
        text: str | None = None,
        priority: int | None = None,
        tags: tuple[str, ...] | None = None,
        depends_on: tuple[str, ...] | None = None,
        data: dict[str, Any] | None = None,
    ) -> BoardTask:
        given = {
            "title": title,
            "text": text,
            "priority": priority,
            "tags": tags,
            "depends_on": depends_on,
            "data": data,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return await self._do(lambda steps: steps.update(id, changes))

    async def get(self, id: str, /) -> BoardTask:
        return await self._do(lambda steps: steps.get(id))

    async def list(
        self,
        status: Collection[TaskStatus] | None = None,
        *,
        assignee: str | None = None,
        tags: Collection[str] = (),
    ) -> Tasks:
        return await self._do(lambda steps: steps.list(status, assignee, tags))

    async def wait(
        self, until: Callable[[Tasks], bool], /, *, timeout_s: float | None = None
    ) -> Tasks | None:
        async def look() -> tuple[Tasks | None, int, float]:
            tasks, version, again_s = await self._do(
                lambda steps: (steps.list(None, None, ()), steps.version, steps.expires_in())
            )
            return tasks if until(tasks) else None, version, again_s

        return await repeated(look, self._place, self._clock, timeout_s)

    async def version(self) -> int:
        return await self._do(lambda steps: steps.version)

    async def aclose(self) -> None:
        await self._place.aclose()


def _check_lease(lease_s: float | None) -> None:
    if lease_s is not None and lease_s <= 0:
        raise ValueError(f"board: a lease is for more than 0 s (lease_s={lease_s})")
