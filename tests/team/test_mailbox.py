"""What a mailbox does, in memory and in a file, beyond the conformance kit.

T180–T193 are told of a mailbox with `drain` and `wait`. Here `receive` is both, with acknowledgement. What differs:
letters are stamped by who sends them (T180); what is left when a box is closed becomes dead letters, which ``close``
returns, and cannot be received any more (T186).
"""

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from unspool.kernel.clock import FakeClock
from unspool.team import mailbox as contract
from unspool.team import memory_box, memory_mailbox, sqlite_boxes
from unspool.team.errors import BoxClosed, BoxFull, TeamError, UnknownMember
from unspool.team.letters import Delivery, Letter
from unspool.team.mailbox import Mailbox
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.sqlite_mailbox import SqliteMailbox
from unspool.trajectory.durability import EACH_FLUSH, group

pytestmark = pytest.mark.anyio
LEAD = "team-lead"


@pytest.fixture(params=["memory", "file"])
async def mailbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Mailbox, None]:
    made: Mailbox = MemoryMailbox() if request.param == "memory" else SqliteMailbox(tmp_path / "mailbox.db")
    await made.open(LEAD)
    yield made
    await made.aclose()


def letter(id: str, sender: str = "alice") -> Letter:
    return Letter(id=id, sender=sender, to=LEAD, text=f"text of {id}", sent_at=12.5)


def ids(deliveries: object) -> list[str]:
    assert isinstance(deliveries, list | tuple)
    return [each.letter.id for each in deliveries]


async def acknowledged(mailbox: Mailbox, wait_s: float | None = 0.0) -> list[str]:
    """Everything that waits, as a `drain` would give it."""
    got = ids(await mailbox.receive(LEAD, limit=10_000, wait_s=wait_s))
    await mailbox.acknowledge(LEAD, got)
    return got


async def test_first_in_first_out(mailbox: Mailbox) -> None:  # T180
    await mailbox.send(letter("1", "alice"))
    await mailbox.send(letter("2", "bob"))
    (info,) = await mailbox.boxes()
    assert info.waiting == 2
    first, second = await mailbox.receive(LEAD)
    assert first == Delivery(letter=letter("1", "alice"), number=1)
    assert second == Delivery(letter=letter("2", "bob"), number=2)
    assert not await mailbox.receive(LEAD)


async def test_a_reader_does_not_wait_where_there_is_a_letter(mailbox: Mailbox) -> None:  # T181
    await mailbox.send(letter("1"))
    with anyio.fail_after(5):
        assert await acknowledged(mailbox, None) == ["1"]


async def test_a_reader_waits_until_a_letter_is_sent(mailbox: Mailbox) -> None:  # T182
    got: list[str] = []

    async def read() -> None:
        got.extend(await acknowledged(mailbox, None))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert not got
            await mailbox.send(letter("1"))
    assert got == ["1"]


@pytest.mark.parametrize("wait_s", [None, 600.0])
async def test_waiting_can_be_cancelled(mailbox: Mailbox, wait_s: float | None) -> None:  # T183, T193
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acknowledged, mailbox, wait_s)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await mailbox.send(letter("1"))
    assert await acknowledged(mailbox) == ["1"]  # whoever left has taken nothing


async def test_closing_wakes_every_reader(mailbox: Mailbox) -> None:  # T184
    closed: list[str] = []

    async def read(name: str) -> None:
        with pytest.raises(BoxClosed):
            await mailbox.receive(LEAD, wait_s=None)
        closed.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(read, name)
            await anyio.wait_all_tasks_blocked()
            await mailbox.close(LEAD)
    assert sorted(closed) == ["a", "b", "c"]


async def test_what_is_sent_after_closing_is_refused(mailbox: Mailbox) -> None:  # T185, T187
    await mailbox.close(LEAD)
    assert not await mailbox.close(LEAD)
    with pytest.raises(BoxClosed, match="has stopped"):
        await mailbox.send(letter("1"))
    with pytest.raises(UnknownMember, match="no member of that name"):
        await mailbox.send(Letter(id="1", sender="alice", to="nobody"))
    assert not await mailbox.dead_letters()


async def test_what_is_left_at_closing_is_dead(mailbox: Mailbox) -> None:  # T186
    for id in "12":
        await mailbox.send(letter(id))
    dead = await mailbox.close(LEAD)
    assert [(each.letter, each.reason) for each in dead] == [
        (letter("1"), "stopped"),
        (letter("2"), "stopped"),
    ]
    assert await mailbox.dead_letters() == dead
    with pytest.raises(BoxClosed):
        await mailbox.receive(LEAD)


