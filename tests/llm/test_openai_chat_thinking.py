"""How hard to think, in the words of each server: the fields for each level, row by row."""

import doctest
import json
from typing import Any

import pytest

from unspool.kernel.ports import LEVELS, CallOptions, ModelRequest, ThinkingLevel
from unspool.llm import PRESETS, ChatDialect, openai_chat_thinking
from unspool.llm.openai_chat_request import encode_request
from unspool.llm.openai_responses_request import ResponsesDialect
from unspool.llm.openai_responses_request import encode_request as encode_response

Row = tuple[Any, Any, Any, Any, Any, Any, Any]
"""What is sent for each level, None for nothing."""

_: None = None
NOTHING: Row = (_, _, _, _, _, _, _)
LOW_TO_HIGH: Row = (_, "low", "low", "medium", "high", "high", "high")
LOW_TO_XHIGH: Row = (_, "low", "low", "medium", "high", "xhigh", "xhigh")
NONE_TO_HIGH: Row = ("none", "low", "low", "medium", "high", "high", "high")

# OpenAI's families, in chat/completions and in Responses alike.
OPENAI: dict[str, Row] = {
    "o3": LOW_TO_HIGH,
    "codex-mini-latest": LOW_TO_HIGH,
    "gpt-oss-120b": LOW_TO_HIGH,
    "my-deployment": LOW_TO_HIGH,
    "gpt-4.1": NOTHING,
    "gpt-4o-mini": NOTHING,
    "openai/gpt-4o": NOTHING,
    "ft:gpt-4o-mini-2024-07-18:acme::x": NOTHING,
    "ft:gpt-4.1-2025-04-14:acme:like-o3:x": NOTHING,
    "ft:o4-mini-2025-04-16:acme:gpt-4o:x": LOW_TO_HIGH,
    "gpt-audio": NOTHING,
    "chatgpt-4o-latest": NOTHING,
    "gpt-5-chat-latest": NOTHING,
    "gpt-5": ("minimal", "minimal", "low", "medium", "high", "high", "high"),
    "gpt-5-mini": ("minimal", "minimal", "low", "medium", "high", "high", "high"),
    "gpt-5-codex": LOW_TO_HIGH,
    "gpt-5-pro": (_, "high", "high", "high", "high", "high", "high"),
    "gpt-5.1": NONE_TO_HIGH,
    "gpt-5.1-codex": LOW_TO_HIGH,
    "gpt-5.1-codex-mini": LOW_TO_HIGH,
    "gpt-5.1-codex-max": LOW_TO_XHIGH,
    "gpt-5.2-codex": LOW_TO_XHIGH,
    "gpt-5.3-codex": LOW_TO_XHIGH,
    "gpt-5.2": ("none", "low", "low", "medium", "high", "xhigh", "xhigh"),
    "gpt-5.2-pro": (_, "medium", "medium", "medium", "high", "xhigh", "xhigh"),
    "gpt-5.4": ("none", "low", "low", "medium", "high", "xhigh", "xhigh"),
}


def sent(
    provider: str, model: str, thinking: ThinkingLevel | None, budget: int | None = None
) -> dict[str, Any]:
    """What a request says of thinking."""
    dialect = PRESETS[provider].dialect
    request = ModelRequest(messages=[], options=CallOptions(thinking=thinking, thinking_budget=budget))
    assert isinstance(dialect, ChatDialect)
    body = json.loads(encode_request(request, f"{provider}/{model}", dialect))
    return {key: value for key, value in body.items() if key not in _ALWAYS}


_ALWAYS = ("model", "messages", "stream", "stream_options")


@pytest.mark.parametrize("model", OPENAI)
@pytest.mark.parametrize("provider", ["openai", "azure"])
def test_openai(provider: str, model: str) -> None:
    assert tuple(sent(provider, model, level).get("reasoning_effort") for level in LEVELS) == OPENAI[model]


@pytest.mark.parametrize("model", OPENAI)
def test_openai_responses(model: str) -> None:
    found = []
    for level in LEVELS:
        request = ModelRequest(messages=[], options=CallOptions(thinking=level))
        body = json.loads(encode_response(request, f"openai/{model}", ResponsesDialect()))
        reasoning = body.get("reasoning", {})
        found.append(reasoning.get("effort"))
        assert ("summary" in reasoning) == (reasoning.get("effort") not in (None, "none"))
        asked = "reasoning" in body if model == "my-deployment" else OPENAI[model] != NOTHING
        assert ("include" in body) == asked
    assert tuple(found) == OPENAI[model]


