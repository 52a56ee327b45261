"""What a fact of one session has to do with facts of others: letters, and the runs of nested sessions.

Only what the logs say for certain is a link. Where a nested run was begun again after a crash, and it cannot be told
which beginning was whose, the earliest stands for all.

Read with: ``schedule.py``, ``unspool.kernel.events`` (``ChildStarted``), ``texts.py`` (what a letter leaves in a log).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ChildEnded,
    ChildStarted,
    Fact,
    ModelResponse,
    QueueChanged,
)
from unspool.kernel.messages import Usage

from .texts import about_letter


class Point(NamedTuple):
    """A fact: number ``seq`` of ``session``."""

    session: str
    seq: int


LinkKind: TypeAlias = Literal["session", "letter", "child_started", "child_ended"]


class Link(Struct, frozen=True):
    """``effect`` came after ``cause``. ``kind``: the fact before it in its session; a letter was sent; a nested run was
    begun; a nested run had ended."""

    cause: Point
    effect: Point
    kind: LinkKind


class Problem(Struct, frozen=True, kw_only=True):
    """What a schedule cannot follow.

    ``missing``: the ``cause`` of fact ``at`` is in none of the sessions. ``cycle``: ``at`` would have to come before
    its own ``cause``; that link is left out.
    """

    what: Literal["missing", "cycle"]
    at: Point
    cause: Point
    message: str

    def __str__(self) -> str:
        return self.message


Logs: TypeAlias = Mapping[str, Sequence[Fact]]


class _Run(Struct, frozen=True):
    """A run of a nested session; ``total`` counts the tokens that the session had used at its end."""

    start: int
    end: int
    reason: str
    total: int


def links_of(logs: Logs) -> Iterator[Link]:
    """All links between sessions; a cause may be a fact that is not there.

    A fact that should be there and has no number that could be known is number 0.
    """
    for session, facts in logs.items():
        for fact in facts:
            if isinstance(fact, QueueChanged) and fact.action == "queued":
                yield from _letter(session, fact)
        yield from _children(session, facts, logs)


def _letter(session: str, fact: QueueChanged) -> Iterator[Link]:
    cause = about_letter(fact.message).get("cause")
    if cause is not None:
        yield Link(Point(str(cause["session"]), int(cause["seq"])), Point(session, fact.seq), "letter")


def _children(session: str, facts: Sequence[Fact], logs: Logs) -> Iterator[Link]:
    """The links of the sessions below one."""
    of: dict[str, list[ChildStarted | ChildEnded]] = {}
    for fact in facts:
        if isinstance(fact, ChildStarted | ChildEnded):
            of.setdefault(fact.child, []).append(fact)
    for child, marks in of.items():
        if child in logs:
            yield from _runs_below(session, child, marks, _runs(session, logs[child]))
        else:
            yield from _no_log(session, child, marks)


def _no_log(session: str, child: str, marks: Sequence[ChildStarted | ChildEnded]) -> Iterator[Link]:
    for mark in marks:
        if isinstance(mark, ChildEnded):
            yield Link(Point(child, 0), Point(session, mark.seq), "child_ended")


def _runs(parent: str, facts: Sequence[Fact]) -> list[_Run]:
    """The runs of a session as a child of ``parent``; ``end`` is 0 where one has none."""
    runs: list[_Run] = []
    total = start = 0
    for fact in facts:
        match fact:
            case AgentStart():
                if start:
                    runs.append(_Run(start, 0, "", total))
                below = fact.lineage is None or fact.lineage.parent == parent
                start = fact.seq if below else 0
            case ModelResponse() | ChildEnded():
                total += _tokens(fact.usage)
            case AgentEnd() if start:
                runs.append(_Run(start, fact.seq, fact.reason, total))
                start = 0
            case _:
                pass
    return [*runs, _Run(start, 0, "", total)] if start else runs


def _tokens(usage: Usage) -> int:
    return usage.total_tokens


def _runs_below(
    session: str, child: str, marks: Sequence[ChildStarted | ChildEnded], runs: Sequence[_Run]
) -> Iterator[Link]:
    """Match the beginnings and ends that the session above tells with the runs of the one below, in their order."""
    place = 0
    begun: list[ChildStarted] = []
    for mark in marks:
        if isinstance(mark, ChildStarted):
            begun.append(mark)
            continue
        found = _ended(mark, begun, runs[place:])
        if found is None:
            if place < len(runs) or _tokens(mark.usage):  # else it was stopped before it began
                yield Link(Point(child, 0), Point(session, mark.seq), "child_ended")
        else:
            last = place + found
            yield from _beginnings(session, child, begun, runs[place : last + 1])
            yield Link(Point(child, runs[last].end), Point(session, mark.seq), "child_ended")
            place = last + 1
        begun = []
    yield from _beginnings(session, child, begun, runs[place:])


def _ended(mark: ChildEnded, begun: Sequence[ChildStarted], runs: Sequence[_Run]) -> int | None:
    """Which of the runs it is whose end was told: by its reason, and by what was used until then."""
    fitting = [place for place, run in enumerate(runs) if run.end and run.reason == mark.end_reason]
    if begun:
        used = _tokens(begun[-1].used) + _tokens(mark.usage)
        fitting = [place for place in fitting if runs[place].total == used] or fitting
    late = [place for place in fitting if place >= len(begun) - 1]  # those that were begun again before it
    return next(iter(late or fitting), None)


def _beginnings(
    session: str, child: str, begun: Sequence[ChildStarted], runs: Sequence[_Run]
) -> Iterator[Link]:
    if not begun or not runs:
        return
    if len(begun) == len(runs):
        pairs = list(zip(begun, runs, strict=True))
    else:
        pairs = [(begun[-1], runs[-1])] if len(begun) < len(runs) else [(begun[0], runs[0])]
    for mark, run in pairs:
        yield Link(Point(session, mark.seq), Point(child, run.start), "child_started")


def in_session(session: str, facts: Sequence[Fact]) -> Iterator[Link]:
    """That each fact came after the one before it."""
    for before, after in pairwise(facts):
        yield Link(Point(session, before.seq), Point(session, after.seq), "session")
