"""How many tokens models take: as they are told, as the list has it, or by their family."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.kernel.ports import ChatModel, window_of
from unspool.llm import OpenAIChatModel, model, windows
from unspool.llm.scripted import ScriptedModel
from unspool.llm.windows import known_window

FAMILIES = {
    "anthropic/claude-3-5-haiku-latest": 200_000,
    "anthropic/claude-opus-4-20250514": 200_000,
    "anthropic/claude-sonnet-4-5": 200_000,
    "anthropic/claude-opus-4-6": 1_000_000,
    "anthropic/claude-sonnet-5-5": 1_000_000,
    "openai/gpt-4.1-mini": 1_047_576,
    "openai/gpt-4o-2024-11-20": 128_000,
    "openai-responses/gpt-5-mini": 400_000,
    "openai/gpt-5-chat-latest": 128_000,
    "openai/gpt-5.3-codex": 400_000,
    "openai/gpt-5.4": 1_000_000,
    "openai/gpt-5.4-mini": 400_000,
    "azure/o3": 200_000,
    "openai/o4-mini": 200_000,
    "openai/o1-preview": 128_000,
    "openai/omni": 0,
    "gemini/gemini-2.5-pro": 1_048_576,
    "vertex/gemini-3-pro-preview": 1_048_576,
    "openrouter/google/gemini-2.0-flash": 1_048_576,
    "openrouter/anthropic/claude-sonnet-4.5": 200_000,
    "xai/grok-4-fast-reasoning": 2_000_000,
    "xai/grok-4-0709": 256_000,
    "mine/claude-haiku-4-5": 200_000,
    "ollama/qwen3:8b": 0,
    "local/gpt-oss-120b": 0,
    "openai-compat/my-model": 0,
}


@pytest.fixture
def no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_library", lambda: None)


@pytest.mark.usefixtures("no_list")
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    assert known_window(name) == FAMILIES[name]


@pytest.fixture
def forgotten() -> Iterator[None]:
    windows._library.cache_clear()
    yield
    windows._library.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_without_the_list_the_families_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    assert known_window("openai/gpt-4o") == 128_000


LISTED = {
    "a model that only the list knows": ("deepseek/deepseek-chat", True),
    "another name for its provider": ("moonshot/kimi-k2.5", True),
    "one of a server of one's own": ("mine/deepseek-chat", False),
    "one that nobody knows": ("openai/nothing-like-it", False),
}


@pytest.mark.skipif(importlib.util.find_spec("genai_prices") is None, reason="genai-prices is not installed")
@pytest.mark.parametrize("name", LISTED)
def test_the_list(name: str) -> None:
    model_name, is_listed = LISTED[name]
    assert (known_window(model_name) > 0) == is_listed


@pytest.mark.usefixtures("no_list")
def test_a_family_stands_in_for_the_list() -> None:
    assert known_window("gemini/gemini-2.5-pro") == 1_048_576


@pytest.mark.usefixtures("no_list")
def test_models_say_it() -> None:
    asked: dict[str, tuple[ChatModel, int]] = {
        "looked up": (model("openai/gpt-4o", api_key="k"), 128_000),
        "told": (model("openai/gpt-4o", api_key="k", context_window=64_000), 64_000),
        "of a server of one's own": (model("local/m", context_window=8_192), 8_192),
        "unknown": (model("local/m"), 0),
        "a script": (ScriptedModel(context_window=1_000), 1_000),
        "a script that does not say": (ScriptedModel(), 0),
    }
    assert {name: window_of(each) for name, (each, _) in asked.items()} == {
        name: window for name, (_, window) in asked.items()
    }


def test_it_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def look_up(name: str) -> int:
        asked.append(name)
        return 7

    monkeypatch.setattr("unspool.llm.http_model.known_window", look_up)
    one = OpenAIChatModel("a/b", base_url="http://h")
    assert asked == []
    assert (one.context_window, one.context_window, asked) == (7, 7, ["a/b"])


def test_less_than_nothing_is_no_window() -> None:
    with pytest.raises(ValueError, match="context window"):
        OpenAIChatModel("a/b", base_url="http://h", context_window=-1)
