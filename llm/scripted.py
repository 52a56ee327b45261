"""A model that plays a script: for tests, examples and demos; it never touches a network.

Read with: ``unspool.kernel.clock`` (``FakeClock`` makes its delays free).
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from msgspec import Struct

from unspool.kernel.clock import SystemClock
from unspool.kernel.errors import ModelError
from unspool.kernel.messages import Content, Text, Thinking, ToolCall, Usage
from unspool.kernel.ports import (
    BlockEvent,
    Clock,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)


class Wait(Struct, frozen=True):
    """Let ``seconds`` pass before going on; infinity never goes on."""

    seconds: float


class Cut(Struct, frozen=True):
    """The stream ends here without its end event, as when a connection breaks."""


class Unfinished(Struct, frozen=True):
    """A call whose arguments stop here: it never gets its end."""

    id: str
    name: str
    args_text: str


Part: TypeAlias = str | Content | Wait | Cut | Unfinished | BaseException


@dataclass(frozen=True, slots=True)
class Say:
    """One scripted answer.

    ``parts`` come in order: text (split into ``chunk`` characters where that is given), blocks,
    tool calls, waits, a cut, an exception to raise. ``stop_reason`` defaults to ``tool_use`` with
    calls and ``stop`` without.
    """

    parts: Sequence[Part] = ()
    stop_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    chunk: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


def call(id: str, name: str, /, **args: Any) -> ToolCall:
    """A tool call for a script."""
    return ToolCall(id=id, name=name, args=args)


Entry: TypeAlias = str | Sequence[Part] | BaseException | Say
"""An answer of a script: text, parts, an exception to raise at once, or a ``Say``."""


class ScriptedModel:
    """Gives the answers of ``script``, one for each call, and remembers the ``requests``.

    An entry is text, a list of parts, an exception to raise at once, or a ``Say``.

    Raises (from the stream):
        ModelError: the script has no more answers.
    """

    def __init__(
        self,
        script: Sequence[Entry] = (),
        *,
        name: str = "scripted/model",
        clock: Clock | None = None,
        supports_tools: bool = True,
        context_window: int = 0,
    ) -> None:
        self._script = list(script)
        self._name = name
        self._clock: Clock = clock or SystemClock()
        self._supports_tools = supports_tools
        self._window = context_window
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def supports_tools(self) -> bool:
        return self._supports_tools

    @property
    def context_window(self) -> int:
        return self._window

    def add(self, *entries: Entry) -> None:
        """Put more answers at the end of the script."""
        self._script.extend(entries)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """Play the next answer."""
        self.requests.append(request)
        position = len(self.requests) - 1
        if position >= len(self._script):
            raise ModelError("script: no answer left", calls=len(self.requests))
        answer = _as_answer(self._script[position])
        for index, part in enumerate(answer.parts):
            match part:
                case BaseException():
                    raise part
                case Cut():
                    return
                case Wait(seconds):
                    await self._wait(seconds)
                case _:
                    for event in _events(index, part, answer.chunk):
                        yield event
        yield StreamEnd(
            stop_reason=answer.stop_reason or _stop_reason(answer.parts),
            usage=answer.usage,
            model=self._name,
            metadata=answer.metadata,
        )

    async def _wait(self, seconds: float) -> None:
        if seconds == float("inf"):
            await anyio.sleep_forever()
        await self._clock.sleep(seconds)


def _as_answer(entry: str | Sequence[Part] | BaseException | Say) -> Say:
    match entry:
        case Say():
            return entry
        case str():
            return Say([entry])
        case BaseException():
            return Say([entry])
        case _:
            return Say(entry)


def _stop_reason(parts: Sequence[Part]) -> str:
    return "tool_use" if any(isinstance(part, ToolCall) for part in parts) else "stop"


def _events(index: int, part: Any, chunk: int) -> list[StreamEvent]:
    match part:
        case str() | Text():
            text = part if isinstance(part, str) else part.text
            size = chunk or max(1, len(text))
            return [TextDelta(text[at : at + size], index) for at in range(0, len(text), size)]
        case Thinking():
            return [ThinkingDelta(part.text, index, part.signature, part.redacted)]
        case ToolCall():
            return [
                ToolCallDelta(index, part.id, part.name, _sent(part), part.thought_signature),
                ToolCallEnd(index),
            ]
        case Unfinished(id, name, args_text):
            return [ToolCallDelta(index, id, name, args_text)]
        case _:
            return [BlockEvent(part, index)]


def _sent(call: ToolCall) -> str:
    """The argument text as a model would have sent it, also where it is not JSON."""
    return (call.args_text or "") if call.args_invalid else call.arguments_text
