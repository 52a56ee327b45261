"""What models are sent and what is made of their answers: the checks about adapters."""

import json
from typing import Any

import pytest
from wires import ANTHROPIC, CALL, CHAT, FORMATS, GEMINI, RESPONSES, Format, Json, sse

from unspool.kernel import (
    CallOptions,
    Codec,
    Image,
    Message,
    MessageEnd,
    ModelRequest,
    SystemBlock,
    Text,
    Thinking,
    ToolCall,
    ToolSpec,
    Usage,
    assistant_message,
    make_call,
    repair_message_sequence,
    to_messages,
    tool_message,
    user_message,
)
from unspool.llm import AnthropicModel, ChatDialect, ResponsesDialect
from unspool.llm.faults import error_of, fault_of_response

ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
GO = user_message("go")
F = (ToolSpec(name="f", schema={"type": "object", "properties": {}}),)
EPHEMERAL = {"type": "ephemeral"}


def ask(
    *messages: Message, tools: Any = (), system: str = "", cache: str | None = None, **options: Any
) -> ModelRequest:
    blocks = (SystemBlock(text=system, cache=cache),) if system else ()
    return ModelRequest(messages=messages or [GO], tools=tools, system=blocks, options=CallOptions(**options))


def by(origin: str, *blocks: Any) -> Message:
    return Message(role="assistant", content=blocks, origin=origin)


# --- requests -----------------------------------------------------------------------------------


@ALL
def test_temperature_is_sent_where_it_is_asked_for(format: Format) -> None:  # T100, T101, E.1.1
    assert "temperature" not in json.dumps(format.sent(ask()))
    assert '"temperature": 0.2' in json.dumps(format.sent(ask(temperature=0.2)))


@ALL
def test_nothing_is_said_of_thinking_unless_asked(format: Format) -> None:  # T102, E.1.2
    body = json.dumps(format.sent(ask()))
    assert not any(word in body for word in ('"thinking', '"reasoning"', "reasoning_effort", "output_config"))


@ALL
def test_models_share_no_settings(format: Format) -> None:  # T105, E.1.9
    one, other = format.at("http://h"), format.at("http://h")
    before = one._body(ask())
    other._body(ask(max_tokens=9, thinking="high", extra={"x": 1}))
    assert one._body(ask()) == before == other._body(ask())


@ALL
def test_a_call_with_broken_arguments_in_the_history(format: Format) -> None:  # T110
    broken = make_call("c1", "f", '{"q":')
    body = json.dumps(format.sent(ask(GO, by("", broken), tool_message(broken, "no"))))
    assert '{"q":' not in body and '{\\"q\\":' not in body
    assert '"{}"' in body or ": {}" in body


@ALL
@pytest.mark.parametrize("choice", ["auto", "none", "required", "f"])
def test_tool_choice(format: Format, choice: str) -> None:  # T317, E.0.2
    body = format.sent(ask(tools=F, tool_choice=choice))
    assert body["tools"] and (body.get("tool_choice") or body.get("toolConfig"))
    assert "tool_choice" not in format.sent(ask(tool_choice=choice))


def test_strict_is_not_said_to_a_server_that_does_not_know_it() -> None:  # T318
    tools = (ToolSpec(name="f", strict=True),)
    assert b'"strict"' not in CHAT.at("http://h", dialect=ChatDialect(strict=False))._body(ask(tools=tools))
    assert b'"strict":true' in CHAT.at("http://h")._body(ask(tools=tools))


def test_an_empty_list_of_tools_where_a_server_wants_one() -> None:  # E.4
    model = CHAT.at("http://h", dialect=ChatDialect(empty_tools=True))
    call = make_call("c1", "f")
    assert b'"tools":[]' in model._body(ask(GO, by("", call), tool_message(call, "ok")))
    assert b'"tools"' not in model._body(ask())


# --- the cache ----------------------------------------------------------------------------------


def claude(url: str = "https://api.anthropic.com") -> AnthropicModel:
    return AnthropicModel("anthropic/claude-sonnet-4-5", base_url=url)


def body(model: Any, request: ModelRequest) -> Json:
    found: Json = json.loads(model._body(request))
    return found


