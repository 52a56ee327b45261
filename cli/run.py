"""One run, shown as it happens and logged: what ``run``, ``demo`` and ``resume`` share.

Exit status: 0 the run stopped by itself, 1 it failed, 2 it could not begin, 130 interrupted, 141
the reader of stdout left. However it ends, the log gets its end.

Read with: ``view.py``, ``signals.py``, ``beginning.py`` (how it comes about).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from unspool.context import default
from unspool.kernel.abort import Abort, Inbox
from unspool.kernel.config import AgentContext, LoopConfig
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact
from unspool.kernel.hooks import Decisions, Hooks
from unspool.kernel.limits import Limits
from unspool.kernel.loop import agent_loop, agent_loop_continue
from unspool.kernel.messages import Message
from unspool.kernel.ports import CallOptions, ChatModel, SystemBlock
from unspool.kernel.state import AgentState
from unspool.kernel.stream import EventStream
from unspool.trajectory import JsonlLog, SessionHandle

from .approving import Approver
from .output import complain, stop_output
from .signals import INTERRUPTED, PIPE_CLOSED, on_interrupt
from .toolset import Toolset
from .view import JsonView, View

DEFAULT_SYSTEM = (
    "You work in one directory, whose files you can look at with your tools; paths are relative to it. "
    "Answer from what you find there, and name the files you rely on."
)
CODING_SYSTEM = (
    "You are a coding agent. You work in one directory with your tools; paths are relative to it. "
    "Look before you change something, check what you have done, and say briefly what you did."
)

_MANY = 2000  # facts: a snapshot is kept each time so many more are there
_OUTPUT_FAILED = (1, PIPE_CLOSED)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be run.

    Without a ``prompt`` the session goes on from where it stands, with ``decisions`` where calls wait for them.
    ``state`` is what the facts of ``log`` come to. ``about``, facts that are in it already, are shown
    and ``notice`` told before the run, ``ending`` after it.
    """

    prompt: str | None
    model: ChatModel
    tools: Toolset
    log: SessionHandle
    view: View
    about: tuple[Fact, ...] = ()
    notice: str = ""
    ending: str = ""
    system: str | Sequence[SystemBlock] = DEFAULT_SYSTEM
    options: CallOptions = field(default_factory=CallOptions)
    limits: Limits = field(default_factory=Limits)
    state: AgentState | None = None
    decisions: Decisions | None = None


def perform(job: Job) -> int:
    """Run a job to its end; the exit status. The log is closed."""
    return anyio.run(_Runner(job).run)


def open_log(path: str) -> JsonlLog:
    """A new log.

    Raises:
        LogError: it cannot be written, or holds a run already.
    """
    log = JsonlLog(path)
    if log.seq:
        log.close()
        raise LogError("log: holds a run already, name another file", path=path)
    return log


class _Runner:
    """One run under way: shows it, listens to signals, notices when nobody reads."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._abort = Abort()
        self._status: int | None = None  # decided while the run was still going on

    async def run(self) -> int:
        job = self._job
        try:
            with on_interrupt(self._interrupt):
                for fact in job.about:
                    self._output(job.view.show, fact)
                self._tell(job.notice)
                async with self._stream() as events:
                    await self._watch(events)
                await self._end_tools()
                before = job.state.seq if job.state is not None else 0
                if events.state.seq // _MANY > before // _MANY:
                    job.log.snapshot(events.state)
                await job.log.aclose()
        except LogError as error:
            complain(str(error))
            return 1
        finally:
            with anyio.CancelScope(shield=True):
                await job.tools.aclose()
            job.log.close()
            self._tell(job.ending)
        return self._conclude(events.state)

    def _stream(self) -> EventStream:
        job, inbox = self._job, Inbox()
        notices: list[Message] = []  # of what an earlier process has left
        job.tools.notify(notices.append)
        job.tools.notify(inbox.follow_up)
        approve = Approver(job.view, on_stderr=isinstance(job.view, JsonView))
        config = LoopConfig(
            model=job.model,
            hooks=Hooks(gate=job.tools.gate, approve=approve),
            inbox=inbox,
            limits=job.limits,
            options=job.options,
            context=default(),
            log=job.log,
            abort=self._abort,
        )
        context = AgentContext(tools=job.tools.tools, system=job.system, state=job.state)
        if job.prompt is None:
            for notice in notices:
                inbox.follow_up(notice)
            return agent_loop_continue(context, config, job.decisions)
        return agent_loop([*notices, job.prompt], context, config)

    async def _watch(self, events: EventStream) -> None:
        async for event in events:
            self._output(self._job.view.show, event)

    async def _end_tools(self) -> None:
        if running := await self._job.tools.aclose():
            self._tell(f"ended with the run, in the background: {', '.join(running)}")

    def _tell(self, text: str) -> None:
        if text:
            self._output(self._job.view.tell, text)

    def _output(self, show: Callable[[T], None], what: T) -> None:
        """Show something; when that fails nothing more is shown, and the run is to end."""
        if self._status in _OUTPUT_FAILED:
            return
        try:
            show(what)
        except BrokenPipeError:
            self._status = PIPE_CLOSED
        except OSError as error:
            self._status = 1
            complain(f"output: cannot be written (reason={error.strerror!r})")
        if self._status in _OUTPUT_FAILED:
            stop_output()
            self._abort.fire(marker=False)

    def _interrupt(self) -> None:
        self._status = self._status or INTERRUPTED
        self._abort.fire(reason="interrupted")

    def _conclude(self, state: AgentState) -> int:
        """The exit status of a run that has ended; what failed is told."""
        if state.end_reason == "stop":
            return self._status if self._status in _OUTPUT_FAILED else 0
        if self._status is not None:
            return self._status
        if state.end_reason == "paused":
            complain("the run is paused: calls wait for a person; unspool resume goes on")
            return 1
        error = state.last_error
        complain(f"{error.kind}: {error.message}" if error else f"the run ended: {state.end_reason}")
        return 1
