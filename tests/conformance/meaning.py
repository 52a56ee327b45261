"""What an exchange's ``expected`` means in the kernel's terms: stop reason, counts, error, delay.

The tables are made from the providers' documentation, not from the decoders, whose own tables they check.
"""

import json
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import Usage

from .exchange import NOW, Exchange

_ENDED: Final = "stop"  # the model had said what it wanted to: ``tool_use`` where it asked for calls
BROKEN: Final = "error"  # the model made a call that cannot be read
_STOPS: Final[dict[str, dict[Any, str]]] = {
    "openai-chat": {
        "stop": _ENDED,
        "eos": _ENDED,
        "tool_calls": _ENDED,
        "function_call": _ENDED,
        "length": "length",
        "content_filter": "safety",
        None: _ENDED,  # the server says that it is through, and gives no reason
    },
    "openai-responses": {
        "completed": _ENDED,
        "max_output_tokens": "length",
        "content_filter": "safety",
    },
    "anthropic-messages": {
        "end_turn": _ENDED,
        "stop_sequence": _ENDED,
        "tool_use": _ENDED,
        "pause_turn": "pause",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "safety",
    },
    "gemini": {
        "STOP": _ENDED,
        1: _ENDED,  # the number of STOP in the protocol buffers' enumeration
        "MAX_TOKENS": "length",
        "SAFETY": "safety",
        "MODEL_ARMOR": "safety",
        "UNEXPECTED_TOOL_CALL": BROKEN,
        "MALFORMED_FUNCTION_CALL": BROKEN,
    },
}
_UNFINISHED: Final = frozenset({"queued", "in_progress"})  # answers that are being made in the background

_CODES: Final[dict[str, type[ModelError]]] = {
    "insufficient_quota": QuotaError,
    "context_length_exceeded": ContextOverflowError,
    "exceed_context_size_error": ContextOverflowError,
    "too_many_prompt_tokens": ContextOverflowError,
    "request_too_large": ContextOverflowError,
    "overloaded_error": OverloadedError,
    "server_error": OverloadedError,
    "tool_use_failed": MalformedReplyError,
}
_STATUSES: Final[dict[int, type[ModelError]]] = {
    400: BadRequestError,
    401: AuthError,
    403: AuthError,
    404: BadRequestError,
    408: ModelTimeoutError,
    413: ContextOverflowError,
    429: RateLimitError,
}
_OVERFLOWS: Final = (
    "context length",
    "context size",
    "context window",
    "prompt is too long",
    "messages is too long",
    "input token count",
)

Row = tuple[int, int, int, int, int]
"""Tokens: the whole prompt, the answer, read from and written to the cache, and reasoning in the answer."""


def stop_reasons(exchange: Exchange) -> frozenset[str]:
    """The stop reasons that fit; more than one where the kernel has no word for what happened."""
    expected = exchange.expected
    raw, extra = expected["stop_reason"], expected.get("extra") or {}
    if "refusal" in extra or "block_reason" in extra:
        return frozenset({"safety"})
    return frozenset({stop_reason(exchange.format, raw, bool(expected["tool_calls"]))})


def stop_reason(format: str, raw: Any, has_calls: bool) -> str:
    """The kernel's stop reason for a provider's, of a reply with calls or without."""
    reason = _STOPS[format].get(raw, f"unknown: {raw!r}")
    return "tool_use" if reason == _ENDED and has_calls else reason


def error_classes(exchange: Exchange) -> tuple[type[ModelError] | None, ...]:
    """The class of the error that must come, or several that fit; None stands for no error."""
    expected = exchange.expected
    error, raw = expected["error"], expected["stop_reason"]
    if expected.get("truncated"):
        return (PartialStreamError,)
    if raw in _UNFINISHED:
        return PartialStreamError, ModelError  # it is no answer yet
    if error is None:
        if _STOPS[exchange.format].get(raw) == BROKEN:
            return (MalformedReplyError,)
        blocked = "block_reason" in (expected.get("extra") or {})
        return (None, ContentFilterError) if blocked else (None,)
    if error["class"] == "invalid_response":
        return (ModelError,)
    return (_class_of(error),)


