"""Lets the outside of a replayed run happen where it was recorded.

A run is replayed by the real loop. Everything that comes from outside waits here until the facts before it
have come again: an answer of the model, the end of a tool, a message, an abort. When everything waits, what is
next in the recording is let go; when nothing is next that could be let go, the replay has come to its end
or to a difference.

Read with: ``replay.py``, ``recording.py``.
"""

import heapq
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final

import anyio
import anyio.lowlevel
from msgspec.structs import force_setattr

from unspool.kernel.codec import Codec
from unspool.kernel.errors import LogError
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    Cut,
    Fact,
    ModelResponse,
    QueueChanged,
    RetryEvent,
    ToolExecEnd,
)
from unspool.kernel.spawn import Job, Waker, current_backend

from .differences import Difference, difference_of
from .recording import Recording, is_input

SETTLE: Final = 30  # rounds of the event loop in which nothing happens: then everything waits


class Stopped(LogError):
    """The replay goes no further: the recording has ended, was cut off by a crash, or differs."""


class Conductor:
    """Where a replay stands, and who waits for it to come further.

    ``stall`` is called when everything waits; it lets something go, and says whether it could. ``stuck`` is
    called when nothing could, not even a timer. ``settle`` rounds of the event loop in which nothing happens
    are taken for waiting; code of the host's that is ``watched`` may do nothing for ``patience_s`` of real
    time.
    """

    def __init__(
        self, recording: Recording, codec: Codec, settle: int = SETTLE, patience_s: float = 0.0
    ) -> None:
        self.recording = recording
        self.position = 0  # the number of the last fact that has come again
        self.difference: Difference | None = None
        self.stopped = False
        self.ending = False  # the run is told to end: nobody waits any more
        self.cut: Cut | None = None  # when the run under way was cut short, where it was
        self.last_acts: dict[
            str, Callable[[], None]
        ] = {}  # what is done by a call in the moment when it ends
        self.busy = 0  # how much code of the host's is under way, which takes real time
        self._patience_s = patience_s
        self.released = False  # whoever still waits was cut off, too
        self.over: set[str] = set()  # calls that have really run, and have an outcome
        self.allowed = 0  # who waits for a fact up to this one need not wait any more
        self.stall: Callable[[], bool] = lambda: False
        self.stuck: Callable[[], None] = lambda: None
        self._settle = settle
        self.clock = ReplayClock(self)
        self._codec = codec
        self._waiting: list[tuple[int, Waker]] = []
        self._ticks = 0
        self._job: Job | None = None

    @property
    def next(self) -> Fact | None:
        """The fact that comes next in the recording."""
        return self.recording.at(self.position + 1)

    def tick(self) -> None:
        """Something happened."""
        self._ticks += 1

    def check(self, fact: Fact) -> None:
        """Take in a fact of the replay.

        Raises:
            Stopped: it is not the one that comes next.
        """
        recorded = self.next
        if recorded is None:
            self._stop(None)
        elif (
            fact.run_id
            and type(fact) is not AgentStart
            and (recorded.run_id != fact.run_id or type(recorded) is AgentStart)
        ):
            self._stop(None)  # the process died here: another run goes on, or somebody in between
        else:
            _take_measurements(recorded, fact)
            difference = difference_of(recorded, fact, self._codec)
            if difference is not None:
                self._stop(difference)
        self.position = fact.seq
        self.tick()
        self.wake()

    def _stop(self, difference: Difference | None) -> None:
        self.stopped = self.ending = self.released = True
        self.difference = self.difference or difference
        self.wake()
        raise Stopped("replay: goes no further")

    def wake(self) -> None:
        """Let everybody look at where the replay stands."""
        for seq, waker in self._waiting:
            if self.ending or self.released or seq <= max(self.position, self.allowed):
                waker.set()

    def allow(self, seq: int) -> None:
        """Let the tools end that wait for a fact up to number ``seq``; after a cut, all of them."""
        self.allowed = max(self.allowed, seq)
        self.released = self.cut is not None and self.position >= self.cut.seq
        self.wake()

    async def until(self, seq: int) -> None:
        """Wait until fact ``seq`` has come again, or the run is told to end."""
        await self._wait(seq, lambda: self.ending or seq <= self.position)

    async def let_go(self, seq: int) -> None:
        """Wait, as a tool, until fact ``seq`` has come again, or its run waits for it to end."""
        await self._wait(seq, lambda: self.released or seq <= max(self.position, self.allowed))

    async def let_go_together(self, call_id: str, seq: int) -> None:
        """The same for a call that has really run: those that ended together are waited for, too."""
        self.over.add(call_id)
        self.wake()
        await anyio.lowlevel.checkpoint()  # so that the last one goes on in the same round as those it woke
        group = self.recording.released_together.get(seq, frozenset())

        def over() -> bool:
            together = seq <= self.position and group <= self.over
            return self.released or seq < self.allowed or together

        await self._wait(seq, over)

    async def _wait(self, seq: int, over: Callable[[], bool]) -> None:
        entry = (seq, current_backend().waker())
        self._waiting.append(entry)
        try:
            while not over():
                await entry[1].wait()
        finally:
            self._waiting.remove(entry)
            self.tick()

    async def settle(self) -> None:
        """Wait until what comes next is the answer of whoever asks, and nothing from outside comes first."""
        for fact in self.recording.after(self.position):
            if not is_input(fact):
                await self.until(fact.seq - 1)
                break
        if self.cut is not None and self.cut.waiting and self.cut.seq == self.position:
            await self.forever()

    async def forever(self) -> None:
        """Wait until the run is told to end, or this call is let go with it."""
        await self.until(len(self.recording) + 1)

    # --- when everything waits ------------------------------------------------------------------

    def start(self) -> None:
        """Watch over a run."""
        self.ending = self.released = False
        self._job = current_backend().spawn(self._watch)

    async def end(self) -> None:
        """Stop watching."""
        job, self._job = self._job, None
        if job is not None:
            job.cancel()
            while not job.done:
                await anyio.lowlevel.checkpoint()

    def watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """``fn``, code of the host's: what it awaits may take real time."""

        async def attend(given: Awaitable[Any]) -> Any:
            self.busy += 1
            try:
                return await given
            finally:
                self.busy -= 1
                self.tick()

        def call(*args: Any) -> Any:
            given = fn(*args)
            return attend(given) if isawaitable(given) else given

        return call

    async def _watch(self) -> None:
        ticks, quiet_since = -1, anyio.current_time()
        while True:
            if ticks != self._ticks:
                ticks, quiet_since = self._ticks, anyio.current_time()
            for _ in range(self._settle):
                await anyio.lowlevel.checkpoint()
            if ticks != self._ticks:
                continue
            late = anyio.current_time() - quiet_since >= self._patience_s
            if self._go_on(late=late):
                self.tick()
            elif late or not self.busy:
                self._give_up()
            if self.busy:
                await anyio.sleep(0.001)

    def _go_on(self, *, late: bool) -> bool:
        """Everything waits: let something happen; whether it could. No time passes while code of the host's
        is at work; what is ``late`` to end when the run is over is not waited for."""
        try:
            if not self.stopped and self.stall():
                return True
        except Stopped:  # what was let in is not what was recorded
            self._give_up()
        over = late and self.stopped
        return (over or self.busy <= self.clock.sleepers) and self.clock.fire()

    def _give_up(self) -> None:
        if not self.stopped:
            self.stuck()


