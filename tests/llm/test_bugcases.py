"""Faults that were reported against other libraries, as far as the wire format decides them."""

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    ModelTimeoutError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import Message, Text
from unspool.kernel.ports import ModelRequest, SystemBlock
from unspool.llm import anthropic_usage, gemini_usage, openai_responses_usage
from unspool.llm.faults import error_of, fault_of_body, fault_of_response
from unspool.llm.openai_chat_dialect import ChatDialect
from unspool.llm.openai_chat_request import encode_request
from unspool.llm.openai_chat_usage import usage_of

from .decoding import NO_SHARED, Outcome, decode, same, shared  # tests/llm/, not llm/

_ROOT = shared("bugcases")
_CASES: dict[str, dict[str, Any]] = {}
if _ROOT:
    _LINES = (_ROOT / "cases.jsonl").read_bytes().strip().split(b"\n")  # some hold U+2028
    _CASES = {case["id"]: case for case in map(json.loads, _LINES)}
_STREAMS = sorted(
    id
    for id, case in _CASES.items()
    if case["trigger"].get("wire") == "openai-chat" and "file" in case["trigger"]
)
_WANT: dict[str, type[ModelError] | tuple[type[ModelError], ...]] = {
    "overflow": ContextOverflowError,
    "overflow (bytes)": ContextOverflowError,
    "overflow (can also be solved by lower max_tokens)": ContextOverflowError,
    "rate limit, not overflow": RateLimitError,
    "invalid request, not overflow": BadRequestError,
    "fatal": (AuthError, QuotaError),
    "retry": ModelTimeoutError,
    "retry or fatal by policy": BadRequestError,
    "retry, delay 54 s (or give up if over cap) - not sooner": RateLimitError,
}
pytestmark = pytest.mark.skipif(not _CASES, reason=NO_SHARED)


def body_of(case: dict[str, Any]) -> bytes:
    assert isinstance(_ROOT, Path)
    return _ROOT.joinpath(case["trigger"]["file"]).read_bytes()


@pytest.mark.parametrize("id", _STREAMS)
def test_stream(id: str) -> None:
    case = _CASES[id]
    outcome, expect = decode(body_of(case)), case.get("expect", {})
    check_text(outcome, expect)
    check_calls(outcome, expect)
    if "usage" in expect:
        assert outcome.reply.usage is not None
        assert [outcome.reply.usage.context_tokens, outcome.reply.usage.output_tokens] == expect["usage"]
    if expect.get("outcome") == "stream_truncated":
        assert isinstance(outcome.error, PartialStreamError)
    elif expect.get("error_class") == "invalid_request":
        assert isinstance(outcome.error, BadRequestError) and not outcome.error.retryable
    else:
        assert outcome.error is None


def check_text(outcome: Outcome, expect: dict[str, Any]) -> None:
    if "text" in expect:
        assert (outcome.reply.text, outcome.reply.stop_reason) == (expect["text"], expect["finish"])
    if "text_partial" in expect:
        assert isinstance(outcome.error, PartialStreamError)
        assert outcome.error.text == expect["text_partial"]


def check_calls(outcome: Outcome, expect: dict[str, Any]) -> None:
    calls = outcome.reply.tool_calls
    if "tool_calls" in expect:
        assert [[call.name, call.args] for call in calls] == expect["tool_calls"]
        assert all(call.completed and not call.args_invalid for call in calls)
    if expect.get("executions") == 0:
        assert not any(call.completed for call in calls)
    if "never" in expect:  # glued arguments: an error for the model, never half of them
        assert all(call.args_invalid for call in calls)


@pytest.mark.parametrize("id", _STREAMS)
def test_every_split_gives_the_same(id: str) -> None:
    body = body_of(_CASES[id])
    whole = decode(body)
    for size in range(1, 40):
        assert same(decode(body, size), whole)


@pytest.mark.parametrize("id", ["B095", "B097"])
def test_classification(id: str) -> None:
    for row in _CASES[id]["trigger"]["inputs"]:
        if "stream_error" in row:
            error = error_of(fault_of_body(row["stream_error"]), model="p/m")
        else:
            body = json.dumps(row["body"]).encode() if "body" in row else b""
            error = error_of(fault_of_response(row["status"], {}, body, 0.0), model="p/m")
        assert isinstance(error, _WANT[row["want"]]), row
        if "54 s" in row["want"]:
            assert error.retry_after_s == 54.0


def test_three_megabytes_in_one_event() -> None:
    case = _CASES["B034"]["trigger"]
    event = {"choices": [{"index": 0, "delta": {"content": "x" * 3_000_000}, "finish_reason": "stop"}]}
    outcome = decode(b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n", case["chunk_size"])
    assert len(outcome.reply.text) == 3_000_000


@pytest.mark.parametrize("id", ["B010", "B011"])
def test_no_empty_message_is_sent(id: str) -> None:
    rows = _CASES[id]["trigger"]["messages"]
    messages = [
        Message(role=row["role"], content=content_of(row["content"]))
        for row in rows
        if row["role"] != "system"
    ]
    system = tuple(SystemBlock(text=row["content"]) for row in rows if row["role"] == "system")
    sent = json.loads(encode_request(ModelRequest(messages=messages, system=system), "m", ChatDialect()))[
        "messages"
    ]
    assert all(row["content"].strip() for row in sent)
    kept = [row["content"] for row in rows if row["content"] and row["content"].strip()]
    assert [row["content"] for row in sent] == kept


def content_of(content: str | list[Any]) -> tuple[Text, ...]:
    return (Text(content),) if isinstance(content, str) else ()


_USAGE = {
    "openai-chat": usage_of,
    "anthropic-messages": anthropic_usage.usage_of,
    "gemini": gemini_usage.usage_of,
}


@pytest.mark.parametrize(
    "row", _CASES["B085"]["trigger"]["rows"] if _CASES else [], ids=lambda row: row["wire"]
)
def test_usage_conventions(row: dict[str, Any]) -> None:
    usage, want = _USAGE[row["wire"]](row["usage"]), row["want"]
    assert (usage.input_tokens, usage.cache_read_tokens) == (want["input_uncached"], want["cache_read"])
    assert (usage.output_tokens, usage.context_tokens) == (want["output"], want["context"])
    assert usage.cache_write_tokens == want["cache_write"]


def test_usage_of_responses_contains_what_is_cached() -> None:  # as chat/completions
    fields = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 800}, "output_tokens": 50}
    usage = openai_responses_usage.usage_of(fields)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (200, 800, 50)
    assert usage.context_tokens == 1000


def test_separators_of_unicode_end_no_line() -> None:  # B035: the log is tried in tests/trajectory
    delta = {"content": "left\u2028right\u2029end"}
    event = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
    for size in (0, 1, 7):
        assert decode(body, size).reply.text == delta["content"]
