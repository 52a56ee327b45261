"""What a task board does, in memory and in a file, beyond the conformance kit."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from unspool.kernel.clock import FakeClock
from unspool.team.board import (
    Board,
    BoardFull,
    BoardTask,
    TaskDraft,
    TaskHeld,
    UnknownTask,
    WrongTaskStatus,
)
from unspool.team.errors import TeamError
from unspool.team.memory_board import MemoryBoard
from unspool.team.sqlite_board import SqliteBoard
from unspool.team.sqlite_mailbox import SqliteMailbox
from unspool.team.sqlite_roster import SqliteRoster

pytestmark = pytest.mark.anyio
Act = Callable[[Board], Awaitable[object]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


@pytest.fixture(params=["memory", "file"])
async def board(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncGenerator[Board, None]:
    made: Board
    if request.param == "memory":
        made = MemoryBoard(clock, max_unfinished=6, kept_finished=3)
    else:
        made = SqliteBoard(tmp_path / "team.db", clock, max_unfinished=6, kept_finished=3)
    yield made
    await made.aclose()


@pytest.fixture(params=["memory", "file"])
async def real_board(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Board, None]:
    """With the machine's clock, for what waits."""
    made: Board = MemoryBoard() if request.param == "memory" else SqliteBoard(tmp_path / "team.db")
    yield made
    await made.aclose()


def ids(tasks: Any) -> list[str]:
    return [task.id for task in tasks]


async def claimed(board: Board, by: str = "bob", **options: Any) -> str:
    task = await board.claim(by, **options)
    return "" if task is None else task.id


async def test_a_task_from_its_beginning_to_its_end(board: Board, clock: FakeClock) -> None:
    (added,) = await board.add("lead", TaskDraft(title="Find", text="Find it.", tags=("x",), data={"n": 1}))
    assert added == BoardTask(
        id="t1",
        title="Find",
        text="Find it.",
        created_by="lead",
        tags=("x",),
        created_at=1000.0,
        changed_at=1000.0,
        data={"n": 1},
    )
    clock.now = 1001.0
    task = await board.claim("bob")
    assert task is not None
    assert (task.status, task.assignee, task.attempts, task.changed_at) == ("claimed", "bob", 1, 1001.0)
    assert await board.claim("eve") is None
    done = await board.complete("t1", "bob", "found", data={"n": 2})
    assert (done.status, done.assignee, done.result, done.data) == ("done", "bob", "found", {"n": 2})
    assert await board.get("t1") == done
    assert await board.list() == (done,)


async def test_higher_priorities_come_first_then_older_ones(board: Board) -> None:
    await board.add("lead", *(TaskDraft(title="x", priority=priority) for priority in (0, 5, -1, 5)))
    assert [await claimed(board) for _ in range(5)] == ["t2", "t4", "t1", "t3", ""]


async def test_tasks_can_be_chosen_by_tags_and_by_id(board: Board) -> None:
    tags = (("a",), ("a", "b"), (), ("b",))
    await board.add("lead", *(TaskDraft(title="x", tags=each) for each in tags))
    assert await claimed(board, tags=("b",)) == "t2"
    assert await claimed(board, tags=("a", "b")) == ""
    assert await claimed(board, id="t4") == "t4"
    assert ids(await board.list(tags=("b",))) == ["t2", "t4"]
    assert ids(await board.list({"open"})) == ["t1", "t3"]
    assert ids(await board.list(assignee="bob")) == ["t2", "t4"]


async def test_a_task_waits_for_those_that_it_depends_on(board: Board) -> None:
    await board.add("lead", TaskDraft(title="a"), TaskDraft(title="b", key="b"))
    (third,) = await board.add("lead", TaskDraft(title="c", depends_on=("t1", "b", "t2")))
    assert third.depends_on == ("t1", "t2")
    assert [await claimed(board) for _ in range(3)] == ["t1", "t2", ""]
    await board.complete("t1", "bob")
    with pytest.raises(WrongTaskStatus, match=r"others have to be done first .*'t2'"):
        await board.claim("bob", id="t3")
    await board.fail("t2", "bob", "no idea")
    assert await claimed(board) == ""
    await board.release("t2", "lead")
    assert await claimed(board, "eve") == "t2"
    await board.complete("t2", "eve")
    assert await claimed(board) == "t3"


async def test_tasks_of_one_call_can_depend_on_each_other(board: Board) -> None:
    tasks = await board.add(
        "lead", TaskDraft(title="last", depends_on=("first",)), TaskDraft(title="first", key="first")
    )
    assert [task.depends_on for task in tasks] == [("t2",), ()]
    assert [await claimed(board) for _ in range(2)] == ["t2", ""]


