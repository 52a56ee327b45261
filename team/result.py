"""What a team came to, and whether its lead still has to say it.

Read with: ``team.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from unspool.kernel.messages import Usage

from .kinds import REPORTS
from .member import Member, Status
from .roster import LEAD
from .texts import about_letter

if TYPE_CHECKING:
    from .team import Team

EndReason: TypeAlias = Literal[
    "stop", "budget", "deadline", "ping_pong", "deadlock", "stopped", "paused", "failed"
]
"""Why ``Team.run`` came to its end. ``paused``: nothing goes on before a person decides. ``deadlock``: all rest, and
tasks are claimed that nobody works on. ``stopped`` and ``failed`` are ends of the lead, or of the team."""


@dataclass(frozen=True, slots=True)
class MemberResult:
    """How a member stands, with the text of its last answer and what it has used."""

    status: Status
    text: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class TeamResult:
    """What ``Team.run`` came to: the lead's last answer; ``usage`` is that of all ``members`` together."""

    text: str
    end_reason: EndReason
    members: Mapping[str, MemberResult]
    usage: Usage


async def outcome_of(team: "Team") -> TeamResult:
    """What the team has come to by now."""
    members = {
        name: MemberResult(member.status, member.result, member.usage)
        for name, member in sorted(team.members.items())
    }
    lead = members.get(LEAD)
    return TeamResult(
        text=lead.text if lead is not None else "",
        end_reason=await _end_reason(team),
        members=members,
        usage=sum(team.usages(), Usage()),
    )


async def _end_reason(team: "Team") -> EndReason:
    lead = team.members.get(LEAD)
    if team.end_reason is not None:
        return team.end_reason
    if lead is not None and lead.finished:
        return "failed" if lead.status == "failed" else "stopped"
    if team.pending():
        return "paused"
    if lead is not None and lead.failures:
        return "failed"
    if team.post.ping_pong:
        return "ping_pong"
    return "deadlock" if await team.board.list({"claimed"}) else "stop"


def owes_answer(team: "Team", lead: Member) -> bool:
    """Whether the lead can, and should, still sum up what members have reported."""
    may = not team.over and not lead.finished and not lead.pending and not lead.failures
    return may and has_unanswered_reports(lead)


def has_unanswered_reports(lead: Member) -> bool:
    """Whether members have reported since the lead's last answer, or reports wait in its queues."""
    state = lead.agent.state
    queued = (*state.steering, *state.follow_ups)
    if any(about_letter(each.message).get("kind") in REPORTS for each in queued):
        return True
    for message in reversed(state.messages):
        if message.role == "assistant" and message.text.strip() and not message.has_tool_calls:
            return False
        if about_letter(message).get("kind") in REPORTS:
            return True
    return False
