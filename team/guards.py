"""What keeps a team from going on for ever: two that only answer each other, and what it uses up.

Read with: ``limits.py``, ``post.py``, ``team.py``.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from unspool.kernel.messages import Usage

from .limits import TeamLimits

Reached: TypeAlias = Literal["budget", "deadline"]


class PairGuard:
    """Counts how often two members have answered each other with nothing else happening to them."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._turns: dict[frozenset[str], tuple[str, int]] = {}  # who wrote last, and the answers so far
        self._pair_of: dict[str, frozenset[str]] = {}  # the one pair of a member that has a count
        self._tripped: set[frozenset[str]] = set()

    def may_send(self, sender: str, to: str) -> bool:
        """Whether one more answer is within the limit."""
        last, count = self._turns.get(frozenset((sender, to)), ("", 0))
        return self._limit is None or last in ("", sender) or count < self._limit

    def trip(self, sender: str, to: str) -> bool:
        """A letter was refused; whether it is the first of this pair since something else happened."""
        pair = frozenset((sender, to))
        new = pair not in self._tripped
        self._tripped.add(pair)
        return new

    def sent(self, sender: str, to: str) -> None:
        """A letter was accepted."""
        pair = frozenset((sender, to))
        for name in pair:
            self.happened(name, keep=pair)
            self._pair_of[name] = pair
        last, count = self._turns.get(pair, ("", 0))
        self._turns[pair] = (sender, count + (last not in ("", sender)))

    def happened(self, name: str, keep: frozenset[str] = frozenset()) -> None:
        """Something else happened to a member: the count of its pair begins anew, unless that is the one to keep."""
        pair = self._pair_of.get(name)
        if pair is not None and pair != keep:
            del self._turns[pair]
            self._tripped.discard(pair)
            for each in pair:
                del self._pair_of[each]


def used_up(limits: TeamLimits, usages: Iterable[Usage]) -> bool:
    """Whether the members together have used up what the team may use."""
    total = sum(usages, Usage())
    if limits.tokens is not None and total.total_tokens >= limits.tokens:
        return True
    return limits.cost is not None and total.cost is not None and total.cost.total >= limits.cost
