"""Ending a run from outside: before it, in a reply, in a tool, by leaving."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest
from play import EncodedLog, Player, Spans, echo, lines
from scenarios import settle

from unspool.kernel import (
    Abort,
    AgentContext,
    Fact,
    Inbox,
    Limits,
    LoopConfig,
    Message,
    ToolExecEnd,
    ToolExecUpdate,
    agent_loop,
    fold,
    to_messages,
    validate_message_sequence,
)
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import ScriptedModel, Wait, call


def fired(*, marker: bool) -> Abort:
    abort = Abort()
    abort.fire(marker=marker)
    return abort


def markers(state: Any) -> list[Message]:
    return [message for message in state.messages if getattr(message, "stop_reason", None) == "aborted"]


def test_aborted_before_the_start_without_marker(play: Player) -> None:  # T5
    run = play("never", abort=fired(marker=False))
    assert run.trace == lines("""
        agent_start prompt
        queue_changed [prompt] queued 'go'
        agent_end aborted
    """)
    assert run.requests == []
    assert [queued.message.text for queued in run.state.prompts] == ["go"]


def test_aborted_before_the_start_with_marker(play: Player) -> None:  # T6
    run = play("never", abort=fired(marker=True))
    assert [marker.metadata for marker in markers(run.state)] == [{"abort_phase": "inference"}]
    assert run.end.reason == "aborted"


def test_marker_is_not_what_the_run_answered(play: Player) -> None:
    run = play(
        [call("c1", "wait")],
        tools=[Spans().tool("wait")],
        on={"tool_exec_dispatch": lambda o: o.stop(reason="no")},
    )
    assert run.result is not None
    assert run.result.messages[-1].text == "no"
    assert run.result.text == ""


def test_marker_has_its_start_and_its_text(play: Player) -> None:  # I-15
    run = play([Wait(9)], at={1.0: lambda o: o.stop(reason="changed my mind")})
    assert run.trace.splitlines()[-4:] == [
        "message_start assistant",
        "message_end assistant 'changed my mind' aborted (abort)",
        "turn_end 1",
        "agent_end aborted",
    ]


def test_marker_is_never_sent(play: Player) -> None:  # B.6
    first = play([Wait(9)], at={1.0: lambda o: o.stop()})
    second = play("fine", prompt="again", state=first.state)
    assert len(markers(first.state)) == 1
    assert second.sent() == ["user: go", "user: again"]


def test_abort_in_a_reply(play: Player) -> None:  # T434, A.9.4, B121
    run = play(["Hel", Wait(9), "lo"], at={1.0: lambda o: o.stop(marker=False)})
    assert "message_discarded aborted" in run.trace
    assert run.texts == ["user: go"]
    assert run.end.reason == "aborted"
    assert run.now == 1.0


def test_queue_outlives_an_abort(play: Player) -> None:  # T434
    def both(outside: Any) -> None:
        outside.steer("one more thing")
        outside.stop(marker=False)

    first = play([Wait(9)], at={1.0: both})
    assert [queued.message.text for queued in first.state.steering] == ["one more thing"]
    second = play("fine", prompt=None, state=first.state)
    assert second.sent() == ["user: go", "user: one more thing"]


def test_abort_in_a_tool(play: Player) -> None:  # T433, B001
    spans = Spans()
    first = play(
        [call("c1", "echo", value="A1"), call("c2", "slow", s=30), call("c3", "echo", value="B")],
        tools=[echo(), spans.tool("slow")],
        at={5.0: lambda o: o.stop()},
    )
    assert first.outcomes() == {"c1": "ok", "c2": "cancelled", "c3": "cancelled"}
    assert first.results() == {
        "c1": "A1",
        "c2": "cancelled while it was running; whether it had any effect is unknown",
        "c3": "not executed: the run was ended first",
    }
    assert markers(first.state)[0].metadata == {"abort_phase": "tool_execution"}
    assert validate_message_sequence(to_messages(first.state.messages)) == []
    second = play("fine", prompt="carry on", state=first.state)
    assert [row.split(":")[0] for row in second.sent()] == [
        "user", "assistant", "tool c1", "tool c2", "tool c3", "user",
    ]  # fmt: skip


def test_abort_is_for_one_run(play: Player) -> None:  # B122
    state = play([Wait(9)], at={1.0: lambda o: o.stop()}).state
    second = play([Wait(9)], prompt="again", state=state, at={1.0: lambda o: o.stop()})
    assert (second.end.reason, second.now) == ("aborted", 1.0)
    assert play("fine", prompt="third", state=second.state).end.reason == "stop"


def test_abort_at_the_end_of_an_answer(play: Player) -> None:  # A.9.7, I-27
    run = play("whole", on={"message_end assistant": lambda o: o.stop(marker=False)})
    assert run.texts[-1] == "assistant: whole"
    assert run.end.reason == "aborted"


def test_abort_while_cleanup_takes_time(play: Player) -> None:  # B156
    cleaned: list[float] = []

    async def careful(args: Any, ctx: Any) -> object:
        try:
            await ctx.clock.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.clock.sleep(3)
            cleaned.append(ctx.clock.monotonic())
        return "never"

    def twice(outside: Any) -> None:
        outside.stop()
        outside.stop()

    run = play(
        [call("c1", "t")],
        tools=[raw_tool("t", "", {}, careful)],
        at={1.0: twice, 1.5: twice},
        limits=Limits(grace_s=5),
    )
    assert cleaned == [4.0]
    assert run.outcomes() == {"c1": "cancelled"}


@pytest.mark.parametrize("end", ["abort", "timeout", "steering", "leaving"])
def test_tool_that_does_not_stop_is_abandoned(play: Player, end: str) -> None:
    with pytest.warns(ResourceWarning, match="abandoned: stubborn"):
        facts = anyio.run(run_stubborn, end, backend=play.backend)
    ends = [(fact.outcome, fact.abandoned) for fact in facts if isinstance(fact, ToolExecEnd)]
    outcome = {"abort": "cancelled", "timeout": "error", "steering": "interrupted", "leaving": "cancelled"}
    assert ends == [(outcome[end], True)]
    assert "too late" not in repr(facts)


async def run_stubborn(end: str) -> list[Fact]:
    """The facts of a run whose tool goes on when it is cancelled, until the run has ended."""
    release, abort, inbox, log = anyio.Event(), Abort(), Inbox(), EncodedLog()

    async def deaf(args: Any, ctx: Any) -> object:
        ctx.progress("started")
        while not release.is_set():
            with suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await release.wait()
        return "too late"

    traits: Any = {"timeout_s": 0.001} if end == "timeout" else {"interrupt": "cancel"}
    config = LoopConfig(
        model=ScriptedModel([[call("c1", "stubborn")], "done"]),
        limits=Limits(grace_s=0.001),
        abort=abort,
        inbox=inbox,
        log=log,
    )
    async with agent_loop(
        "go", AgentContext(tools=[raw_tool("stubborn", "", {}, deaf, **traits)]), config
    ) as run:
        async for event in run:
            if isinstance(event, ToolExecUpdate):
                if end == "leaving":
                    break
                act: dict[str, Any] = {"abort": abort.fire, "steering": lambda: inbox.steer("stop")}
                act.get(end, lambda: None)()
    release.set()
    await settle()
    return log.facts


@pytest.mark.parametrize("events", range(1, 16))
def test_leaving_early_leaves_a_balanced_log(play: Player, events: int) -> None:
    async def main() -> None:
        log, inbox = EncodedLog(), Inbox()
        model = ScriptedModel([[call("c1", "echo", value="x")], "done"])
        run = agent_loop("go", AgentContext(tools=[echo()]), LoopConfig(model=model, log=log, inbox=inbox))
        for _ in range(events):
            await anext(run)
        await run.aclose()
        assert fold(log.facts) == run.state
        assert run.state.end_reason == "aborted"
        assert run.state.turn is None and not run.state.pending_calls

    anyio.run(main, backend=play.backend)
