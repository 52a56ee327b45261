"""Which run of an agent is under way, and who may start the next: one at a time, none while held.

All of it is decided under one lock, so that a message is never told to have reached a run that has
ended, and two prompts never start together. Where both are held, the recorder's lock comes first.

Read with: ``agent.py`` (the owner), ``stream.py`` (``Watcher``).
"""

from collections import deque
from collections.abc import Callable
from threading import RLock

from .abort import Abort
from .errors import AgentBusyError, RunsHeldError
from .events import AgentEnd, Event
from .spawn import Backend, Waker, current_backend


class Ticket:
    """The right to the one run of an agent; also the run's watcher."""

    def __init__(self, runs: "Runs", *, internal: bool = False) -> None:
        self._runs = runs
        self.internal = internal  # a run that somebody who holds the others needs
        self.abort = Abort()
        self.begun = False
        self.over = False

    def begin(self) -> None:
        """See ``Watcher.begin``; a stream takes its turn only now."""
        self._runs.take(self)
        self.begun = True

    def tell(self, event: Event) -> None:
        """See ``Watcher.tell``. At the end the next run may start, from a listener even."""
        self._runs.tell(event, self._release if isinstance(event, AgentEnd) else None)

    def _release(self) -> None:
        self._runs.release(self)
        self._runs.wake()

    def end(self) -> None:
        """See ``Watcher.end``."""
        self._release()


class Runs:
    """The runs of one agent."""

    def __init__(self, tell: Callable[[Event, Callable[[], None] | None], None]) -> None:
        self.lock = RLock()
        self.tell = tell
        self.active: Ticket | None = None
        self.holds = 0
        self._line: deque[Ticket] = deque()  # those that wait their turn, in order
        self._waiting: list[tuple[Backend, Waker]] = []

    @property
    def free(self) -> bool:
        """Whether a run may start at once."""
        return self.active is None and not self._line and not self.holds

    def take(self, ticket: Ticket) -> None:
        """Make ``ticket`` the run under way, if it is not already.

        Raises:
            RunsHeldError: runs are held.
            AgentBusyError: another run is under way, or comes first.
        """
        with self.lock:
            if self.active is ticket:
                return
            if self.holds and not ticket.internal:
                raise RunsHeldError("agent: its runs are held, none may start")
            if ticket.over:
                raise AgentBusyError("agent: this run is over; start another")
            ahead = self._line and self._line[0] is not ticket and not ticket.internal
            if self.active is not None or ahead:
                raise AgentBusyError("agent: a run is under way; steer it, queue a follow-up, or wait")
            self.active = ticket

    async def take_in_turn(self, ticket: Ticket, interrupt: Callable[[], None] | None = None) -> None:
        """Wait in line until ``ticket`` is the run under way; one that interrupts goes first.

        ``interrupt`` ends the run under way now, and is not called for those that come later.

        Raises:
            RunsHeldError: runs are held.
        """
        with self.lock:
            (self._line.append if interrupt is None else self._line.appendleft)(ticket)
        try:
            if interrupt is not None:
                interrupt()
            while True:
                try:
                    self.take(ticket)
                    return
                except AgentBusyError:
                    await self._news()
        finally:
            with self.lock:
                self._line.remove(ticket)
            self.wake()

    def release(self, ticket: Ticket) -> None:
        """The run is over."""
        with self.lock:
            ticket.over = True
            if self.active is ticket:
                self.active = None

    def wake(self) -> None:
        """Let those look again who wait for something to change."""
        with self.lock:
            waiting, self._waiting = self._waiting, []
        for backend, waker in waiting:
            backend.call_soon(waker.set)

    async def wait_idle(self) -> None:
        """Return when no run is under way and none waits its turn."""
        while self.active is not None or self._line:
            await self._news()

    async def wait_ended(self) -> None:
        """Return when no run is under way."""
        while self.active is not None:
            await self._news()

    async def _news(self) -> None:
        backend = current_backend()
        waker = backend.waker()
        waiting = (backend, waker)
        with self.lock:
            self._waiting.append(waiting)
        try:
            await waker.wait()
        finally:
            with self.lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
