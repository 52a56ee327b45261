"""Models and tools of a replay: they give what was recorded, when it was recorded.

Read with: ``conductor.py``, ``replay.py``, ``replay_host.py``.
"""

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import anyio
import msgspec

from unspool.kernel.errors import ContextOverflowError, ModelError
from unspool.kernel.events import (
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    Fact,
    MessageEnd,
    ModelResponse,
    RetryEvent,
    ToolExecEnd,
    TurnEnd,
)
from unspool.kernel.hooks import CallNext, Hooks, Middleware, ToolUse
from unspool.kernel.messages import Message, Text, Usage
from unspool.kernel.ports import (
    JSON,
    BlockEvent,
    ChatModel,
    ContextManager,
    ModelRequest,
    Refused,
    StreamEnd,
    StreamEvent,
    Tool,
    ToolContext,
    ToolSpec,
    ValidationIssue,
)
from unspool.kernel.tool_call import Outcome
from unspool.kernel.tool_check import Refusal

from .conductor import Conductor
from .recording import replied


class RecordedError(ModelError):
    """An error of the past: it has the label, the words and the details that were recorded."""

    def __init__(self, kind: str, text: str, details: dict[str, Any], again_s: float | None = None) -> None:
        super().__init__(text, retry_after_s=again_s)
        self.text = text
        self.details = details
        self.error_kind = kind  # type: ignore[misc]  # of this one error, not of its class
        self.retryable = again_s is not None  # type: ignore[misc]

    def __str__(self) -> str:
        return self.text


class RecordedOverflow(RecordedError, ContextOverflowError):
    """One that a context manager was asked to mend; others were left to themselves."""


class RecordedModel:
    """Answers as the recorded model did."""

    def __init__(self, conductor: Conductor, name: str, supports_tools: bool, window: int) -> None:
        self._conductor = conductor
        self._name = name
        self._supports_tools = supports_tools
        self._window = window

    @property
    def name(self) -> str:
        return self._name

    @property
    def supports_tools(self) -> bool:
        return self._supports_tools

    @property
    def context_window(self) -> int:
        return self._window

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """The recorded answer, once everything before it has come again."""
        conductor = self._conductor
        begun = conductor.position
        projected = conductor.recording.at(begun)
        run_id = projected.run_id if projected is not None else ""
        purpose = getattr(projected, "purpose", "") or "reply"
        facts = list(replied(conductor.recording.rest_of_run(begun, run_id), purpose))
        response = facts[-1] if facts and isinstance(facts[-1], ModelResponse) else None
        committed = next((fact for fact in facts if _is_reply(fact)), None) if purpose == "reply" else None
        if response is None and committed is not None:  # the process died in between
            usage = committed.message and committed.message.usage
            response = ModelResponse(usage=usage or Usage())
        if response is None or response.error_kind == "canceled":
            if response is not None and response.stop_reason:  # it had ended, and nobody had taken note
                try:
                    yield _end_of(response, Message(role="assistant", stop_reason=response.stop_reason))
                finally:
                    await conductor.forever()
            await conductor.forever()  # the run was aborted, or the process died
            return
        reply = response.reply if committed is None else committed.message
        await conductor.until((committed or response).seq - 1)
        if reply is None:
            raise self._error(response)
        for index, block in enumerate(_with_duplicates(reply, facts)):
            yield BlockEvent(block, index)
        yield _end_of(response, reply)
        closed = conductor.recording.at(response.seq + 1)
        if isinstance(closed, ErrorEvent) and closed.kind == "stream_close":
            raise RuntimeError(closed.message.partition("did not close: ")[2])

    def _error(self, response: ModelResponse) -> RecordedError:
        """What the call failed with, as the facts after it tell."""
        kind = text = response.error_kind
        if response.purpose != "reply":
            return RecordedError(kind, kind, {})
        error = RecordedError
        for fact in self._conductor.recording.rest_of_run(response.seq, response.run_id):
            match fact:
                case ContextCompacting() if fact.reason == "overflow" and error is RecordedError:
                    error, text = RecordedOverflow, fact.plan  # the kernel's, before the manager's own
                case RetryEvent():
                    return error(fact.error_kind, fact.message, {}, fact.delay_s)
                case ErrorEvent() if fact.fatal and fact.kind == kind:
                    return error(fact.kind, fact.message, fact.details)
                case TurnEnd():
                    break
                case ContextProjected() if not fact.purpose:
                    break
                case _:
                    continue
        return error(kind, text, {})


