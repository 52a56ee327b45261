"""What ``agent_loop`` returns: the run as an async generator, and what can be asked of it.

Read with: ``loop.py``.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from .errors import RunFailedError
from .events import Event
from .lowering import Lowering
from .messages import NO_USAGE, AgentMessage, ToolCall, Usage
from .recorder import Recorder
from .state import AgentState
from .transcript import Transcript

OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutT]):
    """What a run came to.

    ``usage`` is the run's own, ``child_usage`` that of nested sessions which ended in it, ``total_usage`` both.
    ``messages`` are those the run committed, whatever its end. ``text`` is that of its last reply;
    the marker that an abort leaves is none. ``pending`` are calls that wait for approval.
    """

    output: OutT
    text: str
    messages: Sequence[AgentMessage]
    usage: Usage
    end_reason: str
    error_kind: str = ""
    error: str = ""
    pending: Sequence[ToolCall] = ()
    child_usage: Usage = NO_USAGE

    @property
    def total_usage(self) -> Usage:
        return self.usage + self.child_usage

    def raise_for_error(self) -> Self:
        """The result itself, unless the run did not end well.

        Raises:
            RunFailedError: it ended by an error, an abort, or a limit that the host did not put into words.
        """
        in_words = self.end_reason == "max_turns" and not self.error_kind
        if self.end_reason in ("stop", "paused") or in_words:
            return self
        raise RunFailedError(
            f"run: {self.error or self.end_reason}", end_reason=self.end_reason, error_kind=self.error_kind
        )


class Watcher(Protocol):
    """Who is told what happens in a run before its consumer is: an agent."""

    def begin(self) -> None:
        """The run is about to begin; nothing is recorded yet, and what this raises keeps it so."""
        ...

    def tell(self, event: Event) -> None:
        """An event, in order; also those of an ending that the consumer did not wait for."""
        ...

    def end(self) -> None:
        """Nothing of the run is left."""
        ...


class Span:
    """What of a session belongs to one run: the messages after ``first``, and the state at its end."""

    __slots__ = ("ended", "first")

    def __init__(self) -> None:
        self.first: int | None = None  # how many ids the session had given out when the run began
        self.ended: AgentState | None = None

    def begin(self, first: int) -> None:
        self.first = first

    def end(self, state: AgentState) -> None:
        self.ended = state


class EventStream(AsyncGenerator[Event, None]):
    """The events of one run, in order of ``(seq, sub)``.

    Iterate to run; ``async with`` closes it. Closing stops all work of the run before it returns.
    ``counters`` holds what lowering has cost so far: ``lowered`` messages, ``encoded`` bytes.
    """

    __slots__ = ("_events", "_recorder", "_span", "counters")

    def __init__(
        self, recorder: Recorder, counters: Lowering, events: AsyncGenerator[Event, None], span: Span
    ) -> None:
        self._recorder = recorder
        self.counters = counters
        self._events = events
        self._span = span

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Any:  # the generator's own awaitable, so that no frame stands between
        return self._events.__anext__()

    def asend(self, value: None) -> Any:
        return self._events.asend(value)

    def athrow(self, *args: Any) -> Any:
        return self._events.athrow(*args)

    async def aclose(self) -> None:
        """Stop all work of the run; returns when it has ended."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()

    @property
    def state(self) -> AgentState:
        """The fold of the facts recorded so far; an immutable value, safe to read from any thread."""
        return self._recorder.state

    def transcript(self) -> Transcript[AgentMessage]:
        """All messages of the session so far; an immutable view that costs nothing."""
        return self._recorder.state.messages

    async def result(self) -> RunResult[str]:
        """Run to the end, dropping what events are left, and say what came of it.

        Raises:
            LogError: the log refused a fact.
            RuntimeError: the run never began: the stream was closed, or its agent was busy.
        """
        async for _ in self._events:
            pass
        if self._span.first is None:
            raise RuntimeError("result: this run never began")
        state = self._span.ended or self.state
        messages = _since(state, self._span.first)
        text = last_text(messages)
        error = state.last_error if state.failed else None
        return RunResult(
            output=text,
            text=text,
            messages=messages,
            usage=state.run_usage,
            child_usage=state.run_child_usage,
            end_reason=state.end_reason,
            error_kind=error.kind if error else state.failed,
            error=error.message if error else "",
            pending=tuple([waiting.call for waiting in state.waiting_calls]),
        )


def last_text(messages: Sequence[AgentMessage]) -> str:
    """The text of the last reply."""
    return next((message.text for message in reversed(messages) if _is_reply(message)), "")


def _is_reply(message: AgentMessage) -> bool:
    return message.role == "assistant" and getattr(message, "stop_reason", None) != "aborted"


def _since(state: AgentState, first: int) -> Transcript[AgentMessage]:
    """The messages committed after the session had given out ``first`` ids."""
    ids, start = state.ids, len(state.ids)
    while start > 0 and int(ids[start - 1][1:]) > first:
        start -= 1
    return Transcript(state.messages.since(start))
