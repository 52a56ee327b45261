"""What one call had of a child: turns, tools, usage, last words, folded from the facts of its session.

The facts come from the log, from the run as it goes, or first from one and then from the other: a call that runs
again knows what it had before. What a call had begins with the prompt that names it and ends before that of another.

Read with: ``child.py`` (the caller), ``results.py``.
"""

from collections.abc import Iterable
from typing import Any

from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ChildEnded,
    ErrorEvent,
    Fact,
    MessageEnd,
    ModelResponse,
    QueueChanged,
    ToolExecEnd,
    ToolExecStart,
)
from unspool.kernel.limits import Limits
from unspool.kernel.messages import Message, Text, Usage

MARK = "subagent_call"  # in the metadata of a prompt: the call that it is from


class Tally:
    """See the module. ``begun``: the prompt of the call is there; ``closed``: that of a later call is, too."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.begun = self.closed = False
        self.turns = self.tools = 0
        self.usage = Usage()
        self.seconds = 0.0
        self.limits = Limits()
        self.output = ""  # of the last reply
        self.said = ""  # the last text that was not empty
        self.terminal = ""  # the result of the last tool that could end the run
        self.end_reason = ""
        self.error_kind = self.error = ""
        self.error_details: dict[str, Any] = {}
        self._began = 0.0

    def read(self, facts: Iterable[Fact]) -> None:
        """Take in what the log of the session holds."""
        start: AgentStart | None = None
        for fact in facts:
            if isinstance(fact, AgentStart):
                start = fact
            named = _call_of(fact)
            if named == self._key and not self.begun:
                self.begun = True
                if start is not None:
                    self.see(start)
            elif named and self.begun and named != self._key:
                self.closed = True
                return
            if self.begun:
                self.see(fact)

    def see(self, fact: Fact) -> None:
        """Take in one more fact."""
        match fact:
            case AgentStart():
                self._began, self.limits = fact.time, fact.limits
                self.error_kind = self.error = ""
            case MessageEnd(message=Message(role="assistant") as message):
                self._hear(message, counts=not fact.cause)
            case ModelResponse() | ChildEnded():
                self.usage += fact.usage
            case ToolExecStart():
                self.tools += 1
            case ToolExecEnd(terminal=True, outcome="ok"):
                self.terminal = "".join([each.text for each in fact.content if isinstance(each, Text)])
            case ErrorEvent(fatal=True):
                self.error_kind, self.error, self.error_details = fact.kind, fact.message, fact.details
            case AgentEnd():
                self.end_reason = fact.reason
                self.seconds += max(0.0, fact.time - self._began)
            case _:
                return

    def _hear(self, message: Message, *, counts: bool) -> None:
        if message.stop_reason == "aborted":
            return
        self.turns += counts
        self.output = message.text
        self.said = message.text.strip() or self.said
        if message.failed:
            self.error_kind = message.stop_reason or ""


def _call_of(fact: Fact) -> str:
    """The call whose prompt this is, if it is one."""
    if not isinstance(fact, QueueChanged) or fact.lane != "prompt" or fact.message is None:
        return ""
    named = fact.message.metadata.get(MARK, "")
    return named if isinstance(named, str) else ""
