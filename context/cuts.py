"""Where a conversation is cut: what is summed up, and what stays.

The newest messages stay, up to a number of tokens, with the turn under way whole. A cut never parts a call from its
result, but may go through a turn, before any reply of it: a turn of four hundred calls can be cut. The newest user message
stays where it is even when the cut lies behind it, and so do system messages.

Read with: ``work.py`` (``Work.tail``), ``rules.py``, ``checkpoint.py`` (what is put in the place).
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from unspool.kernel.messages import AgentMessage
from unspool.kernel.ports import Edit

from .marks import is_summary
from .work import Work

_LEAST_KEPT: Final = 2_000  # tokens, where nobody says how many
_MOST_KEPT: Final = 20_000
_SHARE: Final = 4  # and then a fourth of what the relief level leaves for messages


class Cut(Struct, frozen=True):
    """Messages from index ``stop`` on stay. ``turn_start`` is the user message of the turn that is cut through;
    -1 where the cut lies between turns."""

    stop: int
    turn_start: int = -1

    @property
    def split(self) -> bool:
        """Whether a turn is cut through."""
        return self.turn_start >= 0


class Span(Struct, frozen=True, kw_only=True):
    """What a cut takes out: the indexes of the messages, and the index before which something is put instead."""

    cut: Cut
    indexes: tuple[int, ...]
    anchor: int
    fresh: tuple[AgentMessage, ...]  # of those that go, what no summary stands for yet
    earlier: tuple[AgentMessage, ...]  # and the summaries, oldest first


def find_cut(
    view: Sequence[AgentMessage],
    keep: int,
    tokens: Callable[[AgentMessage], int],
    *,
    limit: int | None = None,
) -> Cut | None:
    """The cut that keeps the most messages of at most ``keep`` tokens; None where all are that few, or none is legal.

    ``limit`` is an index that the cut may not lie behind; there may then stay more than ``keep`` tokens.
    """
    last = len(view) - 1 if limit is None else limit
    start, held = len(view), 0
    while start > 0:
        held += tokens(view[start - 1])
        if held > keep:
            break
        start -= 1
    legal = [at for at in _legal_cuts(view) if 0 < at <= last]
    if not start or not legal:
        return None
    stop = next((at for at in legal if at >= start), legal[-1])
    return Cut(stop, _turn_start(view, stop))


def _legal_cuts(view: Sequence[AgentMessage]) -> list[int]:
    """The indexes before which no call waits for a result that comes later, and where no result stands."""
    ends = list(range(len(view)))  # for each message, the last result that it has
    waiting: dict[str, list[int]] = {}
    for at, message in enumerate(view):
        if message.role == "tool":
            owners = waiting.get(getattr(message, "tool_call_id", ""))
            if owners:
                ends[owners.pop()] = at
        elif message.has_tool_calls:
            for call in getattr(message.to_message() or message, "tool_calls", ()):
                waiting.setdefault(call.id, []).append(at)
    legal: list[int] = []
    reach = -1
    for at, message in enumerate(view):
        if reach < at and message.role != "tool":
            legal.append(at)
        reach = max(reach, ends[at])
    return legal


def _turn_start(view: Sequence[AgentMessage], stop: int) -> int:
    if view[stop].role == "user":
        return -1
    return next((at for at in range(stop - 1, -1, -1) if _is_request(view[at])), -1)


def turn_before(view: Sequence[AgentMessage], cut: Cut) -> int:
    """Where the turn that is cut through begins, or one before it where that would part a call from its result, which
    came late; 0 where there is none."""
    starts = [at for at in _legal_cuts(view) if at <= cut.turn_start and _is_request(view[at])]
    return starts[-1] if starts else 0


def _is_request(message: AgentMessage) -> bool:
    return message.role == "user" and not is_summary(message)


def room_for_messages(work: Work) -> int:
    """Tokens that the relief level leaves beside system prompt and tools; at least 1."""
    return max(1, work.budget.relief - work.budget.overhead)


def kept_tokens(keep: int, work: Work) -> int:
    """How many tokens of the newest messages stay: ``keep``, or what suits the relief level where that is 0.

    A person who asks for a compaction gets one of a short conversation too.
    """
    if keep:
        return keep
    room = room_for_messages(work)
    chosen = min(max(room // _SHARE, _LEAST_KEPT), _MOST_KEPT, room // 2)
    return min(chosen, work.total() // _SHARE) if work.reason == "manual" else chosen


def span_of(work: Work, keep: int) -> Span | None:
    """What is to be summed up, so that about ``keep`` tokens stay; None where that is nothing new."""
    cut = find_cut(work.view, kept_tokens(keep, work), work.tokens, limit=work.tail)
    return span_to(work, cut) if cut is not None else None


def span_to(work: Work, cut: Cut) -> Span | None:
    """What goes by a cut; None where that is nothing, or nothing but a summary."""
    indexes = [at for at in range(cut.stop) if at != work.newest_user and work.view[at].role != "system"]
    gone = [work.view[at] for at in indexes]
    fresh = [message for message in gone if not is_summary(message)]
    if not any(message.to_message() is not None for message in fresh):
        return None
    return Span(
        cut=cut,
        indexes=tuple(indexes),
        anchor=work.newest_user if 0 <= work.newest_user < cut.stop else cut.stop,
        fresh=tuple(fresh),
        earlier=tuple([message for message in gone if is_summary(message)]),
    )


def edits_for(span: Span, messages: Sequence[AgentMessage]) -> list[Edit]:
    """The edits that take a span out and put ``messages`` in its place, before the newest user message."""
    runs: list[list[int]] = []
    for at in span.indexes:
        if runs and runs[-1][1] == at:
            runs[-1][1] = at + 1
        else:
            runs.append([at, at + 1])
    before = sum([stop <= span.anchor for _, stop in runs])
    edits = [Edit(start=start, stop=stop) for start, stop in runs]
    if before:
        start, stop = runs[before - 1]
        edits[before - 1] = Edit(start=start, stop=stop, messages=tuple(messages))
    else:
        edits.insert(0, Edit(start=span.anchor, stop=span.anchor, messages=tuple(messages)))
    return edits
