"""Requests as JSON: messages row by row, then options."""

import json
from typing import Any

import pytest

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
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
from unspool.llm.openai_chat_request import Dialect, encode_request
from unspool.llm.presets import PRESETS

C1, C2 = make_call("c1", "f", '{"x": 1}'), make_call("c2", "g")
PNG = Image(data="aGk=", mime_type="image/png")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
FILE_PART = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}


def sent(request: ModelRequest, dialect: Dialect | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_request(request, "m-1", dialect or Dialect()))
    return body


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
    assert sent(request, PRESETS["deepseek"].dialect)["messages"] == [
        {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    ]


ALWAYS = {"model": "m-1", "messages": [], "stream": True, "stream_options": {"include_usage": True}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
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
        {"response_format": {"type": "json_schema", "schema": SCHEMA, "strict": True}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
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


def test_extra_can_leave_a_field_out() -> None:
    options = CallOptions(extra={"stream_options": None, "unknown": None})
    assert sorted(sent(ModelRequest(messages=[], options=options))) == ["messages", "model", "stream"]


def test_the_dialect_of_openai() -> None:
    options = CallOptions(max_tokens=5, thinking="xhigh", cache_key="k")
    body = sent(ModelRequest(messages=[], options=options), PRESETS["openai"].dialect)
    expected = {"max_completion_tokens": 5, "reasoning_effort": "xhigh", "prompt_cache_key": "k"}
    assert body == {**ALWAYS, **expected}


def test_tools() -> None:
    tools = (
        ToolSpec(name="f", description="does f", schema=SCHEMA, strict=True, read_only=True, meta={"a": 1}),
        ToolSpec(name="g", strict=False),
        ToolSpec(name="h"),
    )
    nothing = {"type": "object", "properties": {}}
    assert sent(ModelRequest(messages=[], tools=tools))["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": SCHEMA, "strict": True},
        },
        {"type": "function", "function": {"name": "g", "parameters": nothing, "strict": False}},
        {"type": "function", "function": {"name": "h", "parameters": nothing}},
    ]


@pytest.mark.parametrize("choice", ["auto", "none", "required", "f"])
def test_tool_choice(choice: str) -> None:
    request = ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=CallOptions(tool_choice=choice))
    named = {"type": "function", "function": {"name": "f"}}
    assert sent(request)["tool_choice"] == (named if choice == "f" else choice)
