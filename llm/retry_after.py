"""How long a provider asks us to wait, in the places where providers say it.

Pure functions over seconds. ``now`` is passed in, so tests own the clock.

Read with: ``faults.py`` (the caller).
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])")
_IN_TEXT = re.compile(
    r"\b(?:(?:try again|retry|reset)s? (?:in|after)|wait(?: for)?)"
    r" ((?:\d+(?:\.\d+)?\s*(?:ms|[smhd])(?![a-z])\s*)+|\d+(?:\.\d+)? ?(?:seconds?|minutes?|hours?|days?)\b)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:(reset|remaining)(?:-(.+))?|(.+)-(reset|remaining))")
_EPOCH_S = 1e9  # a number above is a point in time; above a thousand times that, one in milliseconds


def header_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the time that ``retry-after-ms`` or ``retry-after`` names, or None.

    ``headers`` have lower-case names. ``retry-after-ms`` is the finer one and wins, unless it was rounded to 0.
    """
    ms = _number(headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms"))
    if ms:
        return ms / 1000
    value = headers.get("retry-after")
    delay = None if value is None else parse_retry_after(value, now)
    return ms if delay is None else delay


def limit_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the limit that an answer ran into is open again, or None.

    Servers name several limits (``x-ratelimit-reset-tokens``, ``anthropic-ratelimit-requests-reset``), each with
    what remains of it: those count of which nothing remains, or all where none says so.

    >>> limit_delay({"x-ratelimit-reset-tokens": "1m2s", "x-ratelimit-remaining-tokens": "0"}, 0.0)
    62.0
    """
    resets: dict[str, float] = {}
    remaining: dict[str, float] = {}
    for name, value in headers.items():
        if (found := _LIMIT.fullmatch(name)) is None:
            continue
        limit = found[2] or found[3] or ""
        if (found[1] or found[4]) == "reset":
            if (delay := _until(value, now)) is not None:
                resets["" if limit == "after" else limit] = delay
        elif (left := _number(value)) is not None:
            remaining[limit] = left
    used_up = [delay for limit, delay in resets.items() if remaining.get(limit) == 0]
    return max(used_up or [delay for limit, delay in resets.items() if limit not in remaining], default=None)


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds until the time a ``Retry-After`` header names, never negative; None if unreadable.

    ``value`` is seconds or an HTTP date (RFC 9110, section 10.2.3), though some servers write a duration (``30s``)
    or a point in time as a number. ``now`` is seconds since the epoch.

    >>> parse_retry_after("7", 0.0)
    7.0
    >>> parse_retry_after("Thu, 01 Jan 1970 00:01:30 GMT", 60.0)
    30.0
    """
    if (delay := _until(value, now)) is not None:
        return delay
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # 8 ms that few processes ever need

    try:
        return _seconds_until(parsedate_to_datetime(value), now)
    except (ValueError, OverflowError):
        return None


def body_delay(error: Any) -> float | None:
    """Seconds that an error object asks for in a field of its own, or None."""
    if not isinstance(error, dict):
        return None
    if (ms := _number(error.get("retry_after_ms"))) is not None:
        return ms / 1000
    for key in ("retry_after", "retry_after_s", "retry_after_seconds", "resets_in_seconds"):
        value = error.get(key)
        seconds = _number(value)
        if seconds is None and isinstance(value, str):
            seconds = _duration(value)
        if seconds is not None:
            return seconds
    details = error.get("details")  # google.rpc.RetryInfo
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and isinstance(delay := detail.get("retryDelay"), str):
            return _duration(delay)
    return None


def text_delay(message: str) -> float | None:
    """Seconds after "try again in 1.2s" or "reset after 18h31m10s" in a message, or None.

    >>> text_delay("Limit reached. Please try again in 1m2.5s.")
    62.5
    """
    found = _IN_TEXT.search(message)
    return _duration(found.group(1)) if found else None


def _until(value: str, now: float) -> float | None:
    """Seconds from a number of them, a duration (``6m0s``), a point in time as a number or a date."""
    if (number := _number(value)) is not None:
        if number < _EPOCH_S:
            return number
        return max(0.0, (number if number < 1000 * _EPOCH_S else number / 1000) - now)
    if re.fullmatch(rf"(?:{_PART.pattern}\s*)+", value.strip()):
        return _duration(value)
    try:
        return _seconds_until(datetime.fromisoformat(value.strip()), now)
    except (ValueError, OverflowError):
        return None


def _seconds_until(when: datetime, now: float) -> float:
    """Seconds until a date, which is one of UTC where it does not say."""
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - now)


def _duration(text: str) -> float | None:
    parts = _PART.findall(text.lower())
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None


def _number(value: object) -> float | None:
    """A finite number that is not negative, or None."""
    try:
        number = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
