"""What the conformance kits for rosters and boards share: places that are opened and closed, and how faults are told.

Read with: ``roster_conformance.py``, ``board_conformance.py``, ``unspool.kernel.conformance``.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from anyio.lowlevel import checkpoint

from unspool.kernel.conformance import SETTLE, Check, Kit, Ran, Running, shown
from unspool.kernel.ports import Clock


class Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=Closable)
_SETTLE_S = 0.02


class PlaceKit(Kit, Generic[T]):
    """A kit for what ``make`` opens by the name of its place."""

    def __init__(
        self,
        make: Callable[[str], T | Awaitable[T]],
        clock: Clock | None,
        timeout_s: float,
        grace_s: float,
        *,
        durable: bool,
    ) -> None:
        super().__init__(lambda: None, clock, timeout_s, grace_s)
        self.durable = durable
        self._make_at = make
        self._opened: list[T] = []
        self._places = 0
        self._token = os.urandom(4).hex()

    def place(self) -> str:
        """The name of a new place."""
        self._places += 1
        return f"place{self._places}-{self._token}"

    async def opened(self, place: str = "") -> T:
        """What is at that place, or at a new one."""
        made: T = await self.must(self.fresh, partial(self._make_at, place or self.place()))
        self._opened.append(made)
        return made

    async def must(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What ``fn(*args)`` gives."""
        ran = await self.run(fn, *args)
        if ran.error is not None:
            raise ran.error
        if ran.late:
            raise TimeoutError(f"{fn!r} did not end in time")
        return ran.value

    async def settled(self) -> None:
        """Give tasks, and threads, the time to wait for what they wait for."""
        for _ in range(SETTLE):
            await checkpoint()
        await self.clock.sleep(_SETTLE_S)

    def same(self, got: object, wanted: object, expected: str, advice: str) -> None:
        if got != wanted:
            self.found_once(f"{expected}: {shown(wanted)}", shown(got), advice)

    async def refuses(self, fn: Callable[[], Awaitable[Any]], error: type[Exception], when: str) -> None:
        self.refused(await self.run(fn), error, when)

    def refused(self, ran: Ran, error: type[Exception], when: str) -> None:
        if not isinstance(ran.error, error):
            got = ran.failure or f"it gave {shown(ran.value)}"
            self.found_once(f"{when}: {error.__name__} is raised", got, f"raise {error.__name__}")

    async def ended(self, running: Running, when: str) -> Ran:
        """What a waiting call comes to now."""
        ran = await self.result(running)
        if ran.late:
            self.found_once(f"{when}: the call ends", ran.failure, "wake whoever waits, also all of several")
        return ran

    async def _carry_out(self, check: Check[Self]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        try:
            await super()._carry_out(check)
        finally:
            opened, self._opened = self._opened, []
            for each in opened:
                await self.run(each.aclose)
