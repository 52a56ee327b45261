"""Messages as they were committed, found by their ids, whatever became of the conversation since.

Read with: ``rebuild.py``, ``transcript.py``, ``unspool.kernel.state``.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.events import AgentStart, ContextCompacted, Fact, MessageEnd, Stored
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.state import AgentState


class AsSent(Struct, frozen=True):
    """A message in the form that was recorded for the model.

    An application's own class may lower itself otherwise by now, or be gone.
    """

    message: Message | None
    original: AgentMessage

    @property
    def role(self) -> str:
        return self.original.role

    @property
    def tool_calls(self) -> tuple[object, ...]:
        """Those of the message that is not sent: their results go with it."""
        return tuple(getattr(self.original, "tool_calls", ()))

    def to_message(self) -> Message | None:
        """What the model was sent."""
        return self.message


class Committed(NamedTuple):
    """A message that a fact put into the conversation: its id, itself, what the model is sent of it."""

    id: str
    message: AgentMessage
    sent: AgentMessage | AsSent


def committed_by(fact: Fact, before: AgentState, after: AgentState) -> Iterator[Committed]:
    """The messages that ``fact`` put into the conversation."""
    match fact:
        case MessageEnd():
            message = after.messages[-1]
            yield Committed(fact.id, message, _as_sent(fact, message, fact.time) if fact.app else message)
        case AgentStart() if fact.history:
            yield from _numbered(fact.history, before, after.messages.since(len(before.messages)))
        case ContextCompacted() if fact.committed and fact.replaced is not None:
            first = before.ids.since(0).index(fact.replaced.first)
            new = zip(fact.messages, after.messages[first : first + len(fact.messages)], strict=True)
            put = [(stored, message) for stored, message in new if not isinstance(stored, str)]
            yield from _numbered([stored for stored, _ in put], before, [message for _, message in put])
        case _:
            return


def _numbered(
    stored: Sequence[Stored], before: AgentState, messages: Sequence[AgentMessage]
) -> Iterator[Committed]:
    for number, (each, message) in enumerate(zip(stored, messages, strict=True), before.message_count + 1):
        yield Committed(f"m{number}", message, _as_sent(each, message) if each.app else message)


def _as_sent(stored: MessageEnd | Stored, original: AgentMessage, committed_at: float = 0.0) -> AsSent:
    """An application message in its recorded form, without the id, and the time, that the kernel gave it."""
    message = stored.message
    if message is not None:
        timestamp = 0.0 if message.timestamp == committed_at else message.timestamp
        message = replace(message, id="", timestamp=timestamp)
    return AsSent(message, original)
