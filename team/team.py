"""A team: members that run side by side, send each other letters, rest, wake, and are stopped.

Everything that runs is a task of ``async with team``: leaving it ends all of it in bounded time. What is durable stays,
and can be gone on with by ``join``. All methods belong to the event loop of the team.

Read with: ``member.py`` (what a member promises), ``membership.py`` (how one begins and ends), ``quiet.py``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from unspool.kernel.agent import Agent
from unspool.kernel.call_states import CallState
from unspool.kernel.clock import SystemClock
from unspool.kernel.events import Event, ModelResponse
from unspool.kernel.hooks import Decisions, Hooks
from unspool.kernel.messages import Usage
from unspool.kernel.ports import ChatModel, Clock, Tool
from unspool.subagent.definition import AgentDefinition
from unspool.subagent.definition import definitions as checked
from unspool.trajectory.sessions import Sessions

from .beating import keep_beating
from .board import Board
from .claims import claim_task, has_work_for, watch_board
from .errors import BoxClosed, BoxFull, TeamError, UnknownMember
from .guards import used_up
from .ids import host_letter_id
from .kinds import BROADCAST, HOST, SYNTHESIS
from .letters import Letter
from .limits import TeamLimits
from .mailbox import Mailbox
from .member import Deliver, Ending, Member, Members, Notices
from .member_loop import run_member
from .membership import Membership
from .memory_board import MemoryBoard
from .memory_mailbox import MemoryMailbox
from .memory_roster import MemoryRoster
from .post import Post
from .quiet import POLL_S, Changes, all_settled, is_quiet, wait_until
from .result import EndReason, TeamResult, outcome_of, owes_answer
from .roster import ENDED, LEAD, Roster
from .shutdown import ShutdownAnswer, ask_to_stop, stop_all
from .texts import SYNTHESIZE, FormatLetter, letter_text


class Team:
    """Members and what they share; ``async with Team(...) as team``.

    - The member named ``lead`` leads: it gets the news of the others, and may spawn and stop them.
    - ``mailbox``, ``roster`` and ``board``: where letters wait, who is in the team, what there is to do; in memory by
      default. They stay the caller's, and open. Processes that use the same ones run members of one team.
    - ``sessions`` keeps the members' sessions; without it they are kept in memory.
    - ``definitions`` are the agents that can be spawned by name. What one leaves open is the team's: ``model``,
      ``tools``, and the gate and approvals of ``hooks``.
    - ``notices``: whether the news that a member rests wakes the lead, waits until it runs (``queue``), or is not
      sent. ``deliver``: whether a letter waits for the end of the reader's run, or steers it.
    - ``format_letter`` writes letters as models read them.

    Raises:
        DefinitionError: two definitions have one name, or one hands over to none of them.
    """

    def __init__(
        self,
        name: str = "team",
        *,
        mailbox: Mailbox | None = None,
        roster: Roster | None = None,
        board: Board | None = None,
        sessions: Sessions | None = None,
        definitions: Sequence[AgentDefinition] = (),
        model: ChatModel | str | None = None,
        tools: Sequence[Tool] = (),
        hooks: Hooks | None = None,
        limits: TeamLimits | None = None,
        notices: Notices = "wake",
        deliver: Deliver = "follow_up",
        format_letter: FormatLetter = letter_text,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.limits = limits or TeamLimits()
        self.clock: Clock = clock or SystemClock()
        self.mailbox: Mailbox = mailbox if mailbox is not None else MemoryMailbox(self.clock)
        self._shared = roster is not None
        self.roster: Roster = (
            roster if roster is not None else MemoryRoster(self.clock, max_members=self.limits.members)
        )
        self.board: Board = board if board is not None else MemoryBoard(self.clock)
        self.definitions = checked(definitions)
        self.model, self.tools, self.hooks = model, tuple(tools), hooks
        self.sessions = sessions
        self.notices: Notices = notices
        self.deliver: Deliver = deliver
        self.format_letter = format_letter
        self.max_failures = self.limits.failures
        self.end_reason: EndReason | None = None
        self._watches = False  # the board, for members that claim
        self._remote = False  # whether other processes run members, too
        self._is_metered = self.limits.tokens is not None or self.limits.cost is not None
        self._changes = Changes()
        self.post = Post(
            self.mailbox, self.clock, self.limits, lead=lambda: self.lead, changed=self._changes.changed
        )
        self._membership = Membership(self)
        self._group: TaskGroup | None = None
        self._stop_deadline: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise RuntimeError("team: `async with team` is entered already")
        self.slots = anyio.Semaphore(self.limits.concurrency)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        if self._shared:
            self._group.start_soon(keep_beating, self)
        if self.limits.seconds is not None:
            self._stop_deadline = self.clock.call_later(self.limits.seconds, lambda: self.finish("deadline"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """End all runs; members that had not ended can be gone on with where their sessions are kept."""
        group = self._group
        assert group is not None
        if self._stop_deadline is not None:
            self._stop_deadline()
        group.cancel_scope.cancel()
        try:
            return await group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as errors:
            if error is not None and errors.exceptions == (error,):
                return False
            raise
        finally:
            self._group = None
            await self._membership.leave()

    # --- members -------------------------------------------------------------------------------

    async def add(
        self,
        agent: Agent[Any] | AgentDefinition,
        *,
        name: str = "",
        prompt: str = "",
        claims: bool = False,
        tags: Sequence[str] = (),
        spawns: bool = False,
    ) -> Member:
        """Take a member in and let it begin; its name is that of the agent where none is given.

        ``prompt`` is what the host asks it first. With ``claims`` it takes tasks of the board when it has nothing
        else to do, of those that have all its ``tags``. ``spawns``: whether it may add members, as the lead may. An
        ``Agent`` keeps its log and gets the team's tools besides its own.

        Raises:
            NameTaken: there is a member of that name.
            TeamError: the name cannot be used, the team is full, or the definition names no model.
        """
        return await self._membership.add(
            agent, name=name, prompt=prompt, claims=claims, tags=tags, spawns=spawns
        )

    async def join(
        self,
        name: str,
        agent: Agent[Any] | AgentDefinition | None = None,
        *,
        claims: bool = False,
        tags: Sequence[str] = (),
        spawns: bool = False,
    ) -> Member:
        """Go on with a member whose process has left the team or died: where it stood, with the letters that wait.

        ``agent``: its definition, by default that of the name in the roster; its session is then taken from the
        team's ``sessions``. Or an ``Agent`` on its log.

        Raises:
            UnknownMember: there is none of that name.
            WrongStatus: it runs in another process, or has ended.
            LogError: its session cannot be opened.
        """
        return await self._membership.join(name, agent, claims=claims, tags=tags, spawns=spawns)

    async def spawn(self, agent: str, *, name: str = "", prompt: str = "", claims: bool = False) -> Member:
        """``add`` one of the team's definitions, by its name; ``name`` is made of that where none is given.

        Raises:
            UnknownAgent: there is no such definition.
            NameTaken, TeamError: as ``add``.
        """
        return await self._membership.spawn(agent, name=name, prompt=prompt, claims=claims)

    async def spawn_for(self, by: str, agent: str, name: str, prompt: str, key: str) -> Member:
        """``spawn`` as a member asks for it: once for each ``key``, and only as deep as members may be spawned."""
        return await self._membership.spawn(agent, name=name, prompt=prompt, by=by, key=key)

    @property
    def lead(self) -> str:
        """The name of the member that leads; empty where there is none. It may be another process that has it."""
        return LEAD if self._shared or self._membership.has_lead else ""

    @property
    def members(self) -> Members:
        """The members that this process runs or has run, by name."""
        return self._membership.members

    def member(self, name: str) -> Member:
        """A member of this process.

        Raises:
            UnknownMember: there is none of that name.
        """
        member = self.members.get(name)
        if member is None:
            raise UnknownMember(
                f"there is no member {name[:80]!r} here; there are {', '.join(sorted(self.members))}"
            )
        return member

    def result(self, name: str) -> str:
        """The text of a member's last answer; raises as ``member``."""
        return self.member(name).result

    # --- letters -------------------------------------------------------------------------------

    async def send(
        self, to: str, text: str, *, sender: str = HOST, wait_s: float | None = 0.0, kind: str = "message"
    ) -> Letter:
        """Send a letter; where the box is full, wait up to ``wait_s`` seconds for room (None: for ever).

        Raises:
            UnknownMember: there is no such member; the message lists those there are.
            BoxClosed, BoxFull: it has stopped, or its box is full.
            TeamError: no text, or the team has sent as many letters as it may.
        """
        if not text.strip():
            raise TeamError("a message needs a text")
        letter = Letter(
            id=host_letter_id(), sender=sender, to=to, text=text, kind=kind, sent_at=self.clock.time()
        )
        await self.post.send(letter, wait_s=wait_s)
        return letter

    async def broadcast(self, text: str, *, sender: str = HOST) -> Mapping[str, str]:
        """Send a letter to every member but the sender; by name, why it was not delivered, or nothing.

        Raises:
            TeamError: no text, or the team has sent as many letters as it may.
        """
        failed: dict[str, str] = {}
        for name in await self.names():
            if name != sender:
                try:
                    await self.send(name, text, sender=sender, kind=BROADCAST)
                    failed[name] = ""
                except (BoxClosed, BoxFull) as error:
                    failed[name] = str(error)
        return failed

    async def names(self) -> tuple[str, ...]:
        """The members that have not ended, of all processes, by name."""
        return tuple([each.name for each in await self.roster.members() if each.status not in ENDED])

    # --- waiting -------------------------------------------------------------------------------

    async def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until all members rest and no letter is under way; False when the time is up.

        One that waits for a person counts as resting: see ``pending``.
        """
        if timeout_s is None:
            await self._quiet()
            return True
        with anyio.CancelScope() as scope:
            stop = self.clock.call_later(timeout_s, scope.cancel)
            try:
                await self._quiet()
            finally:
                stop()
        return not scope.cancelled_caught

    async def _quiet(self) -> None:
        await self.wait_for(self._is_quiet)

    async def _is_quiet(self) -> bool:
        if not all_settled(self.members):  # they tell when they are; looking at all boxes costs more
            return False
        boxes = await self.mailbox.boxes()
        self._remote = any(box.state != "closed" and box.name not in self.members for box in boxes)
        if not is_quiet(boxes, self.members):
            return False
        return self.over or not await has_work_for(self.board, self.members)

    async def wait_for(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until ``holds``; it is asked again whenever something has happened."""
        await wait_until(self._changes, self.clock, holds, poll_s=self._poll_s)

    def _poll_s(self) -> float | None:
        return POLL_S if self._remote else None

    async def run(self, prompt: str) -> TeamResult:
        """Give the lead a prompt, wait until nothing is left to do, and have it answer what members reported.

        Raises:
            TeamError: the team has no lead.
        """
        if not self.lead:
            raise TeamError(f"the team has no lead: add a member named {LEAD!r}")
        await self.send(self.lead, prompt)
        await self._quiet()
        lead = self.members.get(LEAD)
        while lead is not None and owes_answer(self, lead):
            await self.send(self.lead, SYNTHESIZE, kind=SYNTHESIS)
            await self._quiet()
        return await self.outcome()

    async def outcome(self) -> TeamResult:
        """What the team has come to by now."""
        return await outcome_of(self)

    # --- persons -------------------------------------------------------------------------------

    def pending(self) -> Mapping[str, Sequence[CallState]]:
        """The calls that wait for a person, by member."""
        return {
            name: member.pending
            for name, member in self.members.items()
            if member.pending and not member.finished
        }

    def decide(self, name: str, decisions: Decisions) -> None:
        """Decide on the calls of a member that wait; it goes on.

        Raises:
            UnknownMember: there is none of that name here.
            TeamError: none of its calls waits.
        """
        member = self.member(name)
        if not member.pending:
            raise TeamError(f"no call of {name} waits for a decision")
        member.decide(decisions)

    # --- the end -------------------------------------------------------------------------------

    async def request_shutdown(
        self, name: str, reason: str = "", *, force: bool = False, grace_s: float = 30.0
    ) -> ShutdownAnswer:
        """Ask a member to stop, and wait for what comes of it; one that does not answer within ``grace_s`` is stopped.

        With ``force`` it is stopped at once: its run is aborted.

        Raises:
            UnknownMember: there is none of that name here.
            BoxClosed: it has ended already.
        """
        return await ask_to_stop(self, self.member(name), reason, force=force, grace_s=grace_s)

    async def shutdown(self, timeout_s: float = 10.0) -> None:
        """Stop all members of this process for good, without asking them: each may finish its run within ``timeout_s``
        seconds, then it is aborted."""
        self.finish("stopped", abort=False)
        await stop_all(self, timeout_s)

    def finish(self, reason: EndReason, *, abort: bool = True) -> None:
        """No run begins any more, and those under way are aborted. The first reason counts."""
        if self.end_reason is not None:
            return
        self.end_reason = reason
        for member in self.members.values():
            if abort:
                member.agent.abort(marker=False, reason=reason)
            member.wake()

    # --- for members (see ``Surroundings``) ------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the team has come to its end: no run begins any more."""
        return self.end_reason is not None

    def usages(self) -> Sequence[Usage]:
        """What each member of this process has used, those that have ended included."""
        return self._membership.usages()

    def changed(self) -> None:
        """Something happened that others may wait for."""
        self._changes.changed()

    async def claim(self, member: Member) -> Letter | None:
        """A task that the member has claimed, as a letter to itself."""
        return await claim_task(self.board, member)

    async def end(self, member: Member, ending: Ending) -> None:
        """A member has ended: close its box and tell those concerned."""
        await self._membership.end(member, ending)

    def start(self, member: Member) -> None:
        """Let a member run, in a task of the team."""
        if self._group is None:
            raise RuntimeError("team: members run inside `async with team`")
        member.agent.subscribe(self._see)
        if member.claims and not self._watches:
            self._watches = True
            self._group.start_soon(watch_board, self)
        self._group.start_soon(run_member, member)

    def _see(self, event: Event) -> None:
        if isinstance(event, ModelResponse) and self._is_metered and used_up(self.limits, self.usages()):
            self.finish("budget")
