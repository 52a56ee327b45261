"""What a request can ask for, and how each of the four formats says it: one row for each wish."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from wires import ANTHROPIC, CHAT, FORMATS, GEMINI, RESPONSES, Json

from unspool.kernel.errors import BadRequestError
from unspool.kernel.messages import Document, Image, Message, Text, make_call, tool_message, user_message
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm import ChatDialect
from unspool.llm.origins import LeftOutWarning

HI = user_message("hi")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
NOTHING = {"type": "object", "properties": {}}
F = (ToolSpec(name="f", schema=SCHEMA, description="does f"),)
EPHEMERAL = {"type": "ephemeral"}


def ask(*blocks: Any, system: tuple[SystemBlock, ...] = (), tools: Any = (), **options: Any) -> ModelRequest:
    message = Message(role="user", content=blocks) if blocks else HI
    return ModelRequest(messages=[message], system=system, tools=tools, options=CallOptions(**options))


def said(part: Json) -> Json:
    """What a user message of one part is in chat/completions and in Responses."""
    return {"role": "user", "content": [part]}


def asked(*blocks: Json) -> list[Json]:
    return [{"role": "user", "content": list(blocks)}]


def told(part: Json) -> list[Json]:
    return [{"role": "user", "parts": [part]}]


def choice(mode: str, *names: str) -> Json:
    allowed = {"allowedFunctionNames": list(names)} if names else {}
    return {"functionCallingConfig": {"mode": mode, **allowed}}


# A wish, and for each format where in the body it is and what it says; None for nothing there.
Row = tuple[ModelRequest, Mapping[str, tuple[str, Any]]]


def row(request: ModelRequest, *wants: tuple[str, Any]) -> Row:
    return request, dict(zip(FORMATS, wants, strict=True))


PNG, BY_URL = Image(data="aGk=", mime_type="image/png"), Image(url="https://h/a.png", mime_type="image/png")
PDF, PDF_URL = Document(data="aGk=", name="a.pdf"), Document(url="https://h/a.pdf", name="a.pdf")
JSON_SCHEMA = {"type": "json_schema", "name": "n", "schema": SCHEMA}
FEATURES: dict[str, Row] = {
    "system prompt": row(
        ask(system=(SystemBlock(text="a"), SystemBlock(text="b"))),
        ("messages/0", {"role": "system", "content": "a\n\nb"}),
        ("instructions", "a\n\nb"),
        ("system", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ("systemInstruction", {"parts": [{"text": "a"}, {"text": "b"}]}),
    ),
    "mark for the cache on the system prompt": row(
        ask(system=(SystemBlock(text="a", cache="1h"),)),
        ("messages/0", {"role": "system", "content": "a"}),
        ("instructions", "a"),
        ("system/0/cache_control", {**EPHEMERAL}),  # the time to live: see below
        ("systemInstruction/parts/0", {"text": "a"}),
    ),
    "mark for the cache on the last message": row(
        ask(cache_last=""),
        ("messages/0/content", "hi"),
        ("input/0/content", "hi"),
        ("messages/0/content/0/cache_control", EPHEMERAL),
        ("contents/0/parts", [{"text": "hi"}]),
    ),
    "tool": row(
        ask(tools=F),
        (
            "tools/0",
            {"type": "function", "function": {"name": "f", "description": "does f", "parameters": SCHEMA}},
        ),
        (
            "tools/0",
            {
                "type": "function",
                "name": "f",
                "description": "does f",
                "parameters": SCHEMA,
                "strict": False,
            },
        ),
        ("tools/0", {"name": "f", "description": "does f", "input_schema": SCHEMA}),
        (
            "tools/0/functionDeclarations/0",
            {"name": "f", "description": "does f", "parametersJsonSchema": SCHEMA},
        ),
    ),
    "strict tool": row(
        ask(tools=(ToolSpec(name="f", schema=SCHEMA, strict=True),)),
        ("tools/0/function", {"name": "f", "parameters": CLOSED, "strict": True}),
        ("tools/0", {"type": "function", "name": "f", "parameters": CLOSED, "strict": True}),
        ("tools/0", {"name": "f", "input_schema": CLOSED, "strict": True}),
        ("tools/0/functionDeclarations/0", {"name": "f", "parametersJsonSchema": SCHEMA}),
    ),
    "tool that cannot be strict": row(
        ask(tools=(ToolSpec(name="f", schema={"type": "object", "additionalProperties": {}}, strict=True),)),
        ("tools/0/function/strict", False),
        ("tools/0/strict", False),
        ("tools/0/strict", None),
        ("tools/0/functionDeclarations/0/strict", None),
    ),
    "deferred tool that nothing refers to yet": row(
        ask(tools=(*F, ToolSpec(name="late", deferred=True))),
        ("tools/1/function/name", "late"),
        ("tools/1/name", "late"),
        ("tools/1", {"name": "late", "input_schema": NOTHING}),
        ("tools/0/functionDeclarations/1/name", "late"),
    ),
    "tool choice: auto": row(
        ask(tools=F, tool_choice="auto"),
        ("tool_choice", "auto"),
        ("tool_choice", "auto"),
        ("tool_choice", {"type": "auto"}),
        ("toolConfig", choice("AUTO")),
    ),
    "tool choice: none": row(
        ask(tools=F, tool_choice="none"),
        ("tool_choice", "none"),
        ("tool_choice", "none"),
        ("tool_choice", {"type": "none"}),
        ("toolConfig", choice("NONE")),
    ),
    "tool choice: any": row(
        ask(tools=F, tool_choice="required"),
        ("tool_choice", "required"),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "any"}),
        ("toolConfig", choice("ANY")),
    ),
    "tool choice: this one": row(
        ask(tools=F, tool_choice="f"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("tool_choice", {"type": "function", "name": "f"}),
        ("tool_choice", {"type": "tool", "name": "f"}),
        ("toolConfig", choice("ANY", "f")),
    ),
    "answer of a schema": row(
        ask(response_format=JSON_SCHEMA),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}),
        ("text/format", {"type": "json_schema", "name": "n", "schema": SCHEMA}),
        ("output_config/format", {"type": "json_schema", "schema": CLOSED}),
        (
            "generationConfig",
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        ),
    ),
    "strict answer of a schema": row(
        ask(response_format={**JSON_SCHEMA, "strict": True}),
        ("response_format/json_schema", {"name": "n", "schema": CLOSED, "strict": True}),
        ("text/format", {"type": "json_schema", "name": "n", "schema": CLOSED, "strict": True}),
        ("output_config/format", {"type": "json_schema", "schema": CLOSED}),
        ("generationConfig/responseJsonSchema", SCHEMA),
    ),
    "thinking": row(
        ask(thinking="low"),
        ("reasoning_effort", "low"),
        ("reasoning", {"effort": "low", "summary": "auto"}),
        ("thinking", {"type": "enabled", "budget_tokens": 2048}),
        ("generationConfig/thinkingConfig", {"thinkingLevel": "LOW", "includeThoughts": True}),
    ),
    "no thinking": row(
        ask(thinking="off"),
        ("reasoning_effort", None),
        ("reasoning", {"effort": "none"}),
        ("thinking", {"type": "disabled"}),
        ("generationConfig/thinkingConfig", {"thinkingLevel": "MINIMAL"}),
    ),
    "budget for thinking": row(
        ask(thinking_budget=3000),
        ("reasoning_effort", "medium"),
        ("reasoning/effort", "medium"),
        ("thinking", {"type": "enabled", "budget_tokens": 3000}),
        ("generationConfig/thinkingConfig", {"thinkingBudget": 3000, "includeThoughts": True}),
    ),
    "thinking as the provider likes": row(
        ask(),
        ("reasoning_effort", None),
        ("reasoning", None),
        ("thinking", None),
        ("generationConfig", None),
    ),
    "temperature": row(
        ask(temperature=0.2),
        ("temperature", 0.2),
        ("temperature", 0.2),
        ("temperature", 0.2),
        ("generationConfig/temperature", 0.2),
    ),
    "temperature as the provider likes": row(
        ask(),
        ("temperature", None),
        ("temperature", None),
        ("temperature", None),
        ("generationConfig", None),
    ),
    "limit of the answer": row(
        ask(max_tokens=9),
        ("max_tokens", 9),
        ("max_output_tokens", 9),
        ("max_tokens", 9),
        ("generationConfig/maxOutputTokens", 9),
    ),
    "cache key": row(
        ask(cache_key="k"),
        ("prompt_cache_key", None),  # of OpenAI alone: see below
        ("prompt_cache_key", "k"),
        ("prompt_cache_key", None),
        ("cachedContent", None),
    ),
    "session": row(
        ask(session_id="s"),
        ("prompt_cache_key", None),
        ("prompt_cache_key", "s"),
        ("metadata", None),
        ("labels", None),
    ),
    "what only this provider has": row(
        ask(extra={"own": 1}),
        ("own", 1),
        ("own", 1),
        ("own", 1),
        ("own", 1),
    ),
    "image": row(
        ask(PNG),
        ("messages/0", said({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}})),
        (
            "input/0",
            said({"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}),
        ),
        (
            "messages",
            asked({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
        ),
        ("contents", told({"inlineData": {"mimeType": "image/png", "data": "aGk="}})),
    ),
    "image by URL": row(
        ask(BY_URL),
        ("messages/0", said({"type": "image_url", "image_url": {"url": "https://h/a.png"}})),
        ("input/0", said({"type": "input_image", "image_url": "https://h/a.png", "detail": "auto"})),
        ("messages", asked({"type": "image", "source": {"type": "url", "url": "https://h/a.png"}})),
        ("contents", told({"fileData": {"mimeType": "image/png", "fileUri": "https://h/a.png"}})),
    ),
    "document": row(
        ask(PDF),
        (
            "messages/0",
            said(
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
                }
            ),
        ),
        (
            "input/0",
            said(
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,aGk=",
                }
            ),
        ),
        (
            "messages",
            asked(
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
                    "title": "a.pdf",
                }
            ),
        ),
        ("contents", told({"inlineData": {"mimeType": "application/pdf", "data": "aGk="}})),
    ),
    "document by URL": row(
        ask(PDF_URL),
        ("messages/0/content", "a.pdf: https://h/a.pdf"),
        ("input/0", said({"type": "input_file", "file_url": "https://h/a.pdf"})),
        (
            "messages",
            asked(
                {
                    "type": "document",
                    "source": {"type": "url", "url": "https://h/a.pdf"},
                    "title": "a.pdf",
                }
            ),
        ),
        ("contents", told({"fileData": {"mimeType": "application/pdf", "fileUri": "https://h/a.pdf"}})),
    ),
}


def at(body: Any, path: str) -> Any:
    """What stands at a path; None where there is nothing."""
    for step in path.split("/"):
        if isinstance(body, list):
            body = body[int(step)] if int(step) < len(body) else None
        else:
            body = body.get(step) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", FEATURES)
def test_a_wish(name: str, format: str) -> None:
    request, wants = FEATURES[name]
    path, want = wants[format]
    body = FORMATS[format].sent(request)
    assert at(body, path) == want


# --- what is apart from the table ---------------------------------------------------------------


def test_json_without_a_schema() -> None:
    request = ask(response_format={"type": "json"})
    assert CHAT.sent(request)["response_format"] == {"type": "json_object"}
    assert RESPONSES.sent(request)["text"] == {"format": {"type": "json_object"}}
    assert GEMINI.sent(request)["generationConfig"] == {"responseMimeType": "application/json"}
    with pytest.raises(BadRequestError, match="no JSON without a schema"):
        ANTHROPIC.sent(request)


def test_stop_sequences() -> None:
    request = ask(stop=("x",))
    assert CHAT.sent(request)["stop"] == ["x"]
    assert ANTHROPIC.sent(request)["stop_sequences"] == ["x"]
    assert GEMINI.sent(request)["generationConfig"] == {"stopSequences": ["x"]}
    with pytest.warns(LeftOutWarning, match="stop sequences are not sent in openai-responses"):
        assert "stop" not in RESPONSES.sent(request)


@pytest.mark.parametrize(
    "options", [{"cache_key": "k"}, {"session_id": "k"}, {"cache_key": "k", "session_id": "s"}]
)
def test_a_cache_key_or_a_session_where_a_chat_server_knows_keys(options: Any) -> None:
    model = CHAT.at("http://h", dialect=ChatDialect(cache_key=True))
    assert b'"prompt_cache_key":"k"' in model._body(ask(**options))


def test_how_long_a_cache_lasts() -> None:
    request = ask(system=(SystemBlock(text="a", cache="1h"),), cache_last="5m")
    body = ANTHROPIC.at("https://api.anthropic.com")._body(request)
    assert body.count(b'"ttl":"1h"') == body.count(b'"ttl":"5m"') == 1
    body = CHAT.at("http://h", dialect=ChatDialect(cache_marks=True))._body(request)
    assert body.count(b'"ttl":"1h"') == body.count(b'"ttl":"5m"') == 1


KEYS = {
    "openai-chat": {"authorization": "Bearer k-1"},
    "openai-responses": {"authorization": "Bearer k-1"},
    "anthropic-messages": {"x-api-key": "k-1"},
    "gemini": {"x-goog-api-key": "k-1"},
}


@pytest.mark.parametrize("format", FORMATS)
def test_the_header_of_a_key(format: str) -> None:
    found = FORMATS[format].headers(ask(), "k-1")
    assert {name: value for name, value in found.items() if name != "anthropic-version"} == KEYS[format]
    assert "k-1" not in str(FORMATS[format].headers(ask())) + str(FORMATS[format].sent(ask()))


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_that_is_the_hosts_own_is_sent(format: str) -> None:
    message = Message(
        role="user", content=(Text("hi"),), metadata={"own": "private"}, id="private", timestamp=7.5
    )
    call = make_call("c1", "f")
    result = Message(
        role="tool", content=(Text("ok"),), tool_call_id="c1", tool_name="f", metadata={"own": "private"}
    )
    asked = Message(role="assistant", content=(call,), metadata={"own": "private"})
    spec = ToolSpec(name="f", meta={"own": "private"}, title="private", activity="private")
    body = FORMATS[format].sent(ModelRequest(messages=[message, asked, result], tools=(spec,)))
    assert "private" not in str(body) and "7.5" not in str(body)


@pytest.mark.parametrize("format", FORMATS)
def test_arguments_that_did_not_parse_are_sent_as_none(format: str) -> None:
    broken = make_call("c1", "f", '{"q":')
    request = ModelRequest(
        messages=[HI, Message(role="assistant", content=(broken,)), tool_message(broken, "no")]
    )
    assert '{"q":' not in str(FORMATS[format].sent(request))


@pytest.mark.parametrize("format", FORMATS)
def test_lone_surrogates_and_emoji(format: str) -> None:
    odd = "\ud83d \U0001f600 \u2028"
    message = Message(role="user", content=(Text(odd),))  # made by hand: what the kernel makes is clean
    tools = (ToolSpec(name="f", description=odd),)
    request = ModelRequest(messages=[message], system=(SystemBlock(text=odd),), tools=tools)
    sent = json.dumps(FORMATS[format].sent(request), ensure_ascii=False)
    assert sent.count("\ufffd \U0001f600 \u2028") == 3
