"""Counts and costs out of the usage that a server tells; nothing in it is taken for granted.

Read with: the ``*_usage.py`` files (the callers).
"""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from unspool.kernel.messages import Cost

_MOST: Final = 2**53  # tokens: more is no count
_TICKS: Final = 1e10  # of a dollar


def count(fields: Mapping[str, Any], key: str) -> int:
    """A number of tokens; anything that is none is 0.

    >>> count({"a": 3.0}, "a"), count({"a": -1}, "a"), count({"a": "3"}, "a"), count({"a": float("inf")}, "a")
    (3, 0, 0, 0)
    """
    value = fields.get(key)
    return int(value) if _is_number(value) and value <= _MOST else 0


def object_of(fields: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under ``key``; an empty one where there is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def told_cost(fields: Mapping[str, Any]) -> Cost | None:
    """What the server says that the call cost, in US dollars; what it does not split is all in ``output``."""
    ticks, cost = fields.get("cost_in_usd_ticks"), fields.get("cost")
    if _is_number(ticks):  # xAI
        return Cost(output=ticks / _TICKS)
    if isinstance(cost, dict):  # Perplexity
        total, prompt = cost.get("total_cost"), cost.get("input_tokens_cost")
    else:
        details = object_of(fields, "cost_details")
        total, prompt = cost, details.get("upstream_inference_prompt_cost")
        upstream = details.get("upstream_inference_cost")
        if fields.get("is_byok") and _is_number(total) and _is_number(upstream):
            total += upstream  # OpenRouter with a key of one's own: its fee, and the provider's bill
    if not _is_number(total):
        return None
    prompt = prompt if _is_number(prompt) and prompt <= total else 0.0
    return Cost(input=prompt, output=total - prompt)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
