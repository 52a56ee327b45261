"""The rules of a task board: each operation as one step, which raises before it has changed anything.

Read with: ``board.py`` (what is promised), ``board_drafts.py``, ``place.py`` (where the steps are carried out).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from unspool.kernel.ports import Clock

from .board import (
    BoardFull,
    BoardTask,
    TaskDraft,
    TaskHeld,
    TaskStatus,
    UnknownTask,
    WrongTaskStatus,
)
from .board_drafts import check_no_circle, checked, new_ids, resolved


class Shelf(Protocol):
    """Where the tasks lie. ``ready`` ones are open, and all that they depend on is done."""

    version: int
    number: int  # of the newest task

    def get(self, id: str) -> BoardTask | None: ...
    def with_key(self, key: str) -> BoardTask | None: ...
    def put(self, task: BoardTask, *, ready: bool) -> None:
        """A new task, or one that takes the place of that with its id."""
        ...

    def drop(self, id: str) -> None: ...
    def tasks(self) -> Sequence[BoardTask]:
        """All, in the order of their ids."""
        ...

    def ready(self) -> Iterator[BoardTask]:
        """In the order in which they are to be claimed."""
        ...

    def held_by(self, name: str) -> Sequence[BoardTask]: ...
    def expired(self, now: float) -> Sequence[BoardTask]:
        """Those whose lease is over."""
        ...

    def next_expiry(self) -> float:
        """When the next lease is over; infinite where there is none."""
        ...

    def depending_on(self, id: str) -> Sequence[BoardTask]: ...
    def unfinished(self) -> int: ...
    def finished(self) -> int: ...
    def oldest_finished(self, limit: int) -> Sequence[str]:
        """Ids of those that have an outcome, by when they got it; not of those on which one that is not done depends."""
        ...


class Claimed(NamedTuple):
    """A task that was claimed; not ``fresh`` where the claim is one that there was."""

    task: BoardTask
    fresh: bool


class BoardSteps:
    """The steps on the tasks of a shelf."""

    def __init__(self, shelf: Shelf, clock: Clock, max_unfinished: int, kept_finished: int) -> None:
        if max_unfinished < 1 or kept_finished < 0:
            raise ValueError(
                "board: room for at least one unfinished task"
                f" (max_unfinished={max_unfinished}, kept_finished={kept_finished})"
            )
        self.shelf = shelf
        self._clock = clock
        self._max_unfinished = max_unfinished
        self._kept_finished = kept_finished

    @property
    def version(self) -> int:
        return self.shelf.version

    # --- what there is

    def take_back(self) -> None:
        """Have tasks open whose lease is over; each step begins with it."""
        for task in self.shelf.expired(self._clock.time()):
            self._put(task, status="open", assignee="", until=0.0)

    def get(self, id: str) -> BoardTask:
        task = self.shelf.get(id)
        if task is None:
            raise UnknownTask("there is no such task, list them", task=id)
        return task

    def list(
        self, status: Collection[TaskStatus] | None, assignee: str | None, tags: Collection[str]
    ) -> tuple[BoardTask, ...]:
        return tuple(
            task
            for task in self.shelf.tasks()
            if (status is None or task.status in status)
            and (assignee is None or task.assignee == assignee)
            and all(tag in task.tags for tag in tags)
        )

    def expires_in(self) -> float:
        """Seconds until a lease is over; infinite where there is none."""
        return max(0.0, self.shelf.next_expiry() - self._clock.time())

    # --- changes

    def _put(self, task: BoardTask, **changes: Any) -> BoardTask:
        task = replace(task, changed_at=self._clock.time(), **changes)
        self.shelf.version += 1
        self.shelf.put(task, ready=self._is_ready(task))
        return task

    def _is_ready(self, task: BoardTask) -> bool:
        return task.status == "open" and not self._not_done(task)

    def _not_done(self, task: BoardTask) -> Sequence[str]:
        needs = ((id, self.shelf.get(id)) for id in task.depends_on)
        # one that is not kept was done: else it would be, see ``oldest_finished``
        return [id for id, need in needs if need is not None and need.status != "done"]

    def _id_of(self, need: str) -> str | None:
        task = self.shelf.get(need) or self.shelf.with_key(need)
        return None if task is None else task.id

    def add(self, by: str, drafts: Sequence[TaskDraft]) -> tuple[BoardTask, ...]:
        shelf = self.shelf
        ids = new_ids(drafts, lambda key: shelf.with_key(key) is not None, shelf.number)
        if ids:
            self._check_room(len(ids))
        by_key = {drafts[place].key: id for place, id in ids.items() if drafts[place].key}
        needs = {
            id: resolved(drafts[place].depends_on, lambda need: by_key.get(need) or self._id_of(need))
            for place, id in ids.items()
        }
        now = self._clock.time()
        new = [_task(drafts[place], id, by, needs[id], now) for place, id in ids.items()]
        for task in new:
            check_no_circle(task.id, needs)
        self._put_new(new)
        added = {task.id: task for task in new}
        return tuple(
            added[ids[place]] if place in ids else self._with_key(draft.key)
            for place, draft in enumerate(drafts)
        )

    def _check_room(self, count: int) -> None:
        if self.shelf.unfinished() + count > self._max_unfinished:
            raise BoardFull(
                "there are too many unfinished tasks: have some done first",
                max_unfinished=self._max_unfinished,
            )

    def _put_new(self, new: Sequence[BoardTask]) -> None:
        shelf = self.shelf
        ids = {task.id for task in new}
        for task in new:
            shelf.version += 1
            shelf.number += 1
            shelf.put(task, ready=ids.isdisjoint(task.depends_on) and self._is_ready(task))

    def _with_key(self, key: str) -> BoardTask:
        task = self.shelf.with_key(key)
        assert task is not None  # it is known, or was added just now
        return task

    def claim(self, by: str, id: str | None, tags: Collection[str], lease_s: float | None) -> Claimed | None:
        if id is None:
            ready = (task for task in self.shelf.ready() if all(tag in task.tags for tag in tags))
            task = next(ready, None)
            return None if task is None else self._claim(task, by, lease_s)
        task = self.get(id)
        if task.status == "claimed":
            if task.assignee != by:
                raise _held(task)
            return Claimed(self._put(task, until=self._until(lease_s)), False)
        if task.status != "open":
            raise _wrong(task)
        if waits_for := self._not_done(task):
            raise WrongTaskStatus("others have to be done first", task=id, waits_for=waits_for)
        return self._claim(task, by, lease_s)

    def _claim(self, task: BoardTask, by: str, lease_s: float | None) -> Claimed:
        attempts, until = task.attempts + 1, self._until(lease_s)
        return Claimed(self._put(task, status="claimed", assignee=by, attempts=attempts, until=until), True)

    def _until(self, lease_s: float | None) -> float:
        return 0.0 if lease_s is None else self._clock.time() + lease_s

    def undo(self, claimed: Claimed | None) -> None:
        """Nobody has heard of the claim: it was not made."""
        if claimed is None or not claimed.fresh:
            return
        task = self.shelf.get(claimed.task.id)
        if task is not None and task == claimed.task:
            self._put(task, status="open", assignee="", until=0.0, attempts=task.attempts - 1)

    def renew(self, id: str, by: str, lease_s: float | None, attempt: int | None) -> BoardTask:
        return self._put(self._own(id, by, attempt), until=self._until(lease_s))

    def _own(self, id: str, by: str, attempt: int | None) -> BoardTask:
        task = self.get(id)
        if task.status != "claimed":
            raise _wrong(task)
        if task.assignee != by:
            raise _held(task)
        if attempt is not None and attempt != task.attempts:
            raise TaskHeld(
                "that claim is over, it was claimed again since", task=id, attempt=attempt, now=task.attempts
            )
        return task

    def finish(
        self,
        id: str,
        by: str,
        status: TaskStatus,
        result: str,
        attempt: int | None,
        data: dict[str, Any] | None,
    ) -> BoardTask:
        task = self.get(id)
        if (task.status, task.assignee) == (status, by) and attempt in (None, task.attempts):
            return task
        task = self._own(id, by, attempt)
        return self._finish(task, by, status, result, task.data if data is None else data)

    def _finish(
        self, task: BoardTask, by: str, status: TaskStatus, result: str, data: dict[str, Any]
    ) -> BoardTask:
        task = checked(replace(task, status=status, assignee=by, result=result, until=0.0, data=data))
        task = self._put(task)
        if status == "done":
            for each in self.shelf.depending_on(task.id):
                self.shelf.put(each, ready=self._is_ready(each))
        surplus = self.shelf.finished() - self._kept_finished
        if surplus > 0:
            for id in self.shelf.oldest_finished(surplus):
                self.shelf.drop(id)
        return task

    def cancel(self, id: str, by: str, reason: str) -> BoardTask:
        task = self.get(id)
        if task.status == "cancelled":
            return task
        if task.is_finished:
            raise _wrong(task)
        return self._finish(task, by, "cancelled", reason, task.data)

    def release(self, id: str, by: str, attempt: int | None) -> BoardTask:
        task = self.get(id)
        if task.status in ("failed", "cancelled"):
            self._check_room(1)
        else:
            task = self._own(id, by, attempt)
        return self._put(task, status="open", assignee="", until=0.0, result="")

    def release_claims(self, of: str) -> tuple[BoardTask, ...]:
        held = self.shelf.held_by(of)
        return tuple(self._put(task, status="open", assignee="", until=0.0) for task in held)

    def update(self, id: str, changes: dict[str, Any]) -> BoardTask:
        task = self.get(id)
        if task.is_finished:
            raise _wrong(task)
        if "depends_on" in changes:
            if task.status != "open":
                raise WrongTaskStatus("somebody works on it already", task=id, by=task.assignee)
            changes = {**changes, "depends_on": resolved(changes["depends_on"], self._id_of)}
            check_no_circle(id, lambda each: changes["depends_on"] if each == id else self._needs(each))
        return self._put(checked(replace(task, **changes)))

    def _needs(self, id: str) -> Sequence[str]:
        task = self.shelf.get(id)
        return () if task is None else task.depends_on


def _task(draft: TaskDraft, id: str, by: str, needs: tuple[str, ...], now: float) -> BoardTask:
    return checked(
        BoardTask(
            id=id,
            title=draft.title,
            text=draft.text,
            created_by=by,
            depends_on=needs,
            priority=draft.priority,
            tags=draft.tags,
            key=draft.key,
            created_at=now,
            changed_at=now,
            data=draft.data,
        )
    )


def _held(task: BoardTask) -> TaskHeld:
    return TaskHeld(f"{task.assignee} holds it, not you", task=task.id, by=task.assignee)


def _wrong(task: BoardTask) -> WrongTaskStatus:
    if task.status == "open":
        return WrongTaskStatus("nobody holds it: claim it first", task=task.id)
    if task.status == "claimed":
        return WrongTaskStatus(f"{task.assignee} works on it", task=task.id, by=task.assignee)
    how = {"done": "is done", "failed": "has failed", "cancelled": "was cancelled"}[task.status]
    return WrongTaskStatus(f"it {how}", task=task.id, by=task.assignee)