async def test_32_senders(mailbox: Mailbox) -> None:  # T188
    async def send(sender: int) -> None:
        for number in range(50):
            await mailbox.send(letter(f"{sender}-{number}", f"sender {sender}"), wait_s=None)

    async with anyio.create_task_group() as tasks:
        await mailbox.close(LEAD)
        await mailbox.open(LEAD, capacity=1600)
        for sender in range(32):
            tasks.start_soon(send, sender)
    got = await acknowledged(mailbox)
    assert len(got) == len(set(got)) == 1600
    for sender in range(32):
        mine = [id for id in got if id.startswith(f"{sender}-")]
        assert mine == [f"{sender}-{number}" for number in range(50)]


async def test_one_wake_up_is_enough_for_several_letters(mailbox: Mailbox) -> None:  # T189
    for id in "123":
        await mailbox.send(letter(id))
    assert await acknowledged(mailbox, None) == ["1", "2", "3"]


async def test_four_producers_and_a_reader_that_waits(mailbox: Mailbox) -> None:  # T190
    got: list[str] = []

    async def send(sender: int) -> None:
        for number in range(50):
            await mailbox.send(letter(f"{sender}-{number}", f"sender {sender}"))
            await checkpoint()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for sender in range(4):
                tasks.start_soon(send, sender)
            while len(got) < 200:
                got += await acknowledged(mailbox, None)
    assert len(set(got)) == 200


async def test_waiting_for_a_time(mailbox: Mailbox) -> None:  # T191, T192
    began = anyio.current_time()
    assert await mailbox.receive(LEAD, wait_s=0.03) in ([], ())
    assert anyio.current_time() - began >= 0.025
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mailbox.send, letter("1"))
        assert await acknowledged(mailbox, 30.0) == ["1"]


async def test_what_is_asked_for_amiss(mailbox: Mailbox) -> None:
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: mailbox.open("x", capacity=0),
        lambda: mailbox.receive(LEAD, limit=0),
        lambda: mailbox.receive(LEAD, lease_s=0),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match="at least one letter"):
            await ask()


async def test_a_notice_to_a_full_box_is_a_dead_letter(mailbox: Mailbox) -> None:
    await mailbox.open("a", capacity=1)
    await mailbox.open("b", capacity=1)
    assert await mailbox.send(Letter(id="1", sender="b", to="a"))
    assert await mailbox.rest("b", Letter(id="2", sender="b", to="a"))
    await mailbox.close("a")
    assert await mailbox.rest("b", Letter(id="3", sender="b", to="a"))
    reasons = [(each.letter.id, each.reason) for each in await mailbox.dead_letters()]
    assert reasons == [("2", "full"), ("1", "stopped"), ("3", "closed")]


async def test_what_is_kept_is_bounded(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_box, sqlite_boxes):
        monkeypatch.setattr(module, "KEPT_IDS", 10)
    for number in range(25):
        assert await mailbox.send(letter(str(number)))
    assert not await mailbox.send(letter("0"))  # not acknowledged: its id is known
    assert len(await acknowledged(mailbox)) == 25
    for number in range(15, 25):
        assert not await mailbox.send(letter(str(number)))  # the newest ten
    assert await mailbox.send(letter("0"))  # forgotten
    assert contract.KEPT_IDS == 100_000


async def test_the_newest_dead_letters_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (memory_mailbox, sqlite_boxes):
        monkeypatch.setattr(module, "KEPT_DEAD_LETTERS", 3)
    for mailbox in (MemoryMailbox(), SqliteMailbox(tmp_path / "mailbox.db")):
        await mailbox.open(LEAD)
        for number in range(5):
            await mailbox.send(letter(str(number)))
        assert len(await mailbox.close(LEAD)) == 5
        assert [dead.letter.id for dead in await mailbox.dead_letters()] == ["2", "3", "4"]
        await mailbox.aclose()


async def test_leases_end_by_the_clock_that_is_given() -> None:
    clock = FakeClock()
    mailbox = MemoryMailbox(clock)
    await mailbox.open(LEAD)
    await mailbox.send(letter("1"))
    await mailbox.receive(LEAD, lease_s=3600.0)
    (again,) = await mailbox.receive(LEAD, wait_s=None)
    assert (again.attempt, clock.now) == (2, 3600.0)
    assert not await mailbox.receive(LEAD, wait_s=30.0)
    assert clock.now == 3630.0
    await mailbox.aclose()


