"""What a tool brings up of the session that it runs, whatever is in it, and decisions on that."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from unspool import Agent, Verdict
from unspool.kernel import (
    ApprovalDecided,
    ApprovalRequested,
    Codec,
    ErrorEvent,
    Fact,
    FakeClock,
    FatalToolError,
    NestedCall,
    Suspended,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecEnd,
    nest_of,
    raw_tool,
    tool,
)
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import MemoryLog


def waiting(id: str, **fields: Any) -> NestedCall:
    return NestedCall(id=id, call=ToolCall(id=id, name="pay", args={"n": 1}), **fields)


def suspends(*calls: NestedCall) -> Any:
    """A tool that waits for decisions on ``calls``, and then says what they were."""

    async def run(args: Any, ctx: ToolContext) -> object:
        decisions = nest_of(ctx).decisions
        if not decisions:
            raise Suspended(calls)
        return {id: verdict.decision for id, verdict in decisions.items()}

    return raw_tool("below", "Below.", {}, run, concurrency_safe=True)


def agent(log: MemoryLog, tools: Sequence[Any], *calls: ToolCall) -> Agent[str]:
    return Agent(ScriptedModel([list(calls), "done"]), tools=tools, log=log, clock=FakeClock())


def outcomes(facts: Sequence[Fact]) -> dict[str, str]:
    ends = [fact for fact in facts if isinstance(fact, ToolExecEnd)]
    return {end.call_id: "".join(getattr(block, "text", "") for block in end.content) for end in ends}


def check_readable(facts: Sequence[Fact]) -> None:
    codec = Codec()
    for fact in facts:
        assert codec.decode(codec.encode(fact)) == fact


def test_what_has_no_json_form_is_described() -> None:
    log, odd = MemoryLog(), {"x": float("nan"), "y": {1}, "\ud800": "\ud800"}
    tools = [suspends(waiting("p1", details=odd, preview=odd, reason="\ud800"))]
    anyio.run(agent(log, tools, call("c1", "below")).run, "go")
    (asked,) = [fact for fact in log.facts if isinstance(fact, ApprovalRequested)]
    (nested,) = asked.nested
    assert (nested.id, nested.reason) == ("c1/p1", "\ufffd")
    assert nested.details == nested.preview == {"x": "nan", "y": [1], "\ufffd": "\ufffd"}
    check_readable(log.facts)


@pytest.mark.parametrize("fatal", [False, True])
def test_details_of_an_error_stay_an_object(fatal: bool) -> None:
    @tool
    async def fails() -> str:
        """Fail."""
        raise (FatalToolError if fatal else ToolError)("no", share=float("nan"), of=3)

    log = MemoryLog()
    anyio.run(agent(log, [fails], call("c1", "fails")).run, "go")
    kind = ErrorEvent if fatal else ToolExecEnd
    (failed,) = [fact for fact in log.facts if isinstance(fact, kind)]
    assert {key: failed.details.get(key) for key in ("share", "of")} == {"share": "nan", "of": 3}
    check_readable(log.facts)


def test_calls_that_wait_have_different_ids() -> None:
    log = MemoryLog()
    anyio.run(agent(log, [suspends(waiting("p1"), waiting("p1"))], call("c1", "below")).run, "go")
    assert "have the same id: ['p1', 'p1']" in outcomes(log.facts)["c1"]


def test_a_second_decision_on_a_call_decides_no_other() -> None:
    log = MemoryLog()
    made = agent(log, [suspends(waiting("p1"), waiting("p2"))], call("c1", "below"))
    anyio.run(made.run, "go")
    made.decide({"c1/p1": Verdict.allow()})
    again = ApprovalDecided("c1/p1", False, seq=made.state.seq + 1)
    log.append(again)
    other = Agent(ScriptedModel(["done"]), tools=[suspends()], log=log, state=None, clock=FakeClock())
    assert [each.call.id for each in other.state.waiting_calls] == ["c1/p2"]
    anyio.run(other.resume, Verdict.deny())
    assert outcomes(log.facts) == {"c1": '{"p1":"allow","p2":"deny"}'}


def test_a_call_of_the_turn_may_be_called_like_one_below() -> None:
    """A decision is on the one that waits; it makes no other run again."""
    ran: list[str] = []
    look = raw_tool("look", "Look.", {}, lambda args, ctx: ran.append(ctx.call_id), read_only=True)
    log = MemoryLog()
    tools = [suspends(waiting("p1")), look]
    made = agent(log, tools, call("c1", "below"), call("c1/p1", "look"))

    async def main() -> None:
        await made.run("go")
        await made.resume(Verdict.allow())

    anyio.run(main)
    assert outcomes(log.facts)["c1"] == '{"p1":"allow"}'
    assert ran == ["c1/p1"]
