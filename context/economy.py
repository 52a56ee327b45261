"""Whether it pays to rewrite a view that still fits: tokens saved in the calls to come, against a cache missed now.

A provider's cache holds the prefix of the last request. What is shown beyond the least that could be shown is read from
it again with each call: rent. A rewrite ends that, and once has everything after the first changed message written
to the cache anew: a price. How long the session goes on nobody knows; to pay when the rent comes to the
price costs at most twice what the best choice would have, whenever it ends (the ski rental problem), and while the
view grows steadily it is the best choice (the square root formula of stock keeping).

Read with: ``engine.py`` (the caller).
"""

from msgspec import Struct

from unspool.kernel.messages import Usage


class Prices(Struct, frozen=True, kw_only=True):
    """What a token of the prompt costs, in units of one that is not cached: read from the cache, written to it."""

    cached: float = 0.1
    written: float = 1.25


def prices_of(usage: Usage, before: Prices) -> Prices:
    """The prices that a priced reply shows; ``before`` for what it does not show."""
    cost = usage.cost
    if cost is None or not (usage.input_tokens and cost.input > 0):
        return before
    plain = cost.input / usage.input_tokens
    cached, written = before.cached, before.written
    if usage.cache_read_tokens and cost.cache_read > 0:
        cached = min(1.0, cost.cache_read / usage.cache_read_tokens / plain)
    if usage.cache_write_tokens and cost.cache_write > 0:
        written = max(cached, cost.cache_write / usage.cache_write_tokens / plain)
    return Prices(cached=cached, written=written)


class Rent:
    """What was paid, since the last rewrite, for tokens that it could have saved; in uncached tokens."""

    def __init__(self) -> None:
        self.paid = 0.0
        self._floor = -1  # tokens of the least that could be shown

    def pay(self, tokens: int, prices: Prices) -> None:
        """A request of ``tokens`` is about to be sent."""
        if self._floor < 0:
            self._floor = tokens
        self.paid += prices.cached * max(0, tokens - self._floor)

    def covers(self, rewritten: int, prices: Prices) -> bool:
        """Whether it comes to the price of writing ``rewritten`` tokens to the cache anew."""
        return self.paid > 0 and self.paid >= rewritten * (prices.written - prices.cached)

    def may_cover(self, overhead: int, prices: Prices) -> bool:
        """Whether it is time to look: the same for all of the least that could be shown but the ``overhead``."""
        return self.covers(max(0, self._floor - overhead), prices)

    def settle(self, floor: int) -> None:
        """Begin anew: ``floor`` tokens are the least that could be shown."""
        self.paid, self._floor = 0.0, floor
