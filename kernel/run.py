"""One run of the loop over a session: what is under way and what is to be told.

The generator's frame owns everything here. Tasks never record: they leave outcomes behind and
wake the generator. Other threads may only ``notice`` and ``poke``.

Read with: ``recorder.py``, ``loop.py``.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from threading import get_ident
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from .config import AgentContext, LoopConfig
from .errors import AgentError, HookError, LogError, describe, error_kind
from .events import Cut, ErrorEvent, Event, MessageEnd, MessageStart, MessageUpdate, Stored
from .hooks import MaybeAwaitable
from .json_edge import plain_object
from .limits import Limits
from .messages import AgentMessage, Message
from .ports import Clock
from .projection import Projector, RequestConfig
from .pull import pull
from .recorder import Recorder
from .spawn import Backend, Job, Waker
from .state import AgentState
from .steps import Step, next_step
from .stream import Span
from .toolbox import Toolbox
from .watchdog import Watchdog

T = TypeVar("T")
_orphans: list[Job] = []  # event loops hold tasks weakly: an abandoned one must not be collected


_PASSED_ON = (Exception, KeyboardInterrupt, SystemExit)


class Aborted(BaseException):
    """The run was aborted while something of the host was awaited; never leaves the loop."""


class Run:
    """The run under way and its tasks."""

    __slots__ = (
        "abandoned",
        "aborted",
        "active_tools",
        "away",
        "backend",
        "clock",
        "config",
        "context",
        "cut",
        "ending",
        "error",
        "executions",
        "fresh_turn",
        "id",
        "jobs",
        "lookers",
        "on_notice",
        "outbox",
        "over",
        "projector",
        "record",
        "recorder",
        "request",
        "span",
        "thread",
        "toolbox",
        "unpriced",
        "unseen",
        "wake",
        "watchdog",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        backend: Backend,
        config: LoopConfig,
        context: AgentContext,
        toolbox: Toolbox,
        request: RequestConfig,
        projector: Projector,
        span: Span,
    ) -> None:
        self.recorder = recorder
        self.record = recorder.record
        self.backend = backend
        self.config = config
        self.context = context
        self.toolbox = toolbox
        self.request = request
        self.projector = projector
        self.span = span
        self.id = f"r{recorder.state.runs + 1}"
        self.clock: Clock = config.clock
        self.outbox: deque[Event] = deque()
        self.jobs: list[Job] = []
        self.abandoned: list[str] = []
        self.executions: dict[str, Any] = {}  # call id to ``tool_call.Execution``, a later layer
        self.on_notice: Callable[[], None] | None = None
        self.active_tools = recorder.state.active_tools  # those the request offers
        self.aborted = False
        self.over = False  # nothing of it is recorded any more
        self.away = False  # the consumer has been given an event and has not asked for the next
        self.cut: Cut | None = None
        self.lookers: list[Waker] = []  # tasks that wait until the consumer has seen everything
        self.ending = False  # nobody waits for the consumer any more
        self.unseen = 0  # characters of the unfinished answer that an abort dropped
        self.fresh_turn = False
        self.unpriced: set[str] = set()  # models of which it was said that the budget does not count them
        self.error: BaseException | None = None
        self.thread = get_ident()
        self.wake = backend.waker()
        self.watchdog = Watchdog(config.clock)

    @property
    def limits(self) -> Limits:
        return self.config.limits

    @property
    def state(self) -> AgentState:
        return self.recorder.state

    async def flush(self) -> None:
        """Wait until all recorded facts are durable, before an announced effect.

        Raises:
            LogError: they cannot be made durable; nothing more may be recorded.
        """
        log = self.recorder.log
        if log is None:
            return
        try:
            await log.flush()
        except Exception as error:
            self.recorder.broken = True
            if isinstance(error, LogError):
                raise
            raise LogError("log: could not make the facts durable", reason=describe(error)) from error

    async def ask_host(self, ask: Callable[[], MaybeAwaitable[T]]) -> T:
        """What a hook or a strategy of the host answers; it may take its time.

        What it awaits runs in a task of its own, so that an abort reaches it at once.

        Raises:
            Aborted: the run was aborted meanwhile.
        """
        asked = ask()
        if not isawaitable(asked):
            return asked
        answers: list[T] = []
        await self._attend(asked, answers, lambda: False)
        return answers[0]

    async def let_host(self, ask: Callable[[], MaybeAwaitable[None]], until: Callable[[], bool]) -> None:
        """Let a hook take its time, but not beyond ``until()``: then it is cancelled.

        Raises:
            Aborted: the run was aborted meanwhile.
        """
        asked = ask()
        if isawaitable(asked):
            await self._attend(asked, [], until)

    async def _attend(self, asked: Awaitable[T], answers: list[T], until: Callable[[], bool]) -> None:
        ended: list[BaseException | None] = []

        async def work() -> None:
            error: BaseException | None = None
            try:
                answers.append(await asked)
            except BaseException as raised:  # noqa: BLE001 (raised again where the answer is awaited)
                error = raised
            finally:
                ended.append(error)
                self.wake.set()

        job = self.spawn(work)
        try:
            while not (ended or self.aborted or until()):
                await self.wake.wait()
                if self.outbox and not self.aborted:
                    await pull()
        finally:
            if iscoroutine(asked) and getcoroutinestate(asked) == CORO_CREATED:
                asked.close()  # the task was stopped before its first step
        if self.aborted:
            raise Aborted
        if not ended:
            job.cancel()
        elif ended[0] is not None:
            raise ended[0] if isinstance(ended[0], _PASSED_ON) else HookError(describe(ended[0]))

    async def seen(self) -> None:
        """Wait, in a task of the run, until the consumer has asked beyond everything recorded so far.

        Not when the run is about to end: then nothing more is done that was to be seen before.
        """
        while self.outbox and not (self.ending or self.aborted):
            looker = self.backend.waker()
            self.lookers.append(looker)
            self.wake.set()
            await looker.wait()

    def tell_seen(self) -> None:
        """Let those go on who waited until everything was seen."""
        lookers, self.lookers = self.lookers, []
        for looker in lookers:
            looker.set()

    def next_step(self) -> Step:
        """What comes next."""
        config = self.config
        one_by_one = config.steering_mode == "one"
        return next_step(self.recorder.state, config.limits, aborted=self.aborted, one_by_one=one_by_one)

    def next_id(self) -> str:
        """The id of the next message to be committed."""
        return f"m{self.state.message_count + 1}"

    def commit(self, message: AgentMessage, *, queue_id: str = "", cause: str = "") -> str:
        """Put a message into the transcript; returns its id."""
        id = self.next_id()
        if queue_id and type(message) is Message:
            stored = Stored(message=message)  # made ready when it was queued
        else:
            stored = self.recorder.store(message)
        lowered = stored.message
        now = self.clock.time()
        if lowered is not None:
            lowered = replace(lowered, id=id, timestamp=lowered.timestamp or now)
        self.recorder.signal((MessageStart(message.role, id, run_id=self.id),))
        self.record(MessageEnd(id, lowered, stored.app, queue_id, cause), now)
        return id

    def fail(self, error: BaseException) -> None:
        """Record that the run fails because of ``error``; it ends at the next step."""
        self.error = error
        details = error.details if isinstance(error, AgentError) else {}
        self.record(ErrorEvent(error_kind(error), describe(error), details=plain_object(details)))

    def warn(self, kind: str, message: str, **details: Any) -> None:
        """Record something that went wrong and does not end the run."""
        self.record(ErrorEvent(kind, message, fatal=False, details=details))

    def spawn(self, fn: Callable[[], Coroutine[Any, Any, None]]) -> Job:
        """Start a task this run owns."""
        jobs = self.jobs
        if len(jobs) >= 3:
            self.jobs = jobs = [job for job in jobs if not job.done]
        job = self.backend.spawn(fn)
        jobs.append(job)
        return job

    @property
    def waiting(self) -> bool:
        """Whether the run waits for something else than its consumer."""
        return not self.away

    def cut_short(self, how: Literal["abort", "left"]) -> None:
        """Note when the run was cut short; the first time counts."""
        if self.cut is None:
            self.cut = Cut(seq=self.state.seq, how=how, waiting=not self.away)

    def abort(self) -> None:
        """The run is to end: its tasks stop now, the facts follow at the next pull; any thread."""
        self.cut_short("abort")
        self.aborted = True
        self._here(self._end_tasks)
        self.backend.call_soon(self.wake.set)  # for a signal handler: it interrupts a loop that sleeps

    def notice(self) -> None:
        """A message was queued: act on the tasks now; any thread."""
        self._here(self._noticed)

    def poke(self) -> None:
        """Wake the generator; any thread."""
        self._here(self.wake.set)

    def _here(self, fn: Callable[[], None]) -> None:
        if get_ident() == self.thread:
            fn()
        else:
            self.backend.call_soon(fn)

    def _end_tasks(self) -> None:
        self._drop_unseen()
        self._stop_tasks()

    def _stop_tasks(self) -> None:
        self.tell_seen()
        spared: list[Job | None] = []
        for execution in self.executions.values():
            execution.cancel()
            if execution.stops_itself:
                spared.append(execution.job)
        for job in self.jobs:
            if job not in spared:
                job.cancel()
        self.wake.set()

    def _drop_unseen(self) -> None:
        """Drop deltas that nobody has seen: what is kept of an answer is what was shown of it."""
        with self.recorder.lock:
            events = list(self.outbox)
            self.outbox.clear()
            for event in events:
                if type(event) is not MessageUpdate:
                    self.outbox.append(event)
                elif event.kind == "text":
                    self.unseen += len(event.delta)

    def _noticed(self) -> None:
        if self.on_notice is not None:
            self.on_notice()
        self.wake.set()

    def abandon(self, job: Job, name: str) -> None:
        """Wait no longer for a task that does not stop; it stays referenced until it has ended."""
        job.cancel()
        self.abandoned.append(name)
        self.jobs = [other for other in self.jobs if other is not job]
        _orphans[:] = [other for other in _orphans if not other.done]
        _orphans.append(job)

    def give_up(self) -> None:
        """Abandon the tasks that did not stop and that no call has given up already."""
        for job in list(self.jobs):
            if not job.done:
                self.abandon(job, "a model stream or a hook")

    async def stop_jobs(self, grace_s: float) -> None:
        """Cancel every task and wait for it, at most ``grace_s``.

        A cancellation of the waiting task is held off until then, and raised.
        """
        self.ending = True
        self.jobs = [job for job in self.jobs if not job.done]
        if not self.jobs:
            return
        self._stop_tasks()
        for job in self.jobs:
            job.on_done(self.wake.set)
        late: list[bool] = []

        def time_is_up() -> None:
            late.append(True)
            self.wake.set()

        cancel = self.clock.call_later(grace_s, time_is_up)
        try:
            await self.backend.shielded(
                self.wake.wait, lambda: bool(late) or all(job.done for job in self.jobs)
            )
        finally:
            cancel()
