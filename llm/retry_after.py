"""How long a provider asks us to wait, in the places where providers say it.

Pure functions over seconds. ``now`` is passed in, so tests own the clock.

Read with: ``faults.py`` (the caller).
"""

import math
import re
from collections.abc import Mapping
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_IN_TEXT = re.compile(
    r"\b(?:try again|retry|reset)s? (?:in|after) ((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h)(?![a-z])\s*)+|\d+(?:\.\d+)? ?seconds?)",
    re.IGNORECASE,
)


def header_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the time that ``retry-after-ms`` or ``retry-after`` names, or None.

    ``headers`` have lower-case names. ``retry-after-ms`` is the finer one and wins.
    """
    if (ms := _number(headers.get("retry-after-ms"))) is not None:
        return ms / 1000
    value = headers.get("retry-after")
    return None if value is None else parse_retry_after(value, now)


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds until the time a ``Retry-After`` header names, never negative; None if unreadable.

    ``value`` is seconds or an HTTP date (RFC 9110, section 10.2.3), ``now`` seconds since the epoch.

    >>> parse_retry_after("7", 0.0)
    7.0
    >>> parse_retry_after("Thu, 01 Jan 1970 00:01:30 GMT", 60.0)
    30.0
    """
    if (seconds := _number(value)) is not None:
        return seconds
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # 8 ms that few processes ever need

    try:
        when = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, when - now)


def body_delay(error: Mapping[str, Any]) -> float | None:
    """Seconds that an error object asks for in a field of its own, or None."""
    if (ms := _number(error.get("retry_after_ms"))) is not None:
        return ms / 1000
    for key in ("retry_after", "retry_after_s", "retry_after_seconds"):
        if (seconds := _number(error.get(key))) is not None:
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
