"""Who takes part in a pattern, what each is asked, and what each has used.

1. A question is a letter of the host, and the answer the last text of the runs that follow from it until the member
   rests. Whatever else comes of it is an ``Answer``, too, with its reason.
2. Who joined for the pattern leaves with it. Where the pattern is cut short, what it asked for is aborted, and what it
   asked for and nobody has read yet is aborted as soon as it is read.
3. A pattern decides nothing for a person: a call that waits for one ends the question (``paused``).

Read with: ``pattern_flows.py``, ``pattern_talks.py``, ``pattern_vote.py``, ``pattern_orchestrate.py``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

import anyio

from unspool.kernel.agent import Agent
from unspool.kernel.errors import describe
from unspool.kernel.events import AgentEnd, AgentStart, ErrorEvent, Event, MessageEnd
from unspool.kernel.messages import NO_USAGE, Message, Usage
from unspool.subagent.definition import AgentDefinition, find

from .errors import NameTaken, TeamError, UnknownMember
from .ids import host_letter_id
from .kinds import HOST
from .letters import Letter
from .member import Ending, Member
from .result import EndReason
from .texts import about_letter

if TYPE_CHECKING:
    from .team import Team

Who: TypeAlias = "str | AgentDefinition"
"""A member of the team by its name, one of the team's definitions by its name, or a definition. A definition joins as
a new member and is stopped when the pattern ends."""
PatternEnd: TypeAlias = "Literal['stop', 'rounds', 'failed', 'incomplete'] | EndReason"
"""Why a pattern ended. ``stop``: it is done. ``rounds``: it has had all its rounds. ``failed``: somebody whom it cannot do
without has failed. ``incomplete``: it is done, but something is missing; see the failures. Or why the team ended."""

_NAME: Final = 56  # characters of a definition's name in that of a member, with room for a number
_WAITS: Final = "paused"
_UNREAD: Final = "undelivered"
_LAST: Final = frozenset({_WAITS, _UNREAD, "lost", "stopped", "failed", *get_args(EndReason)} - {"stop"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question to a member.

    ``end_reason`` is that of its run (``stop``: it has answered); ``undelivered`` where it has not read it, ``lost``
    where its team was left, or why the team ended. ``usage`` is what it has used meanwhile.
    """

    name: str
    text: str
    end_reason: str
    error: str = ""
    usage: Usage = NO_USAGE

    @property
    def ok(self) -> bool:
        """Whether it has answered."""
        return self.end_reason == "stop"

    @property
    def is_last(self) -> bool:
        """Whether asking it again would come to nothing, as far as can be known."""
        return self.end_reason in _LAST


Answers: TypeAlias = Sequence[Answer]


@dataclass(frozen=True, slots=True)
class Spent:
    """What those who took part have used in the pattern, by their names in the team."""

    by_member: Mapping[str, Usage]

    @property
    def total(self) -> Usage:
        return sum(self.by_member.values(), NO_USAGE)


