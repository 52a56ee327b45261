"""Requests as JSON: messages row by row, then options."""

import json
from typing import Any

import pytest

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    assistant_message,
    make_call,
    tool_message,
    user_message,
)
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.kernel.reply import ReplyBuilder
from unspool.llm.openai_chat_dialect import ChatDialect
from unspool.llm.openai_chat_request import encode_request
from unspool.llm.openai_chat_stream import ChatDecoder
from unspool.llm.origins import LeftOutWarning
from unspool.llm.presets import PRESETS

C1, C2 = make_call("c1", "f", '{"x": 1}'), make_call("c2", "g")
PNG = Image(data="aGk=", mime_type="image/png")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
FILE_PART = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}


def sent(request: ModelRequest, dialect: ChatDialect | None = None, name: str = "m-1") -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_request(request, name, dialect or ChatDialect()))
    return body


def dialect_of(provider: str) -> ChatDialect:
    dialect = PRESETS[provider].dialect
    assert isinstance(dialect, ChatDialect)
    return dialect


def user(*content: Content) -> Message:
    return Message(role="user", content=content)


def result(call: ToolCall, *content: Content) -> Message:
    return Message(role="tool", content=content, tool_call_id=call.id, tool_name=call.name)


def wire_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "a text is a string": ([user_message("hi")], [{"role": "user", "content": "hi"}]),
    "one text among empty ones too": ([user(Text(""), Text("hi"))], [{"role": "user", "content": "hi"}]),
    "several blocks are parts": (
        [user(Text("look"), PNG, Image(url="http://h/a.png"), Document(data="aGk=", name="a.pdf"))],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    PNG_PART,
                    {"type": "image_url", "image_url": {"url": "http://h/a.png"}},
                    FILE_PART,
                ],
            }
        ],
    ),
    "documents of text are text": (
        [
            user(
                Document(data="YSwx", mime_type="text/csv; charset=utf-8", name="a.csv"),
                Document(data="e30=", mime_type="application/json"),
                Document(data="aGk=", mime_type="application/x-tex", name="b.tex"),
                Document(data="", mime_type="text/plain"),
            ),
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a.csv:\n\na,1"},
                    {"type": "text", "text": "{}"},
                    {"type": "text", "text": "b.tex:\n\nhi"},
                ],
            }
        ],
    ),
    "a document of text as a result": (
        [result(C1, Document(data="aGk=", mime_type="text/markdown", name="a.md"))],
        [{"role": "tool", "tool_call_id": "c1", "content": "a.md:\n\nhi"}],
    ),
    "names of calls that the format does not allow": (
        [assistant_message("", make_call("c1", "functions.read file"), make_call("c2", ""))],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    wire_call("c1", "functions_read_file", "{}"),
                    wire_call("c2", "unknown", "{}"),
                ],
            }
        ],
    ),
    "what was only there to be read": (
        [
            Message(
                role="assistant",
                content=(
                    Text("so"),
                    Opaque(provider="openai-chat", data={"type": "annotations", "annotations": [{"a": 1}]}),
                    Opaque(provider="openai-chat", data={"type": "content", "content": [{"type": "new"}]}),
                    Opaque(provider="openai-chat", data={"type": "executed_tools", "executed_tools": [1]}),
                    Opaque(provider="openai-chat", data={"type": "context", "context": {"intent": "b"}}),
                ),
            )
        ],
        [{"role": "assistant", "content": "so"}],
    ),
    "a document by URL is named": (
        [user(Document(url="http://h/a.pdf", name="a.pdf"))],
        [{"role": "user", "content": "a.pdf: http://h/a.pdf"}],
    ),
    "a user message of nothing is not sent": ([user(), user(Text("")), user(Image())], []),
    "an assistant text": ([assistant_message("yes")], [{"role": "assistant", "content": "yes"}]),
    "calls only: content is null": (
        [assistant_message("", C1, C2)],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [wire_call("c1", "f", '{"x": 1}'), wire_call("c2", "g", "{}")],
            }
        ],
    ),
    "blank text with a call: content is null": (
        [assistant_message(" \n", C2)],
        [{"role": "assistant", "content": None, "tool_calls": [wire_call("c2", "g", "{}")]}],
    ),
    "text and a call": (
        [assistant_message("so", C2)],
        [{"role": "assistant", "content": "so", "tool_calls": [wire_call("c2", "g", "{}")]}],
    ),
    "invalid arguments are replayed as none": (
        [assistant_message("", make_call("c3", "f", '{"x":'))],
        [{"role": "assistant", "content": None, "tool_calls": [wire_call("c3", "f", "{}")]}],
    ),
    "blank assistant messages are not sent": (
        [
            user_message("a"),
            assistant_message("\n\n"),
            Message(role="assistant", content=(Thinking(text="hm"),)),
            Message(role="assistant"),
            user_message("b"),
        ],
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    ),
    "results": (
        [
            tool_message(C1, "one"),
            result(C2, Text("a"), Text("b")),
            result(C1),
            result(C1, ToolReference("h")),
        ],
        [
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "a\nb"},
            {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
            {"role": "tool", "tool_call_id": "c1", "content": "tool 'h' is now available"},
        ],
    ),
    "images of results follow the last of them": (
        [
            result(C1, Text("shot"), PNG),
            result(C2, Document(data="aGk=", name="a.pdf")),
            user_message("go on"),
        ],
        [
            {"role": "tool", "tool_call_id": "c1", "content": "shot\n[attached below]"},
            {"role": "tool", "tool_call_id": "c2", "content": "[attached below]"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Attached to the result of f:"},
                    PNG_PART,
                    {"type": "text", "text": "Attached to the result of g:"},
                    FILE_PART,
                ],
            },
            {"role": "user", "content": "go on"},
        ],
    ),
    "images of the last result": (
        [result(C1, PNG)],
        [
            {"role": "tool", "tool_call_id": "c1", "content": "[attached below]"},
            {"role": "user", "content": [{"type": "text", "text": "Attached to the result of f:"}, PNG_PART]},
        ],
    ),
    "a system message in the middle": (
        [user_message("a"), Message(role="system", content=(Text("b"),)), Message(role="system")],
        [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    messages, expected = MESSAGES[name]
    assert sent(ModelRequest(messages=messages))["messages"] == expected


def test_system_blocks_come_first_as_one() -> None:
    blocks = (SystemBlock(text="a"), SystemBlock(text=" "), SystemBlock(text="b", cache="5m"))
    messages = sent(ModelRequest(messages=[user_message("hi")], system=blocks))["messages"]
    assert messages[0] == {"role": "system", "content": "a\n\nb"}


def test_a_long_id_is_replaced_in_call_and_result() -> None:
    long = make_call("toolu_" + "x" * 60, "f")
    call, answer = sent(ModelRequest(messages=[assistant_message("", long), tool_message(long, "ok")]))[
        "messages"
    ]
    assert call["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert len(answer["tool_call_id"]) <= 40


def test_reasoning_goes_back_only_where_it_is_wanted() -> None:
    message = Message(role="assistant", content=(Thinking(text="hm"), Text("so")))
    request = ModelRequest(messages=[message])
    assert sent(request)["messages"] == [{"role": "assistant", "content": "so"}]
    assert sent(request, dialect_of("deepseek"))["messages"] == [
        {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    ]


@pytest.mark.parametrize("provider, empty", [("deepseek", True), ("moonshot", True), ("zai", False)])
def test_calls_without_reasoning_where_a_server_wants_some(provider: str, empty: bool) -> None:
    messages = [assistant_message("", C1), assistant_message("so")]
    called, spoken = sent(ModelRequest(messages=messages), dialect_of(provider))["messages"]
    assert called.get("reasoning_content") == ("" if empty else None)
    assert "reasoning_content" not in spoken


CALLS_AS_THEY_CAME = [
    {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}},
    },
    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "not JSON"}},
    {"id": "c3", "type": "function", "function": {"name": "h", "arguments": "{}"}},
]


