"""The providers that speak a wire format we know, as data, and how a name becomes a model.

Read with: ``openai_chat.py``.
"""

import os
from dataclasses import dataclass, field

from unspool.kernel.errors import AuthError, BadRequestError
from unspool.kernel.ports import ChatModel

from .openai_chat import OpenAIChatModel
from .openai_chat_request import Dialect


@dataclass(frozen=True, slots=True)
class Preset:
    """A provider: where it is, and which environment variables hold its key and another base URL.

    ``key_variable`` is None for a server that asks for no key.
    """

    base_url: str
    key_variable: str | None
    url_variable: str
    dialect: Dialect = field(default_factory=Dialect)


PRESETS: dict[str, Preset] = {
    "openai": Preset(
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        Dialect(max_tokens="max_completion_tokens", top_effort="xhigh", cache_key=True),
    ),
    "openrouter": Preset(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "OPENROUTER_BASE_URL",
        Dialect(top_effort="xhigh", replay_thinking="reasoning", cache_marks=True),
    ),
    "groq": Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY", "GROQ_BASE_URL"),
    "deepseek": Preset(
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        Dialect(replay_thinking="reasoning_content"),
    ),
    "xai": Preset("https://api.x.ai/v1", "XAI_API_KEY", "XAI_BASE_URL"),
    "together": Preset("https://api.together.xyz/v1", "TOGETHER_API_KEY", "TOGETHER_BASE_URL"),
    "ollama": Preset("http://127.0.0.1:11434/v1", None, "OLLAMA_BASE_URL"),
    "local": Preset("http://127.0.0.1:8080/v1", None, "LOCAL_BASE_URL"),  # llama.cpp's default port
}
"""The providers that ``resolve_model`` knows, by the name that stands before the slash."""


def resolve_model(name: str, *, base_url: str | None = None, api_key: str | None = None) -> ChatModel:
    """The model that ``provider/model`` names, with the key and the URL from the environment.

    ``api_key`` and ``base_url`` beat the environment. With a ``base_url`` the provider may be any
    label, and no key is needed: whether one is, only that server knows.

    Raises:
        BadRequestError: the name has no provider, or one that is not known.
        AuthError: the provider's key is not set.
    """
    provider, slash, model = name.partition("/")
    preset = PRESETS.get(provider)
    if not (slash and model) or (preset is None and base_url is None):
        what = "no such provider" if slash and model else "a model is named provider/model"
        raise BadRequestError(f"provider: {what}", name=name, providers=list(PRESETS))
    if preset is None:
        return OpenAIChatModel(name, base_url=base_url or "", api_key=api_key)
    variable = preset.key_variable
    key = api_key or (os.environ.get(variable, "").strip() if variable else "")
    if variable and not key and base_url is None:
        raise AuthError(
            f"provider: no API key: set {variable}, or pass api_key", model=name, variable=variable
        )
    url = base_url or os.environ.get(preset.url_variable, "").strip() or preset.base_url
    return OpenAIChatModel(name, base_url=url, api_key=key, dialect=preset.dialect)
