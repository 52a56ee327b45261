"""When a strategy that fails is asked again: later and later.

Read with: ``engine.py``.
"""


class Breaker:
    """Counts failures of one strategy in a row; after ``limit`` of them it is left out, then tried once, and so on.

    It is left out once, then twice, four times, up to 64 times, each time that the trial fails too.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self._failures = 0
        self._left_out = 0  # how often it still is
        self._next = 1

    def lets_pass(self) -> bool:
        """Whether the strategy is asked this time."""
        if not self._left_out:
            return True
        self._left_out -= 1
        return False

    def failed(self) -> bool:
        """Note a failure; whether the strategy is left out from now on."""
        self._failures += 1
        if self._failures < self._limit:
            return False
        self._left_out, self._next = self._next, min(2 * self._next, 64)
        return True

    def succeeded(self) -> None:
        """Begin anew."""
        self._failures, self._left_out, self._next = 0, 0, 1
