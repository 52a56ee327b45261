"""Refusals and their classes, delays and where providers put them."""

import asyncio
import doctest
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import unspool.kernel
import unspool.llm
from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    ModelTimeoutError,
    NetworkError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
    StreamIdleError,
    error_kind,
    failover_reason,
    is_context_overflow,
    is_failover_eligible,
    is_retryable,
)
from unspool.llm import openai_chat_usage, retry_after
from unspool.llm.faults import classify_provider, error_of, fault_of_body, fault_of_response, hide

from .decoding import NO_SHARED, load, shared  # tests/llm/, not llm/

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
    "image exceeds the limit of 20 MB",
    "number of tools exceeds the limit of 128",
    "max_tokens exceeds the limit of 8192",
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
    "over capacity": (498, said("no", code="over_capacity"), OverloadedError),
    "an inspection that failed": (400, said("no", code="DataInspectionFailed"), ContentFilterError),
    "an engine that is full": (429, said("no", type="engine_overloaded_error"), OverloadedError),
    "a balance that is too low": (400, said("Your credit balance is too low to access the API"), QuotaError),
    "credits used up": (403, said("Your team has used all available credits"), QuotaError),
    "usage limit by type": (429, said("no", type="usage_limit_reached"), QuotaError),
    "quota in words with a limit's code": (
        429,
        said("You exceeded your current quota", status="RESOURCE_EXHAUSTED", code=429),
        RateLimitError,
    ),
    "quota of requests per minute": (
        429,
        said("Quota exceeded for generate_content_requests_per_minute"),
        RateLimitError,
    ),
    "a wrong key with a 400": (
        400,
        said("no", code=400, status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]),
        AuthError,
    ),
    "a wrong key in words": (400, said("Incorrect API key provided: x"), AuthError),
    "billing that is switched off": (
        403,
        said("no", status="PERMISSION_DENIED", details=[{"reason": "BILLING_DISABLED"}]),
        QuotaError,
    ),
    "usage policy": (400, said("flagged as potentially violating our usage policy"), ContentFilterError),
    "the provider behind a gateway": (
        400,
        said("Provider returned error", code=400, metadata={"raw": '{"message":"prompt is too long"}'}),
        ContextOverflowError,
    ),
    "several errors": (400, {"errors": [{"message": "prompt is too long"}]}, ContextOverflowError),
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
    "a status code": (said("no", code="strange", status_code=400), BadRequestError),
    "a call that did not parse": (said("no", code="tool_use_failed", status_code=400), MalformedReplyError),
    "429 with a type": (said("no", code=429, type="rate_limit_error"), RateLimitError),
    "quota": (said("no", code="insufficient_quota"), QuotaError),
    "a type only": (said("no", type="server_error"), OverloadedError),
    "words only": (said("Upstream is overloaded"), OverloadedError),
    "429 in words": (said("upstream answered with status 429"), RateLimitError),
    "too many requests": (said("Too Many Requests"), RateLimitError),
    "14298 is no 429": (said("used 14298 tokens, error 4290"), ModelError),
    "a type of four": (said("no", type="overloaded_error"), OverloadedError),
    "a name of google.rpc": (said("no", status="UNAVAILABLE"), OverloadedError),
    "a deadline": (said("no", status="DEADLINE_EXCEEDED"), ModelTimeoutError),
    "what is invalid": (said("no", code="invalid_image_url"), BadRequestError),
    "a key in words": (said("Invalid API key"), AuthError),
    "time in words": (said("upstream request timeout"), ModelTimeoutError),
    "silence in words": (said("stream idle for too long"), StreamIdleError),
    "the network in words": (said("read: connection reset by peer"), NetworkError),
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
    "a date of the older forms": ({"retry-after": "Tuesday, 01-Jan-30 00:00:30 GMT"}, None, 30.0),
    "a date of the oldest form": ({"retry-after": "Tue Jan  1 00:00:30 2030"}, None, 30.0),
    "a date of another zone": ({"retry-after": "Tue, 01 Jan 2030 01:00:30 +0100"}, None, 30.0),
    "a date of ISO 8601": ({"retry-after": "2030-01-01T00:00:30Z"}, None, 30.0),
    "a date of ISO 8601 without a zone": ({"retry-after": "2030-01-01T00:00:30"}, None, 30.0),
    "a duration": ({"retry-after": "1m30s"}, None, 90.0),
    "a point in time": ({"retry-after": "1893456009"}, None, 9.0),
    "milliseconds of Azure": ({"x-ms-retry-after-ms": "250"}, None, 0.25),
    "a date in the past": ({"retry-after": "Mon, 31 Dec 2029 00:00:30 GMT"}, None, 0.0),
    "milliseconds rounded to nothing": ({"retry-after": "1", "retry-after-ms": "0"}, None, 1.0),
    "nothing to wait for": ({"retry-after-ms": "0"}, None, 0.0),
    "unreadable": ({"retry-after": "soon", "retry-after-ms": "x"}, None, None),
    "not finite": ({"retry-after": "inf", "retry-after-ms": "nan"}, None, None),
    "negative": ({"retry-after": "-5"}, None, None),
    "a field of the body": ({}, said("no", retry_after=3), 3.0),
    "a field in milliseconds": ({}, said("no", retry_after_ms="250"), 0.25),
    "a field with a unit": ({}, said("no", retry_after="20s"), 20.0),
    "headers that a gateway quotes": (
        {},
        said(
            "no", metadata={"headers": {"X-RateLimit-Reset": "1893456009500", "X-RateLimit-Remaining": "0"}}
        ),
        9.5,
    ),
    "RetryInfo": ({}, said("no", details=[{"@type": "x"}, {"retryDelay": "54s"}]), 54.0),
    "beside the error": ({}, {**said("no"), "retry_after": 4}, 4.0),
    "a plan's limit": ({}, said("no", resets_in_seconds=120), 120.0),
    "a limit's reset": ({"x-ratelimit-reset": "12"}, said("no"), 12.0),
    "a limit's reset, from now": ({"x-ratelimit-reset-after": "1.5"}, said("no"), 1.5),
    "a limit's reset, as a time": ({"x-ratelimit-reset": "1893456009"}, said("no"), 9.0),
    "a limit's reset, as a time in milliseconds": ({"x-ratelimit-reset": "1893456009500"}, said("no"), 9.5),
    "a limit's reset, as a date": (
        {
            "anthropic-ratelimit-input-tokens-reset": "2030-01-01T00:00:12Z",
            "anthropic-ratelimit-input-tokens-remaining": "0",
        },
        said("no"),
        12.0,
    ),
    "a limit's reset, as a duration": ({"x-ratelimit-reset-requests": "6m0s"}, said("no"), 360.0),
    "the limit that is used up": (
        {
            "x-ratelimit-reset-requests": "1h",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-tokens": "2.5s",
            "x-ratelimit-remaining-tokens": "0",
        },
        said("no"),
        2.5,
    ),
    "no limit is used up": (
        {"x-ratelimit-reset-tokens": "2s", "x-ratelimit-remaining-tokens": "9"},
        said("no"),
        None,
    ),
    "a limit's reset, unreadable": ({"x-ratelimit-reset": "soon"}, said("no"), None),
    "the words beat the limit's reset": ({"x-ratelimit-reset": "60"}, said("try again in 2s"), 2.0),
    "in words": ({}, said("Limit reached. Please try again in 1.2s."), 1.2),
    "in long words": ({}, said("quota will reset after 18h31m10s"), 66_670.0),
    "in milliseconds": ({}, said("retry in 250ms"), 0.25),
    "in seconds, spelt out": ({}, said("Please try again in 20 seconds."), 20.0),
    "in minutes, spelt out": ({}, said("Please wait 2 minutes."), 120.0),
    "in days": ({}, said("resets in 1d2h"), 93_600.0),
    "not a duration": ({}, said("try again in 5 steps"), None),
    "the header beats the words": ({"retry-after": "7"}, said("try again in 2s"), 7.0),
}


