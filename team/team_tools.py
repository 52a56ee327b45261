"""The tools with which a member's model takes part in its team.

A call that runs again after a crash does nothing twice: the ids of its letters follow from session and call.

Read with: ``team.py``, ``post.py``, ``shutdown.py``.
"""

from typing import TYPE_CHECKING, Any, Final

from unspool.kernel.function_tool import tool
from unspool.kernel.ports import Tool, ToolContext, ToolResult

from .board_tools import board_tools
from .errors import BoxClosed, BoxFull, TeamError
from .ids import call_letter_id
from .kinds import ALL, BROADCAST, MESSAGE
from .letters import Letter
from .member_letters import cause_now
from .roster import LEAD, MemberInfo
from .shutdown import answer_shutdown, shutdown_request

if TYPE_CHECKING:
    from .team import Team

_TRAITS: Final[dict[str, Any]] = {
    "read_only": False,
    "destructive": False,
    "idempotent": True,
    "open_world": False,
    "concurrency_safe": False,  # what one turn does to the team happens in the order of its calls
}
_STOPPING: Final[dict[str, Any]] = {**_TRAITS, "destructive": True}


def team_tools(team: "Team", name: str, *, spawns: bool = False) -> list[Tool]:
    """The tools of the member ``name``. Who ``spawns``, and the lead, may add members and stop them."""
    own = _TeamTools(team, name)
    tools: list[Tool] = [own.send_message, own.list_members]
    if name == LEAD or spawns:
        tools += [own.spawn_member, own.stop_member]
    if name != LEAD:
        tools.append(own.answer_shutdown)
    return [*tools, *board_tools(team.board, name)]


class _TeamTools:
    """The tools as one member has them: what they say to a model is made once, for all members."""

    def __init__(self, team: "Team", name: str) -> None:
        self._team, self._name = team, name

    @tool(**_TRAITS, activity="sending a message")
    async def send_message(self, ctx: ToolContext, to: str, text: str, summary: str = "") -> ToolResult:
        """Send a message to a member of your team; it reads it when its turn ends. Do not wait for an answer: end
        your turn, and the answer reaches you as a message.

        Args:
            to: the member's name, or "all" for everybody else
            text: the message
            summary: what it is about, in a few words
        """
        if not text.strip():
            raise TeamError("a message needs a text")
        if to == self._name:
            raise TeamError("that is you: send messages to others")
        readers = [other for other in await self._team.names() if other != self._name] if to == ALL else [to]
        kind = BROADCAST if to == ALL else MESSAGE
        receipts: dict[str, str] = {}
        for reader in readers:
            letter = Letter(
                id=call_letter_id(ctx.session, ctx.call_id, reader),
                sender=self._name,
                to=reader,
                text=text,
                kind=kind,
                summary=summary,
                sent_at=ctx.clock.time(),
                cause=cause_now(self._team.member(self._name), ctx.call_id),
            )
            try:
                await self._team.post.send(letter)
                receipts[reader] = ""
            except (BoxClosed, BoxFull) as error:
                if to != ALL:
                    raise
                receipts[reader] = str(error)
        return _receipt(receipts)

    @tool(read_only=True, idempotent=True, open_world=False, activity="looking at the team")
    async def list_members(self) -> str:
        """List the members of your team and how they stand."""
        return "\n".join(_line(each, self._name) for each in await self._team.roster.members())

    @tool(**_TRAITS, activity="adding a member")
    async def spawn_member(
        self, ctx: ToolContext, agent: str, prompt: str, member_name: str = ""
    ) -> ToolResult:
        """Add a member to your team and give it work. It works by itself; its last answer reaches you as a message
        when it has nothing left to do.

        Args:
            agent: what kind of agent
            prompt: what it is to do, with everything it needs to know: it has not seen your conversation
            member_name: its name; made from the agent's if left out
        """
        key = call_letter_id(ctx.session, ctx.call_id, "spawn")
        member = await self._team.spawn_for(self._name, agent, member_name, prompt, key)
        return ToolResult(
            content=f"{member.name} has joined and begins. End your turn to wait for it.",
            details={"member": member.name, "session": member.agent.state.session},
        )

    @tool(**_STOPPING, activity="stopping a member")
    async def stop_member(
        self, ctx: ToolContext, member_name: str, reason: str = "", force: bool = False
    ) -> str:
        """Ask a member to stop. It may reject that with a reason, which reaches you as a message.

        Args:
            member_name: who
            reason: why
            force: stop it at once, without asking; its work under way is lost
        """
        if member_name == self._name:
            raise TeamError("that is you: end your turn instead")
        letter = shutdown_request(
            member_name,
            reason,
            id=call_letter_id(ctx.session, ctx.call_id, member_name),
            sender=self._name,
            force=force,
            clock=ctx.clock,
            cause=cause_now(self._team.member(self._name), ctx.call_id),
        )
        await self._team.post.send(letter)
        return f"{member_name} is being stopped." if force else f"{member_name} has been asked to stop."

    @tool(**_TRAITS, activity="answering a request to stop")
    async def answer_shutdown(self, ctx: ToolContext, approve: bool, reason: str = "") -> str:
        """Answer a request to stop.

        Args:
            approve: stop when this turn ends; else go on
            reason: why; needed to reject it
        """
        if not approve and not reason.strip():
            raise TeamError("give the reason why you go on")
        return await answer_shutdown(self._team.member(self._name), approve, reason, ctx.call_id)


def _receipt(receipts: dict[str, str]) -> ToolResult:
    sent = [reader for reader, problem in receipts.items() if not problem]
    lines = [f"Sent to {', '.join(sent)}."] if sent else ["Nobody was sent anything."]
    lines += [f"Not sent to {reader}: {problem}" for reader, problem in receipts.items() if problem]
    return ToolResult(content="\n".join(lines), details={"sent": sent})


def _line(member: MemberInfo, name: str) -> str:
    marks = [mark for mark, holds in (("you", member.name == name), ("lead", member.role == "lead")) if holds]
    shown = f" ({', '.join(marks)})" if marks else ""
    waits = f", waits for {', '.join(member.waiting_for)}" if member.waiting_for else ""
    what = f": {member.description}" if member.description else ""
    return f"- {member.name}{shown}: {member.status}{waits}{what}"
