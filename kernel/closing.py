"""How things end: one call, the results of a turn, the whole run.

Pairs are balanced in both directions: a call that never ran gets its start before its end, a call
in doubt gets no second start.

Read with: ``tool_batch.py``, ``loop.py``.
"""

from msgspec.structs import replace

from .call_states import CallState
from .errors import HookError, LimitError, MaxTurnsError, describe
from .events import AgentEnd, MessageEnd, MessageStart, ToolExecEnd, ToolExecStart, TurnEnd
from .json_edge import clean_text
from .messages import Message, Text
from .run import Run
from .tool_call import LIMIT_REACHED, NOT_STARTED, Execution, Outcome


def announce(run: Run, state: CallState) -> None:
    """Record that a call has come to its turn, unless that is recorded already."""
    if state.stage in ("requested", "waiting"):
        call, tool = state.call, run.toolbox.by_name.get(state.call.name)
        run.record(ToolExecStart(call.id, call.name, tool.spec.title if tool else "", call.args))


def end_unrun(run: Run, state: CallState, outcome: str, text: str) -> None:
    """A call that will not run gets its start, if it has none, and its end."""
    announce(run, state)
    call = state.call
    run.record(ToolExecEnd(call.id, call.name, outcome, (Text(text),)))


def end_execution(run: Run, execution: Execution, outcome: Outcome) -> None:
    """A call that ran gets its end."""
    call = execution.call
    fact = ToolExecEnd(
        call.id,
        call.name,
        outcome.outcome,
        outcome.content,
        outcome.details,
        run.clock.monotonic() - execution.started_at,
        execution.abandoned,
    )
    decides = run.config.hooks.stop_after_tool
    failed = None
    if decides is not None and outcome.outcome == "ok":
        try:
            fact = replace(fact, terminal=bool(decides(fact)))
        except Exception as error:  # noqa: BLE001 (a hook that raises ends the run; the call's end is recorded all the same)
            failed = HookError("hook: stop_after_tool raised", reason=describe(error))
    run.record(fact)
    if failed is not None:
        run.fail(failed)


def commit_results(run: Run) -> None:
    """Commit results in call order, as far as all earlier ones are in."""
    while (turn := run.state.turn) and (state := turn.calls.next) and state.stage == "ended":
        id = run.next_id()
        call = state.call
        run.recorder.signal((MessageStart("tool", id, run_id=run.id),))
        run.record(
            MessageEnd(
                id,
                Message(
                    role="tool",
                    id=id,
                    tool_call_id=call.id,
                    tool_name=call.name,
                    is_error=state.outcome != "ok",
                    timestamp=run.clock.time(),
                ),
            )
        )


async def wind_down(run: Run, reason: str) -> None:
    """Stop all work of the run and record its end: calls, turn, marker, error, ``agent_end``."""
    try:
        await run.stop_jobs(run.limits.grace_s)
    finally:  # a cancellation that came meanwhile is raised only now, and the log still gets its ending
        _record_ending(run, reason)


def _record_ending(run: Run, reason: str) -> None:
    _close_calls(run, reason)
    run.give_up()
    phase = "tool_execution" if run.state.turn is not None and run.state.turn.calls else "inference"
    abort = run.config.abort
    if reason == "aborted" and abort is not None and abort.fired and abort.marker:
        run.commit(_marker(abort.reason, phase), cause="abort")
    if run.state.turn is not None and reason != "paused":
        run.record(TurnEnd(run.state.turn.index))
    if reason == "max_turns":
        run.fail(MaxTurnsError("run: no turns left", limit=run.limits.turns))
    elif reason in ("max_tool_calls", "budget"):
        run.fail(LimitError(reason, f"run: a limit was reached ({reason})"))
    record_end(run, reason)


def record_end(run: Run, reason: str) -> None:
    """Record ``agent_end``; nothing of the run is recorded after it."""
    with run.recorder.lock:
        state = run.state
        run.record(
            AgentEnd(
                reason,
                turns=state.turns,
                tool_calls=state.tool_calls,
                tool_errors=state.tool_errors,
                tool_skips=state.tool_skips,
                usage=state.run_usage,
                pending=tuple([call.id for call in state.pending_calls]),
            )
        )
        run.recorder.run = None


def _marker(reason: str, phase: str) -> Message:
    return Message(
        role="assistant",
        content=(Text(clean_text(reason) or "aborted by the user"),),
        stop_reason="aborted",
        metadata={"abort_phase": phase},
    )


def _close_calls(run: Run, reason: str) -> None:
    """Every open call of the turn gets its end, and every result its message."""
    turn = run.state.turn
    if turn is None or reason == "paused":
        return
    not_run = NOT_STARTED if reason != "max_tool_calls" else LIMIT_REACHED
    for state in turn.calls.uncommitted:
        execution = run.executions.pop(state.call.id, None)
        if state.stage in ("ended", "committed"):
            continue
        if execution is None or (execution.job is None and execution.outcome is None):  # never begun
            end_unrun(run, state, "skipped" if reason == "max_tool_calls" else "cancelled", not_run)
        else:
            end_execution(run, execution, execution.outcome or execution.abandon())
    commit_results(run)
