"""What a roster does, in memory and in a file, beyond the conformance kit.

T194–T203 are told of a registry that has the mailboxes, too. Here the lead is an ordinary entry named ``lead``, closing
a team twice changes nothing (T200), and its mailbox is closed by who closes the team.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from unspool.kernel.clock import FakeClock
from unspool.team.errors import NameTaken, TeamError, UnknownMember
from unspool.team.memory_roster import MemoryRoster
from unspool.team.owners import is_dead, this_process
from unspool.team.place import MemoryPlace
from unspool.team.roster import (
    ENDED,
    LIVING,
    MemberInfo,
    Owner,
    Roster,
    StaleMember,
    Status,
    WrongStatus,
    all_are,
    find_cycle,
    waits,
)
from unspool.team.roster_steps import RosterSteps
from unspool.team.sqlite_mailbox import SqliteMailbox
from unspool.team.sqlite_roster import SqliteRoster
from unspool.team.stepped_roster import SteppedRoster

pytestmark = pytest.mark.anyio
LEAD = MemberInfo(name="lead", role="lead")
GONE = Owner(host="elsewhere", pid=1, token="x")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


@pytest.fixture(params=["memory", "file"])
async def roster(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncGenerator[Roster, None]:
    made: Roster
    if request.param == "memory":
        made = MemoryRoster(clock, max_members=3)
    else:
        made = SqliteRoster(tmp_path / "team.db", clock, max_members=3)
    yield made
    await made.aclose()


def names(members: Any) -> list[str]:
    return [member.name for member in members]


async def test_the_lead_is_a_member_with_its_session(roster: Roster) -> None:  # T194
    lead = await roster.add(MemberInfo(name="lead", role="lead", session="s1", description="leads"))
    assert lead == await roster.get("lead")
    assert (lead.session, lead.status, lead.generation, lead.joined_at) == ("s1", "starting", 1, 1000.0)
    assert lead.owner == this_process()


async def test_there_is_one_lead(roster: Roster) -> None:  # T195
    await roster.add(LEAD)
    with pytest.raises(NameTaken, match="there is a member of that name"):
        await roster.add(LEAD)


async def test_members_are_sorted_by_name(roster: Roster) -> None:  # T196
    for info in (MemberInfo(name="researcher"), LEAD, MemberInfo(name="critic")):
        await roster.add(info)
    assert names(await roster.members()) == ["critic", "lead", "researcher"]
    assert [each.name for each in await roster.members() if each.role != "lead"] == ["critic", "researcher"]
    assert names(await roster.members({"running"})) == []


@pytest.mark.parametrize(
    ("info", "error", "text"),
    [
        (MemberInfo(name="lead"), NameTaken, "the lead's"),
        (MemberInfo(name="bob", role="lead"), NameTaken, "the lead's name is 'lead'"),
        (MemberInfo(name="host"), NameTaken, "reserved"),
        (MemberInfo(name="all"), NameTaken, "reserved"),
        (MemberInfo(name="*"), NameTaken, "reserved"),
        (MemberInfo(name="there"), NameTaken, "take another"),
        (MemberInfo(name=""), TeamError, "a name is"),
        (MemberInfo(name="Bob"), TeamError, "a name is"),
        (MemberInfo(name="-bob"), TeamError, "a name is"),
        (MemberInfo(name="bob\n"), TeamError, "a name is"),
        (MemberInfo(name="b" * 65), TeamError, "a name is"),
        (MemberInfo(name="bob", status="stopped"), TeamError, "alive"),
    ],
)
async def test_who_cannot_join(
    roster: Roster, info: MemberInfo, error: type[TeamError], text: str
) -> None:  # T197
    await roster.add(MemberInfo(name="there"))
    before = await roster.team(), await roster.members()
    with pytest.raises(error, match=text):
        await roster.add(info)
    assert (await roster.team(), await roster.members()) == before


@pytest.mark.parametrize("name", ["b", "0", "b" * 64, "bob-2_x"])
async def test_names_that_can_be_had(roster: Roster, name: str) -> None:
    assert (await roster.add(MemberInfo(name=name))).name == name


async def test_who_is_removed_is_unknown(roster: Roster) -> None:  # T198
    bob = await roster.add(MemberInfo(name="bob"))
    await roster.remove("bob", generation=bob.generation)
    with pytest.raises(UnknownMember, match="no member of that name, there are: nobody"):
        await roster.get("bob")


async def test_the_lead_is_not_removed_and_nobody_cannot_be(roster: Roster) -> None:  # T199
    lead = await roster.add(LEAD)
    with pytest.raises(TeamError, match="leaves with the team"):
        await roster.remove("lead", generation=lead.generation)
    with pytest.raises(UnknownMember, match="there are: lead"):
        await roster.remove("ghost", generation=1)


async def test_a_closed_team_takes_nobody(roster: Roster, clock: FakeClock) -> None:  # T200, T203
    bob = await roster.add(MemberInfo(name="bob"))
    closed = await roster.close("done")
    assert (closed.closed, closed.reason) == (True, "done")
    assert await roster.close("again") == closed
    clock.now += 1000
    for refused in (
        lambda: roster.add(MemberInfo(name="eve")),
        lambda: roster.take_over("bob"),
        lambda: roster.rename_team("x"),
    ):
        with pytest.raises(TeamError, match="the team is closed"):
            await refused()
    assert (await roster.get("bob")).status == "starting"
    await roster.set_status("bob", "stopped", generation=bob.generation)  # it can still end


async def test_a_team_is_renamed_while_it_has_no_members(roster: Roster) -> None:  # T201, T202
    await roster.add(LEAD)
    team = await roster.rename_team("finds bugs", name="alpha")
    assert (team.name, team.description) == ("alpha", "finds bugs")
    team = await roster.rename_team("finds more")
    assert (team.name, team.description) == ("alpha", "finds more")
    bob = await roster.add(MemberInfo(name="bob"))
    with pytest.raises(TeamError, match="keeps its name"):
        await roster.rename_team("other", name="beta")
    assert (await roster.team()).name == "alpha"
    await roster.set_status("bob", "stopped", generation=bob.generation)
    assert (await roster.rename_team(name="beta")).name == "beta"


async def test_the_depth_at_which_a_member_was_spawned_is_kept(roster: Roster) -> None:  # T228
    await roster.add(MemberInfo(name="bob", depth=3, spawned_by="eve"))
    bob = await roster.get("bob")
    assert (bob.depth, bob.spawned_by) == (3, "eve")


async def test_only_so_many_live_at_once(roster: Roster) -> None:
    await roster.add(LEAD)  # is not counted
    members = [await roster.add(MemberInfo(name=name)) for name in "abc"]
    with pytest.raises(TeamError, match="as many members"):
        await roster.add(MemberInfo(name="d"))
    await roster.set_status("a", "stopped", generation=members[0].generation)
    await roster.add(MemberInfo(name="d"))


@pytest.mark.parametrize("ended", ["stopped", "failed", "lost", "removed"])
async def test_a_namesake_is_left_alone(roster: Roster, ended: Any) -> None:  # I-31
    old = await roster.add(MemberInfo(name="bob"))
    if ended == "removed":
        await roster.remove("bob", generation=old.generation)
    else:
        await roster.set_status("bob", ended, generation=old.generation)
    new = await roster.add(MemberInfo(name="bob", session="new"))
    assert new.generation > old.generation
    for leftover in (
        lambda: roster.set_status("bob", "stopped", generation=old.generation),
        lambda: roster.set_waiting("bob", ("eve",), generation=old.generation),
        lambda: roster.heartbeat("bob", generation=old.generation),
        lambda: roster.remove("bob", generation=old.generation),
    ):
        with pytest.raises(StaleMember, match="another member"):
            await leftover()
    assert await roster.get("bob") == new


@pytest.mark.parametrize("ended", sorted(ENDED))
@pytest.mark.parametrize("status", sorted(LIVING | ENDED | {"lost"}))
async def test_who_has_ended_stays_ended(roster: Roster, ended: Status, status: Status) -> None:  # B188
    bob = await roster.add(MemberInfo(name="bob"))
    bob = await roster.set_status("bob", ended, "why", generation=bob.generation)
    if status == ended:
        assert await roster.set_status("bob", status, "other", generation=bob.generation) == bob
    else:
        with pytest.raises(WrongStatus, match=f"has ended .{ended}"):
            await roster.set_status("bob", status, generation=bob.generation)
    assert await roster.get("bob") == bob


async def test_a_status_can_be_set_on_condition(roster: Roster) -> None:
    bob = await roster.add(MemberInfo(name="bob"))
    await roster.set_status("bob", "running", generation=bob.generation, expect={"starting"})
    with pytest.raises(WrongStatus, match="it is running, not idle or starting"):
        await roster.set_status("bob", "stopping", generation=bob.generation, expect={"starting", "idle"})
    assert (await roster.get("bob")).status == "running"


async def test_a_member_that_is_silent_can_be_taken_over(roster: Roster, clock: FakeClock) -> None:
    bob = await roster.add(MemberInfo(name="bob", owner=GONE, session="s"))
    await roster.set_waiting("bob", ("eve",), generation=bob.generation)
    clock.now += 61
    beaten = await roster.heartbeat("bob", generation=bob.generation)
    assert beaten.heartbeat_at == 1061
    clock.now += 60
    with pytest.raises(WrongStatus, match="it lives"):
        await roster.take_over("bob")
    clock.now += 1
    taken = await roster.take_over("bob")
    assert (taken.status, taken.owner, taken.session) == ("starting", this_process(), "s")
    assert (taken.generation, taken.heartbeat_at, taken.waiting_for) == (bob.generation + 1, 1122, ())
    with pytest.raises(WrongStatus, match="it lives"):  # the second who tries
        await roster.take_over("bob")
    with pytest.raises(StaleMember):
        await roster.set_status("bob", "running", generation=bob.generation)


async def test_who_is_lost_can_be_taken_over_at_once_and_who_has_ended_cannot(roster: Roster) -> None:
    bob = await roster.add(MemberInfo(name="bob", owner=GONE))
    await roster.set_status("bob", "lost", generation=bob.generation)
    bob = await roster.take_over("bob", owner=GONE)
    assert bob.owner == GONE
    await roster.set_status("bob", "failed", generation=bob.generation)
    with pytest.raises(WrongStatus, match="has ended"):
        await roster.take_over("bob", silence_s=-1)


def pid_of_the_dead() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


async def test_a_member_whose_process_has_died_can_be_taken_over(roster: Roster) -> None:
    pid = await anyio.to_thread.run_sync(pid_of_the_dead)
    await roster.add(MemberInfo(name="bob", owner=Owner(host=this_process().host, pid=pid)))
    assert (await roster.take_over("bob")).owner == this_process()


def test_of_which_processes_it_is_known_that_they_died() -> None:
    here = this_process()
    assert not is_dead(here)
    assert is_dead(Owner(host=here.host, pid=here.pid, token="of another with this pid"))
    assert not is_dead(Owner(host=here.host, pid=os.getppid()))
    assert not is_dead(GONE)
    assert not is_dead(Owner())


async def test_who_waits_for_whom(roster: Roster) -> None:
    bob = await roster.add(MemberInfo(name="bob"))
    eve = await roster.add(MemberInfo(name="eve"))
    bob = await roster.set_waiting("bob", ("eve", "eve"), "an answer", generation=bob.generation)
    assert (bob.waiting_for, bob.waiting_why) == (("eve",), "an answer")
    await roster.set_waiting("eve", ("bob",), generation=eve.generation)
    edges = waits(await roster.members())
    assert edges == {"bob": ("eve",), "eve": ("bob",)}
    assert find_cycle(edges) == ("bob", "eve")
    await roster.set_status("eve", "stopped", generation=eve.generation)
    assert find_cycle(waits(await roster.members())) == ()
    with pytest.raises(WrongStatus):
        await roster.set_waiting("eve", ("bob",), generation=eve.generation)
    bob = await roster.set_waiting("bob", (), generation=bob.generation)
    assert (bob.waiting_for, bob.waiting_why) == ((), "")


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({}, ()),
        ({"a": ("b",), "b": ("c",)}, ()),
        ({"a": ("a",)}, ("a",)),
        ({"c": ("a",), "a": ("b",), "b": ("c",)}, ("a", "b", "c")),
        ({"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ("c",)}, ("c", "d")),
        ({"a": ("b", "c"), "b": ("d",), "c": ("d",)}, ()),
        ({"x": ("y",), "a": ("b",), "b": ("a",), "y": ("x",)}, ("a", "b")),
        ({f"{n:04}": (f"{n + 1:04}",) for n in range(3000)}, ()),
    ],
)
def test_cycles(edges: dict[str, tuple[str, ...]], cycle: tuple[str, ...]) -> None:
    assert find_cycle(edges) == cycle


async def test_the_version_grows_with_changes_and_not_with_heartbeats(roster: Roster) -> None:
    async def version() -> int:
        return (await roster.team()).version

    bob = await roster.add(MemberInfo(name="bob"))
    before = await version()
    await roster.heartbeat("bob", generation=bob.generation)
    assert await version() == before
    await roster.set_status("bob", "idle", generation=bob.generation)
    assert await version() == before + 1


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_waiting_for_members(kind: str, tmp_path: Path) -> None:
    roster: Roster = MemoryRoster() if kind == "memory" else SqliteRoster(tmp_path / "team.db")
    seen: list[Any] = []

    async def wait() -> None:
        seen.append(await roster.wait(all_are(("a", "b"), ENDED)))

    members = [await roster.add(MemberInfo(name=name)) for name in "abc"]
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await roster.set_status("a", "stopped", generation=members[0].generation)
            await anyio.wait_all_tasks_blocked()
            assert not seen
            await roster.remove("b", generation=members[1].generation)
    assert [names(found) for found in seen] == [["a", "c"]]
    assert await roster.wait(lambda team, members: team.closed, timeout_s=0.01) is None
    await roster.aclose()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_nothing_is_asked_of_what_was_closed(kind: str, tmp_path: Path) -> None:
    roster: Roster = MemoryRoster() if kind == "memory" else SqliteRoster(tmp_path / "team.db")
    refused: list[bool] = []

    async def wait() -> None:
        with pytest.raises(TeamError, match="was closed here"):
            await roster.wait(lambda team, members: False)
        refused.append(True)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await roster.aclose()
            await roster.aclose()
    assert refused
    with pytest.raises(TeamError, match="was closed here"):
        await roster.team()


async def test_members_that_ended_are_forgotten_in_time(clock: FakeClock) -> None:
    roster = SteppedRoster(MemoryPlace(RosterSteps(clock, 2, kept=2), clock), clock)
    await roster.add(MemberInfo(name="living"))
    for name in ("z", "y", "x", "w"):
        member = await roster.add(MemberInfo(name=name))
        await roster.set_status(name, "stopped", generation=member.generation)
        clock.now += 1
    await roster.add(MemberInfo(name="v"))
    assert names(await roster.members()) == ["living", "v", "w", "x"]


async def test_two_processes_see_the_same(tmp_path: Path) -> None:
    here, there = SqliteRoster(tmp_path / "team.db"), SqliteRoster(tmp_path / "team.db")
    bob = await here.add(MemberInfo(name="bob"))
    assert await there.get("bob") == bob
    found: list[Any] = []

    async def wait() -> None:
        found.append(await there.wait(all_are(["bob"], {"idle"})))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await here.set_status("bob", "idle", generation=bob.generation)
    await there.heartbeat("bob", generation=bob.generation)
    assert [names(members) for members in found] == [["bob"]]
    assert await here.get("bob") == await there.get("bob") != found[0][0]
    await there.remove("bob", generation=bob.generation)
    assert await here.members() == ()
    await here.aclose()
    await there.aclose()


async def test_one_of_many_gets_a_name(tmp_path: Path) -> None:  # I-33
    rosters = [SqliteRoster(tmp_path / "team.db") for _ in range(4)]
    taken: list[str] = []

    async def join(roster: Roster) -> None:
        try:
            await roster.add(MemberInfo(name="bob"))
        except NameTaken:
            taken.append("bob")

    async with anyio.create_task_group() as tasks:
        for roster in rosters:
            tasks.start_soon(join, roster)
    assert len(taken) == 3
    for roster in rosters:
        await roster.aclose()


async def test_it_lives_in_the_file_of_the_mailbox(tmp_path: Path) -> None:
    mailbox = SqliteMailbox(tmp_path / "team.db")
    roster = SqliteRoster(tmp_path / "team.db")
    await mailbox.open("bob")
    await roster.add(MemberInfo(name="bob"))
    await roster.aclose()
    await mailbox.aclose()
    again, box = SqliteRoster(tmp_path / "team.db"), SqliteMailbox(tmp_path / "team.db")
    assert names(await again.members()) == names(await box.boxes()) == ["bob"]
    await again.aclose()
    await box.aclose()


async def test_what_is_no_file_of_a_team_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, and longer than its header would be. " * 10)
    with pytest.raises(TeamError):
        SqliteRoster(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="at least one member"):
        MemoryRoster(max_members=0)
    with pytest.raises(ValueError, match="at least one member"):
        SqliteRoster(tmp_path / "team.db", max_members=0)
    with pytest.raises(ValueError, match="more than 0 s"):
        SqliteRoster(tmp_path / "team.db", poll_s=0)
