"""Whatever the history: a checkpoint keeps the rules, saves tokens, and is not made twice."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.context.extract import ExtractiveSummary
from unspool.context.marks import is_summary, mark_of
from unspool.context.rules import broken_rule, newest_user, tail_of
from unspool.context.session_memory import SessionMemory
from unspool.context.summarizing import SummaryError
from unspool.context.summary import SummaryCheckpoint
from unspool.context.work import Strategy
from unspool.kernel import AgentMessage
from unspool.kernel.sequence import (
    repair_message_sequence,
    to_messages,
    validate_message_sequence,
)

from .histories import histories
from .scoping import Scope
from .working import count, done, work_of

STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "summary": lambda keep: SummaryCheckpoint(keep=keep),
    "fork": lambda keep: SummaryCheckpoint(keep=keep, share_prefix=True),
    "extract": lambda keep: ExtractiveSummary(keep=keep),
    "memory": lambda keep: SessionMemory(lambda: "Notes.", keep=keep),
}


def rewritten(
    strategy: Strategy, view: list[AgentMessage], reason: str, scope: Scope
) -> list[AgentMessage] | None:
    work = work_of(view, target=4000, trigger=8000, reason=reason, scope=scope)
    try:
        return asyncio.run(done(strategy, work))
    except SummaryError:  # the rest of the history does not fit into pieces, or is short
        return None


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(
    view=histories(),
    keep=st.sampled_from([0, 1, 300, 3000]),
    reason=st.sampled_from(["threshold", "overflow", "manual"]),
)
def test_a_checkpoint_is_legal_smaller_and_not_made_again(
    make: Callable[[int], Strategy], view: list[AgentMessage], keep: int, reason: str
) -> None:
    strategy, scope = make(keep), Scope()
    after = rewritten(strategy, view, reason, scope)
    for request, _ in scope.asked:
        assert request.messages[-1].role == "user"
        assert not validate_message_sequence(request.messages)
    if after is None:
        return
    assert broken_rule(view, after, tail=tail_of(view), newest=newest_user(view)) == ""
    assert sum(map(count, after)) < sum(map(count, view))
    new = [message for message in after if is_summary(message) and message not in view]
    assert len(new) == 1
    assert mark_of(new[0])["covered"] == len(view) - len(after) + 1
    assert after[-1] is view[-1]
    assert not validate_message_sequence(repair_message_sequence(to_messages(after)))
    if reason != "manual" or keep:  # a person may ask again and again, and less is kept each time
        assert rewritten(strategy, after, reason, Scope()) is None
