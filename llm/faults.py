"""From what a provider says was wrong (status, headers, body, an error inside a stream) to an exception.

Structure first: the body's codes and the status; wording only where they leave it open (``fault_classes.py``).
No secret gets through: whoever raises passes the key to ``hide``.

Read with: ``http.py``, ``decoder.py`` (the callers), ``retry_after.py``, ``tests/llm/test_faults.py``.
"""

import functools
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from unspool.kernel.errors import ModelError, ModelTimeoutError, NetworkError
from unspool.kernel.json_edge import clean_text, encodable, encode_text

from .fault_classes import error_class
from .retry_after import body_delay, header_delay, limit_delay, text_delay

_MESSAGE_CHARS = 500  # of a provider's message; some quote the whole request
_LONG_CHARS = 8  # of a secret: it comes up by itself only
_READ_CHARS = 64 * 1024  # of which it is looked for what is wrong
_PERCENT = re.compile("%..")
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
        text = body[:_READ_CHARS].decode("utf-8", "replace")
        title = _TITLE.search(text)
        message = (title.group(1) if title else text).strip()
        fault = Fault(status=status, message=message[:_READ_CHARS], empty=not body.strip())
    else:
        fault = fault_of_body(value, status)
        headers = {**_quoted_headers(value), **headers}
    return _delayed(fault, headers, now)


def fault_of_body(value: Any, status: int | None = None) -> Fault:
    """The fault in a JSON error body, or in an error object inside a stream.

    Without a ``status`` one is taken from the body's own ``code`` or ``status_code``.
    """
    while isinstance(value, list) and value:  # some wrap the object into an array
        value = value[0]
    error = value.get("error") or value.get("errors") or value if isinstance(value, dict) else value
    while isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return Fault(status=status, message=_text(error)[:_READ_CHARS])
    code, kind = error.get("code"), error.get("type") or error.get("status")
    message = _message(error)
    delays = (body_delay(error), body_delay(value), text_delay(message))
    return Fault(
        status=status or _status(error.get("status_code")) or _status(code),
        code=_reason(error) or _text(code),
        type=_text(kind),
        message=message[:_READ_CHARS],
        retry_after_s=next((delay for delay in delays if delay is not None), None),
    )


def error_of(fault: Fault, *, model: str, secret: str = "") -> ModelError:
    """The exception for a fault; ``secret`` is masked should the provider echo it."""
    cls = error_class(fault.status, fault.code, fault.type, fault.message, empty=fault.empty)
    details: dict[str, Any] = {"model": model}
    if fault.status is not None:
        details["status"] = fault.status
    for key in ("code", "type"):
        if text := getattr(fault, key):
            details[key] = hide(text, secret)[:_MESSAGE_CHARS]
    said = hide(fault.message, secret)[:_MESSAGE_CHARS] or _silent(
        fault
    )  # cut first, a key would stay in part
    return cls(f"provider: {said}", retry_after_s=fault.retry_after_s, **details)


def classify_provider(error: Exception, *, model: str = "", secret: str = "") -> ModelError:
    """The ``ModelError`` for what a provider's SDK raised, for chat models of one's own that use one.

    It goes by what the exceptions of SDKs have in common: a status (``status_code`` or ``code``), the answer's
    JSON (``body`` or ``details``), the headers of ``response``; by their words where there are none.
    """
    if isinstance(error, ModelError):
        return error
    status = _status(getattr(error, "status_code", None)) or _status(getattr(error, "code", None))
    if status is None and (lost := lost_connection(error)):
        return lost(f"provider: {hide(str(error), secret)[:_MESSAGE_CHARS] or lost.error_kind}", model=model)
    said = getattr(error, "body", None) or getattr(error, "details", None)
    fault = fault_of_body(said if isinstance(said, dict | list) else {"message": str(error)}, status)
    if not fault.message:
        fault = msgspec.structs.replace(fault, message=str(error)[:_READ_CHARS])
    given = getattr(getattr(error, "response", None), "headers", None)
    headers = {str(key).lower(): str(value) for key, value in given.items()} if given else {}
    return error_of(_delayed(fault, headers, time.time()), model=model, secret=secret)


def hide(text: str, secret: str) -> str:
    """``text`` without the secret, as it is, or escaped for JSON or a URL, and without others that are hidden; a short
    one, which may be part of any word, where it stands by itself."""
    if 0 < len(secret) < _LONG_CHARS:
        text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", "[key]", text)
    elif secret:
        for spelling in _spellings(secret):
            text = text.replace(spelling, "[key]")
    return clean_text(text)


@functools.lru_cache(maxsize=64)
def _spellings(secret: str) -> tuple[str, ...]:
    clean = encodable(secret)
    escaped = encode_text(clean)[1:-1]
    quoted = (quote(clean, safe=""), quote(clean))
    lower = [_PERCENT.sub(lambda found: found.group().lower(), each) for each in quoted]
    return tuple(dict.fromkeys((secret, clean, escaped, escaped.replace("/", "\\/"), *quoted, *lower)))


def _delayed(fault: Fault, headers: Mapping[str, str], now: float) -> Fault:
    """``fault`` with the delay that the headers name: it beats the body's, but for when a limit is whole again."""
    delay = header_delay(headers, now)
    if delay is None and fault.retry_after_s is None and fault.status == 429:
        delay = limit_delay(headers, now)
    return fault if delay is None else msgspec.structs.replace(fault, retry_after_s=delay)


def _quoted_headers(value: Any) -> dict[str, str]:
    """The headers of the answer behind a gateway's, which some quote in the body (OpenRouter)."""
    for key in ("error", "metadata", "headers"):
        value = value.get(key) if isinstance(value, dict) else None
    return {str(key).lower(): str(each) for key, each in value.items()} if isinstance(value, dict) else {}


def _message(error: Mapping[str, Any]) -> str:
    """The words of an error object; with a gateway's, those of the provider behind it."""
    message = _text(error.get("message") or error.get("detail") or error.get("error"))
    metadata = error.get("metadata")
    raw = _text(metadata.get("raw")) if isinstance(metadata, dict) else ""  # OpenRouter
    return f"{message}: {raw}" if raw and raw not in message else message


def _reason(error: Mapping[str, Any]) -> str:
    """The reason in google.rpc.ErrorInfo, which says more than the error's own code."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and isinstance(reason := detail.get("reason"), str):
            return reason
    return ""


def lost_connection(error: Exception) -> type[ModelError] | None:
    """The class for an exception that says by its name that no answer came; SDKs have their own of them."""
    for cls in type(error).__mro__:
        if "Timeout" in cls.__name__:
            return ModelTimeoutError
        if "Connect" in cls.__name__:
            return NetworkError
    return None


def _silent(fault: Fault) -> str:
    return (
        "the request was refused" if fault.status is None else f"HTTP {fault.status} without an explanation"
    )


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return msgspec.json.encode(value, enc_hook=str).decode()


def _status(value: Any) -> int | None:
    """An HTTP status out of a ``code`` that may be an int, digits or a word."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:4])
    return value if type(value) is int and 300 <= value <= 599 else None
