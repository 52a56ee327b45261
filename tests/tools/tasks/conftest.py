"""Work that ends when a test says so, and both event loops."""

from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from unspool.kernel.clock import FakeClock
from unspool.kernel.messages import Message
from unspool.kernel.ports import ToolContext
from unspool.tools.tasks import Launch, Outcome, Piece, Task, Tasks


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class ScriptedWork:
    """A ``Work`` without a process."""

    pid: int | None = None
    output_file = ""

    def __init__(self, text: str = "") -> None:
        self.data = text.encode()
        self.kept_from = 0  # earlier bytes are gone
        self.stops = self.kills = 0
        self.stop_error: Exception | None = None
        self.wait_error: Exception | None = None
        self.outcome = Outcome()
        self._ended = anyio.Event()

    @property
    def output_bytes(self) -> int:
        return len(self.data)

    def read(self, offset: int, limit: int, /) -> Piece:
        start = max(offset, self.kept_from)
        part = self.data[start : start + limit]
        return Piece(part.decode(errors="replace"), start, start + len(part), len(self.data))

    def write(self, text: str) -> None:
        self.data += text.encode()

    def finish(self, exit_code: int | None = 0, *errors: str) -> None:
        self.outcome = Outcome(exit_code=exit_code, errors=errors)
        self._ended.set()

    async def wait(self) -> Outcome:
        await self._ended.wait()
        if self.wait_error is not None:
            raise self.wait_error
        return self.outcome

    async def stop(self) -> None:
        self.stops += 1
        if self.stop_error is not None:
            raise self.stop_error
        self.finish(143)

    def kill(self) -> None:
        self.kills += 1
        self.finish(137)


def launching(work: ScriptedWork) -> Launch:
    async def launch(id: str) -> ScriptedWork:
        return work

    return launch


class WatchedTasks(Tasks):
    """Calls ``when_waiting`` when somebody begins to wait."""

    when_waiting: Callable[[], None] | None = None

    async def wait(self, *ids: str, first: bool = False, timeout_s: float | None = None) -> tuple[Task, ...]:
        if self.when_waiting is not None:
            self.when_waiting()
        return await super().wait(*ids, first=first, timeout_s=timeout_s)


class Desk:
    """A registry whose notices are collected, and work for it."""

    def __init__(self, **options: int) -> None:
        self.clock = FakeClock(1000.0)
        self.notices: list[Message] = []
        self.tasks = WatchedTasks(notify=self.notices.append, clock=self.clock, **options)

    async def start(
        self, text: str = "", kind: str = "shell", session: str = "s", timeout_s: float | None = None
    ) -> ScriptedWork:
        work = ScriptedWork(text)
        task = await self.tasks.start(
            kind,
            launching(work),
            description="make",
            command="make all",
            session=session,
            timeout_s=timeout_s,
        )
        assert task.status == "running"
        return work

    async def ended(self, id: str) -> Task:
        (task,) = await self.tasks.wait(id)
        return task

    def ctx(self, session: str = "s", agent: str = "main") -> ToolContext:
        return cast(ToolContext, SimpleNamespace(session=session, agent=(agent,), clock=self.clock))


@pytest.fixture
async def desk() -> AsyncGenerator[Desk, None]:
    desk = Desk()
    yield desk
    await desk.tasks.aclose()
