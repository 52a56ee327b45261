"""How chat/completions servers are told to think hard, a little, or not at all.

Each function gives the fields for a level (off, minimal, low, medium, high, xhigh, max), a budget in tokens where
one is given, and the model's name; none where the server has no word for it. Levels that a family of models does
not know become the nearest it does: below its lowest the lowest, above its highest the highest.

Read with: ``openai_chat_dialect.py``, ``presets.py`` (who speaks which), ``tests/llm/test_openai_chat_thinking.py``.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from unspool.kernel.ports import CallOptions

Fields: TypeAlias = dict[str, Any]
Thinking: TypeAlias = Callable[[str, int | None, str], Fields]
"""The fields for a level, a budget in tokens or None, and a model's name."""

_LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_PLAIN: Final = ("low", "medium", "high")
_BUDGETS: Final = (("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16_384))


def nearest(level: str, known: tuple[str, ...]) -> str:
    """``level`` where it is among ``known``, else the nearest below, else the lowest.

    >>> nearest("max", ("low", "high")), nearest("minimal", ("low", "high")), nearest("medium", ("low", "high"))
    ('high', 'low', 'low')
    """
    if level in known:
        return level
    below = [each for each in _LEVELS[: _LEVELS.index(level)] if each in known]
    return below[-1] if below else known[0]


def level_of(options: CallOptions) -> str | None:
    """The level that is asked for; of a budget alone the one whose usual budget holds it."""
    budget = options.thinking_budget
    if options.thinking or budget is None:
        return options.thinking
    return next((level for level, tokens in _BUDGETS if budget <= tokens), "max")


def by_effort(level: str, budget: int | None, model: str) -> Fields:
    """``reasoning_effort``, low to high; there is no word for off that all servers take."""
    return {} if level == "off" else {"reasoning_effort": nearest(level, _PLAIN)}


def by_effort_or_none(level: str, budget: int | None, model: str) -> Fields:
    """``reasoning_effort`` with ``none`` for off."""
    return {"reasoning_effort": "none"} if level == "off" else by_effort(level, budget, model)


def by_effort_or_null(level: str, budget: int | None, model: str) -> Fields:
    """``reasoning_effort`` with null for off (Sarvam)."""
    return {"reasoning_effort": None} if level == "off" else by_effort(level, budget, model)


_TO_XHIGH: Final = (*_PLAIN, "xhigh")


def _named(pattern: str) -> re.Pattern[str]:
    """Models of these names, with or without a maker before them, and what was tuned from them."""
    return re.compile(rf"(?:^|/)(?:ft:)?(?:{pattern})")


# What families of OpenAI's models know, the first that fits. Those for code cannot be told not to think.
_OPENAI: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (_named(r"chatgpt-|gpt-[34]|gpt-5(?:\.\d)?-chat|gpt-audio"), ()),  # do not reason
    (_named(r"gpt-5-pro"), ("high",)),
    (_named(r"gpt-5\.\d-pro"), ("medium", "high", "xhigh")),
    (_named(r"gpt-5(?:\.1)?-codex(?!-max)"), _PLAIN),
    (_named(r"gpt-5\.\d-codex"), _TO_XHIGH),
    (_named(r"gpt-5\.1(?!\d)"), ("none", *_PLAIN)),
    (_named(r"gpt-(?:5\.\d|[6-9])"), ("none", *_TO_XHIGH)),
    (_named(r"gpt-5"), ("minimal", *_PLAIN)),
    (_named(r"o\d(?:-|$)|gpt-oss|codex-"), _PLAIN),
)


def openai_efforts(model: str) -> tuple[str, ...]:
    """The efforts that one of OpenAI's models knows, the least first; ``none`` is how it is told not to think.

    A name that is none of OpenAI's (those of deployments are anything) is taken to know the plain ones.
    """
    return next((efforts for names, efforts in _OPENAI if names.search(model)), _PLAIN)


def is_known_to_reason(model: str) -> bool:
    """Whether a model's name says that it reasons; one that is none of OpenAI's says nothing."""
    return any(names.search(model) for names, _ in _OPENAI) and bool(openai_efforts(model))


def effort_of(level: str, known: tuple[str, ...]) -> str | None:
    """The effort for a level among those that are known; None where there is none for it.

    Off is ``none``, or ``minimal`` of models from before there was one.

    >>> [effort_of(level, ("none", "low", "high")) for level in ("off", "minimal", "medium", "max")]
    ['none', 'low', 'low', 'high']
    """
    if level == "off":
        return next((effort for effort in ("none", "minimal") if effort in known), None)
    efforts = tuple([effort for effort in known if effort != "none"])
    return nearest(level, efforts) if efforts else None


def openai(level: str, budget: int | None, model: str) -> Fields:
    """``reasoning_effort`` as OpenAI's models know it."""
    effort = effort_of(level, openai_efforts(model))
    return {} if effort is None else {"reasoning_effort": effort}


def groq(level: str, budget: int | None, model: str) -> Fields:
    """Groq's: Qwen 3 knows ``none`` and ``default`` only."""
    if "qwen3" in model:
        return {"reasoning_effort": "none" if level == "off" else "default"}
    return by_effort(level, budget, model)


def cerebras(level: str, budget: int | None, model: str) -> Fields:
    """Cerebras': GLM can be told not to think, gpt-oss cannot."""
    return by_effort_or_none(level, budget, model) if "glm" in model else by_effort(level, budget, model)


def xai(level: str, budget: int | None, model: str) -> Fields:
    """xAI's: Grok 3 mini knows low and high; those of Grok 4 refuse to be told."""
    if "grok-3-mini" not in model or level == "off":
        return {}
    return {"reasoning_effort": "low" if level in ("minimal", "low") else "high"}


def openrouter(level: str, budget: int | None, model: str) -> Fields:
    """OpenRouter's ``reasoning``, which it translates for each provider."""
    if level == "off":
        return {"reasoning": {"effort": "none"}}
    if budget is not None:
        return {"reasoning": {"max_tokens": budget}}
    return {"reasoning": {"effort": nearest(level, ("minimal", *_PLAIN, "xhigh"))}}


def together(level: str, budget: int | None, model: str) -> Fields:
    """Together's: a switch for off, an effort for the rest."""
    return {"reasoning": {"enabled": False}} if level == "off" else by_effort(level, budget, model)


def by_switch(level: str, budget: int | None, model: str) -> Fields:
    """``thinking``, enabled or disabled (Z.AI, Moonshot, DeepSeek)."""
    return {"thinking": {"type": "disabled" if level == "off" else "enabled"}}


def by_flag(level: str, budget: int | None, model: str) -> Fields:
    """``enable_thinking``, and a budget where there is one (Alibaba, GPUStack)."""
    if level == "off":
        return {"enable_thinking": False}
    return {"enable_thinking": True, **({} if budget is None else {"thinking_budget": budget})}


def by_template(level: str, budget: int | None, model: str) -> Fields:
    """Variables of the chat template, which every family of open models names otherwise (llama.cpp, vLLM, NIM)."""
    on = level != "off"
    effort = by_effort(level, budget, model)
    return {**effort, "chat_template_kwargs": {"enable_thinking": on, "thinking": on, **effort}}
