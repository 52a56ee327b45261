"""The tools with which a member's model takes part in its team.

A call that runs again after a crash does nothing twice: the ids of its letters follow from session and call.

Read with: ``team.py``, ``post.py``, ``shutdown.py``.
"""

from typing import TYPE_CHECKING, Any, Final

from unspool.kernel.function_tool import FunctionTool, tool
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


def team_tools(team: "Team", name: str, *, spawns: bool = False) -> list[Tool]:
    """The tools of the member ``name``. Who ``spawns``, and the lead, may add members and stop them."""
    tools: list[Tool] = [send_message_tool(team, name), list_members_tool(team, name)]
    if name == LEAD or spawns:
        tools += [spawn_member_tool(team, name), stop_member_tool(team, name)]
    if name != LEAD:
        tools.append(answer_shutdown_tool(team, name))
    return [*tools, *board_tools(team.board, name)]


def send_message_tool(team: "Team", name: str) -> FunctionTool[..., Any]:
    """The tool ``send_message``."""

    @tool(**_TRAITS, activity="sending a message")
    async def send_message(ctx: ToolContext, to: str, text: str, summary: str = "") -> ToolResult:
        """Send a message to a member of your team; it reads it when its turn ends. Do not wait for an answer: end
        your turn, and the answer reaches you as a message.

        Args:
            to: the member's name, or "all" for everybody else
            text: the message
            summary: what it is about, in a few words
        """
        if not text.strip():
            raise TeamError("a message needs a text")
        if to == name:
            raise TeamError("that is you: send messages to others")
        readers = [other for other in await team.names() if other != name] if to == ALL else [to]
        kind = BROADCAST if to == ALL else MESSAGE
        receipts: dict[str, str] = {}
        for reader in readers:
            letter = Letter(
                id=call_letter_id(ctx.session, ctx.call_id, reader),
                sender=name,
                to=reader,
                text=text,
                kind=kind,
                summary=summary,
                sent_at=ctx.clock.time(),
                cause=cause_now(team.member(name), ctx.call_id),
            )
            try:
                await team.post.send(letter)
                receipts[reader] = ""
            except (BoxClosed, BoxFull) as error:
                if to != ALL:
                    raise
                receipts[reader] = str(error)
        return _receipt(receipts)

    return send_message


def _receipt(receipts: dict[str, str]) -> ToolResult:
    sent = [reader for reader, problem in receipts.items() if not problem]
    lines = [f"Sent to {', '.join(sent)}."] if sent else ["Nobody was sent anything."]
    lines += [f"Not sent to {reader}: {problem}" for reader, problem in receipts.items() if problem]
    return ToolResult(content="\n".join(lines), details={"sent": sent})


def list_members_tool(team: "Team", name: str) -> FunctionTool[..., Any]:
    """The tool ``list_members``."""

    @tool(read_only=True, idempotent=True, open_world=False, activity="looking at the team")
    async def list_members() -> str:
        """List the members of your team and how they stand."""
        return "\n".join(_line(each, name) for each in await team.roster.members())

    return list_members


def _line(member: MemberInfo, name: str) -> str:
    marks = [mark for mark, holds in (("you", member.name == name), ("lead", member.role == "lead")) if holds]
    shown = f" ({', '.join(marks)})" if marks else ""
    waits = f", waits for {', '.join(member.waiting_for)}" if member.waiting_for else ""
    what = f": {member.description}" if member.description else ""
    return f"- {member.name}{shown}: {member.status}{waits}{what}"


def spawn_member_tool(team: "Team", name: str) -> FunctionTool[..., Any]:
    """The tool ``spawn_member``."""

    @tool(**_TRAITS, activity="adding a member")
    async def spawn_member(ctx: ToolContext, agent: str, prompt: str, member_name: str = "") -> ToolResult:
        """Add a member to your team and give it work. It works by itself; its last answer reaches you as a message
        when it has nothing left to do.

        Args:
            agent: what kind of agent
            prompt: what it is to do, with everything it needs to know: it has not seen your conversation
            member_name: its name; made from the agent's if left out
        """
        key = call_letter_id(ctx.session, ctx.call_id, "spawn")
        member = await team.spawn_for(name, agent, member_name, prompt, key)
        return ToolResult(
            content=f"{member.name} has joined and begins. End your turn to wait for it.",
            details={"member": member.name, "session": member.agent.state.session},
        )

    return spawn_member


def stop_member_tool(team: "Team", name: str) -> FunctionTool[..., Any]:
    """The tool ``stop_member``."""

    @tool(**{**_TRAITS, "destructive": True}, activity="stopping a member")
    async def stop_member(ctx: ToolContext, member_name: str, reason: str = "", force: bool = False) -> str:
        """Ask a member to stop. It may reject that with a reason, which reaches you as a message.

        Args:
            member_name: who
            reason: why
            force: stop it at once, without asking; its work under way is lost
        """
        if member_name == name:
            raise TeamError("that is you: end your turn instead")
        letter = shutdown_request(
            member_name,
            reason,
            id=call_letter_id(ctx.session, ctx.call_id, member_name),
            sender=name,
            force=force,
            clock=ctx.clock,
            cause=cause_now(team.member(name), ctx.call_id),
        )
        await team.post.send(letter)
        return f"{member_name} is being stopped." if force else f"{member_name} has been asked to stop."

    return stop_member


def answer_shutdown_tool(team: "Team", name: str) -> FunctionTool[..., Any]:
    """The tool ``answer_shutdown``."""

    @tool(name="answer_shutdown", **_TRAITS, activity="answering a request to stop")
    async def answer(ctx: ToolContext, approve: bool, reason: str = "") -> str:
        """Answer a request to stop.

        Args:
            approve: stop when this turn ends; else go on
            reason: why; needed to reject it
        """
        if not approve and not reason.strip():
            raise TeamError("give the reason why you go on")
        return await answer_shutdown(team.member(name), approve, reason, ctx.call_id)

    return answer
