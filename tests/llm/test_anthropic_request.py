"""Requests as JSON: messages row by row, then options."""

import json
import warnings
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from unspool.kernel.errors import BadRequestError
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
from unspool.kernel.ports import CallOptions, ModelRequest, StreamEnd, SystemBlock, ToolSpec
from unspool.kernel.transcript import Transcript
from unspool.llm.anthropic import AnthropicModel
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.anthropic_request import betas_of, encode_request
from unspool.llm.anthropic_wire import FORMAT
from unspool.llm.origins import LeftOutWarning

from .anthropic_decoding import OPENING, sent, wire  # tests/llm/, not llm/
from .loopback import SSE_HEAD, Loopback, chunked  # tests/llm/, not llm/

C1, C2 = make_call("c1", "f", '{"x": 1}'), make_call("c2", "g")
PNG = Image(data="aGk=", mime_type="image/png")
PDF = Document(data="aGk=", name="a.pdf")
PNG_PART = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PDF_PART = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
    "title": "a.pdf",
}
SIGNED = Thinking(text="hm", signature="c2ln")
SIGNED_PART = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}


def user(*content: Content) -> Message:
    return Message(role="user", content=content)


def reply(*content: Content, origin: str = f"{FORMAT}:p/m-1") -> Message:
    return Message(role="assistant", content=content, origin=origin)


def own(data: Any) -> Opaque:
    return Opaque(provider=FORMAT, data=data)


