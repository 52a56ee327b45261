"""How much a Gemini model shall think, as its generation takes it.

From generation 3 on models take levels, 2.5 takes a budget in tokens, those before it do not think. The name of
a model tells its generation; names that only say ``latest`` stand for the newest.

Read with: ``gemini_request.py`` (the caller).
"""

import re
from typing import Any, Final

from unspool.kernel.ports import CallOptions

_VERSION: Final = re.compile(r"\bgemini-(\d+(?:\.\d+)?)\b")
_LATEST: Final = re.compile(r"\bgemini-[a-z-]*latest\b")
_NEWEST: Final = 3.0
_BUDGETS: Final = {"minimal": 128, "low": 2048, "medium": 8192}
_TOP_BUDGET: Final = {"pro": 32_768, "flash": 24_576}
_LEAST_LITE: Final = 512  # what flash-lite takes at least


def generation_of(name: str) -> float:
    """The generation of a model, as 2.5; 0 where the name tells none.

    >>> generation_of("google/gemini-2.5-flash"), generation_of("gemma-3-27b-it")
    (2.5, 0.0)
    """
    if found := _VERSION.search(name):
        return float(found.group(1))
    return _NEWEST if _LATEST.search(name) else 0.0


def thinking_config(options: CallOptions, name: str, generation: float) -> dict[str, Any] | None:
    """``thinkingConfig``; None where nothing is asked for or the model does not think.

    What a model cannot do becomes the nearest that it can: thinking that cannot be turned off is as little as
    possible. Thoughts are asked for along with thinking.
    """
    level, budget = options.thinking, options.thinking_budget
    if generation < 2.5 or (level is None and budget is None):
        return None
    shown = {} if level == "off" else {"includeThoughts": True}
    if generation >= 3 and level is not None:
        return {"thinkingLevel": _level(level, name, generation), **shown}
    if level == "off":
        return {"thinkingBudget": 128 if _is_pro(name) else 0}
    return {"thinkingBudget": _budget(level or "", name) if budget is None else budget, **shown}


def _is_pro(name: str) -> bool:
    return "pro" in name.rpartition("/")[2].split("-")


def _level(level: str, name: str, generation: float) -> str:
    if level in ("off", "minimal"):
        return "LOW" if _is_pro(name) else "MINIMAL"
    if level == "medium" and _is_pro(name) and generation == 3:  # it knows two levels only
        return "HIGH"
    return level.upper() if level in ("low", "medium") else "HIGH"


def _budget(level: str, name: str) -> int:
    budget = _BUDGETS.get(level, _TOP_BUDGET["pro" if _is_pro(name) else "flash"])
    return max(budget, _LEAST_LITE) if "-lite" in name else budget