@pytest.mark.parametrize(
    ("drafts", "error", "text"),
    [
        ([TaskDraft(title=" ")], TeamError, "has a title"),
        ([TaskDraft(title="a", key="t1")], TeamError, "does not look like an id"),
        ([TaskDraft(title="a", depends_on=("t9",))], UnknownTask, "no such task to depend on"),
        ([TaskDraft(title="a", depends_on=("a",), key="a")], TeamError, "cannot depend on itself"),
        (
            [
                TaskDraft(title="a", key="a", depends_on=("c",)),
                TaskDraft(title="b", key="b", depends_on=("a",)),
                TaskDraft(title="c", key="c", depends_on=("b",)),
            ],
            TeamError,
            "cannot depend on itself",
        ),
        ([TaskDraft(title="a", text="x" * 300_000)], TeamError, "too large: write it to a file"),
        ([TaskDraft(title="a", priority=10**9)], TeamError, "a priority is between"),
        ([TaskDraft(title="a")] * 6, BoardFull, "have some done first"),
    ],
)
async def test_what_cannot_be_added(
    board: Board, drafts: list[TaskDraft], error: type[TeamError], text: str
) -> None:
    await board.add("lead", TaskDraft(title="there"))
    before = await board.version(), await board.list()
    with pytest.raises(error, match=text):
        await board.add("lead", TaskDraft(title="good"), *drafts)
    assert (await board.version(), await board.list()) == before
    assert ids(await board.add("lead", TaskDraft(title="next"))) == ["t2"]


async def test_adding_again_with_a_key_changes_nothing(board: Board) -> None:
    first = await board.add(
        "lead", TaskDraft(title="a", key="call 1/a"), TaskDraft(title="b", key="call 1/b")
    )
    await claimed(board)
    version = await board.version()
    again = await board.add(
        "lead", TaskDraft(title="a", key="call 1/a"), TaskDraft(title="b", key="call 1/b")
    )
    assert (ids(again), again[0].status, again[1]) == (ids(first), "claimed", first[1])
    assert await board.version() == version
    assert ids(await board.add("lead", TaskDraft(title="c", key="c"), TaskDraft(title="c", key="c"))) == [
        "t3",
        "t3",
    ]


STATES: dict[str, Act] = {
    "open": lambda board: board.get("t1"),
    "bob's": lambda board: board.claim("bob"),
    "eve's": lambda board: board.claim("eve"),
    "done": lambda board: _chain(board.claim("bob"), board.complete("t1", "bob", "x")),
    "failed": lambda board: _chain(board.claim("bob"), board.fail("t1", "bob", "x")),
    "done by eve": lambda board: _chain(board.claim("eve"), board.complete("t1", "eve", "x")),
    "cancelled": lambda board: board.cancel("t1", "lead", "x"),
}
ACTS: dict[str, Act] = {
    "claim": lambda board: board.claim("bob", id="t1"),
    "renew": lambda board: board.renew("t1", "bob", lease_s=5),
    "complete": lambda board: board.complete("t1", "bob", "x"),
    "fail": lambda board: board.fail("t1", "bob", "x"),
    "release": lambda board: board.release("t1", "bob"),
    "cancel": lambda board: board.cancel("t1", "bob", "x"),
    "update": lambda board: board.update("t1", title="new"),
}
UNCHANGED = "="
TABLE = """
             claim      renew      complete   fail       release    cancel     update
open         claimed    nobody     nobody     nobody     nobody     cancelled  open
bob's        claimed    claimed    done       failed     open       cancelled  claimed
eve's        eve_holds  eve_holds  eve_holds  eve_holds  eve_holds  cancelled  claimed
done         is_done    is_done    =          is_done    is_done    is_done    is_done
failed       has_failed has_failed has_failed =          open       has_failed has_failed
done_by_eve  is_done    is_done    is_done    is_done    is_done    is_done    is_done
cancelled    was_canc   was_canc   was_canc   was_canc   open       =          was_canc
"""


async def _chain(*acts: Awaitable[object]) -> None:
    for act in acts:
        await act


def cases() -> list[tuple[str, str, str]]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return [
        (row[0].replace("_", " "), act, outcome.replace("_", " "))
        for row in rows
        for act, outcome in zip(head, row[1:], strict=True)
    ]


