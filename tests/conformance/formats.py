"""The wire formats and where each is built; one that is not there is skipped, not failed."""

import importlib
from typing import Any, Final, cast

from unspool.llm.decoder import AnswerDecoder
from unspool.llm.http_model import HttpModel

_DECODERS: Final = {
    "openai-chat": "unspool.llm.openai_chat_stream:ChatDecoder",
    "openai-responses": "unspool.llm.openai_responses_stream:ResponsesDecoder",
    "anthropic-messages": "unspool.llm.anthropic_stream:AnthropicDecoder",
    "gemini": "unspool.llm.gemini_stream:GeminiDecoder",
}
_MODELS: Final = {
    "openai-chat": "unspool.llm.openai_chat:OpenAIChatModel",
    "openai-responses": "unspool.llm.openai_responses:OpenAIResponsesModel",
    "anthropic-messages": "unspool.llm.anthropic:AnthropicModel",
    "gemini": "unspool.llm.gemini:GeminiModel",
}
FORMATS: Final = tuple(_DECODERS)
MODEL: Final = "p/m"  # what the models under test are called


def decoder_class(format: str) -> type[AnswerDecoder] | None:
    """What reads answers of ``format``; None where that is not built."""
    return cast("type[AnswerDecoder] | None", _find(_DECODERS.get(format)))


def model_of(format: str, base_url: str) -> HttpModel | None:
    """A model that speaks ``format`` with a server on this machine; None where that is not built."""
    found = _find(_MODELS.get(format))
    return None if found is None else cast(HttpModel, found(MODEL, base_url=base_url, api_key="none"))


def _find(place: str | None) -> Any:
    """The object at ``module:name``; None where there is no such module."""
    if place is None:
        return None
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name == module:
            return None
        raise
