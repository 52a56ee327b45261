"""Faults that were reported against other libraries, as far as Anthropic Messages decides them."""

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ModelError, PartialStreamError
from unspool.kernel.messages import Message, Text, Thinking, make_call, tool_message, user_message
from unspool.kernel.ports import ModelRequest

from .anthropic_decoding import decode, replayed, sent  # tests/llm/, not llm/
from .decoding import NO_SHARED, Outcome, same, shared  # tests/llm/, not llm/

_ROOT = shared("bugcases")
_CASES: dict[str, dict[str, Any]] = {}
if _ROOT:
    _LINES = (_ROOT / "cases.jsonl").read_bytes().strip().split(b"\n")  # some hold U+2028
    _CASES = {case["id"]: case for case in map(json.loads, _LINES)}
_STREAMS = sorted(
    id
    for id, case in _CASES.items()
    if case["trigger"].get("wire") == "anthropic-messages" and "file" in case["trigger"]
)
pytestmark = pytest.mark.skipif(not _CASES, reason=NO_SHARED)


def body_of(id: str) -> bytes:
    assert isinstance(_ROOT, Path)
    return _ROOT.joinpath(_CASES[id]["trigger"]["file"]).read_bytes()


@pytest.mark.parametrize("id", _STREAMS)
def test_stream(id: str) -> None:
    outcome, expect = decode(body_of(id)), _CASES[id].get("expect", {})
    if expect.get("outcome") == "stream_truncated":
        assert isinstance(outcome.error, PartialStreamError)
    elif expect.get("outcome") == "provider_error":
        assert type(outcome.error) is ModelError
    elif id == "B014":  # cancelled; the bytes end early too
        assert isinstance(outcome.error, PartialStreamError)
    else:
        assert outcome.error is None
        check(outcome, expect)


def check(outcome: Outcome, expect: dict[str, Any]) -> None:
    reply, usage = outcome.reply, outcome.reply.usage
    assert usage is not None
    if "tool_calls" in expect:
        assert [[call.name, call.args] for call in reply.tool_calls] == expect["tool_calls"]
        assert all(call.completed and not call.args_invalid for call in reply.tool_calls)
    if "usage_full" in expect:
        row = {"input": usage.input_tokens, "cache_read": usage.cache_read_tokens}
        assert {**row, "output": usage.output_tokens} == expect["usage_full"]
    if "replay_blocks" in expect:
        answers = [tool_message(call, "done") for call in reply.tool_calls]
        first = sent(ModelRequest(messages=[reply, *answers]))["messages"][0]["content"]
        assert [block["type"] for block in first] == expect["replay_blocks"]
        signatures = [block["signature"] for block in first if block["type"] == "thinking"]
        assert signatures == ([expect["signature"]] if "signature" in expect else [])


@pytest.mark.parametrize("id", _STREAMS)
def test_every_split_gives_the_same(id: str) -> None:
    body = body_of(id)
    whole = decode(body)
    for size in range(1, 40):
        assert same(decode(body, size), whole)


def test_thinking_that_was_cut_never_goes_back_as_thinking() -> None:
    thinking = decode(body_of("B056")).reply
    assert thinking.content == (Thinking(text="half a tho"),)
    kinds = [block["type"] for block in replayed(user_message("a"), thinking, user_message("b"))]
    assert "thinking" not in kinds


def test_a_pause_goes_back_as_the_last_message_just_as_it_came() -> None:
    paused = decode(body_of("B057")).reply
    assert paused.stop_reason == "pause" and not paused.tool_calls
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    content = [{"type": "text", "text": "Searching"}, search]
    messages = sent(ModelRequest(messages=[user_message("go"), paused]))["messages"]
    assert messages[1:] == [{"role": "assistant", "content": content}]


def test_a_paused_reply_and_what_it_went_on_with_are_one_message() -> None:
    paused = decode(body_of("B057")).reply
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    blocks = [result, {"type": "text", "text": "Found"}]
    answer = {"type": "message", "content": blocks, "stop_reason": "end_turn"}
    rest = decode(json.dumps(answer).encode()).reply
    kinds = [block["type"] for block in replayed(paused, rest, user_message("and?"))]
    assert kinds == ["text", "server_tool_use", "web_search_tool_result", "text", "text"]
    assert paused.text + rest.text == "SearchingFound"


def test_a_pause_that_was_given_up_leaves_no_open_tool_of_the_server() -> None:
    paused = decode(body_of("B057")).reply
    assert [block["type"] for block in replayed(paused, user_message("never mind"))] == ["text", "text"]


def test_the_raw_reason_of_every_pause_is_kept() -> None:
    reply = decode(body_of("B058")).reply
    assert (reply.text, reply.stop_reason) == ("...", "pause")
    assert reply.metadata == {"finish_reason": "pause_turn"}


def test_no_empty_message_is_sent() -> None:
    rows = _CASES["B011"]["trigger"]["messages"]
    messages = [
        Message(role=row["role"], content=(Text(row["content"]),) if row["content"] else ()) for row in rows
    ]
    assert [block["text"] for block in replayed(*messages)] == ["a", "b", "c"]


def test_a_kind_of_block_from_the_future_goes_back_as_it_came() -> None:
    reply = decode(body_of("B062")).reply
    calls = [tool_message(call, "ok") for call in reply.tool_calls]
    assert {"type": "future_block", "z": 1} in replayed(reply, *calls)
    assert make_call("i0", "f", '{"x":1}') in reply.tool_calls
