"""Keys of model providers never get past the edge: not to a model, not into the state, not into a log."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from unspool import Agent, Message, ToolError, tool
from unspool.kernel import AuthError, Text, hide_secret, redaction, user_message
from unspool.kernel.json_edge import clean_json, clean_text
from unspool.kernel.redaction import MARK, redact
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlLog

BODY = "aB3" * 16
KEYS = [
    f"sk-ant-api03-{BODY}-AA",
    f"sk-proj-{BODY}_x",
    f"sk-or-v1-{'0af9' * 16}",
    f"sk-{BODY}",
    f"csk-{'k3' * 24}",
    f"AIza{(BODY * 2)[:35]}",
    f"gsk_{BODY}",
    f"xai-{BODY}{BODY}",
    f"hf_{BODY}",
    f"r8_{BODY}",
    f"nvapi-{BODY}-{BODY}",
    "AKIAABCDEFGHIJ234567",
    "ASIAABCDEFGHIJ234567",
    f"fw_{BODY}",
    f"pplx-{BODY}",
    f"tgp_v1_{BODY}",
]
HARMLESS = [
    "task-sk-learn-estimator-container-id-11",
    "the disk-usage of risk-assessment-and-more-words-than-that",
    "AKIA is a prefix, AKIASHORT no key",
    "hf_hub_download and fw_cfg are names",
    "sk-container-id-1 div.sk-toggleable__content",
    "a" * 5000 + " sk- " + "b" * 5000,
]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_known_by_its_form(key: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_lacks_key", redaction._load() if fast else None)
    for text in (key, f"API_KEY={key}", f'{{"key": "{key}"}}', f"{key}\nand more", f"{key} twice {key}"):
        assert redact(text) == text.replace(key, MARK)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text) == text


def test_long_texts_are_searched_too() -> None:
    assert clean_text("x " * 20_000 + KEYS[0] + " y" * 20_000) == "x " * 20_000 + MARK + " y" * 20_000
    assert clean_text("\ud800" * 2000 + f" {KEYS[0]}").endswith(f"\ufffd {MARK}")


def test_a_secret_that_is_told_is_known_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", ())
    hide_secret("correct horse battery")
    hide_secret("short")
    assert clean_text("say: correct horse battery staple, short") == f"say: {MARK} staple, short"
    assert clean_json({"a": ["correct horse battery"]})[0] == {"a": [MARK]}


def test_no_key_gets_past_the_edge(tmp_path: Path) -> None:
    key = KEYS[0]

    @tool
    def leak(note: str) -> str:
        """Read a file with a key in it."""
        return f"KEY={key}"

    @tool
    def fail() -> str:
        """Fail with a key in the words."""
        raise ToolError(f"refused {key}", header={"x-api-key": key})

    script: list[Any] = [
        [f"I use {key}", call("c1", "leak", note=key), call("c2", "fail")],
        AuthError(f"Incorrect API key provided: {key}", sent=key),
    ]
    model = ScriptedModel(script)

    async def main() -> Agent[str]:
        with JsonlLog(tmp_path / "log.jsonl") as log:
            agent = Agent(model, tools=[leak, fail], system=f"the key is {key}", log=log)
            prompt = user_message(f"try {key}", metadata={"from": key})
            await agent.run([Message(role="user", content=(Text(f"first {key}"),)), prompt])
            assert log.state() == agent.state
            return agent

    agent = anyio.run(main)
    assert key not in (tmp_path / "log.jsonl").read_text()
    assert key not in repr(agent.state)
    assert key not in repr(model.requests)
    assert f"KEY={MARK}" in repr(model.requests[1])
