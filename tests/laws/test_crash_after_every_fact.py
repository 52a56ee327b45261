"""Cut the log after every fact and go on from there: a normal end, no open call, no call run twice."""

from typing import Any

import anyio
import pytest

from unspool.kernel import (
    AgentContext,
    AgentEnd,
    Codec,
    Fact,
    FakeClock,
    LoopConfig,
    RateLimitError,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolSpec,
    agent_loop,
    fold,
    repair_message_sequence,
    to_messages,
)
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory.memory import MemoryLog

SCRIPT: list[Any] = [
    ["let me see", call("c1", "safe"), call("c2", "safe"), call("c3", "alone")],
    RateLimitError("slow down"),
    [call("c1", "alone")],  # a provider that uses its ids again
    "done",
]


class Counted:
    """A tool that counts how often each call ran, over all processes."""

    def __init__(self, name: str, runs: dict[str, int]) -> None:
        self.spec = ToolSpec(name=name, concurrency_safe=name == "safe")
        self.runs = runs

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        self.runs[ctx.idempotency_key] = self.runs.get(ctx.idempotency_key, 0) + 1
        return f"{self.spec.name} done"


async def first_run(runs: dict[str, int]) -> list[Fact]:
    log, clock = MemoryLog(), FakeClock()
    config = LoopConfig(model=ScriptedModel(SCRIPT, clock=clock), log=log, clock=clock, rand=lambda: 0.5)
    async with agent_loop("go", AgentContext(tools=tools(runs)), config) as run:
        await run.result()
    return log.facts


def tools(runs: dict[str, int]) -> list[Counted]:
    return [Counted("safe", runs), Counted("alone", runs)]


async def go_on(facts: list[Fact], runs: dict[str, int], prompt: str) -> None:
    """Take up a session from its facts in what stands for a new process."""
    codec = Codec()
    stored = [codec.decode(codec.encode(fact)) for fact in facts]
    log, clock = MemoryLog(), FakeClock()
    log.facts = list(stored)
    context = AgentContext(tools=tools(runs), state=fold(stored))
    config = LoopConfig(
        model=ScriptedModel(["after the crash"] * 3, clock=clock), log=log, clock=clock, rand=lambda: 0.5
    )
    async with agent_loop(prompt, context, config) as run:
        result = await run.result()
        state = run.state
    assert result.end_reason == "stop" and result.text == "after the crash"
    assert fold(log.facts) == state and state.turn is None
    assert [fact.seq for fact in log.facts] == list(range(1, len(log.facts) + 1))
    assert isinstance(log.facts[-1], AgentEnd)
    ends = [fact.call_id for fact in log.facts if isinstance(fact, ToolExecEnd)]
    assert len(ends) == len(set(ends)), "a call has two ends"
    lowered = to_messages(state.messages)
    assert repair_message_sequence(lowered) == lowered
    texts = [message.text for message in state.messages if message.role == "user"]
    assert texts.count("and now?") == 1 and texts.count("go") <= 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_go_on_from_every_cut(backend: str) -> None:
    facts = anyio.run(first_run, {}, backend=backend)
    for cut in range(1, len(facts) + 1):
        runs = ran_before(facts[:cut])
        anyio.run(go_on, facts[:cut], runs, "and now?", backend=backend)
        assert set(runs.values()) <= {1}, f"a call ran twice after a cut at {cut}"


def ran_before(facts: list[Fact]) -> dict[str, int]:
    """Every call that was dispatched may have run."""
    return {fact.idempotency_key: 1 for fact in facts if isinstance(fact, ToolExecDispatch)}
