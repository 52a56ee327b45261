"""The loop: look at the state, take the next step, let the consumer see, go on.

``agent_loop`` and ``agent_loop_continue`` give an ``EventStream``. The life of a turn is
``_run`` and ``_take_step``; what a step does is in the file it is imported from. A step pauses
whenever the consumer is to see what was recorded, and goes on when the consumer asks for more: so a
fact that announces an effect is seen before the effect starts.

Read with: ``steps.py`` (the table), ``model_call.py``, ``tool_batch.py``, ``closing.py``.
"""

import warnings
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, TypeAlias

from .approval import check_decisions, decide, waiting_on
from .closing import wind_down
from .config import AgentContext, LoopConfig
from .errors import ContinueError, LogError
from .events import AgentEnd, AgentStart, Event, Stored
from .hooks import Decisions
from .messages import AgentMessage, has_content, user_message
from .model_call import ask_model
from .ports import window_of
from .projection import Projector
from .pull import Drive
from .recorder import Recorder
from .run import Aborted, Run
from .sequence import without_blanks
from .spawn import current_backend
from .state import AgentState
from .steps import AskModel, AskToContinue, CloseTurn, Deliver, End, Pause, RunTools, TryStop
from .stopping import try_stop
from .stream import EventStream, Span, Watcher
from .tool_batch import run_tools
from .toolbox import Toolbox
from .turn import (
    before_turn,
    close_turn,
    deliver,
    described,
    request_config,
    start_turn,
    tell_if_no_tools,
    tell_of_changes,
)

Input: TypeAlias = str | AgentMessage | Sequence[str | AgentMessage]
"""What a run may be prompted with: text, a message, or several of them."""


class Session(NamedTuple):
    """What outlives a run: the recorder of the facts, what requests share, the tools."""

    recorder: Recorder
    projector: Projector
    toolbox: Toolbox


class Beginning(NamedTuple):
    """What a run begins with: why, the prompts, the decisions on calls that wait."""

    cause: str
    prompts: tuple[Stored, ...] = ()
    decisions: Decisions | None = None


def agent_loop(prompts: Input, context: AgentContext, config: LoopConfig) -> EventStream:
    """Run the agent on ``prompts`` until it stops; the events are the run.

    ``prompts`` is text, a message, or several of them. Nothing happens before the first event is
    asked for. The stream is an async generator and an async context manager: leaving it early
    stops all work, and ``config.log`` still gets a balanced ending.

    Raises:
        ValueError: no prompt, one without content, or the last one is an answer or a tool result; messages
            for a session whose log has some already.
        CodecError: a prompt cannot be stored (its metadata is not JSON, its class not registered).
        ToolDefinitionError: the tools cannot be used together.
        LogError: (from the stream) the log refused a fact; all work is stopped.
    """
    return _stream(as_messages(prompts), "prompt", context, config, None, _recorder(context, config))


def agent_loop_continue(
    context: AgentContext, config: LoopConfig, decisions: Decisions | None = None
) -> EventStream:
    """Go on from where a conversation stands: after a crash, a pause, an abort, an error, or from a
    user message that was not answered.

    ``decisions`` are those of a person on the calls that wait: one verdict for all, or one for each
    call id; a call without one is declined.

    Raises:
        ContinueError: there is no message, or the last one is an answer and nothing is queued; or
            decisions are given and no call waits for one.
        ValueError: a decision is for a call that does not wait, or asks in its turn.
        ToolDefinitionError: the tools cannot be used together.
    """
    recorder = _recorder(context, config)
    state = recorder.state if recorder.state.seq else None
    if config.inbox is None or not config.inbox.waiting:
        check_continue(state, context.messages)
    if decisions is not None:
        check_decisions(state, decisions)
    return _stream([], "continue" if decisions is None else "resume", context, config, decisions, recorder)


