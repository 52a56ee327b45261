"""Sessions in processes of their own: one that is killed, one that goes on from the log alone.

Processes are forked from one that has everything imported, no event loop, no other thread and no log
open, so that one costs milliseconds; what a child has to say comes through a pipe.

Read with: ``killmatrix.py``, ``killmatrix_plan.py``, ``killmatrix_checks.py``.
"""

import gc
import os
import resource
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn

import anyio
import msgspec

from unspool.kernel.state import fold

from .head import Head
from .killmatrix_checks import (
    Ending,
    check_acknowledged,
    check_effects,
    check_ending,
    check_report,
    check_transcript,
    ending_of,
)
from .killmatrix_host import Host
from .killmatrix_logs import Tell
from .killmatrix_plan import TURNS
from .killmatrix_points import Place, Points
from .killmatrix_stores import STORES, Store
from .memory import MemoryLog

_LIMIT_S: Final = 60  # a child that takes longer hangs
NOWHERE: Final = Place("before", 0)
DEADLY: Final = (-signal.SIGKILL, -signal.SIGXFSZ)


class Case(NamedTuple):
    """A log, and where one process after the other is killed; as text ``<log>:<place>+<place>``."""

    log: str
    kills: tuple[Place, ...]

    def __str__(self) -> str:
        return f"{self.log}:{'+'.join(map(str, self.kills))}"

    @staticmethod
    def of(text: str) -> "Case":
        """A case from its text.

        Raises:
            ValueError: that is no case.
        """
        log, _, places = text.partition(":")
        if log not in STORES:
            raise ValueError(f"a case is <log>:<place>, this is none: {text!r}")
        return Case(log, tuple(map(Place.of, places.split("+"))))


class Course(msgspec.Struct, frozen=True):
    """A session that nobody kills: the places it comes to, in order, and what it comes to in the end."""

    trail: list[Place]
    ending: Ending


# --- children ------------------------------------------------------------------------------------


class Child:
    """A process that does ``work`` and ends, whatever comes; after ``limit_s`` it is taken to hang."""

    def __init__(self, work: Callable[[Tell], None], limit_s: int = _LIMIT_S) -> None:
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reading)
            _be_child(work, writing, limit_s)
        os.close(writing)

    def join(self) -> tuple[int, list[str]]:
        """Wait for it: its exit status, negative for a signal, and the lines it told."""
        with open(self._reading, encoding="utf-8") as told:
            lines = told.read().splitlines()
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status), lines


def _be_child(work: Callable[[Tell], None], pipe: int, limit_s: int) -> NoReturn:
    def tell(line: str) -> None:
        data = f"{line}\n".encode()
        while data:
            data = data[os.write(pipe, data) :]

    status = 1
    gc.disable()  # it would copy what is shared with the parent
    try:
        signal.alarm(limit_s)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work(tell)
        status = 0
    except BaseException:  # noqa: BLE001 (whatever it is, the parent is told)
        tell(traceback.format_exc())
    finally:
        os._exit(status)


def warm_up(folder: str) -> None:
    """Have everything imported and built that is made on first use, so that no child pays for it."""
    os.makedirs(folder)
    anyio.run(Host(MemoryLog(), Points(), folder).drive)
    shutil.rmtree(folder)


def play(store: Store, folder: str, points: Points, tell: Tell) -> None:
    """Begin the session or go on with it, until it ends or ``points`` do."""
    log, _ = store.open(points, tell)
    anyio.run(Host(log, points, folder).drive)


def course_of(log: str, folder: str) -> Course:
    """The course of a session on this kind of log that nobody kills.

    Raises:
        RuntimeError: it does not come to its end.
    """

    def work(tell: Tell) -> None:
        store, points = STORES[log](folder), Points()
        play(store, folder, points, lambda head: None)
        facts = [stored.fact for stored in store.stored()]
        tell(msgspec.json.encode(Course(points.trail, ending_of(fold(facts), facts))).decode())

    os.makedirs(folder)
    status, lines = Child(work).join()
    shutil.rmtree(folder)
    if status:
        raise RuntimeError("\n".join(lines))
    course = msgspec.json.decode(lines[0], type=Course)
    if course.ending.reason != "stop" or not course.ending.text.startswith(f"turn {TURNS}:"):
        raise RuntimeError(f"the session does not come to its end although nobody kills it: {course.ending}")
    return course


# --- one case ------------------------------------------------------------------------------------


def try_case(case: Case, folder: str, course: Course) -> list[str]:
    """Kill a session and go on with it; what is wrong then."""
    os.makedirs(folder)
    store = STORES[case.log](folder)
    heads: list[Head] = []
    stored = 0
    for place in case.kills:
        status, lines = _play_in_child(store, folder, Points(place))
        if status not in DEADLY:
            return [f"the process was not killed at {place}: it ended with {status}", *lines]
        told = [head for line in lines if (head := Head.of(line)) is not None]
        stored = (told[-1].seq if told else stored) + (place.kind == "written")
        heads += told
    status, problems = Child(lambda tell: _finish(case, store, folder, heads, stored, course, tell)).join()
    if status:
        problems = [f"going on ended with {status}", *problems]
    return problems


def _play_in_child(store: Store, folder: str, points: Points) -> tuple[int, list[str]]:
    return Child(lambda tell: play(store, folder, points, tell)).join()


def _finish(
    case: Case, store: Store, folder: str, heads: list[Head], stored: int, course: Course, tell: Tell
) -> None:
    """Go on to the end, look at everything, and tell what is wrong."""
    torn = case.log == "jsonl" and _is_torn(case.kills[-1], course)
    begun = case.kills[-1].kind != "aside"  # without a header there is no log yet, and nothing wrong with it
    for problem in _check_before(store, stored, torn and begun):
        tell(f"after the crash: {problem}")
    log, warned = store.open(Points(NOWHERE), lambda line: heads.append(Head.of(line) or Head(0, "")))
    if len(warned) != torn:
        tell(f"after the crash: {'no warning' if torn else 'a warning'} of a torn tail: {warned}")
    host = Host(log, Points(NOWHERE), folder)

    async def drive() -> None:
        await host.drive()
        await log.aclose()

    anyio.run(drive)
    for problem in _check_after(store, heads, host, course):
        tell(problem)


def _is_torn(end: Place, course: Course) -> bool:
    """Whether a process that dies there leaves half a line: of a fact, or of the header, which comes first."""
    return end.kind == "torn" or end == next(place for place in course.trail if place.kind == "aside")


def _check_before(store: Store, stored: int, torn: bool) -> Iterator[str]:
    """What must hold of the log as the process has left it: every fact that was written, and nothing half."""
    report = store.report()
    yield from check_report(report, torn=torn)
    found = report.records if report is not None else 0
    if found != stored:
        yield f"{found} facts are stored, {stored} were written"


def _check_after(store: Store, heads: list[Head], host: Host, course: Course) -> Iterator[str]:
    """What must hold in the end."""
    yield from check_report(store.report(), torn=False)
    stored, state = store.stored(), host.agent.state
    facts = [record.fact for record in stored]
    if fold(facts) != state:
        yield "the facts do not come to the state of the agent"
    yield from check_acknowledged(heads, [Head(record.fact.seq, record.hash) for record in stored])
    yield from check_effects(host.effects.all(), facts)
    yield from check_transcript(state, facts)
    yield from check_ending(ending_of(state, facts), course.ending)
