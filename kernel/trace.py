"""Events as text, one a line: what golden tests compare and people read.

Times, hashes and durations are left out, so that equal runs give equal text.

Read with: ``events.py``.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from .events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildEvent,
    ChildStarted,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    Event,
    Handoff,
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
from .messages import Text


def trace(events: Iterable[Event]) -> str:
    """``events`` as lines of tag and content."""
    return "\n".join([line(event) for event in events])


def line(event: Event) -> str:
    """One event as one line: its tag and what tells it from others of its kind."""
    tag = event.type if isinstance(event, UnknownFact) else event.__struct_config__.tag
    describe = _DETAILS.get(type(event))
    return " ".join(f"{tag} {describe(event) if describe else ''}".split())


def _agent_start(event: AgentStart) -> str:
    above = event.lineage
    return event.cause if above is None else f"{event.cause} below {' > '.join(above.path)} {above.call_id}"


def _approval_requested(event: ApprovalRequested) -> str:
    nested = [f"{each.id} {each.call.name} {each.reason}" for each in event.nested]
    return " ".join([*event.call_ids, event.reason]) + (f": {', '.join(nested)}" if nested else "")


def _queue_changed(event: QueueChanged) -> str:
    text = repr(event.message.text) if event.message else ""
    return f"[{event.lane}] {event.action} {text}"


def _message_end(event: MessageEnd) -> str:
    message = event.message
    if message is None:
        return "custom"
    if message.role == "tool":
        return f"tool {message.tool_call_id}"
    calls = " ".join([f"{call.name}#{call.id}" for call in message.tool_calls])
    failed = message.stop_reason if message.failed else ""
    cause = f"({event.cause})" if event.cause else ""
    return f"{message.role} {message.text!r} {calls} {failed} {cause}"


def _context_projected(event: ContextProjected) -> str:
    messages = f"{event.messages} message{'' if event.messages == 1 else 's'}"
    return messages if event.tokens is None else f"{messages}, {event.tokens} tokens"


def _tool_exec_end(event: ToolExecEnd) -> str:
    text = " ".join([b.text if type(b) is Text else f"<{type(b).__name__}>" for b in event.content])
    return f"{event.call_id} {event.outcome}" + (f": {text}" if text else "")


def _config_changed(event: ConfigChanged) -> str:
    names = ("model", "tools", "options", "system", "limits", "window", "active_tools", "context")
    return " ".join([name for name in names if getattr(event, name) is not None])


_DETAILS: Final[dict[type, Callable[[Any], str]]] = {
    AgentStart: _agent_start,
    TurnStart: lambda event: str(event.index),
    TurnEnd: lambda event: str(event.index),
    QueueChanged: _queue_changed,
    MessageStart: lambda event: event.role,
    MessageUpdate: lambda event: f"{event.kind} {event.delta!r}",
    MessageDiscarded: lambda event: event.reason,
    MessageEnd: _message_end,
    ContextProjected: _context_projected,
    ContextCompacting: lambda event: event.reason,
    ContextCompacted: lambda e: f"{e.reason} {'committed' if e.committed else 'not committed'}",
    ModelResponse: lambda event: f"{event.error_kind or event.stop_reason}, attempt {event.attempt}",
    RetryEvent: lambda e: f"{e.attempt}/{e.limit} in {e.delay_s:g} s: {e.error_kind}",
    ApprovalRequested: _approval_requested,
    ApprovalDecided: lambda e: f"{e.call_id} {'approved' if e.approved else 'declined'} {e.reason}",
    ConfigChanged: _config_changed,
    Handoff: lambda event: event.target,
    ChildStarted: lambda event: f"{event.call_id} {event.agent} {event.mode}",
    ChildEnded: lambda event: f"{event.call_id} {event.end_reason}",
    ChildEvent: lambda event: f"{event.call_id}: {line(event.event)}",
    ToolExecStart: lambda event: f"{event.call_id} {event.tool}({encode_text(event.args)})",
    ToolExecDispatch: lambda event: event.call_id,
    ToolExecUpdate: lambda event: f"{event.call_id} {event.kind} {event.summary!r}",
    ToolExecEnd: _tool_exec_end,
    ErrorEvent: lambda event: f"{'' if event.fatal else 'warning '}{event.kind}: {event.message}",
    AgentEnd: lambda event: event.reason,
}
