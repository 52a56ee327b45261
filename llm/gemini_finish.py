"""How an answer of generateContent ended, and which of its calls may be run then; the table is in ``gemini_stream.py``.

Read with: ``gemini_stream.py`` (the caller).
"""

from collections.abc import Iterator
from typing import Final

from .gemini_calls import PartialCall

_SAFETY: Final = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)
MALFORMED: Final = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"}
)
# Reasons as numbers, as far as all versions of the API agree on them.
_NUMBERS: Final = {0: "", 1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
_UNSPECIFIED: Final = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED"})


def reason_of(value: str | int | None) -> str:
    if isinstance(value, int):
        return _NUMBERS.get(value, str(value))
    return "" if value is None or value in _UNSPECIFIED else value


def blocked_for(value: str | int | None) -> str:
    """Why a prompt was blocked; empty where it was not."""
    return "" if not value or value in _UNSPECIFIED else str(value)


def is_known(reason: str) -> bool:
    return reason in ("STOP", "MAX_TOKENS") or reason in _SAFETY


def stop_of(reason: str) -> str:
    """The stop reason; no ``finishReason`` at the end of an answer means that its prompt was blocked."""
    if reason in _SAFETY or not reason:
        return "safety"
    return "length" if reason == "MAX_TOKENS" else "stop"


def completed(calls: list[PartialCall], reason: str, stop: str) -> Iterator[PartialCall]:
    """The calls that may be run, by how the answer ended; see the top of the file."""
    match stop:
        case "length":
            yield from (call for call in calls[:-1] if call.runnable)
        case "safety":
            return
        case _ if is_known(reason):
            yield from (call for call in calls if call.name and not call.continues)
        case _:  # a reason we do not know
            yield from (call for call in calls if call.runnable)