def test_marks_of_a_cache_at_anthropic() -> None:  # T306–T311, E.3
    plain = ask(system="s", cache="", cache_last="")
    assert body(claude(), plain)["system"][0]["cache_control"] == EPHEMERAL  # T306
    assert body(claude(), plain)["messages"][0]["content"] == [  # T310
        {"type": "text", "text": "go", "cache_control": EPHEMERAL}
    ]
    long = ask(system="s", cache="1h", cache_last="1h")  # T307, T311: asked for, not set by the environment
    assert body(claude(), long)["system"][0]["cache_control"] == {**EPHEMERAL, "ttl": "1h"}
    assert body(claude("https://proxy.example"), long)["system"][0]["cache_control"] == EPHEMERAL  # T308
    assert "cache_control" not in json.dumps(body(claude(), ask(system="s")))  # T309


RETENTION: dict[str, tuple[ResponsesDialect, dict[str, str], Json]] = {
    "by default": (ResponsesDialect(), {"session_id": "s"}, {"prompt_cache_key": "s"}),  # T312, T314
    "long": (  # T313, T316
        ResponsesDialect(retention="24h"),
        {"session_id": "session-2"},
        {"prompt_cache_key": "session-2", "prompt_cache_retention": "24h"},
    ),
    "none": (ResponsesDialect(retention="24h"), {}, {}),  # T315
}


@pytest.mark.parametrize("name", RETENTION)
def test_how_long_openai_keeps_a_cache(name: str) -> None:  # T312–T316, E.5
    dialect, options, want = RETENTION[name]
    found = body(RESPONSES.at("http://h", dialect=dialect), ask(**options))
    assert {key: value for key, value in found.items() if key.startswith("prompt_cache")} == want


@pytest.mark.parametrize("headers", [(), ("conversation_id", "session_id")])
def test_headers_of_a_session(headers: tuple[str, ...]) -> None:  # T325, T327
    model = RESPONSES.at("http://h", dialect=ResponsesDialect(session_headers=headers))
    assert model._more_headers(ask(session_id="s")) == dict.fromkeys(headers, "s")
    assert model._more_headers(ask()) == {}


def test_thinking_between_calls_is_asked_for_where_a_model_must_be_told() -> None:  # T304, T305, T329, T346
    def betas(name: str) -> str:
        model = AnthropicModel(name, base_url="http://h")
        return model._more_headers(ask(tools=F, thinking="low")).get("anthropic-beta", "")

    assert betas("p/claude-sonnet-4-5") == "interleaved-thinking-2025-05-14"
    assert betas("p/claude-opus-4-6") == ""


@pytest.mark.parametrize(
    "format, name, effort",
    [
        (RESPONSES, "openai/gpt-5.4", "xhigh"),
        (RESPONSES, "openai/gpt-5.1-codex-max", "xhigh"),
        (RESPONSES, "openai/gpt-5-mini", "high"),
        (ANTHROPIC, "anthropic/claude-opus-4-6", "max"),
        (ANTHROPIC, "openrouter/anthropic/claude-opus-4.6", "max"),
    ],
)
def test_the_highest_that_a_model_knows(format: Format, name: str, effort: str) -> None:  # T330, T350
    found = format.sent(ask(thinking="xhigh"), name)
    assert (found.get("reasoning") or found["output_config"])["effort"] == effort


@pytest.mark.parametrize("name", ["openai/gpt-5.3-codex", "openai/gpt-5.4"])
def test_the_least_that_a_model_knows(name: str) -> None:  # T326
    assert RESPONSES.sent(ask(thinking="minimal"), name)["reasoning"]["effort"] == "low"


# --- answers ------------------------------------------------------------------------------------

