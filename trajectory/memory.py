"""A log in memory: for tests, and for runs nobody needs to keep."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial

from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact
from unspool.kernel.spawn import current_backend


class MemoryLog:
    """Keeps facts in ``facts``; nothing survives the process."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._closed = False
        self._tails: list[Callable[[], None]] = []

    def append(self, fact: Fact, /) -> None:
        if self.facts and fact.seq != self.facts[-1].seq + 1:
            last = self.facts[-1].seq
            raise LogError("log: not the next fact; a log belongs to one session", seq=fact.seq, last=last)
        self.facts.append(fact)
        for wake in self._tails:
            wake()

    async def flush(self) -> None:
        """Nothing to wait for."""

    async def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Fact]:
        for fact in self.facts:
            if fact.seq > start and (stop is None or fact.seq <= stop):
                yield fact

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        backend = current_backend()
        waker = backend.waker()
        wake = partial(backend.call_soon, waker.set)  # an append may come from any thread
        self._tails.append(wake)
        position = 0
        try:
            while True:
                while position < len(self.facts):
                    fact = self.facts[position]
                    position += 1
                    if fact.seq > start:
                        yield fact
                if self._closed:
                    return
                await waker.wait()
        finally:
            self._tails.remove(wake)

    async def aclose(self) -> None:
        """End all tails once they have given what there is."""
        self._closed = True
        for wake in self._tails:
            wake()
