"""Handoffs in one conversation: who has it, with what, and what is refused."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.subagent.handoff_scenes import SYSTEM, Desk, go, team, transfer

from unspool import Agent, Limits, Usage, Verdict, tool
from unspool.kernel import (
    AgentStart,
    CallOptions,
    ConfigChanged,
    Fact,
    Handoff,
    Hooks,
    Message,
    MessageEnd,
    PassThrough,
    ToolDefinitionError,
    ToolExecEnd,
)
from unspool.kernel.hooks import ToolUse
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition, Budget, DefinitionError, UnknownAgent, UnknownTool
from unspool.subagent.handoff_usage import usage_by_agent
from unspool.subagent.handoffs import HandoffAgent
from unspool.trajectory import MemoryLog

__all__ = ["go"]
TAKEN = tool(lambda: "", name="transfer_to_agent", description="Not ours.")
MOVE = [transfer("c1", "billing", reason="a refund", message="order 7")]


def test_the_next_turn_is_the_new_agents(go: Any) -> None:
    other = ScriptedModel(["paid back"], name="scripted/other")
    agents = team(
        billing={"model": other, "options": CallOptions(temperature=0.5), "budget": Budget(turns=7)},
    )
    desk = Desk([MOVE], agents=agents, limits=Limits(turns=50), options=CallOptions(max_tokens=9))

    result = go(lambda: desk.agent.run("please refund"))
    assert (result.text, desk.agent.state.agent, desk.agent.definition.name) == (
        "paid back",
        "billing",
        "billing",
    )
    (request,) = other.requests
    assert [block.text for block in request.system] == ["You bill."]
    assert (request.options.temperature, request.options.max_tokens) == (0.5, 9)
    assert [message.text for message in request.messages] == [
        "please refund",
        "",
        "billing has the conversation now.",
    ]
    (changed,) = [fact for fact in desk.log.facts if isinstance(fact, ConfigChanged)]
    assert (changed.model, changed.limits and changed.limits.turns) == ("scripted/other", 7)
    assert None not in (changed.tools, changed.system, changed.options)
    desk.check()


def test_the_handoff_is_durable_before_anything_follows_from_it(go: Any) -> None:
    flushed: list[int] = []

    class Flushing(MemoryLog):
        async def flush(self) -> None:
            flushed.append(self.seq)
            await super().flush()

    log = Flushing(session="s")
    desk = Desk([MOVE, "paid back"], log=log)
    go(lambda: desk.agent.run("please refund"))
    kinds = [(type(fact), fact.seq) for fact in log.facts]
    (recorded,) = [seq for kind, seq in kinds if kind is Handoff]
    (ended,) = [seq for kind, seq in kinds if kind is ToolExecEnd]
    assert any(recorded <= seq < ended for seq in flushed)
    assert [(fact.source, fact.target, fact.call_id) for fact in desk.told] == [("triage", "billing", "c1")]


def test_an_agent_is_offered_whom_it_may_hand_over_to(go: Any) -> None:
    def enum(agent: HandoffAgent[Any], tools: Sequence[Any]) -> Any:
        spec = next(spec for spec in tools if spec.name == "transfer_to_agent")
        return spec.schema["properties"]["agent"]["enum"], spec.description.splitlines()[1:]

    desk = Desk([MOVE, "paid back"])
    assert enum(desk.agent, desk.agent.build_llm_tools()) == (
        ["billing", "tech"],
        ["- billing: Invoices and refunds.", "- tech"],
    )
    go(lambda: desk.agent.run("please refund"))
    assert enum(desk.agent, desk.agent.build_llm_tools()) == (["triage"], ["- triage"])
    alone = Desk([MOVE, "paid back"], hand_back=False)
    go(lambda: alone.agent.run("please refund"))
    assert [spec.name for spec in alone.model.requests[1].tools] == ["look"]
    again = Desk([MOVE, "paid back"], agents=list(reversed(team())))
    go(lambda: again.agent.run("please refund"))
    assert [msgspec.json.encode(each.tools) for each in again.model.requests] == [
        msgspec.json.encode(each.tools) for each in desk.model.requests
    ]


def test_calls_beside_a_handoff_run_with_the_tools_of_the_agent_that_made_them(go: Any) -> None:
    reply = [
        call("a", "look", at="1"),
        transfer("b", "billing"),
        call("c", "look", at="2"),
        transfer("d", "tech"),
    ]
    desk = Desk([reply, [call("e", "look", at="3")], "done"])
    go(lambda: desk.agent.run("please refund"))
    assert desk.results() == {
        "a": "triage saw 1",
        "b": "billing has the conversation now.",
        "c": "triage saw 2",
        "d": "the conversation goes to billing already: hand over once in a reply",
        "e": "billing saw 3",
    }
    assert desk.handoffs == [("triage", "billing", "b")]
    desk.check()


@pytest.mark.parametrize("target", ["triage", "legal"], ids=["itself", "unknown"])
def test_whom_there_is_not_is_refused_with_a_list(go: Any, target: str) -> None:
    desk = Desk([[transfer("a", target)], "sorry"])
    go(lambda: desk.agent.run("please"))
    assert "billing" in desk.results()["a"]
    assert "tech" in desk.results()["a"]
    assert (desk.handoffs, desk.agent.state.agent) == ([], "triage")


def _round(name: str, messages: Sequence[Message]) -> Any:
    """Agents that hand the conversation round as long as they are let."""
    tried = sum(len(message.tool_calls) for message in messages)
    if messages[-1].is_error:
        return f"{name} answers"
    order = {"triage": "billing" if tried % 4 == 0 else "tech"}
    return [transfer(f"c{tried}", order.get(name, "triage"))]


@pytest.mark.parametrize(
    ("most", "handoffs", "said"),
    [
        (3, 3, "handed over 3 times in this run: answer yourself, or ask the user"),
        (
            20,
            8,
            "handed over 8 times in this run, 2 times from triage to billing: answer yourself, or ask the user",
        ),
    ],
    ids=["max_handoffs", "the same again and again"],
)
def test_a_run_has_an_end(go: Any, most: int, handoffs: int, said: str) -> None:
    desk = Desk(_round, max_handoffs=most)
    result = go(lambda: desk.agent.run("please"))
    assert (len(desk.handoffs), result.end_reason) == (handoffs, "stop")
    assert list(desk.results().values())[-1] == said
    before = len(desk.handoffs)
    go(lambda: desk.agent.run("once more"))
    assert len(desk.handoffs) > before, "each run counts for itself"
    desk.check()


def test_the_next_prompt_goes_to_the_agent_that_has_the_conversation(go: Any) -> None:
    desk = Desk([MOVE, "paid back", "you're welcome"])

    async def main() -> None:
        await desk.agent.run("please refund")
        await desk.agent.run("thanks")

    go(main)
    assert desk.asked == ["triage", "billing", "billing"]
    assert [fact.agent for fact in desk.log.facts if isinstance(fact, AgentStart)] == ["triage", "billing"]
    assert desk.handoffs == [("triage", "billing", "c1")]
    desk.check()


def test_without_sticky_each_prompt_begins_with_the_root(go: Any) -> None:
    desk = Desk([MOVE, "paid back", "hello", "bye"], sticky=False)

    async def main() -> None:
        await desk.agent.run("please refund")
        assert desk.agent.state.agent == "billing"
        await desk.agent.run("hi")
        async with desk.agent.stream("bye") as stream:
            await stream.result()

    go(main)
    assert desk.asked == ["triage", "billing", "triage", "triage"]
    assert desk.handoffs == [("triage", "billing", "c1"), ("billing", "triage", "")]
    (back,) = [fact for fact in desk.log.facts if isinstance(fact, Handoff) and not fact.call_id]
    start = desk.log.facts[back.seq]
    assert isinstance(start, AgentStart)
    assert (start.agent, start.cause, back.run_id) == ("triage", "prompt", "")
    desk.check()


def test_a_stream_begins_with_the_agent_that_it_was_made_for(go: Any) -> None:
    desk = Desk([MOVE, "paid back", "hello"])

    async def main() -> None:
        stream = desk.agent.stream("hi")  # nothing happens before its first event is asked for
        await desk.agent.run("please refund")
        async with stream:
            await stream.result()

    go(main)
    assert desk.asked == ["triage", "billing", "triage"]
    assert desk.handoffs == [("triage", "billing", "c1"), ("billing", "triage", "")]
    desk.check()


@pytest.mark.parametrize("sticky", [True, False])
def test_a_run_that_paused_goes_on_where_it_was(go: Any, sticky: bool) -> None:
    """A call beside the handoff waits for a person: it is triage's, whoever has the conversation by now."""
    reply = [transfer("a", "billing"), call("b", "look", at="1")]
    script: list[Any] = [reply, [call("c", "look", at="2")], "done"]

    def gate(use: ToolUse) -> Verdict:
        return Verdict.ask() if use.spec.name == "look" and not use.approved else Verdict.allow()

    for fresh in (False, True):  # in the same process, and in another one
        desk = Desk(script, hooks=Hooks(gate=gate), sticky=sticky)

        async def main(desk: Desk = desk, fresh: bool = fresh) -> Desk:
            assert (await desk.agent.run("please")).end_reason == "paused"
            assert desk.agent.state.agent == "billing"
            if fresh:
                desk = Desk(script[1:], desk.log.facts, hooks=Hooks(gate=gate), sticky=sticky)
            assert (await desk.agent.resume(Verdict.allow())).end_reason == "paused"
            assert (await desk.agent.resume(Verdict.allow())).text == "done"
            return desk

        desk = go(main)
        assert desk.results()["b"] == "triage saw 1"
        assert desk.results()["c"] == "billing saw 2"
        assert desk.handoffs == [("triage", "billing", "a")]
        desk.check()


