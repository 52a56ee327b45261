"""From a name to a model, and what importing costs."""

import subprocess
import sys
from typing import Any

import anyio
import pytest

from unspool.kernel.errors import AuthError, BadRequestError
from unspool.kernel.messages import user_message
from unspool.kernel.ports import CallOptions, ModelRequest
from unspool.llm import (
    PRESETS,
    AnthropicModel,
    ChatDialect,
    GeminiModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
    Preset,
    model,
)
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.gemini_request import GeminiDialect
from unspool.llm.http_model import HttpModel

_MORE = (
    *("AZURE_OPENAI_ENDPOINT", "AZURE_RESOURCE_NAME", "AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"),
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_VERTEX_LOCATION"),
)
REQUEST = ModelRequest(messages=[user_message("hi")], options=CallOptions(session_id="s"))


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in PRESETS.values():
        for variable in (*preset.key_variables, preset.url_variable):
            monkeypatch.delenv(variable, raising=False)
    for variable in _MORE:
        monkeypatch.delenv(variable, raising=False)


def key_of(made: HttpModel) -> str:
    return anyio.run(made._keys.take)


# --- what each provider is ----------------------------------------------------------------------

ADDRESSES: dict[str, tuple[type[HttpModel], str, str]] = {
    "openai": (OpenAIChatModel, "https://api.openai.com/v1/chat/completions", "authorization: Bearer k"),
    "openai-responses": (
        OpenAIResponsesModel,
        "https://api.openai.com/v1/responses",
        "authorization: Bearer k",
    ),
    "azure": (OpenAIChatModel, "https://mine.openai.azure.com/openai/v1/chat/completions", "api-key: k"),
    "anthropic": (AnthropicModel, "https://api.anthropic.com/v1/messages", "x-api-key: k"),
    "gemini": (
        GeminiModel,
        "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        "x-goog-api-key: k",
    ),
    "vertex": (
        GeminiModel,
        "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/m"
        + ":streamGenerateContent?alt=sse",
        "authorization: Bearer k",
    ),
    "openai-compat": (OpenAIChatModel, "http://h/v1/chat/completions", "authorization: Bearer k"),
}
CHAT: dict[str, str] = {
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "moonshot": "https://api.moonshot.ai/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "alibaba": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "sarvam": "https://api.sarvam.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "together": "https://api.together.xyz/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "huggingface": "https://router.huggingface.co/v1",
    "nvidia": "https://integrate.api.nvidia.com/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "local": "http://127.0.0.1:8080/v1",
}
ALL = ADDRESSES | {
    name: (OpenAIChatModel, f"{url}/chat/completions", "authorization: Bearer k")
    for name, url in CHAT.items()
}


def test_all_providers_are_in_the_table() -> None:
    assert ALL.keys() == PRESETS.keys()


@pytest.mark.parametrize("provider", ALL)
def test_where_a_provider_is_and_how_it_takes_a_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, url, header = ALL[provider]
    monkeypatch.setenv("AZURE_RESOURCE_NAME", "mine")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("OPENAI_COMPAT_BASE_URL", "http://h/v1")
    monkeypatch.setenv(PRESETS[provider].key_variables[0], "k")
    made = model(f"{provider}/m")
    assert type(made) is kind
    assert (made.name, made._url(), key_of(made)) == (f"{provider}/m", url, "k")
    assert [f"{name}: {value}" for name, value in made._auth("k").items()] == [header]
    assert made._body(REQUEST)


@pytest.mark.parametrize("provider", PRESETS)
def test_a_url_from_the_environment(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRESETS[provider].url_variable, "http://127.0.0.1:1/x/")
    monkeypatch.setenv(PRESETS[provider].key_variables[0], "k")
    assert model(f"{provider}/m")._url().startswith("http://127.0.0.1:1/x/")


@pytest.mark.parametrize("provider", PRESETS)
def test_a_missing_key_names_its_variable(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = PRESETS[provider].key_variables[0]
    monkeypatch.setenv(variable, " ")
    monkeypatch.setenv(PRESETS[provider].url_variable, "http://127.0.0.1:1")
    if PRESETS[provider].needs_key:
        with pytest.raises(AuthError, match=f"set {variable}"):
            model(f"{provider}/m")
    else:
        assert key_of(model(f"{provider}/m")) == ""


def test_servers_on_this_machine_and_of_ones_own_need_no_key() -> None:
    keyless = {name for name, preset in PRESETS.items() if not preset.needs_key}
    assert keyless == {"ollama", "llamacpp", "vllm", "local", "openai-compat"}


# --- keys and URLs ------------------------------------------------------------------------------


def test_a_key_with_white_space_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " k1\n")
    assert key_of(model("openai/m")) == "k1"


def test_keys_in_one_variable_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k1, k2,,")
    made = model("openai/m")
    assert [key_of(made) for _ in range(3)] == ["k1", "k2", "k1"]


def test_the_second_variable_counts_where_the_first_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    assert key_of(model("gemini/m")) == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert key_of(model("gemini/m")) == "first"


def test_arguments_beat_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    made = model("openai/m", base_url="http://127.0.0.1:2/chat/completions", api_key="k2")
    assert (made._url(), key_of(made)) == ("http://127.0.0.1:2/chat/completions", "k2")


def test_a_function_gives_the_key() -> None:
    async def token() -> str:
        return "t"

    made = model("vertex/m", base_url="http://h/v1/projects/p/locations/l/publishers/google", api_key=token)
    assert key_of(made) == "t"


