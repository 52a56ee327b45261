"""The conformance kit for task boards: ``await check_board(make)``.

A board of your own passes in your tests with one line, on asyncio and on trio::

    await check_board(lambda name: MyBoard(folder / name))

Each check works in places of its own, which are closed when it is over.

Read with: ``board.py`` (the promises), ``unspool.kernel.conformance`` (the pieces).
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

from unspool.kernel.conformance import MOMENTS, Check, must_be_callable, shown
from unspool.kernel.ports import Clock

from .board import Board, BoardTask, TaskDraft, TaskHeld, UnknownTask, WrongTaskStatus
from .conformance_kit import PlaceKit
from .errors import TeamError

MakeBoard: TypeAlias = "Callable[[str], Board | Awaitable[Board]]"
_METHODS = ("add", "claim", "complete", "release_claims", "list", "aclose")
_LEASE_S = 0.05
_LONG_S = 3600.0
_WORKERS = 4
_MANY = 40


async def check_board(
    make: MakeBoard,
    *,
    durable: bool = True,
    clock: Clock | None = None,
    timeout_s: float = 30.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a board keeps what ``Board`` promises, on the event loop that this is awaited on.

    ``make`` opens the place of a name, sync or async: a new and empty one for a name it was not given before, else
    the one it was given then, also while that is open. ``durable`` is False for one that is gone when it is closed.
    ``timeout_s`` bounds one use of the board, ``grace_s`` the end of a call that was told to end, both on ``clock``,
    which must be the board's own where it has one. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a board.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, _METHODS, "check_board")
    kit = _BoardKit(make, clock, timeout_s, grace_s, durable=durable)
    await kit.carry_out(_CHECKS if durable else _TRANSIENT, skip)
    kit.conclude("board")


def _ids(tasks: Sequence[BoardTask]) -> list[str]:
    return [task.id for task in tasks]


class _BoardKit(PlaceKit[Board]):
    async def board(self, *drafts: TaskDraft) -> tuple[Board, list[str]]:
        """A new board, and the ids of these tasks on it."""
        board = await self.opened()
        return board, _ids(await self.must(board.add, "lead", *drafts)) if drafts else []

    async def claims(
        self, board: Board, by: str, wanted: str | None, when: str, advice: str, **options: Any
    ) -> Any:
        """Say so unless that task is claimed now; the task."""
        task: BoardTask | None = await self.must(partial(board.claim, by, **options))
        self.same(None if task is None else task.id, wanted, f"{when}, the task that is claimed is", advice)
        return task

    async def stands(self, board: Board, id: str, status: str, assignee: str, when: str, advice: str) -> None:
        task = await self.must(board.get, id)
        self.same((task.status, task.assignee), (status, assignee), f"{when}, the task stands as", advice)


async def _adds(kit: _BoardKit) -> None:
    draft = TaskDraft(title="a", text="b", priority=2, tags=("c",), data={"d": [1, None]})
    board, (id,) = await kit.board(draft)
    task = await kit.must(board.get, id)
    kept = (task.title, task.text, task.priority, task.tags, task.data, task.created_by, task.status)
    kit.same(
        kept,
        ("a", "b", 2, ("c",), {"d": [1, None]}, "lead", "open"),
        "a task is kept as it was added",
        "keep it",
    )
    await kit.refuses(partial(board.get, "nothing"), UnknownTask, "an id is unknown")
    bad = partial(board.add, "lead", draft, TaskDraft(title="b", depends_on=("nothing",)))
    await kit.refuses(bad, UnknownTask, "a task depends on one that there is not")
    kit.same(
        _ids(await kit.must(board.list)), [id], "after a refusal, the tasks are", "add all drafts or none"
    )


async def _keys(kit: _BoardKit) -> None:
    draft = TaskDraft(title="a", key="call/1")
    board, first = await kit.board(draft)
    await kit.must(board.claim, "bob")
    await kit.must(board.complete, first[0], "bob")
    again = _ids(await kit.must(board.add, "lead", draft, draft))
    kit.same(again, first * 2, "adding again with a known key gives", "look for the key before adding")
    kit.same(
        _ids(await kit.must(board.list)), first, "after it, the tasks are", "add nothing for a known key"
    )


async def _order(kit: _BoardKit) -> None:
    board, ids = await kit.board(
        *(TaskDraft(title="x", priority=p, tags=("odd",) * (p % 2)) for p in (0, 1, 2, 1))
    )
    await kit.claims(board, "bob", ids[1], "with a tag", "pass over tasks without it", tags=("odd",))
    for place in (2, 3, 0):
        await kit.claims(board, "bob", ids[place], "without one", "highest priority first, then the oldest")
    await kit.claims(board, "bob", None, "when all are held", "a task has one holder")


async def _held(kit: _BoardKit) -> None:
    board, (id,) = await kit.board(TaskDraft(title="a"))
    await kit.refuses(partial(board.complete, id, "bob"), WrongTaskStatus, "nobody holds the task")
    await kit.must(board.claim, "bob")
    for act in (board.complete, board.fail, board.release, board.renew):
        await kit.refuses(partial(act, id, "eve"), TaskHeld, f"another holds the task ({act.__name__})")
    await kit.refuses(partial(board.claim, "eve", id=id), TaskHeld, "another holds the task (claim)")
    await kit.stands(board, id, "claimed", "bob", "after refusals", "change nothing where you refuse")
    done = await kit.must(board.complete, id, "bob", "x")
    kit.same((done.status, done.result), ("done", "x"), "the holder completes it", "keep the result")
    kit.same(await kit.must(board.complete, id, "bob", "y"), done, "completed again, it is", "change nothing")
    await kit.refuses(partial(board.cancel, id, "lead"), WrongTaskStatus, "a done task is cancelled")


async def _attempts(kit: _BoardKit) -> None:
    board, (id,) = await kit.board(TaskDraft(title="a"))
    await kit.must(board.claim, "bob")
    freed = _ids(await kit.must(partial(board.release_claims, of="bob")))
    kit.same(freed, [id], "the claims of a member that died are released", "open them again")
    task = await kit.claims(board, "bob", id, "released, it is free", "let it be claimed")
    kit.same(task and task.attempts, 2, "the attempts are", "count each claim")
    await kit.refuses(partial(board.complete, id, "bob", attempt=1), TaskHeld, "an earlier claim is meant")
    await kit.stands(board, id, "claimed", "bob", "after that", "compare the number of the claim")


async def _leases(kit: _BoardKit) -> None:
    board, ids = await kit.board(TaskDraft(title="a"), TaskDraft(title="b"))
    await kit.must(partial(board.claim, "bob", lease_s=_LEASE_S))
    await kit.must(partial(board.claim, "bob", lease_s=_LEASE_S))
    await kit.must(partial(board.renew, ids[1], "bob", lease_s=_LONG_S))
    task = await kit.claims(
        board, "eve", ids[0], "its lease is over", "wake who waits then", wait_s=kit.timeout_s / 2
    )
    if task is not None:
        await kit.refuses(partial(board.complete, ids[0], "bob"), TaskHeld, "the lease was over")
    await kit.claims(board, "eve", None, "the other was renewed", "a renewed claim lasts from then")


async def _dependencies(kit: _BoardKit) -> None:
    board, ids = await kit.board(
        TaskDraft(title="b", depends_on=("first",), priority=9), TaskDraft(title="a", key="first")
    )
    await kit.refuses(partial(board.claim, "eve", id=ids[0]), WrongTaskStatus, "others have to be done first")
    await kit.claims(
        board, "bob", ids[1], "one depends on the other", "only what depends on done tasks is free"
    )
    await kit.must(board.fail, ids[1], "bob", "no")
    await kit.claims(board, "bob", None, "what it depends on failed", "failed is not done")
    await kit.must(board.release, ids[1], "lead")
    await kit.claims(board, "bob", ids[1], "released after a failure", "open it again")
    await kit.must(board.complete, ids[1], "bob")
    await kit.claims(board, "bob", ids[0], "what it depends on is done", "free it then")
    board, ids = await kit.board(TaskDraft(title="a"), TaskDraft(title="b"))
    await kit.must(partial(board.update, ids[0], depends_on=(ids[1],)))
    circle = partial(board.update, ids[1], depends_on=(ids[0],))
    await kit.refuses(circle, TeamError, "tasks would depend on each other in a circle")


async def _waits(kit: _BoardKit) -> None:
    board, _ = await kit.board()
    running = [kit.start(partial(board.claim, f"m{n}", wait_s=None)) for n in range(2)]
    finished = kit.start(partial(board.wait, lambda tasks: any(task.is_finished for task in tasks)))
    await kit.settled()
    ids = _ids(await kit.must(board.add, "lead", TaskDraft(title="a"), TaskDraft(title="b")))
    ended = [await kit.ended(each, "tasks were added") for each in running]
    kit.same(
        sorted(each.value.id for each in ended if each.value),
        ids,
        "members that wait get",
        "one task for each",
    )
    await kit.must(board.cancel, ids[0], "lead")
    await kit.ended(finished, "a task was cancelled")
    kit.same(
        await kit.must(partial(board.claim, "m", wait_s=0.01)),
        None,
        "when the time is up, a claim gives",
        "None",
    )


async def _cancelled(kit: _BoardKit) -> None:
    board, (id,) = await kit.board(TaskDraft(title="a"))
    for moment in MOMENTS:
        ran = await kit.run_cancelled(partial(board.claim, "bob"), moment)
        task = await kit.must(board.get, id)
        if ran is not None and task.status != "open" and not ran.value:
            kit.found_once(
                "a claim that is cancelled holds nothing", shown(task), "undo it, or give the task"
            )
        await kit.must(partial(board.release_claims, of="bob"))
    waiting = partial(board.claim, "bob", wait_s=None, tags=("none",))
    for moment in MOMENTS:
        ran = await kit.run_cancelled(waiting, moment)
        if ran is None or ran.late:
            kit.found_once(
                "a claim that waits ends when it is cancelled", "it did not", "let the wait be cancelled"
            )


async def _alone(kit: _BoardKit) -> None:
    """Several use the place at once: each task goes to one."""
    place = kit.place()
    boards = [await kit.opened(place) for _ in range(_WORKERS if kit.durable else 1)]
    await kit.must(boards[0].add, "lead", *[TaskDraft(title="x")] * _MANY)
    taken: list[str] = []

    async def work(board: Board, name: str) -> None:
        while (task := await board.claim(name)) is not None:
            taken.append(task.id)
            await board.complete(task.id, name)

    workers = [kit.start(partial(work, boards[n % len(boards)], f"m{n}")) for n in range(_WORKERS)]
    for worker in workers:
        ran = await kit.ended(worker, "no task is left")
        if ran.error is not None:
            raise ran.error
    kit.same(len(taken), _MANY, "tasks that were claimed in all", "claim in one step")
    kit.same(len(set(taken)), _MANY, "tasks that were claimed, each once", "claim in one step")


async def _two(kit: _BoardKit) -> None:
    place = kit.place()
    here, there = await kit.opened(place), await kit.opened(place)
    running = kit.start(partial(there.claim, "eve", wait_s=None))
    await kit.settled()
    (added,) = await kit.must(here.add, "lead", TaskDraft(title="a"))
    ran = await kit.ended(running, "a task was added in another process")
    kit.same(
        ran.value and ran.value.id, added.id, "who waits elsewhere gets", "look for what others have changed"
    )
    version = await kit.must(here.version)
    await kit.must(there.complete, added.id, "eve")
    if not await kit.must(here.version) > version:
        kit.found_once("the version grows with each change", "it did not", "store it with the tasks")


async def _reopens(kit: _BoardKit) -> None:
    place = kit.place()
    board = await kit.opened(place)
    await kit.must(board.add, "lead", TaskDraft(title="a", key="k"), TaskDraft(title="b"))
    await kit.must(board.claim, "bob")
    before = await kit.must(board.list)
    await kit.must(board.aclose)
    board = await kit.opened(place)
    kit.same(list(await kit.must(board.list)), list(before), "opened again, the tasks are", "keep them")


async def _closes(kit: _BoardKit) -> None:
    board, _ = await kit.board()
    running = kit.start(partial(board.claim, "bob", wait_s=None))
    await kit.settled()
    await kit.must(board.aclose)
    ran = await kit.ended(running, "the board was closed")
    kit.refused(ran, TeamError, "the board was closed while a claim waited")
    await kit.must(board.aclose)
    await kit.refuses(board.list, TeamError, "the board was closed")


_TRANSIENT: tuple[Check[_BoardKit], ...] = (
    Check("adds", _adds),
    Check("keys", _keys, ("adds",)),
    Check("order", _order, ("adds",)),
    Check("held", _held, ("adds",)),
    Check("attempts", _attempts, ("held",)),
    Check("leases", _leases, ("held",)),
    Check("dependencies", _dependencies, ("held",)),
    Check("waits", _waits, ("order",)),
    Check("cancelled", _cancelled, ("adds",)),
    Check("alone", _alone, ("order",)),
    Check("closes", _closes),
)
_CHECKS: tuple[Check[_BoardKit], ...] = (
    *_TRANSIENT,
    Check("two", _two, ("waits",)),
    Check("reopens", _reopens, ("adds",)),
)
