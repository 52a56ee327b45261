"""The keys of one provider: one, several that take turns, or whatever a function of the host's gives.

A key that the provider refuses, or that has reached a limit, rests for a while; the others go on. Where all of
them rest, the one that is free soonest is tried: waiting is the business of whoever calls.

Read with: ``http_model.py`` (the caller).
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from unspool.kernel.errors import AuthError, ModelError, QuotaError, RateLimitError
from unspool.kernel.redaction import hide_secret

ApiKey: TypeAlias = "str | Sequence[str] | Callable[[], Awaitable[str]] | None"
"""A key, several that take turns, or a function that gives one for each request; None and '' are none."""

_REST_S: Final = {RateLimitError: 30.0, QuotaError: 3600.0, AuthError: 3600.0}  # where nobody says how long


class Keys:
    """Gives a key for each request, and hears which were refused.

    ``name`` is the model's, for errors. ``monotonic`` is a clock in seconds.

    Raises:
        AuthError: a key holds characters that no header can carry.
    """

    def __init__(self, given: ApiKey, name: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._monotonic = monotonic
        self._ask = given if callable(given) else None
        several = [given] if isinstance(given, str) else [] if given is None or callable(given) else given
        self._keys = [key for each in several if (key := self._checked(each))]
        self._rests: dict[str, float] = {}  # until when
        self._next = 0

    async def take(self) -> str:
        """The key for one request; empty where there is none.

        Raises:
            AuthError: what the host's function gave holds characters that no header can carry.
        """
        if self._ask is not None:
            return self._checked(await self._ask())
        if len(self._keys) < 2:
            return self._keys[0] if self._keys else ""
        now, count = self._monotonic(), len(self._keys)
        turn = [self._keys[(self._next + step) % count] for step in range(count)]
        free = next((key for key in turn if self._rests.get(key, 0.0) <= now), None)
        key = free or min(turn, key=lambda each: self._rests[each])
        self._next = (self._keys.index(key) + 1) % count
        return key

    def failed(self, key: str, error: ModelError) -> None:
        """Let ``key`` rest if ``error`` is a matter of the key, for as long as the provider asks for."""
        for kind, rest in _REST_S.items():
            if isinstance(error, kind):
                self._rests[key] = self._monotonic() + (error.retry_after_s or rest)

    def _checked(self, key: str) -> str:
        key = key.strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise AuthError(
                "provider: the API key holds characters that a header cannot carry", model=self._name
            )
        hide_secret(key)
        return key
