"""How a run stops of its own accord: the guard, the hook before the end, and the end.

Read with: ``loop.py`` (the caller), ``steps.py`` (``TryStop``), ``closing.py`` (all other endings).
"""

from msgspec.structs import replace

from .closing import record_end
from .errors import HookError, StopGuardError, describe
from .events import ContextCompacted, Replaced, Stored
from .hooks import BeforeStop, StopGuard, StopInfo, StopVerdict
from .json_edge import clean_text
from .messages import Message, Text, user_message
from .pull import pull
from .run import Aborted, Run
from .steps import TryStop


async def try_stop(run: Run, step: TryStop) -> None:
    """Ask the guard and let the host finish; then end, unless something came in meanwhile.

    The last look and the ending are one step: a message is either seen here or stays queued.
    """
    hooks = run.config.hooks
    if hooks.stop_guard is not None and not await _may_stop(run, step, hooks.stop_guard):
        return
    if hooks.before_stop is not None and run.next_step() == step:
        await _before_stop(run, step, hooks.before_stop)
    if run.next_step() == step:  # what was told to stop earlier, a gate for instance, may still tidy up
        await run.stop_jobs(run.limits.grace_s)
        run.give_up()
    with run.recorder.lock:
        if run.next_step() == step:
            record_end(run, "stop")


def _info(run: Run, step: TryStop) -> StopInfo:
    state = run.state
    replies = (message for message in reversed(state.messages) if message.role == "assistant")
    return StopInfo(state.turns, next(replies, None), step.trigger, state)


async def _may_stop(run: Run, step: TryStop, guard: StopGuard) -> bool:
    await pull()  # the guard may take its time
    info = _info(run, step)
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


async def _before_stop(run: Run, step: TryStop, hook: BeforeStop) -> None:
    """Let the host finish what the last reply began; a message that comes meanwhile cuts it short."""
    await pull()
    info = _info(run, step)
    try:
        await run.let_host(lambda: hook(info), until=lambda: run.next_step() != step)
    except Aborted:
        _cut_reply(run)
        raise
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: before_stop raised", reason=describe(error)))


def _cut_reply(run: Run) -> None:
    """Leave of the last reply what the host says was heard of it."""
    abort, state = run.config.abort, run.state
    reply = state.messages[-1]
    if abort is None or not abort.cuts or not isinstance(reply, Message) or reply.role != "assistant":
        return
    try:
        kept = clean_text(abort.kept(reply.text))
    except Exception as error:  # noqa: BLE001 (the host's function: the run ends as it would have, the reply stays)
        run.fail(HookError("abort: keep raised", reason=describe(error)))
        return
    if kept == reply.text:
        return
    heard = replace(reply, content=(Text(kept),), stop_reason="interrupted")
    messages = (Stored(message=heard),) if kept.strip() else ()
    run.record(
        ContextCompacted(
            committed=True,
            reason="interrupted",
            messages_before=len(state.messages),
            messages_after=len(state.messages) - 1 + len(messages),
            messages=messages,
            replaced=Replaced(first=reply.id, last=reply.id),
        )
    )