@pytest.mark.parametrize(("state", "act", "outcome"), cases())
async def test_what_bob_can_do(board: Board, state: str, act: str, outcome: str) -> None:
    await board.add("lead", TaskDraft(title="a"))
    await STATES[state](board)
    before, version = await board.get("t1"), await board.version()
    if outcome in ("open", "claimed", "done", "failed", "cancelled"):
        await ACTS[act](board)
        after = await board.get("t1")
        assert after.status == outcome
        assert await board.version() > version
        assert after.assignee == ("" if outcome == "open" else before.assignee or "bob") or act == "cancel"
        return
    if outcome == UNCHANGED:
        assert await ACTS[act](board) == before
    else:
        held = outcome == "eve holds"
        with pytest.raises(TaskHeld if held else WrongTaskStatus, match=outcome) as caught:
            await ACTS[act](board)
        assert not held or caught.value.details["by"] == "eve"
    assert (await board.get("t1"), await board.version()) == (before, version)


@pytest.mark.parametrize("act", [act for act in ACTS if act != "claim"])
async def test_a_task_that_there_is_not(board: Board, act: str) -> None:
    with pytest.raises(UnknownTask, match="no such task, list them"):
        await ACTS[act](board)
    for id in ("", "t", "t0", "t01", "t٣", "x1", "t" + "9" * 30):
        with pytest.raises(UnknownTask):
            await board.get(id)


async def test_a_claim_ends_with_its_lease(board: Board, clock: FakeClock) -> None:
    await board.add("lead", TaskDraft(title="a"))
    task = await board.claim("bob", lease_s=10)
    assert task is not None and task.until == 1010.0
    clock.now = 1005.0
    await board.renew("t1", "bob", lease_s=10)
    clock.now = 1014.9
    assert await claimed(board, "eve") == ""
    clock.now = 1015.0
    task = await board.get("t1")
    assert (task.status, task.assignee, task.until, task.attempts) == ("open", "", 0.0, 1)
    with pytest.raises(WrongTaskStatus, match="nobody holds it: claim it first"):
        await board.complete("t1", "bob")
    assert await claimed(board, "eve") == "t1"
    with pytest.raises(TaskHeld, match="eve holds it, not you"):
        await board.complete("t1", "bob")


async def test_a_claim_that_was_lost_is_not_taken_for_a_later_one(board: Board) -> None:
    await board.add("lead", TaskDraft(title="a"))
    await board.claim("bob")
    await board.release_claims(of="bob")
    task = await board.claim("bob")
    assert task is not None and task.attempts == 2
    leftovers: list[Callable[[], Awaitable[object]]] = [
        lambda: board.complete("t1", "bob", attempt=1),
        lambda: board.fail("t1", "bob", attempt=1),
        lambda: board.release("t1", "bob", attempt=1),
        lambda: board.renew("t1", "bob", attempt=1),
    ]
    for leftover in leftovers:
        with pytest.raises(TaskHeld, match="that claim is over"):
            await leftover()
    assert (await board.complete("t1", "bob", attempt=2)).status == "done"


async def test_all_claims_of_a_member_that_died_are_taken_back(board: Board) -> None:
    await board.add("lead", *[TaskDraft(title="x")] * 4)
    for by in ("bob", "eve", "bob"):
        await board.claim(by)
    assert ids(await board.release_claims(of="bob")) == ["t1", "t3"]
    assert await board.release_claims(of="bob") == ()
    assert ids(await board.list({"open"})) == ["t1", "t3", "t4"]


async def test_a_task_can_be_changed(board: Board) -> None:
    await board.add("lead", TaskDraft(title="a"), TaskDraft(title="b"), TaskDraft(title="c", priority=1))
    await board.update("t2", priority=2, tags=("x",), text="more", data={"n": [1]})
    task = await board.get("t2")
    assert (task.title, task.text, task.priority, task.tags) == ("b", "more", 2, ("x",))
    await board.update("t3", depends_on=("t1",))
    assert [await claimed(board) for _ in range(3)] == ["t2", "t1", ""]
    with pytest.raises(WrongTaskStatus, match="somebody works on it"):
        await board.update("t1", depends_on=())
    await board.update("t3", depends_on=())
    assert await claimed(board) == "t3"


async def test_dependencies_never_form_a_circle(board: Board) -> None:
    for needs in ((), ("t1",), ("t2",)):
        await board.add("lead", TaskDraft(title="a", depends_on=needs))
    for needs in (("t3",), ("t1",), ("t2",)):
        with pytest.raises(TeamError, match="cannot depend on itself"):
            await board.update("t1", depends_on=needs)
    with pytest.raises(UnknownTask):
        await board.update("t1", depends_on=("t7",))
    assert (await board.get("t1")).depends_on == ()


