"""Faults that were reported against other libraries, as far as the kernel decides them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr
from play import Player, echo

from unspool.kernel import (
    ContextCompacted,
    Fact,
    Message,
    MessageEnd,
    Replaced,
    Stored,
    Text,
    ToolCall,
    assistant_message,
    fold,
    make_call,
    tool_message,
    user_message,
    validate_message_sequence,
)
from unspool.kernel.function_tool import raw_tool

_SHARED = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).parents[3] / "shared")
_FILE = _SHARED / "bugcases" / "cases.jsonl"
_CASES: dict[str, dict[str, Any]] = {}
if _FILE.is_file():  # split on bytes: some lines hold U+2028
    _CASES = {case["id"]: case for case in map(json.loads, _FILE.read_bytes().strip().split(b"\n"))}
pytestmark = pytest.mark.skipif(not _CASES, reason="the shared cases are not here (UNSPOOL_SHARED)")
_ARGUMENTS = [
    (id, text)
    for id, case in sorted(_CASES.items())
    if case["area"] == "tool-args"
    for text in (
        [case["trigger"]["raw_arguments"]]
        if isinstance(case["trigger"]["raw_arguments"], str)
        else case["trigger"]["raw_arguments"]
    )
]


@pytest.mark.parametrize(("id", "text"), _ARGUMENTS)
def test_arguments(play: Player, id: str, text: str) -> None:  # B073, B074, B076, B078, B080–B083
    case, ran = _CASES[id], []

    async def note(args: Any, ctx: Any) -> object:
        ran.append(args)
        return "ok"

    run = play(
        [make_call("c1", "t", text)], "done", tools=[raw_tool("t", "", case["trigger"]["schema"], note)]
    )
    expect = case.get("expect", {})
    if expect.get("executions") == 0:
        assert ran == []
    if "args" in expect:
        assert ran == [expect["args"]]
    assert len(ran) == (run.outcomes()["c1"] == "ok")
    asked = run.requests[1].messages[1].tool_calls[0]
    assert ran in ([], [asked.args])  # one parse, for the host and the tool alike
    assert run.end.reason == "stop"


def test_missing_field_is_named(play: Player) -> None:  # B073
    schema = _CASES["B073"]["trigger"]["schema"]
    run = play([make_call("c1", "t", "")], "done", tools=[raw_tool("t", "", schema, lambda a, c: "x")])
    assert "path" in run.results()["c1"]


def test_array_in_a_string_is_told(play: Player) -> None:  # B074
    trigger = _CASES["B074"]["trigger"]
    asked = make_call("c1", "t", trigger["raw_arguments"])
    run = play([asked], "done", tools=[raw_tool("t", "", trigger["schema"], lambda a, c: "x")])
    assert "array" in run.results()["c1"] and "string" in run.results()["c1"]


def history(id: str) -> list[Message]:
    return [
        Message(
            role=row["role"],
            content=(
                *([Text(row["content"])] if row["content"] else []),
                *[ToolCall(**call) for call in row.get("tool_calls", ())],
            ),
            tool_call_id=row.get("tool_call_id", ""),
        )
        for row in _CASES[id]["trigger"]["messages"]
    ]


@pytest.mark.parametrize("id", ["B010", "B011", "B015"])
def test_history(play: Player, id: str) -> None:
    given = history(id)
    run = play("fine", prompt="last", messages=given)
    sent = list(run.requests[0].messages)
    assert validate_message_sequence(sent) == []
    assert all(message.text.strip() or message.has_tool_calls for message in sent)
    users = [message.text for message in given if message.role == "user"]
    assert [message.text for message in sent if message.role == "user"] == [*users, "last"]


def test_long_ids_stay_apart(play: Player) -> None:  # B015; the wire form belongs to the adapters
    run = play("fine", messages=history("B015"))
    sent = run.requests[0].messages
    assert [m.tool_call_id for m in sent if m.role == "tool"] == [c.id for c in sent[1].tool_calls]


def test_cancel_while_one_of_three_runs(play: Player) -> None:  # B001, its expected results
    calls = [make_call(id, "echo" if id != "c2" else "slow", '{"value":"A1"}') for id in ("c1", "c2", "c3")]

    async def slow(args: Any, ctx: Any) -> object:
        await ctx.clock.sleep(30)
        return "never"

    first = play(calls, tools=[echo(), raw_tool("slow", "", {}, slow)], at={1.0: lambda o: o.stop()})
    second = play("fine", prompt="carry on", state=first.state)
    results = [m for m in second.requests[0].messages if m.role == "tool"]
    assert [[m.tool_call_id, m.is_error] for m in results] == _CASES["B001"]["expect"]["results"]


def test_a_summary_that_was_made_inside_a_pair(play: Player) -> None:  # B004
    def stored(text: str) -> Stored:
        return Stored(message=user_message(text))

    def commit(id: str, message: Message) -> MessageEnd:
        return MessageEnd(id, message, cause="import")

    asked = make_call("t1", "grep", '{"q":"x"}')
    facts: list[Fact] = [
        commit("m1", user_message("start")),
        commit("m2", assistant_message("", asked)),
        ContextCompacted(committed=True, messages=(stored("S1"),), replaced=Replaced(first="m1", last="m1")),
        commit("m4", tool_message(asked, "hit")),
        commit("m5", assistant_message("found")),
        commit("m6", user_message("next")),
        commit("m7", assistant_message("n1")),
        ContextCompacted(committed=True, messages=(stored("S2"),), replaced=Replaced(first="m3", last="m3")),
    ]
    for seq, fact in enumerate(facts, 1):
        force_setattr(fact, "seq", seq)
    state = fold(facts)
    assert list(state.ids) == ["m8", "m2", "m4", "m5", "m6", "m7"]
    run = play("ok", prompt="more", state=state)
    assert run.sent() == [
        "user: S2",
        "assistant: grep#t1",
        "tool t1: hit",
        "assistant: found",
        "user: next",
        "assistant: n1",
        "user: more",
    ]
    assert run.end.reason == "stop"
