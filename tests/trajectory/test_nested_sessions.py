"""Logs of sessions that run others in their calls: replayed, forked, looked through."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hosts import HOSTS
from nests import USAGE, Nesting

from unspool.kernel import (
    Agent,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildStarted,
    Codec,
    Fact,
    FakeClock,
    Handoff,
    Hooks,
    Lineage,
    LogError,
    ToolExecDispatch,
    ToolUse,
    Usage,
    Verdict,
    apply,
    fold,
    tool,
)
from unspool.kernel.trace import line
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlSessions, MemoryLog, SqliteSessions, replay, requests, runs, transcript
from unspool.trajectory.snapshots import make_snapshot, read_snapshot

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.fixture(scope="module")
def facts() -> list[Fact]:
    """A session in which calls run others that wait, end, fall over, hand over and go on in the background."""
    _, facts = anyio.run(HOSTS["nested"]().session)
    kinds = {type(fact) for fact in facts}
    assert {ChildStarted, ChildEnded, Handoff, ApprovalDecided} <= kinds
    return facts


def waits(fact: Fact) -> bool:
    return isinstance(fact, ApprovalRequested) and bool(fact.nested)


# --- replay ------------------------------------------------------------------------------------


class Desk:
    """An agent with a tool that runs a nested session, one that does not, and a middleware around both."""

    def __init__(self) -> None:
        self.below: dict[str, MemoryLog] = {}
        self.ran: list[str] = []

    def agent(self, log: MemoryLog | None = None, **options: Any) -> Agent[str]:
        ran = self.ran

        @tool(concurrency_safe=True)
        async def note(text: str) -> str:
            """Note something."""
            ran.append(text)
            return f"noted {text}"

        async def around(use: ToolUse, call_next: Any) -> object:
            ran.append(f"around {use.call.name}")
            return await call_next()

        script: list[Any] = [[call("c1", "safe_nests", s=1), call("c2", "note", text="x")], "done"]
        clock = FakeClock()
        return Agent(
            ScriptedModel(script, clock=clock),
            tools=[Nesting(self.below, "safe_nests"), note],
            hooks=Hooks(middlewares=[around]),
            log=log,
            clock=clock,
            **options,
        )

    async def session(self) -> list[Fact]:
        log = MemoryLog(session="desk")
        agent = self.agent(log, lineage=Lineage(parent="above", call_id="c7", path=("head",), root="top"))
        await agent.run("go")
        await agent.resume(Verdict.allow())
        return log.facts


@BACKENDS
def test_live_tools_run_again_but_no_nested_session(backend: str) -> None:
    async def main() -> None:
        facts = await Desk().session()
        again = Desk()
        result = await replay(facts, again.agent().settings, tools="live")
        assert result.same, str(result.difference)
        assert again.below == {}
        assert again.ran == ["around note", "x"]

    anyio.run(main, backend=backend)


@BACKENDS
@pytest.mark.parametrize("tools", ["recorded", "live"])
def test_the_lineage_is_that_of_the_log(backend: str, tools: Any) -> None:
    async def main() -> None:
        facts = await Desk().session()
        settings = Desk().agent(lineage=Lineage(parent="another")).settings
        result = await replay(facts, settings, tools=tools)
        assert result.same, str(result.difference)

    anyio.run(main, backend=backend)


@BACKENDS
def test_a_nested_session_is_replayed_from_its_own_log(backend: str) -> None:
    async def main() -> None:
        desk = Desk()
        await desk.session()
        (child,) = desk.below.values()
        start = child.facts[0]
        assert isinstance(start, AgentStart) and start.lineage is not None
        assert (start.lineage.parent, start.lineage.path, start.lineage.root) == (
            "desk",
            ("head", "agent"),
            "top",
        )
        result = await replay(child)
        assert result.same and result.facts == len(child.facts)

    anyio.run(main, backend=backend)


def changed(facts: list[Fact], fits: Callable[[Fact], bool], **fields: Any) -> list[Fact]:
    """``facts``, the first that fits another."""
    at = next(n for n, fact in enumerate(facts) if fits(fact))
    return [*facts[:at], msgspec.structs.replace(facts[at], **fields), *facts[at + 1 :]]


def test_another_outcome_of_a_nested_session_is_seen_further_on(facts: list[Fact]) -> None:
    """Its usage counts in the end of the run."""
    more = changed(facts, lambda fact: isinstance(fact, ChildEnded), usage=Usage(output_tokens=999))
    difference = anyio.run(replay, more).difference
    assert difference is not None
    assert (difference.recorded, difference.fields[0].path) == ("agent_end", "child_usage.output_tokens")


# --- forks and snapshots -----------------------------------------------------------------------


@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
def test_a_fork_anywhere_goes_on(facts: list[Fact], store: str, tmp_path: Path) -> None:
    place: Any = JsonlSessions(tmp_path) if store == "jsonl" else SqliteSessions(tmp_path / "sessions.db")
    with place.create("parent") as log:
        for fact in facts:
            log.append(fact)

    async def go_on(name: str) -> Agent[Any]:
        with place.open(name) as log:
            agent = HOSTS["nested"]().agent(log)
            await agent.run("go on")
            while agent.state.waiting_calls:
                await agent.resume(Verdict.allow())
            return agent

    for at in range(1, len(facts), 9):
        name = place.fork("parent", at, to=f"fork-{at}")
        assert fold(place.facts(name)) == fold(facts[:at])
        agent = anyio.run(go_on, name)
        held = list(place.facts(name))
        assert agent.state == fold(held) and agent.state.turn is None
        assert place.verify(name).ok
        assert anyio.run(replay, held).same
        assert all(request.exact for request in requests(held))


def test_every_state_survives_its_snapshot(facts: list[Fact]) -> None:
    codec, state = Codec(), fold([])
    for fact in facts:
        state = apply(state, fact)
        read = read_snapshot(make_snapshot(state, b"A" * 22, codec), codec, "here")
        assert read is not None and read.state == state


# --- looking through ---------------------------------------------------------------------------


def test_runs_tell_what_was_used_below(facts: list[Fact]) -> None:
    found, state = runs(facts), fold(facts)
    used = sum((run.child_usage for run in found), Usage())
    assert used == state.child_usage and used.output_tokens > 3 * USAGE.output_tokens
    assert found[-1].child_usage == state.run_child_usage


def test_a_transcript_has_one_result_for_each_call(facts: list[Fact]) -> None:
    results = [each.message for each in transcript(facts) if each.message.role == "tool"]
    ids = [getattr(message, "tool_call_id", "") for message in results]
    assert len(ids) == len(set(ids)) and {"c1", "c3", "c4"} <= set(ids)


def test_lines_for_people(facts: list[Fact]) -> None:
    asked = next(fact for fact in facts if waits(fact))
    assert line(asked) == "approval_requested c1 : c1/p1 asks to pay, c1/p2 asks to pay"
    below = Lineage(parent="x", call_id="c7", path=("head", "writer"), root="y")
    assert line(AgentStart(cause="prompt", lineage=below)) == "agent_start prompt below head > writer c7"


# --- what cannot follow --------------------------------------------------------------------------


def test_a_call_that_waits_runs_again_only_when_all_is_decided(facts: list[Fact]) -> None:
    at = next(n for n, fact in enumerate(facts, 1) if waits(fact))
    state = fold(facts[:at])
    (first, second) = [each.call.id for each in state.waiting_calls]

    def dispatched(*decided: str) -> None:
        after = state
        for call_id in decided:
            after = apply(after, ApprovalDecided(call_id, True, seq=after.seq + 1))
        apply(after, ToolExecDispatch("c1", seq=after.seq + 1))

    for decided in ([], [first], [second], [first, first]):
        with pytest.raises(LogError, match="cannot follow"):
            dispatched(*decided)
    dispatched(first, second)


def test_a_call_that_has_ended_does_not_run_again(facts: list[Fact]) -> None:
    at = next(n for n, fact in enumerate(facts, 1) if getattr(fact, "outcome", ""))
    with pytest.raises(LogError, match="cannot follow"):
        apply(fold(facts[:at]), ToolExecDispatch("c1", seq=at + 1))