# Others that take ``reasoning_effort``.
EFFORTS: dict[tuple[str, str], Row] = {
    ("groq", "qwen/qwen3-32b"): ("none", "default", "default", "default", "default", "default", "default"),
    ("groq", "openai/gpt-oss-20b"): LOW_TO_HIGH,
    ("cerebras", "zai-glm-4.7"): NONE_TO_HIGH,
    ("cerebras", "gpt-oss-120b"): LOW_TO_HIGH,
    ("xai", "grok-3-mini"): (_, "low", "low", "high", "high", "high", "high"),
    ("xai", "grok-4"): NOTHING,
    ("fireworks", "m"): NONE_TO_HIGH,
    ("ollama", "m"): NONE_TO_HIGH,
    ("huggingface", "m"): LOW_TO_HIGH,
    ("openai-compat", "m"): LOW_TO_HIGH,
}


@pytest.mark.parametrize("key", EFFORTS, ids="/".join)
def test_efforts(key: tuple[str, str]) -> None:
    provider, model = key
    found = [sent(provider, model, level) for level in LEVELS]
    assert tuple(fields.get("reasoning_effort") for fields in found) == EFFORTS[key]
    assert all(fields.keys() <= {"reasoning_effort"} for fields in found)


# Those with words of their own: off, low, max.
ON, OFF = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}


def template(effort: str | None) -> dict[str, Any]:
    words = {} if effort is None else {"reasoning_effort": effort}
    on = effort is not None
    return {**words, "chat_template_kwargs": {"enable_thinking": on, "thinking": on, **words}}


OWN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "deepseek": (OFF, ON, ON),
    "moonshot": (OFF, ON, ON),
    "zai": (OFF, ON, ON),
    "alibaba": ({"enable_thinking": False}, {"enable_thinking": True}, {"enable_thinking": True}),
    "sarvam": ({"reasoning_effort": None}, {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
    "together": (
        {"reasoning": {"enabled": False}},
        {"reasoning_effort": "low"},
        {"reasoning_effort": "high"},
    ),
    "openrouter": (
        {"reasoning": {"effort": "none"}},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"effort": "xhigh"}},
    ),
    "llamacpp": (template(None), template("low"), template("high")),
    "vllm": (template(None), template("low"), template("high")),
    "nvidia": (template(None), template("low"), template("high")),
}


@pytest.mark.parametrize("provider", OWN)
def test_words_of_their_own(provider: str) -> None:
    assert tuple(sent(provider, "m", level) for level in ("off", "low", "max")) == OWN[provider]


BUDGETS: dict[str, dict[str, Any]] = {
    "openrouter": {"reasoning": {"max_tokens": 3000}},
    "alibaba": {"enable_thinking": True, "thinking_budget": 3000},
    "openai-compat": {"reasoning_effort": "low"},  # has no word for it
}


@pytest.mark.parametrize("provider", BUDGETS)
def test_budgets(provider: str) -> None:
    assert sent(provider, "m", "low", 3000) == BUDGETS[provider]


@pytest.mark.parametrize(
    "budget, effort", [(1, "low"), (2048, "low"), (2049, "medium"), (16_384, "high"), (99_999, "xhigh")]
)
def test_a_budget_alone_is_a_level_where_a_server_counts_no_tokens(budget: int, effort: str) -> None:
    assert sent("openai", "gpt-5.2", None, budget) == {"reasoning_effort": effort}
    assert sent("openrouter", "m", None, budget) == {"reasoning": {"max_tokens": budget}}


def test_a_word_that_is_no_level_is_refused() -> None:
    for word in ("hgih", "", "adaptive"):
        with pytest.raises(ValueError, match="no such thinking level"):
            CallOptions(thinking=word)  # type: ignore[arg-type]  # what is tested


def test_nothing_is_sent_where_nothing_is_asked_for() -> None:
    for provider, preset in PRESETS.items():
        if isinstance(preset.dialect, ChatDialect):
            assert sent(provider, "m", None) == {}


def test_doctests() -> None:
    assert doctest.testmod(openai_chat_thinking).failed == 0
