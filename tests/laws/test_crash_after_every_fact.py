"""Cut the log after every fact and go on from there, in an agent of its own: a normal end, no open call,
no call run twice."""

from typing import Any

import anyio
import pytest

from unspool.kernel import (
    Agent,
    AgentEnd,
    Codec,
    Fact,
    FakeClock,
    Hooks,
    RateLimitError,
    Refused,
    Retry,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolSpec,
    ToolUse,
    Verdict,
    fold,
    repair_message_sequence,
    to_messages,
)
from unspool.kernel.errors import ContinueError
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory.memory import MemoryLog

SCRIPT: list[Any] = [
    ["let me see", call("c1", "safe"), call("c2", "safe"), call("c3", "alone")],
    RateLimitError("slow down"),
    [call("c1", "alone"), call("c2", "asks", path="x"), call("c3", "gated")],  # ids that were used before
    "done",
]


class Counted:
    """A tool that counts how often each call ran, over all processes."""

    def __init__(self, name: str, runs: dict[str, int]) -> None:
        self.spec = ToolSpec(name=name, concurrency_safe=name == "safe", needs_approval=name == "asks")
        self.runs = runs

    async def validate(self, args: Any, ctx: ToolContext, /) -> Refused | None:
        return None

    async def preview(self, args: Any, ctx: ToolContext, /) -> Any:
        return {"would": self.spec.name}

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        self.runs[ctx.idempotency_key] = self.runs.get(ctx.idempotency_key, 0) + 1
        return f"{self.spec.name} done"


def gate(use: ToolUse) -> Verdict:
    if use.spec.name == "gated":
        return Verdict.ask("dangerous")
    return Verdict.allow({"path": "y"} if use.args else None)


def agent(script: list[Any], runs: dict[str, int], facts: list[Fact]) -> tuple[Agent[str], MemoryLog]:
    """An agent in what stands for a process of its own: it knows nothing but the facts."""
    codec = Codec()
    log, clock = MemoryLog(), FakeClock()
    log.facts = [codec.decode(codec.encode(fact)) for fact in facts]
    made = Agent(
        ScriptedModel(script, clock=clock),
        tools=[Counted(name, runs) for name in ("safe", "alone", "asks", "gated")],
        hooks=Hooks(gate=gate),
        state=fold(log.facts),
        log=log,
        clock=clock,
        retry=Retry(attempts=1),
        rand=lambda: 0.5,
    )
    return made, log


async def allow_all(made: Agent[str]) -> None:
    """Decide on everything that waits, until nothing does."""
    while made.state.waiting_calls:
        await made.resume(Verdict.allow(by="a person"))


async def first_run(runs: dict[str, int]) -> list[Fact]:
    made, log = agent(SCRIPT, runs, [])
    await made.run("go")
    await allow_all(made)
    assert made.state.end_reason == "stop"
    return log.facts


async def go_on(facts: list[Fact], runs: dict[str, int], how: str) -> None:
    made, log = agent(["after the crash"] * 3, runs, facts)
    if how == "continue":
        try:
            await made.continue_()
        except ContinueError:
            assert made.state.tail in ("assistant", "")
            await made.run("and now?")
    else:
        await made.run("and now?")
    await allow_all(made)
    state = made.state
    assert state.end_reason == "stop" and state.messages[-1].text in ("after the crash", "done")
    assert fold(log.facts) == state and state.turn is None and state.pending_calls == ()
    assert [fact.seq for fact in log.facts] == list(range(1, len(log.facts) + 1))
    assert isinstance(log.facts[-1], AgentEnd)
    for kind in (ToolExecStart, ToolExecEnd):
        ids = [fact.call_id for fact in log.facts if isinstance(fact, kind)]
        assert len(ids) == len(set(ids)), f"a call has two of {kind.__name__}"
    lowered = to_messages(state.messages)
    assert repair_message_sequence(lowered) == lowered
    texts = [message.text for message in state.messages if message.role == "user"]
    assert texts.count("and now?") <= 1 and texts.count("go") <= 1
    assert how == "continue" or texts.count("and now?") == 1


@pytest.mark.parametrize("how", ["prompt", "continue"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_go_on_from_every_cut(backend: str, how: str) -> None:
    facts = anyio.run(first_run, {}, backend=backend)
    for cut in range(1, len(facts) + 1):
        runs = ran_before(facts[:cut])
        anyio.run(go_on, facts[:cut], runs, how, backend=backend)
        assert set(runs.values()) <= {1}, f"a call ran twice after a cut at {cut}"


def ran_before(facts: list[Fact]) -> dict[str, int]:
    """Every call that was dispatched may have run."""
    return {fact.idempotency_key: 1 for fact in facts if isinstance(fact, ToolExecDispatch)}
