"""The tokens of messages, each counted once.

A count covers what the message lowers to. What a provider adds around it is a few tokens per message and per call;
what it does differently is for ``correction.py`` to learn.

Read with: ``media_tokens.py`` (images, documents), ``encodings.py`` and ``estimate.py`` (counters of text).
"""

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Final, Protocol

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import (
    AgentMessage,
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
)
from unspool.kernel.ports import SystemBlock, ToolSpec

from .media_tokens import document_tokens, image_tokens

PER_MESSAGE: Final = 4  # the role and the marks around it
PER_CALL: Final = 8  # of a call or its result: its id and the names of its fields
PER_TOOL: Final = 8  # likewise, of a tool's definition


class TextCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """The encoding, or ``estimate``."""
        ...

    def count(self, text: str, /) -> int:
        """The tokens of ``text``: 0 for none, at least 1 otherwise. Takes a bounded time."""
        ...


class MessageTokens:
    """Counts messages for one model and remembers what it counted.

    A message is known by identity, and held, so that no other can take its place. ``counted`` is how many messages
    were counted so far, for tests and benchmarks. Not for use from several threads at once.
    """

    def __init__(self, counter: TextCounter, model: str) -> None:
        self.counter = counter
        self.model = model  # ``provider/model``
        self.counted = 0
        self._known: dict[int, tuple[AgentMessage, int]] = {}
        self._asked: tuple[SystemBlock | ToolSpec, ...] = ()
        self._overhead = 0

    def text(self, text: str, /) -> int:
        """The tokens of a text; not remembered.

        Raises:
            ValueError: the counter gives no number of tokens.
        """
        tokens = self.counter.count(text)
        if not isinstance(tokens, int) or tokens < 0:
            raise ValueError(
                f"context: the counter {self.counter.name!r} gives {tokens!r}, which is no number of tokens"
            )
        return tokens

    def message(self, message: AgentMessage, /) -> int:
        """The tokens of what ``message`` lowers to; 0 where it is left out. Raises what its ``to_message`` raises."""
        known = self._known.get(id(message))
        if known is not None:
            return known[1]
        lowered = message.to_message()
        tokens = 0 if lowered is None else self._lowered(lowered)
        self.counted += 1
        self._known[id(message)] = (message, tokens)
        return tokens

    def total(self, messages: Iterable[AgentMessage], /) -> int:
        """The tokens of all of them."""
        return sum(map(self.message, messages))

    def overhead(self, system: Sequence[SystemBlock], tools: Sequence[ToolSpec], /) -> int:
        """The tokens of system prompt and tools. Remembered until others are given, by identity of each."""
        asked: tuple[SystemBlock | ToolSpec, ...] = (*system, *tools)
        if len(asked) != len(self._asked) or not all(map(is_, asked, self._asked)):
            tokens = sum([PER_MESSAGE + self.text(block.text) for block in system]) + sum(
                map(self._tool, tools)
            )
            self._asked, self._overhead = asked, tokens
        return self._overhead

    def retain(self, messages: Iterable[AgentMessage], /) -> None:
        """Forget all messages but these."""
        known = self._known
        self._known = {id(each): known[id(each)] for each in messages if id(each) in known}

    def _tool(self, tool: ToolSpec) -> int:
        return (
            PER_TOOL
            + self.text(tool.name)
            + self.text(tool.description)
            + self.text(encode_text(tool.schema))
        )

    def _lowered(self, message: Message) -> int:
        tokens = PER_MESSAGE + sum(map(self._block, message.content))
        return tokens + PER_CALL if message.role == "tool" else tokens

    def _block(self, block: Content) -> int:
        match block:
            case Text(text):
                return self.text(text)
            case ToolCall():
                call = PER_CALL + self.text(block.name) + self.text(block.arguments_text)
                return call + self.text(block.thought_signature or "")
            case Thinking():
                return (
                    self.text(block.text) + self.text(block.signature or "") + self.text(block.redacted or "")
                )
            case Image():
                return image_tokens(block, self.model)
            case Document():
                return document_tokens(block, self.model, self.text)
            case ToolReference(name):
                return self.text(name)
            case Opaque():
                return self.text(encode_text(block.data))
