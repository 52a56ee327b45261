"""A process that runs one member of a team on files, which its test kills: ``team_host.py FOLDER NAME COUNT``.

``ann`` reports each task that she is sent to ``lead``; the process of ``lead`` ends when all reports are in.
"""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from unspool.kernel import Message
from unspool.kernel.events import MessageEnd
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent, TextDelta, ToolCallDelta, ToolCallEnd
from unspool.subagent import AgentDefinition
from unspool.team.errors import UnknownMember
from unspool.team.sqlite_mailbox import SqliteMailbox
from unspool.team.sqlite_roster import SqliteRoster
from unspool.team.team import Team
from unspool.trajectory import JsonlSessions


class Reporter:
    """Sends the lead one report for each new message, then says so."""

    name = "test/reporter"
    supports_tools = True

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        new: list[Message] = []
        for message in reversed(request.messages):
            if message.role != "user":
                break
            new.insert(0, message)
        for index, message in enumerate(new):
            number = message.text.split()[-1]
            args = f'{{"to": "lead", "text": "report {number}"}}'
            yield ToolCallDelta(index, f"c{number}", "send_message", args)
            yield ToolCallEnd(index)
            print("asked", number, flush=True)
        if not new:
            yield TextDelta("reported")
        yield StreamEnd(stop_reason="tool_use" if new else "stop")


class Listener:
    name = "test/listener"
    supports_tools = True

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        print("heard", sum(message.role == "user" for message in request.messages), flush=True)
        yield TextDelta("noted")
        yield StreamEnd(stop_reason="stop")


async def main() -> None:
    folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    model = Reporter() if name == "ann" else Listener()
    definition = AgentDefinition(name=name, model=model)
    mailbox = SqliteMailbox(folder / "mailbox.db", poll_s=0.01)
    roster = SqliteRoster(folder / "roster.db")
    sessions = JsonlSessions(folder / "logs")
    try:
        async with Team(
            mailbox=mailbox, roster=roster, sessions=sessions, definitions=[definition], notices="none"
        ) as team:
            try:
                member = await team.join(name)
            except UnknownMember:
                member = await team.add(definition)
            print("up", member.generation, flush=True)

            async def all_is_in() -> bool:
                facts = [fact for fact in sessions.facts(member.info.session) if isinstance(fact, MessageEnd)]
                reports = sum(fact.message is not None and "report" in fact.message.text for fact in facts)
                return name == "lead" and reports >= count and member.status == "resting"

            await team.wait_for(all_is_in)
            print("over", count, flush=True)
    finally:
        await mailbox.aclose()
        await roster.aclose()
        sessions.close()


anyio.run(main)
