"""The error class that a status, a code and a wording mean.

The order is fixed, because wordings overlap and guesses are expensive:

1. a code or type that says exactly what is wrong (``insufficient_quota``),
2. a quota that is used up, in words: providers say it with 400, 403 and 429,
3. a status that does (401, 402, 403, 408, 413, 429),
4. the wording, words matched whole: "14298 tokens" is not a 429,
5. what is left of the status (4xx the request, 5xx the server), then codes too broad for more.

A rate limit that mentions tokens is not an overflow, whatever its wording: compaction would throw
context away for nothing. Nor is it a quota: waiting helps.

Read with: ``faults.py`` (the caller), ``tests/llm/test_faults.py``.
"""

import re

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
    QuotaError,
    RateLimitError,
    StreamIdleError,
)

_CODES: dict[str, type[ModelError]] = {
    "insufficient_quota": QuotaError,
    "insufficient_balance": QuotaError,
    "insufficient_credits": QuotaError,
    "exceeded_current_quota_error": QuotaError,
    "usage_limit_reached": QuotaError,
    "usage_not_included": QuotaError,
    "billing_hard_limit_reached": QuotaError,
    "billing_not_active": QuotaError,
    "billing_disabled": QuotaError,
    "billing_error": QuotaError,
    "context_length_exceeded": ContextOverflowError,
    "context_window_exceeded": ContextOverflowError,
    "model_context_window_exceeded": ContextOverflowError,
    "exceed_context_size_error": ContextOverflowError,
    "too_many_prompt_tokens": ContextOverflowError,
    "request_too_large": ContextOverflowError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "rate_limit_reached_error": RateLimitError,
    "ratelimitreached": RateLimitError,
    "too_many_requests": RateLimitError,
    "resource_exhausted": RateLimitError,
    "content_filter": ContentFilterError,
    "datainspectionfailed": ContentFilterError,  # Alibaba
    "data_inspection_failed": ContentFilterError,
    "content_policy": ContentFilterError,
    "content_policy_violation": ContentFilterError,
    "image_content_policy_violation": ContentFilterError,
    "responsibleaipolicyviolation": ContentFilterError,
    "invalid_api_key": AuthError,
    "api_key_invalid": AuthError,
    "access_token_expired": AuthError,
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "permission_denied": AuthError,
    "unauthenticated": AuthError,
    "overloaded_error": OverloadedError,
    "over_capacity": OverloadedError,  # Groq
    "engine_overloaded_error": OverloadedError,
    "service_unavailable": OverloadedError,
    "model_not_found": BadRequestError,
    "tool_use_failed": MalformedReplyError,
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
# Codes so broad that wording and status come first.
_BROAD: dict[str, type[ModelError]] = {
    "server_error": OverloadedError,
    "internal_server_error": OverloadedError,
    "internal_error": OverloadedError,
    "internal": OverloadedError,
    "unavailable": OverloadedError,
    "api_error": OverloadedError,
    "timeout": ModelTimeoutError,
    "timeout_error": ModelTimeoutError,
    "deadline_exceeded": ModelTimeoutError,
    "not_found": BadRequestError,
    "not_found_error": BadRequestError,
    "failed_precondition": BadRequestError,
}
_BROAD_STARTS = ("invalid_", "unsupported_", "missing_")  # invalid_request_error, invalid_image_url, …
_QUOTA = re.compile(
    r"\binsufficient (?:quota|balance|credits?|funds)\b|\bout of credits\b|\bcredit balance is too low\b"
    r"|\bused all (?:your |available )*credits\b|\b(?:spending|usage) limits? (?:has been |was )?reached\b"
    r"|\breached (?:your|its) (?:specified |monthly )*(?:api )?(?:spending|usage) limits?\b"
    r"|\bexceeded your current quota\b|\bquota (?:has been |is )?(?:exceeded|exhausted|used up)\b",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"\brate[ _-]?limit|\btoo many requests\b|(?:\b|_)(?:tokens|requests)[ _]per[ _](?:min|minute|day|hour|second)"
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
    r"|\b(?:prompt|input|context|token count)\b[^.]{0,80}\bexceeds the limit of \d"
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
_AUTH = re.compile(
    r"\b(?:invalid|incorrect|expired) api[ _-]?key\b|\bapi[ _-]?key (?:is )?(?:not valid|invalid|expired)\b"
    r"|\bunauthorized\b|\bauthentication failed\b",
    re.IGNORECASE,
)
_IDLE = re.compile(r"\bstream idle\b|\bidle timeout\b", re.IGNORECASE)
_TIMEOUT = re.compile(r"\bdeadline exceeded\b|\btime[d ]?-?out\b", re.IGNORECASE)
_NETWORK = re.compile(
    r"\bconnection (?:error|refused|reset|closed|aborted)\b|\bno such host\b|\bbroken pipe\b|\bunexpected eof\b",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(
    r"\boverloaded\b|\bservice unavailable\b|\b(?:internal )?server error\b|\bupstream\b|\b(?:at|over) capacity\b",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"\bcontent (?:management )?(?:policy|filter(?:ing|ed)?)\b|\bviolat\w+ (?:of )?our usage polic(?:y|ies)\b",
    re.IGNORECASE,
)
# Without a status, nothing but words tells; the first that fits.
_WORDS_ALONE = (
    (_QUOTA, QuotaError),
    (_AUTH, AuthError),
    (_IDLE, StreamIdleError),
    (_TIMEOUT, ModelTimeoutError),
    (_NETWORK, NetworkError),
    (_OVERLOADED, OverloadedError),
)


def error_class(
    status: int | None, code: str = "", kind: str = "", message: str = "", *, empty: bool = False
) -> type[ModelError]:
    """The class that fits; see the order at the top of the file.

    ``status`` is None inside a stream that gave none. ``kind`` is what providers call type or status. ``empty``
    says that the answer had no body at all.
    """
    for key in (code.lower(), kind.lower()):
        if exact := _CODES.get(key):
            return _unless_limited(exact, status)
    if status in (400, 403, 429) and _QUOTA.search(message) and not _RATE.search(message):
        return QuotaError
    if status in _STATUSES:
        return _STATUSES[status]
    if worded := _by_wording(status, message, empty):
        return worded
    if status is not None and status != 200:
        return OverloadedError if status >= 500 else BadRequestError
    return _broad(kind.lower()) or _broad(code.lower()) or ModelError


def _unless_limited(exact: type[ModelError], status: int | None) -> type[ModelError]:
    """A 429 stays a limit or a server that is full, and 401 a matter of the key, whatever else the body claims."""
    if status == 429 and exact not in (QuotaError, OverloadedError):
        return RateLimitError
    return AuthError if status == 401 else exact


def _by_wording(status: int | None, message: str, empty: bool) -> type[ModelError] | None:
    if status == 400 and empty:
        return ContextOverflowError  # how some gateways answer a prompt that is too long
    if _RATE.search(message):
        return RateLimitError
    if _OVERFLOW.search(message):
        return ContextOverflowError
    if status in (None, 400, 422) and _FILTERED.search(message):
        return ContentFilterError
    if status == 400 and _AUTH.search(message):
        return AuthError
    if status is None:
        return next((cls for words, cls in _WORDS_ALONE if words.search(message)), None)
    return None


def _broad(key: str) -> type[ModelError] | None:
    return BadRequestError if key.startswith(_BROAD_STARTS) else _BROAD.get(key)
