"""Who listens to an agent: called one after another, none of them able to break the run.

Read with: ``agent.py`` (the owner).
"""

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from threading import get_ident

from .events import Event

Listener = Callable[[Event], None]
_log = logging.getLogger("unspool.agent")


class Listeners:
    """Functions of one event, in order of registration."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
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
        return lambda: self._listeners.pop(key, None) and None

    def tell(self, event: Event) -> None:
        """Call all of them; one that raises is logged with its traceback and passed over."""
        if not self._listeners:
            return
        self._telling.append(get_ident())
        try:
            for key, listener in list(self._listeners.items()):
                if key in self._listeners:  # an earlier one may have ended it
                    try:
                        listener(event)
                    except Exception:  # noqa: BLE001 (foreign code that must not end the run; the traceback is logged)
                        _log.exception("a listener of the agent raised (event=%s)", type(event).__name__)
        finally:
            self._telling.remove(get_ident())

    def refuse_here(self, what: str) -> None:
        """Refuse to wait from inside a listener: the run waits for it.

        Raises:
            RuntimeError: this is called by a listener.
        """
        if get_ident() in self._telling:
            raise RuntimeError(
                f"{what}: called from a listener, which the run waits for; start a task that does it"
            )
