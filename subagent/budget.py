"""What a run of an agent, and all runs below one, may use up.

Read with: ``definition.py``, ``unspool.kernel.limits``.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.limits import Limits

_WHOLE = ("turns", "tool_calls", "tokens")
_BOUND = 2**63  # limits are recorded


class Budget(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What one run may use up; None leaves it to the caller.

    ``turns`` counts model calls that gave a reply, ``tokens`` those of prompts and answers, cached or not.
    ``cost`` is in US dollars, ``seconds`` is wall time.

    Raises:
        TypeError: an amount is not a number, or a count is not whole.
        ValueError: an amount is not above 0 and finite.
    """

    turns: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None:
                _check("budget", name, value, whole=name in _WHOLE)

    def limits(self, base: Limits) -> Limits:
        """The limits of a run with this budget: those of ``base`` where it says nothing.

        ``seconds`` is not among them: whoever starts the run watches the clock.
        """
        given = {name: getattr(self, name) for name in (*_WHOLE, "cost") if getattr(self, name) is not None}
        return replace(base, **given) if given else base

    def within(self, remaining: "Budget") -> "Budget":
        """The smaller of each amount: what a run may use of what remains."""
        pairs = [(name, getattr(self, name), getattr(remaining, name)) for name in self.__struct_fields__]
        smaller: dict[str, Any] = {name: _smaller(ours, theirs) for name, ours, theirs in pairs}
        return Budget(**smaller)


class TreeLimits(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What all runs below one root may come to.

    ``depth`` is how many levels of children there may be. ``descendants`` counts every child run that was ever
    started under the root. ``concurrency`` is how many child runs may go on at once, those left out that wait
    for a child of their own.

    Raises:
        TypeError, ValueError: a limit is not a whole number above 0.
    """

    depth: int = 5
    descendants: int = 100
    concurrency: int = 8

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check("tree limits", name, getattr(self, name), whole=True)


def _check(what: str, name: str, value: object, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number"
        raise TypeError(f"{what}: must be {kind} ({name} is a {type(value).__name__})")
    if not 0 < value < _BOUND:  # so no NaN either
        shown = f"={value!r}" if abs(value) < _BOUND else ""  # a long number cannot even be written
        raise ValueError(f"{what}: must be above 0 and finite ({name}{shown})")


def _smaller(a: float | None, b: float | None) -> float | None:
    return min((value for value in (a, b) if value is not None), default=None)
