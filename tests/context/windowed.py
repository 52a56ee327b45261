"""A model with a window: a server that counts, refuses what is too large, and reports what it counted."""

import json
from collections.abc import AsyncGenerator, Callable

from unspool.context.estimate import Estimate
from unspool.context.tokens import MessageTokens
from unspool.kernel import (
    Message,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    Usage,
)
from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.sequence import validate_message_sequence

Answer = Callable[[ModelRequest], "str | list[tuple[str, str, dict[str, object]]] | Exception"]


class Windowed:
    """Answers as ``answer`` says: text, or calls (id, tool, arguments).

    Requests of strategies are told by their system prompt or last message: ``summary`` says what they get.
    ``reports`` makes the usage out of the tokens counted. Whatever is asked must be a request that a provider takes.
    """

    supports_tools = True

    def __init__(
        self,
        window: int,
        answer: Answer,
        *,
        summary: Answer = lambda request: "<summary>The work so far, summed up.</summary>",
        reports: Callable[[int], Usage] = lambda tokens: Usage(input_tokens=tokens, output_tokens=10),
        tells: bool = True,
    ) -> None:
        self.name = "test/windowed"
        self.context_window = window if tells else 0
        self._window = window
        self._answer = answer
        self._summary = summary
        self._reports = reports
        self._count = MessageTokens(Estimate(), self.name)
        self.sent: list[ModelRequest] = []
        self.refused: list[int] = []
        self.summaries: list[ModelRequest] = []

    def tokens(self, request: ModelRequest) -> int:
        """What the server counts."""
        return self._count.overhead(request.system, request.tools) + self._count.total(request.messages)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        _check(request.messages)
        tokens = self.tokens(request)
        aside = not request.tools and bool(self.sent)
        (self.summaries if aside else self.sent).append(request)
        if tokens > self._window:
            self.refused.append(tokens)
            raise ContextOverflowError(f"prompt is too long: {tokens} tokens > {self._window} maximum")
        answer = (self._summary if aside else self._answer)(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            if answer:
                yield TextDelta(answer)
        else:
            for index, (id, name, args) in enumerate(answer):
                yield ToolCallDelta(index, id, name, json.dumps(args))
                yield ToolCallEnd(index)
        reason = "stop" if isinstance(answer, str) else "tool_use"
        yield StreamEnd(stop_reason=reason, usage=self._reports(tokens), model=self.name)


def _check(messages: "list[Message] | tuple[Message, ...] | object") -> None:
    assert isinstance(messages, (list, tuple)) or hasattr(messages, "since")
    given = list(messages)  # type: ignore[call-overload]
    assert given, "an empty request"
    assert given[-1].role in ("user", "tool")
    assert validate_message_sequence(given) == []
