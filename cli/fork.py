"""``unspool fork``: a session that begins like another one.

Read with: ``places.py``, ``unspool.trajectory.points``.
"""

from unspool.kernel.errors import LogError
from unspool.kernel.events import AgentStart
from unspool.trajectory import before_message, before_run

from .output import console, write_json
from .places import Place


def fork(place: Place, *, at: int | None, before: str, to: str, as_json: bool) -> int:
    """Fork a session, and print the id of the new one.

    Raises:
        LogError: there is no such fact, run or message; or as ``Sessions.fork``.
    """
    made = place.fork(_before(place, before) if before else at, to)
    if as_json:
        write_json({"session": made})
    else:
        console().print(made, soft_wrap=True)
    return 0


def _before(place: Place, named: str) -> int:
    """The fact before what is named: a run, or a message."""
    facts = list(place.facts())
    if any(isinstance(fact, AgentStart) and fact.run_id == named for fact in facts):
        return before_run(facts, named)
    try:
        return before_message(facts, named)
    except LogError as error:
        known = [fact.run_id for fact in facts if isinstance(fact, AgentStart)]
        what = "fork: there is no such run, and no such message that somebody sent"
        details = {"before": named, "runs": known[-5:], "messages": error.details["messages"][-5:]}
        raise LogError(what, kind="no_fact", **details) from error
