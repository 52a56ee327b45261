"""A model's stream, pumped by a task of its own, with both timeouts.

The pump pauses while too much is undelivered; the time in which it waits for the consumer counts
against nobody.

Read with: ``model_call.py`` (the owner), ``watchdog.py``.
"""

from collections import deque
from contextlib import aclosing, suppress

import msgspec

from .errors import ModelError, ModelTimeoutError, StreamIdleError, describe
from .json_edge import clean_json, plain_json
from .limits import Retry
from .ports import ChatModel, ModelRequest, StreamEnd, StreamEvent, TextDelta
from .run import Run
from .spawn import Waker

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
