"""Events of a child as progress of the call that runs it; only the newest is kept.

Read with: ``child.py`` (the caller), ``unspool.kernel.events`` (``ToolExecUpdate``).
"""

from typing import Any

from unspool.kernel.events import (
    ContextCompacted,
    Event,
    MessageStart,
    MessageUpdate,
    RetryEvent,
    ToolExecEnd,
    ToolExecStart,
    TurnStart,
)
from unspool.kernel.messages import Text
from unspool.kernel.ports import ToolContext

MAX_ERROR = 200  # bytes of a tool's error
MAX_THINKING = 4000  # characters, the newest


class Progress:
    """Tells the progress of one child."""

    def __init__(self, ctx: ToolContext, agent: str, child: str, place: str) -> None:
        self._ctx = ctx
        self._who: dict[str, Any] = {"agent": agent, "child": child} | ({"place": place} if place else {})
        self._thinking = ""

    def see(self, event: Event) -> None:
        """Tell an event, if it is one to tell."""
        match event:
            case TurnStart():
                self._tell(f"turn {event.index}", "turn_counter", turn=event.index)
            case MessageStart():
                self._thinking = ""
            case MessageUpdate():
                self._delta(event)
            case ToolExecStart():
                label = event.label or event.tool
                self._tell(label, "tool_start", tool=event.tool, call_id=event.call_id)
            case ToolExecEnd(outcome="ok"):
                self._tell(event.tool, "tool_end", tool=event.tool, call_id=event.call_id)
            case ToolExecEnd():
                text = _head("".join([each.text for each in event.content if isinstance(each, Text)]))
                self._tell(text, "tool_error", tool=event.tool, call_id=event.call_id, error=text)
            case RetryEvent():
                said: dict[str, Any] = {
                    "attempt": event.attempt,
                    "limit": event.limit,
                    "delay_s": event.delay_s,
                }
                self._tell(event.message, "retry", error_kind=event.error_kind, **said)
            case ContextCompacted():
                before, after = event.tokens_before, event.tokens_after
                said = {"tokens_before": before, "tokens_after": after, "committed": event.committed}
                self._tell(event.reason, "context", reason=event.reason, **said)
            case _:
                return

    def _delta(self, event: MessageUpdate) -> None:
        if event.kind == "thinking":
            self._thinking = (self._thinking + event.delta)[-MAX_THINKING:]
            self._tell(self._thinking, "thinking")
        else:
            self._tell(event.delta, "tool_delta", kind=event.kind, index=event.index)

    def _tell(self, summary: str, topic: str, **payload: Any) -> None:
        self._ctx.progress(summary, topic=topic, **self._who, **payload)


def _head(text: str) -> str:
    """The beginning of a text, whole characters of it."""
    return text.encode()[:MAX_ERROR].decode(errors="ignore")
