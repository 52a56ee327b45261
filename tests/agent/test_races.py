"""Everything at once, in thousands of orders: nothing lost, nothing doubled, nobody stuck.

Each seed decides what a handful of actors do to one agent and in which order the event loop runs what is
ready; there is no clock and no thread in it, so that a seed that fails fails again. ``UNSPOOL_RACES`` says
how many seeds are tried.
"""

import asyncio
import itertools
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from scenarios import settle, tasks_living

from unspool.kernel import (
    Agent,
    AgentBusyError,
    AgentEnd,
    AgentStart,
    ContinueError,
    Event,
    Limits,
    MessageEnd,
    ModelRequest,
    RunsHeldError,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolContext,
    ToolExecEnd,
    ToolExecStart,
    TurnEnd,
    TurnStart,
    fold,
    raw_tool,
    validate_message_sequence,
)
from unspool.trajectory.memory import MemoryLog

SEEDS = int(os.environ.get("UNSPOOL_RACES", "400"))
CHUNK = 100  # seeds for each test, so that a failure is found again quickly


class ShuffledLoop(asyncio.SelectorEventLoop):
    """Runs what is ready in an order of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._order = random.Random(seed)

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]  # asyncio's own queue of callbacks
        shuffled = list(ready)
        self._order.shuffle(shuffled)
        ready.clear()
        ready.extend(shuffled)
        super()._run_once()  # type: ignore[misc]  # not in the stubs


def run_shuffled(backend: str, seed: int, main: Callable[[], Awaitable[None]]) -> None:
    if backend == "asyncio":
        anyio.run(main, backend="asyncio", backend_options={"loop_factory": lambda: ShuffledLoop(seed)})
    else:
        trio._core._run._r.seed(seed)  # trio shuffles by itself, with this
        anyio.run(main, backend="trio")


async def steps(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


class Model:
    """Answers with text or with calls, taking its time."""

    name = "racing/model"
    supports_tools = True

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.problems: list[str] = []

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if validate_message_sequence(list(request.messages)):
            self.problems.append("a request with unpaired calls")
        await steps(self.random.randrange(4))
        calls = self.random.choice([0, 0, 0, 1, 2])
        yield TextDelta("answer ", 0)
        await steps(self.random.randrange(3))
        for index in range(1, calls + 1):
            yield ToolCallDelta(index, id=f"c{index}", name="work", args="{}")
            yield ToolCallEnd(index)
        yield StreamEnd(stop_reason="tool_use" if calls else "stop")


class Race:
    """One agent and what a seed does to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = Model(seed + 1)
        self.log = MemoryLog()
        self.heard: list[Event] = []
        self.accepted: list[str] = []
        self._numbers = itertools.count()
        self.forgets = self.random.random() < 0.2

        async def work(args: Any, ctx: ToolContext) -> str:
            await steps(self.random.randrange(6))
            return "worked"

        tools = [
            raw_tool(
                "work", "", {}, work, concurrency_safe=True, interrupt=self.random.choice(["block", "cancel"])
            )
        ]
        self.agent = Agent(
            self.model,
            tools=tools,
            log=self.log,
            limits=Limits(turns=6),
            steering_mode=self.random.choice(["all", "one"]),
        )
        self.agent.subscribe(self.heard.append)
        self.agent.subscribe(self._at_the_end)
        self._eager = self.random.randrange(3)

    def _at_the_end(self, event: Event) -> None:
        """A listener that goes on, a few times."""
        if isinstance(event, AgentEnd) and self._eager:
            self._eager -= 1
            act = self.random.choice([self.agent.prompt, self.agent.inject, self.agent.steer])
            with suppress(AgentBusyError, RunsHeldError):
                self._send(act)

    def _send(self, act: Callable[[str], object]) -> None:
        text = f"message {next(self._numbers)}"
        self.accepted.append(text)
        try:
            act(text)
        except (AgentBusyError, RunsHeldError):
            self.accepted.remove(text)
            raise

    async def _run(self, **how: Any) -> None:
        text = f"message {next(self._numbers)} by run"
        self.accepted.append(text)
        try:
            await self.agent.run(text, **how)
        except (AgentBusyError, RunsHeldError):
            self.accepted.remove(text)

    async def _leave_stream(self) -> None:
        text, left = f"message {next(self._numbers)} by stream", self.random.randrange(1, 20)
        self.accepted.append(text)
        try:
            async with self.agent.stream(text) as events:
                async for _ in events:
                    left -= 1
                    if not left:
                        return
        except (AgentBusyError, RunsHeldError):
            self.accepted.remove(text)

    async def actor(self) -> None:
        await steps(self.random.randrange(40))
        what = self.random.choice(
            ["run", "queue", "interrupt", "prompt", "steer", "follow_up", "inject", "abort", "hold", "leave"]
            + ["cancel", "configure", "continue"]
            + ["reset"] * self.forgets
        )
        with suppress(AgentBusyError, RunsHeldError, ContinueError):
            match what:
                case "run":
                    await self._run()
                case "queue":
                    await self._run(busy="queue")
                case "interrupt":
                    await self._run(busy="interrupt", keep=self.random.random() < 0.5)
                case "prompt" | "steer" | "follow_up" | "inject":
                    self._send(getattr(self.agent, what))
                case "abort":
                    self.agent.abort(marker=self.random.random() < 0.5)
                case "hold":
                    async with self.agent.hold_runs():
                        assert not self.agent.running
                        await steps(self.random.randrange(8))
                        assert not self.agent.running, "a run started while runs were held"
                case "leave":
                    await self._leave_stream()
                case "cancel":
                    with anyio.CancelScope() as scope:
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(self._run)
                            await steps(self.random.randrange(30))
                            scope.cancel()
                case "configure":
                    self.agent.configure(system=f"be {self.random.random()}")
                case "continue":
                    await self.agent.continue_()
                case "reset":
                    await self.agent.reset()

    async def run(self) -> None:
        living = tasks_living()
        with anyio.fail_after(20):
            async with self.agent, anyio.create_task_group() as tasks:
                for _ in range(self.random.randrange(2, 9)):
                    tasks.start_soon(self.actor)
            self._eager = 0
            await self._drain()
        await settle()
        assert tasks_living() == living, "a task is left"
        self.check()

    async def _drain(self) -> None:
        """Let the agent answer what is still queued."""
        for _ in range(40):
            state = self.agent.state
            if not (state.prompts or state.steering or state.follow_ups or state.taken):
                return
            await self.agent.continue_()
        raise AssertionError("the queues do not empty")

    def check(self) -> None:
        state = self.agent.state
        assert not self.agent.running and self.model.problems == []
        assert fold(self.log.facts) == state
        assert [event for event in self.heard if not hasattr(event, "sub")] == self.log.facts
        self._check_runs()
        texts = [message.text for message in state.messages if message.role == "user"]
        if self.forgets:
            assert len(texts) == len(set(texts))
        else:
            assert sorted(texts) == sorted(self.accepted), "a message was lost or doubled"

    def _check_runs(self) -> None:
        """Runs do not overlap, and each has closed what it began."""
        run, turn, calls = "", False, set[str]()
        for fact in self.log.facts:
            match fact:
                case AgentStart():
                    assert run == "", "two runs at once"
                    run = fact.run_id
                case AgentEnd():
                    assert (fact.run_id, turn, calls) == (run, False, set())
                    run = ""
                case TurnStart() | TurnEnd():
                    assert turn == isinstance(fact, TurnEnd)
                    turn = not turn
                case ToolExecStart():
                    calls.add(fact.call_id)
                case ToolExecEnd():
                    calls.remove(fact.call_id)
                case MessageEnd():
                    assert fact.run_id == run
                case _:
                    continue
        assert run == ""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_races(backend: str, first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            run_shuffled(backend, seed, Race(seed).run)
        except BaseException as error:
            error.add_note(f"backend {backend}, seed {seed}")
            raise
