"""The decoders under test, by the name of their format; those that are not there are left out."""

import contextlib
import importlib
from typing import Final

from unspool.llm.decoder import AnswerDecoder

_PLACES: Final = {
    "openai-chat": "openai_chat_stream:ChatDecoder",
    "openai-responses": "openai_responses_stream:ResponsesDecoder",
    "anthropic-messages": "anthropic_stream:AnthropicDecoder",
    "gemini": "gemini_stream:GeminiDecoder",
}


def decoders() -> dict[str, type[AnswerDecoder]]:
    """Each format's decoder."""
    found: dict[str, type[AnswerDecoder]] = {}
    for format, place in _PLACES.items():
        module, _, name = f"unspool.llm.{place}".partition(":")
        with contextlib.suppress(ImportError):
            found[format] = getattr(importlib.import_module(module), name)
    return found
