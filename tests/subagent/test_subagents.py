"""The tool ``subagent``: its modes, its results, what a child inherits."""

from typing import Any

import pytest

from unspool import Limits, Usage
from unspool.context import default
from unspool.kernel import AgentEnd, AgentStart, ChildEvent, ToolError, fold
from unspool.kernel.errors import OverloadedError
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition, Budget, DefinitionError, TreeLimits
from unspool.subagent.subagents import Subagents

from .subagent_scenes import Scene, go, ran, said, several, sub, text_of

__all__ = ["go"]


def test_one_agent_answers(go: Any) -> None:  # T148, T149
    scene = Scene([said("", 1, sub()), said("done", 2)], {"writer": [said("hello", 5)]})
    result = go(lambda: scene.agent.run("begin"))
    assert ran(result) == ("stop", "done")
    (end,) = scene.ends()
    thread = end.details["thread"]
    assert text_of(end) == f"hello\n\n[thread {thread}]"
    assert end.details == {
        "agent": "writer",
        "session": thread,
        "thread": thread,
        "output": "hello",
        "end_reason": "stop",
        "turns": 1,
        "tools": 0,
        "usage": {
            "input_tokens": 50,
            "output_tokens": 5,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "cost": None,
        },
    }
    assert thread.startswith("writer-") and len(thread) == len("writer-") + 16
    assert scene.pairs() == [("started", "writer"), ("stop", "writer")]
    assert result.total_usage == scene.spent == scene.agent.total_usage
    start = scene.facts()[0]
    assert isinstance(start, AgentStart)
    assert start.lineage is not None
    assert (start.lineage.root, start.lineage.path) == (scene.log.session, ("root",))
    inner = [event.event for event in scene.events if isinstance(event, ChildEvent)]
    assert [event for event in inner if event in scene.facts()] == scene.facts()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "exactly one mode"),  # T158
    "two modes": (
        {"agent": "writer", "task": "x", "tasks": [{"agent": "writer", "task": "y"}]},
        "exactly one mode",
    ),  # T159
    "no task": ({"agent": "writer"}, "exactly one mode"),
    "unknown agent": ({"agent": "nobody", "task": "x"}, "writer"),  # T153
    "background": ({"agent": "writer", "task": "x", "background": True}, "task runtime"),  # T154
    "model": ({"agent": "writer", "task": "x", "model": "big"}, "model"),  # T152
    "model comes first": ({"model": "big"}, "choice of models"),
    "no such thread": ({"agent": "writer", "task": "x", "thread": "writer-1"}, "no such thread"),
    "background chain": (
        {"chain": [{"agent": "writer", "task": "x"}], "background": True},
        "one agent and task only",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_call_that_cannot_be_made(go: Any, name: str) -> None:
    args, expected = WRONG[name]
    scene = Scene([[call("c1", "subagent", **args)], "done"], {"writer": ["never"]})
    assert go(lambda: scene.agent.run("begin")).end_reason == "stop"
    (end,) = scene.ends()
    assert end.outcome in ("error", "invalid")
    assert expected in text_of(end)
    assert scene.pairs() == []


def test_the_tool_is_the_same_whatever_the_order() -> None:
    a, b = AgentDefinition(name="a", description="first"), AgentDefinition(name="b")
    first, second = Subagents([a, b]).tool.spec, Subagents([b, a]).tool.spec
    assert first == second
    assert first.schema["properties"]["agent"]["enum"] == ["a", "b"]
    assert "- a: first\n- b" in first.description


def test_two_of_one_name() -> None:  # T150, T151
    with pytest.raises(DefinitionError, match="writer"):
        Subagents([AgentDefinition(name="writer"), AgentDefinition(name="writer")])
    with pytest.raises(DefinitionError, match="agent name is required"):
        AgentDefinition(name="")


def test_a_child_fails(go: Any) -> None:  # T155, B185, T466
    looked = call("l1", "subagent", agent="nobody", task="x")
    script = [said("I begin", 1, looked), said("I go on", 1, looked), *[OverloadedError("529")] * 4]
    scene = Scene([[sub()], "it failed"], {"writer": script})
    assert go(lambda: scene.agent.run("begin")).text == "it failed"
    (end,) = scene.ends()
    thread = end.details["thread"]
    assert end.outcome == "error"
    text = text_of(end)
    assert "agent 'writer' failed: 529 (overloaded) (after 2 turns and 2 tool calls)" in text
    assert "it last said: I go on" in text and thread in text
    assert (end.details["error_kind"], end.details["end_reason"]) == ("overloaded", "error")
    assert scene.pairs() == [("started", "writer"), ("error", "writer")]
    assert len(scene.models["writer"].requests) == 6, "it was retried as its caller would be"


def test_chain(go: Any) -> None:  # T156
    scene = Scene(
        [[several("chain", ("a", "one"), ("b", "two: {previous}, {previous}"))], "done"],
        {"a": ["first"], "b": ["last"]},
    )
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    assert text_of(end).startswith("last\n\n[thread b-")
    assert scene.models["b"].requests[0].messages[0].text == "two: first, first"
    assert [each["output"] for each in end.details["results"]] == ["first", "last"]


def test_a_chain_stops_at_the_first_failure(go: Any) -> None:
    steps = [("a", "one"), ("b", "two"), ("a", "three")]
    scene = Scene([[several("chain", *steps)], "done"], {"a": ["first"], "b": []})
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    assert end.outcome == "ok"
    assert text_of(end).startswith("step 2 of 3 failed, the others were not run:\nagent 'b' failed")
    assert "## 1. a\nfirst" in text_of(end)
    assert (end.details["succeeded"], end.details["total"]) == (1, 3)


def test_parallel(go: Any) -> None:  # T157
    steps = [("a", "one"), ("b", "two"), ("c", "three")]
    scene = Scene([[several("tasks", *steps)], "done"], {"a": ["first"], "b": [], "c": ["third"]})
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    text = text_of(end)
    assert end.outcome == "ok" and text.startswith("2/3 succeeded\n\n## 1. a\nfirst")
    assert text.index("## 1. a") < text.index("## 2. b: failed") < text.index("## 3. c\nthird")
    assert sorted(scene.pairs()) == sorted(
        [("started", "a"), ("started", "b"), ("started", "c"), ("stop", "a"), ("error", "b"), ("stop", "c")]
    )


def test_usage_of_a_tree(go: Any) -> None:  # B179
    def use(tokens: int, *parts: Any) -> Say:
        return Say(parts, usage=Usage(input_tokens=tokens, output_tokens=tokens // 10))

    scene = Scene(
        [use(10, sub("c1", "a"), sub("c2", "b")), use(10, "done")],
        {
            "a": [use(60, sub("g1", "g")), use(40, "a")],
            "b": [use(50, call("x", "nothing")), ValueError("a bug")],
            "g": [use(1000, "g")],
        },
    )
    result = go(lambda: scene.agent.run("begin"))
    assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 2)
    assert (result.total_usage.input_tokens, result.total_usage.output_tokens) == (1170, 117)
    assert result.total_usage == scene.spent
    ends = [fact for fact in scene.log.facts if isinstance(fact, AgentEnd)]
    assert ends[0].usage + ends[0].child_usage == scene.spent


def test_a_model_may_be_chosen(go: Any) -> None:  # T152, T160
    managers: list[Any] = []
    big = ScriptedModel(["from the big one"], name="scripted/big")

    def manager(model: Any) -> Any:
        managers.append(model)
        return default()

    def models(name: str) -> Any:
        if name != "big":
            raise ValueError("no such model")
        return big

    writer = AgentDefinition(name="writer", context_manager=manager)
    scene = Scene(
        [[sub("c1", model="big"), sub("c2", model="small")], "done"],
        {"writer": ["never"]},
        agents=[writer],
        models=models,
    )
    go(lambda: scene.agent.run("begin"))
    good, bad = sorted(scene.ends(), key=lambda end: end.call_id)
    assert text_of(good).startswith("from the big one")
    assert managers == [big]
    assert "model: 'small' cannot be used" in text_of(bad)


def test_limits_end_a_child_in_words(go: Any) -> None:
    writer = AgentDefinition(name="writer", budget=Budget(turns=2))
    scene = Scene([[sub()], "done"], {"writer": [[call("x", "none")], [call("y", "none")]]}, agents=[writer])
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    assert "agent 'writer' ran out of its 2 turns" in text_of(end)
    assert end.outcome == "error"


def test_depth(go: Any) -> None:  # T161
    script = [[sub("c1", "a")], [sub("c2", "a")], [sub("c3", "a")], "3", "2", "1"]
    scene = Scene([[sub("c0", "a")], "done"], {"a": script}, tree=TreeLimits(depth=3))
    assert go(lambda: scene.agent.run("begin")).end_reason == "stop"
    assert len(scene.logs) == 3
    (refused,) = [end for end in scene.ends(scene.facts(2))]
    assert (refused.outcome, "depth" in text_of(refused)) == ("error", True)


def test_state_is_the_fold(go: Any) -> None:
    scene = Scene([[sub()], "done"], {"writer": ["hello"]}, options={"limits": Limits(turns=5)})
    go(lambda: scene.agent.run("begin"))
    assert fold(scene.log.facts) == scene.agent.state
    assert not scene.agent.state.children
    assert issubclass(DefinitionError, ValueError) and issubclass(ToolError, Exception)
