"""Where something becomes true: log, then state, then the consumer, in one synchronous step.

A ``Recorder`` belongs to a session: it numbers facts under a lock, writes them ahead and folds
them. Only the generator's frame records facts of a run; the inbox records queue facts from any
thread under the same lock.

Read with: ``run.py``, ``abort.py``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from os import urandom
from threading import RLock
from typing import Protocol, TypeVar, runtime_checkable

from msgspec.structs import force_setattr, replace

from .codec import Codec
from .errors import CodecError, LogError
from .events import Event, Fact, MessageEnd, QueueChanged, Signal, Stored
from .messages import AgentMessage, Message, clean_message
from .ports import Clock, EventLog
from .state import AgentState, apply

FactT = TypeVar("FactT", bound=Fact)


class ActiveRun(Protocol):
    """The run a recorder reports to."""

    id: str
    outbox: deque[Event]

    @property
    def waiting(self) -> bool:
        """Whether the run waits for something else than its consumer."""
        ...

    def notice(self) -> None:
        """Something was queued; called from any thread."""
        ...


@runtime_checkable
class SessionLog(EventLog, Protocol):
    """A log that knows the session it keeps, and what its facts so far come to.

    Whoever is given one, and no state, goes on from there.
    """

    @property
    def session(self) -> str:
        """The id of the session, one for each log: two that were forked from the same have two."""
        ...

    def state(self, codec: Codec | None = None, /) -> AgentState:
        """The fold of the facts so far, application messages decoded by ``codec``."""
        ...


class Recorder:
    """Numbers, stores and folds the facts of one session; thread-safe."""

    def __init__(
        self,
        state: AgentState | None = None,
        *,
        log: EventLog | None,
        clock: Clock,
        codec: Codec,
        session: str = "",
    ) -> None:
        self.lock = RLock()
        if isinstance(log, SessionLog):
            state = log.state(codec) if state is None else state
            session = session or log.session
        self.state = AgentState() if state is None else state
        self.session = session or self.state.session or urandom(16).hex()
        self.log = log
        self._time = clock.time
        self.codec = codec
        self.run: ActiveRun | None = None
        self.tell_idle: Callable[[Event], None] | None = None  # what no run yields
        self.drain_idle: Callable[[], None] | None = None  # has it told, outside the lock
        self.untold: ActiveRun | None = None  # a run whose events are not all told yet
        self.broken = False
        self._sub = 0
        self._recording = False
        self._later: deque[Callable[[], object]] = deque()  # done from inside the log's append

    def record(self, fact: FactT, at: float | None = None) -> FactT:
        """Make ``fact`` true: number it, fold it, append it to the log, have it yielded.

        ``at`` is the time that it already holds, of a message for instance; else it is now.

        Raises:
            LogError: the log refused it; nothing changed, and nothing more may be recorded.
            RuntimeError: called from inside the log's ``append``.
        """
        with self.lock:
            if self._recording:
                raise RuntimeError("log: append may queue messages, nothing else of the agent that it stores")
            run, state = self.run, self.state
            force_setattr(fact, "seq", state.seq + 1)
            force_setattr(fact, "time", self._time() if at is None else at)
            if run is not None:
                force_setattr(fact, "run_id", run.id)
            folded = apply(state, fact)  # pure, and first: what cannot be folded must not be stored
            if self.log is not None:
                self._recording = True
                try:
                    self._append(self.log, fact)
                finally:
                    self._recording = False
            self.state = folded
            self._sub = 0
            if run is not None:
                run.outbox.append(fact)
            elif self.untold is not None:
                self.untold.outbox.append(fact)  # what happened before it is told first
            elif self.tell_idle is not None:
                self.tell_idle(fact)
            while self._later:
                self._later.popleft()()
        return fact

    def soon(self, act: Callable[[], object]) -> None:
        """Do ``act``, which records; from inside the log's ``append`` right after the fact under way."""
        with self.lock:
            if self._recording:
                self._later.append(act)
            else:
                act()

    def _append(self, log: EventLog, fact: Fact) -> None:
        if self.broken:
            raise LogError("log: refused a fact earlier, nothing more can be recorded")
        try:
            log.append(fact)
        except Exception as error:
            self.broken = True
            if isinstance(error, LogError):
                raise
            raise LogError(
                "log: could not store the fact", tag=type(fact).__struct_config__.tag, reason=str(error)
            ) from error

    def signal(self, signals: Sequence[Signal]) -> None:
        """Have signals (which name their run) yielded after the last fact, in this order."""
        run = self.run
        if run is None:
            return
        with self.lock:
            seq, sub = self.state.seq, self._sub
            for signal in signals:
                sub += 1
                force_setattr(signal, "seq", seq)
                force_setattr(signal, "sub", sub)
            self._sub = sub
            run.outbox.extend(signals)

    def queue(self, lane: str, message: AgentMessage) -> None:
        """Record that ``message`` waits in ``lane``, and let the run know.

        Called from inside the log's ``append``, it takes effect right after the fact under way. Listeners
        are told by whoever calls ``Listeners.drain``, outside the lock.
        """
        self.queue_stored(lane, self.store(message))

    def queue_stored(self, lane: str, stored: Stored) -> None:
        """See ``queue``; for a message that ``store`` has already made ready."""
        self.soon(lambda: self._queue(lane, stored))

    def _queue(self, lane: str, stored: Stored) -> None:
        id = f"q{self.state.queue_count + 1}"
        run = self.run
        waiting = run is not None and run.waiting and lane != "prompt"
        self.record(
            QueueChanged(lane, "queued", (id,), message=stored.message, app=stored.app, waiting=waiting)
        )
        if run is not None:
            run.notice()

    def store(self, message: AgentMessage) -> Stored:
        """``message`` as facts carry it.

        Raises:
            CodecError: it cannot be written as JSON, its class is not registered, or it is an application's and
                what a model would see of it holds a key of a model provider.
        """
        if type(message) is Message:
            message = _cleaned(message)
            if message.metadata:  # the host's: anything may be in there
                message = replace(message, metadata=self.codec.plain(message.metadata))
            return Stored(message=message)
        lowered = message.to_message()
        if lowered is not None and _cleaned(lowered).content != tuple(lowered.content):
            raise CodecError(
                "codec: what a model sees of an application message holds a key, clean it in to_message",
                cls=type(message).__qualname__,
            )
        stored = Stored(message=lowered, app=self.codec.wrap(message))
        self.codec.encode(MessageEnd("", stored.message, stored.app))
        return stored


def _cleaned(message: Message) -> Message:
    try:
        return clean_message(message)
    except (TypeError, ValueError) as error:
        raise CodecError("codec: message cannot be written as JSON", reason=str(error)) from error
