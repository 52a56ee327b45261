"""The members of a team in processes of their own, which are killed and started again while the others go on.

Read with: ``killmatrix.py``, ``killmatrix_host.py``, ``killmatrix_checks.py``.
"""

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec

from unspool.subagent.killmatrix_checks import Heads
from unspool.subagent.killmatrix_stores import stored_facts, stored_sessions
from unspool.trajectory.head import Head
from unspool.trajectory.killmatrix_checks import check_report
from unspool.trajectory.killmatrix_logs import Tell
from unspool.trajectory.killmatrix_points import Place, Points
from unspool.trajectory.killmatrix_processes import DEADLY, NOWHERE, Case, Child

from .killmatrix_checks import check_boxes, check_sessions
from .killmatrix_host import mailbox_path, open_boxes, run_alone
from .killmatrix_plan import OTHER
from .roster import LEAD
from .sqlite_mailbox import SqliteMailbox

_ATTEMPTS: Final = 5  # how letters arrive depends on two processes: not each run comes to each place
_NAMES: Final = (LEAD, OTHER)


class TeamCourse(msgspec.Struct, frozen=True):
    """A team that nobody kills: the places that its processes come to, those of the lead first."""

    trail: list[Place]


def warm_up(folder: str) -> None:
    """Nothing: there is no team without a thread, after which one may not fork."""


def owner_of(place: Place) -> str:
    """The member whose process comes to a place."""
    return place.session.split(".")[1]


def _begin(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    Child(lambda tell: anyio.run(open_boxes, folder)).join()


def _run(log: str, folder: str, name: str, points: Points, tell: Tell) -> None:
    def tell_head(session: str, head: Head) -> None:
        tell(f"{session} {head}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a torn tail
        anyio.run(run_alone, log, folder, name, points, tell_head)


def _supervise(log: str, folder: str, name: str, kills: Sequence[Place], tell: Tell) -> None:
    """Run a member in one process after the other, until one is not killed; tell what they said."""
    for place in (*kills, NOWHERE):
        status, lines = Child(partial(_run, log, folder, name, Points(place))).join()
        for line in lines:
            tell(line)
        if place == NOWHERE and status:
            raise RuntimeError(f"the process of {name} ended with {status}")
        if place != NOWHERE and status not in DEADLY:
            raise RuntimeError(f"the process was not killed at {place}: it ended with {status}")


def course_of(log: str, folder: str) -> TeamCourse:
    """The course of a team whose logs are of this kind, and that nobody kills.

    Raises:
        RuntimeError: it does not come to its end.
    """

    def work(name: str, tell: Tell) -> None:
        points = Points()
        _run(log, folder, name, points, lambda line: None)
        tell(msgspec.json.encode([place for place in points.trail if place.session]).decode())

    _begin(folder)
    children = [Child(partial(work, name)) for name in _NAMES]
    trail: list[Place] = []
    for status, lines in [child.join() for child in children]:
        if status:
            raise RuntimeError("\n".join(lines))
        trail += msgspec.json.decode(lines[0], type=list[Place])
    shutil.rmtree(folder)
    return TeamCourse(trail)


# --- one case ------------------------------------------------------------------------------------


def try_case(case: Case, folder: str, course: TeamCourse) -> list[str]:
    """Kill processes of a team, which others go on for; what is wrong then."""
    problems: list[str] = []
    for _ in range(_ATTEMPTS):
        problems = _try(case, folder)
        if not any(problem.startswith("RuntimeError: the process was not killed") for problem in problems):
            break
    return problems


def _try(case: Case, folder: str) -> list[str]:
    _begin(folder)
    kills = {name: [place for place in case.kills if owner_of(place) == name] for name in _NAMES}
    children = [Child(partial(_supervise, case.log, folder, name, kills[name])) for name in _NAMES]
    told: Heads = {}
    for status, lines in [child.join() for child in children]:
        if status:
            return [f"a process ended with {status}", *lines]
        for line in lines:
            session, _, head = line.partition(" ")
            told.setdefault(session, []).append(Head.of(head) or Head(0, ""))
    status, problems = Child(partial(_look, case.log, folder, told)).join()
    return [f"looking at it ended with {status}", *problems] if status else problems


def _look(log: str, folder: str, told: Heads, tell: Tell) -> None:
    for problem in _problems(log, folder, told):
        tell(problem)


def _problems(log: str, folder: str, told: Heads) -> Iterator[str]:
    """What is wrong with all that is left."""
    places = {name: os.path.join(folder, name) for name in _NAMES}
    for place in places.values():
        sessions = stored_sessions(log, place)
        for info in sessions.list():
            for problem in check_report(sessions.verify(info.session), torn=False):
                yield f"{info.session}: {problem}"
    yield from check_sessions({name: stored_facts(log, place) for name, place in places.items()}, told)
    yield from anyio.run(_boxes, folder)


async def _boxes(folder: str) -> list[str]:
    mailbox = SqliteMailbox(mailbox_path(folder))
    try:
        return [*check_boxes(await mailbox.boxes(), len(await mailbox.dead_letters()))]
    finally:
        await mailbox.aclose()
