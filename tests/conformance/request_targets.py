"""Whom requests are for: each format, each of its dialects, and models that are asked in their own way.

Read with: ``request_table.py`` (the requests), ``unspool.llm.presets`` (the dialects of known providers).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from unspool.llm.anthropic import AnthropicModel
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.gemini import GeminiModel
from unspool.llm.gemini_request import GeminiDialect
from unspool.llm.http_model import HttpModel
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.openai_chat_dialect import ChatDialect
from unspool.llm.openai_responses import OpenAIResponsesModel
from unspool.llm.openai_responses_request import ResponsesDialect
from unspool.llm.presets import PRESETS
from unspool.llm.presets import model as model_of

_URL: Final = "https://example.org"


@dataclass(frozen=True)
class Target:
    """A model, and the dialect it speaks, as a preset or a word of our own."""

    dialect: str
    model: HttpModel


_MODELS: Final[dict[str, tuple[str, ...]]] = {  # where the default does not show all
    "openai": ("gpt-5.1", "gpt-5", "gpt-5.1-codex-max", "gpt-4o"),
    "openai-responses": ("gpt-5.1", "gpt-4o"),
    "groq": ("openai/gpt-oss-20b", "qwen/qwen3-32b"),
    "cerebras": ("zai-glm-4.6", "gpt-oss-120b"),
    "xai": ("grok-3-mini", "grok-4"),
    "anthropic": (
        "claude-sonnet-4-5",
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-sonnet-5-5",
        "claude-opus-5-5",
    ),
    "gemini": (
        "gemini-2.5-flash",
        "gemini-2.5-pro",
        "gemini-3-flash-preview",
        "gemini-3-pro",
        "gemma-3-27b-it",
    ),
    "vertex": ("gemini-3-flash-preview",),
}


def targets() -> Iterator[Target]:
    """The presets, and dialects that no preset has."""
    for provider, preset in PRESETS.items():
        url = preset.base_url if isinstance(preset.base_url, str) and preset.base_url else _URL
        for name in _MODELS.get(provider, ("m",)):
            yield Target(provider, model_of(f"{provider}/{name}", base_url=url, api_key="none"))
    yield Target("openai, whole", _chat(ChatDialect(), streaming=False))
    yield Target("chat gateway", _chat(_GATEWAY))
    yield Target("responses, stored", OpenAIResponsesModel("p/m", base_url=_URL, dialect=_STORED))
    yield Target(
        "responses, plain", OpenAIResponsesModel("p/m", base_url=_URL, dialect=_PLAIN, streaming=False)
    )
    yield Target("anthropic elsewhere", AnthropicModel("p/claude-sonnet-4-5", base_url=_URL, streaming=False))
    references = AnthropicDialect(tool_references=False)
    yield Target(
        "anthropic without references", AnthropicModel("p/claude-x", base_url=_URL, dialect=references)
    )
    older = GeminiDialect(json_schema=False)
    yield Target("gemini, older schemas", GeminiModel("p/gemini-2.5-flash", base_url=_URL, dialect=older))


_GATEWAY: Final = ChatDialect(
    system_role="developer",
    stream_usage=False,
    result_name=True,
    assistant_after_results=True,
    empty_tools=True,
)
_STORED: Final = ResponsesDialect(store=True, efforts=("none", "low", "high", "xhigh"), retention="24h")
_PLAIN: Final = ResponsesDialect(
    encrypted_reasoning=False, summary=None, cache_key=False, system_role="system", rich_results=False
)


def _chat(dialect: ChatDialect, *, streaming: bool = True) -> OpenAIChatModel:
    return OpenAIChatModel("p/m", base_url=_URL, dialect=dialect, streaming=streaming)
