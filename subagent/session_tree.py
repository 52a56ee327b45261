"""A tree of sessions, read from its logs: who ran whom, what became of each, what each has used.

Every log is read once. A session is found by the ``child_started`` of the one above it, and by what it says itself
of its descent: the log above may have lost its tail. What is missing, damaged, or there twice is told in its place.

Read with: ``session_log.py`` (what one log says), ``unspool.trajectory.sessions``.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from unspool.kernel.events import Handoff
from unspool.kernel.messages import NO_USAGE, Cost, Usage
from unspool.trajectory import Sessions

from .session_lineage import nested_sessions
from .session_log import Below, SessionLog, Wait, read_log

UNFINISHED: Final = frozenset({"running", "lost", "paused", "new"})


class SessionNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session of a tree.

    ``state``: running; lost (its run has no end and nobody writes its log: the process died); paused; ended; new (no
    run has begun); missing (there is no such log); damaged (the numbers are those up to the damage); repeated (it is
    elsewhere in the tree, and counted there). ``problem`` says more of the last three. ``end_reason`` is that of the
    newest run.

    ``usage`` is what its own model calls have used, ``by_agent`` the same by the agent whose turn it was,
    ``total_usage`` with all sessions below it. ``accounted`` is what the log above says of it, None where that says
    nothing; ``agrees`` whether that is what this log comes to, with what it accounts for those below it; None where
    that cannot be said (yet). ``open``: the log above has its beginning, and no end since. ``by_lineage``: the log
    above does not know it.

    ``started`` is when its first run began, ``ended`` when its newest one ended (None while it has not), ``updated``
    the time of its last fact: seconds since the epoch. ``children`` are in the order in which they were begun.
    """

    session: str
    parent: str = ""
    agent: str = ""
    call_id: str = ""
    mode: str = ""
    state: str = "new"
    problem: str = ""
    end_reason: str = ""
    runs: int = 0
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    total_usage: Usage = NO_USAGE
    by_agent: dict[str, Usage] = {}
    accounted: Usage | None = None
    agrees: bool | None = None
    open: bool = False
    by_lineage: bool = False
    waits: tuple[Wait, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    started: float = 0.0
    ended: float | None = None
    updated: float = 0.0
    children: tuple["SessionNode", ...] = ()


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that is not accounted exactly once in the log above it.

    ``kind``: open (it has not ended there, nothing is wrong yet), unaccounted, overaccounted, missing and damaged
    (it cannot be said), repeated. ``usage`` is what it has used beyond what is accounted; less than nothing where
    more is.
    """

    session: str
    kind: str
    message: str
    usage: Usage = NO_USAGE


def read_tree(sessions: Sessions, session: str) -> SessionNode:
    """The session and all below it. A log that is missing or damaged is a node like any other."""
    return read_trees(sessions, [session])[0]


def read_trees(sessions: Sessions, roots: Iterable[str]) -> tuple[SessionNode, ...]:
    """The same of several sessions at once, such as those of a team: what two of them share is counted once."""
    return _build(_collect(sessions, roots))


def walk(*trees: SessionNode) -> Iterator[tuple[int, SessionNode]]:
    """All sessions with their depth, each before those below it."""
    left = [(0, node) for node in reversed(trees)]
    while left:
        depth, node = left.pop()
        yield depth, node
        left += [(depth + 1, child) for child in reversed(node.children)]


def usage_of_trees(*trees: SessionNode) -> dict[str, Usage]:
    """What each agent has used by its own model calls in all sessions, sorted by name; together it is everything."""
    used: dict[str, Usage] = {}
    for _, node in walk(*trees):
        for agent, usage in node.by_agent.items():
            used[agent] = used.get(agent, NO_USAGE) + usage
    return dict(sorted(used.items()))


def waits(*trees: SessionNode) -> list[tuple[str, Wait]]:
    """Which session waits for what, those at the top first."""
    return [(node.session, wait) for _, node in walk(*trees) for wait in node.waits]


def check_accounting(*trees: SessionNode) -> list[Problem]:
    """Whether what the logs account for nested sessions is what those have used, each exactly once.

    Where nothing is found, the usage that the log at the top comes to is the sum of all model calls of all logs.
    """
    found = [_problem(node, at_top=not depth) for depth, node in walk(*trees)]
    return [problem for problem in found if problem is not None]


def _problem(node: SessionNode, *, at_top: bool) -> Problem | None:
    if node.state in ("missing", "damaged", "repeated"):
        return Problem(session=node.session, kind=node.state, message=node.problem)
    if at_top:
        return None
    beyond = _books(node.usage, node.children) - (node.accounted or NO_USAGE)
    if node.open or node.accounted is None:
        text = "the log above does not know it" if node.by_lineage else "the log above does not have its end"
        return Problem(session=node.session, kind="open", message=text, usage=beyond)
    if node.agrees:
        return None
    kind = "unaccounted" if beyond.total_tokens > 0 or _cost(beyond) > 0 else "overaccounted"
    text = f"it has used {_amount(node.accounted + beyond)}, the log above accounts for {_amount(node.accounted)}"
    return Problem(session=node.session, kind=kind, message=text, usage=beyond)


# --- how a tree is put together ----------------------------------------------------------------


class _Found(Struct, kw_only=True):
    """A session on its place: ``above`` is the number of the one above it, -1 at the top."""

    log: SessionLog
    below: Below | None = None
    above: int = -1
    by_lineage: bool = False


def _collect(sessions: Sessions, roots: Iterable[str]) -> list[_Found]:
    """All sessions, each before those below it."""
    by_parent = nested_sessions(sessions)
    found: list[_Found] = []
    seen: set[str] = set()
    left: list[tuple[str, Below | None, int, bool]] = [(name, None, -1, False) for name in roots]
    left.reverse()
    while left:
        name, below, above, by_lineage = left.pop()
        if name in seen:
            log = SessionLog(session=name, state="repeated", problem="it is elsewhere in the tree")
        else:
            log = read_log(sessions, name)
        found.append(_Found(log=log, below=below, above=above, by_lineage=by_lineage))
        if name not in seen:
            seen.add(name)
            number = len(found) - 1
            left += [(each.session, each, number, new) for each, new in _below(log, by_parent)]
    return found


def _below(log: SessionLog, by_parent: Mapping[str, list[Below]]) -> list[tuple[Below, bool]]:
    """The sessions below one, the newest first, and whether only they themselves say so."""
    known = [(each, False) for each in log.below.values()]
    unknown = [(each, True) for each in by_parent.get(log.session, ()) if each.session not in log.below]
    return sorted([*known, *unknown], key=lambda each: each[0].started)[::-1]


def _build(found: list[_Found]) -> tuple[SessionNode, ...]:
    """The nodes, those below first: they are part of the ones above."""
    children: dict[int, list[SessionNode]] = {}
    for number in range(len(found) - 1, -1, -1):
        each = found[number]
        node = _node(each, found, tuple(children.pop(number, ())[::-1]))
        children.setdefault(each.above, []).append(node)
    return tuple(children.get(-1, ())[::-1])


def _node(each: _Found, found: list[_Found], children: tuple[SessionNode, ...]) -> SessionNode:
    log, below = each.log, each.below or Below(session=each.log.session, open=False)
    known = each.below is not None and not each.by_lineage
    accounted = below.usage if known else None
    readable = log.state not in ("missing", "damaged", "repeated")
    settled = known and not below.open and readable
    return SessionNode(
        session=log.session,
        parent=found[each.above].log.session if each.above >= 0 else "",
        agent=log.agent or below.agent,
        call_id=below.call_id,
        mode=below.mode,
        state=log.state,
        problem=log.problem,
        end_reason=log.end_reason,
        runs=log.runs,
        turns=log.turns,
        tool_calls=log.tool_calls,
        usage=log.usage,
        total_usage=sum([child.total_usage for child in children], log.usage),
        by_agent=log.by_agent,
        accounted=accounted,
        agrees=_same(_books(log.usage, children), below.usage) if settled else None,
        open=known and below.open,
        by_lineage=each.by_lineage,
        waits=(*log.approvals, *_running(log, children)),
        handoffs=tuple(log.handoffs),
        started=log.started,
        ended=log.ended,
        updated=log.updated,
        children=children,
    )


def _running(log: SessionLog, children: Iterable[SessionNode]) -> list[Wait]:
    """The nested sessions that the calls of one wait for; nothing waits for those in the background."""
    if log.state not in ("running", "lost"):
        return []
    return [
        Wait(kind="child", id=child.call_id, session=child.session, agent=(child.agent,))
        for child in children
        if child.open and child.mode != "background" and child.state in UNFINISHED
    ]


def _books(own: Usage, children: Iterable[SessionNode]) -> Usage:
    """What a log comes to: its own model calls, and what it accounts for the sessions below it."""
    return sum([child.accounted or NO_USAGE for child in children], own)


def _same(one: Usage, other: Usage) -> bool:
    """Whether it is the same usage; the money of one sum may differ in the last digit."""
    free = Cost()
    beyond = one - other
    tokens = (
        beyond.input_tokens,
        beyond.output_tokens,
        beyond.cache_read_tokens,
        beyond.cache_write_tokens,
        beyond.reasoning_tokens,
    )
    return not any(tokens) and math.isclose(
        (one.cost or free).total, (other.cost or free).total, rel_tol=1e-9, abs_tol=1e-9
    )


def _cost(usage: Usage) -> float:
    return usage.cost.total if usage.cost else 0.0


def _amount(usage: Usage) -> str:
    cost = f", ${usage.cost.total:.4f}" if usage.cost else ""
    return f"{usage.total_tokens:,} tokens{cost}"
