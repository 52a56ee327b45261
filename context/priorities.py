"""Messages of the application make themselves smaller.

Read with: ``unspool.kernel.messages`` (``AgentMessage.compact``).
"""

from collections.abc import Sequence
from typing import Final

from unspool.kernel.errors import describe
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import Edit

from .work import Rewrite, Work

_LEAST: Final = 0.1  # of its full size: no message is asked for less


class ReduceByPriority:
    """Asks application messages for smaller forms of themselves, until the target is reached.

    Those of the lowest ``priority`` first, the oldest first among equals, each as far as the target needs and
    down to a tenth of its full size, so that the next higher priority is only asked once all below have given
    what they can. A form is taken if the model is sent less of the same: same role, same calls, not nothing.
    Its ``raw()`` is what the application gives, as a rule the full message. Plain messages have one form;
    those of the turn under way and the newest user message are not asked.
    """

    name = "priority"

    def __init__(self, *, commits: bool = True) -> None:
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        excess = work.budget.excess
        edits: list[Edit] = []
        actual: list[float] = []
        for at in _in_order(work):
            if excess <= 0:
                break
            message = work.view[at]
            try:
                reduced = _reduced(message, excess, work)
            except Exception as error:  # noqa: BLE001 (the application's class: the other messages are still asked)
                kind = type(message).__name__
                work.warn(
                    f"context: a message of class {kind} could not be reduced: {describe(error)}", kind=kind
                )
                continue
            if reduced is None:
                continue
            smaller, fraction = reduced
            excess -= work.tokens(message) - work.tokens(smaller)
            edits.append(Edit(start=at, stop=at + 1, messages=(smaller,)))
            actual.append(fraction)
        if not edits:
            return None
        note = f"{len(edits)} messages, at {min(actual):.0%} to {max(actual):.0%} of their full size"
        return Rewrite(edits=sorted(edits, key=lambda edit: edit.start), note=note)


def _in_order(work: Work) -> Sequence[int]:
    """Where the messages stand that may be asked, those first that are asked first."""
    own = [
        at
        for at, message in enumerate(work.view[: work.tail])
        if not isinstance(message, Message) and at != work.newest_user and message.role != "system"
    ]
    return sorted(own, key=lambda at: (work.view[at].priority, at))


def _reduced(message: AgentMessage, excess: int, work: Work) -> tuple[AgentMessage, float] | None:
    """The form that saves ``excess`` tokens, or as many as it can, and its share of the full size; None where
    there is none that is smaller."""
    tokens, full = work.tokens(message), work.tokens(message.raw())
    if tokens <= 0:
        return None
    expect = max(_LEAST, (tokens - excess) / max(tokens, full))
    smaller, actual = message.compact(expect)
    if smaller is message or work.tokens(smaller) >= tokens or not _says_the_same(message, smaller):
        return None
    return smaller, actual


def _says_the_same(message: AgentMessage, smaller: AgentMessage) -> bool:
    """Whether a form can stand where the message stood."""
    before, after = message.to_message(), smaller.to_message()
    if before is None or after is None or not after.content:
        return False
    if (message.role, before.role, before.tool_call_id) != (smaller.role, after.role, after.tool_call_id):
        return False
    return [call.id for call in before.tool_calls] == [call.id for call in after.tool_calls]
