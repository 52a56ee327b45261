"""Recorded answers of real servers: each must give the reply that the provider's own SDK gives."""

from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import ToolCall, Usage

from .decoding import NO_SHARED, Outcome, decode, load, same, shared  # noqa: TID251  # tests/llm/, not llm/

_ROOT = shared("corpus")
_FILES = sorted(_ROOT.glob("*/*.openai-chat.*.json")) if _ROOT else []
_STOPS = {"length": "length", "content_filter": "safety"}
_ERRORS: dict[str, type[ModelError]] = {
    "openai.AuthenticationError": AuthError,
    "openai.PermissionDeniedError": AuthError,
    "openai.NotFoundError": BadRequestError,
    "openai.BadRequestError": BadRequestError,
    "openai.RateLimitError": RateLimitError,
    "openai.InternalServerError": OverloadedError,
    "invalid_response": ModelError,
}
_BY_STATUS: dict[int, type[ModelError]] = {
    400: BadRequestError,
    408: ModelTimeoutError,
    413: ContextOverflowError,
    502: OverloadedError,
}
_OTHER_TEXT = {  # the server parsed the output itself; the SDK drops an object, we keep its JSON
    "cloudflare.openai-chat.n.cloudflare-data-extraction.fb15a0": (
        '{"title":"Apples are tasty","author":"Hadley Wickham"}'
    )
}
_OVERFLOWS = ("context length", "context size", "messages is too long")


def answer_of(path: Path) -> tuple[dict[str, Any], bytes, int, dict[str, str]]:
    exchange = load(path)
    response = exchange["response"]
    return exchange, response["body"].encode(), response["status"], response["headers"]


@pytest.mark.skipif(not _FILES, reason=NO_SHARED)
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_recorded_answer(path: Path) -> None:
    exchange, body, status, headers = answer_of(path)
    outcome, expected = decode(body, 0, status, headers), exchange["expected"]
    assert outcome.reply.text == _OTHER_TEXT.get(path.stem, expected["text"])
    assert outcome.reply.thinking == expected["thinking"]
    assert type(outcome.error) is error_class(expected)
    if outcome.error is not None:
        said = (expected["error"] or {}).get("message", "")
        assert said.startswith(("<html>", "HTTP 200")) or said[:100] in str(outcome.error)
        return
    assert [call_of(call) for call in outcome.reply.tool_calls] == expected_calls(expected)
    assert outcome.reply.stop_reason == stop_of(expected)
    assert usage_row(outcome.reply.usage or Usage()) == expected_usage(expected["usage"] or {})
    assert outcome.reply.metadata.get("refusal") == (expected.get("extra") or {}).get("refusal")
    check_ends(outcome)


@pytest.mark.skipif(not _FILES, reason=NO_SHARED)
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_any_chunking_same_reply(path: Path) -> None:
    _, body, status, headers = answer_of(path)
    whole = decode(body, 0, status, headers)
    for size in (1, 7, 1000) if len(body) < 20_000 else (13, 1000):
        assert same(decode(body, size, status, headers), whole)


def check_ends(outcome: Outcome) -> None:
    """Every call has an id; none is complete with half of its arguments after a cut."""
    for call in outcome.reply.tool_calls:
        assert call.id and call.name
    if outcome.reply.stop_reason == "length" and outcome.reply.tool_calls:
        assert not outcome.reply.tool_calls[-1].completed


def error_class(expected: dict[str, Any]) -> type:
    error = expected["error"]
    if error is None:
        return PartialStreamError if expected.get("truncated") else type(None)
    if error.get("code") == "insufficient_quota":
        return QuotaError
    if any(words in error["message"] for words in _OVERFLOWS):
        return ContextOverflowError
    if found := _ERRORS.get(error["class"]):
        return found
    in_stream = {"tool_use_failed": 400, "server_error": 502}  # what the body says where the status is 200
    said = error.get("code"), error.get("type")
    numbers = [in_stream.get(str(value), value) for value in said if value is not None]
    return _BY_STATUS[
        error["status"] if error["status"] != 200 else next(n for n in numbers if type(n) is int)
    ]


def call_of(call: ToolCall) -> tuple[str, Any]:
    return call.name, call.args_text if call.args_invalid else call.args


def expected_calls(expected: dict[str, Any]) -> list[tuple[str, Any]]:
    rows = []
    for call in expected["tool_calls"]:
        raw, args = call.get("arguments_raw"), call["arguments"]
        rows.append((call["name"], args if args is not None else raw or {}))
    return rows


def stop_of(expected: dict[str, Any]) -> str:
    if "refusal" in (expected.get("extra") or {}):
        return "safety"
    other = "tool_use" if expected["tool_calls"] else "stop"
    return _STOPS.get(expected["stop_reason"], other)


def usage_row(usage: Usage) -> tuple[int, int, int, int]:
    return usage.context_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def expected_usage(raw: dict[str, Any]) -> tuple[int, int, int, int]:
    prompt, details = raw.get("prompt_tokens") or 0, raw.get("prompt_tokens_details") or {}
    total = raw.get("total_tokens") or prompt + (raw.get("completion_tokens") or 0)
    read = details.get("cached_tokens") or raw.get("cached_tokens") or raw.get("prompt_cache_hit_tokens") or 0
    return prompt, total - prompt, read, details.get("cache_write_tokens") or 0
