"""Carries out steps on tables of an SQLite file, for several processes of one machine at once.

1. One thread has the connection. It carries out what the tasks of this process ask for, in order, each step in a
   transaction of its own; whoever asked is told after the commit.
2. Whoever waits for a change is woken at once by those of this process. For those of others the thread looks every
   ``poll_s`` seconds, while somebody waits, and only then.
3. Who is cancelled before its step has begun has it forgotten; else it waits for the outcome, and undoes what can be.

The file may hold the team's letters, too: each part has tables, and a connection, of its own.

Read with: ``place.py``, ``sqlite_file.py`` (opens the file).
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from anyio.lowlevel import current_token

from unspool.kernel.ports import Clock
from unspool.kernel.spawn import current_backend

from .errors import TeamError
from .place import Versioned, closed
from .sqlite_file import failure, opened

T = TypeVar("T")
POLL_S = 0.03


class StoredSteps(Versioned, Protocol):
    """Steps on what is stored. ``begin`` and ``end`` are called in a transaction, around each step."""

    def begin(self) -> None:
        """Read what the step needs, and the version."""
        ...

    def stored_version(self) -> int:
        """The version that the file has, from one short query."""
        ...

    def end(self) -> None:
        """Write what the step has changed."""
        ...

    def forget(self) -> None:
        """What was changed since ``begin`` was taken back."""
        ...


S = TypeVar("S", bound=StoredSteps)


class _Sleeper:
    """A task that sleeps until the thread wakes it; made in the event loop that it belongs to."""

    def __init__(self) -> None:
        self.backend = current_backend()
        self.waker = self.backend.waker()
        self.loop = current_token()
        self.done = False


class _Request(_Sleeper):
    """A step that was asked for."""

    def __init__(self, step: Callable[[Any], Any]) -> None:
        super().__init__()
        self.step = step
        self.begun = False
        self.value: Any = None
        self.error: BaseException | None = None


class _Watcher(_Sleeper):
    """Waits for another version."""

    def __init__(self, since: int) -> None:
        super().__init__()
        self.since = since


class SqlitePlace(Generic[S]):
    """A ``Place``. ``make`` gives the steps on a connection, ``tables`` are the statements that make what they need
    where it is missing. Close it: its thread and its connection are there until then.

    Raises:
        TeamError: the file cannot be opened, or is something else; (all methods) it cannot be read or written, or
            belongs to the process that this one was forked from.
        ValueError: ``poll_s`` is not positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tables: Sequence[str],
        make: Callable[[sqlite3.Connection], S],
        clock: Clock,
        *,
        poll_s: float = POLL_S,
        full: bool = False,
    ) -> None:
        if poll_s <= 0:
            raise ValueError(f"team: expected more than 0 s between looks at the file (poll_s={poll_s})")
        self._path = os.fspath(path)
        self._clock = clock
        self._poll_s = poll_s
        self._pid = os.getpid()
        self._connection = opened(self._path, full=full)
        try:
            self._steps = make(self._connection)
            self._in_transaction(lambda: [self._connection.execute(each) for each in tables])
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise failure(self._path, error) from error
            raise
        self._news = threading.Condition()
        self._asked: list[_Request] = []
        self._watchers: list[_Watcher] = []
        self._closing: list[_Sleeper] = []
        self._thread: threading.Thread | None = None
        self._has_new_watcher = False
        self._gone = False  # no more is taken
        self._ended = False

    # --- asked from event loops

    async def do(self, step: Callable[[S], T], undo: Callable[[S, T], None] | None = None) -> T:
        request = _Request(step)
        self._ask(request)
        try:
            while not request.done:
                await request.waker.wait()
        except BaseException:
            if not self._leave(request):
                try:
                    await request.backend.shielded(request.waker.wait, lambda: request.done)
                finally:
                    if undo is not None and request.error is None:
                        self._undo(undo, request.value)
            raise
        if request.error is not None:
            raise request.error
        value: T = request.value
        return value

    def _undo(self, undo: Callable[[S, T], None], value: T) -> None:
        with suppress(TeamError):  # closed meanwhile
            self._ask(_Request(lambda steps: undo(steps, value)))  # before whatever is asked for after this

    async def changed(self, since: int, timeout_s: float | None) -> None:
        watcher = _Watcher(since)

        def expire() -> None:
            watcher.done = True
            watcher.waker.set()

        self._check_process()
        with self._news:
            self._check_open()
            self._watchers.append(watcher)
            self._has_new_watcher = True
            self._go()
        stop_timer = None if timeout_s is None else self._clock.call_later(timeout_s, expire)
        try:
            while not watcher.done:
                await watcher.waker.wait()
        finally:
            watcher.done = True
            if stop_timer is not None:
                stop_timer()

    def _ask(self, request: _Request) -> None:
        self._check_process()
        with self._news:
            self._check_open()
            self._asked.append(request)
            self._go()

    def _check_process(self) -> None:
        """Before the lock, which a thread may have that the fork left behind.

        Raises:
            TeamError: this is a forked process. SQLite's locks stayed with the one that opened the file.
        """
        if os.getpid() != self._pid:
            raise TeamError("it belongs to the process that this one was forked from", path=self._path)

    def _check_open(self) -> None:
        if self._gone:
            raise closed()

    def _leave(self, request: _Request) -> bool:
        """Whether a request was forgotten, and so has not happened."""
        with self._news:
            if request.begun:
                return False
            request.done = True
            return True

    async def aclose(self) -> None:
        """Carry out what was asked for, wake who waits, and let go of the file; again does nothing."""
        if os.getpid() != self._pid:
            return
        sleeper = _Sleeper()
        with self._news:
            if self._ended:
                return
            self._gone = True
            self._closing.append(sleeper)
            self._go()
        await sleeper.backend.shielded(sleeper.waker.wait, lambda: sleeper.done)

    def _go(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="unspool team", daemon=True)
            self._thread.start()
        self._news.notify()

    # --- the thread

    def _work(self) -> None:
        while True:
            with self._news:
                self._watchers = [each for each in self._watchers if not each.done]
                if not (self._asked or self._closing or self._has_new_watcher):
                    self._news.wait(self._poll_s if self._watchers else None)
                asked, self._asked = self._asked, []
                closing, self._has_new_watcher = bool(self._closing), False
            for request in asked:
                self._carry_out(request)
            self._look()
            if closing:
                self._end()
                return

    def _carry_out(self, request: _Request) -> None:
        with self._news:
            if request.done:
                return
            request.begun = True
        try:
            request.value = self._in_transaction(lambda: self._stepped(request.step))
        except BaseException as error:  # noqa: BLE001 (told to the task that asked)
            self._steps.forget()
            request.error = failure(self._path, error) if isinstance(error, sqlite3.Error) else error
        self._tell([request])

    def _stepped(self, step: Callable[[S], Any]) -> Any:
        steps = self._steps
        steps.begin()
        value = step(steps)
        steps.end()
        return value

    def _in_transaction(self, fn: Callable[[], Any]) -> Any:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            value = fn()
            execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # on a full disk SQLite has taken it back itself
                self._connection.rollback()
        return value

    def _look(self) -> None:
        """Wake those who wait for what has happened, here or elsewhere."""
        with self._news:
            watchers = list(self._watchers)
        if not watchers:
            return
        try:
            version = self._steps.stored_version()
        except sqlite3.Error:
            self._tell(watchers)  # their next step meets it again, and tells
        else:
            self._tell([each for each in watchers if each.since != version])

    def _tell(self, sleepers: Sequence[_Sleeper]) -> None:
        for sleeper in sleepers:
            with self._news:
                sleeper.done = True
            sleeper.backend.call_soon(sleeper.waker.set)

    def _end(self) -> None:
        self._connection.close()
        with self._news:
            self._ended = True
            sleepers = [*self._asked, *self._watchers, *self._closing]
            for request in self._asked:
                request.error = closed()
        self._tell(sleepers)
