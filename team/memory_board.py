"""A task board in the memory of one process.

Read with: ``board.py`` (what is promised), ``board_steps.py``.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock

from .board import KEPT_FINISHED, MAX_UNFINISHED, BoardTask
from .board_steps import BoardSteps
from .place import MemoryPlace
from .stepped_board import SteppedBoard


class MemoryBoard(SteppedBoard):
    """A ``Board`` that is gone with the process. One event loop uses it.

    Raises:
        ValueError: it is to take no task.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        max_unfinished: int = MAX_UNFINISHED,
        kept_finished: int = KEPT_FINISHED,
    ) -> None:
        clock = clock or SystemClock()
        steps = BoardSteps(MemoryShelf(), clock, max_unfinished, kept_finished)
        super().__init__(MemoryPlace(steps, clock), clock)


class MemoryShelf:
    """A ``Shelf`` of dictionaries."""

    def __init__(self) -> None:
        self.version = 0
        self.number = 0
        self._tasks: dict[str, BoardTask] = {}  # in the order of their ids
        self._keys: dict[str, str] = {}
        self._ready: list[tuple[int, int, str]] = []  # sorted
        self._held: dict[str, dict[str, None]] = {}
        self._finished: dict[str, None] = {}  # in the order of their outcomes
        self._depending: dict[str, dict[str, None]] = {}
        self._leases: dict[str, float] = {}  # until when; few, since each has a holder

    def get(self, id: str) -> BoardTask | None:
        return self._tasks.get(id)

    def with_key(self, key: str) -> BoardTask | None:
        id = self._keys.get(key)
        return None if id is None else self._tasks[id]

    def put(self, task: BoardTask, *, ready: bool) -> None:
        old = self._tasks.get(task.id)
        if old is not None:
            self._take_out(old)
        self._tasks[task.id] = task
        if task.key:
            self._keys[task.key] = task.id
        for need in task.depends_on:
            self._depending.setdefault(need, {})[task.id] = None
        if ready:
            insort(self._ready, _place(task))
        if task.status == "claimed":
            self._held.setdefault(task.assignee, {})[task.id] = None
            if task.until:
                self._leases[task.id] = task.until
        if task.is_finished:
            self._finished[task.id] = None

    def _take_out(self, task: BoardTask) -> None:
        """Everywhere but among the tasks themselves."""
        place = _place(task)
        at = bisect_left(self._ready, place)
        if at < len(self._ready) and self._ready[at] == place:
            del self._ready[at]
        _discard(self._held, task.assignee, task.id)
        for need in task.depends_on:
            _discard(self._depending, need, task.id)
        self._leases.pop(task.id, None)
        self._finished.pop(task.id, None)

    def drop(self, id: str) -> None:
        task = self._tasks[id]
        self._take_out(task)
        del self._tasks[id]
        self._keys.pop(task.key, None)

    def tasks(self) -> Sequence[BoardTask]:
        return list(self._tasks.values())

    def ready(self) -> Iterator[BoardTask]:
        return (self._tasks[id] for _, _, id in self._ready)

    def held_by(self, name: str) -> Sequence[BoardTask]:
        return sorted((self._tasks[id] for id in self._held.get(name, ())), key=_number)

    def expired(self, now: float) -> Sequence[BoardTask]:
        over = (self._tasks[id] for id, until in self._leases.items() if until <= now)
        return sorted(over, key=_number)

    def next_expiry(self) -> float:
        return min(self._leases.values(), default=inf)

    def depending_on(self, id: str) -> Sequence[BoardTask]:
        return [self._tasks[each] for each in self._depending.get(id, ())]

    def unfinished(self) -> int:
        return len(self._tasks) - len(self._finished)

    def finished(self) -> int:
        return len(self._finished)

    def oldest_finished(self, limit: int) -> Sequence[str]:
        free = (id for id in self._finished if all(task.status == "done" for task in self.depending_on(id)))
        return list(islice(free, limit))


def _place(task: BoardTask) -> tuple[int, int, str]:
    return -task.priority, _number(task), task.id


def _number(task: BoardTask) -> int:
    return int(task.id[1:])


def _discard(ids: dict[str, dict[str, None]], name: str, id: str) -> None:
    of = ids.get(name)
    if of is not None:
        of.pop(id, None)
        if not of:
            del ids[name]
