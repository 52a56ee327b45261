"""Facts as text, one a line: what golden tests compare and people read.

Times, hashes and seconds are left out, so that equal runs give equal text.

Read with: ``events.py``.
"""

from collections.abc import Iterable
from typing import Any

from .events import (
    AgentEnd,
    AgentStart,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    Event,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    QueueChanged,
    RetryEvent,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    TurnEnd,
    TurnStart,
    UnknownFact,
)
from .json_edge import encode_text
from .messages import Content, Message, Text

WIDTH = 20  # of the column of tags


def trace(events: Iterable[Event]) -> str:
    """``events`` as lines of tag and content."""
    return "\n".join(line(event) for event in events)


def line(event: Event) -> str:
    """One event as one line."""
    tag = event.type if isinstance(event, UnknownFact) else str(type(event).__struct_config__.tag)
    text = _describe(event)
    return f"{tag:<{WIDTH}} {text}" if text else tag


def _describe(event: Any) -> str:
    match event:
        case AgentStart():
            return "" if event.cause == "prompt" else event.cause
        case TurnStart() | TurnEnd():
            return str(event.index)
        case QueueChanged():
            what = _message(event.message) if event.action == "queued" else event.action
            return f"[{event.lane}] {what}"
        case MessageEnd():
            return _message(event.message) + (f" ({event.cause})" if event.cause else "")
        case ContextProjected():
            return _projected(event)
        case ModelResponse():
            return f"{event.error_kind or event.stop_reason}, attempt {event.attempt}"
        case _:
            return _describe_call(event)


def _describe_call(event: Any) -> str:
    match event:
        case ToolExecStart():
            return f"{event.call_id} {event.tool}({encode_text(event.args)})"
        case ToolExecDispatch():
            return event.call_id
        case ToolExecEnd():
            text = _text(event.content)
            return f"{event.call_id} {event.outcome}" + (f": {text}" if text else "")
        case ToolExecUpdate():
            return f"{event.call_id} {event.kind} {event.summary}".rstrip()
        case _:
            return _describe_rest(event)


def _describe_rest(event: Any) -> str:
    match event:
        case RetryEvent():
            return f"{event.error_kind}, retry {event.attempt} of {event.limit} after {event.delay_s:g} s"
        case ErrorEvent():
            return f"{event.kind}: {event.message}" + ("" if event.fatal else " (not fatal)")
        case AgentEnd():
            return f"{event.reason}, {event.turns} turns, {event.tool_calls} calls"
        case ContextCompacting():
            return event.reason
        case ContextCompacted():
            return f"{event.reason}, {'committed' if event.committed else 'not committed'}"
        case MessageStart():
            return f"{event.role} {event.id}"
        case MessageUpdate():
            return f"{event.kind} {event.delta!r}"
        case MessageDiscarded():
            return f"{event.id} {event.reason}"
        case _:
            return ""


def _projected(event: ContextProjected) -> str:
    messages = f"{event.messages} message{'' if event.messages == 1 else 's'}"
    return messages if event.tokens is None else f"{messages}, {event.tokens} tokens"


def _message(message: Message | None) -> str:
    if message is None:
        return "application message"
    if message.role == "tool":
        return f"tool {message.tool_call_id}"
    calls = "".join(f" {call.name}#{call.id}" for call in message.tool_calls)
    return f"{message.role} {message.text!r}{calls}"


def _text(content: tuple[Content, ...]) -> str:
    return " ".join(block.text if type(block) is Text else f"<{type(block).__name__}>" for block in content)