@pytest.mark.parametrize("name", DELAYS)
def test_delays(name: str) -> None:
    headers, body, delay = DELAYS[name]
    found = error(429, body, headers).retry_after_s
    assert found == (delay if delay is None else pytest.approx(delay))


def test_a_limit_s_reset_is_no_delay_of_another_error() -> None:
    assert error(500, said("no"), {"x-ratelimit-reset": "60"}).retry_after_s is None


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


@pytest.mark.parametrize("key", ['ab"cd\\ef/gh+ij=1234', "plain-0123456789-abcdef", "a/b/c/d/e/f/0123456789"])
def test_a_secret_is_masked_however_it_is_spelt(key: str) -> None:
    escaped = json.dumps(key)[1:-1]
    quoted = (quote(key, safe=""), quote(key))
    lower = [re.sub("%..", lambda found: found.group().lower(), each) for each in quoted]
    for spelling in (key, escaped, escaped.replace("/", "\\/"), *quoted, *lower):
        found = error_of(
            fault_of_response(401, {}, f"bad {spelling}!".encode(), NOW), model="p/m", secret=key
        )
        assert "bad [key]!" in str(found), spelling
    nested = error_of(fault_of_body({"error": {"message": {"key": key}}}), model="p/m", secret=key)
    assert "[key]" in str(nested)