def test_what_calls_hold_beside_their_arguments_goes_back_to_their_provider() -> None:
    message = {"message": {"tool_calls": CALLS_AS_THEY_CAME}, "finish_reason": "tool_calls"}
    builder, decoder = ReplyBuilder(), ChatDecoder(model="p/m")
    for event in [*decoder.feed(json.dumps({"choices": [message]}).encode()), *decoder.close()]:
        builder.add(event)
    request = ModelRequest(messages=[builder.message()])
    assert sent(request, name="p/m")["messages"][0]["tool_calls"] == CALLS_AS_THEY_CAME
    (other,) = sent(request, name="q/m")["messages"]
    assert [call["function"] for call in other["tool_calls"]] == [
        {"name": "f", "arguments": "{}"},
        {"name": "g", "arguments": '{"input":"not JSON"}'},
        {"name": "h", "arguments": "{}"},
    ]


@pytest.mark.parametrize("signature", ['{"item":{"type":"custom_tool_call","id":"ct"}}', '{"custom":true}'])
def test_a_free_form_call_of_another_server_keeps_its_input(signature: str) -> None:
    call = make_call("c1", "sql", "select 1", thought_signature=signature)
    message = Message(role="assistant", content=(call,), origin="openai-responses:p/m")
    (made,) = sent(ModelRequest(messages=[message]))["messages"]
    assert made["tool_calls"] == [wire_call("c1", "sql", '{"input":"select 1"}')]


@pytest.mark.parametrize(
    "signature", ["custom", '{"custom":1}', '{"item":"custom"}', "custom\ud800", "[" * 9999]
)
def test_a_signature_of_something_else_is_none_of_a_free_form_call(signature: str) -> None:
    call = make_call("c1", "f", "{}", thought_signature=signature)
    message = Message(role="assistant", content=(call,), origin="gemini:p/m")
    (made,) = sent(ModelRequest(messages=[message]))["messages"]
    assert made["tool_calls"] == [wire_call("c1", "f", "{}")]


