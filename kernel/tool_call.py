"""One call that may run: its task, its context, what it comes to.

``Execution`` runs the tool in a task of its own and keeps the outcome for the generator to record.
What a tool raises is what the model reads; only ``FatalToolError`` goes further.

Read with: ``tool_check.py``, ``tool_prepare.py`` (what comes before), ``tool_batch.py`` (when calls start).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from .call_states import CallState
from .errors import CANCELED, FatalToolError, ToolError, describe, error_kind
from .events import ApprovalDecided, NestedCall, Ruling
from .hooks import CallNext, ToolUse, Verdict
from .json_edge import clean_text, copy_json, plain_object
from .messages import Text
from .nesting import Nest, Suspended
from .ports import JSON, Clock, ToolSpec
from .run import Run
from .spawn import Job
from .tool_result import Blocks, cut_to_size, to_content
from .toolbox import ResolvedTool, is_safe


class Outcome(NamedTuple):
    """What a call came to. A tool that gives one, as a replay does, has the last word.

    ``suspended`` is none that is recorded: it stops and waits for decisions on calls ``nested`` in it.
    """

    outcome: str
    content: Blocks
    details: dict[str, Any]
    fatal: BaseException | None = None
    abandoned: bool = False
    nested: tuple[NestedCall, ...] = ()


def _nothing() -> None:
    """No timer is set."""


class CallContext:
    """The ``ToolContext`` of a call."""

    __slots__ = ("_execution", "_run")

    def __init__(self, run: Run, execution: "Execution") -> None:
        self._run = run
        self._execution = execution

    @property
    def call_id(self) -> str:
        return self._execution.call.id

    @property
    def idempotency_key(self) -> str:
        return self._execution.key

    @property
    def agent(self) -> tuple[str, ...]:
        lineage = self._run.config.lineage
        return (*(lineage.path if lineage else ()), self._run.config.agent)

    @property
    def session(self) -> str:
        return self._run.recorder.session

    @property
    def decision(self) -> Verdict | None:
        return self._execution.decision

    @property
    def run_context(self) -> JSON:
        return self._run.context.run_context or {}

    @property
    def nest(self) -> Nest:
        """See ``nest_of``."""
        return Nest(self._run, self._execution)

    @property
    def clock(self) -> Clock:
        return self._run.clock

    @property
    def cancelled(self) -> bool:
        return self._execution.cancelled or self._run.aborted

    def progress(self, summary: str = "", /, *, topic: str = "summary", **payload: Any) -> None:
        """See ``ToolContext.progress``."""
        execution = self._execution
        if not execution.began or execution.outcome is not None:
            return
        if execution.report(Progress(clean_text(summary), clean_text(topic), payload)):
            self._run.poke()


def _decision(state: CallState) -> Verdict | None:
    """What the person said who let a call pass."""
    if not state.approved:
        return None
    return Verdict(
        decision="allow", args=state.args, reason=state.reason, by=state.by, details=copy_json(state.details)
    )


def _answers(state: CallState) -> dict[str, Verdict]:
    """The decisions on nested calls, by the ids that the tool gave them."""
    own = f"{state.call.id}/"
    return {answer.call_id.removeprefix(own): _verdict(answer) for answer in state.answers}


def _verdict(answer: ApprovalDecided) -> Verdict:
    return Verdict(
        decision="allow" if answer.approved else "deny",
        args=answer.args,
        reason=answer.reason,
        by=answer.by,
        details=copy_json(answer.details),
    )


class Progress(NamedTuple):
    """What a tool last said of its work."""

    summary: str
    topic: str
    payload: dict[str, Any]


class Execution:
    """A call at its turn; ``outcome`` is set when it is over. ``args`` are those that run.

    ``decision`` is what the person said who let it pass, ``ruling`` what the gate did.
    """

    __slots__ = (
        "_progress",
        "_reported",
        "_run",
        "_stop",
        "_stop_timer",
        "abandoned",
        "answers",
        "approved",
        "args",
        "began",
        "call",
        "cancelled",
        "decision",
        "interrupted",
        "job",
        "key",
        "outcome",
        "preview",
        "ruling",
        "safe",
        "spec",
        "started_at",
        "timed_out",
        "tool",
    )  # fmt: skip

    def __init__(self, run: Run, state: CallState, tool: ResolvedTool) -> None:
        self.call = call = state.call
        self.tool = tool
        self.approved = state.approved
        self.key = state.key or f"{run.recorder.session}:{call.id}"
        self.decision = _decision(state)
        self.answers: Mapping[str, Verdict] = _answers(state)
        self.ruling: Ruling | None = None
        self.preview: JSON | None = state.preview
        self.use_args(call.args if state.args is None else state.args)
        self.outcome: Outcome | None = None
        self._progress: deque[Progress] = deque(maxlen=1)
        self._reported = False
        self.abandoned = False
        self.began = False
        self.cancelled = False
        self.interrupted = False
        self.timed_out = False
        self.started_at = run.clock.monotonic()
        self._stop_timer: Callable[[], None] = _nothing
        self._stop: Callable[[], None] | None = None
        self._run = run
        self.job: Job | None = None

    def use_args(self, args: JSON) -> None:
        """Run with these arguments, and by the traits that hold for them."""
        self.args = args
        self.spec: ToolSpec = self.tool.spec_for(args)
        self.safe = is_safe(self.spec)

    def use(self, context: CallContext) -> ToolUse:
        """The call as gates and middlewares see it."""
        args = copy_json(self.args)  # what a host does to it shall change nothing
        return ToolUse(
            self.call, self.spec, args, context, self._run.state, self.preview, self.approved, self.decision
        )

    def report(self, progress: Progress) -> bool:
        """Keep the newest progress; whether the generator is still to be told. Any thread."""
        self._progress.append(progress)
        told, self._reported = self._reported, True
        return not told

    def take_progress(self) -> Progress | None:
        """The newest progress, once."""
        self._reported = False  # before it is taken: what comes from now on tells again
        return self._progress.popleft() if self._progress else None

    @property
    def has_news(self) -> bool:
        """Whether it ended or progressed."""
        return self.outcome is not None or bool(self._progress)

    def skip(self) -> None:
        """Do not run: a message came in between the announcement and the start."""
        self.outcome = Outcome("skipped", (Text(self._run.config.texts.skipped),), {})

    def start(self) -> None:
        """Run the tool in a task of its own."""
        self.started_at = self._run.clock.monotonic()
        self.job = self._run.spawn(self._perform)

    @property
    def stops_itself(self) -> bool:
        """Whether the tool ends in its own way when it is asked to stop, within the grace time."""
        return self._stop is not None and self.outcome is None

    def on_stop(self, stop: Callable[[], None]) -> None:
        """See ``Nest.on_stop``."""
        self._stop = stop
        if self.cancelled:
            stop()

    def cancel(self) -> None:
        """Ask the tool to stop; one that does not within the grace time is abandoned."""
        if self.job is None or self.cancelled or self.outcome is not None:
            return
        self.cancelled = True
        if self._stop is not None:
            self._stop()
        else:
            self.job.cancel()
        if not self.began:
            texts = self._run.config.texts
            outcome, text = (
                ("skipped", texts.skipped) if self.interrupted else ("cancelled", texts.not_started)
            )
            self.outcome = Outcome(outcome, (Text(text),), {})
            self._run.wake.set()
            return
        self._stop_timer()
        self._stop_timer = self._run.clock.call_later(self._run.limits.grace_s, self._give_up)

    def _give_up(self) -> None:
        if self.outcome is None:
            self.abandon()
            self._run.wake.set()

    def abandon(self) -> Outcome:
        """The tool did not stop in time: what it still does or says is dropped."""
        self.abandoned = True
        self.outcome = self._stopped()
        if self.job is not None:
            self._run.abandon(self.job, self.call.name)
        return self.outcome

    def interrupt(self) -> None:
        """Ask the tool to stop because a message wants the agent's attention."""
        if not self.interrupted and self.outcome is None:
            self.interrupted = True
            self.cancel()

    async def _perform(self) -> None:
        if self.outcome is not None:
            return  # cancelled before its first step
        self.began = True
        limit_s = self.spec.timeout_s
        if limit_s is not None:
            self._stop_timer = self._run.clock.call_later(limit_s, self._time_out)
        outcome = None
        try:
            outcome = self._convert(await self._execute())
        except BaseException as error:  # noqa: BLE001 (whatever a tool raises is an answer to the model; no task may end in an exception)
            outcome = self._failed(error)
        finally:
            self._stop_timer()
            if self.outcome is None:
                self.outcome = outcome or self._stopped()
            self._run.wake.set()

    def _execute(self) -> Awaitable[object]:
        """The tool's execution with the host's middlewares around it, the first outermost."""
        context = CallContext(self._run, self)  # kept nowhere: the two would hold each other
        args = copy_json(self.args)  # a tool may change what it gets
        call: CallNext = partial(self.tool.tool.execute, args, context)
        middlewares = self._run.config.hooks.middlewares
        if middlewares:
            use = self.use(context)
            for middleware in reversed(middlewares):
                call = partial(middleware, use, call)
        return call()

    def _time_out(self) -> None:
        self.timed_out = True
        self.cancel()

    def _failed(self, error: BaseException) -> Outcome:
        if self.cancelled or error_kind(error) == CANCELED:
            stopped = self._stopped()
            if self._stop is None or not isinstance(error, ToolError):
                return stopped
            return self._told(error)._replace(outcome=stopped.outcome)  # it says how far it came
        if isinstance(error, Suspended) and error.calls:
            nested = [_brought_up(call, self.call.id) for call in error.calls]
            return Outcome("suspended", (), {}, nested=tuple(nested))
        return self._told(error)

    def _told(self, error: BaseException) -> Outcome:
        """What the model reads of an error."""
        text, fatal, details = f"{type(error).__name__}: {describe(error)}", None, {}
        if isinstance(error, ToolError):
            first = error.args[0] if error.args else ""
            text = first if isinstance(first, str) and first else describe(error)
            details = plain_object(error.details)
            fatal = error if isinstance(error, FatalToolError) else None
        content, _ = cut_to_size((Text(clean_text(text)),), self._limit)
        return Outcome("error", content, details, fatal)

    def _stopped(self) -> Outcome:
        texts = self._run.config.texts
        if self.timed_out:
            return _error(texts.timed_out.format(seconds=self.spec.timeout_s))
        if self.interrupted:
            return Outcome("interrupted", (Text(texts.interrupted),), {})
        if self.cancelled or self._run.aborted:
            return Outcome("cancelled", (Text(texts.cancelled),), {})
        return _error(texts.cancelled_itself)

    @property
    def _limit(self) -> int:
        return self.spec.max_result_bytes or self._run.limits.result_bytes

    def _convert(self, result: object) -> Outcome:
        if isinstance(result, Outcome):
            return result
        try:
            content, details, is_error, replaced = to_content(result)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return _error(self._run.config.texts.no_result.format(problem=describe(error)))
        if replaced:
            details = {**details, "replaced": replaced}
        content, size = cut_to_size(content, self._limit)
        if size:
            details = {**details, "truncated_from_bytes": size}
        return Outcome("error" if is_error else "ok", content, details)


def _brought_up(waiting: NestedCall, above: str) -> NestedCall:
    """A call of a nested session as the one above records it."""
    call, preview = waiting.call, waiting.preview
    return replace(
        waiting,
        id=f"{above}/{waiting.id}",
        call=replace(call, args=plain_object(call.args)),
        reason=clean_text(waiting.reason),
        details=plain_object(waiting.details),
        preview=None if preview is None else plain_object(preview),
    )


def _error(text: str) -> Outcome:
    return Outcome("error", (Text(clean_text(text)),), {})
