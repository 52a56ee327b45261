"""The keys of one provider: one, several that take turns, or whatever a function of the host's gives.

A key that the provider refuses, or that has reached a limit, rests for a while; the others go on. Where all of
them rest, the one that is free soonest is tried: waiting is the business of whoever calls. A function is asked
anew for each request, so that a key which was refused is not given twice unless the function does.

Read with: ``http_model.py`` (the caller), ``tests/llm/test_keys.py`` (the tables).
"""

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from unspool.kernel.errors import AuthError, ModelError, NetworkError, QuotaError, RateLimitError
from unspool.kernel.redaction import hide_secret

ApiKey: TypeAlias = "str | Sequence[str] | Callable[[], Awaitable[str]] | None"
"""A key, several that take turns, or a function that gives one for each request; None and '' are none."""

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
            return self._checked(await self._asked(self._ask))
        if len(self._keys) < 2:
            return self._keys[0] if self._keys else ""
        with self._lock:
            return self._turn()

    def failed(self, key: str, error: ModelError) -> bool:
        """Let ``key`` rest if ``error`` is a matter of the key, for as long as the provider asks for; whether another
        one is free then.

        The delay in ``error`` is taken out where another key is free: the next request need not wait for it.
        """
        rest_s = next((rest for kind, rest in _REST_S.items() if isinstance(error, kind)), None)
        if rest_s is None or len(self._keys) < 2:
            return False
        if error.retry_after_s is not None:
            rest_s = error.retry_after_s
        with self._lock:
            now = self._monotonic()
            self._rests[key] = max(now + rest_s, self._rests.get(key, 0.0))  # answers come in any order
            another = any(self._rests.get(other, 0.0) <= now for other in self._keys)
        if another:
            error.retry_after_s = None
        return another

    def _turn(self) -> str:
        now, count = self._monotonic(), len(self._keys)
        turn = [self._keys[(self._next + step) % count] for step in range(count)]
        free = next((key for key in turn if self._rests.get(key, 0.0) <= now), None)
        key = free or min(turn, key=lambda each: self._rests[each])
        self._next = (self._keys.index(key) + 1) % count
        return key

    async def _asked(self, ask: Callable[[], Awaitable[str]]) -> str:
        try:
            return await ask() or ""
        except ModelError:
            raise
        except OSError as error:  # TimeoutError and ConnectionError are such
            raise NetworkError("provider: no API key could be fetched", model=self._name) from error
        except Exception as error:  # whatever is wrong there, there is no key
            what = type(error).__name__  # its text may quote a secret
            raise AuthError(
                f"provider: the function for the API key raised {what}", model=self._name
            ) from error

    def _checked(self, key: str) -> str:
        if not isinstance(key, str):
            raise AuthError(f"provider: the API key is a {type(key).__name__}, not a text", model=self._name)
        key = key.strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise AuthError(
                "provider: the API key holds characters that a header cannot carry", model=self._name
            )
        hide_secret(key)
        return key
