"""A consumer that is cancelled again and again while the run ends: the log gets its ending all the same."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from unspool.kernel import (
    AgentContext,
    AgentEnd,
    LoopConfig,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolSpec,
    agent_loop,
)
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory.memory import MemoryLog


class Careful:
    """A tool whose cleanup takes a few rounds of the event loop."""

    spec = ToolSpec(name="careful")

    def __init__(self) -> None:
        self.cleaned = False

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            self.cleaned = True
        return None


async def consume(log: MemoryLog, tool: Careful, dispatched: anyio.Event) -> None:
    config = LoopConfig(model=ScriptedModel([[call("c1", "careful")]]), log=log)
    async with agent_loop("go", AgentContext(tools=[tool]), config) as run:
        async for event in run:
            if isinstance(event, ToolExecDispatch):
                dispatched.set()


def check(log: MemoryLog, tool: Careful) -> None:
    assert tool.cleaned
    assert [fact.outcome for fact in log.facts if isinstance(fact, ToolExecEnd)] == ["cancelled"]
    assert isinstance(log.facts[-1], AgentEnd) and log.facts[-1].reason == "aborted"


def test_a_task_cancelled_three_times() -> None:
    async def play() -> None:
        log, tool, dispatched = MemoryLog(), Careful(), anyio.Event()
        task = asyncio.create_task(consume(log, tool, dispatched))
        await dispatched.wait()
        for _ in range(3):
            for _ in range(4):
                await anyio.lowlevel.checkpoint()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        check(log, tool)

    anyio.run(play)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_scope(backend: str) -> None:
    async def play() -> None:
        log, tool, dispatched = MemoryLog(), Careful(), anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(consume, log, tool, dispatched)
            await dispatched.wait()
            for _ in range(4):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        check(log, tool)

    anyio.run(play, backend=backend)
