"""How full a window may get: the level at which something is done, and the level that is then reached.

Read with: ``engine.py``, ``work.py`` (``Budget``).
"""

from typing import Final

from unspool.kernel.ports import CallOptions

from .work import Budget

DEFAULT_WINDOW: Final = 128_000  # of a model that does not say
_LEAST_RESERVE: Final = 4_096
_MOST_RESERVE: Final = 16_384
_SHARE: Final = 0.13  # of the window, kept free for the answer
_BELOW: Final = 0.95  # of what was refused: how much is tried again, so that few refusals find the limit
_RELIEF: Final = 0.6  # of what strategies have a say in: below it nothing that loses much is done


def reserve_for(window: int, options: CallOptions, given: int = 0) -> int:
    """Tokens of a window that are kept free for the answer.

    ``given``, where it is not 0; else 13 % of the window, between 4,096 and 16,384 and never more than half;
    and no less than ``options.max_tokens``, up to half of the window, because providers count that in.
    """
    half = window // 2
    reserve = given or min(max(int(_SHARE * window), _LEAST_RESERVE), _MOST_RESERVE, half)
    return min(max(reserve, min(options.max_tokens or 0, half)), window)


def budget_for(
    tokens: int,
    window: int,
    reserve: int,
    *,
    target: float,
    ceiling: int = 0,
    most: int = 0,
    overhead: int = 0,
) -> Budget:
    """The levels of a window; ``target`` is a fraction of what the trigger leaves beside ``overhead``.

    ``ceiling``, where it is not 0, is a number of tokens that turned out to be too many, and ``most`` what the
    messages may have, besides system prompt and tools.
    """
    trigger = max(0, window - reserve)
    if ceiling:
        trigger = min(trigger, int(_BELOW * ceiling))
    if most:
        trigger = min(trigger, overhead + most)
    free = max(0, trigger - overhead)  # what strategies have a say in
    return Budget(
        tokens=tokens,
        window=window,
        reserve=reserve,
        trigger=trigger,
        relief=min(trigger, overhead + int(_RELIEF * free)),
        target=min(trigger, overhead + int(target * free)),
        overhead=overhead,
        ceiling=ceiling,
    )
