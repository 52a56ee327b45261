"""How an answer of chat/completions ended, and which of its calls may be run; the table is in ``openai_chat_stream.py``.

Servers have words of their own for it, and pass on those of the providers behind them, in capitals or not.

Read with: ``openai_chat_stream.py`` (the caller).
"""

from collections.abc import Iterator
from typing import Final

from .openai_chat_calls import PartialCall

_STOP_REASONS: Final = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",  # Mistral: the context is full
    "model_context_window_exceeded": "length",  # Z.AI and Anthropic: likewise
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "function_call": "tool_use",
    "content_filter": "safety",
    "content_filtered": "safety",
    "safety": "safety",
    "sensitive": "safety",  # Z.AI
    "refusal": "safety",
    "recitation": "safety",
    "blocklist": "safety",
    "prohibited_content": "safety",
    "spii": "safety",
    "guardrail_intervened": "safety",
}
MALFORMED: Final = frozenset(
    {"malformed_function_call", "malformed_response", "malformed_tool_use", "malformed_model_output"}
    | {"unexpected_tool_call", "too_many_tool_calls"}
)
BROKEN_OFF: Final = frozenset({"error", "network_error", "abort", "aborted", "cancelled", "canceled"})
OVERLOADED: Final = "insufficient_system_resource"  # DeepSeek: the inference was broken off


def reason_of(finish: str | None) -> str:
    """A ``finish_reason`` in the one spelling that the tables have; '' where none was given.

    >>> reason_of("MAX_TOKENS"), reason_of("content-filter"), reason_of(None)
    ('max_tokens', 'content_filter', '')
    """
    return (finish or "").lower().replace("-", "_")


def stop_of(reason: str) -> str | None:
    """The stop reason that it means; None for one we do not know, and for none."""
    return _STOP_REASONS.get(reason)


def completed(calls: list[PartialCall], reason: str, stop: str) -> Iterator[PartialCall]:
    """The calls that may be run, by how the answer ended; see the top of ``openai_chat_stream.py``."""
    match stop:
        case "safety":
            return
        case "length":
            yield from (call for call in calls[:-1] if call.runnable)
        case _ if reason in _STOP_REASONS:
            yield from (call for call in calls if call.name)
        case _ if not reason:
            yield from (call for call in calls if call.runnable)
        case _:  # one we do not know: whether the last call was still to have arguments neither
            yield from (call for call in calls if call.runnable and (call.complete or call is not calls[-1]))
