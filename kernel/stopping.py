"""How a run stops of its own accord: the guard, the hook before the end, and the end.

Read with: ``loop.py`` (the caller), ``steps.py`` (``TryStop``), ``closing.py`` (all other endings).
"""

from .closing import record_end
from .errors import HookError, StopGuardError, describe
from .hooks import BeforeStop, StopGuard, StopInfo, StopVerdict
from .messages import user_message
from .pull import pull
from .run import Run
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
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: before_stop raised", reason=describe(error)))
