"""How a message says that a strategy has made it: in its metadata, which the model never sees.

A rewritten message is a plain ``Message``, so that a log holding it is readable without this package. Its
``metadata["context"]`` is a JSON object with ``kind`` (summary, dropped, cleared, offloaded, trimmed, collapsed, reduced, squeezed)
and what the kind has to say. What a message is, is read from there and never from its text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from unspool.kernel.messages import AgentMessage, Content, Message

KEY = "context"
_NOTHING: Mapping[str, Any] = {}


def mark_of(message: AgentMessage) -> Mapping[str, Any]:
    """What a strategy noted about a message; empty for one that none has made."""
    metadata = getattr(message, "metadata", None)
    mark = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    return mark if isinstance(mark, Mapping) else _NOTHING


def kind_of(message: AgentMessage) -> str:
    """Which kind of rewritten message this is; empty for one that is as it was written."""
    return str(mark_of(message).get("kind", ""))


def is_summary(message: AgentMessage) -> bool:
    """Whether a message stands for a part of the conversation that was summed up."""
    return kind_of(message) == "summary"


def marked(message: Message, content: Sequence[Content], kind: str, **said: Any) -> Message:
    """``message`` with other content, and the mark that says why.

    Its id goes: it is another message. Everything else of it stays. ``of`` names the message as it was written, and
    ``earlier`` kinds are kept.
    """
    before = mark_of(message)
    mark: dict[str, Any] = {"kind": kind, "of": before.get("of") or message.id, **said}
    if before:
        mark["earlier"] = [*before.get("earlier", ()), before.get("kind", "")]
    return replace(message, content=tuple(content), id="", metadata={**message.metadata, KEY: mark})
