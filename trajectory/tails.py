"""Readers of a log in this process that wait for more.

Read with: ``jsonl.py``, ``sqlite.py``, ``memory.py``.
"""

from threading import get_ident

from unspool.kernel.spawn import current_backend


class Waiter:
    """One reader, woken from any thread."""

    def __init__(self) -> None:
        self._backend = current_backend()
        self._waker = self._backend.waker()
        self._thread = get_ident()

    async def wait(self) -> None:
        await self._waker.wait()

    def wake(self) -> None:
        if get_ident() == self._thread:
            self._waker.set()
        else:
            self._backend.call_soon(self._waker.set)


class Tails:
    """The readers that wait, in ``waiting``; false where there are none."""

    def __init__(self) -> None:
        self.waiting: list[Waiter] = []

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def join(self) -> Waiter:
        """A reader on this event loop."""
        waiter = Waiter()
        self.waiting.append(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        self.waiting.remove(waiter)

    def wake(self) -> None:
        """Something was stored, or the log was closed."""
        for waiter in list(self.waiting):
            waiter.wake()
