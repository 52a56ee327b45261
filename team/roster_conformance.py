"""The conformance kit for rosters: ``await check_roster(make)``.

A roster of your own passes in your tests with one line, on asyncio and on trio::

    await check_roster(lambda name: MyRoster(folder / name))

Each check works in places of its own, which are closed when it is over.

Read with: ``roster.py`` (the promises), ``unspool.kernel.conformance`` (the pieces).
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeAlias

from unspool.kernel.conformance import MOMENTS, Check, must_be_callable
from unspool.kernel.ports import Clock

from .conformance_kit import PlaceKit
from .errors import NameTaken, TeamError, UnknownMember
from .roster import ENDED, MemberInfo, Owner, Roster, StaleMember, WrongStatus, all_are

MakeRoster: TypeAlias = "Callable[[str], Roster | Awaitable[Roster]]"
_METHODS = ("add", "get", "set_status", "take_over", "remove", "aclose")
_ELSEWHERE = Owner(host="elsewhere", pid=1, token="x")
_LONG_S = 3600.0


async def check_roster(
    make: MakeRoster,
    *,
    durable: bool = True,
    clock: Clock | None = None,
    timeout_s: float = 30.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a roster keeps what ``Roster`` promises, on the event loop that this is awaited on.

    ``make`` opens the place of a name, sync or async: a new and empty one for a name it was not given before, else
    the one it was given then, also while that is open. ``durable`` is False for one that is gone when it is closed.
    ``timeout_s`` bounds one use of the roster, ``grace_s`` the end of a call that was told to end, both on ``clock``,
    which must be the roster's own where it has one. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a roster.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, _METHODS, "check_roster")
    kit = _RosterKit(make, clock, timeout_s, grace_s, durable=durable)
    await kit.carry_out(_CHECKS if durable else _TRANSIENT, skip)
    kit.conclude("roster")


class _RosterKit(PlaceKit[Roster]):
    async def roster(self, *names: str) -> tuple[Roster, list[MemberInfo]]:
        """A new roster, and these members of it."""
        roster = await self.opened()
        return roster, [await self.must(roster.add, MemberInfo(name=name)) for name in names]

    async def stands(self, roster: Roster, wanted: MemberInfo, when: str, advice: str) -> None:
        self.same(await self.must(roster.get, wanted.name), wanted, f"{when}, the member is", advice)


async def _adds(kit: _RosterKit) -> None:
    roster = await kit.opened()
    info = MemberInfo(
        name="bob",
        agent="a",
        description="d",
        session="s",
        spawned_by="eve",
        depth=2,
        owner=_ELSEWHERE,
        color="red",
    )
    added = await kit.must(roster.add, info)
    kept = MemberInfo(
        name="bob", agent="a", description="d", session="s", spawned_by="eve", depth=2, owner=_ELSEWHERE, color="red",
        generation=added.generation, joined_at=added.joined_at, changed_at=added.changed_at,
        heartbeat_at=added.heartbeat_at,
    )  # fmt: skip
    kit.same(added, kept, "a member is registered as", "keep what it was given")
    await kit.stands(roster, kept, "registered", "give what was registered")
    await kit.must(roster.add, MemberInfo(name="lead", role="lead"))
    await kit.must(roster.add, MemberInfo(name="ann"))
    names = [each.name for each in await kit.must(roster.members)]
    kit.same(names, ["ann", "bob", "lead"], "the members are", "sort them by name")
    await kit.refuses(partial(roster.get, "nobody"), UnknownMember, "a name is unknown")


async def _names(kit: _RosterKit) -> None:
    roster, _ = await kit.roster("bob")
    for name in ("bob", "lead", "host", "all", "*"):
        await kit.refuses(partial(roster.add, MemberInfo(name=name)), NameTaken, f"the name is {name!r}")
    for name in ("", "Bob", "-", "b b", "b" * 65, "ü"):
        await kit.refuses(partial(roster.add, MemberInfo(name=name)), TeamError, f"the name is {name!r}")
    names = [each.name for each in await kit.must(roster.members)]
    kit.same(names, ["bob"], "after refusals, the members are", "change nothing where you refuse")


async def _statuses(kit: _RosterKit) -> None:
    roster, (bob,) = await kit.roster("bob")
    set_status = partial(roster.set_status, "bob", generation=bob.generation)
    running = await kit.must(partial(set_status, "running", "works"))
    kit.same((running.status, running.reason), ("running", "works"), "its status is set to", "keep it")
    await kit.refuses(
        partial(set_status, "idle", expect=("idle",)), WrongStatus, "another status is expected"
    )
    await kit.stands(roster, running, "after that", "compare before setting")
    ended = await kit.must(partial(set_status, "stopped", "asked to"))
    await kit.refuses(partial(set_status, "running"), WrongStatus, "it has ended")
    again = await kit.must(partial(set_status, "stopped", "again"))
    kit.same(again, ended, "said again that it ended, the member is", "change nothing")


async def _namesakes(kit: _RosterKit) -> None:
    roster, (old,) = await kit.roster("bob")
    await kit.must(partial(roster.set_status, "bob", "failed", generation=old.generation))
    new = await kit.must(roster.add, MemberInfo(name="bob"))
    kit.same(
        new.generation > old.generation, True, "a later member's generation is higher", "count generations"
    )
    stale: dict[str, Callable[..., Awaitable[Any]]] = {
        "set_status": partial(roster.set_status, "bob", "stopped"),
        "set_waiting": partial(roster.set_waiting, "bob", ("eve",)),
        "heartbeat": partial(roster.heartbeat, "bob"),
        "remove": partial(roster.remove, "bob"),
    }
    for what, act in stale.items():
        refused = partial(act, generation=old.generation)
        await kit.refuses(refused, StaleMember, f"an earlier member of that name is meant ({what})")
    await kit.stands(roster, new, "after that", "compare generations before changing anything")
    await kit.must(partial(roster.remove, "bob", generation=new.generation))
    last = await kit.must(roster.add, MemberInfo(name="bob"))
    kit.same(
        last.generation > new.generation, True, "after a removal it is higher, too", "count for the team"
    )


async def _takes_over(kit: _RosterKit) -> None:
    roster = await kit.opened()
    bob = await kit.must(roster.add, MemberInfo(name="bob", owner=_ELSEWHERE))
    await kit.refuses(partial(roster.take_over, "bob", silence_s=_LONG_S), WrongStatus, "it lives")
    await kit.must(partial(roster.set_status, "bob", "lost", generation=bob.generation))
    taken = await kit.must(partial(roster.take_over, "bob", silence_s=_LONG_S))
    kit.same(taken.status, "starting", "taken over, its status is", "let it start")
    kit.same(taken.generation > bob.generation, True, "its generation is higher", "give it a new one")
    await kit.refuses(
        partial(roster.take_over, "bob", silence_s=_LONG_S), WrongStatus, "it was taken over before"
    )
    beats = partial(roster.heartbeat, "bob", generation=bob.generation)
    await kit.refuses(beats, StaleMember, "the one that was lost goes on")


async def _waiting(kit: _RosterKit) -> None:
    roster, (bob,) = await kit.roster("bob")
    bob = await kit.must(partial(roster.set_waiting, "bob", ("eve",), "why", generation=bob.generation))
    kit.same((bob.waiting_for, bob.waiting_why), (("eve",), "why"), "it waits for", "keep whom it waits for")
    bob = await kit.must(partial(roster.set_status, "bob", "stopped", generation=bob.generation))
    kit.same(bob.waiting_for, (), "ended, it waits for", "forget whom it waits for")


async def _teams(kit: _RosterKit) -> None:
    roster = await kit.opened()
    await kit.must(roster.add, MemberInfo(name="lead", role="lead"))
    await kit.must(partial(roster.rename_team, "finds", name="alpha"))
    await kit.must(roster.add, MemberInfo(name="bob"))
    await kit.refuses(partial(roster.rename_team, "x"), TeamError, "the team has members")
    team = await kit.must(roster.close, "done")
    shown = (team.name, team.description, team.closed, team.reason)
    kit.same(shown, ("alpha", "finds", True, "done"), "the team is", "change nothing where you refuse")
    kit.same(await kit.must(roster.close, "again"), team, "closed again, it is", "change nothing")
    for act in (
        partial(roster.add, MemberInfo(name="eve")),
        partial(roster.take_over, "bob", silence_s=-1.0),
    ):
        await kit.refuses(act, TeamError, "the team is closed")


async def _waits(kit: _RosterKit) -> None:
    roster, (bob,) = await kit.roster("bob")
    running = [kit.start(partial(roster.wait, all_are(["bob"], ENDED))) for _ in range(2)]
    await kit.settled()
    await kit.must(partial(roster.set_status, "bob", "running", generation=bob.generation))
    ended = await kit.must(partial(roster.set_status, "bob", "stopped", generation=bob.generation))
    for each in running:
        ran = await kit.ended(each, "the member ended")
        kit.same(ran.value and list(ran.value), [ended], "who waits gets", "give the members as they are")
    late = await kit.must(partial(roster.wait, lambda team, members: False, timeout_s=0.01))
    kit.same(late, None, "when the time is up, a wait gives", "None")


async def _cancelled(kit: _RosterKit) -> None:
    roster, _ = await kit.roster()
    for moment in MOMENTS:
        ran = await kit.run_cancelled(partial(roster.wait, lambda team, members: False), moment)
        if ran is None or ran.late:
            kit.found_once("a wait ends when it is cancelled", "it did not", "let it be cancelled")
    for number, moment in enumerate(MOMENTS):
        info = MemberInfo(name=f"m{number}")
        await kit.run_cancelled(partial(roster.add, info), moment)
        there = {each.name for each in await kit.must(roster.members)}
        ran = await kit.run(roster.add, info)
        taken = isinstance(ran.error, NameTaken)
        kit.same(taken, info.name in there, "a cancelled add has happened, or not", "do it in one step")


async def _alone(kit: _RosterKit) -> None:
    """Several use the place at once: a name goes to one."""
    place = kit.place()
    rosters = [await kit.opened(place) for _ in range(4 if kit.durable else 1)]

    async def join(roster: Roster) -> Any:
        try:
            return await roster.add(MemberInfo(name="bob"))
        except NameTaken:
            return None

    running = [kit.start(partial(join, rosters[number % len(rosters)])) for number in range(4)]
    ended = [await kit.ended(each, "one of them got the name") for each in running]
    added = sum(1 for ran in ended if ran.value is not None)
    kit.same(added, 1, "of several at once, so many get a name", "look and add in one step")


async def _two(kit: _RosterKit) -> None:
    place = kit.place()
    here, there = await kit.opened(place), await kit.opened(place)
    bob = await kit.must(here.add, MemberInfo(name="bob"))
    running = kit.start(partial(there.wait, all_are(["bob"], ENDED)))
    await kit.settled()
    await kit.must(partial(here.set_status, "bob", "stopped", generation=bob.generation))
    await kit.ended(running, "another process said that the member ended")
    kit.same(await kit.must(there.team), await kit.must(here.team), "both see the team as", "store it")


async def _reopens(kit: _RosterKit) -> None:
    place = kit.place()
    roster = await kit.opened(place)
    await kit.must(partial(roster.rename_team, "finds", name="alpha"))
    await kit.must(roster.add, MemberInfo(name="bob"))
    before = list(await kit.must(roster.members)), await kit.must(roster.team)
    await kit.must(roster.aclose)
    roster = await kit.opened(place)
    after = list(await kit.must(roster.members)), await kit.must(roster.team)
    kit.same(after, before, "opened again, there are", "keep members and team")


async def _closes(kit: _RosterKit) -> None:
    roster, _ = await kit.roster()
    running = kit.start(partial(roster.wait, lambda team, members: False))
    await kit.settled()
    await kit.must(roster.aclose)
    kit.refused(
        await kit.ended(running, "the roster was closed"), TeamError, "it was closed while one waited"
    )
    await kit.must(roster.aclose)
    await kit.refuses(roster.members, TeamError, "the roster was closed")


_TRANSIENT: tuple[Check[_RosterKit], ...] = (
    Check("adds", _adds),
    Check("names", _names, ("adds",)),
    Check("statuses", _statuses, ("adds",)),
    Check("namesakes", _namesakes, ("statuses",)),
    Check("takes over", _takes_over, ("statuses",)),
    Check("waiting", _waiting, ("statuses",)),
    Check("teams", _teams, ("adds",)),
    Check("waits", _waits, ("statuses",)),
    Check("cancelled", _cancelled, ("adds",)),
    Check("alone", _alone, ("adds",)),
    Check("closes", _closes),
)
_CHECKS: tuple[Check[_RosterKit], ...] = (
    *_TRANSIENT,
    Check("two", _two, ("waits",)),
    Check("reopens", _reopens, ("adds",)),
)
