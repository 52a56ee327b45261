"""The numbers that bound a run, one value each for limits and for retries.

Defaults are listed in ``docs/design.md``; both values are recorded in ``agent_start``.
"""

import math

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run may use up. None is no limit.

    ``turns`` counts model calls that gave a reply. ``tool_errors`` is per tool, consecutive.
    ``concurrency`` bounds concurrency-safe calls running at once. ``result_bytes`` bounds the text
    of one tool result. ``grace_s`` is how long a cancelled tool may take to stop. ``cost`` (US dollars)
    and ``tokens`` (prompt and answer, cached or not) end the run before the next call once they are used up.
    """

    turns: int = 100
    tool_calls: int | None = None
    tool_errors: int | None = None
    concurrency: int = 8
    result_bytes: int = 32 * 1024
    grace_s: float = 5.0
    length_recoveries: int = 3
    overflow_recoveries: int = 1
    cost: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"limits: must be finite, None is no limit ({name}={value!r})")
        for name in ("turns", "concurrency", "result_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"limits: must be at least 1 ({name}={getattr(self, name)!r})")
        for name in ("grace_s", "length_recoveries", "overflow_recoveries"):
            if getattr(self, name) < 0:
                raise ValueError(f"limits: must not be negative ({name}={getattr(self, name)!r})")


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How patient a model call is.

    ``attempts`` are tries after the first failure; 0 never retries. ``base_s`` doubles up to
    ``max_s``. ``idle_s`` bounds silence of the server, ``call_s`` one attempt as a whole, without
    the time in which a full buffer waits for the consumer; None waits for ever.
    """

    attempts: int = 3
    base_s: float = 1.0
    max_s: float = 60.0
    idle_s: float | None = 120.0
    call_s: float | None = 600.0

    def __post_init__(self) -> None:
        if self.attempts < 0 or self.base_s < 0 or self.max_s < 0:
            raise ValueError(
                "retry: must not be negative "
                f"(attempts={self.attempts!r}, base_s={self.base_s!r}, max_s={self.max_s!r})"
            )