async def test_the_oldest_outcomes_are_forgotten_but_for_those_that_are_needed(board: Board) -> None:
    await board.add("lead", TaskDraft(title="x", key="x"), TaskDraft(title="y", key="y"))
    await board.add("lead", TaskDraft(title="waits", depends_on=("t1",), priority=-1))
    for number in range(6):
        if number > 1:
            await board.add("lead", TaskDraft(title="more"))
        await board.complete(await claimed(board), "bob")
    assert ids(await board.list()) == ["t1", "t3", "t6", "t7"]
    (again,) = await board.add("lead", TaskDraft(title="y", key="y"))
    assert again.status == "open"  # its key was forgotten with it
    assert (await board.add("lead", TaskDraft(title="x", key="x")))[0].id == "t1"


async def test_what_a_failed_task_depends_on_is_kept_with_it(board: Board) -> None:
    await board.add("lead", TaskDraft(title="needed"))
    await board.add("lead", TaskDraft(title="fails", depends_on=("t1",)))
    await board.complete(await claimed(board), "bob")
    await board.fail(await claimed(board), "bob")
    for kept in (["t1", "t2", "t3"], ["t1", "t3", "t4"], ["t3", "t4", "t5"]):
        await board.add("lead", TaskDraft(title="more"))
        await board.complete(await claimed(board), "bob")
        assert ids(await board.list()) == kept


@pytest.mark.parametrize("how", ["added", "released", "lease", "dependency"])
async def test_waiting_for_a_task_to_claim(real_board: Board, how: str) -> None:
    board = real_board
    got: list[str] = []

    async def work() -> None:
        got.append(await claimed(board, "eve", wait_s=None))

    if how != "added":
        await board.add("lead", TaskDraft(title="a"))
        await board.claim("bob", lease_s=0.03 if how == "lease" else None)
    if how == "dependency":
        await board.add("lead", TaskDraft(title="b", depends_on=("t1",)))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await anyio.wait_all_tasks_blocked()
            if how == "added":
                await board.add("lead", TaskDraft(title="a"))
            elif how == "released":
                await board.release("t1", "bob")
            elif how == "dependency":
                await board.complete("t1", "bob")
    assert got == ["t2" if how == "dependency" else "t1"]
    assert await claimed(board, wait_s=0.01) == ""


async def test_waiting_for_all_to_be_done(real_board: Board) -> None:
    board = real_board
    seen: list[Any] = []

    async def wait() -> None:
        seen.append(await board.wait(lambda tasks: all(task.is_finished for task in tasks)))

    await board.add("lead", TaskDraft(title="a"), TaskDraft(title="b"))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            for id in ("t1", "t2"):
                await anyio.wait_all_tasks_blocked()
                assert not seen
                await board.claim("bob")
                await board.complete(id, "bob")
    assert [task.status for task in seen[0]] == ["done", "done"]
    assert await board.wait(lambda tasks: len(tasks) > 2, timeout_s=0.01) is None


async def test_a_claim_that_is_cancelled_holds_nothing(real_board: Board) -> None:
    board = real_board
    await board.add("lead", TaskDraft(title="a"))
    heard = 0
    for rounds in range(30):
        got: list[str] = []

        async def work(got: list[str] = got) -> None:
            got.append(await claimed(board))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            for _ in range(rounds % 10):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        task = await board.get("t1")
        assert (task.status, task.attempts) == (("claimed", heard + 1) if got else ("open", heard))
        if got:
            heard += 1
            await board.release("t1", "bob")


async def test_what_is_given_back_is_not_what_is_kept(board: Board) -> None:
    data = {"n": [1]}
    await board.add("lead", TaskDraft(title="a", data=data))
    data["n"].append(2)
    assert (await board.get("t1")).data == {"n": [1]}


async def test_nothing_is_asked_of_what_was_closed(real_board: Board) -> None:
    refused: list[bool] = []

    async def wait() -> None:
        with pytest.raises(TeamError, match="was closed here"):
            await real_board.claim("bob", wait_s=None)
        refused.append(True)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await real_board.aclose()
            await real_board.aclose()
    assert refused
    with pytest.raises(TeamError, match="was closed here"):
        await real_board.add("lead", TaskDraft(title="a"))


async def test_mailbox_roster_and_board_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    for _ in range(2):
        board, roster, mailbox = SqliteBoard(path), SqliteRoster(path), SqliteMailbox(path)
        await mailbox.open("bob")
        await board.add("lead", TaskDraft(title="a", key="a"))
        assert ids(await board.list()) == ["t1"]
        for each in (board, roster, mailbox):
            await each.aclose()


async def test_boards_of_no_size_are_refused(tmp_path: Path) -> None:
    for refused in (
        lambda: MemoryBoard(max_unfinished=0),
        lambda: SqliteBoard(tmp_path / "team.db", kept_finished=-1),
    ):
        with pytest.raises(ValueError, match="room for at least one"):
            refused()
    board = MemoryBoard()
    with pytest.raises(ValueError, match="more than 0 s"):
        await board.claim("bob", lease_s=0)
