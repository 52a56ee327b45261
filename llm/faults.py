"""From a provider's refusal (status, headers, body) to the error class that fits.

The order is fixed, because wordings overlap and guesses are expensive:

1. a code or type that says exactly what is wrong (``insufficient_quota``),
2. a status that does (401, 402, 403, 408, 413, 429),
3. the wording, words matched whole: "14298 tokens" is not a 429,
4. what is left of the status (4xx the request, 5xx the server).

A rate limit that mentions tokens is not an overflow, whatever its wording: compaction would throw
context away for nothing. No secret gets through: whoever raises passes the key to ``hide``.

Read with: ``http.py``, ``openai_chat_stream.py`` (the callers), ``tests/llm/test_faults.py``.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

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

from .retry_after import body_delay, header_delay, text_delay

_MESSAGE_CHARS = 500  # of a provider's message; some quote the whole request

_CODES: dict[str, type[ModelError]] = {
    "insufficient_quota": QuotaError,
    "insufficient_balance": QuotaError,
    "insufficient_credits": QuotaError,
    "billing_hard_limit_reached": QuotaError,
    "billing_not_active": QuotaError,
    "billing_error": QuotaError,
    "context_length_exceeded": ContextOverflowError,
    "context_window_exceeded": ContextOverflowError,
    "model_context_window_exceeded": ContextOverflowError,
    "exceed_context_size_error": ContextOverflowError,
    "too_many_prompt_tokens": ContextOverflowError,
    "request_too_large": ContextOverflowError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "ratelimitreached": RateLimitError,
    "too_many_requests": RateLimitError,
    "resource_exhausted": RateLimitError,
    "content_filter": ContentFilterError,
    "content_policy_violation": ContentFilterError,
    "responsibleaipolicyviolation": ContentFilterError,
    "invalid_api_key": AuthError,
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "permission_denied": AuthError,
    "overloaded_error": OverloadedError,
    "service_unavailable": OverloadedError,
    "model_not_found": BadRequestError,
}
_STATUSES: dict[int, type[ModelError]] = {
    401: AuthError,
    402: QuotaError,
    403: AuthError,
    408: ModelTimeoutError,
    413: ContextOverflowError,  # too many bytes: a smaller view is the cure there too
    429: RateLimitError,
    501: BadRequestError,  # not implemented now is not implemented in a minute
}
# Types so broad that wording and status come first.
_BROAD: dict[str, type[ModelError]] = {
    "server_error": OverloadedError,
    "internal_server_error": OverloadedError,
    "internal_error": OverloadedError,
    "api_error": OverloadedError,
    "timeout": ModelTimeoutError,
    "invalid_request_error": BadRequestError,
    "not_found_error": BadRequestError,
}
_QUOTA = re.compile(r"\binsufficient (?:quota|balance|credits?|funds)\b|\bout of credits\b", re.IGNORECASE)
_RATE = re.compile(
    r"\brate[ _-]?limit|\btoo many requests\b|\b(?:tokens|requests) per (?:min|minute|day|hour|second)\b"
    r"|\bhttp 429\b|\b(?:status|code|error)\W{1,3}429\b",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"\bprompt (?:is )?too long\b"
    r"|\binput is too long for requested model\b"
    r"|\bexceeds? the context window\b"
    r"|\binput token count\b.{0,40}\bexceeds the maximum\b"
    r"|\bmaximum prompt length is \d"
    r"|\breduce the length of the messages\b"
    r"|\bmaximum context length is \d"
    r"|\bexceed(?:s|ed)? (?:the )?(?:max(?:imum)? )?context (?:limit|length)\b"
    r"|\bexceeds the limit of \d"
    r"|\bexceeds the available context size\b"
    r"|\bgreater than the context length\b"
    r"|\bcontext window exceeds limit\b"
    r"|\bexceeded model token limit\b"
    r"|\btoo large for model with \d+ maximum context length\b"
    r"|\bmodel_context_window_exceeded\b"
    r"|\bcontext[ _]length[ _]exceeded\b"
    r"|\btoo many tokens\b"
    r"|\btoken limit exceeded\b",
    re.IGNORECASE | re.DOTALL,
)
_OVERLOADED = re.compile(
    r"\boverloaded\b|\bservice unavailable\b|\b(?:internal )?server error\b|\bupstream\b|\bat capacity\b",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"\bcontent (?:management )?(?:policy|filter(?:ing|ed)?)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(.*?)\s*</title>", re.IGNORECASE | re.DOTALL)


class Fault(Struct, frozen=True, kw_only=True):
    """What a provider said was wrong: ``status`` is None inside a stream that gave none."""

    status: int | None = None
    code: str = ""
    type: str = ""
    message: str = ""
    retry_after_s: float | None = None
    empty: bool = False  # the answer had no body at all


def fault_of_response(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Fault:
    """The fault in an answer that is not 2xx; ``now`` is seconds since the epoch, for HTTP dates.

    ``headers`` have lower-case names. Any body will do: JSON in the known shapes, HTML, text.
    """
    value = _json(body)
    if value is None:
        text = body[: 4 * _MESSAGE_CHARS].decode("utf-8", "replace")
        title = _TITLE.search(text)
        message = (title.group(1) if title else text).strip()
        fault = Fault(status=status, message=message[:_MESSAGE_CHARS], empty=not body.strip())
    else:
        fault = fault_of_body(value, status)
    delay = header_delay(headers, now)
    return fault if delay is None else msgspec.structs.replace(fault, retry_after_s=delay)


def fault_of_body(value: Any, status: int | None = None) -> Fault:
    """The fault in a JSON error body, or in an error object inside a stream.

    Without a ``status`` one is taken from the body's own ``code`` or ``status_code``.
    """
    while isinstance(value, list) and value:  # some wrap the object into an array
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return Fault(status=status, message=_text(error)[:_MESSAGE_CHARS])
    code, kind = error.get("code"), error.get("type") or error.get("status")
    message = _text(error.get("message") or error.get("detail") or error.get("error"))
    delay = body_delay(error)
    return Fault(
        status=status or _status(error.get("status_code")) or _status(code),
        code=_text(code),
        type=_text(kind),
        message=message[:_MESSAGE_CHARS],
        retry_after_s=text_delay(message) if delay is None else delay,
    )


def error_of(fault: Fault, *, model: str, secret: str = "") -> ModelError:
    """The exception for a fault; ``secret`` is masked should the provider echo it."""
    cls = classify(fault)
    details: dict[str, Any] = {"model": model}
    if fault.status is not None:
        details["status"] = fault.status
    for key in ("code", "type"):
        if text := getattr(fault, key):
            details[key] = hide(text, secret)
    said = hide(fault.message, secret) or _silent(fault)
    return cls(f"provider: {said}", retry_after_s=fault.retry_after_s, **details)


def classify(fault: Fault) -> type[ModelError]:
    """The error class that fits; see the order at the top of the file."""
    status = fault.status
    for key in (fault.code, fault.type):
        if exact := _CODES.get(key.lower()):
            return _unless_limited(exact, fault)
    if status == 429 and _QUOTA.search(fault.message):
        return QuotaError
    if status in _STATUSES:
        return _STATUSES[status]
    if worded := _by_wording(fault):
        return worded
    if status is not None and status != 200:
        return OverloadedError if status >= 500 else BadRequestError
    return _BROAD.get(fault.type.lower()) or _BROAD.get(fault.code.lower()) or ModelError


def hide(text: str, secret: str) -> str:
    """``text`` without the secret."""
    return text.replace(secret, "[key]") if secret else text


def _unless_limited(exact: type[ModelError], fault: Fault) -> type[ModelError]:
    """A 429 stays a limit, and 401 a matter of the key, whatever else the body claims."""
    if fault.status == 429 and exact is not QuotaError:
        return RateLimitError
    return AuthError if fault.status == 401 else exact


def _by_wording(fault: Fault) -> type[ModelError] | None:
    message = fault.message
    if fault.status == 400 and fault.empty:
        return ContextOverflowError  # how some gateways answer a prompt that is too long
    if _RATE.search(message):
        return RateLimitError
    if _OVERFLOW.search(message):
        return ContextOverflowError
    if fault.status in (None, 400, 422) and _FILTERED.search(message):
        return ContentFilterError
    if fault.status is None and _QUOTA.search(message):
        return QuotaError
    return OverloadedError if fault.status is None and _OVERLOADED.search(message) else None


def _silent(fault: Fault) -> str:
    return (
        "the request was refused" if fault.status is None else f"HTTP {fault.status} without an explanation"
    )


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


def _status(value: Any) -> int | None:
    """An HTTP status out of a ``code`` that may be an int, digits or a word."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:4])
    return value if type(value) is int and 300 <= value <= 599 else None
