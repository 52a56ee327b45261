"""Keys of model providers never get past the edge: not to a model, not into the state, not into a log."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Struct

from unspool import Agent, Message, ToolError, raw_tool, tool
from unspool.kernel import (
    AgentMessage,
    AuthError,
    CallOptions,
    Codec,
    CodecError,
    Compaction,
    Content,
    ContextScope,
    Document,
    Image,
    LogError,
    ModelRequest,
    Opaque,
    Projection,
    SystemBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinitionError,
    ToolSpec,
    hide_secret,
    make_call,
    redaction,
    user_message,
)
from unspool.kernel.cleaning import clean_tools
from unspool.kernel.json_edge import clean_json, clean_text
from unspool.kernel.messages import BaseMessage, clean_block
from unspool.kernel.ports import BlockEvent, ThinkingDelta
from unspool.kernel.redaction import MARK, holds_key, redact
from unspool.kernel.reply import ReplyBuilder
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlLog, JsonlSessions, SqliteSessions, recorded_settings, requests

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
    "hf_aBcDEfGhIjKLmNoPqRsTuVWxYzaBcDeFgH",
]
HARMLESS = [
    "task-sk-learn-estimator-container-id-11",
    "the disk-usage of risk-assessment-and-more-words-than-that",
    "AKIA is a prefix, AKIASHORT no key",
    "hf_hub_download and fw_cfg are names",
    "sk-container-id-1 div.sk-toggleable__content",
    "hf_HubDownloadConfigurationManagerFactory",
    "fw_updateServiceConfigurationManager",
    "sk-admin-panel-sidebar-component-width",
    "class sk-or-v1-foobarbazquxquuxcorge",
    "ASIAPACIFICREGION001",
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
    monkeypatch.setattr(redaction, "_known", {})
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


KEY = KEYS[0]
ESCAPED = KEY.replace("-", "\\u002d")


@pytest.mark.parametrize(
    "text",
    [
        f'{{"text":"{ESCAPED}"}}',
        f'{{"text":"\\u0073{KEY[1:]}"}}',
        f'{{ "text" : "{ESCAPED}" }}',
        f'"{{\\"text\\":\\"{KEY}\\"}}"',
        f'"{{\\"text\\":\\"{ESCAPED}\\"}}"',
    ],
)
def test_a_key_that_is_written_with_escapes_is_one(text: str) -> None:
    made = make_call("c1", "echo", text)
    assert (made.args, made.args_text, made.args_invalid) == ({"text": MARK}, None, False)


def test_a_key_at_the_beginning_of_a_line_is_one() -> None:
    made = make_call("c1", "echo", f'{{"text":"a\\n{KEY}"}}')
    assert (made.args, made.args_text) == ({"text": f"a\n{MARK}"}, None)


def test_escapes_that_hide_no_key_stay() -> None:
    made = make_call("c1", "echo", '{"text":"\\u0061\\n"}')
    assert (made.args, made.args_text) == ({"text": "a\n"}, '{"text":"\\u0061\\n"}')


def test_nothing_replays_a_key_of_a_call() -> None:
    cut = make_call("c1", "echo", f'{{"text":"{ESCAPED}')
    assert (cut.args, cut.args_text, cut.args_invalid) == ({}, None, True)
    given = ToolCall(id="c1", name="echo", args={"text": KEY}, args_text=f'{{"text":"{ESCAPED}"}}')
    assert clean_block(given)[0] == ToolCall(id="c1", name="echo", args={"text": MARK})


OPAQUE: list[Content] = [
    Image(data=KEYS[11], mime_type="image/png"),
    Image(url=f"data:image/png;base64,{KEYS[11]}"),
    Document(data=KEYS[11], mime_type="application/pdf"),
    Thinking(text="hm", signature=KEY),
    Thinking(redacted=KEY),
    ToolCall(id="c1", name="echo", thought_signature=KEY),
    Opaque(provider="p", data={"encrypted": [KEY]}),
]


@pytest.mark.parametrize("block", OPAQUE)
def test_what_is_binary_or_opaque_stays(block: Content) -> None:
    assert clean_block(block) == (block, 0)
    builder = ReplyBuilder()
    builder.add(BlockEvent(block, 0))
    assert builder.message().content == (block,)


def test_opaque_texts_have_no_surrogates_all_the_same() -> None:
    assert clean_block(Thinking(signature=f"\ud800{KEY}")) == (Thinking(signature=f"\ufffd{KEY}"), 1)
    builder = ReplyBuilder()
    builder.add(ThinkingDelta("hm", 0, f"\ud800{KEY}"))
    assert builder.message().content == (Thinking(text="hm", signature=f"\ufffd{KEY}"),)
    assert make_call("c1", "echo", "{}", thought_signature=KEY).thought_signature == KEY


def test_what_surrounds_opaque_data_is_clean() -> None:
    block = clean_block(Document(data=KEYS[11], url=f"https://x/?key={KEY}", name=KEY))[0]
    assert block == Document(data=KEYS[11], url=f"https://x/?key={MARK}", name=MARK)


def test_holding_a_key_is_asked_of_anything() -> None:
    assert holds_key({"a": [("x", KEY)]})
    assert holds_key({KEY: 1})
    assert holds_key(f"\ud800 {KEY}")
    assert not holds_key({"a": [None, 1, object()], "b": "\ud800" * 2000})
    deep: list[Any] = []
    deep.append(deep)
    assert not holds_key(deep)


@pytest.mark.parametrize(
    "given",
    [
        {"extra": {"headers": {"x-api-key": KEY}}},
        {"extra": {KEY: 1}},
        {"stop": (KEY,)},
        {"session_id": KEY},
        {"cache_key": KEY},
        {"response_format": {"title": KEY}},
        {"context_management": {"clear_results": {"exclude": [KEY]}}},
    ],
)
def test_options_hold_no_secrets(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="options: they are recorded and hold no secrets") as caught:
        CallOptions(**given)
    assert KEY not in str(caught.value)


def test_options_that_got_a_key_later_are_refused() -> None:
    options = CallOptions(extra={"headers": {}})
    agent = Agent(ScriptedModel(["ok"]), options=options)
    options.extra["headers"]["x-api-key"] = KEY
    with pytest.raises(ValueError, match="hold no secrets"):
        anyio.run(agent.run, "go")


@pytest.mark.parametrize(
    "make",
    [
        lambda: OpenAIChatModel(f"openai/{KEY}", base_url="https://x"),
        lambda: OpenAIChatModel(
            "openai/my-very-own-server-key", base_url="https://x", api_key="my-very-own-server-key"
        ),
        lambda: Agent(ScriptedModel(["ok"], name=f"p/{KEY}")),
    ],
)
def test_the_name_of_a_model_holds_no_key(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_known", {})
    with pytest.raises(ValueError, match="model: its name is recorded and holds no secrets"):
        make()


def test_what_a_tool_says_is_sent_and_stored_without_keys(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", "description": f"like {KEY}"}}}
    model = ScriptedModel([[call("c1", "ask")], "ok"])
    hint = raw_tool("ask", f"use {KEY}", schema, lambda args, ctx: "x", title=KEY, activity=lambda args: KEY)
    path = tmp_path / "log"
    with JsonlLog(path) as log:
        anyio.run(Agent(model, tools=[hint], log=log).run, "go")
        assert recorded_settings(log.state()).tools == model.requests[0].tools
    assert model.requests[0].tools[0].description == f"use {MARK}"
    assert KEY not in repr(model.requests)
    assert KEY not in path.read_text()


class Curious:
    """A context manager that asks a model about everything it was given."""

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        request = ModelRequest(
            messages=(Message(role="user", content=(Text(f"what is {KEY}?"),)),),
            system=(SystemBlock(text=f"forget {KEY}"),),
            tools=(ToolSpec(name="ask", description=f"use {KEY}", schema={"title": KEY}),),
        )
        await scope.call_model(request, "curiosity")
        return Projection(messages=view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        return Compaction(changed=False)

    def sync(self, view: Sequence[AgentMessage], /) -> None: ...

    def usage(self) -> None: ...

    def snapshot(self) -> None: ...


def test_what_a_strategy_asks_is_sent_and_stored_without_keys(tmp_path: Path) -> None:
    model, path = ScriptedModel(["a key", "ok"]), tmp_path / "log"
    with JsonlLog(path) as log:
        anyio.run(Agent(model, context=Curious(), log=log).run, "go")
    first, _ = requests(path)
    assert first.exact and list(first.request.messages) == list(model.requests[0].messages)
    assert (first.request.system, first.request.tools) == (model.requests[0].system, model.requests[0].tools)
    assert f"forget {MARK}" in repr(model.requests[0])
    assert KEY not in repr(model.requests)
    assert KEY not in path.read_text()


@pytest.mark.parametrize("secret", ["plain-and-simple-secret", 'with "quotes" and \\ and é\n'])
def test_a_hidden_secret_is_taken_out_of_tools(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", {})
    hide_secret(secret)
    (cleaned,) = clean_tools((ToolSpec(name="ask", description=f"use {secret}!", schema={}),))
    assert cleaned.description == f"use {MARK}!"
    kept = (ToolSpec(name="ask", description="run a task-like sk-thing", schema={}),)
    assert clean_tools(kept) is kept


def test_the_name_of_a_tool_holds_no_key() -> None:
    with pytest.raises(ToolDefinitionError, match="its name holds a key"):
        tool(lambda: "x", name=KEY)
    with pytest.raises(ToolDefinitionError, match="its name holds a key"):
        anyio.run(
            Agent(ScriptedModel(["ok"]), tools=[raw_tool(KEY, "", {}, lambda args, ctx: "x")]).run, "go"
        )


class Pasted(BaseMessage, Struct, frozen=True):
    note: str

    def to_message(self) -> Message:
        return user_message("x") if self.note == "kept" else Message(role="user", content=(Text(self.note),))


def test_no_model_sees_a_key_of_an_application_message() -> None:
    codec = Codec()
    codec.register("pasted", Pasted)
    model = ScriptedModel(["ok"])
    agent = Agent(model, codec=codec)
    with pytest.raises(CodecError, match="clean it in to_message"):
        anyio.run(agent.run, Pasted(KEY))
    assert not model.requests
    anyio.run(agent.run, Pasted("plain"))
    assert agent.state.messages[0] == Pasted("plain")


@pytest.mark.parametrize("place", [JsonlSessions, SqliteSessions])
def test_what_sessions_are_called_holds_no_key(
    place: type[JsonlSessions | SqliteSessions], tmp_path: Path
) -> None:
    with place(tmp_path / "place") as found:
        found.create("a", title=f"about {KEY}", metadata={"k": [KEY]}).close()
        assert (found.info("a").title, found.info("a").metadata) == (f"about {MARK}", {"k": [MARK]})
        found.annotate("a", title=f"{KEY}!")
        assert found.info("a").title == f"{MARK}!"
        wrongs: list[dict[str, Any]] = [{"session": KEY}, {"namespace": f"team/{KEY}"}, {"sender": KEY}]
        for wrong in wrongs:
            with pytest.raises(LogError, match="key of a model provider"):
                found.create(**wrong)
        assert [info.session for info in found.list()] == ["a"]
    with pytest.raises(LogError, match="key of a model provider"):
        JsonlLog(tmp_path / "log", session=KEY)
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
