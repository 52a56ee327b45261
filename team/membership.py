"""How members begin, are taken over, and end: names, sessions, agents, boxes, and who is told.

Read with: ``team.py`` (the owner), ``roster.py``, ``build.py``, ``member_loop.py``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from unspool.kernel.agent import Agent
from unspool.kernel.errors import LogError, describe
from unspool.kernel.messages import Usage
from unspool.kernel.ports import EventLog
from unspool.kernel.recorder import SessionLog
from unspool.subagent.definition import AgentDefinition, find
from unspool.trajectory.memory import MemoryLog
from unspool.trajectory.sessions import SessionHandle

from .build import agent_of
from .errors import TeamError, UnknownMember
from .ids import notice_id, session_id, which_session
from .kinds import HOST
from .letters import Letter
from .member import Ending, Member
from .member_letters import ended_letter, letters_in_log, undeliverable, unread
from .roster import LEAD, MemberInfo, Members, StaleMember
from .team_tools import team_tools
from .texts import introduction

if TYPE_CHECKING:
    from .team import Team

LEAVING_S = 5.0  # how long leaving a team may take to say so to its places


class Membership:
    """The members of one team that this process runs."""

    def __init__(self, team: "Team") -> None:
        self._team = team
        self.members: dict[str, Member] = {}
        self._all: list[Member] = []  # those that have ended, too: what they used counts
        self._handles: dict[str, SessionHandle] = {}

    @property
    def has_lead(self) -> bool:
        return LEAD in self.members

    def usages(self) -> list[Usage]:
        """What each member has used, those that have ended included."""
        return [member.usage for member in self._all]

    # --- beginning -----------------------------------------------------------------------------

    async def spawn(
        self,
        agent: str,
        *,
        name: str = "",
        prompt: str = "",
        claims: bool = False,
        by: str = HOST,
        key: str = "",
    ) -> Member:
        """Begin a member by the name of its definition; ``key`` names the call, so that it begins once."""
        definition = find(self._team.definitions, agent)
        known = await self._team.roster.members()
        if key and (begun := _of_key(known, key)) is not None:
            if begun.name in self.members:
                return self.members[begun.name]
            return await self.join(begun.name, prompt=prompt, by=by)
        name = name or _free_name(agent.lower(), known)
        return await self.add(definition, name=name, prompt=prompt, claims=claims, by=by, key=key)

    async def add(
        self,
        agent: Agent[Any] | AgentDefinition,
        *,
        name: str = "",
        prompt: str = "",
        claims: bool = False,
        tags: Sequence[str] = (),
        spawns: bool = False,
        by: str = HOST,
        key: str = "",
    ) -> Member:
        """See ``Team.add``."""
        team = self._team
        own = agent.name if isinstance(agent, AgentDefinition) else agent.settings.config.agent
        name = name or own
        depth = 0 if name == LEAD else await self._depth_below(by)
        info = await team.roster.add(await self._info(agent, name, own, depth, by, key))
        try:
            if isinstance(agent, AgentDefinition):
                agent = self._made(agent, info, await self._log(info.session), spawns)
            else:
                agent.configure(tools=[*agent.settings.context.tools, *team_tools(team, name, spawns=spawns)])
            await team.mailbox.open(name)
            member = Member(name, agent, team, info=info, claims=claims, tags=tags)
            await self._begin(member, prompt, by)
        except BaseException as error:
            await self._gives_up(info, describe(error))
            raise
        return member

    async def _info(
        self, agent: Agent[Any] | AgentDefinition, name: str, own: str, depth: int, by: str, key: str
    ) -> MemberInfo:
        known = await self._team.roster.members()
        if sum(each.is_living for each in known) >= self._team.limits.members:
            raise TeamError(f"the team is full: it has {self._team.limits.members} members; stop one first")
        if isinstance(agent, AgentDefinition):
            session = session_id(
                self._team.name, name, which_session(key) if key else _next_number(known, name)
            )
        else:
            session = _session_of(agent) or session_id(self._team.name, name, _next_number(known, name))
        return MemberInfo(
            name=name,
            role="lead" if name == LEAD else "member",
            agent=own,
            description=agent.description if isinstance(agent, AgentDefinition) else "",
            session=session,
            spawned_by="" if by == HOST else by,
            depth=depth,
        )

    async def _depth_below(self, by: str) -> int:
        depth = 1 if by == HOST else (await self._team.roster.get(by)).depth + 1
        if depth > self._team.limits.depth:
            raise TeamError(
                f"no members below you: they may be spawned {self._team.limits.depth} levels deep"
            )
        return depth

    async def _log(self, session: str) -> EventLog:
        sessions = self._team.sessions
        if sessions is None:
            return MemoryLog(session=session)
        handle = await to_thread.run_sync(lambda: sessions.create(session, namespace=self._team.name))
        self._handles[session] = handle
        return handle

    def _made(self, definition: AgentDefinition, info: MemberInfo, log: EventLog, spawns: bool) -> Agent[Any]:
        team = self._team
        return agent_of(
            definition,
            name=info.name,
            model=team.model,
            tools=team.tools,
            team_tools=team_tools(team, info.name, spawns=spawns),
            introduction=introduction(info.name, team.name),
            log=log,
            clock=team.clock,
            hooks=team.hooks,
        )

    async def _begin(self, member: Member, prompt: str, by: str) -> None:
        team = self._team
        if prompt:
            letter = Letter(
                id=notice_id(member.info.session, "prompt", "0"),
                sender=by,
                to=member.name,
                text=prompt,
                sent_at=team.clock.time(),
            )
            await team.mailbox.send(letter)
        self.members[member.name] = member
        self._all.append(member)
        team.start(member)
        team.changed()

    async def _gives_up(self, info: MemberInfo, reason: str) -> None:
        with anyio.move_on_after(LEAVING_S, shield=True):
            await self._team.roster.set_status(info.name, "failed", reason, generation=info.generation)
        await self._forget(info.session)

    # --- going on ------------------------------------------------------------------------------

    async def join(
        self,
        name: str,
        agent: Agent[Any] | AgentDefinition | None = None,
        *,
        prompt: str = "",
        claims: bool = False,
        tags: Sequence[str] = (),
        spawns: bool = False,
        by: str = HOST,
    ) -> Member:
        """See ``Team.join``."""
        team = self._team
        info = await team.roster.take_over(name)
        try:
            if not isinstance(agent, Agent):
                definition = agent or find(team.definitions, info.agent)
                agent = self._made(definition, info, await self._opened(info.session), spawns)
            else:
                agent.configure(tools=[*agent.settings.context.tools, *team_tools(team, name, spawns=spawns)])
            await team.mailbox.open(name)
            member = Member(
                name, agent, team, info=info, claims=claims, tags=tags, seen=await self._seen(info.session)
            )
            await self._begin(member, prompt, by)
        except BaseException as error:
            with anyio.move_on_after(LEAVING_S, shield=True):
                await team.roster.set_status(name, "lost", describe(error), generation=info.generation)
            await self._forget(info.session)
            raise
        return member

    async def _opened(self, session: str) -> EventLog:
        sessions = self._team.sessions
        if sessions is None:
            raise TeamError("there is no place of sessions to find its session in", session=session)
        try:
            handle = await to_thread.run_sync(lambda: sessions.open(session))
        except LogError as error:
            if error.details.get("kind") != "no_session":
                raise
            return await self._log(session)  # its process died before it had begun
        self._handles[session] = handle
        return handle

    async def _seen(self, session: str) -> frozenset[str]:
        """The letters that a session has ever held, those of messages that were compacted away included."""
        sessions = self._team.sessions
        if sessions is None or session not in self._handles:
            return frozenset()
        return await to_thread.run_sync(lambda: letters_in_log(sessions.facts(session)))

    # --- ending --------------------------------------------------------------------------------

    async def end(self, member: Member, ending: Ending) -> None:
        """Close the box of a member that has ended, and tell the lead and the senders of what it did not read."""
        team, queued = self._team, unread(member)
        if not ending.stale:
            await member.stands(ending.status, ending.reason)
        if not ending.stale and (member.ending is None or not member.ending.stale):
            dead = await team.mailbox.close(member.name, ending.status)
            await team.board.release_claims(of=member.name)
            _clear_queue(member)
            letters = [each.letter for each in dead]
            await team.post.tell_each(undeliverable(member, (*queued, *letters)))
            if team.lead and team.lead != member.name:
                await team.post.tell(ended_letter(member, ending))
        member.status, member.finished = ending.status, True
        await self._forget(member.info.session)
        team.changed()

    async def _forget(self, session: str) -> None:
        handle = self._handles.pop(session, None)
        if handle is not None:
            await to_thread.run_sync(handle.close)

    async def leave(self) -> None:
        """Members that have not ended are lost to this process: another may take them over."""
        team = self._team
        with anyio.move_on_after(LEAVING_S, shield=True):
            for member in self.members.values():
                if not member.finished:
                    await self._let_go(member)
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()
        team.changed()

    async def _let_go(self, member: Member) -> None:
        team = self._team
        try:
            await team.mailbox.release(member.name, reader=member.reader)
            await team.roster.set_status(
                member.name, "lost", "its team was left", generation=member.generation
            )
        except (StaleMember, UnknownMember):
            return  # it is another's by now


def _clear_queue(member: Member) -> None:
    """What lies in its queues is not worked any more."""
    try:
        member.agent.clear_queue()
    except LogError:
        return  # the log refuses everything, which is why the member ends: that is told


def _session_of(agent: Agent[Any]) -> str:
    """The session of an agent that the host made; empty where it has no log, and has not run yet."""
    log = agent.settings.config.log
    return agent.state.session or (log.session if isinstance(log, SessionLog) else "")


def _of_key(known: Members, key: str) -> MemberInfo | None:
    """The member that the call ``key`` has begun."""
    return next((each for each in known if each.session.endswith(f".{which_session(key)}")), None)


def _next_number(known: Members, name: str) -> str:
    """What tells the session of a member from that of the one that had its name before."""
    last = next((each.session.rpartition(".")[2] for each in known if each.name == name), "0")
    return str(int(last) + 1) if last.isdecimal() else f"{last}.1"


def _free_name(agent: str, known: Members) -> str:
    taken = {each.name for each in known}
    name, number = agent, 1
    while name in taken:
        number += 1
        name = f"{agent}-{number}"
    return name
