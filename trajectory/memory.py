"""A log in memory: for tests, and for runs nobody needs to keep.

Read with: ``tails.py``, ``unspool.kernel.recorder`` (``SessionLog``).
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from threading import Lock
from typing import Self

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact
from unspool.kernel.state import AgentState, fold

from .strict import SIGNALS
from .tails import Tails


class MemoryLog:
    """Keeps facts in ``facts``; nothing survives the process.

    ``session`` is the id of the session, random where it is empty; ``facts`` are what it begins with. ``seq`` is
    the number of the last one kept, 0 if there is none.
    """

    def __init__(self, facts: Iterable[Fact] = (), *, session: str = "") -> None:
        self.facts: list[Fact] = list(facts)
        self.session = session or os.urandom(16).hex()
        self._closed = False
        self._lock = Lock()
        self._tails = Tails()

    @property
    def seq(self) -> int:
        return self.facts[-1].seq if self.facts else 0

    def append(self, fact: Fact, /) -> None:
        """Keep ``fact``; from any thread. Signals are passed over, for consumers that log all they are given.

        An empty log takes any fact as its first: that of a session that others began.

        Raises:
            LogError: it is not the next fact, or the log is closed.
        """
        if type(fact) in SIGNALS:
            return
        with self._lock:
            if self._closed:
                raise LogError("log: closed")
            if self.facts and fact.seq != self.facts[-1].seq + 1:
                last = self.facts[-1].seq
                raise LogError(
                    "log: not the next fact; a log belongs to one session", seq=fact.seq, last=last
                )
            self.facts.append(fact)
        if self._tails:
            self._tails.wake()

    async def flush(self) -> None:
        """Nothing to wait for."""

    def state(self, codec: Codec | None = None) -> AgentState:
        """What the facts so far come to."""
        return fold(self.facts)

    def records(self) -> Iterator[Record]:
        """The facts so far, as they would be stored."""
        codec = Codec()
        return (Record(fact, codec.encode(fact)) for fact in list(self.facts))

    async def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Fact]:
        """Facts with ``start < seq``, and ``seq <= stop`` where given."""
        for fact in self.facts:
            if fact.seq > start and (stop is None or fact.seq <= stop):
                yield fact

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """Like ``read``, then waiting for more until this log or the generator is closed."""
        waiter = self._tails.join()
        position = 0
        try:
            while True:
                closed = self._closed
                while position < len(self.facts):
                    fact = self.facts[position]
                    position += 1
                    if fact.seq > start:
                        yield fact
                if closed:
                    return
                await waiter.wait()
        finally:
            self._tails.leave(waiter)

    def close(self) -> None:
        """End all tails once they have given what there is; nothing more is kept. Again: nothing."""
        self._closed = True
        self._tails.wake()

    async def aclose(self) -> None:
        """``close``, as the kernel calls it."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
