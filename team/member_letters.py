"""What the lead is told about a member: its last answer when it rests, an error, its end.

Their ids follow from the session and the run, so that a process that goes on for one that died tells nothing twice.

Read with: ``member_loop.py``.
"""

from collections.abc import Iterable

from unspool.kernel.events import Fact, MessageEnd, QueueChanged

from .ids import notice_id
from .kinds import ENDED, ERROR, FROM_TEAM, HOST, IDLE, TASK, UNDELIVERABLE
from .letters import Cause, Letter
from .member import Ending, Member
from .texts import about_letter


def _session(member: Member) -> str:
    return member.agent.state.session or member.info.session


def cause_now(member: Member, call_id: str = "") -> Cause:
    """The newest fact of the member's session."""
    return Cause(session=_session(member), seq=member.agent.state.seq, call_id=call_id)


def idle_letter(member: Member) -> Letter | None:
    """What the lead gets when the member rests; None where it was told of the last run, or does not want to be."""
    state, team = member.agent.state, member.team
    if not team.lead or team.lead == member.name or team.notices == "none":
        return None
    if not state.run_id or state.run_id == member.told_run:
        return None
    return Letter(
        id=notice_id(_session(member), IDLE, state.run_id),
        sender=member.name,
        to=team.lead,
        text=member.result,
        kind=IDLE,
        sent_at=team.clock.time(),
        cause=cause_now(member),
        data={"end_reason": state.end_reason},
    )


def error_letter(member: Member, kind: str, text: str) -> Letter:
    """What the lead gets when a run failed."""
    said = f"\nIts last answer was:\n{member.result}" if member.result else ""
    return Letter(
        id=notice_id(_session(member), ERROR, f"{member.agent.state.run_id}.{member.failures}"),
        sender=member.name,
        to=member.team.lead,
        text=f"A run failed: {kind}: {text}{said}",
        kind=ERROR,
        sent_at=member.team.clock.time(),
        cause=cause_now(member),
        data={"error_kind": kind, "failures": member.failures},
    )


def ended_letter(member: Member, ending: Ending) -> Letter:
    """What the lead gets when the member has ended."""
    reason = f": {ending.reason}" if ending.reason else ""
    return Letter(
        id=notice_id(_session(member), ENDED, str(member.generation)),
        sender=member.name,
        to=member.team.lead,
        text=f"{member.name} has {ending.status}{reason}.",
        kind=ENDED,
        sent_at=member.team.clock.time(),
        cause=cause_now(member),
        data={"status": ending.status, "reason": ending.reason},
    )


def undeliverable(member: Member, letters: Iterable[Letter]) -> list[Letter]:
    """What the senders of these letters get: the member has ended without reading them."""
    skipped = {*FROM_TEAM, TASK}
    return [
        Letter(
            id=notice_id(letter.id, UNDELIVERABLE, member.name),
            sender=member.name,
            to=letter.sender,
            text=f"{member.name} has ended and has not read your message: {_shown(letter)}",
            kind=UNDELIVERABLE,
            reply_to=letter.id,
            sent_at=member.team.clock.time(),
        )
        for letter in letters
        if letter.kind not in skipped and letter.sender not in (HOST, member.name)
    ]


def unread(member: Member) -> list[Letter]:
    """The letters that lie in the member's queues, without their texts."""
    state = member.agent.state
    queued = (*state.prompts, *state.steering, *state.follow_ups)
    found = [about for each in queued if (about := about_letter(each.message))]
    return [
        Letter(
            id=str(about["id"]),
            sender=str(about["sender"]),
            to=member.name,
            kind=str(about["kind"]),
            text=about.get("summary", ""),
        )
        for about in found
    ]


def letters_in_log(facts: Iterable[Fact]) -> frozenset[str]:
    """The ids of all letters that a session has ever held."""
    messages = (fact.message for fact in facts if isinstance(fact, QueueChanged | MessageEnd))
    return frozenset(str(about["id"]) for each in messages if (about := about_letter(each)))


def _shown(letter: Letter) -> str:
    text = letter.summary or letter.text
    return text if len(text) <= 200 else f"{text[:200]}…"