def test_a_secret_that_cannot_be_encoded() -> None:
    assert hide("bad key\ud800abcdef!", "key\ud800abcdef") == "bad [key]!"
    assert hide("bad key\ufffdabcdef!", "key\ud800abcdef") == "bad [key]!"


@pytest.mark.parametrize("before", range(440, 505, 7))
def test_no_part_of_a_secret_is_left_where_a_message_is_cut(before: int) -> None:
    key, filler = "sk-live-A1b2C3d4A1b2C3d4A1b2C3d4A1b2C3d4", "x" * before
    for body in (json.dumps(said(filler + key)), filler + key, f"<title>{filler}{key}</title>"):
        found = error_of(fault_of_response(401, {}, body.encode(), NOW), model="p/m", secret=key)
        assert "sk-live" not in str(found)


HOSTILE = [
    b"[" * 200_000,
    b'{"error":' * 50_000,
    b'{"error":{"message":' + b"[" * 500 + b"]" * 500 + b"}}",
    b"\xff",
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: str(body[:12]))
def test_no_body_is_too_strange(body: bytes) -> None:
    assert type(error(503, body)) is OverloadedError


# --- exceptions of SDKs, and what their classes mean --------------------------------------------------


class SdkError(Exception):
    """What the exceptions of several SDKs look like."""

    def __init__(self, text: str = "no", **fields: Any) -> None:
        super().__init__(text)
        vars(self).update(fields)


class APITimeoutError(Exception):
    pass


class APIConnectionError(Exception):
    pass


class Answer:
    headers = {"Retry-After": "7"}


SDK_ERRORS: dict[str, tuple[Exception, str]] = {
    "a model's error is itself": (QuotaError("no"), "quota"),
    "status and body": (
        SdkError(status_code=400, body={"code": "context_length_exceeded"}),
        "context_overflow",
    ),
    "code and details": (SdkError(code=503, details={"error": {"status": "UNAVAILABLE"}}), "overloaded"),
    "status and words": (SdkError("prompt is too long", status_code=400), "context_overflow"),
    "a body in a stream": (SdkError(body={"type": "overloaded_error"}), "overloaded"),
    "words only": (SdkError("too many requests"), "rate_limit"),
    "a timeout by name": (APITimeoutError(), "timeout"),
    "a connection by name": (APIConnectionError(), "network"),
    "Python's own timeout": (TimeoutError(), "timeout"),
    "Python's own connection": (ConnectionResetError(), "network"),
    "numbers that only look like codes": (SdkError("14298 tokens, eof at 403"), "unknown"),
    "a bug": (KeyError("x"), "unknown"),
}


@pytest.mark.parametrize("name", SDK_ERRORS)
def test_exceptions_of_sdks(name: str) -> None:
    raised, kind = SDK_ERRORS[name]
    assert classify_provider(raised, model="p/m").error_kind == kind


def test_headers_and_secrets_of_sdks_exceptions() -> None:
    raised = SdkError("slow down, sk-1", status_code=429, response=Answer())
    found = classify_provider(raised, model="p/m", secret="sk-1")
    assert found.retry_after_s == 7.0
    assert "sk-1" not in str(found)
    assert "sk-1" not in str(classify_provider(ConnectionError("sk-1"), secret="sk-1"))


FAILOVER: dict[type[BaseException], str] = {
    RateLimitError: "rate_limit",
    ModelTimeoutError: "timeout",
    NetworkError: "network",
    StreamIdleError: "stream_idle",
    OverloadedError: "overloaded",
    TimeoutError: "timeout",
    ConnectionResetError: "network",
    AuthError: "",
    QuotaError: "",
    ContentFilterError: "",
    ContextOverflowError: "",
    PartialStreamError: "",
    MalformedReplyError: "malformed_reply",
    BadRequestError: "",
    ModelError: "",
    asyncio.CancelledError: "",
    RuntimeError: "",
}


