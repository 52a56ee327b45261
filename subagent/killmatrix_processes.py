"""Trees in processes of their own: one that is killed, one that goes on from the logs alone.

Read with: ``killmatrix.py``, ``killmatrix_checks.py``, ``unspool.trajectory.killmatrix_processes`` (one session).
"""

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import anyio
import msgspec

from unspool.trajectory.head import Head
from unspool.trajectory.killmatrix_logs import Tell
from unspool.trajectory.killmatrix_points import Place, Points
from unspool.trajectory.killmatrix_processes import DEADLY, NOWHERE, Case, Child
from unspool.trajectory.killmatrix_stores import open_or_create
from unspool.trajectory.memory import MemoryLog

from .killmatrix_checks import Heads, SessionEnding, check_left, check_tree, endings_of, kept_of
from .killmatrix_host import TreeHost
from .killmatrix_plan import PLAN, ROOT
from .killmatrix_stores import TellHead, doomed_sessions, stored_facts, stored_sessions

_ATTEMPTS: Final = 5  # threads open logs and wait for the disk: not each run comes to each place


class TreeCourse(msgspec.Struct, frozen=True):
    """A tree that nobody kills: the places it comes to, in order, and what its sessions come to."""

    trail: list[Place]
    endings: dict[str, SessionEnding]


def warm_up(folder: str) -> None:
    """Have everything imported and built that is made on first use; without a thread, so that one can fork."""
    os.makedirs(folder)
    anyio.run(TreeHost(MemoryLog(session=ROOT), None, Points(), folder).drive)
    shutil.rmtree(folder)


def play(log: str, folder: str, points: Points, tell: TellHead) -> tuple[TreeHost, list[str]]:
    """Begin the tree or go on with it, until it ends or ``points`` do; what there was to warn of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sessions = doomed_sessions(log, folder, points, tell)
        root = open_or_create(sessions, ROOT)
        host = TreeHost(root, sessions, points, folder)

        async def drive() -> None:
            await host.drive()
            await root.aclose()

        anyio.run(drive)
    return host, [str(warning.message) for warning in caught]


def course_of(log: str, folder: str) -> TreeCourse:
    """The course of a tree on this kind of log that nobody kills.

    Raises:
        RuntimeError: it does not come to its end.
    """

    def work(tell: Tell) -> None:
        points = Points()
        play(log, folder, points, lambda session, head: None)
        endings = endings_of(kept_of(stored_facts(log, folder)))
        tell(msgspec.json.encode(TreeCourse(points.trail, endings)).decode())

    os.makedirs(folder)
    status, lines = Child(work).join()
    shutil.rmtree(folder)
    if status:
        raise RuntimeError("\n".join(lines))
    course = msgspec.json.decode(lines[0], type=TreeCourse)
    root = course.endings[ROOT].ending
    if root.reason != "stop" or not root.text.endswith(f"reply {len(PLAN[ROOT])}"):
        raise RuntimeError(f"the tree does not come to its end although nobody kills it: {root}")
    return course


# --- one case ------------------------------------------------------------------------------------


class Left(NamedTuple):
    """What killed processes said of each session: what was acknowledged, and how many facts they wrote."""

    told: Heads
    written: Counter[str]


def try_case(case: Case, folder: str, course: TreeCourse) -> list[str]:
    """Kill a tree and go on with it; what is wrong then."""
    problems: list[str] = []
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        left = Left({}, Counter())
        problems = _kill(case, folder, left)
        if not problems:
            return _go_on(case, folder, left, course)
    return problems


def _kill(case: Case, folder: str, left: Left) -> list[str]:
    """Kill one process after the other; what it said where one was not killed."""
    for place in case.kills:
        status, lines = Child(partial(_play, case.log, folder, Points(place))).join()
        if status not in DEADLY:
            return [f"the process was not killed at {place}: it ended with {status}", *lines]
        for line in lines:
            session, _, text = line.partition(" ")
            head = Head.of(text) or Head(0, "")
            left.told.setdefault(session, []).append(head)
            left.written[session] = head.seq
        left.written[place.session] += place.kind == "written"
    return []


def _play(log: str, folder: str, points: Points, tell: Tell) -> None:
    play(log, folder, points, lambda session, head: tell(f"{session} {head}"))


def _go_on(case: Case, folder: str, left: Left, course: TreeCourse) -> list[str]:
    status, problems = Child(partial(_finish, case, folder, left, course)).join()
    return [f"going on ended with {status}", *problems] if status else problems


def _finish(case: Case, folder: str, left: Left, course: TreeCourse, tell: Tell) -> None:
    """Look at what is left, go on to the end, look at everything, and tell what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever reads a torn log is told so
        for problem in _check_left(case, folder, left, course):
            tell(f"after the crash: {problem}")

    def note(session: str, head: Head) -> None:
        left.told.setdefault(session, []).append(head)

    host, warned = play(case.log, folder, Points(NOWHERE), note)
    half = [_leaves_half(case.log, place) for place in case.kills]
    if not half[-1] <= len(warned) <= sum(half):
        tell(f"after the crash: there were other warnings than that of a torn tail: {warned}")
    sessions, kept = stored_sessions(case.log, folder), kept_of(stored_facts(case.log, folder))
    effects = host.effects.all()
    for problem in check_tree(sessions, kept, left.told, effects, course.endings, len(case.kills)):
        tell(problem)
    if kept[ROOT].state != host.agent.state:
        tell("the facts do not come to the state of the root")


def _check_left(case: Case, folder: str, left: Left, course: TreeCourse) -> Iterator[str]:
    """What must hold of the logs as the last process has left them."""
    *earlier, last = case.kills
    torn: dict[str, bool | None] = {}
    if case.log == "jsonl":
        torn = {place.session: None for place in earlier if place.kind == "torn"}
        if last.kind == "torn":
            torn[last.session] = True
    written = {session: left.written[session] for session in course.endings}
    aside = any(place.kind in ("aside", "sync") for place in case.kills)
    yield from check_left(stored_sessions(case.log, folder), written, torn, aside=aside)


def _leaves_half(log: str, place: Place) -> bool:
    """Whether a process that dies there leaves half a line: of a fact, or of the header, which comes first."""
    return log == "jsonl" and (place.kind == "torn" or (place.kind, place.number) == ("aside", 1))