def result(call: ToolCall, *content: Content, is_error: bool = False) -> Message:
    id, name = call.id, call.name
    return Message(role="tool", content=content, tool_call_id=id, tool_name=name, is_error=is_error)


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def users(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def replies(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def wire_call(id: str, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def wire_result(id: str, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": list(content), **fields}


MESSAGES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "a text": ([user_message("hi")], [users(text("hi"))]),
    "images and documents": (
        [user(Text("look"), PNG, Image(url="http://h/a.png"), PDF, Document(url="http://h/a.pdf"))],
        [
            users(
                text("look"),
                PNG_PART,
                {"type": "image", "source": {"type": "url", "url": "http://h/a.png"}},
                PDF_PART,
                {"type": "document", "source": {"type": "url", "url": "http://h/a.pdf"}},
            )
        ],
    ),
    "a URL that holds the data": ([user(Image(url="data:image/png;base64,aGk="))], [users(PNG_PART)]),
    "a document that is text": (
        [user(Document(data="aGk=", mime_type="text/csv", name="a.csv"))],
        [
            users(
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "hi"},
                    "title": "a.csv",
                }
            )
        ],
    ),
    "blocks of the format that the kernel does not model": (
        [
            user(
                Text("a"), own({"type": "container_upload", "file_id": "f"}), own({"type": "fields_of_text"})
            ),
            result(C1, own({"type": "search_result", "source": "s", "title": "t", "content": []})),
        ],
        [
            users(
                wire_result("c1", {"type": "search_result", "source": "s", "title": "t", "content": []}),
                text("a"),
                {"type": "container_upload", "file_id": "f"},
            )
        ],
    ),
    "a user message of nothing is not sent": (
        [user(), user(Text(" \n")), user(Image()), user(Document())],
        [],
    ),
    "user messages in a row are one": (
        [user_message("a"), user(), user_message("b")],
        [users(text("a"), text("b"))],
    ),
    "a system message in the middle": (
        [user_message("a"), Message(role="system", content=(Text("b"),)), Message(role="system")],
        [users(text("a"), text("<system>\nb\n</system>"))],
    ),
    "a call and its result": (
        [user_message("a"), assistant_message("so", C1), tool_message(C1, "one")],
        [
            users(text("a")),
            replies(text("so"), wire_call("c1", "f", x=1)),
            users(wire_result("c1", text("one"))),
        ],
    ),
    "results are one message and come first": (
        [assistant_message("", C1, C2), tool_message(C1, "one"), user_message("wait"), result(C2, PNG)],
        [
            replies(wire_call("c1", "f", x=1), wire_call("c2", "g")),
            users(wire_result("c1", text("one")), wire_result("c2", PNG_PART), text("wait")),
        ],
    ),
    "results without words, and errors": (
        [assistant_message("", C1, C2), result(C1, Text(" ")), result(C2, Text("no"), is_error=True)],
        [
            replies(wire_call("c1", "f", x=1), wire_call("c2", "g")),
            users(wire_result("c1", text("(no output)")), wire_result("c2", text("no"), is_error=True)),
        ],
    ),
    "results of several kinds": (
        [assistant_message("", C2), result(C2, Text("a"), PNG, PDF, ToolReference("h"))],
        [
            replies(wire_call("c2", "g")),
            users(wire_result("c2", text("a"), PNG_PART, PDF_PART, text("tool 'h' is now available"))),
        ],
    ),
    "invalid arguments are replayed as none": (
        [assistant_message("", make_call("c3", "f", '{"x":'))],
        [replies(wire_call("c3", "f"))],
    ),
    "blank replies are not sent": (
        [user_message("a"), assistant_message("\n\n"), reply(), reply(SIGNED), user_message("b")],
        [users(text("a"), text("b"))],
    ),
    "blank text beside a call is not sent": (
        [reply(Text(""), C2, Text(" "))],
        [replies(wire_call("c2", "g"))],
    ),
    "white space ends no request": (
        [assistant_message("a \n"), user_message("b"), assistant_message("c \n")],
        [replies(text("a \n")), users(text("b")), replies(text("c"))],
    ),
    "thinking goes back as it came": (
        [reply(SIGNED, Thinking(redacted="eHh4"), Thinking(signature="b25l"), C2)],
        [
            replies(
                SIGNED_PART,
                {"type": "redacted_thinking", "data": "eHh4"},
                {"type": "thinking", "thinking": "", "signature": "b25l"},
                wire_call("c2", "g"),
            )
        ],
    ),
    "no reply ends in thinking": (
        [reply(Text("a"), SIGNED), user_message("b")],
        [replies(text("a")), users(text("b"))],
    ),
    "thinking that is not signed is text": (
        [reply(Thinking(text="hm"), Thinking(text=" "), Text("a"))],
        [replies(text("<thinking>\nhm\n</thinking>"), text("a"))],
    ),
    "thinking of another format is text": (
        [reply(SIGNED, Thinking(redacted="eHh4"), Text("a"), origin="openai-responses:p/m-1")],
        [replies(text("<thinking>\nhm\n</thinking>"), text("a"))],
    ),
    "thinking of another provider is text": (
        [reply(SIGNED, Thinking(redacted="eHh4"), Text("a"), origin=f"{FORMAT}:q/m-1")],
        [replies(text("<thinking>\nhm\n</thinking>"), text("a"))],
    ),
    "thinking of another model of the provider": (
        [reply(SIGNED, Text("a"), origin=f"{FORMAT}:p/m-2")],
        [replies(SIGNED_PART, text("a"))],
    ),
    "what failed shows no images": (
        [reply(C2), result(C2, Text("no"), PNG, is_error=True), user_message("b")],
        [
            replies(wire_call("c2", "g")),
            users(wire_result("c2", text("no"), is_error=True), PNG_PART, text("b")),
        ],
    ),
    "what failed with nothing but an image": (
        [reply(C2), result(C2, PNG, is_error=True)],
        [
            replies(wire_call("c2", "g")),
            users(wire_result("c2", text("(no output)"), is_error=True), PNG_PART),
        ],
    ),
    "names that models make up": (
        [reply(make_call("c1", "functions.read file"), make_call("c2", ""))],
        [replies(wire_call("c1", "functions_read_file"), wire_call("c2", "unknown"))],
    ),
    "images by other names, and what is elsewhere": (
        [
            user(
                Image(data="aGk=", mime_type="image/JPG; q=1"),
                Document(url="http://h/a.txt", mime_type="text/plain", name="a.txt"),
            )
        ],
        [
            users(
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
                text("a.txt: text/plain, at http://h/a.txt"),
            )
        ],
    ),
    "what is not modelled joins its block again": (
        [
            reply(
                Text("Blue"),
                own({"type": "fields_of_text", "citations": [1]}),
                C2,
                own({"type": "fields_of_tool_use", "caller": {"type": "code"}}),
                Text(""),
                own({"type": "fields_of_text", "citations": [2]}),
            )
        ],
        [replies(text("Blue", citations=[1]), {**wire_call("c2", "g"), "caller": {"type": "code"}})],
    ),
    "a tool of the server and its result": (
        [reply(own(SEARCH), own(FOUND), Text("a")), user_message("b")],
        [replies(SEARCH, FOUND, text("a")), users(text("b"))],
    ),
    "one that is still to run": ([reply(Text("a"), own(SEARCH))], [replies(text("a"), SEARCH)]),
    "one that runs when results are in": (
        [reply(own(SEARCH), C2), tool_message(C2, "ok"), reply(own(FOUND), Text("a")), user_message("b")],
        [
            replies(SEARCH, wire_call("c2", "g")),
            users(wire_result("c2", text("ok"))),
            replies(FOUND, text("a")),
            users(text("b")),
        ],
    ),
    "one that ran in the next reply": (
        [reply(own(SEARCH)), reply(own(FOUND), Text("a")), user_message("b")],
        [replies(SEARCH, FOUND, text("a")), users(text("b"))],
    ),
    "one that will not run": (
        [reply(Text("a"), own(SEARCH)), user_message("never mind")],
        [replies(text("a")), users(text("never mind"))],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    messages, expected = MESSAGES[name]
    assert sent(ModelRequest(messages=messages))["messages"] == expected


@pytest.mark.parametrize("name", MESSAGES)
def test_a_request_that_grew_is_the_same_as_one_made_at_once(name: str) -> None:
    messages, _ = MESSAGES[name]
    grown: Transcript[Message] = Transcript()
    for count, message in enumerate(messages, 1):
        grown = grown.append(message)
        for options in (CallOptions(), CallOptions(cache_last="")):
            now = sent(ModelRequest(messages=grown, options=options))["messages"]
            assert now == sent(ModelRequest(messages=messages[:count], options=options))["messages"]


def test_blocks_of_another_provider_are_left_out_with_a_warning() -> None:
    message = reply(Text("a"), Opaque(provider="gemini", data={"type": "x"}))
    with pytest.warns(LeftOutWarning, match="'x' of gemini is not sent in anthropic-messages"):
        assert sent(ModelRequest(messages=[message]))["messages"] == [replies(text("a"))]


def test_reasoning_that_is_dropped_is_what_others_made() -> None:
    messages = [reply(Thinking(text="a"), SIGNED, Text("b"))]
    options = CallOptions(drop_reasoning=True)
    assert sent(ModelRequest(messages=messages, options=options))["messages"] == [
        replies(SIGNED_PART, text("b"))
    ]


@pytest.mark.parametrize("id", ["call@#$123", "\0" * 100, "x" * 65, "", "a.b"])
def test_ids_that_the_server_refuses_are_replaced_alike(id: str) -> None:
    call = make_call(id, "f")
    said, answer = sent(ModelRequest(messages=[assistant_message("", call), tool_message(call, "ok")]))[
        "messages"
    ]
    new = said["content"][0]["id"]
    assert new == answer["content"][0]["tool_use_id"] and new != id
    assert new.replace("_", "").isalnum() and len(new) <= 64


# --- the cache -----------------------------------------------------------------------------------

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
REMINDER = Message(role="system", content=(Text("soon over"),))
MARKED: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "the last block": ([user(Text("a"), Text("b"))], [users(text("a"), text("b", **MARK))]),
    "the last result": (
        [assistant_message("", C2), tool_message(C2, "ok")],
        [replies(wire_call("c2", "g")), users(wire_result("c2", text("ok"), **MARK))],
    ),
    "not a reminder": (
        [user_message("a"), REMINDER],
        [users(text("a", **MARK), text("<system>\nsoon over\n</system>"))],
    ),
    "not where there is nothing else": ([REMINDER], [users(text("<system>\nsoon over\n</system>"))]),
    "what is before a reminder": (
        [assistant_message("", C2), REMINDER],
        [replies({**wire_call("c2", "g"), **MARK}), users(text("<system>\nsoon over\n</system>"))],
    ),
    "never thinking": (
        [reply(Text("a"), SIGNED, own({"type": "novelty"}))],
        [replies(text("a", **MARK), SIGNED_PART, {"type": "novelty"})],
    ),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", MARKED)
def test_marks_on_messages(name: str) -> None:
    messages, expected = MARKED[name]
    options = CallOptions(cache_last="")
    assert sent(ModelRequest(messages=messages, options=options))["messages"] == expected
    assert "cache_control" not in str(sent(ModelRequest(messages=messages)))


@pytest.mark.parametrize(
    "ttl, official, expected",
    [(None, True, {}), ("", True, MARK), ("1h", True, HOUR), ("1h", False, MARK), (None, False, {})],
)
def test_how_long_a_cache_is_kept(ttl: str | None, official: bool, expected: dict[str, Any]) -> None:
    request = ModelRequest(
        messages=[user_message("a")],
        system=(SystemBlock(text="s", cache=ttl), SystemBlock(text=" ", cache=ttl)),
        options=CallOptions(cache_last=ttl),
    )
    body = sent(request, AnthropicDialect(cache_ttl=official))
    assert body["system"] == [text("s", **expected)]
    assert body["messages"] == [users(text("a", **expected))]


def test_four_marks_and_no_more() -> None:
    system = tuple([SystemBlock(text=str(number), cache="") for number in range(6)])
    for cache_last, first in ((None, 2), ("", 3)):
        options = CallOptions(cache_last=cache_last)
        body = sent(ModelRequest(messages=[user_message("a")], system=system, options=options))
        assert [block["text"] for block in body["system"] if "cache_control" in block] == list(
            "012345"[first:]
        )
        assert str(body).count("cache_control") == 4


# --- tools ---------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
CLOSED = {**SCHEMA, "required": [], "additionalProperties": False}
FREE = {"type": "object", "additionalProperties": {"type": "integer"}}
NOTHING = {"type": "object", "properties": {}}


def test_tools() -> None:
    tools = (
        ToolSpec(name="f", description="does f", schema=SCHEMA, strict=True, read_only=True, meta={"a": 1}),
        ToolSpec(name="g", strict=False, schema={"properties": {}}),
        ToolSpec(name="o", strict=True, schema=FREE),
        ToolSpec(name="h"),
    )
    body = sent(ModelRequest(messages=[], tools=tools, options=CallOptions(cache_last="")))
    assert body["tools"] == [
        {"name": "f", "description": "does f", "input_schema": CLOSED, "strict": True},
        {"name": "g", "input_schema": NOTHING},
        {"name": "o", "input_schema": FREE},
        {"name": "h", "input_schema": NOTHING, **MARK},
    ]
    system = (SystemBlock(text="s", cache=""),)
    body = sent(ModelRequest(messages=[], tools=tools, system=system, options=CallOptions(cache_last="")))
    assert "cache_control" not in str(body["tools"])


FOUND_TOOL = [assistant_message("", C2), result(C2, Text("see"), ToolReference("late"))]
REFERENCE = {"type": "tool_reference", "tool_name": "late"}
PLAIN = [text("see"), text("tool 'late' is now available")]


@pytest.mark.parametrize(
    "tools, messages, references, deferred, answer",
    [
        (["f", "late"], FOUND_TOOL, True, True, [wire_result("c2", REFERENCE), text("see")]),
        (["f", "late"], FOUND_TOOL, False, False, [wire_result("c2", *PLAIN)]),
        (["f"], FOUND_TOOL, True, False, [wire_result("c2", *PLAIN)]),
        (["late"], FOUND_TOOL, True, False, [wire_result("c2", *PLAIN)]),
        (["f", "late"], FOUND_TOOL[:1], True, False, None),
    ],
    ids=[
        "one referred to",
        "a server that knows none",
        "one that is gone",
        "no other tool",
        "not referred to",
    ],
)
def test_deferred_tools(
    tools: list[str], messages: list[Message], references: bool, deferred: bool, answer: list[Any] | None
) -> None:
    specs = tuple([ToolSpec(name=name, deferred=name == "late") for name in tools])
    options = CallOptions(cache_last="")
    request = ModelRequest(messages=messages, tools=specs, options=options)
    body = sent(request, AnthropicDialect(tool_references=references))
    assert any(tool.get("defer_loading") for tool in body["tools"]) == deferred
    assert not any("cache_control" in tool and tool.get("defer_loading") for tool in body["tools"])
    if answer is not None:
        unmarked = sent(
            ModelRequest(messages=messages, tools=specs), AnthropicDialect(tool_references=references)
        )
        assert unmarked["messages"][1]["content"] == answer


@pytest.mark.parametrize(
    "choice, alone, expected",
    [
        (None, False, None),
        ("auto", False, {"type": "auto"}),
        ("none", True, {"type": "none"}),
        ("required", False, {"type": "any"}),
        ("f", True, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        (None, True, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice: str | None, alone: bool, expected: Any) -> None:
    options = CallOptions(tool_choice=choice, extra={"disable_parallel_tool_use": alone})
    body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options))
    assert body.get("tool_choice") == expected and "disable_parallel_tool_use" not in body
    assert "tool_choice" not in sent(ModelRequest(messages=[], options=options))


# --- options -------------------------------------------------------------------------------------

ALWAYS = {"model": "m-1", "max_tokens": 32_000, "messages": [], "stream": True}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, {}),
    "numbers": (
        {"max_tokens": 5, "temperature": 0.0, "stop": ("a", " ", "b")},
        {"max_tokens": 5, "temperature": 0.0, "stop_sequences": ["a", "b"]},
    ),
    "a schema": (
        {"response_format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    ),
    "a schema in OpenAI's spelling": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    ),
    "text is no format": ({"response_format": {"type": "text"}}, {}),
    "extra": (
        {"temperature": 1.0, "extra": {"top_p": 0.5, "temperature": 0.1, "metadata": {"user_id": "u"}}},
        {"top_p": 0.5, "temperature": 0.1, "metadata": {"user_id": "u"}},
    ),
    "betas are no field": ({"extra": {"betas": ["b"]}}, {}),
    "what the format does not know": ({"cache_key": "k", "session_id": "s", "tool_choice": "auto"}, {}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    options, expected = OPTIONS[name]
    assert sent(ModelRequest(messages=[], options=CallOptions(**options))) == {**ALWAYS, **expected}


def test_tools_of_extra_are_added_to_ours() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    options = CallOptions(tool_choice="required", extra={"tools": [search]})
    body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options))
    assert [tool["name"] for tool in body["tools"]] == ["f", "web_search"]
    body = sent(ModelRequest(messages=[], options=options))
    assert (body["tools"], body["tool_choice"]) == ([search], {"type": "any"})


def test_extra_can_leave_a_field_out() -> None:
    options = CallOptions(extra={"stream": None, "unknown": None})
    assert sorted(sent(ModelRequest(messages=[], options=options))) == ["max_tokens", "messages", "model"]


@pytest.mark.parametrize("opens", [True, False])
def test_a_conversation_that_begins_with_a_reply_is_opened(opens: bool) -> None:
    messages = [reply(Text("a") if opens else Text(" ")), user_message("b")]
    body = json.loads(encode_request(ModelRequest(messages=messages), "p/m", AnthropicDialect()))
    assert body["messages"] == ([OPENING, replies(text("a"))] if opens else []) + [users(text("b"))]


CONTAINER = {"container": {"id": "cont_1", "expires_at": "2030-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("messages", "extra", "container"),
    [
        ([replace(reply(own(SEARCH)), metadata=CONTAINER)], {}, "cont_1"),
        ([replace(reply(C2), metadata=CONTAINER), result(C2, Text("ok"))], {}, "cont_1"),
        ([replace(reply(C2), metadata=CONTAINER), result(C2, Text("ok"))], {"container": "mine"}, "mine"),
        ([replace(reply(Text("a")), metadata=CONTAINER), user_message("b"), reply(Text("c"))], {}, None),
        ([replace(reply(C2, origin=f"{FORMAT}:q/m"), metadata=CONTAINER), result(C2, Text("ok"))], {}, None),
    ],
)
def test_code_goes_on_in_its_container(messages: list[Message], extra: Any, container: str | None) -> None:
    body = sent(ModelRequest(messages=messages, options=CallOptions(extra=extra)))
    assert body.get("container") == container


UNION = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_arguments_are_one_object(key: str, strict: bool) -> None:
    spec = ToolSpec(name="f", schema={key: UNION, "description": "d"}, strict=strict)
    (tool,) = sent(ModelRequest(messages=[], tools=(spec,)))["tools"]
    assert tool["input_schema"] == {
        "type": "object",
        "description": "d",
        "properties": {"a": {"type": "string"}, "b": {}},
        "required": ["a"],
    }
    assert "strict" not in tool


@pytest.mark.parametrize(
    ("system", "last", "expected"),
    [
        (["", "1h"], None, ["1h", "1h"]),
        (["5m", ""], "1h", ["1h", "1h"]),
        (["1h", "5m"], "5m", ["1h", "5m"]),
        (["1h", "5m"], None, ["1h", "5m"]),
    ],
)
def test_no_mark_lasts_less_than_one_after_it(
    system: list[str], last: str | None, expected: list[str]
) -> None:
    blocks = tuple([SystemBlock(text="s", cache=ttl) for ttl in system])
    body = sent(
        ModelRequest(messages=[user_message("a")], system=blocks, options=CallOptions(cache_last=last))
    )
    assert [block["cache_control"]["ttl"] for block in body["system"]] == expected


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5"])
def test_a_model_that_cannot_be_forced(model: str) -> None:
    options = CallOptions(tool_choice="required")
    with pytest.warns(LeftOutWarning, match="takes no tool choice that forces"):
        body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options), model=model)
    assert body["tool_choice"] == {"type": "auto"}


def test_a_schema_that_the_format_cannot_say() -> None:
    options = CallOptions(response_format={"type": "json_schema", "name": "n", "schema": FREE})
    with pytest.raises(BadRequestError, match="has no closed form"):
        sent(ModelRequest(messages=[], options=options))


@pytest.mark.parametrize("form", [{"type": "grammar", "g": 1}, {"schema": {}}, {}])
def test_a_format_that_is_none(form: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match="response_format: not known in anthropic-messages"):
        sent(ModelRequest(messages=[], options=CallOptions(response_format=form)))


def test_json_without_a_schema_is_not_to_be_had() -> None:
    with pytest.raises(BadRequestError, match="give one"):
        sent(ModelRequest(messages=[], options=CallOptions(response_format={"type": "json"})))


OLD, BY_EFFORT, LATER = "claude-haiku-4-5-20251001", "claude-opus-4-6", "claude-opus-4-8"
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
DROP = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BOUND = {"type": "adaptive", **DROP}


def budget(tokens: int, limit: int = 32_000) -> dict[str, Any]:
    return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": tokens}}


def effort(name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"max_tokens": 32_000, **fields, **({"output_config": {"effort": name}} if name else {})}


@pytest.mark.parametrize(
    "model, options, expected",
    [
        (OLD, {"temperature": 0.2}, effort(temperature=0.2)),
        (OLD, {"thinking": "minimal"}, budget(1024)),
        (OLD, {"thinking": "low"}, budget(2048)),
        (OLD, {"thinking": "medium", "temperature": 0.2}, budget(8192)),
        (OLD, {"thinking": "high"}, budget(16_384)),
        (OLD, {"thinking": "max"}, budget(16_384)),
        (OLD, {"thinking_budget": 3000}, budget(3000)),
        (OLD, {"thinking": "low", "thinking_budget": 3000}, budget(3000)),
        (OLD, {"thinking_budget": 5}, budget(1024)),
        (OLD, {"thinking": "high", "max_tokens": 4096}, budget(3072, 4096)),
        (OLD, {"thinking": "high", "max_tokens": 100}, budget(1024, 1124)),
        (
            OLD,
            {"thinking": "off", "temperature": 0.2},
            effort(thinking={"type": "disabled"}, temperature=0.2),
        ),
        (OLD, {"thinking": "high", "tool_choice": "required"}, effort()),
        ("claude-opus-4-20250514", {"thinking": "low"}, budget(2048)),
        ("claude-3-7-sonnet-latest", {"thinking": "low"}, budget(2048)),
        ("kimi-k9", {"thinking": "low"}, budget(2048)),
        (BY_EFFORT, {"thinking": "minimal", "temperature": 0.2}, effort("low", thinking=ADAPTIVE)),
        (BY_EFFORT, {"thinking": "xhigh"}, effort("max", thinking=ADAPTIVE)),
        (BY_EFFORT, {"thinking": "max"}, effort("max", thinking=ADAPTIVE)),
        (BY_EFFORT, {"thinking_budget": 3000}, effort(thinking=ADAPTIVE)),
        (BY_EFFORT, {"thinking": "high", "tool_choice": "f"}, effort("high")),
        (BY_EFFORT, {"temperature": 0.2}, effort(temperature=0.2)),
        ("anthropic/claude-sonnet-4.6", {"thinking": "low"}, effort("low", thinking=ADAPTIVE)),
        (LATER, {"thinking": "xhigh"}, effort("xhigh", thinking=ADAPTIVE)),
        (LATER, {"temperature": 0.2}, effort()),
        (LATER, {"thinking": "off"}, effort(thinking={"type": "disabled"})),
        ("claude-sonnet-5", {"thinking": "medium"}, effort("medium", thinking=ADAPTIVE)),
        ("claude-sonnet-5-5", {"thinking": "off"}, effort(thinking={"type": "between_tools"})),
        ("claude-opus-5-5", {"thinking": "off"}, effort("low", thinking=BOUND)),
        ("claude-opus-5-5", {}, effort(thinking=BOUND)),
        ("claude-fable-5-1", {"thinking": "max"}, effort("max", thinking={**ADAPTIVE, **DROP})),
        ("claude-haiku-5-5", {"temperature": 0.2}, effort(thinking=BOUND)),
        ("claude-opus-5", {"tool_choice": "f"}, effort(thinking={"type": "disabled"})),
        (
            "claude-opus-5",
            {"tool_choice": "f", "thinking": "max"},
            effort("high", thinking={"type": "disabled"}),
        ),
        ("claude-mythos-preview", {"thinking": "off"}, effort("low")),
        ("claude-fable-5", {"thinking": "off"}, effort("low")),
    ],
)
def test_thinking(model: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    left_out = "temperature" in options and "temperature" not in expected
    with pytest.warns(LeftOutWarning, match="temperature") if left_out else nullcontext():
        body = sent(ModelRequest(messages=[], options=CallOptions(**options)), model=model)
    assert {
        key: value for key, value in body.items() if key not in ("model", "messages", "stream")
    } == expected


def test_the_usual_temperature_is_not_missed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        body = sent(ModelRequest(messages=[], options=CallOptions(temperature=1.0)), model=LATER)
    assert "temperature" not in body


def test_a_dialect_says_how_a_model_thinks_and_how_much_it_writes() -> None:
    request = ModelRequest(messages=[], options=CallOptions(thinking="high"))
    body = sent(request, AnthropicDialect(adaptive=True, max_tokens=9))
    assert (body["thinking"], body["output_config"], body["max_tokens"]) == (ADAPTIVE, {"effort": "high"}, 9)
    assert sent(request, AnthropicDialect(adaptive=False), LATER)["thinking"]["type"] == "enabled"


INTERLEAVED = "interleaved-thinking-2025-05-14"


@pytest.mark.parametrize(
    "model, options, tools, expected",
    [
        (OLD, {"thinking": "low"}, True, [INTERLEAVED]),
        (OLD, {"thinking": "low"}, False, []),
        (OLD, {"thinking": "off"}, True, []),
        (OLD, {}, True, []),
        (BY_EFFORT, {"thinking": "low"}, True, []),
        (OLD, {"thinking": "low", "extra": {"betas": ["b", INTERLEAVED]}}, True, ["b", INTERLEAVED]),
        (OLD, {"extra": {"betas": "b"}}, False, ["b"]),
        ("claude-opus-5-5", {}, False, ["thinking-binding-controls-2026-08-01"]),
        ("claude-opus-5", {}, False, []),
    ],
)
def test_betas(model: str, options: dict[str, Any], tools: bool, expected: list[str]) -> None:
    specs = (ToolSpec(name="f"),) if tools else ()
    request = ModelRequest(messages=[], tools=specs, options=CallOptions(**options))
    assert betas_of(request, model, AnthropicDialect()) == expected
    assert betas_of(request, model, AnthropicDialect(betas=("a",))) == ["a", *expected]


# --- the model -----------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("base", ["", "/v1", "/v1/", "/v1/messages"])
@pytest.mark.parametrize("auth", ["x-api-key", "bearer"])
async def test_the_model_asks_and_reads(server: Loopback, base: str, auth: Any) -> None:
    events = [
        {"type": "message_start", "message": {"id": "msg_1"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    server.script(SSE_HEAD, chunked(wire(events)), chunked(b""))
    dialect = AnthropicDialect(auth=auth, betas=("a", "b"))
    model = AnthropicModel("p/m-1", base_url=server.url + base, api_key="k-1", dialect=dialect)
    said = [event async for event in model.stream(ModelRequest(messages=[user_message("go")]))]
    assert isinstance(said[-1], StreamEnd) and said[-1].origin == "anthropic-messages:p/m-1"
    head = server.exchanges[0].head.lower()
    assert head.startswith("post /v1/messages http")
    assert "anthropic-version: 2023-06-01\r\n" in head and "anthropic-beta: a,b\r\n" in head
    assert ("x-api-key: k-1\r\n" in head) == (auth == "x-api-key")
    assert ("authorization: bearer k-1\r\n" in head) == (auth == "bearer")
    assert server.exchanges[0].json["model"] == "m-1"


@pytest.mark.anyio
async def test_only_anthropics_own_server_is_asked_for_a_time_to_live(server: Loopback) -> None:
    answer = wire([{"type": "message_start"}, {"type": "message_stop"}])
    server.script(SSE_HEAD, chunked(answer), chunked(b""))
    model = AnthropicModel("p/m-1", base_url=server.url)
    request = ModelRequest(messages=[user_message("go")], options=CallOptions(cache_last="1h"))
    assert [type(event) async for event in model.stream(request)] == [StreamEnd]
    assert server.exchanges[0].json["messages"] == [users(text("go", **MARK))]
    assert b'"ttl":"1h"' in AnthropicModel("p/m-1")._body(request)
    assert "anthropic-beta" not in server.exchanges[0].head.lower()


def test_no_warning_without_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sent(ModelRequest(messages=[reply(own(SEARCH), own(FOUND), SIGNED, Text("a"))]))
