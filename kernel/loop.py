"""The loop: look at the state, take the next step, let the consumer see, go on.

``agent_loop`` and ``agent_loop_continue`` give an ``EventStream``. The life of a turn is
``_run`` and ``_take_step``; what a step does is in the file it is imported from. A step pauses
whenever the consumer is to see what was recorded, and goes on when the consumer asks for more: so a
fact that announces an effect is seen before the effect starts.

Read with: ``steps.py`` (the table), ``model_call.py``, ``tool_batch.py``, ``closing.py``.
"""

import dataclasses
import warnings
from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from .closing import record_end, wind_down
from .config import AgentContext, BeforeTurn, LoopConfig, StopGuard, StopInfo, StopVerdict, TurnInfo
from .errors import ContinueError, HookError, LogError, StopGuardError, describe
from .events import AgentStart, ConfigChanged, Event, QueueChanged, Stored, TurnEnd, TurnStart
from .json_edge import clean_text
from .messages import AgentMessage, has_content, user_message
from .model_call import ask_model
from .ports import SystemBlock
from .projection import Projector, RequestConfig
from .pull import Drive, pull
from .recorder import Recorder
from .run import Aborted, Run
from .sequence import without_blanks
from .spawn import current_backend
from .steps import AskModel, AskToContinue, CloseTurn, Deliver, End, Pause, RunTools, TryStop, next_step
from .stream import EventStream
from .tool_batch import run_tools
from .toolbox import Toolbox

Input: TypeAlias = "str | AgentMessage | Sequence[str | AgentMessage]"


def agent_loop(prompts: Input, context: AgentContext, config: LoopConfig) -> EventStream:
    """Run the agent on ``prompts`` until it stops; the events are the run.

    ``prompts`` is text, a message, or several of them. Nothing happens before the first event is
    asked for. The stream is an async generator and an async context manager: leaving it early
    stops all work, and ``config.log`` still gets a balanced ending.

    Raises:
        ValueError: no prompt, one without content, or the last one is an answer or a tool result.
        CodecError: a prompt cannot be stored (its metadata is not JSON, its class not registered).
        ToolDefinitionError: the tools cannot be used together.
        LogError: (from the stream) the log refused a fact; all work is stopped.
    """
    return _stream(_as_messages(prompts), "prompt", context, config)


def agent_loop_continue(context: AgentContext, config: LoopConfig) -> EventStream:
    """Go on from where a conversation stands: after a crash, an abort, an error, or from a user
    message that was not answered.

    Raises:
        ContinueError: there is no message, or the last one is an answer and nothing is queued.
        ToolDefinitionError: the tools cannot be used together.
    """
    _check_continue(context, config)
    return _stream([], "continue", context, config)


def _as_messages(prompts: Input) -> list[AgentMessage]:
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


def _stream(
    prompts: list[AgentMessage], cause: str, context: AgentContext, config: LoopConfig
) -> EventStream:
    toolbox = Toolbox(context.tools)
    recorder = Recorder(context.state, log=config.log, clock=config.clock, codec=config.codec)
    stored = [recorder.store(prompt) for prompt in prompts]  # refused here, before anything happens
    projector = Projector()
    events = _run(recorder, stored, cause, context, config, toolbox, projector)
    seeds = 0 if context.state is not None else len(context.messages)
    return EventStream(recorder, projector.lowering, events, recorder.state.message_count + seeds)


async def _run(
    recorder: Recorder,
    prompts: list[Stored],
    cause: str,
    context: AgentContext,
    config: LoopConfig,
    toolbox: Toolbox,
    projector: Projector,
) -> AsyncGenerator[Event, None]:
    """The life of a run: begin, take steps until it has ended, leave nothing behind."""
    run = _open(recorder, context, config, toolbox, projector)
    outbox = run.outbox
    steps = Drive(_take_steps(run))
    try:
        _begin(run, prompts, cause)
        while outbox or not steps.done:
            while outbox:
                yield outbox.popleft()
            await steps
    except LogError:
        raise
    except Exception as error:
        if recorder.run is run:
            run.fail(error)  # a fault of the kernel: the log says so, the caller gets the traceback
        raise
    finally:
        steps.close()
        await _leave(run)


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
    step = next_step(run.state, run.limits, aborted=run.aborted)
    match step:
        case AskModel():
            if run.state.turn is None:
                _start_turn(run)
            if run.config.hooks.before_turn is not None and not run.state.failed:
                await _before_turn(run, run.config.hooks.before_turn)
            if not run.state.failed:
                await ask_model(run)
        case RunTools():
            await run_tools(run)
        case CloseTurn():
            await _close_turn(run)
        case Deliver(lanes):
            _deliver(run, lanes)
        case AskToContinue():
            run.commit(user_message(run.config.continue_text), cause="length_recovery")
        case TryStop():
            await _try_stop(run, step)
        case Pause():
            await wind_down(run, "paused")
        case End(reason):
            await wind_down(run, reason)


def _open(
    recorder: Recorder, context: AgentContext, config: LoopConfig, toolbox: Toolbox, projector: Projector
) -> Run:
    system = context.system
    blocks = (SystemBlock(text=system),) if system and isinstance(system, str) else tuple(system or ())
    blocks = tuple([replace(block, text=clean_text(block.text)) for block in blocks])
    request = RequestConfig(blocks, toolbox.specs, config.options)
    return Run(recorder, current_backend(), config, context, toolbox, request, projector)