def test_the_type_of_the_answer_is_that_of_whoever_gives_it(go: Any) -> None:
    agents = team(billing={"output": list[int]})
    desk = Desk([MOVE, "no list", "[1, 2]", [transfer("c2", "triage")], "words"], agents=agents)

    async def main() -> list[Any]:
        return [(await desk.agent.run(text)).output for text in ("please", "and now")]

    assert go(main) == [[1, 2], "words"]
    formats = [request.options.response_format is not None for request in desk.model.requests]
    assert formats == [False, True, True, True, False]
    one = Desk([MOVE, "[3]"], output=list[int])
    assert go(lambda: one.agent.run("please")).output == [3]


def test_hooks_are_the_agents_own_or_everybodys(go: Any) -> None:
    seen: list[tuple[str, str]] = []

    def gate(whose: str) -> Hooks:
        def decide(use: ToolUse) -> Verdict:
            seen.append((whose, use.spec.name))
            return Verdict.allow()

        return Hooks(gate=decide)

    agents = team(billing={"hooks": gate("billing")})
    desk = Desk([MOVE, [call("c2", "look", at="1")], "done"], agents=agents, hooks=gate("all"))
    go(lambda: desk.agent.run("please"))
    assert seen == [("all", "transfer_to_agent"), ("billing", "look")]


