"""The keys of one provider: one, several that take turns, or whatever a function of the host's gives.

A key that the provider refuses, or that has reached a limit, rests for a while; the others go on. Where all of
them rest, the one that is free soonest is tried: waiting is the business of whoever calls. A function is asked
anew for each request, so that a key which was refused is not given twice unless the function does.

Read with: ``http_model.py`` (the caller), ``tests/llm/test_keys.py`` (the tables).
"""

import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeAlias

from unspool.kernel.errors import AuthError, ModelError, NetworkError, QuotaError, RateLimitError
from unspool.kernel.redaction import forget_secret, hide_secret

from .faults import lost_connection

ApiKey: TypeAlias = "str | Sequence[str] | Callable[[], Awaitable[str]] | None"
"""A key, several that take turns, or a function that gives one for each request; None and '' are none."""

_TOKENS: Final = 8  # of a function that stay hidden: answers to older ones have come
_REST_S: Final = {RateLimitError: 30.0, QuotaError: 3600.0, AuthError: 3600.0}  # where nobody says how long


class Keys:
    """Gives a key for each request, and hears which were refused. Threads may share it.

    ``name`` is the model's, for errors. ``monotonic`` is a clock in seconds.

    Raises:
        AuthError: a key holds characters that no header can carry.
    """

    def __init__(self, given: ApiKey, name: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._monotonic = monotonic
        self._ask = given if callable(given) else None
        several = [given] if isinstance(given, str) else [] if given is None or callable(given) else given
        checked = [key for each in several if (key := self._checked(each))]
        self._keys = list(dict.fromkeys(checked))  # one given twice has one turn
        for key in self._keys:
            hide_secret(key)
        self._tokens: list[str] = []  # that a function gave, the last ones
        self._rests: dict[str, float] = {}  # until when
        self._next = 0
        self._lock = threading.Lock()

    async def take(self) -> str:
        """The key for one request; empty where there is none.

        Raises:
            AuthError: the host's function raised, or gave characters that no header can carry.
            NetworkError: the host's function could not reach what it asks.
        """
        if self._ask is not None:
            return self._kept(self._checked(await self._asked(self._ask)))
        if len(self._keys) < 2:
            return self._keys[0] if self._keys else ""
        with self._lock:
            return self._turn()

    def failed(self, key: str, error: ModelError, tried: Collection[str] = ()) -> bool:
        """Let ``key`` rest if ``error`` is a matter of the key, for as long as the provider asks for.

        The delay in ``error`` becomes that until a key is free: None where one is, since nobody need wait. Says
        whether one is that was not ``tried`` for this request.
        """
        rest_s = next((rest for kind, rest in _REST_S.items() if isinstance(error, kind)), None)
        if rest_s is None or len(self._keys) < 2:
            return False
        if error.retry_after_s is not None:
            rest_s = error.retry_after_s
        with self._lock:
            now = self._monotonic()
            self._rests[key] = max(now + rest_s, self._rests.get(key, 0.0))  # answers come in any order
            rests = {other: self._rests.get(other, 0.0) - now for other in self._keys if other != key}
            if min(rests.values()) <= 0.0:
                error.retry_after_s = None
            elif error.retry_after_s is not None:
                error.retry_after_s = min(rest_s, *rests.values())
        return any(rest <= 0.0 and other not in tried for other, rest in rests.items())

    def another(self, tried: Collection[str]) -> str:
        """The next key that was not tried."""
        with self._lock:
            return self._turn(tried)

    def told(self, key: str) -> str:
        """Which of the keys it is, for people."""
        at = self._keys.index(key) + 1 if key in self._keys else "?"
        return f"key {at} of {len(self._keys)}"

    def _turn(self, tried: Collection[str] = ()) -> str:
        now, count = self._monotonic(), len(self._keys)
        turn = [self._keys[(self._next + step) % count] for step in range(count)]
        turn = [key for key in turn if key not in tried] or turn
        free = next((key for key in turn if self._rests.get(key, 0.0) <= now), None)
        key = free or min(turn, key=lambda each: self._rests.get(each, 0.0))
        self._next = (self._keys.index(key) + 1) % count
        return key

    def _kept(self, token: str) -> str:
        """A token of the host's function, hidden as long as it is one of the last."""
        with self._lock:
            if token in self._tokens:
                self._tokens.remove(token)
            elif token:
                hide_secret(token)
            if token:
                self._tokens.append(token)  # the newest last
                if len(self._tokens) > _TOKENS:
                    forget_secret(self._tokens.pop(0))
        return token

    async def _asked(self, ask: Callable[[], Awaitable[str]]) -> str:
        try:
            return await ask() or ""
        except ModelError:
            raise
        except Exception as error:  # whatever is wrong there, there is no key
            what = type(error).__name__  # its text may quote a secret
            if isinstance(error, OSError) or lost_connection(error):
                raise NetworkError(
                    f"provider: no API key could be fetched: {what}", model=self._name
                ) from error
            raise AuthError(
                f"provider: the function for the API key raised {what} (it is called without arguments, and "
                "awaited)",
                model=self._name,
            ) from error

    def _checked(self, key: str) -> str:
        if not isinstance(key, str):
            raise AuthError(f"provider: the API key is a {type(key).__name__}, not a text", model=self._name)
        key = key.strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise AuthError(
                "provider: the API key holds characters that a header cannot carry", model=self._name
            )
        return key
