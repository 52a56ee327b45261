"""From a name to a model, and what importing costs."""

import subprocess
import sys

import anyio
import pytest

from unspool.kernel.errors import AuthError, BadRequestError
from unspool.llm import PRESETS, OpenAIChatModel, resolve_model


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in PRESETS.values():
        for variable in (preset.key_variable, preset.url_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)


def facts(model: object) -> tuple[str, str, str, str]:
    assert isinstance(model, OpenAIChatModel)
    return model.name, model._model, model._url(), anyio.run(model._keys.take)


def test_a_key_and_a_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " k1\n")
    assert facts(resolve_model("openai/m")) == (
        "openai/m",
        "m",
        "https://api.openai.com/v1/chat/completions",
        "k1",
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/x/")
    assert facts(resolve_model("openai/m"))[2:] == ("http://127.0.0.1:1/x/chat/completions", "k1")


def test_arguments_beat_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    model = resolve_model("openai/m", base_url="http://127.0.0.1:2/chat/completions", api_key="k2")
    assert facts(model)[2:] == ("http://127.0.0.1:2/chat/completions", "k2")


def test_only_the_first_slash_parts_provider_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    assert facts(resolve_model("openrouter/org/m:free"))[:2] == ("openrouter/org/m:free", "org/m:free")


@pytest.mark.parametrize("provider", ["ollama", "local"])
def test_local_servers_need_no_key(provider: str) -> None:
    model = resolve_model(f"{provider}/m")
    assert facts(model)[2].startswith("http://127.0.0.1:")
    assert facts(model)[3] == ""


def test_a_server_of_ones_own_needs_no_preset() -> None:
    assert facts(resolve_model("mine/m", base_url="http://h/v1"))[2] == "http://h/v1/chat/completions"
    assert facts(resolve_model("openai/m", base_url="http://h/v1"))[3] == ""


@pytest.mark.parametrize("provider", [name for name, preset in PRESETS.items() if preset.key_variable])
def test_a_missing_key_names_its_variable(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = PRESETS[provider].key_variable or ""
    monkeypatch.setenv(variable, " ")
    with pytest.raises(AuthError, match=f"set {variable}"):
        resolve_model(f"{provider}/m")


@pytest.mark.parametrize("name", ["nobody/m", "openai", "openai/", "/m", ""])
def test_an_unknown_provider_gives_the_list(name: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        resolve_model(name)
    assert caught.value.details["providers"] == list(PRESETS)


def test_the_key_is_in_no_repr() -> None:
    model = resolve_model("openai/m", api_key="sk-1234")
    assert repr(model) == "OpenAIChatModel('openai/m')"


def test_importing_loads_no_http_client() -> None:
    """The first request pays for httpx, not every program that imports the package."""
    code = (
        "import sys, unspool.llm; print(sorted({'httpx', 'httpcore', 'pydantic', 'email'} & {*sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
