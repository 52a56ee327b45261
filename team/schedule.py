"""The order in which the facts of many sessions came about, as one list.

The facts of a session are in its order, a letter comes after what its sender did before, a nested run after its
``child_started`` and before its ``child_ended``. Between facts that none of this orders, recorded times decide, then
the names of the sessions: so the same logs give the same schedule.

Read with: ``schedule_links.py`` (what the logs say), ``schedule_replay.py``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from unspool.kernel.events import Fact
from unspool.trajectory.sources import facts_from

from .schedule_links import Link, Logs, Point, Problem, in_session, links_of


class Step(NamedTuple):
    """A fact, and whose it is."""

    session: str
    fact: Fact


@dataclass(frozen=True)
class Schedule:
    """All facts in one order, and why they are in it.

    ``links`` are those between sessions that the order keeps. ``problems`` are those that it cannot keep.
    """

    steps: Sequence[Step]
    links: Sequence[Link]
    problems: Sequence[Problem]
    _causes: Mapping[Point, Sequence[Link]] = field(repr=False, compare=False)

    def causes_of(self, session: str, seq: int) -> Sequence[Link]:
        """What a fact followed from directly: the fact before it in its session, and those of other sessions.

        Raises:
            KeyError: there is no such fact.
        """
        return self._causes[Point(session, seq)]


def schedule(sessions: Mapping[str, Iterable[Fact]]) -> Schedule:
    """The facts of all ``sessions``, by their ids, in an order that keeps what caused what.

    Raises:
        LogError: facts of a session are missing or out of order.
    """
    logs = {session: list(facts_from(facts)) for session, facts in sorted(sessions.items())}
    there = {Point(session, fact.seq) for session, facts in logs.items() for fact in facts}
    links: list[Link] = []
    problems: list[Problem] = []
    for link in links_of(logs):
        problem = _problem(link, there)
        if problem is not None:
            problems.append(problem)
        elif link.cause.session != link.effect.session:  # else the session orders them
            links.append(link)
    order = _Order(logs, links)
    steps = order.run()
    kept = [link for link in links if link not in order.dropped]
    causes: dict[Point, list[Link]] = {point: [] for point in there}
    for link in (*(each for name, facts in logs.items() for each in in_session(name, facts)), *kept):
        causes[link.effect].append(link)
    return Schedule(steps, kept, [*problems, *order.problems], causes)


def _problem(link: Link, there: set[Point]) -> Problem | None:
    if link.cause not in there:
        what = f"{_named(link.effect)} follows from {_named(link.cause)} ({link.kind}), which is not there"
        return Problem(what="missing", at=link.effect, cause=link.cause, message=what)
    if link.cause.session == link.effect.session and link.cause.seq >= link.effect.seq:
        return _cycle(link)
    return None


def _cycle(link: Link) -> Problem:
    what = f"{_named(link.effect)} follows from {_named(link.cause)} ({link.kind}), which follows from it"
    return Problem(what="cycle", at=link.effect, cause=link.cause, message=what)


def _named(point: Point) -> str:
    return f"fact {point.seq} of {point.session}" if point.seq else f"the end of a run of {point.session}"


class _Order:
    """Takes the next fact of one session after another; only the next ones are looked at."""

    def __init__(self, logs: Logs, links: Iterable[Link]) -> None:
        self.problems: list[Problem] = []
        self.dropped: set[Link] = set()
        self._logs = logs
        self._places = dict.fromkeys(logs, 0)
        self._open: dict[Point, dict[Link, None]] = {}  # by effect: what has not come yet
        self._followed: dict[Point, list[Link]] = {}  # by cause
        for link in links:
            self._open.setdefault(link.effect, {})[link] = None
            self._followed.setdefault(link.cause, []).append(link)
        self._ready: list[tuple[float, str]] = []  # by time: sessions whose next fact can come

    def run(self) -> list[Step]:
        steps: list[Step] = []
        count = sum(map(len, self._logs.values()))
        self._ready = [entry for session in self._logs if (entry := self._entry(session)) is not None]
        heapify(self._ready)
        while len(steps) < count:
            if not self._ready:
                self._break_cycle()
            _, session = heappop(self._ready)
            fact = self._logs[session][self._places[session]]
            steps.append(Step(session, fact))
            self._places[session] += 1
            self._push(session)
            for link in self._followed.get(Point(session, fact.seq), ()):
                self._close(link)
        return steps

    def _next(self, session: str) -> Fact | None:
        facts, place = self._logs[session], self._places[session]
        return facts[place] if place < len(facts) else None

    def _entry(self, session: str) -> tuple[float, str] | None:
        """The session as one that is ready; None where its next fact cannot come yet, or there is none."""
        fact = self._next(session)
        if fact is None or self._open.get(Point(session, fact.seq)):
            return None
        return fact.time, session

    def _push(self, session: str) -> None:
        entry = self._entry(session)
        if entry is not None:
            heappush(self._ready, entry)

    def _close(self, link: Link) -> None:
        """A cause has come, or is not waited for any more."""
        waiting = self._open.get(link.effect)
        if waiting is None or link not in waiting:
            return
        del waiting[link]
        fact = self._next(link.effect.session)
        if not waiting and fact is not None and fact.seq == link.effect.seq:
            self._push(link.effect.session)

    def _break_cycle(self) -> None:
        """Leave out one link of a circle; of its facts that of the earliest time comes first."""
        circle = self._circle()
        _, link = min(circle, key=lambda each: each[0])
        self.problems.append(_cycle(link))
        self.dropped.add(link)
        self._close(link)

    def _circle(self) -> list[tuple[tuple[float, str], Link]]:
        """Sessions that wait for each other in a circle: each by its next fact, with what that waits for."""
        session = next(each for each in self._logs if self._next(each) is not None)
        path: dict[str, tuple[tuple[float, str], Link]] = {}
        while session not in path:
            fact = self._next(session)
            assert fact is not None  # something waits for it, and nothing that has come is waited for
            link = next(iter(self._open[Point(session, fact.seq)]))
            path[session] = ((fact.time, session), link)
            session = link.cause.session
        names = list(path)
        return [path[name] for name in names[names.index(session) :]]