def _end_of(response: ModelResponse, reply: Message) -> StreamEnd:
    return StreamEnd(
        stop_reason=reply.stop_reason or "stop",
        usage=response.usage,
        model=response.model,
        response_id=response.response_id,
        metadata=reply.metadata,
        origin=reply.origin,
    )


def _is_reply(fact: Fact) -> TypeGuard[MessageEnd]:
    return (
        isinstance(fact, MessageEnd)
        and fact.message is not None
        and fact.message.role == "assistant"
        and fact.message.stop_reason != "interrupted"
        and not fact.cause
    )


def _with_duplicates(reply: Message, facts: Sequence[Fact]) -> list[Any]:
    """The blocks of a reply, with the calls that came twice and were left out."""
    again = [
        fact.details.get("call_id")
        for fact in facts
        if isinstance(fact, ErrorEvent) and fact.kind == "duplicate_call"
    ]
    calls = {call.id: call for call in reply.tool_calls}
    return [*reply.content, *[calls[call_id] for call_id in again if call_id in calls]]


@dataclass(frozen=True)
class RecordedTool:
    """Gives the recorded outcomes; where it ``decides``, its traits were others for some calls."""

    conductor: Conductor
    spec: ToolSpec
    decides: bool = False

    @property
    def has_plain_traits(self) -> bool:
        """See ``ResolvedTool``."""
        return not self.decides

    def spec_for(self, args: JSON, /) -> ToolSpec:
        """The spec as it held for the call that has these arguments."""
        recording = self.conductor.recording
        call_id = recording.call_with(self.spec.name, args, self.conductor.position)
        return recording.traits_of(call_id, self.spec)

    def check_arguments(self, args: JSON, /) -> Sequence[ValidationIssue]:
        """The issues that were recorded for such a call."""
        conductor = self.conductor
        call_id = conductor.recording.call_with(self.spec.name, args, conductor.position)
        end = conductor.recording.ends.get(call_id)
        if end is None or end.outcome != "invalid" or "issues" not in end.details:
            return ()
        return msgspec.convert(end.details["issues"], list[ValidationIssue])

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        """The recorded outcome, once everything before it has come again."""
        return await recorded_outcome(self.conductor, ctx.call_id)


class LookingTool(RecordedTool):
    """One whose calls were looked at before they ran: refused, or shown to a person."""

    async def validate(self, args: JSON, ctx: ToolContext, /) -> Refused | None:
        """The refusal that was recorded for this call, whoever's it was."""
        conductor = self.conductor
        await conductor.settle()
        following = conductor.recording.next_about(ctx.call_id, conductor.position)
        if not isinstance(following, ToolExecEnd) or following.outcome not in ("invalid", "denied", "error"):
            return None
        await conductor.until(following.seq - 1)
        text = "".join([block.text for block in following.content if isinstance(block, Text)])
        return Refusal(following.outcome, text, following.details, following.ruling)  # type: ignore[return-value]  # taken as it is

    async def preview(self, args: JSON, ctx: ToolContext, /) -> JSON:
        """What was shown of this call."""
        asked = self.conductor.recording.asked.get(ctx.call_id)
        return asked.previews.get(ctx.call_id, {}) if asked is not None else {}


class BlindTool(LookingTool):
    """One that looked at its calls and showed nothing."""

    preview = None  # type: ignore[assignment]  # the ability is missing


async def recorded_outcome(conductor: Conductor, call_id: str) -> Outcome:
    """What a call came to, at the moment when it did; being cancelled does not change what."""
    recording, cut = conductor.recording, conductor.cut
    if (suspension := recording.suspension(call_id, conductor.position)) is not None:
        await conductor.let_go(suspension[1])
        return Outcome("suspended", (), {}, nested=suspension[0].nested)
    end, point = recording.ends.get(call_id), recording.release_point(call_id)
    if end is None or point is None:
        await conductor.forever()
        return Outcome("cancelled", (), {})
    if cut is not None and recording.last_own(point) <= cut.seq < end.seq:
        point = len(recording) + 1  # the run was cut short before this call was over
    at_once = recording.ended_at_once(end)
    waiting = True
    while waiting:
        try:
            with anyio.CancelScope(shield=not at_once):
                await conductor.let_go(point)
            waiting = False
        except anyio.get_cancelled_exc_class():
            waiting = not at_once
    conductor.last_acts.pop(call_id, _nothing)()
    fatal = _fatal_after(conductor, end)
    return Outcome(end.outcome, end.content, end.details, fatal, end.abandoned)