class ReplayClock:
    """The recorded time. Timers run out when everything else waits, in their order."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self.sleepers = 0  # those who wait for nothing but time
        self._now = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()
        self._numbers = itertools.count()

    def time(self) -> float:
        """That of the fact that comes next."""
        recorded = self._conductor.next
        return recorded.time if recorded is not None else 0.0

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float, /) -> None:
        waker = current_backend().waker()
        cancel = self.call_later(seconds, waker.set)
        self.sleepers += 1
        try:
            await waker.wait()
        finally:
            self.sleepers -= 1
            cancel()

    def call_later(self, seconds: float, fn: Callable[[], None], /) -> Callable[[], None]:
        number = next(self._numbers)
        heapq.heappush(self._timers, (self._now + max(0.0, seconds), number, fn))
        return lambda: self._cancelled.add(number)

    def fire(self) -> bool:
        """Let time pass until the next timer; whether there is one."""
        while self._timers:
            at, number, fn = heapq.heappop(self._timers)
            if number in self._cancelled:
                self._cancelled.discard(number)
                continue
            self._now = max(self._now, at)
            fn()
            return True
        return False


class ReplayLog:
    """The log of a replay: keeps nothing, compares."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def append(self, fact: Fact, /) -> None:
        """Compare a fact with the recorded one.

        Raises:
            Stopped: they differ, or nothing more was recorded.
        """
        self._conductor.check(fact)

    async def flush(self) -> None:
        """Nothing is stored."""

    async def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Fact]:
        for fact in self._conductor.recording.after(start):
            if stop is None or fact.seq <= stop:
                yield fact

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        for fact in self._conductor.recording.after(start):
            yield fact

    async def aclose(self) -> None:
        """Nothing is open."""


def _take_measurements(recorded: Fact, fact: Fact) -> None:
    """Durations, delays, and the very moment of an intervention are measured, or drawn by lot: a replay has
    those recorded."""
    if isinstance(fact, QueueChanged) and isinstance(recorded, QueueChanged):
        force_setattr(fact, "waiting", recorded.waiting)
    elif isinstance(fact, AgentEnd) and isinstance(recorded, AgentEnd) and fact.cut and recorded.cut:
        force_setattr(fact, "cut", recorded.cut)
    elif isinstance(fact, RetryEvent) and isinstance(recorded, RetryEvent):
        force_setattr(fact, "delay_s", recorded.delay_s)
    if isinstance(fact, ToolExecEnd) and isinstance(recorded, ToolExecEnd):
        force_setattr(fact, "duration_s", recorded.duration_s)
    elif isinstance(fact, ModelResponse) and isinstance(recorded, ModelResponse):
        force_setattr(fact, "total_s", recorded.total_s)
        force_setattr(fact, "first_token_s", recorded.first_token_s)