def as_messages(prompts: Input) -> list[AgentMessage]:
    """Prompts as messages.

    Raises:
        ValueError: there is none, one is empty, or the last one is not a user's.
    """
    given = [prompts] if isinstance(prompts, str) or not isinstance(prompts, Sequence) else prompts
    messages = [user_message(prompt) if isinstance(prompt, str) else prompt for prompt in given]
    if not messages:
        raise ValueError("prompts: at least one message is needed")
    for index, message in enumerate(messages):
        if not has_content(message):
            raise ValueError(f"prompts: a message is empty (index={index})")
    if messages[-1].role in ("assistant", "tool"):
        raise ValueError(f"prompts: the last message must be a user's (role={messages[-1].role!r})")
    return messages


def _recorder(context: AgentContext, config: LoopConfig) -> Recorder:
    """Where the facts go: after those of ``context.state``, or of a log that holds some already."""
    recorder = Recorder(context.state, log=config.log, clock=config.clock, codec=config.codec)
    if context.state is None and recorder.state.seq and context.messages:
        raise ValueError("context: messages are given, and the log has a conversation already")
    return recorder


def _stream(
    prompts: list[AgentMessage],
    cause: str,
    context: AgentContext,
    config: LoopConfig,
    decisions: Decisions | None,
    recorder: Recorder,
) -> EventStream:
    session = Session(recorder, Projector(), Toolbox(context.tools))
    stored = [recorder.store(prompt) for prompt in prompts]  # refused here, before anything happens
    return open_stream(session, Beginning(cause, tuple(stored), decisions), context, config)


def open_stream(
    session: Session,
    begin: Beginning,
    context: AgentContext,
    config: LoopConfig,
    watcher: Watcher | None = None,
) -> EventStream:
    """The events of one run of a session that may have had others before."""
    span = Span()
    events = _run(session, begin, context, config, watcher, span)
    return EventStream(session.recorder, session.projector.lowering, events, span)


async def _run(
    session: Session,
    begin: Beginning,
    context: AgentContext,
    config: LoopConfig,
    watcher: Watcher | None,
    span: Span,
) -> AsyncGenerator[Event, None]:
    """The life of a run: begin, take steps until it has ended, leave nothing behind."""
    run = open_run(session, context, config, span)
    recorder, outbox = session.recorder, run.outbox
    if watcher is not None:
        watcher.begin()
    steps = Drive(_take_steps(run))
    try:
        _begin(run, begin, watched=watcher is not None)
        while outbox or not steps.done:
            while outbox:
                try:
                    event = outbox.popleft()
                except IndexError:  # a signal handler aborted right now, and dropped what nobody had seen
                    break
                run.away = True
                if watcher is not None:
                    _tell(run, watcher, event)
                yield event
                run.away = False
            if run.lookers:
                run.tell_seen()
            await steps
    except LogError:
        raise
    except Exception as error:
        if recorder.run is run:
            run.fail(error)  # a fault of the kernel: the log says so, the caller gets the traceback
        raise
    finally:
        steps.close()
        try:
            await _leave(run)
        finally:
            if watcher is not None:
                try:
                    _tell_rest(run, watcher)
                finally:
                    watcher.end()


def _tell(run: Run, watcher: Watcher, event: Event) -> None:
    watcher.tell(event)
    if isinstance(event, AgentEnd):
        _tell_rest(run, watcher)


def _tell_rest(run: Run, watcher: Watcher) -> None:
    """Tell what is left, facts of the idle agent among it, which no run yields."""
    recorder, outbox = run.recorder, run.outbox
    while True:
        with recorder.lock:
            if not outbox:
                if recorder.untold is run:
                    recorder.untold = None
                return
            event = outbox.popleft()
        watcher.tell(event)


async def _take_steps(run: Run) -> None:
    """Take steps until the run has ended.

    A step awaits ``pull()`` before it starts an effect and whenever there is news to tell, so that
    steps which only record need no pull of their own.
    """
    while run.recorder.run is run:
        try:
            await _take_step(run)
        except Aborted:
            continue  # the next step sees it


