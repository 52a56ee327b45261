"""How things end: one call, the results of a turn, the whole run.

Pairs are balanced in both directions: a call that never ran gets its start before its end, a call
in doubt gets no second start.

Read with: ``tool_batch.py``, ``loop.py``.
"""

from typing import Any

from msgspec.structs import replace

from .call_states import CallState
from .errors import HookError, LimitError, MaxTurnsError, describe
from .events import AgentEnd, MessageEnd, MessageStart, Stored, ToolExecEnd, ToolExecStart, TurnEnd
from .hooks import MakesResultMessage
from .json_edge import clean_text
from .messages import Message, Text
from .run import Run
from .tool_call import Execution, Outcome
from .tool_check import Refusal
from .tool_result import cut_to_size


def announce(run: Run, state: CallState) -> None:
    """Record that a call has come to its turn, unless that is recorded already."""
    if state.announced:
        return
    call, tool = state.call, run.toolbox.by_name.get(state.call.name)
    label = ""
    if tool is not None:
        spec = tool.spec_for(call.args)
        label = spec.activity or spec.title
    run.record(ToolExecStart(call.id, call.name, label, call.args))


def end_unrun(run: Run, state: CallState, refused: Refusal) -> None:
    """A call that will not run gets its start, if it has none, and its end.

    One that an earlier process dispatched may have run: whatever stops it now, that is what is told.
    """
    announce(run, state)
    if state.stage == "dispatched" and state.call.id not in run.executions:
        refused = Refusal("unknown", run.config.texts.unknown_outcome)
    if state.nested and state.stage in ("waiting", "answered"):
        refused = Refusal("interrupted", run.config.texts.left_waiting)
    call, (content, size) = state.call, cut_to_size((Text(refused.text),), run.limits.result_bytes)
    details = {**refused.details, "truncated_from_bytes": size} if size else refused.details
    run.record(ToolExecEnd(call.id, call.name, refused.outcome, content, details, ruling=refused.ruling))


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
        execution.abandoned or outcome.abandoned,
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
        id, now, call = run.next_id(), run.clock.time(), state.call
        message = Message(
            role="tool",
            id=id,
            tool_call_id=call.id,
            tool_name=call.name,
            is_error=state.outcome != "ok",
            timestamp=now,
        )
        run.recorder.signal((MessageStart("tool", id, run_id=run.id),))
        make = run.config.hooks.tool_result_message
        if make is None:
            run.record(MessageEnd(id, message), now)
        else:
            _commit_made(run, state, message, make)


def _commit_made(run: Run, state: CallState, plain: Message, make: MakesResultMessage) -> None:
    """Commit the message that the host makes of a result; where it makes none that fits, the plain one."""
    stored, failed = Stored(message=plain), None
    try:
        made = make(state.call, replace(plain, content=state.content))
        if made is not None:
            stored = _fitting(run, run.recorder.store(made), plain)
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run; the result is committed all the same)
        failed = HookError("hook: tool_result_message raised", reason=describe(error))
    run.record(MessageEnd(plain.id, stored.message, stored.app), plain.timestamp)
    if failed is not None:
        run.fail(failed)


def _fitting(run: Run, stored: Stored, plain: Message) -> Stored:
    lowered = stored.message
    if lowered is None or lowered.role != "tool" or lowered.tool_call_id != plain.tool_call_id:
        raise ValueError(f"it does not lower to the tool message of call {plain.tool_call_id!r}")
    lowered = replace(lowered, id=plain.id, timestamp=lowered.timestamp or plain.timestamp)
    return replace(stored, message=lowered)


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
        texts = run.config.texts
        text = abort.reason or (texts.aborted if phase == "inference" else texts.aborted_in_tools)
        run.commit(_marker(text, phase), cause="abort")
    if run.state.turn is not None and reason != "paused":
        run.record(TurnEnd(run.state.turn.index))
    _explain(run, reason)
    record_end(run, reason)


def _explain(run: Run, reason: str) -> None:
    """A limit that ends a run is said as an error, or in the host's words where it gave some."""
    state, limits = run.state, run.limits
    if reason == "max_turns" and run.config.texts.step_limit:
        text = clean_text(run.config.texts.step_limit)
        run.commit(Message(role="assistant", content=(Text(text),), stop_reason="stop"), cause="step_limit")
    elif reason == "max_turns":
        run.fail(MaxTurnsError("run: no turns left", limit=limits.turns))
    elif reason == "max_tool_calls":
        run.fail(LimitError(reason, "run: no tool calls left", limit=limits.tool_calls))
    elif reason == "budget":
        usage = state.run_usage
        details: dict[str, Any] = {}
        if limits.cost is not None:
            details |= {"cost": usage.cost.total if usage.cost else 0.0, "cost_limit": limits.cost}
        if limits.tokens is not None:
            details |= {"tokens": usage.total_tokens, "tokens_limit": limits.tokens}
        run.fail(LimitError(reason, "run: the budget is used up", **details))


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
                cut=run.cut if reason == "aborted" else None,
                child_usage=state.run_child_usage,
            )
        )
        run.span.end(run.state)
        run.recorder.run = None
        run.over = True


def _marker(text: str, phase: str) -> Message:
    return Message(
        role="assistant",
        content=(Text(clean_text(text)),),
        stop_reason="aborted",
        metadata={"abort_phase": phase},
    )


def _close_calls(run: Run, reason: str) -> None:
    """Every open call of the turn gets its end, and every result its message."""
    turn = run.state.turn
    if turn is None or reason == "paused":
        return
    texts = run.config.texts
    not_run = Refusal("cancelled", texts.not_started)
    if reason == "max_tool_calls":
        not_run = Refusal("skipped", texts.limit_reached)
    for state in turn.calls.uncommitted:
        execution = run.executions.get(state.call.id)
        if state.stage in ("ended", "committed"):
            continue
        if execution is None or (execution.job is None and execution.outcome is None):  # never begun
            end_unrun(run, state, not_run)
        elif execution.outcome is not None and execution.outcome.nested:  # it waits, and is not to go on
            run.executions.pop(state.call.id)
            end_unrun(run, state, Refusal("interrupted", texts.left_waiting))
        else:
            end_execution(run, execution, execution.outcome or execution.abandon())
    run.executions.clear()
    commit_results(run)
