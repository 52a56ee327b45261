"""Budgets of runs, and limits of the tree below one root."""

import math
from typing import Any

import msgspec
import pytest

from unspool.kernel.limits import Limits
from unspool.subagent.budget import Budget, TreeLimits

BASE = Limits(turns=50, cost=2.0, concurrency=3)

LIMITS: list[tuple[Budget, Limits]] = [
    (Budget(), BASE),
    (Budget(turns=5), Limits(turns=5, cost=2.0, concurrency=3)),
    (Budget(turns=80, tool_calls=7), Limits(turns=80, tool_calls=7, cost=2.0, concurrency=3)),
    (Budget(tokens=1000, cost=0.5), Limits(turns=50, tokens=1000, cost=0.5, concurrency=3)),
    (Budget(seconds=0.1), BASE),  # wall time is no limit of the kernel's
]


@pytest.mark.parametrize(("budget", "limits"), LIMITS)
def test_limits_of_a_run(budget: Budget, limits: Limits) -> None:
    assert budget.limits(BASE) == limits


WITHIN: list[tuple[Budget, Budget, Budget]] = [
    (Budget(), Budget(), Budget()),
    (Budget(turns=5), Budget(), Budget(turns=5)),
    (Budget(), Budget(turns=5), Budget(turns=5)),
    (Budget(turns=5, cost=1.0), Budget(turns=9, cost=0.25), Budget(turns=5, cost=0.25)),
    (
        Budget(tool_calls=3, seconds=10.0),
        Budget(tokens=100, seconds=2.5),
        Budget(tool_calls=3, tokens=100, seconds=2.5),
    ),
]


@pytest.mark.parametrize(("budget", "remaining", "both"), WITHIN)
def test_the_smaller_of_each(budget: Budget, remaining: Budget, both: Budget) -> None:
    assert budget.within(remaining) == both
    assert remaining.within(budget) == both


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (Budget, {"turns": 0}, "budget: must be above 0 and finite (turns=0)"),
    (Budget, {"tool_calls": -1}, "budget: must be above 0 and finite (tool_calls=-1)"),
    (Budget, {"tokens": 1.5}, "budget: must be a whole number (tokens is a float)"),
    (Budget, {"turns": True}, "budget: must be a whole number (turns is a bool)"),
    (Budget, {"cost": "1"}, "budget: must be a number (cost is a str)"),
    (Budget, {"cost": math.inf}, "budget: must be above 0 and finite (cost)"),
    (Budget, {"seconds": math.nan}, "budget: must be above 0 and finite (seconds)"),
    (Budget, {"seconds": 0.0}, "budget: must be above 0 and finite (seconds=0.0)"),
    (Budget, {"turns": 10**6000}, "budget: must be above 0 and finite (turns)"),
    (TreeLimits, {"depth": 0}, "tree limits: must be above 0 and finite (depth=0)"),
    (TreeLimits, {"descendants": None}, "tree limits: must be a whole number (descendants is a NoneType)"),
    (TreeLimits, {"concurrency": 2.0}, "tree limits: must be a whole number (concurrency is a float)"),
]


@pytest.mark.parametrize(("kind", "fields", "text"), REFUSED, ids=[text for *_, text in REFUSED])
def test_refused(kind: type, fields: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        kind(**fields)
    assert str(caught.value) == text


def test_defaults_of_a_tree() -> None:
    assert TreeLimits() == TreeLimits(depth=5, descendants=100, concurrency=8)


def test_they_are_plain_data() -> None:
    budget = Budget(turns=5, cost=0.5)
    assert msgspec.json.encode(budget) == b'{"turns":5,"cost":0.5}'
    assert msgspec.json.decode(b'{"turns":5,"cost":0.5}', type=Budget) == budget
    with pytest.raises(msgspec.ValidationError, match="above 0"):
        msgspec.json.decode(b'{"turns":0}', type=Budget)
