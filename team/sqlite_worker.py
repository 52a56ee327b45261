"""The thread that has the connection to a mailbox's file: it carries out what the tasks of this process ask for.

1. What was asked for meanwhile is carried out in one transaction, in order; whoever asked is told after the commit.
2. What cannot be done yet is kept, by box and in order, and tried again when something happened in the box: in the
   same transaction where it happened here; else when the file was changed by another process or a lease is over,
   which the thread looks for every ``poll_s`` seconds while somebody waits, and only then.
3. Who leaves is forgotten, unless what it asked for is being carried out: then it has to wait for the outcome.

Read with: ``sqlite_boxes.py`` (the steps), ``sqlite_mailbox.py`` (who asks).
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from anyio.lowlevel import current_token

from unspool.kernel.ports import Clock
from unspool.kernel.spawn import current_backend

from .errors import TeamError
from .refusals import gone
from .sqlite_boxes import LATER, Boxes
from .sqlite_file import failure, opened


class Place(NamedTuple):
    """What is waited for in which box."""

    what: Literal["letter", "room"]
    name: str


class Request:
    """Something that a task asks for; made in the event loop that it belongs to.

    ``value`` stays ``LATER`` where it could not be done before its task left.
    """

    def __init__(self, step: Callable[[Boxes], Any], place: Place | None, *, at_once: bool) -> None:
        self.step = step
        self.place = place
        self.done = False
        self.value: Any = LATER
        self.error: BaseException | None = None
        self.leaving = at_once
        self.running = False
        self.backend = current_backend()
        self.waker = self.backend.waker()
        self.loop = current_token()


class Worker:
    """Raises:
    TeamError: the file cannot be opened, or is no mailbox.
    """

    def __init__(self, path: str, clock: Clock, poll_s: float, *, full: bool) -> None:
        self._path = path
        self._clock = clock
        self._poll_s = poll_s
        self._pid = os.getpid()
        self._connection = opened(path, full=full)
        self._boxes = Boxes(self._connection, clock)
        self._changed = threading.Condition()
        self._asked: list[Request] = []
        self._parked: dict[Place, list[Request]] = {}
        self._tried: list[Request] = []  # in the transaction that is under way
        self._closing: list[Request] = []
        self._thread: threading.Thread | None = None
        self._version = 0
        self._gone = False  # no more is taken
        self._ended = False

    # --- asked from event loops

    def ask(self, request: Request) -> None:
        """Have it carried out.

        Raises:
            BoxClosed: the mailbox was closed.
            TeamError: this is a forked process. SQLite's locks stayed with the one that opened the file.
        """
        self._check_process()
        with self._changed:
            if self._gone:
                raise gone()
            self._asked.append(request)
            self._go()

    def leave(self, request: Request) -> bool:
        """Whether a request was forgotten, and so has not happened; else it is done, or will be at once."""
        with self._changed:
            request.leaving = True
            if request.running or request.done:
                return False
            request.done = True
            return True

    def close(self, request: Request) -> bool:
        """Carry out what was asked for, send away who waits, and end; ``request`` is done then.

        False where it has ended already, or its thread is another process's.
        """
        if os.getpid() != self._pid:
            return False
        with self._changed:
            if self._ended:
                return False
            self._gone = True
            self._closing.append(request)
            self._go()
            return True

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise TeamError(
                "the mailbox belongs to the process that this one was forked from", path=self._path
            )

    def _go(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="unspool mailbox", daemon=True)
            self._thread.start()
        self._changed.notify()

    # --- the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._asked and not self._closing:
                    self._forget_left()
                    self._changed.wait(self._poll_s if self._parked else None)
                batch, self._asked = self._asked, []
                closing, self._closing = self._closing, []
            again = bool(self._parked) and not closing and self._has_news()
            if batch or again:
                self._transact(batch, again=again)
            if closing:
                self._end(closing)
                return

    def _forget_left(self) -> None:
        for place, requests in list(self._parked.items()):
            self._keep(place, [request for request in requests if not request.done])

    def _keep(self, place: Place, requests: list[Request]) -> None:
        if requests:
            self._parked[place] = requests
        else:
            self._parked.pop(place, None)

    def _has_news(self) -> bool:
        """Whether another process changed the file, or a lease is over."""
        try:
            ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
            changed = version != self._version
            self._version = version
            return changed or self._lease_is_over()
        except sqlite3.Error:
            return True  # the transaction meets it again, and tells

    def _lease_is_over(self) -> bool:
        now = self._clock.time()
        ends = [self._boxes.next_expiry(place.name) for place in self._parked if place.what == "letter"]
        return any(end is not None and end <= now for end in ends)

    def _transact(self, batch: list[Request], *, again: bool) -> None:
        execute, done = self._connection.execute, []
        try:
            execute("BEGIN IMMEDIATE")
            if again:
                for place in list(self._parked):
                    done += self._try_parked(place)
            for request in batch:
                done += self._carry_out(request)
            execute("COMMIT")
        except Exception as error:  # noqa: BLE001 (told to everybody who asked)
            self._take_back()
            done = list(dict.fromkeys([*self._tried, *batch]))
            for request in done:
                request.value = LATER
                request.error = failure(self._path, error) if isinstance(error, sqlite3.Error) else error
            for place, requests in list(self._parked.items()):
                self._keep(place, [request for request in requests if request.error is None])
        self._boxes.arrived.clear()
        self._boxes.room.clear()
        self._settle(done)

    def _take_back(self) -> None:
        if self._connection.in_transaction:  # on a full disk SQLite has taken it back itself
            self._connection.rollback()

    def _carry_out(self, request: Request) -> list[Request]:
        """Those that are done by this."""
        done: list[Request] = []
        place = request.place
        if place is not None and place.what == "room" and place in self._parked:
            done += self._try_parked(place)  # who waits longer comes first
        if self._try(request):
            done.append(request)
        elif place is not None and not request.leaving:
            self._parked.setdefault(place, []).append(request)
        return done + self._follow_up()

    def _follow_up(self) -> list[Request]:
        """Try what waits in boxes in which something happened."""
        done: list[Request] = []
        boxes = self._boxes
        while boxes.arrived or boxes.room:
            place = Place("room", boxes.room.pop()) if boxes.room else Place("letter", boxes.arrived.pop())
            if place in self._parked:
                done += self._try_parked(place)
        return done

    def _try_parked(self, place: Place) -> list[Request]:
        done: list[Request] = []
        rest: list[Request] = []
        for request in self._parked.get(place, []):
            full = bool(rest) and place.what == "room"  # the first that finds no room keeps its place
            if not full and self._try(request):
                done.append(request)
            elif not request.done:
                rest.append(request)
        self._keep(place, rest)
        return done

    def _try(self, request: Request) -> bool:
        """Whether it is done; not where its task has left, or it has to wait."""
        with self._changed:
            if request.done:
                return False
            if not request.running:
                request.running = True
                self._tried.append(request)
        try:
            request.value = request.step(self._boxes)
        except (TeamError, UnicodeError) as error:  # before the step has written anything
            request.error = error
            return True
        return request.value is not LATER

    def _settle(self, done: list[Request]) -> None:
        """After the transaction: tell those that are done, and those that leave instead of waiting on."""
        with self._changed:
            tried, self._tried = self._tried, []
            for request in tried:
                request.running = False
            left = [request for request in tried if request.leaving]
            told = list(dict.fromkeys([*done, *left]))
            for request in told:
                request.done = True
        self._tell(told)

    def _tell(self, told: list[Request]) -> None:
        """Wake their tasks, each event loop once."""
        loops: dict[object, list[Request]] = {}
        for request in told:
            loops.setdefault(request.loop, []).append(request)
        for requests in loops.values():
            requests[0].backend.call_soon(_Wake(requests))

    def _end(self, closing: list[Request]) -> None:
        waiting = [request for requests in self._parked.values() for request in requests]
        self._parked.clear()
        with self._changed:
            for request in waiting:
                if not request.done:
                    request.error = gone()
                    request.done = True
        self._connection.close()
        with self._changed:
            self._ended = True
            closing += self._closing  # those who came meanwhile
            for request in closing:
                request.done = True
        self._tell([*waiting, *closing])


class _Wake:
    def __init__(self, requests: list[Request]) -> None:
        self._requests = requests

    def __call__(self) -> None:
        for request in self._requests:
            request.waker.set()
