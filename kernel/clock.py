"""Clocks: the system's, and one that tests own.

Read with: ``ports.py`` (``Clock``).
"""

import heapq
import itertools
import time as _time
from collections.abc import Callable

import anyio
import anyio.lowlevel

from .spawn import Job, current_backend


class SystemClock:
    """The time of this machine and the timers of the running event loop."""

    time = staticmethod(_time.time)
    monotonic = staticmethod(_time.monotonic)

    async def sleep(self, seconds: float, /) -> None:
        await anyio.sleep(seconds)

    def call_later(self, seconds: float, fn: Callable[[], None], /) -> Callable[[], None]:
        return current_backend().call_later(seconds, fn)


class FakeClock:
    """A clock that jumps to the next timer whenever everything else waits.

    Sleeping costs no time, and order is that of the deadlines. ``now`` is both the monotonic and
    the epoch time, in seconds. For tests of code that waits only for this clock: real input or
    threads that are under way do not hold it back.
    """

    SETTLE = 40  # rounds of the event loop without a new timer that count as "everything waits"

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()
        self._numbers = itertools.count()
        self._driver: Job | None = None

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float, /) -> None:
        waker = current_backend().waker()
        cancel = self.call_later(seconds, waker.set)
        try:
            await waker.wait()
        finally:
            cancel()

    def call_later(self, seconds: float, fn: Callable[[], None], /) -> Callable[[], None]:
        number = next(self._numbers)
        heapq.heappush(self._timers, (self.now + max(0.0, seconds), number, fn))
        if self._driver is None or self._driver.done:
            self._driver = current_backend().spawn(self._drive)
        return lambda: self._cancel(number)

    def _cancel(self, number: int) -> None:
        self._cancelled.add(number)
        self._drop_cancelled()
        if not self._timers and self._driver is not None:
            self._driver.cancel()
            self._driver = None

    def _drop_cancelled(self) -> None:
        timers = self._timers
        while timers and timers[0][1] in self._cancelled:
            self._cancelled.discard(heapq.heappop(timers)[1])
        if not timers:
            self._cancelled.clear()

    async def _drive(self) -> None:
        while self._timers:
            newest = next(self._numbers)
            for _ in range(self.SETTLE):
                await anyio.lowlevel.checkpoint()
            if next(self._numbers) != newest + 1:
                continue  # somebody set a timer meanwhile: not everything waits
            self._drop_cancelled()
            if self._timers:
                self.now, number, fn = heapq.heappop(self._timers)
                self._cancelled.discard(number)
                fn()
