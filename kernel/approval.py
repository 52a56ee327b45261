"""What a person decides on calls that wait, at once or after the run has paused.

Read with: ``hooks.py`` (``Verdict``, ``Approve``), ``tool_batch.py`` (who asks), ``loop.py``.
"""

from collections.abc import Mapping
from inspect import isawaitable

from .errors import ContinueError, HookError, LogError, describe
from .events import ApprovalDecided
from .hooks import ApprovalInfo, Decisions, Verdict
from .json_edge import clean_text, plain_json
from .pull import pull
from .recorder import Recorder
from .run import Run
from .state import AgentState


def check_decisions(state: AgentState | None, decisions: Decisions) -> None:
    """Refuse decisions that fit no waiting call.

    Raises:
        ContinueError: no call waits.
        ValueError: a call id that does not wait, or a verdict that decides nothing.
    """
    waiting = [call.call.id for call in state.waiting_calls] if state is not None else []
    if not waiting:
        raise ContinueError("resume: no call waits for a decision")
    given = decisions if isinstance(decisions, Mapping) else {}
    unknown = sorted(set(given) - set(waiting))
    if unknown:
        raise ValueError(f"resume: no such call waits for a decision: {unknown}; these do: {waiting}")
    for verdict in given.values() if isinstance(decisions, Mapping) else [decisions]:
        if not isinstance(verdict, Verdict) or verdict.decision not in ("allow", "deny"):
            raise ValueError(f"resume: a decision allows or denies, this does neither: {verdict!r}")
        if verdict.args is not None and not isinstance(plain_json(verdict.args), dict):
            raise ValueError(f"resume: arguments are a JSON object, these are none: {verdict.args!r}")
        details: object = plain_json(verdict.details)
        if not isinstance(details, dict):
            problem = f"resume: details are a JSON object, these are none: {verdict.details!r}"
            raise ValueError(problem)  # noqa: TRY004 (whatever is wrong with a decision is a ValueError)


def record_decisions(recorder: Recorder, decisions: Decisions, otherwise: Verdict | None = None) -> None:
    """Record the decision on each call that waits; one without a verdict gets ``otherwise``, or goes on
    waiting."""
    for waiting in recorder.state.waiting_calls:
        call_id = waiting.call.id
        verdict = decisions if isinstance(decisions, Verdict) else decisions.get(call_id, otherwise)
        if verdict is not None:
            recorder.record(
                ApprovalDecided(
                    call_id,
                    verdict.decision == "allow",
                    by=clean_text(verdict.by),
                    reason=clean_text(verdict.reason),
                    args=None if verdict.args is None else plain_json(verdict.args),
                    details=plain_json(verdict.details),
                )
            )


def decide(run: Run, decisions: Decisions) -> None:
    """Record the decision on each call that waits; one without a verdict is declined."""
    record_decisions(run.recorder, decisions, Verdict.deny(run.config.texts.undecided))


async def waiting_on(run: Run) -> bool:
    """Have the host decide at once, where it wants to; whether it has, or the run has failed in it."""
    approve = run.config.hooks.approve
    if approve is None:
        return False
    await pull()  # a person takes their time
    state = run.state
    waiting = state.waiting_calls
    info = ApprovalInfo(
        calls=tuple([call.call for call in waiting]),
        reasons={call.call.id: call.reason for call in waiting if call.reason},
        previews={call.call.id: call.preview for call in waiting if call.preview is not None},
        state=state,
        details={call.call.id: call.details for call in waiting if call.details},
    )
    given: list[Decisions | None] = []

    async def ask() -> None:
        answer = approve(info)
        given.append(await answer if isawaitable(answer) else answer)

    try:
        await run.let_host(ask, until=lambda: bool(run.state.steering))
        if not given:
            return True  # a message of the user came first: the calls are skipped
        decisions = given[0]
        if decisions is None:
            return False
        check_decisions(run.state, decisions)
        decide(run, decisions)
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: approve raised", reason=describe(error)))
    return True
