"""One reply of the model: compose, announce, stream, retry, commit.

``ask_model`` performs the step: it pauses whenever the consumer is to see what was recorded. An
attempt that fails leaves nothing in the transcript; every attempt leaves its ``model_response``.

Read with: ``request.py``, ``model_stream.py``, ``retry.py``, ``reply.py``.
"""

from msgspec.structs import replace

from .calls import settle_calls
from .errors import (
    ContextOverflowError,
    HookError,
    ModelError,
    PartialStreamError,
    describe,
    error_kind,
    is_retryable,
)
from .events import (
    ContextCompacting,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    RetryEvent,
    Signal,
)
from .hooks import ReplyInfo
from .json_edge import clean_text
from .messages import NO_USAGE, Message, Text
from .model_stream import ModelCall
from .ports import ModelRequest, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta
from .pull import pull
from .reply import ReplyBuilder
from .request import compact, compose
from .retry import retry_delay
from .run import Run


async def ask_model(run: Run) -> None:
    """Perform the step "ask the model": one committed reply, an error fact, or nothing on abort."""
    attempt, recoveries, sent = 1, run.limits.overflow_recoveries, ""
    while not run.aborted:
        composed = await compose(run, attempt)
        if composed is None:
            return
        request, fingerprint = composed.request, composed.fingerprint
        if request is None:
            await _take_given(run, composed.reply or Message(role="assistant"), attempt)
            return
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
        await _tell(run, call.reply, call.response)
        if error is None or run.state.failed:
            await pull()  # the reply is seen before its calls are dispatched
            return
        if isinstance(error, ContextOverflowError) and recoveries and run.config.context is not None:
            run.record(ContextCompacting("overflow", describe(error)))
            await pull()
            await run.flush()
            if await compact(run, run.config.context, "overflow"):
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


async def _take_given(run: Run, reply: Message, attempt: int) -> None:
    """Commit the reply that a hook gave in place of the model."""
    id = run.next_id()
    stop_reason = reply.stop_reason or ("tool_use" if reply.has_tool_calls else "stop")
    reply = replace(reply, id=id, timestamp=run.clock.time(), stop_reason=stop_reason)
    reply = _commit_reply(run, id, reply, started=False)
    response = run.record(
        ModelResponse(
            model=run.config.model.name,
            usage=reply.usage or NO_USAGE,
            stop_reason=stop_reason,
            attempt=attempt,
            source="hook",
            message_id=id,
        )
    )
    await _tell(run, reply, response)
    await pull()


async def _tell(run: Run, reply: Message | None, response: ModelResponse) -> None:
    """Show the host what a model call came to."""
    hook = run.config.hooks.after_model_call
    if hook is None or run.aborted:
        return
    await pull()  # the hook may take its time
    info = ReplyInfo(reply, response, run.state)
    try:
        await run.ask_host(lambda: hook(info))
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: after_model_call raised", reason=describe(error)))


def _commit_reply(run: Run, id: str, reply: Message, *, started: bool) -> Message:
    settled = settle_calls(reply, run.state.seen_calls)
    if not started:
        run.recorder.signal((MessageStart("assistant", id, run_id=run.id),))
    run.record(MessageEnd(id, settled.reply), reply.timestamp)
    for call in settled.duplicates:
        text = f"call {call.id!r} of tool {call.name!r} came twice; it runs once"
        run.warn("duplicate_call", text, call_id=call.id)
    return settled.reply


class _Attempt:
    """One call of the model: its signals, and its reply or its error."""

    __slots__ = ("_attempt", "_builder", "_call", "_id", "_run", "_started", "reply", "response")

    def __init__(self, run: Run, request: ModelRequest, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        self._id = run.next_id()
        self._builder = ReplyBuilder()
        self._started = False
        self.reply: Message | None = None
        self.response = ModelResponse()
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
            self._stop()
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
            run.cut_short("left")
            self.deliver()
            self._discard("canceled")
            self._respond("canceled")

    def _commit(self) -> None:
        reply = self._builder.message(id=self._id, timestamp=self._run.clock.time())
        self.reply = _commit_reply(self._run, self._id, reply, started=self._started)

    def _stop(self) -> None:
        """The run was aborted: keep what the host wants kept of the unfinished answer."""
        run, abort, kept = self._run, self._run.config.abort, ""
        try:
            if abort is not None:
                text = clean_text(self._builder.text)
                kept = clean_text(abort.kept(text[: len(text) - run.unseen]))
        except Exception as error:  # noqa: BLE001 (the host's function: the run ends as it would have, without the text)
            run.fail(HookError("abort: keep raised", reason=describe(error)))
        if not kept.strip():
            self._discard("aborted")
            return
        message = Message(
            role="assistant",
            content=(Text(kept),),
            id=self._id,
            stop_reason="interrupted",
            timestamp=run.clock.time(),
        )
        self.reply = _commit_reply(run, self._id, message, started=self._started)

    def _discard(self, reason: str) -> None:
        if self._started:
            run = self._run
            run.recorder.signal((MessageDiscarded(self._id, reason, run_id=run.id),))

    def _respond(self, kind: str) -> None:
        """Record what the call came to, for accounting."""
        run, end, call = self._run, self._builder.end, self._call
        self.response = run.record(
            ModelResponse(
                model=clean_text(end.model if end else "") or run.config.model.name,
                usage=end.usage if end else NO_USAGE,
                stop_reason=end.stop_reason if end else "",
                error_kind=kind,
                attempt=self._attempt,
                first_token_s=call.first_token_s,
                total_s=run.clock.monotonic() - call.started_at,
                response_id=clean_text(end.response_id) if end else "",
                message_id=self._id if self.reply is not None else "",
            )
        )
        if run.limits.cost is not None and end and end.usage.cost is None:
            self._warn_unpriced()

    def _warn_unpriced(self) -> None:
        """Say once of each model that a budget in money does not count what nobody knows the price of."""
        run, name = self._run, self._run.config.model.name
        if name not in run.unpriced:
            run.unpriced.add(name)
            text = f"no price is known for {name}: its calls do not count towards limits.cost"
            run.warn("no_price", text, cost_limit=run.limits.cost)


def _shown(event: StreamEvent, run_id: str) -> Signal | None:
    """The signal that shows a stream event other than text; None for one that shows nothing."""
    if type(event) is ToolCallDelta:
        return MessageUpdate(clean_text(event.args), "tool_call", event.index, run_id=run_id)
    if type(event) is ThinkingDelta and event.text:
        return MessageUpdate(clean_text(event.text), "thinking", event.index, run_id=run_id)
    return None


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
