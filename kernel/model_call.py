"""One reply of the model: project, announce, stream, retry, commit.

``ModelCall`` pumps the model's stream in a task of its own and enforces both timeouts;
``ask_model`` performs the step: it pauses whenever the consumer is to see what was recorded. An
attempt that fails leaves nothing in the transcript; every attempt leaves its ``model_response``.

Read with: ``retry.py``, ``projection.py``, ``reply.py``.
"""

from collections import deque
from contextlib import aclosing, suppress

import msgspec

from .calls import settle_calls
from .errors import (
    ContextOverflowError,
    LogError,
    ModelError,
    ModelTimeoutError,
    PartialStreamError,
    StreamIdleError,
    describe,
    error_kind,
    is_retryable,
)
from .events import (
    ContextCompacted,
    ContextCompacting,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    Replaced,
    RetryEvent,
    Signal,
)
from .json_edge import clean_json, clean_text, plain_json
from .limits import Retry
from .messages import Message, Usage
from .ports import (
    CallModel,
    ChatModel,
    Compaction,
    ContextManager,
    ModelRequest,
    Projection,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from .pull import pull
from .reply import ReplyBuilder, generate
from .retry import retry_delay
from .run import Run
from .spawn import Waker

NO_USAGE = Usage()
_encode_end = msgspec.json.Encoder().encode
_decode_end = msgspec.json.Decoder(StreamEnd).decode
MAX_PENDING = 256  # undelivered stream events before the pump pauses
MAX_PENDING_CHARS = 1 << 20


class ModelCall:
    """A model's stream, pumped by a task; ``events`` are those the consumer has not seen."""

    __slots__ = (
        "_chars", "_held_s", "_held_since", "_job", "_model", "_now", "_request", "_retry", "_room", "_run", "_waiting_since",
        "error", "events", "finished", "first_token_s", "started_at",
    )  # fmt: skip

    def __init__(self, run: Run, model: ChatModel, request: ModelRequest, retry: Retry) -> None:
        self.events: deque[StreamEvent] = deque()
        self.finished = False
        self.error: BaseException | None = None
        self._now = run.clock.monotonic
        self.started_at = self._now()
        self.first_token_s: float | None = None
        self._run = run
        self._model = model
        self._request = request
        self._retry = retry
        self._waiting_since: float | None = self.started_at
        self._held_s = 0.0  # how long the consumer kept the stream waiting
        self._held_since: float | None = None
        self._chars = 0
        self._room: Waker | None = None  # made when the pump first has to pause
        self._job = run.spawn(self._pump)
        run.watchdog.watch(self)

    async def _pump(self) -> None:
        run, events, now = self._run, self.events, self._now
        try:
            async with aclosing(self._model.stream(self._request)) as stream:
                async for event in stream:
                    if not events:
                        run.wake.set()
                    if type(event) is StreamEnd:
                        events.append(_checked_end(event))
                        break
                    events.append(event)
                    if len(events) >= MAX_PENDING or self._chars > MAX_PENDING_CHARS:
                        self._waiting_since = None
                        self._room = self._room or run.backend.waker()
                        self._held_since = held_since = now()
                        await self._room.wait()
                        self._held_s += now() - held_since
                        self._held_since = None
                    self._waiting_since = now()
                    if type(event) is TextDelta:
                        self._chars += len(event.text)
        except BaseException as error:  # noqa: BLE001 (everything an adapter can raise is this call's outcome; a cancellation is ours)
            if self.error is None:
                self.error = error
        finally:
            self.finished = True
            run.wake.set()

    def take(self) -> deque[StreamEvent]:
        """The events not delivered yet; the pump goes on."""
        taken = self.events
        if taken and self.first_token_s is None:
            self.first_token_s = self._now() - self.started_at
        return taken

    def delivered(self) -> None:
        """Everything taken has been delivered."""
        self.events.clear()
        self._chars = 0
        if self._room is not None:
            self._room.set()

    def time_left(self) -> float | None:
        """Seconds until the call has been silent, or has lasted, too long; None is never."""
        now, retry, since = self._now(), self._retry, self._waiting_since
        idle = None if retry.idle_s is None else retry.idle_s - (now - since if since is not None else 0.0)
        if retry.call_s is None:
            return idle
        whole = retry.call_s - self._spent(now)
        return whole if idle is None else min(idle, whole)

    def _spent(self, now: float) -> float:
        """Seconds the call has taken, without those in which it waited for the consumer."""
        until = now if self._held_since is None else self._held_since
        return until - self.started_at - self._held_s

    def time_out(self) -> None:
        """End the call: which of its times was up is in the error."""
        if self.finished:
            return
        retry = self._retry
        if retry.call_s is not None and self._spent(self._now()) >= retry.call_s:
            self.error = ModelTimeoutError("model: the call took too long", limit_s=retry.call_s)
        else:
            self.error = StreamIdleError("model: no data from the server", limit_s=retry.idle_s)
        self._job.cancel()
        self._run.wake.set()


async def ask_model(run: Run) -> None:
    """Perform the step "ask the model": one committed reply, an error fact, or nothing on abort."""
    attempt, recoveries, sent = 1, run.limits.overflow_recoveries, ""
    while not run.aborted:
        request, fingerprint = await _project(run)
        if fingerprint == sent:
            run.fail(ContextOverflowError("context: could not be made smaller", fingerprint=sent))
            return
        await pull()
        await run.flush()
        if run.aborted:
            return
        call = _Attempt(run, request, attempt)
        try:
            while call.going_on():
                if not (call.deliver() or run.outbox):
                    await run.wake.wait()
                if run.outbox:
                    await pull()
            if not call.finished:
                await run.stop_jobs(run.limits.grace_s)
                run.give_up()
        except BaseException:
            call.leave()
            raise
        finally:
            run.watchdog.release()
        error = call.conclude()
        if error is None:
            await pull()  # the reply is seen before its calls are dispatched
            return
        if isinstance(error, ContextOverflowError) and recoveries and run.config.context is not None:
            run.record(ContextCompacting("overflow", describe(error)))
            await pull()
            await run.flush()
            if await _compact(run, run.config.context, "overflow"):
                recoveries, sent = recoveries - 1, fingerprint
                continue
        delay_s = _delay(run, error, attempt)
        if delay_s is None:
            run.fail(error)
            return
        run.record(
            RetryEvent(
                attempt, run.config.retry.attempts, delay_s, error_kind(error), message=describe(error)
            )
        )
        await pull()
        await _wait(run, delay_s)
        attempt += 1


async def _project(run: Run) -> tuple[ModelRequest, str]:
    """Choose the view, lower it and announce the call; the request and its fingerprint."""
    manager = run.config.context
    if manager is not None:
        caller = _caller(run)
        if run.outbox:
            await pull()  # a strategy may take its time
        try:
            view = run.state.messages
            chosen = await run.ask_host(lambda: manager.project(view, caller))
            return _announce(run, chosen)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (a strategy that fails must not end the run: the whole view is sent)
            run.warn("context", f"projection failed, the whole transcript is sent: {describe(error)}")
    return _announce(run, Projection(messages=run.state.messages))


def _announce(run: Run, projection: Projection) -> tuple[ModelRequest, str]:
    """Record what the next call sees; the request and its fingerprint."""
    request, fact = run.projector.project(run.recorder, run.request, projection)
    if not request.messages:
        raise ValueError("the view is empty")
    run.record(fact)
    run.projector.recorded(fact)
    return request, fact.fingerprint


class _Attempt:
    """One call of the model: its signals, and its reply or its error."""

    __slots__ = ("_attempt", "_builder", "_call", "_id", "_run", "_started")

    def __init__(self, run: Run, request: ModelRequest, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        self._id = run.next_id()
        self._builder = ReplyBuilder()
        self._started = False
        self._call = ModelCall(run, run.config.model, request, run.config.retry)

    def going_on(self) -> bool:
        """Whether more may come, or what came is still to be delivered."""
        call = self._call
        if self._run.aborted or (call.error is not None and not call.events):
            return False
        return bool(call.events) or not call.finished

    @property
    def finished(self) -> bool:
        """Whether the model's stream has ended."""
        return self._call.finished

    def deliver(self) -> bool:
        """Take what has arrived into the reply and show it; whether anything had arrived."""
        call, run = self._call, self._run
        if not call.events:
            return False
        signals: list[Signal] = []
        add, run_id = self._builder.add, run.id
        try:
            for event in call.take():
                add(event)
                if type(event) is TextDelta:  # by far the most frequent
                    signals.append(MessageUpdate(clean_text(event.text), "text", event.index, run_id=run_id))
                elif (signal := _shown(event, run_id)) is not None:
                    signals.append(signal)
        except Exception as error:  # noqa: BLE001 (an adapter that sends nonsense: it is this call's outcome)
            call.error = error
        call.delivered()
        if signals and not self._started:
            self._started = True
            signals.insert(0, MessageStart("assistant", self._id, run_id=run.id))
        run.recorder.signal(signals)
        return True

    def conclude(self) -> BaseException | None:
        """Record the reply, or that there is none; the error to deal with, if there is one."""
        run, end, call = self._run, self._builder.end, self._call
        if run.aborted:
            self._discard("aborted")
            self._respond("canceled")
            return None
        if end is None:
            error = call.error or PartialStreamError(
                "model: the stream ended without its end event", text=self._builder.text
            )
            self._discard(error_kind(error))
            self._respond(error_kind(error))
            return error
        self._commit()
        self._respond("")
        if call.error is not None:  # the reply is whole: what failed is only the closing of its stream
            run.warn(
                "stream_close", f"the reply is complete, its stream did not close: {describe(call.error)}"
            )
        return None

    def leave(self) -> None:
        """Account for a call that the consumer left, or that a fault of the kernel cut off."""
        run = self._run
        if run.recorder.run is run and not run.recorder.broken:
            self.deliver()
            self._discard("canceled")
            self._respond("canceled")

    def _commit(self) -> None:
        run = self._run
        reply = self._builder.message(id=self._id, timestamp=run.clock.time())
        settled = settle_calls(reply, run.state.seen_calls)
        if not self._started:
            run.recorder.signal((MessageStart("assistant", self._id, run_id=run.id),))
        run.record(MessageEnd(self._id, settled.reply))
        for call in settled.duplicates:
            run.warn("duplicate_call", f"call {call.id!r} of tool {call.name!r} came twice; it runs once")

    def _discard(self, reason: str) -> None:
        if self._started:
            run = self._run
            run.recorder.signal((MessageDiscarded(self._id, reason, run_id=run.id),))

    def _respond(self, kind: str) -> None:
        """Record what the call came to, for accounting."""
        run, end, call = self._run, self._builder.end, self._call
        run.record(
            ModelResponse(
                model=clean_text(end.model if end else "") or run.config.model.name,
                usage=end.usage if end else NO_USAGE,
                stop_reason=end.stop_reason if end else "",
                error_kind=kind,
                attempt=self._attempt,
                first_token_s=call.first_token_s,
                total_s=run.clock.monotonic() - call.started_at,
                response_id=clean_text(end.response_id) if end else "",
                message_id="" if kind else self._id,
            )
        )


def _shown(event: StreamEvent, run_id: str) -> Signal | None:
    """The signal that shows a stream event other than text; None for one that shows nothing."""
    if type(event) is ToolCallDelta:
        return MessageUpdate(clean_text(event.args), "tool_call", event.index, run_id=run_id)
    if type(event) is ThinkingDelta and event.text:
        return MessageUpdate(clean_text(event.text), "thinking", event.index, run_id=run_id)
    return None


def _checked_end(end: StreamEnd) -> StreamEnd:
    """An end event as a log can hold it.

    Raises:
        ModelError: the adapter filled a field with something else.
    """
    if not end.metadata:
        with suppress(msgspec.MsgspecError, TypeError, ValueError):  # the rest is the careful way's to tell
            if _decode_end(_encode_end(end)) == end:
                return end
    try:
        fields = msgspec.to_builtins(msgspec.structs.replace(end, metadata={}))
        plain = {**fields, "metadata": plain_json(end.metadata)}
        return msgspec.convert(clean_json(plain)[0], StreamEnd)
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        raise ModelError(f"model: its end event is not valid: {describe(error)}") from error


def _delay(run: Run, error: BaseException, attempt: int) -> float | None:
    if not is_retryable(error):
        return None
    hint_s = error.retry_after_s if isinstance(error, ModelError) else None
    return retry_delay(attempt, hint_s, run.config.retry, run.config.rand)


async def _wait(run: Run, seconds: float) -> None:
    """Let time pass, but not beyond an abort; what is queued meanwhile is shown."""
    over: list[bool] = []

    def wake() -> None:
        over.append(True)
        run.wake.set()

    cancel = run.clock.call_later(seconds, wake)
    try:
        while not over and not run.aborted:
            await run.wake.wait()
            if run.outbox:
                await pull()
    finally:
        cancel()


async def _compact(run: Run, manager: ContextManager, reason: str) -> bool:
    """Have the context manager make the view smaller; whether it did."""
    before = len(run.state.messages)
    try:
        view, caller = run.state.messages, _caller(run)
        compaction = await run.ask_host(lambda: manager.compact(view, reason, caller))
        stored = tuple([run.recorder.store(message) for message in compaction.messages])
        replaced = _replaced(run, compaction)
    except Exception as error:  # noqa: BLE001 (the run then fails by the overflow that this should have mended)
        run.warn("context", f"compaction failed: {describe(error)}")
        compaction, stored, replaced = Compaction(changed=False), (), None
    fact = ContextCompacted(
        committed=replaced is not None,
        reason=reason,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        messages_before=before,
        messages_after=before,
        messages=stored,
        replaced=replaced,
    )
    if replaced is not None:
        ids = run.state.ids.since(0)
        gone = ids.index(replaced.last) - ids.index(replaced.first) + 1
        fact = msgspec.structs.replace(fact, messages_after=before - gone + len(stored))
    run.record(fact)
    return compaction.changed


def _replaced(run: Run, compaction: Compaction) -> Replaced | None:
    """The committed range that a compaction stands for; None where it commits nothing.

    Raises:
        ValueError: the transcript has no such range.
    """
    if not (compaction.changed and compaction.commit):
        return None
    ids = run.state.ids.since(0)
    first, last = compaction.first, compaction.last
    if first not in ids or last not in ids or ids.index(first) > ids.index(last):
        raise ValueError(f"a compaction replaces no range of the transcript (first={first!r}, last={last!r})")
    return Replaced(first=first, last=last)


def _caller(run: Run) -> CallModel:
    """What strategies call models through: recorded and priced, never part of the transcript."""

    async def call_model(request: ModelRequest, purpose: str) -> Message:
        started_at = run.clock.monotonic()

        def respond(usage: Usage | None, stop_reason: str | None, kind: str) -> None:
            if run.recorder.run is not run:
                return  # a strategy that did not stop when the run ended
            run.record(
                ModelResponse(
                    model=run.config.model.name,
                    usage=usage or NO_USAGE,
                    stop_reason=stop_reason or "",
                    error_kind=kind,
                    total_s=run.clock.monotonic() - started_at,
                    purpose=purpose,
                )
            )

        try:
            reply = await generate(run.config.model, request)
        except ModelError as error:
            respond(None, None, error.error_kind)
            raise
        respond(reply.usage, reply.stop_reason, "")
        return reply

    return call_model
