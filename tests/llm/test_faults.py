"""Refusals and their classes, delays and where providers put them."""

import doctest
import json
from typing import Any

import pytest

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    QuotaError,
    RateLimitError,
)
from unspool.llm import openai_chat_usage, retry_after
from unspool.llm.faults import error_of, fault_of_body, fault_of_response

NOW = 1_893_456_000.0  # Tue, 01 Jan 2030 00:00:00 GMT


def error(status: int, body: Any = None, headers: dict[str, str] | None = None) -> ModelError:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return error_of(fault_of_response(status, headers or {}, raw, NOW), model="p/m")


def said(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


STATUSES: dict[tuple[int, str], type[ModelError]] = {
    (302, "moved"): BadRequestError,
    (400, "bad field"): BadRequestError,
    (401, "no"): AuthError,
    (402, "pay"): QuotaError,
    (403, "no"): AuthError,
    (404, "no such model"): BadRequestError,
    (405, "no"): BadRequestError,
    (408, "slow"): ModelTimeoutError,
    (409, "conflict"): BadRequestError,
    (413, "large"): ContextOverflowError,
    (422, "bad field"): BadRequestError,
    (429, "slow down"): RateLimitError,
    (500, "oops"): OverloadedError,
    (501, "not implemented"): BadRequestError,
    (502, "oops"): OverloadedError,
    (503, "oops"): OverloadedError,
    (504, "oops"): OverloadedError,
    (529, "oops"): OverloadedError,
}


@pytest.mark.parametrize(("status", "message"), STATUSES)
def test_status(status: int, message: str) -> None:
    found = error(status, said(message))
    assert type(found) is STATUSES[status, message]
    assert found.details == {"model": "p/m", "status": status}
    assert message in str(found)


OVERFLOWS = [
    "prompt is too long: 205000 tokens > 200000 maximum",
    "input is too long for requested model",
    "Your input exceeds the context window of this model",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "This endpoint's maximum context length is 32768 tokens",
    "prompt token count of 200000 exceeds the limit of 128000",
    "the request exceeds the available context size, try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "Prompt contains 40000 tokens: too large for model with 32768 maximum context length",
    "model_context_window_exceeded",
    "context length exceeded",
    "context_length_exceeded",
    "too many tokens",
    "token limit exceeded",
    "prompt too long; exceeded max context length by 1119046 tokens",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
]
NO_OVERFLOWS = [
    "tools[3].description mentions context window but schema is invalid",
    "max_tokens is too large",
    "the prompt is empty, it is not too long",
    "not too many tokensmiths",
]


@pytest.mark.parametrize("message", OVERFLOWS)
def test_overflow_wording(message: str) -> None:
    for status in (400, 422, 500):
        assert type(error(status, said(message))) is ContextOverflowError
        assert type(error(status, said(message.upper()))) is ContextOverflowError
    assert type(error_of(fault_of_body(said(message)), model="p/m")) is ContextOverflowError
    assert type(error(429, said(message))) is RateLimitError
    assert type(error(401, said(message))) is AuthError


@pytest.mark.parametrize("message", NO_OVERFLOWS)
def test_no_overflow_wording(message: str) -> None:
    assert type(error(400, said(message))) is BadRequestError


CODES: dict[str, tuple[int, dict[str, Any], type[ModelError]]] = {
    "quota": (429, said("no", code="insufficient_quota"), QuotaError),
    "quota by type": (429, said("no", type="insufficient_quota", code=None), QuotaError),
    "quota in words": (429, said("Insufficient Balance"), QuotaError),
    "rate limit with a 400": (400, said("no", code="rate_limit_exceeded"), RateLimitError),
    "rate limit that mentions tokens": (
        400,
        said("too many tokens per minute: rate limit reached"),
        RateLimitError,
    ),
    "overflow by code": (400, said("no", code="context_length_exceeded"), ContextOverflowError),
    "overflow by type": (400, said("no", type="exceed_context_size_error", code=400), ContextOverflowError),
    "a 429 is a limit, not an overflow": (429, said("no", code="context_length_exceeded"), RateLimitError),
    "a 401 is about the key": (401, said("no", code="model_not_found"), AuthError),
    "filter": (400, said("no", code="content_filter"), ContentFilterError),
    "filter in words": (400, said("triggering Azure OpenAI's content management policy"), ContentFilterError),
    "a number that holds 429": (400, said("14298 tokens, 4290 chars, line 429"), BadRequestError),
    "overloaded": (400, said("no", type="overloaded_error"), OverloadedError),
    "no error key": (400, {"code": 400, "message": "bad", "type": "Bad Request"}, BadRequestError),
    "error is a string": (404, {"error": "no such model"}, BadRequestError),
    "detail": (422, {"detail": [{"loc": ["body"], "msg": "bad"}]}, BadRequestError),
}


@pytest.mark.parametrize("name", CODES)
def test_codes(name: str) -> None:
    status, body, cls = CODES[name]
    assert type(error(status, body)) is cls


IN_STREAM: dict[str, tuple[Any, type[ModelError]]] = {
    "a code that is a status": (said("no", code=400, type="invalid_request_error"), BadRequestError),
    "a code of digits": (said("no", code="503"), OverloadedError),
    "a status code": (said("no", code="tool_use_failed", status_code=400), BadRequestError),
    "429 with a type": (said("no", code=429, type="rate_limit_error"), RateLimitError),
    "quota": (said("no", code="insufficient_quota"), QuotaError),
    "a type only": (said("no", type="server_error"), OverloadedError),
    "words only": (said("Upstream is overloaded"), OverloadedError),
    "429 in words": (said("upstream answered with status 429"), RateLimitError),
    "too many requests": (said("Too Many Requests"), RateLimitError),
    "14298 is no 429": (said("used 14298 tokens, error 4290"), ModelError),
    "wrapped in an array": ([said("no", code=503)], OverloadedError),
    "nothing to go by": (said("no"), ModelError),
    "text": ("no", ModelError),
    "an object of another kind": ({"x": 1}, ModelError),
}


@pytest.mark.parametrize("name", IN_STREAM)
def test_errors_inside_a_stream(name: str) -> None:
    value, cls = IN_STREAM[name]
    assert type(error_of(fault_of_body(value), model="p/m")) is cls


DELAYS: dict[str, tuple[dict[str, str], Any, float | None]] = {
    "none": ({}, said("no"), None),
    "seconds": ({"retry-after": "7"}, None, 7.0),
    "fractions": ({"retry-after": " 1.5 "}, None, 1.5),
    "milliseconds win": ({"retry-after": "2", "retry-after-ms": "1200"}, None, 1.2),
    "a date": ({"retry-after": "Tue, 01 Jan 2030 00:00:30 GMT"}, None, 30.0),
    "a date in the past": ({"retry-after": "Mon, 31 Dec 2029 00:00:30 GMT"}, None, 0.0),
    "unreadable": ({"retry-after": "soon", "retry-after-ms": "x"}, None, None),
    "not finite": ({"retry-after": "inf", "retry-after-ms": "nan"}, None, None),
    "negative": ({"retry-after": "-5"}, None, None),
    "a field of the body": ({}, said("no", retry_after=3), 3.0),
    "a field in milliseconds": ({}, said("no", retry_after_ms="250"), 0.25),
    "RetryInfo": ({}, said("no", details=[{"@type": "x"}, {"retryDelay": "54s"}]), 54.0),
    "in words": ({}, said("Limit reached. Please try again in 1.2s."), 1.2),
    "in long words": ({}, said("quota will reset after 18h31m10s"), 66_670.0),
    "in milliseconds": ({}, said("retry in 250ms"), 0.25),
    "in seconds, spelt out": ({}, said("Please try again in 20 seconds."), 20.0),
    "not a duration": ({}, said("try again in 5 steps"), None),
    "the header beats the words": ({"retry-after": "7"}, said("try again in 2s"), 7.0),
}


@pytest.mark.parametrize("name", DELAYS)
def test_delays(name: str) -> None:
    headers, body, delay = DELAYS[name]
    found = error(429, body, headers).retry_after_s
    assert found == (delay if delay is None else pytest.approx(delay))


def test_an_empty_400_is_an_overflow_and_an_empty_500_is_not() -> None:
    assert type(error(400, b"")) is ContextOverflowError
    assert type(error(500, b" \n")) is OverloadedError
    assert "HTTP 500 without an explanation" in str(error(500, b""))


def test_html_is_reduced_to_its_title() -> None:
    found = error(502, b"<html><head><TITLE> Bad\nGateway </TITLE></head><body>" + b"x" * 9999)
    assert str(found) == "provider: Bad\nGateway (model='p/m', status=502)"


def test_long_messages_are_cut() -> None:
    assert len(str(error(400, said("x" * 100_000)))) < 700
    assert len(str(error(400, b"x" * 100_000))) < 700


def test_the_secret_is_masked_everywhere() -> None:
    body = json.dumps(said("bad key sk-1234", code="sk-1234", type="sk-1234")).encode()
    found = error_of(fault_of_response(401, {}, body, NOW), model="p/m", secret="sk-1234")
    assert "sk-1234" not in str(found) + repr(found) + repr(found.details)
    assert "bad key [key]" in str(found)


@pytest.mark.parametrize("module", [retry_after, openai_chat_usage])
def test_doctests(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