def _class_of(error: dict[str, Any]) -> type[ModelError]:
    code, kind = error.get("code"), error.get("type")
    for word in (code, kind):
        if isinstance(word, str) and (found := _CODES.get(word)):
            return found
    if any(words in error["message"].lower() for words in _OVERFLOWS):
        return ContextOverflowError
    status: int = error["status"] if error["status"] != 200 else int(str(code))
    return _STATUSES[status] if status in _STATUSES else _of_status(status)


def _of_status(status: int) -> type[ModelError]:
    return OverloadedError if status >= 500 else BadRequestError


def retry_after_s(exchange: Exchange) -> float | None:
    """The seconds that a refusal asks to wait, in its headers or in Google's error details."""
    headers = exchange.headers
    if ms := float(headers.get("retry-after-ms", 0)):  # the finer one, unless it was rounded to nothing
        return ms / 1000
    if value := headers.get("retry-after"):
        return float(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - NOW
    if exchange.format == "gemini" and exchange.status == 429:
        value = json.loads(exchange.body)
        error = (value[0] if isinstance(value, list) else value)["error"]
        for detail in error.get("details") or ():
            if "retryDelay" in detail:
                return float(detail["retryDelay"].removesuffix("s"))
    return None


def row_of(usage: Usage) -> Row:
    """Usage in the form that is compared."""
    return (
        usage.context_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )


def usage_row(format: str, raw: dict[str, Any] | None) -> Row:
    """The same from a provider's usage object."""
    return _USAGES[format](raw or {})


def _chat(raw: dict[str, Any]) -> Row:
    prompt, completion = raw.get("prompt_tokens") or 0, raw.get("completion_tokens") or 0
    read = _of(raw, "prompt_tokens_details", "cached_tokens")
    read = read or raw.get("cached_tokens") or raw.get("prompt_cache_hit_tokens") or 0
    reasoning = _of(raw, "completion_tokens_details", "reasoning_tokens") or raw.get("reasoning_tokens") or 0
    output = (raw.get("total_tokens") or prompt + completion) - prompt  # reasoning may be in the total only
    reasoning = max(reasoning, output - completion)
    return prompt, output, read, _of(raw, "prompt_tokens_details", "cache_write_tokens"), reasoning


def _responses(raw: dict[str, Any]) -> Row:
    return (
        raw.get("input_tokens") or 0,
        raw.get("output_tokens") or 0,
        _of(raw, "input_tokens_details", "cached_tokens"),
        _of(raw, "input_tokens_details", "cache_write_tokens"),
        _of(raw, "output_tokens_details", "reasoning_tokens"),
    )


def _anthropic(raw: dict[str, Any]) -> Row:
    read, written = raw.get("cache_read_input_tokens") or 0, raw.get("cache_creation_input_tokens") or 0
    prompt = (raw.get("input_tokens") or 0) + read + written
    thinking = _of(raw, "output_tokens_details", "thinking_tokens")
    return prompt, raw.get("output_tokens") or 0, read, written, thinking


def _gemini(raw: dict[str, Any]) -> Row:
    prompt = (raw.get("promptTokenCount") or 0) + (raw.get("toolUsePromptTokenCount") or 0)
    thoughts = raw.get("thoughtsTokenCount") or 0
    output = (raw.get("candidatesTokenCount") or 0) + thoughts
    return prompt, output, raw.get("cachedContentTokenCount") or 0, 0, thoughts


_USAGES: Final[dict[str, Callable[[dict[str, Any]], Row]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "gemini": _gemini,
}


def _of(raw: dict[str, Any], details: str, key: str) -> int:
    return (raw.get(details) or {}).get(key) or 0
