"""The providers we know, as data, and how a name becomes a model.

Keys and URLs come from the environment, by the names that the providers' own tools use. A key variable may hold
several keys, separated by commas: they take turns (``keys.py``). No key has a comma in it.

Read with: ``openai_chat.py``, ``openai_responses.py``, ``anthropic.py``, ``gemini.py`` (the formats),
``openai_chat_dialect.py`` and ``openai_chat_thinking.py`` (where chat servers differ).
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, TypeAlias, Unpack

from unspool.kernel.errors import AuthError, BadRequestError

from .anthropic import ANTHROPIC_URL, AnthropicModel
from .anthropic_dialect import AnthropicDialect
from .gemini import GeminiModel, vertex_base_url
from .gemini_request import GeminiDialect
from .http_model import HttpModel, ModelOptions
from .keys import ApiKey
from .openai_chat import OpenAIChatModel
from .openai_chat_dialect import ChatDialect
from .openai_chat_thinking import (
    by_effort_or_none,
    by_effort_or_null,
    by_flag,
    by_switch,
    by_template,
    cerebras,
    groq,
    openai,
    openrouter,
    together,
    xai,
)
from .openai_responses import OpenAIResponsesModel
from .openai_responses_request import ResponsesDialect

_OTHER_NAMES: Final = {
    "google": "gemini",
    "claude": "anthropic",
    "gpt": "openai",
    "grok": "xai",
    "kimi": "moonshot",
}
Quirks: TypeAlias = ChatDialect | ResponsesDialect | AnthropicDialect | GeminiDialect
"""Where a server differs; its type says which format it speaks."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A provider: where it is, how it speaks, and which environment variables say what of it.

    ``base_url`` is a URL, or a function that makes one for a model out of the environment; empty is none: it has
    to be given. ``key_variables`` are looked for in order. ``url_variable`` holds another base URL. Where
    ``needs_key`` is False, a key is sent if there is one.
    """

    base_url: str | Callable[[str], str]
    key_variables: tuple[str, ...]
    url_variable: str
    dialect: Quirks = ChatDialect()  # noqa: RUF009  # frozen
    needs_key: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.key_variables, str):
            raise TypeError(f"preset: key_variables is a tuple of names, not {self.key_variables!r}")
        if not isinstance(self.dialect, Quirks):
            raise TypeError(
                f"preset: a dialect says which format it is: {_names(Quirks)}, not {self.dialect!r}"
            )


def _names(kinds: UnionType) -> str:
    return ", ".join(kind.__name__ for kind in kinds.__args__)


def _variable(*names: str) -> str:
    """The first of these environment variables that is set, or ''."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _azure_url(model: str) -> str:
    """Azure's v1 API, or that of one deployment where a dated version of the API is asked for.

    The endpoint is taken as Azure shows it: bare, as a base URL, or as the target of a deployment.
    """
    endpoint = _variable("AZURE_OPENAI_ENDPOINT").partition("/openai")[0].rstrip("/")
    if not endpoint and (resource := _variable("AZURE_RESOURCE_NAME")):
        endpoint = f"https://{resource}.openai.azure.com"
    if not endpoint:
        raise BadRequestError(
            "provider: no endpoint: set AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_BASE_URL, or pass base_url",
            model=f"azure/{model}",
        )
    version = _variable("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
    if version[:1].isdigit():
        return f"{endpoint}/openai/deployments/{model}?api-version={version}"
    return f"{endpoint}/openai/v1" + (f"?api-version={version}" if version else "")


def _vertex_url(model: str) -> str:
    project = _variable("GOOGLE_CLOUD_PROJECT", "GOOGLE_VERTEX_PROJECT")
    if not project:
        what = "no project: set GOOGLE_CLOUD_PROJECT or VERTEX_BASE_URL, or pass base_url"
        raise BadRequestError(f"provider: {what}", model=f"vertex/{model}")
    return vertex_base_url(project, _variable("GOOGLE_CLOUD_LOCATION", "GOOGLE_VERTEX_LOCATION") or "global")


def _chat(
    base_url: str, prefix: str, dialect: ChatDialect | None = None, *, needs_key: bool = True
) -> Preset:
    """A chat server whose variables are called after it."""
    return Preset(base_url, (f"{prefix}_API_KEY",), f"{prefix}_BASE_URL", dialect or ChatDialect(), needs_key)


_OPENAI_CHAT = ChatDialect(max_tokens="max_completion_tokens", thinking=openai, cache_key=True)
_REPLAYS = "reasoning_content"
_CALLS_WITH_THINKING = ChatDialect(
    thinking=by_switch, replay_thinking=_REPLAYS, thinking_with_calls=True, strict=False
)
_DEEPSEEK = replace(_CALLS_WITH_THINKING, json_schema=False)
_LOCAL = ChatDialect(thinking=by_template, replay_thinking=_REPLAYS)

PRESETS: dict[str, Preset] = {
    "openai": _chat("https://api.openai.com/v1", "OPENAI", _OPENAI_CHAT),
    "openai-responses": Preset(
        "https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", ResponsesDialect()
    ),
    "azure": Preset(
        _azure_url,
        ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        "AZURE_OPENAI_BASE_URL",
        ChatDialect(
            max_tokens="max_completion_tokens", thinking=openai, cache_key=True, key_header="api-key"
        ),
    ),
    "anthropic": Preset(ANTHROPIC_URL, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", AnthropicDialect()),
    "gemini": Preset(
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "GEMINI_BASE_URL",
        GeminiDialect(),
    ),
    "vertex": Preset(
        _vertex_url, ("GOOGLE_OAUTH_ACCESS_TOKEN",), "VERTEX_BASE_URL", GeminiDialect(bearer=True)
    ),
    "openrouter": _chat(
        "https://openrouter.ai/api/v1",
        "OPENROUTER",
        ChatDialect(thinking=openrouter, replay_thinking="reasoning", cache_marks=True),
    ),
    "xai": _chat("https://api.x.ai/v1", "XAI", ChatDialect(thinking=xai)),
    "deepseek": _chat(
        "https://api.deepseek.com/v1",
        "DEEPSEEK",
        _DEEPSEEK,
    ),
    "moonshot": _chat(
        "https://api.moonshot.ai/v1",
        "MOONSHOT",
        _CALLS_WITH_THINKING,
    ),
    "zai": _chat(
        "https://api.z.ai/api/paas/v4",
        "ZAI",
        ChatDialect(thinking=by_switch, replay_thinking=_REPLAYS, strict=False),
    ),
    "alibaba": Preset(
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        "DASHSCOPE_BASE_URL",
        ChatDialect(thinking=by_flag, strict=False),
    ),
    "sarvam": _chat(
        "https://api.sarvam.ai/v1", "SARVAM", ChatDialect(thinking=by_effort_or_null, strict=False)
    ),
    "groq": _chat("https://api.groq.com/openai/v1", "GROQ", ChatDialect(thinking=groq)),
    "cerebras": _chat("https://api.cerebras.ai/v1", "CEREBRAS", ChatDialect(thinking=cerebras)),
    "together": _chat(
        "https://api.together.xyz/v1", "TOGETHER", ChatDialect(thinking=together, strict=False)
    ),
    "fireworks": _chat(
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS",
        ChatDialect(thinking=by_effort_or_none, replay_thinking=_REPLAYS),
    ),
    "huggingface": Preset("https://router.huggingface.co/v1", ("HF_TOKEN",), "HF_INFERENCE_BASE_URL"),
    "nvidia": _chat(
        "https://integrate.api.nvidia.com/v1", "NVIDIA", ChatDialect(thinking=by_template, strict=False)
    ),
    "ollama": _chat(
        "http://127.0.0.1:11434/v1", "OLLAMA", ChatDialect(thinking=by_effort_or_none), needs_key=False
    ),
    "llamacpp": _chat("http://127.0.0.1:8080/v1", "LLAMACPP", _LOCAL, needs_key=False),
    "vllm": _chat(
        "http://127.0.0.1:8000/v1",
        "VLLM",
        ChatDialect(thinking=by_template, replay_thinking="reasoning"),
        needs_key=False,
    ),
    "local": _chat("http://127.0.0.1:8080/v1", "LOCAL", _LOCAL, needs_key=False),  # llama.cpp's default port
    "openai-compat": _chat("", "OPENAI_COMPAT", needs_key=False),
}
"""The providers that ``model`` knows, by the name that stands before the slash."""


def model(
    name: str, *, base_url: str | None = None, dialect: Quirks | None = None, **options: Unpack[ModelOptions]
) -> HttpModel:
    """The model that ``provider/model`` names, with its keys and its URL from the environment.

    ``api_key`` and ``base_url`` beat the environment; with a ``base_url`` no key is needed: whether one is, only
    that server knows. A server of one's own is ``openai-compat/model``, or goes by any other name that is not
    taken, and has a ``base_url``. ``dialect`` says otherwise how the server speaks, and in which format. The other
    options are those of ``HttpModel``. A key of the environment goes to a ``base_url`` too.

    Raises:
        TypeError: there is no such option, or no such kind of dialect.
        BadRequestError: the name has no provider, or one that is not known, or nothing says where it is.
        AuthError: the provider's key is not set.
    """
    provider, slash, wire_name = name.partition("/")
    if not (slash and wire_name):
        raise BadRequestError(f"provider: a model is named provider/model{_meant(name)}", **_known(name))
    preset = PRESETS.get(provider)
    if preset is None and base_url is None:
        what = f"no such provider{_meant(provider)}: take a known one, or openai-compat/model with a base_url"
        raise BadRequestError(f"provider: {what}", **_known(name))
    preset = preset or PRESETS["openai-compat"]
    url = base_url or _variable(preset.url_variable) or _url(preset, name)
    options["api_key"] = _key(preset, name, options.get("api_key"), needed=base_url is None)
    return _made(name, url, preset.dialect if dialect is None else dialect, options)


def _meant(word: str) -> str:
    """The provider that was probably meant, as a question: by the beginning of a name, or by likeness."""
    first = re.split(r"[/:]", word)[0].lower().replace("_", "-")
    known = {**dict.fromkeys(PRESETS), **_OTHER_NAMES}
    begun = max((name for name in known if first.startswith(name)), key=len, default="")
    alike = begun or next(iter(get_close_matches(first, known, 1, cutoff=0.75)), "")
    found = known.get(alike) or alike
    return f" (did you mean {found}/…?)" if found else ""


def _known(name: str) -> dict[str, Any]:
    return {"name": name, "providers": ", ".join(PRESETS)}


def _url(preset: Preset, name: str) -> str:
    if callable(preset.base_url):
        return preset.base_url(name.partition("/")[2])
    if not preset.base_url:
        what = f"no base URL: set {preset.url_variable}, or pass base_url"
        raise BadRequestError(f"provider: {what}", model=name, variable=preset.url_variable)
    return preset.base_url


def _key(preset: Preset, name: str, given: ApiKey, *, needed: bool) -> ApiKey:
    if given:
        return given
    keys = [key for each in _variable(*preset.key_variables).split(",") if (key := each.strip())]
    if not keys and needed and preset.needs_key:
        variable = preset.key_variables[0]
        raise AuthError(
            f"provider: no API key: set {variable}, or pass api_key", model=name, variable=variable
        )
    return keys


def _made(name: str, url: str, dialect: Quirks, options: ModelOptions) -> HttpModel:
    if not isinstance(dialect, Quirks):
        raise TypeError(f"model: a dialect is one of {_names(Quirks)}, not {dialect!r}")
    match dialect:
        case ChatDialect():
            return OpenAIChatModel(name, base_url=url, dialect=dialect, **options)
        case ResponsesDialect():
            return OpenAIResponsesModel(name, base_url=url, dialect=dialect, **options)
        case AnthropicDialect():  # the default depends on the URL
            quirks = None if dialect == AnthropicDialect() else dialect
            return AnthropicModel(name, base_url=url, dialect=quirks, **options)
        case GeminiDialect():
            return GeminiModel(name, base_url=url, dialect=dialect, **options)
