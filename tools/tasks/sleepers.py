"""Waiting until something holds, on whichever event loop.

Read with: ``registry.py`` (the caller).
"""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from unspool.kernel.ports import Clock
from unspool.kernel.spawn import Backend, Waker, current_backend


class _Sleeper(NamedTuple):
    backend: Backend
    waker: Waker


class Sleepers:
    """Tasks that sleep until a condition holds; ``wake`` has each look again, from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sleepers: list[_Sleeper] = []

    async def until(
        self, done: Callable[[], bool], timeout_s: float | None = None, *, shielded: bool = False
    ) -> None:
        """Sleep until ``done()``, or for ``timeout_s``. Shielded, a cancellation is delivered afterwards."""
        backend = current_backend()
        sleeper = _Sleeper(backend, backend.waker())
        expired: list[bool] = []

        def expire() -> None:
            expired.append(True)
            sleeper.waker.set()

        with self._lock:
            self._sleepers.append(sleeper)
        cancel = self._clock.call_later(timeout_s, expire) if timeout_s is not None else None
        try:
            if shielded:
                await backend.shielded(sleeper.waker.wait, done)
            while not (done() or expired):
                await sleeper.waker.wait()
        finally:
            if cancel is not None:
                cancel()
            with self._lock:
                self._sleepers = [each for each in self._sleepers if each is not sleeper]

    def wake(self) -> None:
        """Have every sleeper look again."""
        with self._lock:
            sleepers = list(self._sleepers)
        for backend, waker in sleepers:
            backend.call_soon(waker.set)
