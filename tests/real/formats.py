"""The wire formats that servers are tried with, by the name that an answer's origin begins with."""

from typing import Any

from unspool import CallOptions, user_message
from unspool.kernel.ports import ModelRequest
from unspool.llm import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel
from unspool.llm.http_model import HttpModel

_MODELS: tuple[Any, ...] = (OpenAIChatModel, OpenAIResponsesModel, AnthropicModel, GeminiModel)
FORMATS: dict[str, Any] = {model.format: model for model in _MODELS}


def model_of(format_name: str, name: str, base_url: str, **options: Any) -> HttpModel:
    """A model of that format."""
    model: HttpModel = FORMATS[format_name](name, base_url=base_url, **options)
    return model


def ask(text: str, **options: Any) -> ModelRequest:
    """A question, to be answered the same each time, and briefly."""
    return ModelRequest(
        messages=[user_message(text)],
        options=CallOptions(**{"temperature": 0.0, "max_tokens": 40, **options}),
    )
