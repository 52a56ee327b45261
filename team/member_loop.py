"""What a member does: take letters in, run on what is queued, claim a task, rest, end.

One task takes letters in, another runs; they meet in the session's queues and under ``letters_lock``.

Read with: ``member.py`` (the rules), ``member_letters.py`` (what is told about a run).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from unspool.kernel.errors import AgentError, CodecError, LogError, describe
from unspool.kernel.state import AgentState
from unspool.kernel.stream import RunResult

from .errors import BoxClosed, UnknownMember
from .kinds import HOST, SHUTDOWN_REQUEST
from .letters import Delivery, Letter
from .member import Ending, Member
from .member_letters import error_letter, idle_letter
from .roster import LEAD
from .texts import letter_message


async def run_member(member: Member) -> None:
    """Live until the member ends; a cancellation leaves it as it is, for whoever goes on with it."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_take_letters, member)
            await _work(member)
            tasks.cancel_scope.cancel()
    finally:
        if member.stop_timer is not None:
            member.stop_timer()
    assert member.ending is not None  # _work returns for that only
    await member.team.end(member, member.ending)


# --- letters -------------------------------------------------------------------------------------


async def _take_letters(member: Member) -> None:
    mailbox, released = member.team.mailbox, False
    while True:
        try:
            if not released:
                await mailbox.release(member.name, reader=member.reader)  # out to one that died
                released = True
            found = await mailbox.receive(member.name, wait_s=None, reader=member.reader)
            await _take_in(member, found)
        except (BoxClosed, UnknownMember):
            member.stop(Ending("stopped", "its box was closed"), now=False)
            return
        except LogError as error:
            member.stop(Ending("failed", describe(error)), now=True)
            return


async def _take_in(member: Member, found: Sequence[Delivery]) -> None:
    """Put letters into the session, those of the lead and the host first; then they are dealt with."""
    team = member.team
    first = (LEAD, HOST)
    letters = [each.letter for each in found if each.letter.id not in member.seen]
    for letter in sorted(letters, key=lambda letter: letter.sender not in first):
        member.seen.add(letter.id)
        if letter.kind == SHUTDOWN_REQUEST and not _asked_to_stop(member, letter):
            continue
        try:
            _deliver(member, letter)
        except (ValueError, CodecError) as error:
            await team.mailbox.refuse(member.name, [letter.id], reason=describe(error))
    log = member.agent.settings.config.log
    if log is not None:
        await log.flush()
    async with member.letters_lock:
        await team.mailbox.acknowledge(member.name, [each.letter.id for each in found])
        member.wake()


def _deliver(member: Member, letter: Letter) -> None:
    message = letter_message(letter, member.team.format_letter)
    agent = member.agent
    if member.team.deliver == "steer" if agent.running else _has_failed(agent.state):
        agent.steer(message)
    else:
        agent.follow_up(message)


def _has_failed(state: AgentState) -> bool:
    """Whether a run has ended without an answer: it is asked for again with the letter, not before it. One that was
    cut off goes on first: a letter that steers it would skip its open calls."""
    return not state.active and state.turn is None and state.tail in ("user", "tool")


def _asked_to_stop(member: Member, letter: Letter) -> bool:
    """Begin to wait for the answer; whether the model is to be asked at all."""
    asker = letter.sender
    if letter.data.get("force"):
        member.stop(Ending("stopped", f"stopped by {asker}"), now=True)
        return False
    ending = Ending("stopped", f"stopped by {asker}: it did not answer in time")
    grace_s = float(letter.data.get("grace_s", 30.0))
    if member.stop_timer is None:
        member.stop_timer = member.team.clock.call_later(grace_s, lambda: member.stop(ending, now=True))
    return True


# --- work ----------------------------------------------------------------------------------------


async def _work(member: Member) -> None:
    """Run until an ending is set."""
    agent = member.agent
    if _was_cut_short(member):
        await _run(member, agent.continue_)
    while member.ending is None:
        if member.pending:
            await _with_decisions(member)
        elif member.has_input and not member.team.over:
            await _run(member, agent.continue_)
        else:
            await _settle(member)


def _was_cut_short(member: Member) -> bool:
    """Whether its process ended in mid-run."""
    state = member.agent.state
    cut = state.active or state.end_reason == "aborted"
    return cut and not member.pending and member.agent.can_continue


async def _with_decisions(member: Member) -> None:
    decisions, member.decisions = member.decisions, None
    if decisions is None:
        await member.stands("waiting")
        await member.news()
    else:
        await _run(member, lambda: member.agent.resume(decisions))


async def _run(member: Member, go: Callable[[], Awaitable[RunResult[Any]]]) -> None:
    """One run in a slot of the team, and what follows from its end."""
    team = member.team
    async with team.slots:
        await member.agent.wait_idle()  # the host may run it, too
        await member.stands("working")
        if member.ending is not None or team.over:
            return
        try:
            result = await go()
        except LogError as error:
            member.stop(Ending("failed", describe(error)), now=False)
            return
        except AgentError as error:
            await _failed(member, type(error).__name__, describe(error))
            return
    if result.end_reason in ("error", "stop_guard"):
        await _failed(member, result.error_kind or result.end_reason, result.error)
    else:
        member.failures = 0


async def _failed(member: Member, kind: str, text: str) -> None:
    """Tell the lead; after too many failures in a row the member ends."""
    member.failures += 1
    member.told_run = member.agent.state.run_id
    await member.team.post.tell(error_letter(member, kind, text))
    if member.failures >= member.team.max_failures:
        member.stop(Ending("failed", f"{member.failures} runs in a row failed: {kind}"), now=False)


async def _settle(member: Member) -> None:
    """Nothing is queued: claim a task, or rest; then wait for news."""
    if member.claims and not member.team.over and await _box_is_empty(member):
        claimed = await member.team.claim(member)
        if claimed is not None and await member.team.mailbox.send(claimed, wait_s=None):
            await member.news()
            return
    async with member.letters_lock:
        if member.ending is not None or (member.has_input and not member.team.over):
            return
        notice = idle_letter(member)
        try:
            rests = await member.team.mailbox.rest(member.name, notice)
        except (BoxClosed, UnknownMember):
            member.stop(Ending("stopped", "its box was closed"), now=False)
            return
    if rests:
        member.told_run = member.agent.state.run_id
        await member.stands("resting")
    await member.news()


async def _box_is_empty(member: Member) -> bool:
    boxes = await member.team.mailbox.boxes()
    return not any(box.name == member.name and (box.waiting or box.out) for box in boxes)
