"""Members do at random what they can, on both boards and on a simple model: all three agree after each step."""

import os
import tempfile
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kernel.clock import FakeClock
from unspool.team.board import Board, BoardTask, TaskDraft, TaskHeld, WrongTaskStatus
from unspool.team.errors import TeamError
from unspool.team.memory_board import MemoryBoard
from unspool.team.sqlite_board import SqliteBoard

LONG = bool(os.environ.get("UNSPOOL_LONG"))
MEMBERS = ("ann", "bob", "eve")
TAGS = ("x", "y")

Op = tuple[Any, ...]
who = st.sampled_from(MEMBERS)
place = st.integers(0, 11)  # which of the tasks that there are
attempt = st.none() | st.integers(1, 3)
op: st.SearchStrategy[Op] = st.one_of(
    st.tuples(
        st.just("add"), who, st.lists(place, max_size=3), st.integers(-1, 1), st.sets(st.sampled_from(TAGS))
    ),
    st.tuples(
        st.just("claim"), who, st.sets(st.sampled_from(TAGS), max_size=1), st.none() | st.integers(1, 5)
    ),
    st.tuples(st.just("claim"), who, st.just(frozenset[str]()), st.none() | st.integers(1, 5)),
    st.tuples(st.just("claim id"), who, place, st.none() | st.integers(1, 5)),
    st.tuples(st.sampled_from(["complete", "fail", "release", "renew"]), who, place, attempt),
    st.tuples(st.just("cancel"), who, place),
    st.tuples(st.just("died"), who),
    st.tuples(st.just("later"), st.integers(1, 3)),
    st.tuples(st.just("needs"), place, st.lists(place, max_size=2)),
)


class Refused(Exception):
    pass