def test_what_definitions_leave_open_can_be_changed(go: Any) -> None:
    shared = tool(lambda: "x", name="extra", description="Extra.")
    other = ScriptedModel(["there", MOVE, "paid back"], name="scripted/other")
    desk = Desk(["hello"], agents=team(billing={"tools": None}))

    async def main() -> None:
        await desk.agent.run("hi")
        desk.agent.configure(model=other, tools=[shared])
        await desk.agent.run("hi")
        await desk.agent.run("refund")

    go(main)
    assert [[spec.name for spec in request.tools] for request in other.requests] == [
        ["look", "transfer_to_agent"],
        ["look", "transfer_to_agent"],
        ["extra", "transfer_to_agent"],
    ]
    desk.check()
    wrong: Any
    for wrong in ({"system": "x"}, {"name": "x"}, {"nothing": 1}):
        with pytest.raises(TypeError):
            desk.agent.configure(**wrong)
    with pytest.raises(ToolDefinitionError):
        desk.agent.configure(tools=[shared, shared])
    assert [spec.name for spec in desk.agent.build_llm_tools()] == ["extra", "transfer_to_agent"]


def test_a_fork_goes_on_with_the_agent_that_has_the_conversation(go: Any) -> None:
    desk = Desk([MOVE, "paid back", "here", "there", [transfer("c9", "triage")], "root"])
    log = MemoryLog(session="f")

    async def main() -> None:
        await desk.agent.run("please")
        fork = desk.agent.fork(log=log)
        assert isinstance(fork, HandoffAgent)
        await desk.agent.run("one")
        await fork.run("two")
        await fork.run("three")
        assert (desk.agent.state.agent, fork.state.agent) == ("billing", "triage")

    go(main)
    assert desk.asked == ["triage", "billing", "billing", "billing", "billing", "triage"]
    assert [(f.source, f.target, f.call_id) for f in log.facts if isinstance(f, Handoff)] == [
        ("", "billing", ""),
        ("billing", "triage", "c9"),
    ]


def test_a_session_of_an_agent_that_nobody_knows_goes_on_with_the_root(go: Any) -> None:
    async def main() -> Desk:
        log = MemoryLog(session="s")
        await Agent(ScriptedModel(["hello"]), name="retired", log=log).run("hi")
        desk = Desk(["hello again"], log.facts)
        await desk.agent.run("hi")
        return desk

    desk = go(main)
    assert desk.handoffs == [("retired", "triage", "")]
    assert desk.asked == ["triage"]


def test_each_agent_may_have_a_context_manager_of_its_own(go: Any) -> None:
    made: list[str] = []
    synced: list[int] = []

    class Watching(PassThrough):
        def sync(self, view: Sequence[Any], /) -> None:
            synced.append(len(view))

    def make(model: Any) -> Watching:
        made.append(model.name)
        return Watching()

    agents = team(billing={"context_manager": make})
    desk = Desk([MOVE, [transfer("c2", "triage")], [transfer("c3", "billing")], "paid back"], agents=agents)
    go(lambda: desk.agent.run("please"))
    assert made == ["scripted/model"], "one for the conversation"
    assert synced == [3, 7], "each time, with what came since"
    assert isinstance(desk.agent.settings.config.context, PassThrough)
    desk.check()


