"""Requests as JSON: messages row by row, what goes back to whom, then options."""

import json
import warnings
from collections.abc import Sequence
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
from unspool.kernel.sequence import repair_message_sequence
from unspool.kernel.transcript import Transcript
from unspool.llm.openai_responses import OpenAIResponsesModel
from unspool.llm.openai_responses_request import ResponsesDialect, encode_request
from unspool.llm.origins import LeftOutWarning

from .decoding import decode_responses, shared  # tests/llm/, not llm/

Row = dict[str, Any]
C1, C2 = make_call("c1", "f", '{"x": 1}'), make_call("c2", "g")
PNG = Image(data="aGk=", mime_type="image/png")
PNG_PART = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
PDF = Document(data="aGk=", name="a.pdf")
PDF_PART = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}


def sent(request: ModelRequest, dialect: ResponsesDialect | None = None, name: str = "p/m") -> Row:
    body: Row = json.loads(encode_request(request, name, dialect or ResponsesDialect()))
    return body


def items(
    messages: Sequence[Message], dialect: ResponsesDialect | None = None, name: str = "p/m"
) -> list[Row]:
    rows: list[Row] = sent(ModelRequest(messages=messages), dialect, name)["input"]
    return rows


def user(*content: Content) -> Message:
    return Message(role="user", content=content)


def result(call: ToolCall, *content: Content) -> Message:
    return Message(role="tool", content=content, tool_call_id=call.id, tool_name=call.name)


def wire_call(id: str, name: str, arguments: str) -> Row:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def output(id: str, value: Any) -> Row:
    return {"type": "function_call_output", "call_id": id, "output": value}


def said(text: str, **more: Any) -> Row:
    return {"type": "message", "role": "assistant", "content": text, **more}


MESSAGES: dict[str, tuple[list[Message], list[Row]]] = {
    "a text is a string": ([user_message("hi")], [{"role": "user", "content": "hi"}]),
    "one text among empty ones too": ([user(Text(""), Text("hi"))], [{"role": "user", "content": "hi"}]),
    "several blocks are parts": (
        [user(Text("look"), PNG, Image(url="http://h/a.png"), PDF, Document(url="http://h/a.pdf"))],
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    PNG_PART,
                    {"type": "input_image", "image_url": "http://h/a.png", "detail": "auto"},
                    PDF_PART,
                    {"type": "input_file", "file_url": "http://h/a.pdf"},
                ],
            }
        ],
    ),
    "parts of the format that the kernel does not model": (
        [
            user(Opaque(provider="openai-responses", data={"type": "input_text", "text": "a", "more": 1})),
            result(
                C1,
                Text("b"),
                Opaque(provider="openai-responses", data={"type": "input_file", "file_id": "f"}),
            ),
        ],
        [
            {"role": "user", "content": [{"type": "input_text", "text": "a", "more": 1}]},
            output("c1", [{"type": "input_text", "text": "b"}, {"type": "input_file", "file_id": "f"}]),
        ],
    ),
    "documents of text are text": (
        [
            user(Text("look"), Document(data="YSwx", mime_type="text/csv", name="a.csv")),
            result(C1, Document(data="e30=", mime_type="application/json")),
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_text", "text": "a.csv:\n\na,1"},
                ],
            },
            output("c1", "{}"),
        ],
    ),
    "names of calls that the format does not allow": (
        [assistant_message("", make_call("c1", "functions.read file"), make_call("c2", ""))],
        [wire_call("c1", "functions_read_file", "{}"), wire_call("c2", "unknown", "{}")],
    ),
    "a user message of nothing is not sent": ([user(), user(Text("")), user(Image())], []),
    "a system message within the conversation": (
        [Message(role="system", content=(Text("now"),)), Message(role="system", content=(Text(" "),))],
        [{"role": "developer", "content": "now"}],
    ),
    "an assistant text": ([assistant_message("yes")], [said("yes")]),
    "text and calls": (
        [assistant_message("so", C1, C2)],
        [
            said("so"),
            wire_call("c1", "f", '{"x": 1}'),
            wire_call("c2", "g", "{}"),
        ],
    ),
    "blank text": ([assistant_message(" \n", C2), assistant_message(" ")], [wire_call("c2", "g", "{}")]),
    "invalid arguments are replayed as none": (
        [assistant_message("", make_call("c3", "f", '{"x":'))],
        [wire_call("c3", "f", "{}")],
    ),
    "thinking made by hand has nothing that a server could use": (
        [Message(role="assistant", content=(Thinking(text="hm"), Text("so")))],
        [said("so")],
    ),
    "results": (
        [
            tool_message(C1, "one"),
            result(C2, Text("a"), Text("b")),
            result(C1),
            result(C1, ToolReference("h")),
        ],
        [
            output("c1", "one"),
            output("c2", "a\nb"),
            output("c1", "(no output)"),
            output("c1", "tool 'h' is now available"),
        ],
    ),
    "images and files in results": (
        [result(C1, Text("shot"), PNG, PDF)],
        [output("c1", [{"type": "input_text", "text": "shot"}, PNG_PART, PDF_PART])],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    messages, want = MESSAGES[name]
    assert items(messages) == want
    growing: Transcript[Message] = Transcript()
    for message in messages:  # what is kept from the last request changes nothing
        growing = growing.append(message)
        items(growing)
    assert items(growing) == want


def test_images_of_results_follow_where_a_server_wants_them_apart() -> None:
    messages = [result(C1, Text("shot"), PNG), result(C2, PDF), user_message("go on")]
    assert items(messages, ResponsesDialect(rich_results=False)) == [
        output("c1", "shot\n[attached below]"),
        output("c2", "[attached below]"),
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Attached to the result of f:"},
                PNG_PART,
                {"type": "input_text", "text": "Attached to the result of g:"},
                PDF_PART,
            ],
        },
        {"role": "user", "content": "go on"},
    ]