class Model:
    """The rules once more, as plainly as can be; ``tasks`` are dictionaries by number."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tasks: list[dict[str, Any]] = []

    def _free(self, task: dict[str, Any]) -> bool:
        return task["status"] == "open" and all(
            self.tasks[need]["status"] == "done" for need in task["needs"]
        )

    def later(self, seconds: int) -> None:
        self.now += seconds
        for task in self.tasks:
            if 0 < task["until"] <= self.now:
                self._open(task)

    @staticmethod
    def _open(task: dict[str, Any]) -> None:
        task.update(status="open", by="", until=0.0)

    def add(self, by: str, needs: list[int], priority: int, tags: set[str]) -> int:
        task = {"status": "open", "by": "", "needs": needs, "priority": priority, "tags": tags}
        self.tasks.append({**task, "attempts": 0, "until": 0.0})
        return len(self.tasks)

    def claim(self, by: str, tags: set[str], lease: int | None) -> int | None:
        free = [n for n, task in enumerate(self.tasks) if self._free(task) and tags <= task["tags"]]
        if not free:
            return None
        return self._claim(min(free, key=lambda n: (-self.tasks[n]["priority"], n)), by, lease)

    def _claim(self, n: int, by: str, lease: int | None) -> int:
        task = self.tasks[n]
        task.update(status="claimed", by=by, attempts=task["attempts"] + 1)
        task["until"] = self.now + lease if lease else 0.0
        return n + 1

    def claim_id(self, by: str, n: int, lease: int | None) -> int:
        task = self.tasks[n]
        if task["status"] == "claimed" and task["by"] == by:
            task["until"] = self.now + lease if lease else 0.0
            return n + 1
        if not self._free(task):
            raise Refused
        return self._claim(n, by, lease)

    def act(self, what: str, by: str, n: int, attempt: int | None) -> None:
        task = self.tasks[n]
        outcome = {"complete": "done", "fail": "failed"}.get(what)
        mine = task["by"] == by and attempt in (None, task["attempts"])
        if outcome and task["status"] == outcome and mine:
            return
        if what == "release" and task["status"] in ("failed", "cancelled"):
            self._open(task)
            return
        if task["status"] != "claimed" or not mine:
            raise Refused
        if what == "release":
            self._open(task)
        elif what == "renew":
            task["until"] = self.now + 4
        else:
            task.update(status=outcome, until=0.0)

    def cancel(self, by: str, n: int) -> None:
        task = self.tasks[n]
        if task["status"] in ("done", "failed"):
            raise Refused
        if task["status"] != "cancelled":
            task.update(status="cancelled", by=by, until=0.0)

    def died(self, by: str) -> None:
        for task in self.tasks:
            if task["status"] == "claimed" and task["by"] == by:
                self._open(task)

    def needs(self, n: int, needs: list[int]) -> None:
        def all_of(m: int) -> set[int]:
            return {m}.union(*(all_of(each) for each in self.tasks[m]["needs"]))

        if self.tasks[n]["status"] != "open" or any(n in all_of(need) for need in needs):
            raise Refused
        self.tasks[n]["needs"] = needs

    def shown(self) -> list[tuple[Any, ...]]:
        return [
            (task["status"], task["by"], tuple(task["needs"]), task["attempts"], task["until"])
            for task in self.tasks
        ]


def shown(task: BoardTask) -> tuple[Any, ...]:
    needs = tuple(int(id[1:]) - 1 for id in task.depends_on)
    return (task.status, task.assignee, needs, task.attempts, task.until)


async def on_board(board: Board, op: Op, pick: Callable[[Any], Any]) -> Any:
    match op:
        case ("add", by, needs, priority, tags):
            draft = TaskDraft(title="x", depends_on=pick(needs), priority=priority, tags=tuple(sorted(tags)))
            return (await board.add(by, draft))[0].id
        case ("claim", by, tags, lease):
            task = await board.claim(by, tags=tags, lease_s=lease)
            return task and task.id
        case ("claim id", by, place, lease):
            task = await board.claim(by, id=pick(place), lease_s=lease)
            return task and task.id
        case ("renew", by, place, attempt):
            await board.renew(pick(place), by, lease_s=4, attempt=attempt)
        case (("complete" | "fail" | "release") as what, by, place, attempt):
            await getattr(board, what)(pick(place), by, attempt=attempt)
        case ("cancel", by, place):
            await board.cancel(pick(place), by)
        case ("died", by):
            await board.release_claims(of=by)
        case ("needs", place, needs):
            await board.update(pick(place), depends_on=pick(needs))


def on_model(model: Model, op: Op, pick: Callable[[Any], Any]) -> Any:
    match op:
        case ("add", by, needs, priority, tags):
            return model.add(by, pick(needs), priority, tags)
        case ("claim", by, tags, lease):
            return model.claim(by, set(tags), lease)
        case ("claim id", by, place, lease):
            return model.claim_id(by, pick(place), lease)
        case ("cancel", by, place):
            model.cancel(by, pick(place))
        case ("died", by):
            model.died(by)
        case ("needs", place, needs):
            model.needs(pick(place), pick(needs))
        case (what, by, place, attempt):
            model.act(what, by, pick(place), attempt)


async def play(ops: list[Op]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock, model = FakeClock(1000.0), Model()
        boards: list[Board] = [MemoryBoard(clock), SqliteBoard(f"{folder}/team.db", clock)]
        boards.append(SqliteBoard(f"{folder}/team.db", clock))  # as another process has it
        try:
            for number, op in enumerate(ops):
                await step(clock, model, boards, op, number)
        finally:
            for board in boards:
                await board.aclose()


async def step(clock: FakeClock, model: Model, boards: list[Board], op: Op, number: int) -> None:
    count = len(model.tasks)
    if op[0] == "later":
        model.later(op[1])
        clock.now = model.now
        return
    if not count and op[0] not in ("add", "claim", "died"):
        return

    def places(chosen: Any) -> Any:
        if isinstance(chosen, list):
            return list(dict.fromkeys(each % count for each in chosen)) if count else []
        return chosen % count

    def ids(chosen: Any) -> Any:
        found = places(chosen)
        return tuple(f"t{each + 1}" for each in found) if isinstance(found, list) else f"t{found + 1}"

    wanted: Any = None
    try:
        wanted = on_model(model, op, places)
    except Refused:
        wanted = Refused
    for board in (boards[0], boards[1 + number % 2]):
        try:
            got = await on_board(board, op, ids)
        except (TaskHeld, WrongTaskStatus, TeamError):
            got = Refused
        assert got == (f"t{wanted}" if isinstance(wanted, int) else wanted), op
    for board in boards:
        assert [shown(task) for task in await board.list()] == model.shown(), op


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=1000 if LONG else 40, deadline=None)
@given(ops=st.lists(op, min_size=10, max_size=40))
def test_boards_do_as_the_model_does(backend: str, ops: list[Op]) -> None:
    anyio.run(play, ops, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=200 if LONG else 15, deadline=None)
@given(needs=st.lists(st.lists(place, max_size=2), min_size=1, max_size=20), workers=st.integers(1, 4))
def test_several_members_at_once_do_each_task_once(
    backend: str, needs: list[list[int]], workers: int
) -> None:
    async def work(board: Board, name: str, held: set[str], done: list[str]) -> None:
        while True:
            tasks = await board.list()
            if all(task.is_finished for task in tasks):
                return
            task = await board.claim(name, wait_s=0.02)
            if task is None:
                continue
            assert task.id not in held and set(task.depends_on) <= set(done)
            held.add(task.id)
            await anyio.lowlevel.checkpoint()
            done.append(task.id)
            held.remove(task.id)
            await board.complete(task.id, name)

    async def play(make: Callable[[], Board]) -> None:
        boards = [make() for _ in range(workers)]
        done: list[str] = []
        for number, wanted in enumerate(needs):
            depends_on = tuple({f"t{each % number + 1}": None for each in wanted}) if number else ()
            await boards[0].add("lead", TaskDraft(title="x", depends_on=depends_on))
        held: set[str] = set()
        async with anyio.create_task_group() as tasks:
            for number, board in enumerate(boards):
                tasks.start_soon(work, board, f"member {number}", held, done)
        assert sorted(done) == sorted(f"t{number + 1}" for number in range(len(needs)))
        for board in boards:
            await board.aclose()

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(play, lambda: SqliteBoard(f"{folder}/team.db"), backend=backend)
