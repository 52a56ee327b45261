"""One call: found, parsed, checked, run, converted, cut."""

from typing import Any

import pytest
from play import Player, echo, gives

from unspool.kernel import (
    FatalToolError,
    Image,
    Limits,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolError,
    ToolResult,
    make_call,
)
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import call


def told(play: Player, result: object, **traits: Any) -> str:
    """What the model is told of a tool that gives ``result``."""
    run = play([call("c1", "tool")], "done", tools=[gives(result, **traits)])
    assert run.end.reason == "stop"
    return f"{run.outcomes()['c1']}: {run.results()['c1']}"


def test_unknown_tool(play: Player) -> None:  # T441
    run = play([call("c1", "nope")], "sorry", tools=[echo(), gives(1)])
    assert run.results() == {"c1": "tool 'nope' not found; available tools: echo, tool"}
    assert run.outcomes() == {"c1": "unknown_tool"}
    assert run.end.reason == "stop"


def test_names_match_exactly(play: Player) -> None:  # B143
    names = ["functions.echo", "nope", " echo ", "Echo", "", "eсho"]  # the last has a Cyrillic letter
    calls = [call(f"f{number}", name, value="x") for number, name in enumerate(names)]
    run = play([*calls, call("f6", "echo", value="a")], "done", tools=[echo()])
    assert list(run.outcomes().values()) == ["unknown_tool"] * 6 + ["ok"]
    assert [row.split(":")[0] for row in run.sent()[2:]] == [f"tool f{number}" for number in range(7)]


def test_arguments_that_do_not_parse(play: Player) -> None:  # T443
    asked = make_call("c1", "echo", '{"value": "cut')
    run = play([asked], "sorry", tools=[echo()])
    assert run.outcomes() == {"c1": "invalid"}
    assert run.results()["c1"].startswith("arguments are not a JSON object: ")
    assert run.results()["c1"].endswith('received: {"value": "cut')


def test_arguments_that_do_not_fit(play: Player) -> None:  # T15 and T442, first cut
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer"},
            "mode": {"enum": ["r", "w"]},
            "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }

    async def never(args: Any, ctx: Any) -> object:
        raise AssertionError("it ran")

    asked = call("c1", "t", count="3", mode="x", items=[{"n": "1"}], other=1)
    run = play([asked], "sorry", tools=[raw_tool("t", "", schema, never)])
    text = run.results()["c1"]
    assert run.outcomes() == {"c1": "invalid"}
    for part in ("path", "$.count: expected integer, got string", "$.mode", "$.items[0].n", "other"):
        assert part in text


def test_whole_number_is_an_integer(play: Player) -> None:  # T442
    async def double(args: Any, ctx: Any) -> object:
        return args["n"] * 2

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run = play([call("c1", "t", n=3.0)], "done", tools=[raw_tool("t", "", schema, double)])
    assert run.outcomes() == {"c1": "ok"}


def test_tool_that_raises(play: Player) -> None:  # T448
    assert told(play, ZeroDivisionError("division by zero")) == "error: ZeroDivisionError: division by zero"


def test_tool_error_is_told_in_its_own_words(play: Player) -> None:
    assert told(play, ToolError("no such file: a.txt")) == "error: no such file: a.txt"


def test_fatal_error_ends_the_run(play: Player) -> None:
    run = play(
        [call("c1", "tool"), call("c2", "echo", value="x")],
        "never",
        tools=[gives(FatalToolError("the disk is gone")), echo()],
    )
    assert run.outcomes() == {"c1": "error", "c2": "cancelled"}
    assert "error tool_fatal: the disk is gone" in run.brief
    assert run.end.reason == "error"
    assert set(run.results()) == {"c1", "c2"}


def test_failing_tool_is_switched_off(play: Player) -> None:  # T28
    turns = [[call(f"c{number}", "tool")] for number in range(5)]
    run = play(*turns, "done", tools=[gives(ToolError("no"))], limits=Limits(tool_errors=2))
    assert list(run.outcomes().values()) == ["error", "error", "disabled", "disabled", "disabled"]


def test_failing_tool_is_switched_off_within_a_turn(play: Player) -> None:  # T447, I-1
    calls = [call(f"c{number}", "tool") for number in range(3)]
    run = play(calls, "done", tools=[gives(ToolError("no"))], limits=Limits(tool_errors=2))
    assert list(run.outcomes().values()) == ["error", "error", "disabled"]
    assert (run.end.tool_calls, run.end.tool_errors, run.end.tool_skips) == (3, 2, 1)  # I-16e