async def test_a_sender_that_leaves_a_full_box_lets_the_next_one_in(mailbox: Mailbox) -> None:
    await mailbox.open("small", capacity=1)
    await mailbox.send(Letter(id="1", sender="a", to="small"))
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(lambda: mailbox.send(Letter(id="2", sender="a", to="small"), wait_s=None))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(lambda: mailbox.send(Letter(id="3", sender="b", to="small"), wait_s=None))
            await anyio.wait_all_tasks_blocked()
            leaving.cancel_scope.cancel()
        await mailbox.acknowledge("small", ["1"])
    (got,) = await mailbox.receive("small")
    assert got.letter.id == "3"
    with pytest.raises(BoxFull, match="has to read first"):
        await mailbox.send(Letter(id="4", sender="c", to="small"))


# --- the file --------------------------------------------------------------------------------------


async def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_bytes(b"not a database, but long enough to be looked at as one" * 20)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = text.read_bytes(), other.read_bytes()
    for path in (text, other, tmp_path):
        with pytest.raises(TeamError, match=r"team's file"):
            SqliteMailbox(path)
    assert (text.read_bytes(), other.read_bytes()) == before


async def test_a_file_is_its_owners_and_small(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "mailbox.db"
    mailbox = SqliteMailbox(path, durability=EACH_FLUSH)
    assert path.stat().st_mode & 0o777 == 0o600
    await mailbox.open(LEAD)
    for number in range(200):
        await mailbox.send(Letter(id=str(number), sender="a", to=LEAD, text="x" * 10_000))
        await acknowledged(mailbox)
    await mailbox.aclose()
    (found,) = path.parent.iterdir()  # nothing is left beside it
    assert found.stat().st_size < 200_000  # the room of acknowledged letters is used again


@pytest.mark.parametrize("options", [{"poll_s": 0}, {"durability": group()}])
async def test_options_that_are_none(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="SqliteMailbox"):
        SqliteMailbox(tmp_path / "x.db", **options)  # type: ignore[arg-type]  # that is what is refused


async def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mailbox.db"
    mailbox = SqliteMailbox(path)
    await mailbox.open(LEAD)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("DROP TABLE seen")
    with pytest.raises(TeamError, match="cannot be used"):
        await mailbox.send(letter("1"))
    (info,) = await mailbox.boxes()
    assert info.waiting == 0  # nothing of it happened
    other.close()
    await mailbox.aclose()


async def test_what_cannot_be_stored_hurts_nobody_else(tmp_path: Path) -> None:
    mailbox = SqliteMailbox(tmp_path / "mailbox.db")
    await mailbox.open(LEAD)
    refused: list[str] = []

    async def ask(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except UnicodeEncodeError:
            refused.append("")

    await mailbox.send(letter("1"))
    await mailbox.receive(LEAD)
    async with anyio.create_task_group() as tasks:  # all in one transaction, or a few
        tasks.start_soon(ask, lambda: mailbox.acknowledge(LEAD, ["1", "\ud800"]))
        tasks.start_soon(ask, lambda: mailbox.receive("\ud800"))
        tasks.start_soon(ask, lambda: mailbox.send(letter("\ud800")))
        tasks.start_soon(ask, lambda: mailbox.send(letter("2")))
    assert len(refused) == 3
    (info,) = await mailbox.boxes()
    assert (info.waiting, info.out) == (1, 1)
    await mailbox.aclose()


async def test_another_process_makes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = SqliteMailbox(tmp_path / "mailbox.db")
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: 1)  # as after a fork
        with pytest.raises(TeamError, match="was forked from"):
            await mailbox.open(LEAD)
        await mailbox.aclose()  # of the other's nothing is closed
    await mailbox.open(LEAD)
    await mailbox.aclose()


def test_one_event_loop_after_the_other(tmp_path: Path) -> None:
    mailbox = SqliteMailbox(tmp_path / "mailbox.db")

    async def leave_in_the_middle(id: str) -> None:
        await mailbox.open(LEAD)
        await mailbox.send(letter(id))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mailbox.receive, LEAD)
            await checkpoint()
            tasks.cancel_scope.cancel()

    async def go_on() -> None:
        (got,) = await mailbox.receive(LEAD)
        assert got.attempt == 1
        await mailbox.close(LEAD)

    for backend in ("asyncio", "trio"):
        anyio.run(leave_in_the_middle, backend, backend=backend)
        anyio.run(go_on, backend=backend)
    anyio.run(mailbox.aclose)