async def _take_step(run: Run) -> None:
    step = run.next_step()
    match step:
        case AskModel():
            if run.state.turn is None:
                start_turn(run)
            if run.config.hooks.before_turn is not None and not run.state.failed:
                await before_turn(run, run.config.hooks.before_turn)
            if not run.state.failed:
                await ask_model(run)
        case RunTools():
            await run_tools(run)
        case CloseTurn():
            await close_turn(run)
        case Deliver(lanes):
            deliver(run, lanes)
        case AskToContinue():
            run.commit(user_message(run.config.texts.go_on), cause="length_recovery")
        case TryStop():
            await try_stop(run, step)
        case Pause():
            if not await waiting_on(run) and run.next_step() == step:
                await wind_down(run, "paused")
        case End(reason):
            await wind_down(run, reason)


def open_run(session: Session, context: AgentContext, config: LoopConfig, span: Span) -> Run:
    """A run of the session, before it begins."""
    recorder, projector, toolbox = session
    request = request_config(context, toolbox, config, recorder.state.active_tools)
    return Run(recorder, current_backend(), config, context, toolbox, request, projector, span)


def _begin(run: Run, begin: Beginning, *, watched: bool) -> None:
    """Record the start, the decisions and the prompts, and listen to the outside from here on."""
    recorder, config, request = run.recorder, run.config, run.request
    seeds = run.context.messages if run.context.state is None else ()
    run.span.begin(run.state.message_count + len(seeds))
    with recorder.lock:
        recorder.run = run
        recorder.untold = run if watched else None
    before = run.state
    run.record(
        AgentStart(
            session=recorder.session,
            agent=config.agent,
            cause=begin.cause,
            previous_run=before.run_id,
            limits=config.limits,
            model=config.model.name,
            tools=request.tools_hash,
            options=request.options_hash,
            system=request.system_hash,
            context=described(config.context),
            window=window_of(config.model),
            toolbox=request.toolbox_hash,
            blobs=request.blobs(run.state.blobs),
            history=tuple([recorder.store(message) for message in seeds]),
            lineage=config.lineage,
        )
    )
    if before.runs:
        tell_of_changes(run, before)
    tell_if_no_tools(run)
    if begin.decisions is not None:
        decide(run, begin.decisions)
    for prompt in begin.prompts:
        recorder.queue_stored("prompt", prompt)
    if config.inbox is not None:
        config.inbox.bind(recorder)
    if config.abort is not None:
        config.abort.listen(run.abort)


async def _leave(run: Run) -> None:
    """End what is still under way and stop listening; a run cut short gets its end in the log."""
    try:
        if run.recorder.broken:
            await run.stop_jobs(run.limits.grace_s)
        elif run.recorder.run is run:
            run.cut_short("left")
            await wind_down(run, "error" if run.state.failed else "aborted")
    finally:
        run.watchdog.stop()
        if run.recorder.run is run:  # a listener may have begun the next run already
            run.recorder.run = None
        if run.config.abort is not None:
            run.config.abort.unlisten(run.abort)
        if run.config.inbox is not None:
            run.config.inbox.release(run.recorder)
    if run.abandoned:
        names = ", ".join(run.abandoned)
        warnings.warn(f"did not stop when cancelled and were abandoned: {names}", ResourceWarning, 2)


def check_continue(state: AgentState | None, messages: Sequence[AgentMessage] = ()) -> None:
    """Refuse to go on from where nothing is to be done.

    Raises:
        ContinueError: there is no message, or the last one is an answer and nothing is queued. After an
            answer a run may still have died before its end: then the stop guard has not been asked yet.
    """
    if state is not None:
        if state.turn or state.prompts or state.steering or state.follow_ups or state.taken:
            return
        if state.active and state.tail:
            return
        tail = state.tail
    else:
        tail = _tail_of(messages)
    if tail not in ("user", "tool"):
        reason = "the last message is an answer" if tail else "there are no messages"
        raise ContinueError(f"continue: {reason}, give a prompt instead")


def _tail_of(messages: Sequence[AgentMessage]) -> str:
    for message in reversed(messages):
        lowered = message.to_message()
        if lowered is not None and lowered.role != "system" and without_blanks(lowered):
            return lowered.role
    return ""
