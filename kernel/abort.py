"""Ending a run from outside, and messages that reach it while it is under way.

Both work from any task or thread, never block, and act on the run's tasks at once; the facts
follow at the consumer's next pull.

Read with: ``run.py``.
"""

from collections.abc import Callable
from threading import RLock
from typing import Protocol

from .errors import CodecError
from .messages import AgentMessage, has_content, user_message


class Abort:
    """A switch that ends the run it is given to; it stays thrown."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._listener: Callable[[], None] | None = None
        self.fired = False
        self.marker = True
        self.reason = ""
        self._keep: Callable[[str], str] | None = None

    def fire(
        self, *, marker: bool = True, reason: str = "", keep: bool | Callable[[str], str] = False
    ) -> None:
        """End the run in an orderly way; firing again changes nothing.

        With ``marker`` an assistant message with stop reason ``aborted`` is committed, which the
        model never sees; ``reason`` becomes its text. With ``keep`` the text of an unfinished answer is
        committed, with stop reason ``interrupted``, and the model sees it; a function says what stays
        of the text, what was heard of it for instance.
        """
        with self._lock:
            if self.fired:
                return
            self.marker, self.reason = marker, reason
            self._keep = str if keep is True else keep or None
            self.fired = True
            listener = self._listener
        if listener is not None:
            listener()

    @property
    def cuts(self) -> bool:
        """Whether a function says what stays: it is asked about a finished answer, too, that a host is
        still giving out (see ``Hooks.before_stop``)."""
        return self._keep is not None and self._keep is not str

    def kept(self, text: str) -> str:
        """What stays of an unfinished answer's text."""
        return self._keep(text) if self._keep is not None else ""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when fired, at once if it was already; the newest one counts."""
        with self._lock:
            self._listener = listener
            fired = self.fired
        if fired:
            listener()

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``; a later one stays."""
        with self._lock:
            if self._listener == listener:
                self._listener = None


def as_user_message(message: str | AgentMessage, what: str) -> AgentMessage:
    """A message that may be queued; ``what`` begins the error.

    Raises:
        ValueError: it is empty, or an answer or a tool result.
    """
    entry = user_message(message) if isinstance(message, str) else message
    if not has_content(entry):
        raise ValueError(f"{what}: the message is empty")
    if entry.role in ("assistant", "tool"):
        raise ValueError(f"{what}: the message must be a user's (role={entry.role!r})")
    return entry


class QueuesMessages(Protocol):
    """Where an inbox records its messages: the session's recorder."""

    def queue(self, lane: str, message: AgentMessage) -> None: ...


class Inbox:
    """Steering and follow-ups for a run; what comes while no run is active waits for the next.

    A steering message is delivered as soon as the turn's running tools have ended; calls not yet
    started are skipped. A follow-up is delivered when the run would otherwise stop.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._target: QueuesMessages | None = None
        self._waiting: list[tuple[str, AgentMessage]] = []

    def steer(self, message: str | AgentMessage) -> None:
        """Queue a message for the run under way.

        Raises:
            ValueError: the message is empty, or not a user's.
            LogError: the log refused it; it is not queued.
        """
        self._push("steering", message)

    def follow_up(self, message: str | AgentMessage) -> None:
        """Queue a message for when the run would stop.

        Raises:
            ValueError: the message is empty, or not a user's.
            LogError: the log refused it; it is not queued.
        """
        self._push("follow_up", message)

    @property
    def waiting(self) -> int:
        """Messages that no session has taken over yet."""
        return len(self._waiting)

    def _push(self, lane: str, message: str | AgentMessage) -> None:
        entry = as_user_message(message, lane)
        with self._lock:
            target = self._target
            if target is None:
                self._waiting.append((lane, entry))
        if target is not None:  # outside the lock: the log that stores it may steer, too
            target.queue(lane, entry)

    def bind(self, target: QueuesMessages) -> None:
        """Hand messages to ``target`` from now on, those that waited first.

        Raises:
            CodecError: one that waited cannot be stored; it is dropped, the others are kept.
            LogError: the log refused one; it and the others are kept.
        """
        with self._lock:
            self._target = target
            waiting, self._waiting = self._waiting, []
        while waiting:
            try:
                target.queue(*waiting[0])
            except Exception as error:
                self._waiting = waiting[isinstance(error, CodecError) :] + self._waiting
                raise
            del waiting[0]

    def release(self, target: QueuesMessages) -> None:
        """Keep messages here again, unless another target was bound meanwhile."""
        with self._lock:
            if self._target is target:
                self._target = None
