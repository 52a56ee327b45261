"""One child of a call: its conversation, what it inherits, how it waits, goes on, is stopped."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from unspool import Agent, Hooks, Verdict, tool
from unspool.kernel import (
    AgentEnd,
    ApprovalRequested,
    CallOptions,
    ToolContext,
    ToolExecEnd,
    ToolExecUpdate,
    fold,
    raw_tool,
)
from unspool.llm.scripted import ScriptedModel, Wait, call
from unspool.subagent import AgentDefinition, Budget, DefinitionError, TreeLimits
from unspool.subagent.agent_tool import agent_tool
from unspool.subagent.subagents import Subagents
from unspool.trajectory import MemoryLog, SqliteSessions

from .subagent_scenes import Scene, go, ran, several, sub, text_of

__all__ = ["go"]


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


# --- conversations -------------------------------------------------------------------------------


def test_each_call_is_a_new_conversation_unless_it_names_the_thread(go: Any) -> None:
    scene = Scene([[sub("c1")], "one"], {"writer": ["a", "b", "c"]})
    go(lambda: scene.agent.run("begin"))
    thread = scene.ends()[0].details["thread"]
    scene.model.add([sub("c2"), sub("c3", task="and then?", thread=thread)], "two")
    go(lambda: scene.agent.run("again"))
    requests = scene.models["writer"].requests
    assert sorted([m.text for m in r.messages] for r in requests[1:]) == [
        ["write"],
        ["write", "a", "and then?"],
    ]
    assert len(scene.logs) == 2


@pytest.mark.parametrize("stored", [False, True])
def test_an_isolated_agent_has_one_conversation(go: Any, stored: bool, tmp_path: Path) -> None:
    agent = AgentDefinition(name="writer", context="isolated")
    shared: dict[str, Any] = {"sessions": SqliteSessions(tmp_path / "s.db")} if stored else {}
    scene = Scene(
        [[sub("c1", task="1")], [sub("c2", task="2"), sub("c3", task="2")], "done"],
        {"writer": ["a", "b", "c"]},
        agents=[agent],
        **shared,
    )
    go(lambda: scene.agent.run("begin"))
    assert [m.text for m in scene.models["writer"].requests[-1].messages] == ["1", "a", "2", "b", "2"]
    assert sorted([text_of(end) for end in scene.ends()]) == ["a", "b", "c"], (
        "the third waited for the second"
    )
    if stored:
        again = Scene(
            [[sub("c4", task="4")], "done"], {"writer": ["d"]}, agents=[agent], log=scene.log, **shared
        )
        go(lambda: again.agent.run("more"))
        assert len(again.models["writer"].requests[0].messages) == 7
        sessions = shared["sessions"]
        assert [info.namespace for info in sessions.list()] == [scene.log.session]
        sessions.close()


def test_a_fork_begins_as_its_caller(go: Any) -> None:
    fork = AgentDefinition(name="fork", context="fork", system="Be brief.")
    scene = Scene(
        [[call("x", "_look")], [sub("c1", "fork", "count them")], "three", "done"],
        agents=[fork],
        tools=[tool(_look)],
        options={"system": "You are root.", "options": CallOptions(temperature=0.5)},
        tree=TreeLimits(depth=1),
    )
    scene.model._script[2:3] = [[sub("c2", "fork", "deeper")], "three"]
    go(lambda: scene.agent.run("begin"))
    caller, child = scene.model.requests[1], scene.model.requests[2]
    same = [_sent(message) for message in child.messages[: len(caller.messages)]]
    assert same == [_sent(message) for message in caller.messages]
    assert [message.text for message in child.messages[len(caller.messages) :]] == ["Be brief.\n\ncount them"]
    assert (child.system, child.tools, child.options) == (caller.system, caller.tools, caller.options)
    (refused,) = [end for end in scene.ends(scene.facts()) if end.tool == "subagent"]
    assert (refused.outcome, "depth" in text_of(refused)) == ("error", True)
    assert text_of(scene.ends()[-1]).startswith("three")


def _sent(message: Any) -> Any:
    return message.role, message.content, message.tool_call_id


async def _look() -> str:
    """Look."""
    return "apples"


def test_a_fork_leaves_to_its_caller_what_requests_begin_with() -> None:
    with pytest.raises(DefinitionError, match="model"):
        Subagents([AgentDefinition(name="fork", context="fork", model=ScriptedModel())])


# --- what it inherits ----------------------------------------------------------------------------


def test_gate_and_middlewares_are_the_callers(go: Any) -> None:  # T169, T170
    got: list[Any] = []
    through: list[str] = []

    async def use(args: Mapping[str, Any], ctx: ToolContext) -> str:
        got.append((args, dict(ctx.run_context), ctx.agent))
        return "used"

    def gate(info: Any) -> Verdict:
        if info.call.name == "use":
            rewritten = Verdict.allow({"value": "rewritten"})
            return Verdict.deny("not that") if info.args["value"] == "bad" else rewritten
        return Verdict.allow()

    async def middleware(info: Any, following: Any) -> object:
        through.append(info.call.name)
        return await following()

    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    scene = Scene(
        [[sub()], "done"],
        {"writer": [[call("u1", "use", value="x")], [call("u2", "use", value="bad")], "done"]},
        tools=[raw_tool("use", "Use.", schema, use)],
        options={"hooks": Hooks(gate=gate, middlewares=[middleware]), "run_context": {"user": "ann"}},
    )
    assert go(lambda: scene.agent.run("begin")).end_reason == "stop"
    assert got == [({"value": "rewritten"}, {"user": "ann"}, ("root", "writer"))]
    assert through == ["subagent", "use"]
    assert [end.outcome for end in scene.ends(scene.facts())] == ["ok", "denied"]


THINKING = {  # T167, T168, T171
    "the definition's": ("high", None, "high"),
    "that of the moment": ("low", "xhigh", "xhigh"),
    "off": ("off", None, "off"),
    "the caller's": (None, None, "medium"),
}


@pytest.mark.parametrize("name", THINKING)
def test_thinking(go: Any, name: str) -> None:
    own, now, expected = THINKING[name]
    scene = Scene(
        [[sub()], "done"],
        {"writer": ["x"]},
        agents=[AgentDefinition(name="writer", thinking=own)],  # type: ignore[arg-type]  # from the table
        options={"thinking": "medium"},
    )
    if now is not None:
        scene.subagents.thinking["writer"] = now  # type: ignore[assignment]  # from the table
    go(lambda: scene.agent.run("begin"))
    assert scene.models["writer"].requests[0].options.thinking == expected


def test_messages_are_told(go: Any) -> None:
    told: list[tuple[str, str, str, str]] = []
    agent = AgentDefinition(
        name="writer",
        on_message=lambda agent, task, message: told.append((agent, task, message.role, message.text)),
    )
    scene = Scene(
        [[sub()], "done"], {"writer": [[call("x", "_look")], "hello"]}, agents=[agent], tools=[tool(_look)]
    )
    go(lambda: scene.agent.run("begin"))
    assert told == [
        ("writer", "write", "user", "write"),
        ("writer", "write", "assistant", ""),
        ("writer", "write", "tool", "apples"),
        ("writer", "write", "assistant", "hello"),
    ]


def test_the_result_of_a_tool_that_ends_the_run(go: Any) -> None:
    agent = AgentDefinition(name="writer", stop_after_tool=lambda end: end.tool == "_look")
    scene = Scene(
        [[sub()], "done"], {"writer": [["I look", call("x", "_look")]]}, agents=[agent], tools=[tool(_look)]
    )
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    assert text_of(end).startswith("I look\n\napples")
    assert end.details["terminal_result"] == "apples"


class Question(BaseModel):
    words: list[str]


class Answer(BaseModel):
    count: int


def test_a_typed_agent_as_a_tool(go: Any) -> None:
    counter = AgentDefinition(name="counter", input=Question, output=Answer, description="Counts words.")
    model = ScriptedModel(['{"count": "two"}', '```json\n{"count": 2}\n```'])
    counter = dataclasses.replace(counter, model=model)
    subagents = Subagents([counter])
    made = agent_tool(counter, subagents=subagents, name="count")
    log = MemoryLog()
    agent = Agent(
        ScriptedModel([[call("c1", "count", words=["a", "b"]), call("c2", "count", words=1)], "done"]),
        tools=[made],
        log=log,
    )
    go(lambda: agent.run("begin"))
    ends = {fact.call_id: fact for fact in log.facts if isinstance(fact, ToolExecEnd)}
    assert text_of(ends["c1"]) == '{"count":2}'
    assert ends["c2"].outcome == "invalid"
    assert made.spec.schema["properties"]["words"]["type"] == "array"
    assert model.requests[0].messages[0].text == '{"words":["a","b"]}'


# --- waiting for a person ------------------------------------------------------------------------


def test_calls_that_wait_come_up_and_the_decisions_go_down(go: Any) -> None:
    steps = [("a", "one"), ("b", "two"), ("c", "three")]
    paying = [call("p1", "pay", amount=7)]
    scene = Scene(
        [[several("tasks", *steps)], "done"],
        {"a": [[call("p1", "pay", amount=1)], "paid a"], "b": [paying, "paid b"], "c": ["plain"]},
        tools=[pay],
    )

    async def main() -> Any:
        paused = await scene.agent.run("begin")
        assert [each.id for each in paused.pending] == ["c1/1/p1", "c1/2/p1"]
        nested = [fact for fact in scene.log.facts if isinstance(fact, ApprovalRequested)][-1].nested
        assert [each.agent for each in nested] == [("root", "a"), ("root", "b")]
        assert not scene.agent.state.children
        return await scene.agent.resume({"c1/1/p1": Verdict.allow(), "c1/2/p1": Verdict.deny("no")})

    assert ran(go(main)) == ("stop", "done")
    (end,) = scene.ends()
    assert text_of(end).startswith("3/3 succeeded")
    assert len(scene.models["c"].requests) == 1, "what had ended is not run again"
    assert scene.agent.total_usage == scene.spent
    pairs = scene.pairs()
    assert sorted([pair for pair in pairs if pair[0] == "paused"]) == [("paused", "a"), ("paused", "b")]
    assert len(pairs) == 10


def test_a_host_that_decides_is_asked_at_the_top(go: Any) -> None:
    asked: list[list[str]] = []

    def approve(info: Any) -> Verdict:
        asked.append([each.id for each in info.calls])
        return Verdict.allow()

    scene = Scene(
        [[sub()], "done"],
        {"writer": [[call("p1", "pay", amount=7)], "paid"]},
        tools=[pay],
        options={"hooks": Hooks(approve=approve)},
    )
    assert go(lambda: scene.agent.run("begin")).text == "done"
    assert asked == [["c1/p1"]]


# --- after a crash -------------------------------------------------------------------------------


def test_a_crash_while_a_child_waits(go: Any, tmp_path: Path) -> None:
    with SqliteSessions(tmp_path / "s.db") as sessions:
        scene = Scene(
            [[sub()], "done"], {"writer": [[call("p1", "pay", amount=7)]]}, tools=[pay], sessions=sessions
        )
        go(lambda: scene.agent.run("begin"))
        other = Scene(
            ["done"],
            {"writer": ["paid"]},
            tools=[pay],
            sessions=sessions,
            log=MemoryLog(scene.log.facts, session=scene.log.session),
        )
        assert ran(go(lambda: other.agent.resume(Verdict.allow()))) == ("stop", "done")
        assert text_of(other.ends()[0]).startswith("paid")
        (info,) = sessions.list(namespace=scene.log.session)
        child = fold(sessions.facts(info.session))
        assert other.agent.total_usage == other.agent.usage + child.usage


# --- being stopped -------------------------------------------------------------------------------


def test_an_abort_reaches_the_deepest(go: Any) -> None:  # B183
    scene = Scene(
        [[sub("c1", "a")]],
        {"a": [[sub("d1", "b")]], "b": [["half a sen", Wait(60)]]},
    )

    async def main() -> Any:
        scene.clock.call_later(1, lambda: scene.agent.abort(keep=True))
        return await scene.agent.run("begin")

    result = go(main)
    assert result.end_reason == "aborted"
    assert scene.clock.monotonic() < 2
    for log in (scene.log, *scene.logs.values()):
        assert [fact.reason for fact in log.facts if isinstance(fact, AgentEnd)] == ["aborted"]
    assert "half a sen" in [message.text for message in fold(scene.facts()).messages]
    (end,) = scene.ends()
    assert end.outcome == "cancelled" and "agent 'a' was stopped" in text_of(end)
    assert scene.pairs() == [("started", "a"), ("aborted", "a")]
    assert scene.agent.total_usage == scene.spent


def test_a_host_stops_one_child(go: Any) -> None:
    scene = Scene([[sub()], "then not"], {"writer": [["well", Wait(60)]]})

    async def main() -> Any:
        def stop() -> None:
            (info,) = scene.subagents.running()
            assert (info.agent, info.depth, info.mode, info.task) == ("writer", 1, "single", "write")
            assert scene.subagents.stop(info.session)

        scene.clock.call_later(1, stop)
        return await scene.agent.run("begin")

    assert go(main).text == "then not"
    (end,) = scene.ends()
    assert (end.outcome, end.details["end_reason"]) == ("cancelled", "aborted")
    assert scene.subagents.running() == () and not scene.subagents.stop("writer")


def test_a_host_steers_a_child(go: Any) -> None:
    scene = Scene([[sub()], "done"], {"writer": [["well", Wait(5)], "as you say"]})

    async def main() -> Any:
        def steer() -> None:
            (info,) = scene.subagents.running()
            assert scene.subagents.steer(info.session, "in French")

        scene.clock.call_later(1, steer)
        return await scene.agent.run("begin")

    go(main)
    assert scene.models["writer"].requests[1].messages[-1].text == "in French"
    assert text_of(scene.ends()[0]).startswith("as you say")
    assert not scene.subagents.steer("writer", "too late")


def test_the_time_of_a_child(go: Any) -> None:
    agents = [
        AgentDefinition(name="a", budget=Budget(seconds=30)),
        AgentDefinition(name="b", budget=Budget(seconds=90)),
    ]
    scene = Scene(
        [[sub("c1", "a")], "late"],
        {"a": [[sub("d1", "b")]], "b": [["so far", Wait(60)]]},
        agents=agents,
    )
    assert go(lambda: scene.agent.run("begin")).text == "late"
    (end,) = scene.ends()
    assert end.outcome == "error" and "agent 'a' ran out of its 30 s" in text_of(end)
    assert 30 <= scene.clock.monotonic() < 31


# --- progress ------------------------------------------------------------------------------------


def test_progress(go: Any) -> None:
    async def fail() -> str:
        """Fail."""
        raise ValueError("é" * 300)

    scene = Scene(
        [[sub()], "done"],
        {"writer": [[call("x", "fail")], [call("y", "_look")], "hello"]},
        tools=[tool(fail), tool(_look)],
    )
    go(lambda: scene.agent.run("begin"))
    told = [event for event in scene.events if isinstance(event, ToolExecUpdate)]
    assert {"turn_counter", "tool_start", "tool_end", "tool_error"} <= {event.topic for event in told}
    (error,) = [event for event in told if event.topic == "tool_error"]
    assert len(error.summary.encode()) <= 200 and error.payload["tool"] == "fail"
    assert all(event.payload["agent"] == "writer" for event in told)
