"""Orchestrator and workers: one splits a goal into tasks of the board, others do them, the first sums up.

1. Only tasks that the orchestrator has added in the pattern are worked on. A task is claimed for a worker before the
   worker is asked, and has an outcome, or is open again, after it has answered.
2. A worker that ends its turn without saying what came of its task has done it: its answer is the result.
3. Everything is bounded: how often the orchestrator may add tasks, how often one task is tried, and the team's limits.

Read with: ``pattern_cast.py`` (who takes part), ``board.py``.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from .board import FINISHED, BoardTask, TaskHeld, Tasks, UnknownTask, WrongTaskStatus
from .claims import task_text
from .membership import LEAVING_S
from .pattern_cast import Answer, Answers, Cast, PatternEnd, Spent, Who

if TYPE_CHECKING:
    from .team import Team

_SHOWN: Final = 20_000  # characters of a result that the orchestrator is shown


@dataclass(frozen=True, slots=True)
class Orchestrated:
    """What came of a goal: ``text`` is the orchestrator's synthesis.

    ``tasks`` as they stand at the end, in the order in which they were added. ``failures`` are the answers that were
    none, of workers and orchestrator. ``end_reason``: ``stop``, ``incomplete`` (some task is not done), ``rounds`` (some
    task could still be done: rounds or workers are used up), ``failed`` (there is no synthesis), or why the team ended.
    """

    text: str
    end_reason: PatternEnd
    tasks: Tasks
    failures: Answers
    spent: Spent


async def orchestrate(
    team: "Team", goal: str, *, orchestrator: Who, workers: Sequence[Who], rounds: int = 3, attempts: int = 2
) -> Orchestrated:
    """Have the orchestrator add tasks for ``goal`` to the team's board, the workers do them, and it sum up.

    Told what came of its tasks, the orchestrator may add more, in at most ``rounds`` rounds; the answer with which it
    adds none is the synthesis. A task that workers give back, or leave, is tried ``attempts`` times.

    Raises:
        ValueError: there is no worker, somebody takes part twice, or a bound is below 1.
        UnknownAgent, TeamError: somebody cannot take part; nobody is asked then.
    """
    if not workers or rounds < 1 or attempts < 1:
        raise ValueError(
            f"orchestrate: needs a worker and a round (rounds={rounds!r}, attempts={attempts!r})"
        )
    async with Cast(team) as cast:
        name, *names = await cast.names_of([orchestrator, *workers])
        work = _Work(team, cast, name, names, attempts)
        return await work.run(goal, rounds)


class _Work:
    def __init__(self, team: "Team", cast: Cast, name: str, workers: Sequence[str], attempts: int) -> None:
        self._team, self._cast, self._board = team, cast, team.board
        self._name, self._workers, self._attempts = name, list(workers), attempts
        self._known: set[str] = set()  # tasks from before
        self._failures: list[Answer] = []

    async def run(self, goal: str, rounds: int) -> Orchestrated:
        self._known = {task.id for task in await self._board.list()}
        answer = await self._ask(_first(goal, self._workers))
        while answer.ok and rounds and self._workers and await self._ready_tasks():
            rounds -= 1
            await self._round()
            may_add = rounds > 0 and bool(self._workers)
            answer = await self._ask(_news(await self._tasks(), may_add=may_add))
        return await self._result(answer)

    async def _ask(self, text: str) -> Answer:
        answer = await self._cast.ask(self._name, text)
        if not answer.ok:
            self._failures.append(answer)
        return answer

    async def _tasks(self) -> Tasks:
        return self._mine(await self._board.list())

    def _mine(self, tasks: Tasks) -> Tasks:
        return [task for task in tasks if task.created_by == self._name and task.id not in self._known]

    async def _ready_tasks(self) -> Tasks:
        tasks = await self._board.list()
        return _ready(tasks, self._mine(tasks))

    async def _round(self) -> None:
        """Have everything done that can be."""
        async with anyio.create_task_group() as working:
            for worker in tuple(self._workers):
                working.start_soon(self._work, worker)

    async def _work(self, worker: str) -> None:
        """Do one task after another, until nothing is left to claim and nothing that goes on can change that."""
        while not self._team.over:
            tasks = await self._board.wait(self._has_news)
            ready = _ready(tasks or (), self._mine(tasks or ()))
            if not ready:
                return
            task = await self._claimed(worker, ready)
            if task is None:
                continue  # others were faster
            answer = await self._done(task, worker)
            await self._settle(task, worker, answer)
            if not answer.ok:
                self._failures.append(answer)
            if answer.is_last:
                self._workers.remove(worker)
                return

    def _has_news(self, tasks: Tasks) -> bool:
        mine = self._mine(tasks)
        goes_on = any(task.status == "claimed" and task.assignee in self._workers for task in mine)
        return bool(_ready(tasks, mine)) or not goes_on

    async def _claimed(self, worker: str, ready: Tasks) -> BoardTask | None:
        for task in ready:
            try:
                return await self._board.claim(worker, id=task.id)
            except (TaskHeld, WrongTaskStatus, UnknownTask):
                continue
        return None

    async def _done(self, task: BoardTask, worker: str) -> Answer:
        """What a worker says of its task; where nobody waits for that any more, the task is open again."""
        try:
            return await self._cast.ask(worker, task_text(task))
        except BaseException:
            with anyio.move_on_after(LEAVING_S, shield=True):
                await self._give_back(worker)
            raise

    async def _give_back(self, worker: str) -> None:
        for task in await self._held(worker):
            await self._board.release(task.id, worker)

    async def _held(self, worker: str) -> Tasks:
        return self._mine(await self._board.list({"claimed"}, assignee=worker))

    async def _settle(self, task: BoardTask, worker: str, answer: Answer) -> None:
        """Give the task its outcome, where the worker has not; what else it holds is open again."""
        for each in await self._held(worker):
            if each.id == task.id and answer.ok:
                await self._board.complete(each.id, worker, answer.text)
            elif each.attempts >= self._attempts:
                await self._board.fail(each.id, worker, _reason(answer))
            else:
                await self._board.release(each.id, worker)
        now = await self._board.get(task.id)
        if now.status == "open" and now.attempts >= self._attempts:
            await self._board.cancel(now.id, self._name, f"tried {now.attempts} times: {_reason(answer)}")

    async def _result(self, answer: Answer) -> Orchestrated:
        tasks = await self._tasks()
        end: PatternEnd = "stop" if all(task.status == "done" for task in tasks) else "incomplete"
        if await self._ready_tasks():
            end = "rounds"
        if not answer.ok:
            end = "failed"
        return Orchestrated(
            answer.text if answer.ok else "",
            self._cast.end_reason(end),
            tasks,
            self._failures,
            self._cast.spent(),
        )


def _ready(all: Tasks, mine: Tasks) -> Tasks:
    """What can be claimed: that of the highest priority first, then the oldest."""
    done = {task.id for task in all if task.status == "done"}
    ready = [task for task in mine if task.status == "open" and done.issuperset(task.depends_on)]
    return sorted(ready, key=lambda task: -task.priority)


def _reason(answer: Answer) -> str:
    return answer.error or answer.text or answer.end_reason


def _first(goal: str, workers: Collection[str]) -> str:
    return (
        f"{goal}\n\nSplit this into tasks and add them to the board with add_task; {len(workers)} workers do them and "
        "know nothing but what is in the tasks. Then end your turn: you are told what came of them."
    )


def _news(tasks: Tasks, *, may_add: bool) -> str:
    lines = "\n".join(_line(task) for task in tasks)
    more = "Add more tasks if something is missing, and end your turn. Otherwise give" if may_add else "Give"
    return f"What came of your tasks:\n{lines}\n\n{more} the final answer now, and say what was not done."


def _line(task: BoardTask) -> str:
    said = task.result if len(task.result) <= _SHOWN else f"{task.result[:_SHOWN]}…"
    stands = task.status if task.status in FINISHED else "not done"
    return f"- {task.id} {stands}: {task.title}" + (f" -> {said}" if said else "")