def test_what_is_configured_in_a_turn_counts_from_the_next(go: Any) -> None:
    desk = Desk([[transfer("c1", "billing"), call("c2", "look", at="1")], "paid back"])

    def change(event: Any) -> None:
        if isinstance(event, Handoff):
            desk.agent.configure(options=CallOptions(temperature=0.25))

    desk.agent.subscribe(change)
    go(lambda: desk.agent.run("please"))
    assert [each.options.temperature for each in desk.model.requests] == [None, 0.25]
    assert desk.results()["c2"] == "triage saw 1"
    desk.check()


def test_thinking_and_hooks_of_a_definition(go: Any) -> None:
    agents = team(
        billing={"thinking": "high", "stop_after_tool": lambda end: end.tool == "look"},
        triage={"thinking": "low"},
    )
    desk = Desk([MOVE, [call("c2", "look", at="1")]], agents=agents)
    result = go(lambda: desk.agent.run("please"))
    assert [each.options.thinking for each in desk.model.requests] == ["low", "high"]
    assert (result.end_reason, desk.agent.state.turns) == ("stop", 2)


def test_an_abort_in_the_middle_leaves_who_took_over(go: Any) -> None:
    desk = Desk([[transfer("c1", "billing"), call("c2", "look", at="1")], "paid back"])

    def stop(event: Any) -> None:
        if isinstance(event, Handoff):
            desk.agent.abort()

    end = desk.agent.subscribe(stop)

    async def main() -> str:
        assert (await desk.agent.run("please")).end_reason == "aborted"
        assert desk.agent.state.agent == "billing"
        offered = desk.agent.build_llm_tools()[-1].schema["properties"]["agent"]["enum"]
        assert offered == ["triage"], "between runs, too, the agent is seen that has the conversation"
        end()
        return (await desk.agent.run("go on")).text

    assert go(main) == "paid back"
    assert desk.asked == ["triage", "billing"]
    assert desk.results()["c1"] == "billing has the conversation now."
    desk.check()


def test_usage_is_that_of_whoever_had_the_conversation(go: Any) -> None:
    def said(tokens: int, *parts: Any) -> Say:
        return Say(parts, usage=Usage(input_tokens=tokens, output_tokens=1))

    desk = Desk([said(10, *MOVE), said(20, call("c2", "look", at="1")), said(30, "paid"), said(40, "bye")])

    async def main() -> None:
        await desk.agent.run("please")
        await desk.agent.run("thanks")

    go(main)
    used = usage_by_agent(desk.log.facts)
    assert {name: usage.input_tokens for name, usage in used.items()} == {"billing": 90, "triage": 10}
    assert sum(used.values(), Usage()) == desk.agent.total_usage


def _make(**given: Any) -> HandoffAgent[Any]:
    options: dict[str, Any] = {"root": "triage", "model": ScriptedModel([]), **given}
    return HandoffAgent(options.pop("agents", team()), **options)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"root": "legal"}, UnknownAgent, "no such agent: 'legal'"),
        ({"agents": team(triage={"handoffs": ("legal",)})}, DefinitionError, "legal"),
        ({"agents": [*team(), AgentDefinition(name="tech")]}, DefinitionError, "two agents have one name"),
        ({"agents": team(tech={"tools": ["shell"]})}, UnknownTool, "no such tool: shell"),
        ({"agents": team(tech={"tools": [TAKEN]})}, ToolDefinitionError, "two tools"),
        ({"name": "x"}, TypeError, "name"),
        ({"nothing": 1}, TypeError, "nothing"),
        ({"max_handoffs": 0}, ValueError, "max_handoffs"),
        ({"on_handoff": 3}, TypeError, "on_handoff"),
        ({"input_filter": {"legal": list}}, UnknownAgent, "legal"),
        ({"input_filter": {"tech": 3}}, TypeError, "input_filter"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else None,
)
def test_what_cannot_be_used_is_refused_at_once(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        _make(**given)


def test_the_agent_answers_as_any_other(go: Any) -> None:
    """Steered in the middle of a handoff, the call counts and the message reaches the new agent."""
    desk = Desk([MOVE, "paid back"])

    def steer(event: Fact) -> None:
        if isinstance(event, Handoff):
            desk.agent.steer("hurry")

    desk.agent.subscribe(steer)  # type: ignore[arg-type]  # it looks at one kind of fact only
    go(lambda: desk.agent.run("please"))
    assert desk.asked == ["triage", "billing"]
    assert desk.shown(1)[-1] == ("user", "hurry")
    assert [f.id for f in desk.log.facts if isinstance(f, MessageEnd)] == ["m1", "m2", "m3", "m4", "m5"]
    assert SYSTEM["billing"] == desk.model.requests[-1].system[0].text
