"""Who listens to an agent: called one after another, none of them able to break the run.

Read with: ``agent.py`` (the owner).
"""

import logging
from collections import deque
from collections.abc import Callable
from inspect import iscoroutinefunction
from threading import RLock, get_ident
from typing import TypeAlias

from .events import Event

Listener: TypeAlias = Callable[[Event], None]
"""A function that an agent calls with each event."""
_log = logging.getLogger("unspool.agent")


class Listeners:
    """Functions of one event, in order of registration.

    Events are ``put`` in their order, under any lock, and told by ``drain``, under none: by one thread at
    a time, so that their order is the same for everybody.
    """

    def __init__(self) -> None:
        self._events: deque[tuple[Event, Callable[[], None] | None]] = deque()
        self._lock = RLock()
        self._draining = False
        self._listeners: dict[object, Listener] = {}
        self._broken: set[object] = set()  # those whose fault is logged already
        self._telling: list[int] = []  # the threads in which a listener is being called

    def add(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event from now on; returns what ends that, once or more often.

        Raises:
            TypeError: it is an async function, which nobody would await.
        """
        if iscoroutinefunction(listener) or iscoroutinefunction(type(listener).__call__):
            raise TypeError("subscribe: a listener is called, not awaited; give a plain function")
        key = object()
        self._listeners[key] = listener
        return lambda: self._end(key)

    def _end(self, key: object) -> None:
        self._listeners.pop(key, None)
        self._broken.discard(key)

    def put(self, event: Event, first: Callable[[], None] | None = None) -> None:
        """Have ``event`` told after those before it; ``first`` is called right before."""
        self._events.append((event, first))

    def drain(self) -> None:
        """Tell what is put; where that goes on already, in a listener or another thread, it is told there."""
        with self._lock:
            if self._draining:
                return
            self._draining = True
        try:
            while True:
                with self._lock:
                    if not self._events:
                        self._draining = False
                        return
                    event, first = self._events.popleft()
                if first is not None:
                    first()
                self.tell(event)
        except BaseException:
            with self._lock:
                self._draining = False
            raise

    def tell(self, event: Event) -> None:
        """Call all of them; one that raises is passed over, and its first traceback logged."""
        if not self._listeners:
            return
        self._telling.append(get_ident())
        try:
            ending: BaseException | None = None
            for key, listener in list(self._listeners.items()):
                if key in self._listeners:  # an earlier one may have ended it
                    ending = self._call(key, listener, event) or ending
            if ending is not None:
                raise ending
        finally:
            self._telling.remove(get_ident())

    def _call(self, key: object, listener: Listener, event: Event) -> BaseException | None:
        """Call one; what is to end the program is given back, for when all have been told."""
        try:
            listener(event)
        except (KeyboardInterrupt, SystemExit) as ending:
            return ending
        except BaseException:  # noqa: BLE001 (foreign code that must not end the run, by a cancellation of its own either)
            if key not in self._broken:
                self._broken.add(key)
                _log.exception(
                    "a listener of the agent raised; it is told once (event=%s)", type(event).__name__
                )
        return None

    def refuse_here(self, what: str) -> None:
        """Refuse to wait from inside a listener: the run waits for it.

        Raises:
            RuntimeError: this is called by a listener.
        """
        if get_ident() in self._telling:
            raise RuntimeError(
                f"{what}: called from a listener, which the run waits for; start a task that does it"
            )
