"""Whose child a session is, by what the beginning of its own log says.

Read with: ``session_tree.py``, ``unspool.kernel.events`` (``Lineage``).
"""

from collections.abc import Iterable

from unspool.kernel.errors import LogError
from unspool.kernel.events import AgentStart, Fact, Lineage
from unspool.trajectory import SessionInfo, Sessions

from .session_log import Below


def lineage_in(facts: Iterable[Fact], session: str) -> Lineage | None:
    """Whose child a session is, by its own first run; None where it is nobody's, or a fork made of such a one."""
    for fact in facts:
        if isinstance(fact, AgentStart) and fact.session in (
            "",
            session,
        ):  # not of one that it was forked from
            return fact.lineage
    return None


def nested_in(sessions: Sessions, info: SessionInfo) -> Lineage | None:
    """The same for lists, by the beginning of a log: None for forks and for what cannot be read, too."""
    if info.parent is not None:  # its own first run may be far
        return None
    try:
        return lineage_in(sessions.facts(info.session), info.session)
    except LogError:
        return None


def nested_sessions(sessions: Sessions) -> dict[str, list[Below]]:
    """The sessions that say that they are nested, by the session above each, as ``nested_in``."""
    found: dict[str, list[Below]] = {}
    for info in sessions.list():
        lineage = nested_in(sessions, info)
        if lineage is not None:
            below = Below(session=info.session, call_id=lineage.call_id, started=info.created)
            found.setdefault(lineage.parent, []).append(below)
    return found
