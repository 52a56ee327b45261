"""Where the steps of a roster or a board are carried out, one after the other: in memory, or in a file.

Read with: ``sqlite_place.py``, ``roster_steps.py``, ``board_steps.py``.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from unspool.kernel.ports import Clock
from unspool.kernel.spawn import Waker, current_backend

from .errors import TeamError

T = TypeVar("T")


class Versioned(Protocol):
    """Steps on something whose ``version`` grows with each change."""

    @property
    def version(self) -> int: ...


S = TypeVar("S", bound=Versioned)
S_co = TypeVar("S_co", bound=Versioned, covariant=True)


class Place(Protocol[S_co]):
    """Carries out steps, each as a whole or not at all, in one order."""

    async def do(self, step: Callable[[S_co], T], undo: Callable[[S_co, T], None] | None = None) -> T:
        """What the step gives. Whoever is cancelled when it has happened has it undone, where that can be."""
        ...

    async def changed(self, since: int, timeout_s: float | None) -> None:
        """Wait until the version is not ``since`` any more, or the time is up (None: for ever)."""
        ...

    async def aclose(self) -> None: ...


def closed() -> TeamError:
    return TeamError("it was closed here: nothing more can be asked of it")


class MemoryPlace(Generic[S]):
    """In this process, for the tasks of one event loop; a step happens between two awaits."""

    def __init__(self, steps: S, clock: Clock) -> None:
        self._steps = steps
        self._clock = clock
        self._wakers: list[Waker] = []
        self._gone = False

    async def do(self, step: Callable[[S], T], undo: Callable[[S, T], None] | None = None) -> T:
        if self._gone:
            raise closed()
        before = self._steps.version
        try:
            return step(self._steps)
        finally:
            if self._steps.version != before:
                self._wake()

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()

    async def changed(self, since: int, timeout_s: float | None) -> None:
        over = False
        waker = current_backend().waker()

        def expire() -> None:
            nonlocal over
            over = True
            waker.set()

        stop_timer = None if timeout_s is None else self._clock.call_later(timeout_s, expire)
        self._wakers.append(waker)
        try:
            while not over and not self._gone and self._steps.version == since:
                await waker.wait()
        finally:
            self._wakers.remove(waker)
            if stop_timer is not None:
                stop_timer()

    async def aclose(self) -> None:
        self._gone = True
        self._wake()


async def repeated(
    attempt: Callable[[], Awaitable[tuple[T | None, int, float]]],
    place: Place[Any],
    clock: Clock,
    timeout_s: float | None,
) -> T | None:
    """What an attempt gives that is not None, made again after each change; None when the time is up.

    An attempt gives, besides, the version that it has seen, and in how many seconds it may fare better without a
    change.
    """
    until = inf if timeout_s is None else clock.monotonic() + timeout_s
    while True:
        value, version, again_s = await attempt()
        left = until - clock.monotonic()
        if value is not None or left <= 0:
            return value
        pause_s = min(left, again_s)
        await place.changed(version, None if pause_s == inf else pause_s)
