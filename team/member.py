"""A member of a team: an agent with a session and a log of its own, and a box that letters come into.

1. A letter is acknowledged only after the fact that holds it is durable in the member's log. One that is delivered
   again is recognised by its id there, and not shown again.
2. The member rests only if nothing is queued in its session and no letter waits in its box or is out: both are looked
   at in one step (``letters_lock``). Its notice to the lead goes out in that step.
3. It runs only in a slot of the team, and holds none while it waits.

Read with: ``member_loop.py`` (what it does next), ``mailbox.py``, ``team.py`` (the owner).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import anyio
from msgspec import Struct

from unspool.kernel.agent import Agent
from unspool.kernel.call_states import CallState
from unspool.kernel.hooks import Decisions
from unspool.kernel.messages import AgentMessage, Usage
from unspool.kernel.ports import Clock
from unspool.kernel.spawn import current_backend
from unspool.kernel.state import AgentState

from .errors import UnknownMember
from .kinds import HOST, IDLE
from .letters import Letter
from .mailbox import Mailbox
from .post import Post
from .roster import MemberInfo, Roster, StaleMember
from .roster import Status as RosterStatus
from .texts import FormatLetter, about_letter

Status: TypeAlias = Literal["starting", "working", "resting", "waiting", "stopped", "failed"]
"""``waiting`` is for a person. The last two are ends."""
ENDS: Final[frozenset[Status]] = frozenset({"stopped", "failed"})
_IN_ROSTER: Final[dict[Status, RosterStatus]] = {
    "starting": "starting",
    "working": "running",
    "resting": "idle",
    "waiting": "idle",
    "stopped": "stopped",
    "failed": "failed",
}
Notices: TypeAlias = Literal["wake", "queue", "none"]
"""What becomes of the news that a member rests: it wakes the lead, waits until the lead runs, or is not sent."""
Deliver: TypeAlias = Literal["follow_up", "steer"]


class Ending(Struct, frozen=True):
    """How a member ends, and why. ``stale``: somebody else goes by its name, and it has nothing more to say."""

    status: Literal["stopped", "failed"]
    reason: str = ""
    stale: bool = False


class Surroundings(Protocol):
    """What a member needs of its team."""

    clock: Clock
    mailbox: Mailbox
    roster: Roster
    post: Post
    slots: anyio.Semaphore
    notices: Notices
    deliver: Deliver
    format_letter: FormatLetter
    max_failures: int

    @property
    def lead(self) -> str:
        """The name of the member that leads; empty where there is none."""
        ...

    @property
    def over(self) -> bool:
        """Whether the team has come to its end: no run may begin."""
        ...

    def changed(self) -> None:
        """Something happened that others may wait for."""
        ...

    async def claim(self, member: "Member") -> Letter | None:
        """A task that the member has claimed, as a letter to itself."""
        ...

    async def end(self, member: "Member", ending: Ending) -> None:
        """A member has ended: close its box and tell those concerned."""
        ...


class Member:
    """See the module. Made by ``Team``; the properties are for everybody."""

    def __init__(
        self,
        name: str,
        agent: Agent[Any],
        team: Surroundings,
        *,
        info: MemberInfo,
        claims: bool = False,
        tags: Sequence[str] = (),
        seen: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.agent = agent
        self.team = team
        self.info = info  # as it began
        self.generation = info.generation
        self.claims = claims
        self.tags = tuple(tags)
        self.reader = name  # the same for a process that takes over: it gets what was out to the other
        self.status: Status = "starting"
        self.finished = False  # has ended, and those concerned were told
        self.held_seen = False  # whether the tasks are known that it held when it began
        self.ending: Ending | None = None
        self.failures = 0
        self.parked = False  # waiting for news, with nothing to do
        self.letters_lock = anyio.Lock()
        self.seen = {*seen, *letters_in(agent.state)}
        self.told_run = ""  # the run whose result the lead has been told
        self.rejections = 0  # requests to stop that its model has declined
        self.rejection = ""
        self.stop_timer: Callable[[], None] | None = None
        self.decisions: Decisions | None = None
        self._wake = current_backend().waker()
        self._woken = False

    # --- what there is to know -----------------------------------------------------------------

    @property
    def result(self) -> str:
        """The text of the last answer that said something."""
        messages = self.agent.state.messages
        replies = (each for each in reversed(messages) if each.role == "assistant" and each.text.strip())
        return next((each.text for each in replies if getattr(each, "stop_reason", "") != "aborted"), "")

    @property
    def usage(self) -> Usage:
        """What the session has used, nested ones that ended included."""
        return self.agent.total_usage

    @property
    def pending(self) -> tuple[CallState, ...]:
        """Calls that wait for a person."""
        return self.agent.state.waiting_calls

    @property
    def settled(self) -> bool:
        """Whether it does nothing, and nothing is under way that would wake it here."""
        return self.finished or (self.parked and not self._woken)

    @property
    def has_input(self) -> bool:
        """Whether something is queued that a run is begun for."""
        state = self.agent.state
        queued = (*state.prompts, *state.steering, *state.follow_ups, *state.taken)
        return any(self._counts(each.message) for each in queued)

    def _counts(self, message: AgentMessage) -> bool:
        return self.team.notices == "wake" or about_letter(message).get("kind") != IDLE

    # --- from outside --------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the member look again at what there is to do."""
        self._woken = True
        self._wake.set()
        self.team.changed()

    def stop(self, ending: Ending, *, now: bool) -> None:
        """End after the run under way, or ``now``: that run is aborted. The first ending counts."""
        if self.finished:
            return
        self.ending = ending if ending.stale else self.ending or ending
        if self.stop_timer is not None:
            self.stop_timer()
            self.stop_timer = None
        if now:
            self.agent.abort(marker=False, reason=ending.reason)
        self.wake()

    async def stands(self, status: Status, reason: str = "") -> None:
        """Say how it stands, in the roster too. Where it is not the member of its name any more, it ends."""
        if status == self.status:
            return
        before, self.status = self.status, status
        try:
            await self.team.roster.set_status(
                self.name, _IN_ROSTER[status], reason, generation=self.generation
            )
            if "waiting" in (before, status) and status not in ENDS:
                for_whom = (HOST,) if status == "waiting" else ()
                why = "a decision" if for_whom else ""
                await self.team.roster.set_waiting(self.name, for_whom, why, generation=self.generation)
        except (StaleMember, UnknownMember):
            self.stop(Ending("stopped", "somebody else goes by its name", stale=True), now=True)
        self.team.changed()

    def decide(self, decisions: Decisions) -> None:
        """Go on with calls that wait for a person."""
        self.decisions = decisions
        self.wake()

    async def news(self) -> None:
        """Wait until ``wake`` is called, or return at once where it was since the last time."""
        self.parked = True
        self.team.changed()
        try:
            while not self._woken:
                await self._wake.wait()
        finally:
            self.parked = False
            self._woken = False
            self.team.changed()


def letters_in(state: AgentState) -> frozenset[str]:
    """The ids of the letters that a session holds, in its conversation or its queues."""
    queued = (*state.prompts, *state.steering, *state.follow_ups, *state.taken)
    messages = (*state.messages, *(each.message for each in queued))
    return frozenset(str(about["id"]) for each in messages if (about := about_letter(each)))


Go: TypeAlias = Callable[[], Awaitable[Any]]
Members: TypeAlias = Mapping[str, Member]
