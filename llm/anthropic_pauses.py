"""An answer that the server paused, and what it went on with, as one answer.

A server that runs tools of its own may stop in the middle (``pause_turn``): it wants to be asked again with what it
has said so far. To whoever reads the stream that is one answer: blocks go on counting, usage is the sum.

Read with: ``anthropic.py`` (the caller), ``anthropic_messages.py`` (how a paused reply is sent back).
"""

from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from unspool.kernel.messages import Usage
from unspool.kernel.ports import (
    BlockEvent,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.kernel.reply import ReplyBuilder

PAUSE: Final = "pause"
BlockPart: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | ToolCallEnd | BlockEvent


class PausedAnswer:
    """The parts of one answer, as far as they have come; ``pauses`` counts those that have ended in one."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._said: list[BlockPart] = []
        self._first = 0  # the index of this part's first block
        self._usage = Usage()
        self._metadata: dict[str, Any] = {}
        self._end: StreamEnd | None = None
        self.pauses = 0
        self.text_before = ""  # of the parts that are over

    def heard(self, event: StreamEvent) -> StreamEvent:
        """``event`` as one of the whole answer."""
        if isinstance(event, StreamEnd):
            self._usage += event.usage
            self._metadata = _with(self._metadata, event.metadata)
            self._end = event
            if not self.pauses:
                return event
            return replace(event, usage=self._usage, metadata={**self._metadata, "pauses": self.pauses})
        if self._first:
            event = replace(event, index=event.index + self._first)
        self._said.append(event)
        return event

    def next_request(self) -> ModelRequest:
        """The request that lets the server go on: with the reply so far as its last message."""
        self.pauses += 1
        self._metadata.pop("finish_reason", None)  # that it paused
        builder = ReplyBuilder()
        for event in self._said:
            builder.add(event)
        self._first = 1 + max((event.index for event in self._said), default=-1)
        builder.end = self._end
        reply = builder.message()
        self.text_before = reply.text
        return replace(self._request, messages=(*self._request.messages, reply))


def _with(before: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata of all parts: what the last one says holds, but that what was used is summed."""
    joined = {**before, **metadata}
    if "usage_details" in before and "usage_details" in metadata:
        joined["usage_details"] = _sum(before["usage_details"], metadata["usage_details"])
    return joined


def _sum(a: Any, b: Any) -> Any:
    match a, b:
        case dict(), dict():
            return {**a, **b, **{key: _sum(a[key], b[key]) for key in a if key in b}}
        case list(), list():
            return [*a, *b]
        case int(), int():
            return a + b
        case _:
            return b
