"""How a member is asked to stop, answers, or is stopped.

The request is a letter, so that the asker may be in another process. The reader's process waits for the answer of the
model, for the grace time that the letter names (see ``member_loop.py``).

Read with: ``member.py``, ``team_tools.py`` (``answer_shutdown``).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unspool.kernel.ports import Clock

from .errors import TeamError
from .ids import host_letter_id, notice_id
from .kinds import HOST, SHUTDOWN_APPROVED, SHUTDOWN_REJECTED, SHUTDOWN_REQUEST
from .letters import Cause, Letter
from .member import Ending, Member
from .member_letters import cause_now
from .texts import about_letter

if TYPE_CHECKING:
    from .team import Team


@dataclass(frozen=True, slots=True)
class ShutdownAnswer:
    """What came of a request to stop. ``reason`` is why it was rejected, or how the member ended."""

    stopped: bool
    reason: str = ""


def shutdown_request(
    to: str,
    reason: str,
    *,
    id: str,
    sender: str = HOST,
    force: bool = False,
    grace_s: float = 30.0,
    clock: Clock,
    cause: Cause | None = None,
) -> Letter:
    """The letter that asks a member to stop."""
    return Letter(
        id=id,
        sender=sender,
        to=to,
        text=reason or "Please stop.",
        kind=SHUTDOWN_REQUEST,
        sent_at=clock.time(),
        cause=cause,
        data={"force": force, "grace_s": grace_s},
    )


async def answer_shutdown(member: Member, approve: bool, reason: str, call_id: str) -> str:
    """The answer of a member's model to whoever asked last; what its model is told.

    Raises:
        TeamError: nobody has asked.
    """
    asked = next(
        (about for each in reversed(member.agent.state.messages) if _asks(about := about_letter(each))), None
    )
    if asked is None:
        raise TeamError("nobody has asked you to stop")
    asker = str(asked["sender"])
    letter = Letter(
        id=notice_id(str(asked["id"]), SHUTDOWN_APPROVED if approve else SHUTDOWN_REJECTED, call_id),
        sender=member.name,
        to=asker,
        text=reason,
        kind=SHUTDOWN_APPROVED if approve else SHUTDOWN_REJECTED,
        reply_to=str(asked["id"]),
        sent_at=member.team.clock.time(),
        cause=cause_now(member, call_id),
    )
    await member.team.post.tell(letter)
    if member.stop_timer is not None:
        member.stop_timer()
        member.stop_timer = None
    if approve:
        member.stop(Ending("stopped", reason or f"{asker} asked it to stop"), now=False)
        return "You stop when this turn ends."
    member.rejections += 1
    member.rejection = reason
    member.team.changed()
    return f"{asker} has been told that you go on."


async def ask_to_stop(
    team: "Team", member: Member, reason: str, *, force: bool, grace_s: float
) -> ShutdownAnswer:
    """Ask as the host, and wait until the member has answered or ended."""
    before, id = member.rejections, host_letter_id()
    await team.post.send(
        shutdown_request(member.name, reason, id=id, force=force, grace_s=grace_s, clock=team.clock)
    )

    async def answered() -> bool:
        return member.finished or member.rejections > before

    await team.wait_for(answered)
    if member.finished:
        return ShutdownAnswer(True, member.ending.reason if member.ending else "")
    return ShutdownAnswer(False, member.rejection)


async def stop_all(team: "Team", timeout_s: float) -> None:
    """End all members of this process; runs that are still under way after so many seconds are aborted."""
    members = [member for member in team.members.values() if not member.finished]
    for member in members:
        member.stop(Ending("stopped", "the team was shut down"), now=False)

    def abort() -> None:
        for member in members:
            member.stop(Ending("stopped"), now=True)

    async def ended() -> bool:
        return all(member.finished for member in members)

    stop_timer = team.clock.call_later(timeout_s, abort)
    try:
        await team.wait_for(ended)
    finally:
        stop_timer()


def _asks(about: dict[str, object]) -> bool:
    return about.get("kind") == SHUTDOWN_REQUEST
