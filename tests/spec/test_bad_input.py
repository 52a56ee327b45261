"""Bad input from everywhere: hosts, models and tools."""

import asyncio
import json
import math
import time
from collections import OrderedDict
from datetime import date
from typing import Any

import pytest
from play import EncodedLog, Player, echo, gives

from unspool.kernel import (
    CodecError,
    Limits,
    Message,
    StreamEnd,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolDefinitionError,
    ToolExecEnd,
    ToolResult,
    make_call,
    user_message,
)
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import Say, call

# --- from the host -----------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", ["", "  \n", [], [""], Message(role="user")], ids=repr)
def test_empty_prompt_is_refused(play: Player, prompt: Any) -> None:
    with pytest.raises(ValueError, match="prompts: "):
        play("never", prompt=prompt)


def test_two_tools_of_one_name_are_refused(play: Player) -> None:
    with pytest.raises(ToolDefinitionError, match="two tools have one name"):
        play("never", tools=[echo(), echo()])


def test_metadata_that_cannot_be_stored_is_refused(play: Player) -> None:
    with pytest.raises(CodecError, match="metadata cannot be written as JSON"):
        play("never", prompt=user_message("hi", metadata={"file": object()}))


def test_message_of_an_unknown_class_is_refused(play: Player) -> None:
    class Foreign:
        role = "user"
        content = "hi"

        def to_message(self) -> Message:
            return user_message("hi")

    with pytest.raises(CodecError, match="not registered"):
        play("never", prompt=Foreign())


@pytest.mark.parametrize("turns", [0, -1])
def test_limits_that_make_no_sense_are_refused(turns: int) -> None:
    with pytest.raises(ValueError, match=f"turns={turns}"):
        Limits(turns=turns)


# --- from a model ------------------------------------------------------------------------------


def test_call_ids_that_clash_are_made_distinct(play: Player) -> None:  # B005
    run = play([call("c", "echo", value="1"), call("c", "echo", value="2")], "done", tools=[echo()])
    first, second = run.requests[1].messages[1].tool_calls
    assert first.id != second.id
    assert run.results() == {first.id: "1", second.id: "2"}


def test_replayed_call_runs_once(play: Player) -> None:  # B006
    run = play([call("c", "echo", value="1"), call("c", "echo", value="1")], "done", tools=[echo()])
    assert run.results() == {"c": "1"}
    assert len(run.requests[1].messages[1].tool_calls) == 1
    assert "error warning duplicate_call: call 'c' of tool 'echo' came twice; it runs once" in run.brief


def test_call_id_of_an_earlier_turn_is_made_distinct(play: Player) -> None:
    again = [call("c", "echo", value="1")]
    run = play(again, again, "done", tools=[echo()])
    assert len(run.results()) == 2
    assert len({asked.id for message in run.requests[2].messages for asked in message.tool_calls}) == 2


def test_call_without_an_id_gets_one(play: Player) -> None:
    run = play([call("", "echo", value="1"), call("", "echo", value="1")], "done", tools=[echo()])
    assert list(run.results().values()) == ["1", "1"]
    assert all(run.results())


ARGUMENTS = ["[1]", "1", "null", '"text"', '{"value": ', "{'value': 1}", '{"value": NaN}', "{}{}"]


@pytest.mark.parametrize("text", ARGUMENTS, ids=lambda text: text[:12])
def test_arguments_that_are_not_an_object(play: Player, text: str) -> None:
    run = play([make_call("c1", "echo", text)], "sorry", tools=[echo()])
    assert run.outcomes() == {"c1": "invalid"}
    assert len(run.results()["c1"]) < 800


def test_tool_without_a_schema_takes_an_empty_text(play: Player) -> None:  # B073, its counter-case
    assert play([make_call("c1", "tool", "")], "ok", tools=[gives("x")]).outcomes() == {"c1": "ok"}


def test_lone_surrogates_from_a_model(play: Player) -> None:
    run = play([make_call("c1", "echo", '{"value": "a\\ud800"}')], "done", tools=[echo()])
    assert run.results() == {"c1": "a\ufffd"}


def test_empty_answer_ends_the_run(play: Player) -> None:  # B123
    run = play("", "never")
    assert (run.end.reason, len(run.requests)) == ("stop", 1)
    second = play("fine", prompt="still there?", state=run.state)
    assert second.sent() == ["user: go", "user: still there?"]


def test_empty_answer_after_a_tool(play: Player) -> None:  # B070
    run = play([call("g1", "tool")], "", "never", tools=[gives("ok")])
    assert (run.end.reason, len(run.requests)) == ("stop", 2)
    assert run.outcomes() == {"g1": "ok"}


def test_blocks_in_any_order(play: Player) -> None:  # I-20
    class Interleaved:
        name, supports_tools = "test/interleaved", True
        requests: list[Any] = []

        async def stream(self, request: Any, /) -> Any:
            yield ToolCallDelta(2, "c1", "echo")
            yield TextDelta("b", 1)
            yield ToolCallDelta(2, args='{"value":')
            yield TextDelta("a", 0)
            yield ToolCallDelta(2, args='"x"}')
            yield TextDelta("B", 1)
            yield ToolCallEnd(2)
            yield StreamEnd(stop_reason="stop")

    run = play(model=Interleaved(), tools=[echo()], limits=Limits(turns=1))
    reply = run.state.messages[1]
    assert isinstance(reply, Message)
    assert reply.content == (Text("a"), Text("bB"), ToolCall(id="c1", name="echo", args={"value": "x"}))
    assert run.outcomes() == {"c1": "ok"}  # although the reply says "stop"