def _begin(run: Run, prompts: list[Stored], cause: str) -> None:
    """Record the start, queue the prompts, and listen to the outside from here on."""
    recorder, config, request = run.recorder, run.config, run.request
    seeds = run.context.messages if run.context.state is None else ()
    recorder.run = run
    run.record(
        AgentStart(
            session=recorder.session,
            agent=config.agent,
            cause=cause,
            limits=config.limits,
            model=config.model.name,
            tools=request.tools_hash,
            options=request.options_hash,
            system=request.system_hash,
            blobs=request.blobs(run.state.blobs),
            history=tuple([recorder.store(message) for message in seeds]),
        )
    )
    for prompt in prompts:
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
            await wind_down(run, "error" if run.state.failed else "aborted")
    finally:
        run.watchdog.stop()
        run.recorder.run = None
        if run.config.abort is not None:
            run.config.abort.unlisten(run.abort)
        if run.config.inbox is not None:
            run.config.inbox.release(run.recorder)
    if run.abandoned:
        names = ", ".join(run.abandoned)
        warnings.warn(f"did not stop when cancelled and were abandoned: {names}", ResourceWarning, 2)


def _start_turn(run: Run) -> None:
    """Take over a changed configuration and open the turn."""
    if run.config.refresh is not None:
        try:
            _refresh(run, run.config.refresh())
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
            run.fail(HookError("hook: refresh raised", reason=describe(error)))
            return
    run.record(TurnStart(run.state.turn_index + 1))
    run.fresh_turn = True


def _refresh(run: Run, new: LoopConfig) -> None:
    old = run.config
    if new is old:
        return
    run.config = new = dataclasses.replace(  # what the run is bound to stays
        new, inbox=old.inbox, abort=old.abort, log=old.log, clock=old.clock, codec=old.codec
    )
    request = RequestConfig(run.request.system, run.request.tools, new.options)
    changes = ConfigChanged(
        model=new.model.name if new.model.name != old.model.name else None,
        options=request.options_hash if request.options_hash != run.request.options_hash else None,
        limits=new.limits if new.limits != old.limits else None,
        blobs=request.blobs(run.state.blobs),
    )
    run.request = request
    if (changes.model, changes.options, changes.limits) != (None, None, None):
        run.record(changes)


async def _before_turn(run: Run, hook: BeforeTurn) -> None:
    """Run the hook once for a turn that this run opened, and commit what it gives."""
    fresh, run.fresh_turn = run.fresh_turn, False
    if not fresh:
        return
    await pull()  # the hook may take its time
    info = TurnInfo(run.state.turn_index, run.state)
    try:
        given = await run.ask_host(lambda: hook(info))
        messages = [given] if isinstance(given, str) else list(given or ())
        for message in messages:
            run.commit(user_message(message) if isinstance(message, str) else message, cause="before_turn")
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: before_turn raised", reason=describe(error)))


async def _close_turn(run: Run) -> None:
    run.record(TurnEnd(run.state.turn_index))
    hook = run.config.hooks.after_turn
    if hook is None:
        return
    await pull()  # the hook may take its time
    info = TurnInfo(run.state.turn_index, run.state)
    try:
        await run.ask_host(lambda: hook(info))
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: after_turn raised", reason=describe(error)))


def _deliver(run: Run, lanes: tuple[str, ...]) -> None:
    """Move queued messages into the transcript; they stay facts at every moment in between."""
    if run.state.turn is None and run.state.turns < run.limits.turns:
        _start_turn(run)
    if run.state.failed:
        return
    with run.recorder.lock:
        state = run.state
        for lane in lanes:
            queue = {"prompt": state.prompts, "steering": state.steering, "follow_up": state.follow_ups}[lane]
            if queue:
                run.record(QueueChanged(lane, "taken", tuple([queued.id for queued in queue])))
    for queued in run.state.taken:
        run.commit(queued.message, queue_id=queued.id)


async def _try_stop(run: Run, step: TryStop) -> None:
    """Ask the guard; then end, unless something came in meanwhile. Check and ending are one step."""
    guard = run.config.hooks.stop_guard
    if guard is not None and not await _may_stop(run, step, guard):
        return
    with run.recorder.lock:
        if next_step(run.state, run.limits, aborted=run.aborted) == step:
            record_end(run, "stop")


async def _may_stop(run: Run, step: TryStop, guard: StopGuard) -> bool:
    await pull()  # the guard may take its time
    state = run.state
    replies = (message for message in reversed(state.messages) if message.role == "assistant")
    info = StopInfo(state.turns, next(replies, None), step.trigger, state)
    try:
        verdict = await run.ask_host(lambda: guard(info))
        if not isinstance(verdict, StopVerdict):
            raise TypeError(f"expected a StopVerdict, got {type(verdict).__name__}")
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: stop_guard raised", reason=describe(error)))
        return False
    if verdict.decision == "fail":
        run.fail(StopGuardError(verdict.text or "the stop guard ended the run"))
        return False
    if verdict.decision == "go_on" and verdict.text.strip():
        run.commit(user_message(verdict.text), cause="stop_guard")
        return False
    return True


def _check_continue(context: AgentContext, config: LoopConfig) -> None:
    state = context.state
    if state is not None:
        if state.turn or state.prompts or state.steering or state.follow_ups or state.taken:
            return
        tail = state.tail
    else:
        tail = _tail_of(context.messages)
    if config.inbox is not None and config.inbox.waiting:
        return
    if tail not in ("user", "tool"):
        reason = "the last message is an answer" if tail else "there are no messages"
        raise ContinueError(f"continue: {reason}, give a prompt instead")


def _tail_of(messages: Sequence[AgentMessage]) -> str:
    for message in reversed(messages):
        lowered = message.to_message()
        if lowered is not None and lowered.role != "system" and without_blanks(lowered):
            return lowered.role
    return ""