@pytest.mark.parametrize("kind", FAILOVER, ids=lambda kind: kind.__name__)
def test_failover(kind: type[BaseException]) -> None:
    raised = kind("x")
    assert failover_reason(raised) == FAILOVER[kind]
    assert is_failover_eligible(raised) == bool(FAILOVER[kind])
    assert is_context_overflow(raised) == (kind is ContextOverflowError)


# All there are: the label, and whether asking again may help. Both are API.
LABELS: dict[str, bool] = {
    "rate_limit": True,
    "overloaded": True,
    "timeout": True,
    "stream_idle": True,
    "network": True,
    "stream_partial": True,
    "malformed_reply": True,
    "auth": False,
    "quota": False,
    "context_overflow": False,
    "content_filter": False,
    "bad_request": False,
    "unknown": False,
}


def _kinds(kind: type[ModelError]) -> list[type[ModelError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


def test_labels() -> None:  # T475
    kinds: list[type[ModelError]] = [
        ModelError,
        *(kind for kind in _kinds(ModelError) if "error_kind" in vars(kind)),
    ]
    assert {error_kind(kind("x")): kind("x").retryable for kind in kinds} == LABELS
    assert all(is_retryable(kind("x")) == kind.retryable for kind in kinds)


def test_what_a_chat_model_of_ones_own_needs_is_public() -> None:
    assert unspool.llm.classify_provider is classify_provider
    for each in (error_kind, is_retryable, failover_reason, is_context_overflow, is_failover_eligible):
        assert getattr(unspool.kernel, each.__name__) is each


def test_no_error_is_no_reason() -> None:
    assert (failover_reason(None), is_failover_eligible(None), is_context_overflow(None)) == (
        "",
        False,
        False,
    )


# --- every refusal that was recorded ------------------------------------------------------------------

_ROOT = shared("corpus")
_APIS = ("openai-chat", "openai-responses", "anthropic-messages", "gemini")
_FILES = [path for api in _APIS for path in sorted(_ROOT.glob(f"*/*.{api}.*.json"))] if _ROOT else []
_REFUSED = [
    path
    for path in _FILES
    if (found := load(path)["expected"]["error"]) and found["class"] != "invalid_response"
]
_OVERFLOW_WORDS = ("context length", "context size", "context window", "too long", "input token count")
_STATUS_IN_STREAM = {"server_error": 500, "overloaded_error": 529}


def wanted(said: dict[str, Any]) -> type[ModelError]:
    """The class for a recorded error, from what its provider's SDK makes of it."""
    words = said.get("message") or ""
    if said.get("code") == "insufficient_quota":
        return QuotaError
    if said.get("code") == "tool_use_failed":
        return MalformedReplyError
    if any(each in words for each in _OVERFLOW_WORDS):
        return ContextOverflowError
    numbers = (said.get("code"), said.get("type"))
    inside = [_STATUS_IN_STREAM.get(str(each), each) for each in numbers]
    status = said["status"] if said["status"] != 200 else next(each for each in inside if type(each) is int)
    return next(cls for (each, _), cls in STATUSES.items() if each == status)


@pytest.mark.skipif(not _REFUSED, reason=NO_SHARED)
@pytest.mark.parametrize("path", _REFUSED, ids=lambda path: path.stem)
def test_recorded_refusal(path: Path) -> None:
    exchange = load(path)
    response, said = exchange["response"], exchange["expected"]["error"]
    body = response["body"].encode()
    if response["status"] >= 400:
        fault = fault_of_response(response["status"], response["headers"], body, NOW)
    else:
        fault = fault_of_body(error_inside(response["body"]))
    found = error_of(fault, model="p/m")
    assert type(found) is wanted(said)
    assert (said.get("message") or "")[:60].startswith("<html>") or (said.get("message") or "")[:60] in str(
        found
    )


def error_inside(body: str) -> Any:
    """The error object in a stream's events."""
    for line in body.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            if found := event.get("error") or (event.get("response") or {}).get("error"):
                return found
            if event.get("type") == "error":
                return event
    raise AssertionError("no error in it")


@pytest.mark.parametrize("module", [retry_after, openai_chat_usage])
def test_doctests(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