def test_only_the_first_slash_parts_provider_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    made = model("openrouter/org/m:free")
    assert (made.name, made._model) == ("openrouter/org/m:free", "org/m:free")


def test_a_server_of_ones_own_needs_no_preset() -> None:
    assert model("mine/m", base_url="http://h/v1")._url() == "http://h/v1/chat/completions"
    assert key_of(model("openai/m", base_url="http://h/v1")) == ""


def test_openai_compat_has_to_be_told_where() -> None:
    with pytest.raises(BadRequestError, match="no base URL: set OPENAI_COMPAT_BASE_URL, or pass base_url"):
        model("openai-compat/m")
    assert model("openai-compat/m", base_url="http://h/v1")._url() == "http://h/v1/chat/completions"


AZURE: dict[str, tuple[dict[str, str], str]] = {
    "the v1 API": (
        {"AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com/"},
        "https://e.openai.azure.com/openai/v1/chat/completions",
    ),
    "a version of the API": (
        {"AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com", "AZURE_OPENAI_API_VERSION": "2025-01-01"},
        "https://e.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-01-01",
    ),
    "the v1 API by version": (
        {"AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com", "AZURE_OPENAI_API_VERSION": "preview"},
        "https://e.openai.azure.com/openai/v1/chat/completions?api-version=preview",
    ),
    "an endpoint that is a base URL": (
        {"AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com/openai/v1/"},
        "https://e.openai.azure.com/openai/v1/chat/completions",
    ),
    "an endpoint that is a target": (
        {
            "AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com/openai/deployments/m/chat/completions?api-version=1"
        },
        "https://e.openai.azure.com/openai/v1/chat/completions",
    ),
}


@pytest.mark.parametrize("name", AZURE)
def test_azure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables, url = AZURE[name]
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert model("azure/m", api_key="k")._url() == url


@pytest.mark.parametrize(
    "provider, said", [("azure", "set AZURE_OPENAI_ENDPOINT"), ("vertex", "set GOOGLE_CLOUD_PROJECT")]
)
def test_what_the_environment_does_not_tell(provider: str, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        model(f"{provider}/m", api_key="k")


def test_a_location_of_vertex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    found = model("vertex/m", api_key="k")._url()
    assert found.startswith(
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/"
    )


def test_presets_of_each_format() -> None:
    assert isinstance(PRESETS["groq"].dialect, ChatDialect)
    assert isinstance(PRESETS["anthropic"].dialect, AnthropicDialect)
    assert PRESETS["vertex"].dialect == GeminiDialect(bearer=True)


@pytest.mark.parametrize("name", ["nobody/m", "openai", "openai/", "/m", ""])
def test_an_unknown_provider_gives_the_list(name: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        model(name)
    assert caught.value.details["providers"] == ", ".join(PRESETS)


def test_the_key_is_in_no_repr() -> None:
    made = model("openai/m", api_key="sk-1234")
    assert repr(made) == "OpenAIChatModel('openai/m')"


def test_importing_loads_no_http_client() -> None:
    """The first request pays for httpx, not every program that imports the package."""
    code = (
        "import sys, unspool.llm; print(sorted({'httpx', 'httpcore', 'pydantic', 'email'} & {*sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("opnai/m", "openai"),
        ("Anthropic/m", "anthropic"),
        ("openai_responses/m", "openai-responses"),
        ("google/gemini-3", "gemini"),
        ("openai:gpt-5", "openai"),
        ("anthropic", "anthropic"),
        ("gpt-4o", "openai"),
        ("claude-sonnet-5", "anthropic"),
        ("kimi-k2", "moonshot"),
        ("Grok_4", "xai"),
        ("gemini-3-pro", "gemini"),
        ("open-ai/m", "openai"),
        ("openai-responses-v2/m", "openai-responses"),
    ],
)
def test_what_was_probably_meant(name: str, meant: str) -> None:
    with pytest.raises(BadRequestError, match=rf"did you mean {meant}/…\?"):
        model(name)


@pytest.mark.parametrize("name", ["mistral-large/m", "gort/m", "m"])
def test_where_nothing_is_alike_nothing_was_meant(name: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        model(name)
    assert "did you mean" not in str(caught.value)


def test_a_dialect_says_otherwise_how_a_server_speaks() -> None:
    made = model("openai/m", base_url="http://h", dialect=AnthropicDialect(auth="bearer"))
    assert type(made) is AnthropicModel and made._url() == "http://h/v1/messages"
    assert made._auth("k") == {"authorization": "Bearer k"}
    with pytest.raises(TypeError, match="a dialect is one of ChatDialect"):
        model("openai/m", base_url="http://h", dialect="chat")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"dialect": "chat"}, "a dialect says which format"), ({"key_variables": "KEY"}, "a tuple of names")],
)
def test_a_preset_that_is_none(changes: dict[str, Any], said: str) -> None:
    fields: dict[str, Any] = {"base_url": "http://h", "key_variables": (), "url_variable": "URL"}
    with pytest.raises(TypeError, match=said):
        Preset(**{**fields, **changes})


def test_a_preset_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "corp", Preset("http://llm.corp/v1", ("CORP_KEY",), "CORP_URL"))
    monkeypatch.setenv("CORP_KEY", "k")
    assert model("corp/m")._url() == "http://llm.corp/v1/chat/completions"