def test_long_ids_are_replaced_alike() -> None:
    call = make_call("c" * 65, "f")
    rows = items([assistant_message("", call), tool_message(call, "x"), tool_message(C1, "y")])
    assert rows[0]["call_id"] == rows[1]["call_id"] != "c" * 65
    assert len(rows[0]["call_id"]) <= 64
    assert rows[2]["call_id"] == "c1"


# --- what goes back to whom ----------------------------------------------------------------------

RS: Row = {
    "type": "reasoning",
    "id": "rs_1",
    "encrypted_content": "e",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so\n\nso"}],
}
RAW: Row = {
    "type": "reasoning",
    "id": "rs_2",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}
BARE: Row = {"type": "reasoning", "id": "rs_3", "summary": [{"type": "summary_text", "text": "hm"}]}
MSG: Row = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {"type": "output_text", "text": "look", "annotations": [{"type": "url_citation", "url": "u"}]},
        {
            "type": "output_text",
            "text": "!",
            "annotations": [],
            "logprobs": [{"token": "!", "logprob": -1.0}],
        },
    ],
}
FC: Row = {**wire_call("c1", "f", '{"x": 1}'), "id": "fc_1", "status": "completed", "namespace": "n"}
CT: Row = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "sql", "input": "select 1"}
WS: Row = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"queries": ["q"]}}
PLAIN = said("look!", phase="commentary")


def reply(*output: Row, origin: str = "openai-responses:p/m") -> Message:
    body = json.dumps({"status": "completed", "output": output}).encode()
    made = decode_responses(body)
    assert made.error is None
    return Message(role="assistant", content=made.reply.content, stop_reason="stop", origin=origin)


def without(item: Row, *keys: str) -> Row:
    return {key: value for key, value in item.items() if key not in keys}


