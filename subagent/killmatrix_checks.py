"""What must hold of a tree of sessions that was killed and gone on with, each as a list of what is wrong.

Read with: ``killmatrix_processes.py`` (who asks), ``unspool.trajectory.killmatrix_checks`` (one session of it).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from unspool.kernel.events import AgentStart, ChildEnded, ChildStarted, Fact
from unspool.kernel.messages import Usage
from unspool.kernel.state import AgentState, fold
from unspool.trajectory.head import Head
from unspool.trajectory.killmatrix_checks import (
    Ending,
    check_acknowledged,
    check_effects,
    check_ending,
    check_report,
    check_transcript,
    ending_of,
)
from unspool.trajectory.killmatrix_stores import Stored
from unspool.trajectory.sessions import Sessions

from .killmatrix_plan import ROOT
from .session_tree import check_accounting, read_tree

Heads = dict[str, list[Head]]
"""What was acknowledged, by session."""


class SessionEnding(msgspec.Struct, frozen=True):
    """What a session of the tree came to, and in how many runs."""

    ending: Ending
    runs: int


class Kept(NamedTuple):
    """What is stored of a session, and what it comes to."""

    facts: list[Fact]
    heads: list[Head]
    state: AgentState

    @property
    def runs(self) -> int:
        """How often it was begun or gone on with."""
        return sum(isinstance(fact, AgentStart) for fact in self.facts)


def kept_of(stored: Mapping[str, Sequence[Stored]]) -> dict[str, Kept]:
    """What is stored of each session, and what that comes to."""
    found: dict[str, Kept] = {}
    for session, records in stored.items():
        facts = [record.fact for record in records]
        heads = [Head(record.fact.seq, record.hash) for record in records]
        found[session] = Kept(facts, heads, fold(facts))
    return found


def endings_of(kept: Mapping[str, Kept]) -> dict[str, SessionEnding]:
    """What each session came to."""
    return {
        session: SessionEnding(ending_of(each.state, each.facts), each.runs) for session, each in kept.items()
    }


# --- right after a crash -------------------------------------------------------------------------

_FINE_AFTER_A_CRASH: Final = ("open", "missing")


def check_left(
    sessions: Sessions, written: Mapping[str, int], torn: Mapping[str, bool | None], *, aside: bool
) -> Iterator[str]:
    """What must hold of the logs as a process has left them.

    ``written`` are the facts that it and those before it wrote, by session; ``torn`` says whose last line is half,
    None where that cannot be said. ``aside``: one died in another thread, and may have written one more.
    """
    stored = {info.session: info for info in sessions.list()}
    for session, count in written.items():
        found = stored[session].facts if session in stored else 0
        if found != count and not (aside and found == count + 1):
            yield f"{session}: {found} facts are stored, {count} were written"
    for session in stored:
        half = torn.get(session, False)
        if half is not None:
            yield from _of(session, check_report(sessions.verify(session), torn=half))
    if ROOT in stored:
        for problem in check_accounting(read_tree(sessions, ROOT)):
            if problem.kind not in _FINE_AFTER_A_CRASH:
                yield f"{problem.session} is {problem.kind}: {problem.message}"


# --- in the end ----------------------------------------------------------------------------------


def check_tree(
    sessions: Sessions,
    kept: Mapping[str, Kept],
    told: Heads,
    effects: Sequence[tuple[str, str]],
    expected: Mapping[str, SessionEnding],
    kills: int,
) -> Iterator[str]:
    """What must hold when the tree has ended, after so many kills."""
    if set(kept) != set(expected):
        yield f"there are other sessions: {sorted(set(kept) ^ set(expected))}"
        return
    for session, each in kept.items():
        yield from _of(session, check_report(sessions.verify(session), torn=False))
        yield from _of(session, check_acknowledged(told.get(session, []), each.heads))
        mine = [(tool, key) for tool, key in effects if key.startswith(f"{session}:")]
        yield from _of(session, check_effects(mine, each.facts))
        yield from _of(session, check_transcript(each.state, each.facts))
        yield from _of(session, check_ending(ending_of(each.state, each.facts), expected[session].ending))
        yield from _of(session, check_children(each))
        if each.runs > expected[session].runs + kills:
            yield f"{session}: there were {each.runs} runs, not {expected[session].runs}"
    strange = [key for _, key in effects if key.rpartition(":")[0] not in kept]
    if strange:
        yield f"there are effects of no session: {strange}"
    yield from check_books(sessions, kept)


def check_children(kept: Kept) -> Iterator[str]:
    """Each child ends as often as it was begun, or begun again after a crash; none is left open."""
    opened: set[str] = set()
    for fact in kept.facts:
        if isinstance(fact, ChildStarted):
            opened.add(fact.child)
        elif isinstance(fact, ChildEnded):
            if fact.child not in opened:
                yield f"{fact.child} has ended without having begun"
            opened.discard(fact.child)
    if opened or kept.state.children:
        yield f"{sorted(opened | set(kept.state.children))} are left open"


def check_books(sessions: Sessions, kept: Mapping[str, Kept]) -> Iterator[str]:
    """The root accounts for everything that was used, once."""
    for problem in check_accounting(read_tree(sessions, ROOT)):
        yield f"{problem.session} is {problem.kind}: {problem.message}"
    used = sum((each.state.usage for each in kept.values()), Usage())
    if kept[ROOT].state.total_usage != used:
        yield f"the root accounts for {kept[ROOT].state.total_usage}, used were {used}"


def _of(session: str, problems: Iterator[str]) -> Iterator[str]:
    return (f"{session}: {problem}" for problem in problems)
