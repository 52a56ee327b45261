"""What an engine tells of itself: how full the window is, what is shown of what.

Read with: ``engine.py``, ``unspool.kernel.ports`` (``ContextSnapshot``).
"""

from collections import Counter

from unspool.kernel.ports import Compaction, ContextSnapshot, ContextUsage
from unspool.kernel.sequence import collect_context_items

from .followed import Followed
from .marks import kind_of
from .work import Budget


def usage_of(tokens: int, window: int) -> ContextUsage:
    """Tokens as a share of a window."""
    return ContextUsage(tokens=tokens, window=window, percent=100 * tokens / window if window else 0.0)


def snapshot_of(
    followed: Followed, budget: Budget, baseline: int, last: Compaction | None, counter: str
) -> ContextSnapshot:
    """What is shown now; ``baseline`` are the tokens of a request with the whole transcript."""
    scope = "committed" if last is not None and last.commit else "baseline"
    kinds = Counter([kind_of(message) for message in followed.shown])
    return ContextSnapshot(
        usage=usage_of(budget.tokens, budget.window),
        baseline=usage_of(baseline, budget.window),
        messages=len(followed.transcript),
        projected=len(followed.shown),
        items=tuple(collect_context_items(followed.shown)),
        scope=scope if followed.whole else "projected",
        kinds={kind: count for kind, count in sorted(kinds.items()) if kind},
        results=sum([message.role == "tool" for message in followed.shown]),
        counter=counter,
        last=last.steps if last is not None else (),
    )