CUT_CALLS: dict[str, bytes] = {  # each ends as if all were well
    "openai-chat": sse(
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"q":'}}
                        ]
                    },
                    "finish_reason": "tool_calls",
                }
            ]
        },
        "[DONE]",
    ),
    "openai-responses": sse(
        {
            "type": "response.completed",
            "response": {
                "status": "completed",
                "output": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"q":'}],
            },
        }
    ),
    "anthropic-messages": sse(
        {"type": "message_start", "message": {}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"q":'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ),
}


@pytest.mark.parametrize("format", CUT_CALLS)
def test_arguments_that_are_cut(format: str) -> None:  # T103, T109, T123
    (call,) = FORMATS[format].read(CUT_CALLS[format]).tool_calls
    assert (call.id, call.args, call.args_invalid, call.args_text) == ("c1", {}, True, '{"q":')
    assert call.args_parse_error


def test_arguments_that_are_cut_in_an_answer_in_one_piece() -> None:  # T103
    function = {"name": "f", "arguments": '{"q":'}
    message = {"content": None, "tool_calls": [{"id": "c1", "function": function}]}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    (call,) = CHAT.read(json.dumps(answer).encode()).tool_calls
    assert (call.args, call.args_invalid, call.args_text) == ({}, True, '{"q":')


@ALL
def test_a_call_without_arguments(format: Format) -> None:  # T108, T302
    reply = format.read(format.answer("", ("c1", "f", {})))
    (call,) = reply.tool_calls
    assert (call.args, call.args_invalid, call.completed, reply.stop_reason) == ({}, False, True, "tool_use")


def test_a_gemini_call_that_does_not_mention_arguments() -> None:  # T302
    part = {"functionCall": {"name": "f"}}
    reply = GEMINI.read(sse({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}))
    assert len(reply.content) == 1 and reply.stop_reason == "tool_use"
    assert (reply.tool_calls[0].args, reply.tool_calls[0].completed) == ({}, True)


def test_a_call_whose_end_never_comes() -> None:  # T111
    events = CUT_CALLS["anthropic-messages"].replace(b"content_block_stop", b"ping")
    (call,) = ANTHROPIC.read(events).tool_calls
    assert (call.args, call.args_invalid, call.completed) == ({}, True, False)
    assert call.args_parse_error


REFUSALS: dict[str, tuple[bytes, str, str]] = {
    "openai-chat": (
        sse(
            {"choices": [{"index": 0, "delta": {"content": "I can't"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {"refusal": "no"}, "finish_reason": "content_filter"}]},
            "[DONE]",
        ),
        "I can't",
        "content_filter",
    ),
    "openai-chat, as if it were an answer": (
        sse({"choices": [{"index": 0, "delta": {"refusal": "no"}, "finish_reason": "stop"}]}, "[DONE]"),
        "",
        "stop",
    ),
    "openai-responses": (
        sse(
            {
                "type": "response.completed",
                "response": {
                    "status": "completed",
                    "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}],
                },
            }
        ),
        "",
        "completed",
    ),
    "anthropic-messages": (
        sse(
            {"type": "message_start", "message": {"content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I can't"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "no"}},
            },
            {"type": "message_stop"},
        ),
        "I can't",
        "refusal",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal(name: str) -> None:  # T104, T112, E.1.6
    answer, text, reason = REFUSALS[name]
    reply = FORMATS[name.partition(",")[0]].read(answer)
    assert (reply.stop_reason, reply.text) == ("safety", text)
    assert (reply.metadata["refusal"], reply.metadata["finish_reason"]) == ("no", reason)


def test_a_blocked_answer_of_gemini() -> None:  # T104
    parts = {"parts": [{"text": "I"}]}
    reply = GEMINI.read(sse({"candidates": [{"content": parts, "finishReason": "SAFETY"}]}))
    assert (reply.stop_reason, reply.text, reply.metadata["finish_reason"]) == ("safety", "I", "SAFETY")


def test_an_answer_that_another_server_of_the_format_finds_sensitive() -> None:  # E.3
    answer = ANTHROPIC.answer("I", CALL).replace(b'"tool_use"}', b'"sensitive"}')
    reply = ANTHROPIC.read(answer)
    assert (reply.stop_reason, reply.metadata["finish_reason"]) == ("safety", "sensitive")
    assert not any(call.completed for call in reply.tool_calls)


THOUGHTS: dict[str, tuple[list[Json], *tuple[Thinking | Text, ...]]] = {
    "a thought": ([{"text": "a", "thought": True}], Thinking(text="a")),  # T290
    "a signed thought": (  # T290
        [{"text": "a", "thought": True, "thoughtSignature": "c2ln"}],
        Thinking(text="a", signature="c2ln"),
    ),
    "a signature alone": ([{"text": "a", "thoughtSignature": "c2ln"}], Text("a")),  # T291
    "a signature, and no thought": (  # T291
        [{"text": "a", "thought": False, "thoughtSignature": "c2ln"}],
        Text("a"),
    ),
    "neither": ([{"text": "a"}], Text("a")),  # T292
    "a signature that later parts omit": (  # T293
        [
            {"text": "a", "thought": True, "thoughtSignature": "sig-1"},
            {"text": "b", "thought": True},
            {"text": "c", "thought": True, "thoughtSignature": ""},
        ],
        Thinking(text="a", signature="sig-1"),
        Thinking(text="bc"),
    ),
    "a signature after another": (  # T294
        [
            {"text": "a", "thought": True, "thoughtSignature": "sig-1"},
            {"text": "b", "thought": True, "thoughtSignature": "sig-2"},
        ],
        Thinking(text="a", signature="sig-1"),
        Thinking(text="b", signature="sig-2"),
    ),
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_what_is_a_thought_of_gemini(name: str) -> None:  # T290–T294, E.6
    parts, *want = THOUGHTS[name]
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    reply = GEMINI.read(sse(*chunks, {"candidates": [{"finishReason": "STOP"}]}))
    assert list(reply.content[: len(want)]) == want


def test_all_tokens_add_up() -> None:  # T344
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, cache_write_tokens=8)
    assert usage.total_tokens == 15


# --- a history that others made ------------------------------------------------------------------

THINKING = Thinking(text="reasoning here", signature="c2ln")


def test_thinking_stays_where_it_was_made() -> None:  # T113
    (_, reply) = ANTHROPIC.sent(ask(GO, by("anthropic-messages:p/m", THINKING, Text("so"))))["messages"]
    assert [part["type"] for part in reply["content"]] == ["thinking", "text"]


@ALL
def test_thinking_of_another_is_a_text_between_tags(format: Format) -> None:  # T114, T288, E.1.8
    sent = json.dumps(format.sent(ask(GO, by("elsewhere:q/m", THINKING, Text("so")))))
    assert "<thinking>\\nreasoning here\\n</thinking>" in sent and "so" in sent
    assert '"thinking"' not in sent and "c2ln" not in sent


def test_a_signature_of_another_is_not_sent() -> None:  # T289
    signed = ToolCall(id="c1", name="f", thought_signature="c2ln")
    for format in FORMATS.values():
        assert "c2ln" not in json.dumps(
            format.sent(ask(GO, by("elsewhere:q/m", signed), tool_message(signed, "x")))
        )


@ALL
def test_thinking_of_nothing_is_left_out(format: Format) -> None:  # T115
    with_nothing = by("elsewhere:q/m", Thinking(text=" \n"), Text("so"))
    assert format.sent(ask(GO, with_nothing)) == format.sent(ask(GO, by("elsewhere:q/m", Text("so"))))


@ALL
def test_a_last_reply_of_nothing_but_thinking_is_left_out(format: Format) -> None:  # E.1.5, T348
    own = by(f"{format.name}:p/{format.model}", Thinking(text="cut", signature="x"))
    if format is GEMINI:  # it takes thoughts as a turn of their own
        assert format.sent(ask(GO, own))["contents"][-1]["parts"] == [{"text": "cut", "thought": True}]
    else:
        assert format.sent(ask(GO, own)) == format.sent(ask(GO))


def test_a_failed_reply_is_not_replayed() -> None:  # T116
    failed = Message(role="assistant", content=(Text("half"),), stop_reason="error")
    assert to_messages([GO, failed, user_message("b")]) == [GO, user_message("b")]


WITH_IDS = pytest.mark.parametrize("format", [CHAT, RESPONSES, ANTHROPIC], ids=lambda each: each.name)


def ids_in(value: Any, *keys: str) -> list[str]:
    """What stands under these keys, wherever in a request."""
    if isinstance(value, list):
        return [id for each in value for id in ids_in(each, *keys)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in keys if key in value]
    return own + [id for each in value.values() for id in ids_in(each, *keys)]


@WITH_IDS
@pytest.mark.parametrize("id", ["\0" * 100, "call@#$123", "call_1|fc_" + "x" * 90])  # T117, T118, T345
def test_ids_of_others(format: Format, id: str) -> None:
    call = make_call(id, "f")
    sent = format.sent(ask(GO, by("elsewhere:q/m", call), tool_message(call, "ok")))
    made = set(ids_in(sent, "id", "call_id", "tool_call_id", "tool_use_id"))
    assert len(made) == 1 and all(len(id) <= 64 and id.isprintable() for id in made)


@WITH_IDS
def test_ids_do_not_collide(format: Format) -> None:  # I-21
    calls = [make_call(id, "f") for id in ("call@1", "call#1", "@@", "##", "a" * 90, "a" * 91)]
    results = [tool_message(call, f"result-{n}") for n, call in enumerate(calls)]
    sent = format.sent(ask(GO, by("elsewhere:q/m", *calls), *results))
    assert len(set(ids_in(sent, "id", "call_id", "tool_call_id", "tool_use_id"))) == 6


@ALL
def test_a_call_without_a_result(format: Format) -> None:  # T119, T340
    call = make_call("c1", "f")
    repaired = repair_message_sequence([GO, by("", call), user_message("never mind")])
    assert [message.role for message in repaired] == ["user", "assistant", "tool", "user"]
    sent = json.dumps(format.sent(ask(*repaired)))
    assert sent.count('"c1"') == 2 or format is GEMINI


@pytest.mark.parametrize(
    "text, args, invalid",
    [("", {}, False), ('{"foo":"bar"}', {"foo": "bar"}, False), ('{"path":"/tmp/file', {}, True)],
)
def test_arguments_as_the_model_wrote_them(text: str, args: Json, invalid: bool) -> None:  # T121–T123
    call = make_call("c1", "f", text)
    assert (call.args, call.args_invalid) == (args, invalid)
    assert (call.args_text, bool(call.args_parse_error)) == ((text, True) if invalid else (None, False))


def test_a_call_with_broken_arguments_is_stored_and_read() -> None:  # T124
    codec, broken = Codec(), make_call("c1", "f", '{"q":')
    stored = codec.encode(MessageEnd("m1", assistant_message("", broken)))
    assert b'"args_text":"{\\"q\\":"' in stored
    assert codec.decode(stored).message.tool_calls == (broken,)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["p/gemini-3-pro-preview", "p/gemini-2.5-flash"])
@pytest.mark.parametrize("own", [True, False])
def test_signatures_of_calls_at_gemini(name: str, own: bool) -> None:  # T299–T301
    signed = ToolCall(id="c1", name="f", args={"x": 1}, thought_signature="c2ln")
    origin = f"gemini:{name}" if own else "openai-chat:q/m"
    (_, said, _) = GEMINI.sent(ask(GO, by(origin, signed), tool_message(signed, "ok")), name)["contents"]
    (part,) = said["parts"]
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("f", {"x": 1})
    placeholder = "skip_thought_signature_validator" if "gemini-3" in name else None
    assert part.get("thoughtSignature") == ("c2ln" if own else placeholder)


# --- contents that are odd, or no text -----------------------------------------------------------

ODD: dict[str, list[Message]] = {  # T338
    "no content": [Message(role="user")],
    "an empty text": [user_message("")],
    "white space": [user_message(" \n\t")],
    "an empty reply in the history": [user_message("a"), Message(role="assistant"), user_message("b")],
}


@ALL
@pytest.mark.parametrize("name", ODD)
def test_contents_of_nothing(format: Format, name: str) -> None:  # T338
    messages = format.sent(ask(*ODD[name]))
    sent = next(messages[key] for key in ("messages", "input", "contents") if key in messages)
    assert all(part.get("content") or part.get("parts") for part in sent)


@ALL
@pytest.mark.parametrize("text", ["\U0001f648", "\U0001f468‍\U0001f469‍\U0001f467 ok", "\ud83d alone"])
def test_emoji_and_halves_of_them_in_results(format: Format, text: str) -> None:  # T341, E.2.5
    call = make_call("c1", "f")
    body = format.at("http://h")._body(ask(GO, by("", call), tool_message(call, text)))
    assert text.replace("\ud83d", "\ufffd") in body.decode()


PNG = Image(data="aGk=", mime_type="image/png")


def test_images_of_results_at_chat_servers() -> None:  # T321, T342
    calls = [make_call("c1", "f"), make_call("c2", "g")]
    results = [
        Message(role="tool", content=(PNG,), tool_call_id=call.id, tool_name=call.name) for call in calls
    ]
    sent = CHAT.sent(ask(GO, by("", *calls), *results))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[-1]["content"]].count("image_url") == 2


def test_images_of_results_elsewhere() -> None:  # T342, T349
    call = make_call("c1", "f")
    request = ask(
        GO, by("", call), Message(role="tool", content=(Text("a"), PNG), tool_call_id="c1", tool_name="f")
    )
    output = RESPONSES.sent(request)["input"][-1]
    assert output["type"] == "function_call_output"
    assert [part["type"] for part in output["output"]] == ["input_text", "input_image"]
    (result,) = ANTHROPIC.sent(request)["messages"][-1]["content"]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    (answer,) = GEMINI.sent(request)["contents"][-1]["parts"]
    assert answer["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    sent = GEMINI.sent(request, "p/gemini-2.5-flash")["contents"][-1]["parts"]
    assert "inlineData" in sent[-1] and "parts" not in sent[0]["functionResponse"]


# --- faults -------------------------------------------------------------------------------------

NOW = 1_893_456_000.0  # Tue, 01 Jan 2030 00:00:00 GMT
DELAYS: dict[str, tuple[dict[str, str], float]] = {  # T295–T298: just what the server says, no second more
    "seconds": ({"retry-after": "5"}, 5.0),
    "a date": ({"retry-after": "Tue, 01 Jan 2030 00:00:12 GMT"}, 12.0),
    "a reset": ({"x-ratelimit-reset": str(int(NOW) + 20)}, 20.0),
    "a reset, from now": ({"x-ratelimit-reset-after": "30"}, 30.0),
}


@pytest.mark.parametrize("name", DELAYS)
def test_how_long_a_server_asks_to_wait(name: str) -> None:  # T295–T298, E.2.4
    headers, delay = DELAYS[name]
    assert error_of(fault_of_response(429, headers, b"{}", NOW), model="p/m").retry_after_s == delay


OVERFLOWS: dict[str, tuple[int, str]] = {  # T343
    "anthropic": (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "openai": (400, "Your input exceeds the context window of this model"),
    "openai, chat": (400, "This model's maximum context length is 8192 tokens, however you asked for 9001"),
    "gemini": (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)"),
    "xai": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens"),
    "groq": (400, "Please reduce the length of the messages or completion"),
    "openrouter": (400, "This endpoint's maximum context length is 163840 tokens"),
    "llama.cpp": (400, "the request exceeds the available context size, try increasing it"),
    "lm studio": (400, "tokens to keep from the initial prompt is greater than the context length"),
    "minimax": (400, "invalid params, context window exceeds limit"),
    "kimi": (400, "Invalid request: Your request exceeded model token limit: 262144"),
    "mistral": (400, "Prompt contains 9 tokens: too large for model with 8 maximum context length"),
    "copilot": (400, "prompt token count of 128001 exceeds the limit of 128000"),
    "bedrock": (400, "Input is too long for requested model."),
    "a gateway that says nothing": (413, ""),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_overflow_in_the_words_of_each_provider(name: str) -> None:  # T343, E.2.2
    status, message = OVERFLOWS[name]
    said = json.dumps({"error": {"message": message}}).encode() if message else b""
    assert error_of(fault_of_response(status, {}, said, NOW), model="p/m").error_kind == "context_overflow"


def test_the_event_that_ends_an_answer_ends_it_though_the_body_stays_open() -> None:  # T323, E.7
    decoder = RESPONSES.at("http://h")._decoder(ask(), "")
    assert [*decoder.feed(RESPONSES.answer("Hello"))] and decoder.done


def test_an_answer_that_was_cut_for_length() -> None:  # T324
    event = {
        "type": "response.incomplete",
        "response": {"incomplete_details": {"reason": "max_output_tokens"}},
    }
    assert RESPONSES.read(sse(event)).stop_reason == "length"


@ALL
def test_text_and_calls_in_pieces_and_whole(format: Format) -> None:  # T351
    body = format.answer("Hello", CALL)
    whole, decoder = format.read(body), format.at("http://h")._decoder(ask(), "")
    assert (whole.text, [call.name for call in whole.tool_calls]) == ("Hello", ["f"])
    assert sum(len(list(decoder.feed(body[at : at + 1]))) for at in range(len(body))) > 0
