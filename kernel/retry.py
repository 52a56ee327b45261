"""How long to wait before asking the model again.

Pure functions over seconds; nothing here sleeps, logs or knows a provider.

Read with: ``model_call.py`` (the only caller), ``tests/spec/test_model_faults.py``.
"""

from collections.abc import Callable

from .limits import Retry


def retry_delay(attempt: int, hint_s: float | None, policy: Retry, rand: Callable[[], float]) -> float | None:
    """Seconds to wait before retry number ``attempt`` (1-based), or None to give up.

    Full jitter: ``rand()`` in [0, 1) times the exponential bound. A server's hint beats backoff. A
    hint above ``max_s`` gives up rather than being clipped: retrying early would fail again, and
    the caller should hear about it.

    >>> [retry_delay(n, None, Retry(), rand=lambda: 1.0) for n in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, None]
    """
    if attempt > policy.attempts:
        return None
    if hint_s is not None and hint_s > 0:
        return hint_s if hint_s <= policy.max_s else None
    return rand() * min(policy.base_s * 2.0 ** min(attempt - 1, 64), policy.max_s)
