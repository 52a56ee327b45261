"""Kill a session at every place there is, go on with it, and see whether anything was lost or done twice.

``python -m unspool.trajectory.killmatrix`` runs a session of thirty turns in a process of its own and
kills that with SIGKILL: before, in the middle of and after every append, around every flush, before and
after the effect of every tool, on both kinds of log that are files. A fresh process goes on from the log
alone. Then no acknowledged fact may be missing or doubled, no effect may have come twice, and the session
must end as one does that nobody kills (``killmatrix_checks.py`` has the whole list).

A case is named by its log and place, ``jsonl:torn:137``; ``--only`` runs one again. Needs ``fork``.

Read with: ``killmatrix_processes.py``, ``killmatrix_plan.py``, ``killmatrix_points.py``.
"""

import argparse
import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import DecodeError
from msgspec.json import decode, encode

from .killmatrix_logs import Tell
from .killmatrix_points import KINDS, Place
from .killmatrix_processes import Case, Child, course_of, try_case, warm_up
from .killmatrix_stores import STORES

CourseT = TypeVar("CourseT", bound="HasTrail")

_TWICE = "twice"
_PLAIN = str.maketrans(":/", "--")  # for the names of folders
_LABELS = {**KINDS, _TWICE: "killed again while going on"}
_EVERY = 10  # of how many cases one is killed twice, by default


class HasTrail(Protocol):
    """A course: what is killed when nobody kills it."""

    @property
    def trail(self) -> list[Place]:
        """The places it comes to, in order."""
        ...


class Matrix(NamedTuple, Generic[CourseT]):
    """What is killed: ``warm_up`` has all imported, in a folder; ``course_of`` runs it undisturbed, on a log, in a
    folder; ``try_case`` says what is wrong with a case, in a folder."""

    about: str
    warm_up: Callable[[str], None]
    course_of: Callable[[str, str], CourseT]
    try_case: Callable[[Case, str, CourseT], list[str]]


def kind_of(case: Case) -> str:
    """What a case is counted under."""
    first, *again = case.kills
    return _TWICE if again else first.kind


def all_cases(log: str, course: HasTrail) -> list[Case]:
    """Every place of the course, kind by kind, and for a part of them a second one on the way on."""
    places = sorted(course.trail, key=lambda place: [*KINDS].index(place.kind))
    once = [Case(log, (place,)) for place in places]
    return once + _killed_twice(log, course)


def _killed_twice(log: str, course: HasTrail) -> list[Case]:
    """Cases whose second place comes surely: while there is left of the session what has so many of them."""
    total = Counter((place.kind, place.session) for place in course.trail)
    kinds = sorted(total, key=lambda found: (found[1], [*KINDS].index(found[0])))
    kinds = [found for found in kinds if found[0] != "aside"]
    cases: list[Case] = []
    seen: Counter[tuple[str, str]] = Counter()
    for number, place in enumerate(course.trail):
        seen[place.kind, place.session] += 1
        kind, session = again = kinds[number // _EVERY % len(kinds)]
        left = (total[again] - seen[again]) * 3 // 4
        if number % _EVERY == 0 and left > 0:
            cases.append(Case(log, (place, Place(kind, 1 + number * 7 % left, session))))
    return cases


def sampled(cases: Sequence[Case], size: int) -> list[Case]:
    """About ``size`` of the cases, evenly spread over each kind, at least one of each."""
    kinds: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.log, kind_of(case)), []).append(case)
    chosen: list[Case] = []
    for group in kinds.values():
        count = min(len(group), max(1, round(size * len(group) / len(cases))))
        chosen += [group[(2 * index + 1) * len(group) // (2 * count)] for index in range(count)]
    return chosen


def try_all(
    matrix: Matrix[CourseT],
    cases: Sequence[Case],
    courses: Mapping[str, CourseT],
    folder: str,
    jobs: int,
) -> list[list[str]]:
    """What is wrong with each case; ``jobs`` processes share the work. The folders of those that pass go."""

    def work(mine: range, tell: Tell) -> None:
        for number in mine:
            case = cases[number]
            place = os.path.join(folder, str(case).translate(_PLAIN))
            shutil.rmtree(place, ignore_errors=True)  # of another time, kept
            problems = matrix.try_case(case, place, courses[case.log])
            if not problems:
                shutil.rmtree(place)
            tell(encode([number, problems]).decode())

    shares = [range(job, len(cases), jobs) for job in range(jobs)]
    workers = [Child(partial(work, share), limit_s=0) for share in shares]
    found = [["the process that should try it has died"] for _ in cases]
    for worker in workers:
        for line in worker.join()[1]:
            with suppress(DecodeError):  # the last words of a worker are no result
                number, problems = decode(line, type=tuple[int, list[str]])
                found[number] = problems
    return found


def table(cases: Sequence[Case], found: Sequence[Sequence[str]]) -> list[str]:
    """How many cases of each kind have passed, for each log."""
    logs = list(dict.fromkeys(case.log for case in cases))
    total = Counter((kind_of(case), case.log) for case in cases)
    passed = Counter(
        (kind_of(case), case.log) for case, problems in zip(cases, found, strict=True) if not problems
    )
    lines = []
    for kind, label in _LABELS.items():
        shares = [f"{log} {passed[kind, log]}/{total[kind, log]}" if total[kind, log] else "" for log in logs]
        if any(shares):
            lines.append(f"{label:<32}{''.join(share.ljust(18) for share in shares)}".rstrip())
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix of one session, print what came of it; 0 where everything has passed."""
    about = "Kill a session everywhere, and go on with it."
    return run_matrix(Matrix(about, warm_up, course_of, try_case), arguments)


def run_matrix(matrix: Matrix[CourseT], arguments: Sequence[str] | None = None) -> int:
    """Run a matrix, print what came of it; 0 where everything has passed."""
    options = _parser(matrix.about).parse_args(arguments)
    only: list[Case] = options.only
    logs = sorted({case.log for case in only}) or ([*STORES] if options.log == "both" else [options.log])
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = options.keep or tempfile.mkdtemp(prefix="killmatrix-", dir=shared_memory)
    try:
        matrix.warm_up(os.path.join(folder, "warm"))
        gc.freeze()
        courses = {log: matrix.course_of(log, os.path.join(folder, log)) for log in logs}
        cases = only or [case for log in logs for case in all_cases(log, courses[log])]
        if options.sample:
            cases = sampled(cases, options.sample)
        found = try_all(matrix, cases, courses, folder, options.jobs)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(*table(cases, found), sep="\n")
    for case, problems in zip(cases, found, strict=True):
        if problems:
            print(f"\n--only {case}", *problems, sep="\n  ")
    passed = sum(not problems for problems in found)
    print(f"{passed}/{len(cases)}")
    return int(passed < len(cases))


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("killmatrix", description=about)
    parser.add_argument("--log", choices=[*STORES, "both"], default="both", help="the kind of log")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="about N cases, evenly spread")
    parser.add_argument(
        "--only",
        type=Case.of,
        action="append",
        default=[],
        metavar="CASE",
        help="this case, as it was printed",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the work")
    parser.add_argument("--keep", metavar="DIR", help="work there, and keep the logs of what fails")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