def _nothing() -> None:
    """The call ends, and that is all."""


def _fatal_after(conductor: Conductor, end: ToolExecEnd) -> RecordedError | None:
    """The error that a call ended the run with."""
    if end.outcome != "error":
        return None
    text = "".join([block.text for block in end.content if isinstance(block, Text)])
    for fact in conductor.recording.rest_of_run(end.seq, end.run_id):
        if isinstance(fact, ErrorEvent) and fact.kind == "tool_fatal":
            same = fact.message.startswith(text.partition("\n[…")[0])
            return RecordedError(fact.kind, fact.message, fact.details) if same else None
        if isinstance(fact, ModelResponse):
            return None
    return None


def as_recorded(tool: Tool, conductor: Conductor) -> Tool:
    """A live tool that gives recorded outcomes: its spec, traits, checks and looks are its own."""
    return _Substituted(tool, conductor)


class _Substituted:
    """A tool with its execution taken out."""

    def __init__(self, tool: Tool, conductor: Conductor) -> None:
        self._tool = tool
        self._conductor = conductor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tool, name)
        if found is not None and name in ("validate", "preview"):
            return self._conductor.watched(found)
        return found

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        return await recorded_outcome(self._conductor, ctx.call_id)


class LiveTool(_Substituted):
    """A tool that really runs; it takes the time that it takes, and then waits for its recorded moment.

    One that ran nested sessions gives recorded outcomes: they would run again, and have logs to replay.
    """

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        conductor = self._conductor
        if self.spec.name in conductor.recording.nesting:
            conductor.over.add(ctx.call_id)  # nobody waits for it to be over
            return await recorded_outcome(conductor, ctx.call_id)
        try:
            return await conductor.watched(self._tool.execute)(args, ctx)
        finally:
            point = conductor.recording.release_point(ctx.call_id)
            if point is not None:
                await conductor.let_go_together(ctx.call_id, point)


def live_hooks(hooks: Hooks, conductor: Conductor, *, tools: bool) -> Hooks:
    """A host's hooks, which may take their time. Middlewares are around ``tools`` that really run only: a recorded
    outcome is what they made of it."""
    recorded = conductor.recording.nesting

    def around_live(middleware: Middleware) -> Middleware:
        def call(use: ToolUse, call_next: CallNext) -> Awaitable[object]:
            return call_next() if use.call.name in recorded else middleware(use, call_next)

        return call

    names = [field.name for field in dataclasses.fields(hooks) if field.name != "middlewares"]
    found = {name: getattr(hooks, name) for name in names}
    watched: dict[str, Any] = {name: hook and conductor.watched(hook) for name, hook in found.items()}
    middlewares = [around_live(middleware) for middleware in hooks.middlewares] if tools else []
    return dataclasses.replace(hooks, **watched, middlewares=middlewares)


class LiveContext:
    """A context manager of the host's, which may take its time."""

    def __init__(self, manager: ContextManager, conductor: Conductor) -> None:
        self._manager = manager
        self.project = conductor.watched(manager.project)
        self.compact = conductor.watched(manager.compact)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


class LiveModel:
    """A model that is really asked, in the name of the recorded one."""

    def __init__(self, model: ChatModel, conductor: Conductor, name: str, window: int) -> None:
        self._model = model
        self._conductor = conductor
        self._name = name
        self._window = window

    @property
    def name(self) -> str:
        return self._name

    @property
    def supports_tools(self) -> bool:
        return self._model.supports_tools

    @property
    def context_window(self) -> int:
        return self._window

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        conductor, stream = self._conductor, self._model.stream(request)
        try:
            while True:
                try:
                    event = await conductor.watched(stream.__anext__)()
                except StopAsyncIteration:
                    return
                yield event
        finally:
            await stream.aclose()
