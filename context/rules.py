"""What every rewrite of a view must keep, whichever strategy wants it.

The newest user message stays as it is, system messages too; a call stays with its result; the turn under way
keeps its messages; what is left ends as it ended. A rewrite that breaks a rule is not applied.

Read with: ``engine.py`` (the caller), ``work.py`` (``Work.tail``).
"""

from collections import Counter
from collections.abc import Sequence

from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import Edit

from .marks import kind_of


def tail_of(view: Sequence[AgentMessage]) -> int:
    """Where the turn under way begins: the last reply that calls tools with all that follows, or the last message."""
    for at in range(len(view) - 1, -1, -1):
        message = view[at]
        if message.role == "tool":
            continue
        if message.role == "assistant" and message.has_tool_calls:
            return at
        break
    return max(0, len(view) - 1)


def newest_user(view: Sequence[AgentMessage]) -> int:
    """The index of the newest message by a user, which stands for no others; -1 where there is none."""
    for at in range(len(view) - 1, -1, -1):
        message = view[at]
        if message.role == "user" and kind_of(message) not in ("summary", "dropped") and _is_said(message):
            return at
    return -1


def _is_said(message: AgentMessage) -> bool:
    """Whether the model is sent the message; notes of an application may be for people only."""
    return isinstance(message, Message) or message.to_message() is not None


def broken_rule(
    before: Sequence[AgentMessage], after: Sequence[AgentMessage], *, tail: int, newest: int
) -> str:
    """Which rule a rewrite of ``before`` breaks, in words; empty where it keeps them all.

    ``tail`` and ``newest`` are the indexes of ``before`` where its last turn begins and where its newest user message is.
    """
    if not after:
        return "it leaves nothing"
    held = {id(message) for message in after}
    if newest >= 0 and id(before[newest]) not in held:
        return "it takes the newest user message away"
    if any(message.role == "system" and id(message) not in held for message in before):
        return "it takes a system message away"
    shorter = len(after) < len(before) - tail
    if shorter or any(
        (old.role, getattr(old, "tool_call_id", "")) != (new.role, getattr(new, "tool_call_id", ""))
        for old, new in zip(reversed(before[tail:]), reversed(after), strict=False)
    ):
        return "it takes messages of the turn under way away"
    return _separated(before, after)


def _separated(before: Sequence[AgentMessage], after: Sequence[AgentMessage]) -> str:
    """Which call or result has lost its counterpart; ids may have been used again, so they are counted."""
    open_before, alone_before = _unpaired(before)
    open_after, alone_after = _unpaired(after)
    if lost := open_after - open_before:
        return f"it separates calls from their results ({', '.join(sorted(lost)[:3])})"
    if lost := alone_after - alone_before:
        return f"it separates results from their calls ({', '.join(sorted(lost)[:3])})"
    return ""


def _unpaired(view: Sequence[AgentMessage]) -> tuple[Counter[str], Counter[str]]:
    """How often each id is that of a call without a result, and of a result without a call."""
    calls: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for message in view:
        lowered = message.to_message()
        if lowered is None:
            continue
        if lowered.role != "tool":
            calls.update([call.id for call in lowered.tool_calls])
        elif calls[lowered.tool_call_id] > 0:
            calls[lowered.tool_call_id] -= 1
        else:
            alone[lowered.tool_call_id] += 1
    return +calls, alone


def edits_between(before: Sequence[AgentMessage], after: Sequence[AgentMessage]) -> list[Edit]:
    """The edits that make ``after`` of ``before``: messages that are the very same, in order, stay."""
    places = {id(message): at for at, message in enumerate(before)}
    edits: list[Edit] = []
    new: list[AgentMessage] = []
    at = 0
    for message in after:
        place = places.get(id(message), -1)
        if place < at:  # new, or out of order
            new.append(message)
            continue
        if new or place > at:
            edits.append(Edit(start=at, stop=place, messages=tuple(new)))
            new = []
        at = place + 1
    if new or at < len(before):
        edits.append(Edit(start=at, stop=len(before), messages=tuple(new)))
    return edits
