"""Folds a model's stream events into one assistant message.

Blocks keep the order of their indexes. The builder never guesses: a call without its end is kept
as not completed, thinking keeps its signature with its text.

Read with: ``ports.py`` (the events), ``model_call.py`` (the caller).
"""

from typing import Any

from .errors import PartialStreamError
from .json_edge import clean_text, encodable, plain_json
from .messages import Content, Message, Opaque, Text, Thinking, ToolCall, clean_block, make_call
from .ports import (
    BlockEvent,
    ChatModel,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)


class _TextPart:
    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def block(self) -> Content | None:
        text = clean_text("".join(self.pieces))
        return Text(text) if text else None


class _ThinkingPart:
    __slots__ = ("pieces", "redacted", "signature")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.signature: str | None = None
        self.redacted: str | None = None

    def add(self, delta: ThinkingDelta) -> None:
        self.pieces.append(delta.text)
        if delta.signature is not None:
            self.signature = (self.signature or "") + delta.signature
        if delta.redacted is not None:
            self.redacted = delta.redacted

    def block(self) -> Content | None:
        said = "".join(self.pieces)
        text = clean_text(said)
        if not text and self.signature is None and self.redacted is None:
            return None
        signature = self.signature if text == said else None  # it was for other words: a provider refuses it
        return Thinking(text=text, signature=_opaque(signature), redacted=_opaque(self.redacted))


class _CallPart:
    __slots__ = ("completed", "id", "name", "pieces", "thought_signature")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.thought_signature: str | None = None
        self.completed = False

    def add(self, delta: ToolCallDelta) -> None:
        self.id = self.id or delta.id
        self.name = self.name or delta.name
        self.pieces.append(delta.args)
        self.thought_signature = delta.thought_signature or self.thought_signature

    def block(self) -> ToolCall:
        return make_call(
            self.id,
            self.name,
            "".join(self.pieces),
            completed=self.completed,
            thought_signature=self.thought_signature,
        )


class _WholePart:
    __slots__ = ("content",)

    def __init__(self, content: Content) -> None:
        self.content = content

    def block(self) -> Content:
        try:
            return clean_block(self.content)[0]
        except (
            TypeError,
            ValueError,
            RecursionError,
        ):  # no JSON, or too deep: what can be said of it is kept
            return Opaque(provider="", data=plain_json(self.content))


def _opaque(text: str | None) -> str | None:
    return None if text is None else encodable(text)


class ReplyBuilder:
    """Collects stream events; ``message()`` is the reply so far, ``end`` the terminal event."""

    __slots__ = ("_parts", "_text", "_text_index", "end")

    def __init__(self) -> None:
        self._parts: dict[tuple[int, type], Any] = {}
        self._text: list[str] = []  # the pieces of the text block under way: the hot path
        self._text_index = -1
        self.end: StreamEnd | None = None

    def add(self, event: StreamEvent) -> None:
        """Take in one event."""
        if type(event) is TextDelta:  # by type, most frequent first: this is the hottest path
            if event.index != self._text_index:
                self._text, self._text_index = self._part(event.index, _TextPart).pieces, event.index
            self._text.append(event.text)
        elif type(event) is ToolCallDelta:
            self._part(event.index, _CallPart).add(event)
        elif type(event) is ThinkingDelta:
            self._part(event.index, _ThinkingPart).add(event)
        elif type(event) is ToolCallEnd:
            self._part(event.index, _CallPart).completed = True
        elif type(event) is StreamEnd:
            self.end = event
        elif type(event) is BlockEvent:
            self._parts[event.index, _WholePart] = _WholePart(event.block)

    def _part(self, index: int, kind: type) -> Any:
        part = self._parts.get((index, kind))
        if part is None:
            part = self._parts[index, kind] = kind()
        return part

    @property
    def text(self) -> str:
        """The text so far."""
        return self.message().text

    def message(self, *, id: str = "", timestamp: float = 0.0) -> Message:
        """The reply as it stands. Parts of equal index keep the order in which they began."""
        parts = self._parts
        order = sorted(parts, key=_index) if len(parts) > 1 else parts
        blocks = [block for key in order if (block := parts[key].block()) is not None]
        end = self.end
        return Message(
            role="assistant",
            content=tuple(blocks),
            id=id,
            stop_reason=end.stop_reason if end else None,
            usage=end.usage if end else None,
            metadata=plain_json(end.metadata) if end and end.metadata else {},
            timestamp=timestamp,
            origin=end.origin if end else "",
        )


def _index(key: tuple[int, type]) -> int:
    return key[0]


async def generate(model: ChatModel, request: ModelRequest) -> Message:
    """The whole reply of ``model`` to ``request``, without a run around it.

    Raises:
        ModelError: whatever the model's stream raises.
        PartialStreamError: the stream ended without its terminal event.
    """
    builder = ReplyBuilder()
    stream = model.stream(request)
    try:
        async for event in stream:
            builder.add(event)
    finally:
        await stream.aclose()
    if builder.end is None:
        raise PartialStreamError("provider: the stream ended early", text=builder.text, model=model.name)
    return builder.message()
