"""``unspool resume``: goes on with a session that was interrupted, has paused, or has messages queued.

Calls that wait for a person are decided first: by the options, or by whoever sits at the terminal. Those that
nobody decides go on waiting; what is decided of the others is recorded, for the next time.

Read with: ``waiting.py``, ``beginning.py``, ``run.py``, ``unspool.kernel.approval``.
"""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unspool.kernel.approval import check_decisions, record_decisions
from unspool.kernel.clock import SystemClock
from unspool.kernel.codec import Codec
from unspool.kernel.errors import ContinueError
from unspool.kernel.hooks import Verdict
from unspool.kernel.loop import check_continue
from unspool.kernel.recorder import Recorder
from unspool.kernel.state import AgentState

from .approving import ask_person, person
from .asking import can_ask
from .beginning import (
    Begun,
    ModelChoice,
    at_server,
    continued,
    limits_of,
    make_model,
    missing_tools,
    with_tools,
)
from .output import complain, console, raw_stdout, write_json
from .places import Place
from .run import Job, perform
from .toolset import ToolWish, make_tools
from .tree import refuse_nested
from .view import JsonView, TextView, View, printable
from .waiting import approval_lines, approval_object, waiting_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What was said on the command line. ``verdict`` is for ``calls``, for all that wait if there are none.

    ``answer`` is for a question of the model, the one that waits if no call is named. ``nested`` lets a nested
    session go on alone.
    """

    model: ModelChoice
    tools: ToolWish
    verdict: Verdict | None = None
    answer: str = ""
    calls: Sequence[str] = ()
    max_turns: int | None = None
    as_json: bool = False
    nested: bool = False


def resume(place: Place, wish: Wish) -> int:
    """Go on with a session; the exit status.

    Raises:
        AgentError: it cannot begin: the session, the model, a call that does not wait.
    """
    with continued(place) as begun:
        if not wish.nested:
            refuse_nested(begun)
        view: View = JsonView(raw_stdout()) if wish.as_json else TextView(console(), live=True)
        _tell(view, waiting_lines(begun.state))
        if not begun.state.waiting_calls:
            if wish.verdict is not None or wish.answer:
                raise ContinueError("resume: no call waits for a decision")
            check_continue(begun.state)
            return _go_on(begun, wish, _job(begun, wish, view))
        if wish.verdict is None and not wish.answer and not can_ask():
            return _refuse(begun.state, as_json=wish.as_json)
        return _decide(begun, wish, view)


def _decide(begun: Begun, wish: Wish, view: View) -> int:
    """Go on with the decisions on all calls that wait; with some of them, record those and leave it at that."""
    waiting = [call.call.id for call in begun.state.waiting_calls]
    if wish.answer:
        decisions = _answered(begun.state, wish)
        job: Job | None = _job(begun, wish, view) if len(decisions) == len(waiting) else None
    elif wish.verdict is None:
        job = _job(begun, wish, view)  # first: nobody shall be asked for nothing
        decisions = _ask(begun.state, as_json=wish.as_json)
    else:
        decisions = dict.fromkeys(wish.calls or waiting, wish.verdict)
        try:
            check_decisions(begun.state, decisions)
        except ValueError as error:
            raise ContinueError(str(error)) from error
        job = _job(begun, wish, view) if len(decisions) == len(waiting) else None
    left = [call_id for call_id in waiting if call_id not in decisions]
    if job is not None and not left:
        return _go_on(begun, wish, dataclasses.replace(job, decisions=decisions))
    if decisions:
        recorder = Recorder(begun.state, log=begun.log, clock=SystemClock(), codec=Codec())
        record_decisions(recorder, decisions)
    _tell(view, [f"still waits for approval: {', '.join(left)}", begun.ending])
    if not decisions:
        complain("resume: nothing was decided")
    return 0 if decisions else 2


def _answered(state: AgentState, wish: Wish) -> dict[str, Verdict]:
    """The answer for the question it is meant for: it lets no other call run.

    Raises:
        ContinueError: there is none, there are several, or another call is named.
    """
    questions = [call.call.id for call in state.waiting_calls if call.call.name == "ask_user"]
    meant = list(wish.calls) or questions
    if others := [call_id for call_id in meant if call_id not in questions]:
        raise ContinueError(f"resume: no question of the model: {', '.join(others)}; give --allow or --deny")
    if not meant:
        raise ContinueError("resume: no question waits for --answer; give --allow or --deny")
    if len(meant) > 1:
        raise ContinueError(f"resume: {len(meant)} questions wait, say which: {', '.join(meant)}")
    return {meant[0]: Verdict.allow(by=person(), reason=wish.answer)}


def _go_on(begun: Begun, wish: Wish, job: Job) -> int:
    noted = with_tools(at_server(begun, wish.model), wish.tools, job.tools)
    return perform(dataclasses.replace(job, state=noted.state, about=noted.about))


def _job(begun: Begun, wish: Wish, view: View) -> Job:
    settings = begun.settings
    model, tools = make_model(wish.model, begun), make_tools(wish.tools, begun.state)
    return Job(
        prompt=None,
        model=model,
        tools=tools,
        log=begun.log,
        view=view,
        notice=missing_tools(settings, tools),
        ending=begun.ending,
        system=settings.system,
        options=settings.options,
        limits=limits_of(settings, wish.max_turns),
        state=begun.state,
    )


def _ask(state: AgentState, *, as_json: bool) -> dict[str, Verdict]:
    """What the person at the terminal decides, until they leave."""
    decisions: dict[str, Verdict] = {}
    for call in state.waiting_calls:
        if as_json:  # stdout is for events
            print(printable("\n".join(approval_lines(call))), file=sys.stderr)
        verdict = ask_person(call)
        if verdict is None:
            break
        decisions[call.call.id] = verdict
    return decisions


def _refuse(state: AgentState, *, as_json: bool) -> int:
    if as_json:
        for call in state.waiting_calls:
            write_json(approval_object(call))
    questions = any(call.call.name == "ask_user" for call in state.waiting_calls)
    options = "--allow, --deny or --answer" if questions else "--allow or --deny"
    complain(f"resume: calls wait for approval, give {options}")
    return 2


def _tell(view: View, lines: Iterable[str]) -> None:
    for line in lines:
        view.tell(line)