def test_signed_thinking_is_sent_back(play: Player) -> None:  # I-20
    thoughts = [Thinking(text="hm", signature="s1"), Thinking(signature="s2"), Thinking(redacted="r")]
    run = play([*thoughts, call("c1", "echo", value="x")], "done", tools=[echo()])
    assert list(run.requests[1].messages[1].content[:3]) == thoughts


def test_calls_asked_for_without_any(play: Player) -> None:  # B046
    run = play(Say([], stop_reason="tool_use"), "never")
    assert len(run.requests) == 1


# --- from a tool -------------------------------------------------------------------------------


def told(play: Player, result: object, **settings: Any) -> str:
    run = play([call("c1", "tool")], "done", tools=[gives(result)], log=EncodedLog(), **settings)
    assert run.end.reason == "stop"
    return f"{run.outcomes()['c1']}: {run.results()['c1']}"


NOT_RESULTS = [
    object(),
    lambda: 1,
    [object()],
    {"deep": {"value": object()}},
    math.nan,
    {"a": [math.inf]},
    b"\xff\xfe",
    ToolResult(content={"a": object()}),
    ToolResult(content="x", details={"a": object()}),
    [Text("a"), object()],
]


@pytest.mark.parametrize("result", NOT_RESULTS, ids=lambda result: type(result).__name__)
def test_result_without_a_json_form(play: Player, result: object) -> None:
    assert told(play, result).startswith("error: the tool returned something that is not a result: ")


def test_number_that_json_does_not_have_is_named(play: Player) -> None:
    assert told(play, {"a": [1, math.nan]}).endswith("$.a[1]: nan is not a JSON number")


PLAIN = [
    (OrderedDict(b=1), '{"b":1}'),
    (date(2030, 1, 2), "2030-01-02"),
    ({1: "a"}, '{"1":"a"}'),
    ((1, 2), "[1,2]"),
    ({"x"}, '["x"]'),
    (frozenset(), "[]"),
    (memoryview(b"ab"), "ab"),
    ([], "[]"),
]


@pytest.mark.parametrize(("result", "text"), PLAIN, ids=lambda value: type(value).__name__)
def test_result_that_json_can_hold(play: Player, result: object, text: str) -> None:
    assert told(play, result) == f"ok: {text}"


@pytest.mark.parametrize(
    "result", ["a\udcff b\ud83d c\x00", ["a\udcff"], Text("a\udcff"), {"\udcff": 1}], ids=repr
)
def test_lone_surrogates_from_a_tool(play: Player, result: object) -> None:  # B139
    text = told(play, result)
    assert text.startswith("ok: ") and "\ufffd" in text


def test_replaced_surrogates_are_told_to_the_host(play: Player) -> None:
    run = play([call("c1", "tool")], "done", tools=[gives("a\udcff")])
    assert "'replaced': 1" in repr(run.events)


@pytest.mark.parametrize("result", ["x" * 50_000_000, {"rows": ["x" * 1000] * 50_000}, b"x" * 50_000_000])
def test_huge_result_is_cut(play: Player, result: object) -> None:
    began = time.perf_counter()
    run = play([call("c1", "tool")], "done", tools=[gives(result)])
    assert time.perf_counter() - began < 3
    assert len(run.results()["c1"].encode()) < 33 * 1024
    (end,) = run.all_of(ToolExecEnd)
    assert end.details["truncated_from_bytes"] >= 50_000_000


def test_tool_that_cancels_itself() -> None:  # B133
    calls = [call("b1", "tool"), call("b2", "echo", value="x")]
    run = Player("asyncio")(calls, "done", tools=[gives(asyncio.CancelledError()), echo()])
    assert run.outcomes() == {"b1": "error", "b2": "ok"}
    assert run.end.reason == "stop"


def test_error_whose_text_is_long(play: Player) -> None:
    assert len(told(play, ValueError("x" * 100_000))) < 2100


def test_error_about_arguments_that_cannot_be_shown(play: Player) -> None:  # B137
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    async def breaks(args: Any, ctx: Any) -> object:
        args["img"] = Odd()
        raise ValueError("bad image")

    run = play([call("c1", "t", img="x")], "sorry", tools=[raw_tool("t", "", {}, breaks)])
    assert run.results() == {"c1": "ValueError: bad image"}


# --- what reaches the log ----------------------------------------------------------------------


def test_everything_logged_is_strict_json(play: Player) -> None:  # B178
    run = play(
        [make_call("c1", "echo", '{"a": NaN}'), call("c2", "tool")],
        "done",
        prompt="\udcff",
        tools=[echo(), gives("\ud800")],
    )

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    encode = EncodedLog().codec.encode
    for fact in run.facts:
        json.loads(encode(fact).decode(), parse_constant=refuse)
    assert run.texts[0] == "user: \ufffd"