OWN: dict[str, tuple[list[Row], list[Row]]] = {
    "everything, item by item": ([RS, MSG, RS, FC, WS, RAW, CT], [RS, MSG, RS, FC, WS, RAW, CT]),
    "reasoning with nothing after it": ([MSG, RS], [MSG]),
    "reasoning alone": ([RS, RAW], []),
    "reasoning that is stored nowhere: what came after it is without id": (
        [BARE, MSG, FC],
        [PLAIN, without(FC, "id")],
    ),
    "nor does the provider's own item go without its reasoning": ([BARE, WS, FC], [without(FC, "id")]),
    "reasoning before others does": ([WS, BARE, FC], [WS, without(FC, "id")]),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.filterwarnings("ignore::unspool.llm.origins.LeftOutWarning")
def test_a_reply_of_the_same_model(name: str) -> None:
    output, want = OWN[name]
    assert items([reply(*output)]) == want
    assert items([reply(*output, origin="")]) == want


def test_a_server_that_stores_answers_looks_reasoning_up() -> None:
    assert items([reply(BARE, FC)], ResponsesDialect(store=True)) == [BARE, FC]


def test_the_result_of_a_free_form_call_says_so() -> None:
    made = reply(CT, {**FC, "caller": {"type": "program", "caller_id": "pg_1"}})
    rows = items([made, *[tool_message(call, "1") for call in made.tool_calls]])
    assert rows[2:] == [
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
        {**output("c1", "1"), "caller": {"type": "program", "caller_id": "pg_1"}},
    ]


def test_reasoning_that_is_not_wanted() -> None:
    options = CallOptions(drop_reasoning=True)
    assert sent(ModelRequest(messages=[reply(RS, MSG, FC)], options=options))["input"] == [
        PLAIN,
        without(FC, "id"),
    ]


def test_what_lost_its_reasoning_goes_without_id_and_the_rest_with() -> None:
    made = reply(RS, MSG, {**RS, "id": "rs_b"}, {**MSG, "id": "msg_b"}, FC)
    kept = Message(role="assistant", content=made.content[1:], origin=made.origin)
    assert items([kept]) == [PLAIN, {**RS, "id": "rs_b"}, {**MSG, "id": "msg_b"}, FC]
    assert items([kept]) == items([kept])


def test_a_text_that_was_changed_is_sent_as_it_is_now() -> None:
    made = reply(MSG)
    changed = Message(role="assistant", content=(Text("loo"), *made.content[2:]), origin=made.origin)
    assert items([changed]) == [{**PLAIN, "content": "loo"}]


def test_thinking_that_was_changed_is_one_text() -> None:
    made = reply(RS, FC)
    first = made.content[0]
    assert isinstance(first, Thinking)
    changed = Thinking(text="other", signature=first.signature)
    rows = items([Message(role="assistant", content=(changed, *made.content[1:]), origin=made.origin)])
    assert rows == [{**RS, "summary": [{"type": "summary_text", "text": "other"}]}, FC]


def test_another_model_gets_the_words_and_no_ids() -> None:
    made = reply(RS, MSG, FC, CT, origin="openai-responses:p/other")
    assert items([made, *[tool_message(call, "1") for call in made.tool_calls]]) == [
        said("<thinking>\nhm\n\nso\n\nso\n</thinking>\n\nlook!"),
        wire_call("c1", "f", '{"x": 1}'),
        without(CT, "id"),
        output("c1", "1"),
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
    ]
    options = CallOptions(drop_reasoning=True)
    assert sent(ModelRequest(messages=[made], options=options))["input"][0] == said("look!")


def test_text_of_another_model_comes_before_its_calls() -> None:
    content = (Text("a"), C1, Text("b"), C2)
    rows = items([Message(role="assistant", content=content, origin="anthropic:a/b")])
    assert [row.get("content", row.get("call_id")) for row in rows] == ["ab", "c1", "c2"]


LEFT_OUT: dict[str, tuple[Message, bool]] = {
    "another model of the provider": (reply(WS, MSG, origin="openai-responses:p/other"), True),
    "after reasoning that is not sent": (reply(RS, WS, MSG, origin="openai-responses:p/other"), False),
    "another provider": (reply(WS, MSG, origin="openai-responses:pp/m"), False),
    "another format": (reply(WS, MSG, origin="openai-chat:p/m"), False),
    "another format's block": (
        Message(role="assistant", content=(Opaque(provider="anthropic", data={"type": "x"}), Text("a"))),
        False,
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_items_only_a_provider_understands(name: str) -> None:
    message, goes = LEFT_OUT[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = items([message])
    assert (WS in rows) == goes
    assert [warning.category for warning in caught] == ([] if goes else [LeftOutWarning])


def test_signatures_that_are_none_do_no_harm() -> None:
    for signature in ("", "x", "[]", '{"item": 3}', "\ud800", '{"item": {"content": 3, "summary": [1]}}'):
        blocks: tuple[Content, ...] = (
            Thinking(text="a", signature=signature),
            make_call("c1", "f", thought_signature=signature),
            Text("b"),
            Opaque(provider="openai-responses", data={"type": "message_fields", "item": signature}),
        )
        rows = items([Message(role="assistant", content=blocks)])
        assert said("b") in rows


# --- options -------------------------------------------------------------------------------------

BASE: Row = {"model": "m", "input": [], "store": False, "stream": True}
ENCRYPTED: Row = {"include": ["reasoning.encrypted_content"]}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
NEEDED = {**SCHEMA, "required": ["x"]}
CLOSED = {**NEEDED, "additionalProperties": False}
OPTIONS: dict[str, tuple[CallOptions, Row]] = {
    "none": (CallOptions(), {}),
    "limits": (
        CallOptions(max_tokens=9, temperature=0.2),
        {"max_output_tokens": 9, "temperature": 0.2},
    ),
    "thinking": (
        CallOptions(thinking="low"),
        {"reasoning": {"effort": "low", "summary": "auto"}, **ENCRYPTED},
    ),
    "thinking, more than is known": (
        CallOptions(thinking="max"),
        {"reasoning": {"effort": "high", "summary": "auto"}, **ENCRYPTED},
    ),
    "thinking, off without a word for it": (CallOptions(thinking="off"), {}),
    "JSON": (CallOptions(response_format={"type": "json"}), {"text": {"format": {"type": "json_object"}}}),
    "a schema": (
        CallOptions(response_format={"type": "json_schema", "schema": NEEDED, "strict": True}),
        {"text": {"format": {"type": "json_schema", "name": "reply", "schema": CLOSED, "strict": True}}},
    ),
    "a schema that cannot be strict": (
        CallOptions(response_format={"type": "json_schema", "schema": SCHEMA, "strict": True}),
        {"text": {"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA, "strict": False}}},
    ),
    "a schema as chat has it": (
        CallOptions(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}),
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
    ),
    "a cache key": (CallOptions(cache_key="k", session_id="s"), {"prompt_cache_key": "k"}),
    "a session": (CallOptions(session_id="s"), {"prompt_cache_key": "s"}),
    "extra wins": (
        CallOptions(temperature=0.2, extra={"temperature": 1, "store": None, "parallel_tool_calls": False}),
        {"temperature": 1, "store": None, "parallel_tool_calls": False},
    ),
    "extra is merged": (
        CallOptions(
            response_format={"type": "json"},
            extra={"text": {"verbosity": "low"}, "include": ["x"], "tools": [{"type": "web_search"}]},
        ),
        {
            "text": {"format": {"type": "json_object"}, "verbosity": "low"},
            "include": ["x"],
            "tools": [{"type": "web_search"}],
        },
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    options, fields = OPTIONS[name]
    want = {key: value for key, value in (BASE | fields).items() if value is not None}
    assert sent(ModelRequest(messages=[], options=options)) == want


DIALECTS: dict[str, tuple[ResponsesDialect, CallOptions, Row]] = {
    "retention": (
        ResponsesDialect(retention="24h"),
        CallOptions(session_id="session-2"),
        {"prompt_cache_key": "session-2", "prompt_cache_retention": "24h"},
    ),
    "no cache key: no retention": (
        ResponsesDialect(cache_key=False, retention="24h"),
        CallOptions(cache_key="k"),
        {},
    ),
    "stored, and nothing encrypted": (
        ResponsesDialect(store=True, encrypted_reasoning=False),
        CallOptions(),
        {"store": True},
    ),
    "encrypted whenever": (ResponsesDialect(encrypted_reasoning=True), CallOptions(), ENCRYPTED),
    "encrypted never": (
        ResponsesDialect(encrypted_reasoning=False),
        CallOptions(thinking="low"),
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "efforts, so it reasons": (ResponsesDialect(efforts=("low",)), CallOptions(), ENCRYPTED),
    "no efforts, so it does not": (ResponsesDialect(efforts=()), CallOptions(thinking="low"), {}),
    "efforts: minimal is low": (
        ResponsesDialect(efforts=("low", "medium", "high", "xhigh"), summary=None),
        CallOptions(thinking="minimal"),
        {"reasoning": {"effort": "low"}, **ENCRYPTED},
    ),
    "efforts: off": (
        ResponsesDialect(efforts=("none", "low")),
        CallOptions(thinking="off"),
        {"reasoning": {"effort": "none"}, **ENCRYPTED},
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects(name: str) -> None:
    dialect, options, fields = DIALECTS[name]
    want = {key: value for key, value in (BASE | fields).items() if value is not None}
    assert sent(ModelRequest(messages=[], options=options), dialect) == want


REASONS: dict[str, tuple[bool, bool]] = {  # whether it is asked for its reasoning, and so if it shall think
    "gpt-5": (True, True),
    "openai/o3": (True, True),
    "gpt-4.1": (False, False),
    "ft:gpt-4.1-2025-04-14:acme::x": (False, False),
    "chatgpt-4o-latest": (False, False),
    "my-deployment": (False, True),
}


@pytest.mark.parametrize("model", REASONS)
def test_only_a_model_that_reasons_is_asked_for_its_reasoning(model: str) -> None:
    for options, asked in zip((CallOptions(), CallOptions(thinking="low")), REASONS[model], strict=True):
        request = ModelRequest(messages=[], options=options)
        assert ("include" in sent(request, name=f"p/{model}")) == asked


def test_a_free_form_call_of_chat_keeps_its_input() -> None:
    call = make_call("c1", "sql", "select 1", thought_signature='{"custom":true}')
    message = Message(role="assistant", content=(call,), origin="openai-chat:p/m")
    assert items([message]) == [wire_call("c1", "sql", '{"input":"select 1"}')]


def test_parts_of_another_format_are_left_out_with_a_warning() -> None:
    with pytest.warns(LeftOutWarning, match="'x' of elsewhere"):
        assert items([user(Text("a"), Opaque(provider="elsewhere", data={"type": "x"}))]) == [
            {"role": "user", "content": "a"}
        ]


def test_the_rest_of_a_message_is_no_part_of_another() -> None:
    rest = Opaque(provider="openai-responses", data={"type": "message_fields", "item": {"id": "msg_1"}})
    assert items([user(Text("a"), rest)]) == [{"role": "user", "content": "a"}]


def test_tool_choice_for_tools_of_extra_alone() -> None:
    options = CallOptions(tool_choice="required", extra={"tools": [{"type": "web_search"}]})
    assert sent(ModelRequest(messages=[], options=options))["tool_choice"] == "required"


def test_a_whole_request() -> None:
    tools = (
        ToolSpec(name="f", description="does", schema=SCHEMA),
        ToolSpec(name="g", strict=True),
        ToolSpec(name="h", schema=SCHEMA, strict=True),
    )
    request = ModelRequest(
        messages=[user_message("hi")],
        system=(SystemBlock(text="be"), SystemBlock(text=" "), SystemBlock(text="kind")),
        tools=tools,
        options=CallOptions(tool_choice="f", extra={"tools": [{"type": "web_search"}]}),
    )
    assert sent(request, name="openrouter/openai/m") == BASE | {
        "model": "openai/m",
        "input": [{"role": "user", "content": "hi"}],
        "instructions": "be\n\nkind",
        "tools": [
            {"type": "function", "name": "f", "description": "does", "parameters": SCHEMA, "strict": False},
            {
                "type": "function",
                "name": "g",
                "parameters": {
                    "type": "object",
                    "properties": {},
                    "required": [],
                    "additionalProperties": False,
                },
                "strict": True,
            },
            {"type": "function", "name": "h", "parameters": SCHEMA, "strict": False},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "f"},
    }


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_tool_choice_by_word(choice: str) -> None:
    request = ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=CallOptions(tool_choice=choice))
    assert sent(request)["tool_choice"] == choice


def test_stop_sequences_are_left_out_with_a_warning() -> None:
    with pytest.warns(LeftOutWarning, match="stop sequences"):
        assert "stop" not in sent(ModelRequest(messages=[], options=CallOptions(stop=("x",))))


def test_not_streaming() -> None:
    body = json.loads(encode_request(ModelRequest(messages=[]), "p/m", ResponsesDialect(), stream=False))
    assert "stream" not in body


# --- the model -----------------------------------------------------------------------------------


def test_where_to_and_with_what() -> None:
    dialect = ResponsesDialect(session_headers=("session_id", "conversation_id"))
    for url in ("http://h/v1", "http://h/v1/", "http://h/v1/responses"):
        model = OpenAIResponsesModel("p/m", base_url=url, dialect=dialect)
        assert model._url() == "http://h/v1/responses"
    assert model._auth("k") == {"authorization": "Bearer k"}
    in_session = ModelRequest(messages=[], options=CallOptions(session_id="s"))
    assert model._more_headers(in_session) == {"session_id": "s", "conversation_id": "s"}
    assert model._more_headers(ModelRequest(messages=[])) == {}


# --- faults reported elsewhere ------------------------------------------------------------------

_CASES = shared("bugcases", "cases.jsonl")


@pytest.mark.skipif(_CASES is None, reason="no shared test material beside the repository")
@pytest.mark.parametrize("case", range(6))
def test_reasoning_stays_with_its_calls(case: int) -> None:
    assert _CASES is not None
    rows = [json.loads(line) for line in _CASES.read_bytes().strip().split(b"\n")]
    listed = next(row for row in rows if row["id"] == "B124")["trigger"]["cases"][case]
    messages = repair_message_sequence(_spelled_out(listed["in"]))
    got = [_spelled(item) for item in items(messages)]
    want = [line.replace(" without provider item id", "") for line in listed["want"]]
    calls = [line for line in got if line.startswith("call")]
    answered = {f"output {line.split()[1]}" for line in calls}
    assert answered <= set(got)  # an unanswered call is answered, and so kept with its reasoning
    assert [line for line in want if line not in got] == []
    assert not got or not got[-1].startswith("reasoning")
    if "compacted" in listed["in"][-1]:
        assert "id" not in items(messages)[0]


def _spelled_out(lines: list[str]) -> list[Message]:
    """Messages of items in the short spelling of the cases."""
    lost = "compacted" in lines[-1]
    rows: list[Row] = [{**RS, "id": "lost"}] if lost else []
    after: list[Message] = []
    for line in lines:
        kind, name = line.split()[:2]
        if kind == "reasoning":
            rows.append({**RS, "id": name})
        elif kind == "call":
            rows.append({**wire_call(name, "f", "{}"), "id": f"fc_{name}"})
        elif kind == "message":
            rows.append({"type": "message", "id": name, "content": [{"type": "output_text", "text": name}]})
        elif kind == "output":
            after.append(tool_message(make_call(name, "f"), "1"))
        else:
            after.append(user_message(name))
    made = reply(*rows)
    content = made.content[1:] if lost else made.content
    return [Message(role="assistant", content=content, origin=made.origin), *after]


def _spelled(item: Row) -> str:
    match item:
        case {"type": "reasoning", "id": id}:
            return f"reasoning {id}"
        case {"type": "function_call", "call_id": id}:
            return f"call {id}"
        case {"type": "function_call_output", "call_id": id}:
            return f"output {id}"
        case {"role": "user", "content": text}:
            return f"user {text}"
        case _:
            return f"message {item.get('id')}"
