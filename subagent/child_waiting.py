"""Calls of a child that wait for a person: how they are named above, and how decisions come back.

Read with: ``child.py`` (the caller), ``unspool.kernel.nesting`` (``Suspended``).
"""

from collections.abc import Mapping

from unspool.kernel.events import NestedCall
from unspool.kernel.hooks import Verdict
from unspool.kernel.state import AgentState


def answers_to(state: AgentState, decisions: Mapping[str, Verdict], prefix: str) -> dict[str, Verdict]:
    """The decisions on calls of a child that wait, by their ids there; ``prefix`` is that of the child above."""
    waiting = [each.call.id for each in state.waiting_calls]
    return {id: decisions[prefix + id] for id in waiting if prefix + id in decisions}


def waiting_calls(state: AgentState, prefix: str, session: str, agent: tuple[str, ...]) -> list[NestedCall]:
    """The calls of a child that wait, and of those below it, as the session above names them.

    ``session`` and ``agent`` are the child's, the names from the root down; calls from further down keep theirs.
    """
    turn = state.turn
    below = {each.id: each for call in (turn.calls.uncommitted if turn else ()) for each in call.nested}
    found = []
    for each in state.waiting_calls:
        deeper = below.get(each.call.id)
        found.append(
            NestedCall(
                id=prefix + each.call.id,
                call=each.call,
                session=session if deeper is None else deeper.session,
                agent=agent if deeper is None else deeper.agent,
                reason=each.reason,
                details=each.details,
                preview=each.preview,
            )
        )
    return found