def test_success_forgives(play: Player) -> None:  # A.4.6
    answers = iter([ToolError("no"), "yes", ToolError("no"), ToolError("no")])

    async def fickle(args: Any, ctx: Any) -> object:
        answer = next(answers)
        if isinstance(answer, ToolError):
            raise answer
        return answer

    calls = [call(f"c{number}", "t") for number in range(5)]
    run = play(calls, "done", tools=[raw_tool("t", "", {}, fickle)], limits=Limits(tool_errors=2))
    assert list(run.outcomes().values()) == ["error", "ok", "error", "error", "disabled"]


RESULTS = [
    ("text", "text"),
    ({"b": 1, "a": [True, None]}, '{"b":1,"a":[true,null]}'),
    (3, "3"),
    (None, ""),
    ("", ""),
    (Text("block"), "block"),
    ([Text("a"), Text("b")], "ab"),
    (ToolResult(content="fine", details={"rows": 3}), "fine"),
    (b"utf-8 \xc3\xa9", "utf-8 é"),
]


@pytest.mark.parametrize(("result", "text"), RESULTS, ids=repr)
def test_result_becomes_content(play: Player, result: object, text: str) -> None:
    assert told(play, result) == f"ok: {text}"


def test_blocks_reach_the_model(play: Player) -> None:
    picture = Image(url="https://example.org/a.png")
    run = play([call("c1", "tool")], "done", tools=[gives([Text("look"), picture])])
    assert run.requests[1].messages[-1].content == (Text("look"), picture)


@pytest.mark.parametrize(
    "block", [ToolCall(id="x", name="echo"), Thinking(text="hm"), Opaque(provider="p", data=1)]
)
def test_block_that_only_a_model_may_give(play: Player, block: object) -> None:
    run = play([call("c1", "tool")], "done", tools=[gives([Text("a"), block])])
    assert run.outcomes() == {"c1": "error"}
    assert f"no {type(block).__name__}" in run.results()["c1"]


def test_result_that_says_it_is_an_error(play: Player) -> None:
    run = play([call("c1", "tool")], "sorry", tools=[gives(ToolResult(content="no", is_error=True))])
    assert run.outcomes() == {"c1": "error"}
    assert run.requests[1].messages[-1].is_error


def test_details_are_not_for_the_model(play: Player) -> None:
    run = play([call("c1", "tool")], "ok", tools=[gives(ToolResult(content="x", details={"secret": 7}))])
    assert "secret" not in repr(run.requests[1].messages)
    assert "secret" in repr(run.events)


def test_result_is_cut_to_size(play: Player) -> None:
    run = play([call("c1", "tool")], "ok", tools=[gives("a" * 600 + "z" * 600, max_result_bytes=100)])
    text = run.results()["c1"]
    assert text == "a" * 50 + "\n[… 1,100 bytes left out …]\n" + "z" * 50


def test_progress_is_shown(play: Player) -> None:  # T17 (progress)
    async def work(args: Any, ctx: Any) -> object:
        ctx.progress("half way", percent=50)
        await ctx.clock.sleep(1)
        return "done"

    run = play([call("c1", "t")], "ok", tools=[raw_tool("t", "", {}, work)])
    assert "tool_exec_update c1 progress 'half way'" in run.trace


def test_progress_after_the_end_is_ignored(play: Player) -> None:
    kept: list[Any] = []

    async def work(args: Any, ctx: Any) -> object:
        kept.append(ctx)
        return "done"

    run = play(
        [call("c1", "t")],
        "ok",
        tools=[raw_tool("t", "", {}, work)],
        on={"tool_exec_end": lambda _: kept[0].progress("too late")},
    )
    assert "tool_exec_update" not in run.trace


def test_tool_may_change_its_arguments(play: Player) -> None:
    async def greedy(args: Any, ctx: Any) -> object:
        args.pop("value")
        return "eaten"

    run = play([call("c1", "t", value="x")], "ok", tools=[raw_tool("t", "", {}, greedy)])
    asked = run.requests[1].messages[1]
    assert asked.tool_calls[0].args == {"value": "x"}