class Cast:
    """Those who take part: ``async with Cast(team) as cast``."""

    def __init__(self, team: "Team") -> None:
        self.team = team
        self._before: dict[Member, Usage] = {}
        self._joined: list[Member] = []
        self._asked: list[_Asked] = []
        self._numbers: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        for asked in self._asked:
            asked.call_off()
        for member in self._joined:
            member.stop(Ending("stopped", "the pattern it joined for is over"), now=error is not None)
        if error is None or isinstance(error, Exception):
            for member in self._joined:
                await self._gone(member)
        with anyio.CancelScope(shield=True):  # bounded: a run that was aborted ends
            for member in (*self._joined, *(asked.member for asked in self._asked if asked.began)):
                await member.agent.wait_idle()

    # --- who ------------------------------------------------------------------------------------

    async def name_of(self, who: Who) -> str:
        """The name of one who takes part; a definition joins.

        Raises:
            UnknownAgent: there is no member and no definition of that name.
            TeamError: the team is full, or the definition names no model.
        """
        if isinstance(who, str):
            member = self.team.members.get(who)
            defined = any(each.name == who for each in self.team.definitions)
            if member is not None and not (member.finished and defined):
                self._before.setdefault(member, member.usage)
                return who
        member = await self._join(self.definition(who))
        self._before[member] = NO_USAGE
        return member.name

    def definition(self, who: Who) -> AgentDefinition:
        """The definition by which somebody would join; raises ``UnknownAgent``."""
        return find(self.team.definitions, who) if isinstance(who, str) else who

    async def names_of(self, all: Sequence[Who]) -> list[str]:
        """``name_of``, one after another.

        Raises:
            ValueError: one takes part twice.
        """
        names = [await self.name_of(who) for who in all]
        if len(set(names)) < len(names):
            raise ValueError(f"pattern: one member takes part twice (names={names!r})")
        return names

    async def _join(self, definition: AgentDefinition) -> Member:
        base = definition.name.lower()[:_NAME]
        while True:
            self._numbers[base] += 1
            number = self._numbers[base]
            try:
                member = await self.team.add(definition, name=base if number == 1 else f"{base}-{number}")
            except NameTaken:
                continue
            self._joined.append(member)
            return member

    async def dismiss(self, name: str) -> None:
        """Stop one that joined for the pattern, now that it has done its part."""
        member = self.team.member(name)
        if member in self._joined:
            member.stop(Ending("stopped", "it has done its part"), now=False)
            await self._gone(member)
            self._joined.remove(member)

    async def _gone(self, member: Member) -> None:
        async def gone() -> bool:
            return member.finished or await _is_lost(member)

        await self.team.wait_for(gone)

    # --- what -----------------------------------------------------------------------------------

    async def ask(self, name: str, text: str) -> Answer:
        """Ask a member, once it rests, and wait for what comes of it."""
        member, team = self.team.member(name), self.team
        asked = _Asked(team, member, text)
        await team.wait_for(asked.may_begin)
        before = member.usage
        if hindrance := asked.hindrance():
            return Answer(name, "", hindrance, "it was not asked")
        asked.listen()
        self._asked.append(asked)
        try:
            await team.post.send(asked.letter, wait_s=None)
        except TeamError as error:
            asked.close()
            self._asked.remove(asked)
            return Answer(name, "", _UNREAD, describe(error))
        await team.wait_for(asked.is_over)
        asked.close()
        self._asked.remove(asked)
        return Answer(name, asked.text, asked.outcome(), asked.error, member.usage - before)

    def spent(self) -> Spent:
        """What everybody has used since the pattern began, those that have left included."""
        used: dict[str, Usage] = {}
        for member, before in self._before.items():
            used[member.name] = used.get(member.name, NO_USAGE) + (member.usage - before)
        return Spent(used)

    def end_reason(self, own: PatternEnd) -> PatternEnd:
        """Why the pattern ended: the team's reason, where that has come to its end."""
        return self.team.end_reason or own


class _Asked:
    """A question, and what has been heard of it."""

    def __init__(self, team: "Team", member: Member, text: str) -> None:
        self._team, self.member = team, member
        self.letter = Letter(
            id=host_letter_id(), sender=HOST, to=member.name, text=text, sent_at=team.clock.time()
        )
        self.began = False  # the member has read it
        self.text = self.error = ""
        self._end = ""
        self._off = self._lost = False
        self.close: Callable[[], None] = _nothing  # stop listening

    @property
    def _agent(self) -> Agent[Any]:
        return self.member.agent

    def listen(self) -> None:
        self.close = self._agent.subscribe(self._hear)

    def call_off(self) -> None:
        """Have nothing come of it any more, now or once it is read."""
        self._off = True
        if self.began and self._agent.running:
            self._agent.abort(marker=False, reason="the pattern was cut short")

    def _hear(self, event: Event) -> None:
        match event:
            case MessageEnd(message=Message() as message) if (
                about_letter(message).get("id") == self.letter.id
            ):
                self.began = True
                if self._off:
                    self.call_off()
            case _ if not self.began:
                return
            case AgentStart():
                self.error = ""
            case MessageEnd(message=Message(role="assistant") as message) if message.text.strip():
                self.text = message.text
            case ErrorEvent(fatal=True):
                self.error = f"{event.kind}: {event.message}"
            case AgentEnd():
                self._end = event.reason
                if self._off:
                    self.close()

    async def may_begin(self) -> bool:
        """Whether the member rests, or nothing more can be expected of it."""
        if self.member.settled or self._lost:
            return True
        if not self._agent.running and not self.member.parked:
            self._lost = await _is_lost(self.member)
        return self._lost

    async def is_over(self) -> bool:
        """Whether nothing more can come of the question."""
        if not await self.may_begin():
            return False
        read = self.letter.id in self.member.seen and not self.member.has_input
        return read or bool(self.hindrance())

    def hindrance(self) -> str:
        """Why the member answers nothing now; empty where it may."""
        if self._lost:
            return "lost"
        if self.member.finished:
            return self.member.status
        return self._team.end_reason or (_WAITS if self.member.pending else "")

    def outcome(self) -> str:
        """Why it ended, once it is over."""
        if self._end == "stop" and not self.member.pending:
            return "stop"
        return self.hindrance() or self._end or _UNREAD


def _nothing() -> None: ...


async def _is_lost(member: Member) -> bool:
    """Whether its team was left, and nobody runs it any more."""
    try:
        info = await member.team.roster.get(member.name)
    except UnknownMember:
        return True
    return info.status == "lost" or info.generation != member.generation
