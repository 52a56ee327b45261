"""What is going on right now and is not a fact: the unfinished reply, the progress of calls.

It lives outside the fold: a process that starts again knows nothing of it, and needs nothing of it.

Read with: ``agent.py`` (the owner), ``events.py`` (signals).
"""

from .events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecUpdate,
)


class Live:
    """The newest signals of a run; read it on the agent's event loop.

    ``message_id`` is that of the reply being made, empty where none is. ``running`` are the ids of the
    calls that have been dispatched and have not ended; ``previews`` and ``progress`` the newest of each.
    """

    def __init__(self) -> None:
        self.message_id = ""
        self.running: dict[str, None] = {}
        self.previews: dict[str, ToolExecUpdate] = {}
        self.progress: dict[str, ToolExecUpdate] = {}
        self._parts: dict[tuple[str, int], list[str]] = {}

    @property
    def text(self) -> str:
        """The text of the unfinished reply so far."""
        return self._joined("text")

    @property
    def thinking(self) -> str:
        """Its reasoning so far."""
        return self._joined("thinking")

    @property
    def tool_calls(self) -> tuple[str, ...]:
        """The arguments of its calls so far, as JSON text that may not be complete, in order."""
        keys = sorted([key for key in self._parts if key[0] == "tool_call"])
        return tuple(["".join(self._parts[key]) for key in keys])

    def _joined(self, kind: str) -> str:
        keys = sorted([key for key in self._parts if key[0] == kind])
        return "".join(["".join(self._parts[key]) for key in keys])

    def see(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case MessageUpdate():
                self._parts.setdefault((event.kind, event.index), []).append(event.delta)
            case MessageStart():
                self.message_id = event.id
                self._parts.clear()
            case MessageEnd() | MessageDiscarded():
                self.message_id = ""
                self._parts.clear()
            case ToolExecDispatch():
                self.running[event.call_id] = None
            case ToolExecUpdate():
                kept = self.previews if event.kind == "preview" else self.progress
                kept[event.call_id] = event
            case ToolExecEnd():
                for kept_of in (self.running, self.previews, self.progress):
                    kept_of.pop(event.call_id, None)
            case AgentStart() | AgentEnd():
                self.__init__()  # type: ignore[misc]  # everything of the last run is over
            case _:
                return
