"""What holds for every strategy that asks no model, on any history."""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.context.clearing import ClearToolResults
from unspool.context.duplicates import CollapseDuplicateReads
from unspool.context.keeping import KeepTokens, KeepTurns
from unspool.context.offloading import OffloadToolResults
from unspool.context.priorities import ReduceByPriority
from unspool.context.rules import broken_rule, newest_user, tail_of
from unspool.context.squeezing import Squeeze
from unspool.context.trimming import TrimText
from unspool.context.work import Strategy, Work, described
from unspool.kernel import AgentMessage, Message
from unspool.kernel.edits import edited
from unspool.kernel.json_edge import encode_text
from unspool.kernel.sequence import repair_message_sequence, to_messages, validate_message_sequence

from .histories import histories
from .working import count, work_of


class Blobs:
    """A store in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, data: bytes, /) -> str:
        digest = sha256(data).hexdigest()
        self.held[digest] = data
        return digest

    def get(self, digest: str, /) -> bytes:
        return self.held[digest]


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "clear, as many as needed": lambda: ClearToolResults(keep=1, min_tokens=20),
    "clear, all that are old": lambda: ClearToolResults(keep=0, min_tokens=0, order="age", keep_errors=False),
    "collapse": CollapseDuplicateReads,
    "offload": lambda: OffloadToolResults(Blobs(), min_tokens=500, keep=1, head=200, tail=100),
    "trim": lambda: TrimText(keep=1, threshold=400, head=100, tail=50),
    "reduce": ReduceByPriority,
    "squeeze": Squeeze,
    "squeeze all": lambda: Squeeze(share=0.05),
    "keep turns": lambda: KeepTurns(2),
    "keep turns, no note": lambda: KeepTurns(1, note=False),
    "keep tokens": lambda: KeepTokens(1000),
}
LEVELS = st.sampled_from([0, 100, 2_000, 20_000])


def rewritten(strategy: Strategy, work: Work) -> list[AgentMessage] | None:
    rewrite = asyncio.run(strategy.rewrite(work))
    if rewrite is None:
        return None
    assert rewrite.edits, "None is how a strategy says that there is nothing to do"
    return edited(work.view, rewrite.edits)


def total(view: Sequence[AgentMessage]) -> int:
    return sum([count(message) for message in view])


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
@settings(max_examples=120, deadline=None)
@given(view=histories(), target=LEVELS, reason=st.sampled_from(["threshold", "cost", "overflow", "manual"]))
def test_a_rewrite_is_legal_smaller_and_not_made_again(
    make: Callable[[], Strategy], view: list[AgentMessage], target: int, reason: str
) -> None:
    strategy, before = make(), [*view]
    work = work_of(view, target=target, trigger=2 * target, reason=reason)
    after = rewritten(strategy, work)
    assert all(a is b for a, b in zip(view, before, strict=True))
    if after is None:
        return
    assert broken_rule(view, after, tail=tail_of(view), newest=newest_user(view)) == ""
    assert total(after) < total(view)
    again = rewritten(strategy, work_of(after, target=target, trigger=2 * target, reason=reason))
    assert again is None, [(kept.role, kept.text[:80]) for kept in again]


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(view=histories())
def test_what_is_kept_is_kept_whole(make: Callable[[], Strategy], view: list[AgentMessage]) -> None:
    """Users and the system are not cut; calls, reasoning and what is no text stay as they are."""
    after = rewritten(make(), work_of(view))
    held = {id(message) for message in view}
    for message in after or ():
        if id(message) in held or not isinstance(message, Message):
            continue
        context: Any = message.metadata["context"]
        if context["kind"] == "dropped":
            continue
        assert message.role in ("assistant", "tool")
        old = [each for each in view if isinstance(each, Message) and _twins(each, message)]
        assert old, "a new message has the calls and the reasoning of an old one"
        assert encode_text(context)


def _twins(old: Message, new: Message) -> bool:
    lacking = [block for block in old.content if type(block).__name__ in ("ToolCall", "Thinking")]
    return (old.role, old.tool_call_id, old.is_error, old.stop_reason) == (
        new.role,
        new.tool_call_id,
        new.is_error,
        new.stop_reason,
    ) and lacking == [block for block in new.content if type(block).__name__ in ("ToolCall", "Thinking")]


@settings(max_examples=60, deadline=None)
@given(view=histories(), order=st.permutations(list(STRATEGIES)))
def test_one_after_the_other(view: list[AgentMessage], order: list[str]) -> None:
    """In any order, what all of them leave is a sequence that can be sent."""
    for name in order:
        strategy = STRATEGIES[name]()
        after = rewritten(strategy, work_of(view, target=500, trigger=1000))
        if after is not None:
            assert broken_rule(view, after, tail=tail_of(view), newest=newest_user(view)) == "", name
            view = after
    assert not validate_message_sequence(repair_message_sequence(to_messages(view)))


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
def test_settings_are_for_the_record(make: Callable[[], Strategy]) -> None:
    strategy = make()
    assert strategy.commits and encode_text(described(strategy))
