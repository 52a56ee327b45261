"""When nothing helped: how long the engine waits before it tries again.

Read with: ``engine.py``.
"""

from typing import Final

from .work import Budget

_GROWTH: Final = 0.05  # of the window: the first wait; each further one is twice as long


class Pause:
    """After an attempt that did not get the view to fit, the next waits until it has grown, more each time; but
    not beyond the window, where a request is sure to be refused.

    A new user message and an attempt that helped end the waiting. Where a strategy failed, the breaker of
    that strategy decides, not this.
    """

    def __init__(self) -> None:
        self._until = 0
        self._wait = _GROWTH
        self._told = False
        self.is_news = False

    def is_over(self, budget: Budget) -> bool:
        """Whether it is time to try."""
        return budget.tokens >= self._until

    def lift(self) -> None:
        """Somebody has said something: try as if nothing had been tried."""
        self._until, self._wait = 0, _GROWTH

    def judge(self, tokens: int, budget: Budget, *, failed: bool) -> None:
        """Note what an attempt came to; ``is_news`` says whether it is the first that did not help."""
        self.is_news = False
        if tokens <= budget.trigger:
            self.lift()
            self._told = False
            return
        self.is_news, self._told = not self._told, True
        if not failed:
            self._until = tokens + int(self._wait * budget.window) + 1
            if tokens <= budget.window:
                self._until = min(self._until, budget.window + 1)
            self._wait *= 2
