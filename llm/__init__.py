"""Chat models: one file per wire format, and models that play a script."""

if __name__ != "unspool.llm":
    raise ImportError("llm/ is not a top-level package: import unspool.llm")

from .openai_chat import OpenAIChatModel
from .openai_chat_request import Dialect
from .presets import PRESETS, Preset, resolve_model

__all__ = ["PRESETS", "Dialect", "OpenAIChatModel", "Preset", "resolve_model"]
