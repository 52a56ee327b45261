"""What a tool needs to run a session of its own inside a call: an agent below the agent.

``nest_of(context)`` gives it. The nested session is an ordinary one, with a log of its own; here are the few
things that tie it to the call: what it inherits, the facts about it in the session above, its events in that
session's stream, how it is stopped, and how calls of it that wait for a person are brought up and back.

Read with: ``tool_call.py`` (whose ``CallContext`` it belongs to), ``events.py`` (``ChildStarted``, ``NestedCall``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from .config import AgentContext, LoopConfig
from .errors import AgentError, ContinueError
from .events import ChildEnded, ChildEvent, ChildStarted, Event, Handoff, Lineage, NestedCall, Signal
from .hooks import Verdict
from .messages import ToolCall
from .ports import ToolContext
from .run import Run
from .state import AgentState

NestedFact: TypeAlias = ChildStarted | ChildEnded | Handoff
MAX_UNSEEN = 256  # events of nested sessions that wait for the consumer


class Suspended(AgentError):
    """Raised by a tool whose nested session waits for a person: the run above pauses, too.

    ``calls`` are those to decide on, with ids that are unique within this call. Once they are decided the call runs
    again, with the same idempotency key; ``Nest.decisions`` has the answers.

    Raises:
        ValueError: two of ``calls`` have the same id.
    """

    error_kind = "suspended"

    def __init__(self, calls: Sequence[NestedCall]) -> None:
        ids = [call.id for call in calls]
        if len(set(ids)) != len(ids):
            raise ValueError(f"nested session: calls that wait have the same id: {ids}")
        super().__init__("the nested session waits for a decision", calls=ids)
        self.calls = tuple(calls)


class RunningCall(Protocol):
    """The call that runs a nested session: a ``tool_call.Execution``."""

    call: ToolCall
    abandoned: bool
    answers: Mapping[str, Verdict]

    def on_stop(self, stop: Callable[[], None]) -> None: ...


class Nest:
    """See ``nest_of``."""

    __slots__ = ("_execution", "_run")

    def __init__(self, run: Run, execution: RunningCall) -> None:
        self._run = run
        self._execution = execution

    @property
    def config(self) -> LoopConfig:
        """The configuration of the run above: model, hooks, limits, clock and so on."""
        return self._run.config

    @property
    def context(self) -> AgentContext:
        """Tools, system prompt and run context of the run above."""
        return self._run.context

    @property
    def state(self) -> AgentState:
        """The state of the session above, now."""
        return self._run.recorder.state

    @property
    def lineage(self) -> Lineage:
        """What the nested session says of its descent."""
        above, recorder = self._run.config.lineage, self._run.recorder
        return Lineage(
            parent=recorder.session,
            call_id=self._execution.call.id,
            path=(*(above.path if above else ()), self._run.config.agent),
            root=above.root if above else recorder.session,
        )

    @property
    def decisions(self) -> Mapping[str, Verdict]:
        """What was decided on the calls that an earlier ``Suspended`` of this call brought up, by their ids there."""
        return self._execution.answers

    async def record(self, fact: NestedFact) -> None:
        """Record a fact of the session above. It is durable on return, and seen where the run is under way.

        It may come after the run, from what goes on in the background, as long as the session's log is open.

        Raises:
            ContinueError: the call was given up.
            LogError: the log refused it.
        """
        run, recorder = self._run, self._run.recorder
        if self._execution.abandoned:
            raise ContinueError("nested session: its call was given up, nothing more is recorded of it")
        recorder.soon(lambda: recorder.record(fact))
        self._wake()
        if recorder.run is run:
            await run.seen()
            await run.flush()
        elif recorder.log is not None:
            await recorder.log.flush()

    def _wake(self) -> None:
        """Let whoever tells events look: the run under way, or the listeners of an idle agent."""
        recorder = self._run.recorder
        if recorder.run is not None:
            recorder.run.notice()
        elif recorder.drain_idle is not None:
            recorder.drain_idle()

    async def tell(self, child: str, event: Event) -> None:
        """Show an event of the nested session in the stream of the one above.

        Returns when the consumer has seen it, so that an effect which it announces comes after; of what is only for
        watching a few hundred may be under way. Ignored where nobody watches any more.
        """
        run, recorder = self._run, self._run.recorder
        call_id = self._execution.call.id
        if recorder.run is not run:
            if recorder.run is None and recorder.tell_idle is not None:
                recorder.tell_idle(ChildEvent(child, event, call_id, seq=recorder.state.seq))
                self._wake()
            return
        recorder.signal((ChildEvent(child, event, call_id, run_id=run.id),))
        run.wake.set()
        if not isinstance(_innermost(event), Signal) or len(run.outbox) > MAX_UNSEEN:
            await run.seen()

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Have ``stop`` called when the call is to end, instead of cancelling it: it then has the grace time to end by
        itself. The newest counts. Called at once where it is to end already."""
        self._execution.on_stop(stop)


def _innermost(event: Event) -> Event:
    """The event of the session furthest down."""
    while isinstance(event, ChildEvent):
        event = event.event
    return event


def nest_of(context: ToolContext) -> Nest:
    """What a tool needs to run a nested session in the call of ``context``.

    Raises:
        TypeError: the context is not one of a run (a test made it, say).
    """
    nest = getattr(context, "nest", None)
    if not isinstance(nest, Nest):
        raise TypeError(f"nested session: not the context of a running call: {type(context).__name__}")
    return nest