def test_the_name_of_a_result_is_that_of_its_call() -> None:
    call = make_call("c1", "functions.f")
    messages = [assistant_message("", call), tool_message(call, "ok")]
    called, answered = sent(ModelRequest(messages=messages), ChatDialect(result_name=True))["messages"]
    assert called["tool_calls"][0]["function"]["name"] == answered["name"] == "functions_f"


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "schema": {"type": "object"}, "strict": True},
        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    ],
)
def test_a_server_that_knows_no_schemas_gives_any_object(form: dict[str, Any]) -> None:
    request = ModelRequest(messages=[], options=CallOptions(response_format=form))
    with pytest.warns(LeftOutWarning, match="the schema of response_format is not sent"):
        body = sent(request, dialect_of("deepseek"))
    assert body["response_format"] == {"type": "json_object"}


ALWAYS = {"model": "m-1", "messages": [], "stream": True, "stream_options": {"include_usage": True}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
NEEDED = {**SCHEMA, "required": ["x"]}
CLOSED = {**NEEDED, "additionalProperties": False}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, {}),
    "numbers": (
        {"max_tokens": 5, "temperature": 0.0, "stop": ("a", "b")},
        {"max_tokens": 5, "temperature": 0.0, "stop": ["a", "b"]},
    ),
    "thinking": ({"thinking": "low"}, {"reasoning_effort": "low"}),
    "thinking beyond the names": ({"thinking": "max"}, {"reasoning_effort": "high"}),
    "no thinking": ({"thinking": "off"}, {}),
    "a tool choice without tools": ({"tool_choice": "required"}, {}),
    "any object": ({"response_format": {"type": "json"}}, {"response_format": {"type": "json_object"}}),
    "a schema": (
        {"response_format": {"type": "json_schema", "schema": SCHEMA, "name": "n"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    ),
    "a strict schema": (
        {"response_format": {"type": "json_schema", "schema": NEEDED, "strict": True}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": CLOSED},
            }
        },
    ),
    "a schema that cannot be strict": (
        {"response_format": {"type": "json_schema", "schema": SCHEMA, "strict": True}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": False, "schema": SCHEMA},
            }
        },
    ),
    "the wire's own form": (
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_object"}},
    ),
    "a cache key the server does not know": ({"cache_key": "k"}, {}),
    "extra": (
        {"temperature": 1.0, "extra": {"top_p": 0.5, "temperature": 0.1}},
        {"top_p": 0.5, "temperature": 0.1},
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    options, expected = OPTIONS[name]
    assert sent(ModelRequest(messages=[], options=CallOptions(**options))) == {**ALWAYS, **expected}


def test_tools_of_extra_are_added_to_ours() -> None:
    custom = {"type": "custom", "custom": {"name": "c"}}
    options = CallOptions(tool_choice="required", extra={"tools": [custom]})
    body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options))
    assert [tool["type"] for tool in body["tools"]] == ["function", "custom"]
    body = sent(ModelRequest(messages=[], options=options))
    assert (body["tools"], body["tool_choice"]) == ([custom], "required")


def test_extra_can_leave_a_field_out() -> None:
    options = CallOptions(extra={"stream_options": None, "unknown": None})
    assert sorted(sent(ModelRequest(messages=[], options=options))) == ["messages", "model", "stream"]


def test_the_dialect_of_openai() -> None:
    options = CallOptions(max_tokens=5, thinking="xhigh", cache_key="k")
    body = sent(ModelRequest(messages=[], options=options), dialect_of("openai"), "openai/gpt-5.2")
    expected = {"max_completion_tokens": 5, "reasoning_effort": "xhigh", "prompt_cache_key": "k"}
    assert body == {**ALWAYS, "model": "gpt-5.2", **expected}


def test_tools() -> None:
    tools = (
        ToolSpec(name="f", description="does f", schema=NEEDED, strict=True, read_only=True, meta={"a": 1}),
        ToolSpec(name="g", strict=False),
        ToolSpec(name="o", schema=SCHEMA, strict=True),
        ToolSpec(name="h"),
    )
    nothing = {"type": "object", "properties": {}}
    assert sent(ModelRequest(messages=[], tools=tools))["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": CLOSED, "strict": True},
        },
        {"type": "function", "function": {"name": "g", "parameters": nothing, "strict": False}},
        {"type": "function", "function": {"name": "o", "parameters": SCHEMA, "strict": False}},
        {"type": "function", "function": {"name": "h", "parameters": nothing}},
    ]


@pytest.mark.parametrize("choice", ["auto", "none", "required", "f"])
def test_tool_choice(choice: str) -> None:
    request = ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=CallOptions(tool_choice=choice))
    named = {"type": "function", "function": {"name": "f"}}
    assert sent(request)["tool_choice"] == (named if choice == "f" else choice)
