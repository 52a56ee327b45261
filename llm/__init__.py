"""Chat models: one file per wire format, and models that play a script."""

if __name__ != "unspool.llm":
    raise ImportError("llm/ is not a top-level package: import unspool.llm")

from .anthropic import AnthropicModel
from .anthropic_dialect import AnthropicDialect
from .faults import classify_provider
from .gemini import GeminiModel
from .gemini_request import GeminiDialect
from .http_model import HttpModel
from .keys import ApiKey
from .openai_chat import OpenAIChatModel
from .openai_chat_dialect import ChatDialect
from .openai_responses import OpenAIResponsesModel
from .openai_responses_request import ResponsesDialect
from .origins import LeftOutWarning, ModelWarning
from .presets import PRESETS, Preset, model
from .prices import Price, kept_prices

__all__ = [
    "PRESETS",
    "AnthropicDialect",
    "AnthropicModel",
    "ApiKey",
    "ChatDialect",
    "GeminiDialect",
    "GeminiModel",
    "HttpModel",
    "LeftOutWarning",
    "ModelWarning",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "Preset",
    "Price",
    "ResponsesDialect",
    "classify_provider",
    "kept_prices",
    "model",
]
