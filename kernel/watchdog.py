"""One timer for all model calls of a run.

A call only says how long it may still take; the timer that an earlier call left behind serves it
when it fires early enough. So a turn sets no timer at all.

Read with: ``model_call.py``.
"""

from collections.abc import Callable
from typing import Protocol

from .ports import Clock


class Watched(Protocol):
    """Something with a deadline."""

    def time_left(self) -> float | None:
        """Seconds it may still take; None for ever."""
        ...

    def time_out(self) -> None:
        """It took too long."""
        ...


class Watchdog:
    """Ends what it watches when its time is up."""

    __slots__ = ("_cancel", "_clock", "_fires_at", "_watched")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: Watched | None = None
        self._cancel: Callable[[], None] | None = None
        self._fires_at = 0.0

    def watch(self, watched: Watched) -> None:
        """Watch this from now on, instead of what was watched before."""
        self._watched = watched
        left = watched.time_left()
        if left is not None and (self._cancel is None or self._clock.monotonic() + left < self._fires_at):
            self._arm(left)

    def release(self) -> None:
        """Watch nothing; the timer stays for the next."""
        self._watched = None

    def stop(self) -> None:
        """Watch nothing any more."""
        self._watched = None
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _arm(self, seconds: float) -> None:
        if self._cancel is not None:
            self._cancel()
        self._fires_at = self._clock.monotonic() + seconds
        self._cancel = self._clock.call_later(max(0.0, seconds), self._fire)

    def _fire(self) -> None:
        self._cancel = None
        watched = self._watched
        left = watched.time_left() if watched is not None else None
        if watched is None or left is None:
            return
        if left <= 0:
            watched.time_out()
        else:
            self._arm(left)
