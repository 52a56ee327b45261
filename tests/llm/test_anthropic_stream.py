"""Answers in, events out: each row is a stream and the whole trace of what it means."""

import json
from textwrap import dedent
from typing import Any

import pytest

from unspool.kernel.errors import (
    BadRequestError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    PartialStreamError,
)
from unspool.kernel.messages import Opaque, Text, Thinking
from unspool.kernel.ports import (
    BlockEvent,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.llm.anthropic_stream import AnthropicDecoder
from unspool.llm.anthropic_usage import usage_of

from .anthropic_decoding import decode, replayed, wire  # tests/llm/, not llm/
from .decoding import same  # tests/llm/, not llm/

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
START = {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 5, "output_tokens": 1}}}
PING = {"type": "ping"}
STOP = {"type": "message_stop"}
CITED = {"type": "char_location", "cited_text": "sky"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "http://h"}]}


def begin(index: int | None, type: str, **fields: Any) -> dict[str, Any]:
    event = {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}
    return event if index is not None else {key: event[key] for key in event if key != "index"}


def add(index: int | None, type: str, **fields: Any) -> dict[str, Any]:
    event = {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}
    return event if index is not None else {key: event[key] for key in event if key != "index"}


def text(index: int | None, text: str) -> dict[str, Any]:
    return add(index, "text_delta", text=text)


def args(index: int | None, json: str) -> dict[str, Any]:
    return add(index, "input_json_delta", partial_json=json)


def close(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    delta = {"stop_reason": reason, "stop_sequence": None, **fields}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}


def call(index: int, id: str, name: str, json: str) -> list[dict[str, Any]]:
    return [begin(index, "tool_use", id=id, name=name, input={}), args(index, json), close(index)]


def trace(events: list[StreamEvent], error: ModelError | None) -> str:
    lines = [render(event) for event in events]
    if error is not None:
        lines.append(f"! {type(error).__name__} {error}")
    return "\n".join(lines)


def render(event: StreamEvent) -> str:
    match event:
        case TextDelta():
            return f"{event.index} text {event.text!r}"
        case ThinkingDelta():
            parts = (("thinking", event.text), ("signature", event.signature), ("redacted", event.redacted))
            return f"{event.index} " + " ".join(f"{name} {said!r}" for name, said in parts if said)
        case ToolCallDelta():
            id = "made-up" if event.id.startswith("call_") else event.id or "-"
            return f"{event.index} call {id} {event.name or '-'} {event.args}".rstrip()
        case ToolCallEnd():
            return f"{event.index} complete"
        case BlockEvent(Opaque(data=data)):
            return f"{event.index} opaque {json.dumps(data)}"
        case StreamEnd():
            rows = [event.stop_reason, f"{event.usage.input_tokens}>{event.usage.output_tokens}"]
            return " ".join([*rows, *(f"{key}={value!r}" for key, value in event.metadata.items())])
        case _:
            return repr(event)


ROWS: dict[str, tuple[list[Any], str]] = {
    "text": (
        [START, begin(0, "text", text=""), PING, text(0, "He"), text(0, "y"), close(0), end(), STOP],
        """
        0 text 'He'
        0 text 'y'
        stop 5>7""",
    ),
    "text in the start of a block goes on": (
        [START, begin(0, "text", text="He"), text(0, "y"), close(0), end(), STOP],
        """
        0 text 'He'
        0 text 'y'
        stop 5>7""",
    ),
    "a text with citations": (
        [
            START,
            begin(0, "text", text="", citations=[]),
            add(0, "citations_delta", citation=CITED),
            text(0, "Blue"),
            close(0),
            end(),
            STOP,
        ],
        """
        0 text 'Blue'
        1 opaque {"type": "fields_of_text", "citations": [{"type": "char_location", "cited_text": "sky"}]}
        stop 5>7""",
    ),
    "thinking, signed": (
        [
            START,
            begin(0, "thinking", thinking="", signature=""),
            add(0, "thinking_delta", thinking="hm", estimated_tokens=3),
            add(0, "signature_delta", signature="c2"),
            add(0, "signature_delta", signature="ln"),
            close(0),
            begin(1, "text", text="So"),
            close(1),
            end(),
            STOP,
        ],
        """
        0 thinking 'hm'
        0 signature 'c2ln'
        2 text 'So'
        stop 5>7""",
    ),
    "thinking without words, and thinking that is not shown": (
        [
            START,
            begin(0, "thinking", thinking="", signature="c2ln"),
            close(0),
            begin(1, "redacted_thinking", data="eHh4"),
            close(1),
            end(),
            STOP,
        ],
        """
        0 signature 'c2ln'
        2 redacted 'eHh4'
        stop 5>7""",
    ),
    "a call in pieces": (
        [START, *call(0, "toolu_1", "f", '{"x": 1}'), end("tool_use"), STOP],
        """
        0 call toolu_1 f
        0 call - - {"x": 1}
        0 complete
        tool_use 5>7""",
    ),
    "a call whose arguments all came with its start": (
        [START, begin(0, "tool_use", id="toolu_1", name="f", input={"x": 1}), close(0), end("tool_use")],
        """
        0 call toolu_1 f
        0 call - - {"x":1}
        0 complete
        tool_use 5>7""",
    ),
    "a call without arguments": (
        [
            START,
            begin(0, "tool_use", id="toolu_1", name="f", input={}),
            args(0, ""),
            close(0),
            end("tool_use"),
        ],
        """
        0 call toolu_1 f
        0 complete
        tool_use 5>7""",
    ),
    "a call without an id gets one, one without a name is not completed": (
        [
            START,
            begin(0, "tool_use", name="f"),
            close(0),
            begin(1, "tool_use", id="toolu_2"),
            close(1),
            end("tool_use"),
        ],
        """
        0 call made-up f
        2 call toolu_2 -
        0 complete
        tool_use 5>7""",
    ),
    "the caller of a call stays beside it, and says nothing where it is the model": (
        [
            START,
            begin(
                0, "tool_use", id="toolu_1", name="f", input={}, caller={"type": "code", "tool_id": "srv_1"}
            ),
            close(0),
            begin(1, "tool_use", id="toolu_2", name="g", input={}, caller={"type": "direct"}),
            close(1),
            end("tool_use"),
        ],
        """
        0 call toolu_1 f
        1 opaque {"type": "fields_of_tool_use", "caller": {"type": "code", "tool_id": "srv_1"}}
        2 call toolu_2 g
        0 complete
        2 complete
        tool_use 5>7""",
    ),
    "interleaved blocks, events and deltas nobody knows": (
        [
            START,
            begin(0, "tool_use", id="toolu_1", name="f", input={}),
            begin(1, "tool_use", id="toolu_2", name="g", input={}),
            args(1, '{"y":'),
            {"type": "news", "delta": "soon", "index": {}},
            args(0, "{}"),
            add(0, "news_delta", x=1),
            args(1, "2}"),
            close(1),
            close(0),
            end("tool_use"),
            STOP,
        ],
        """
        0 call toolu_1 f
        2 call toolu_2 g
        2 call - - {"y":
        0 call - - {}
        2 call - - 2}
        0 complete
        2 complete
        tool_use 5>7""",
    ),
    "invalid arguments are for the model to hear of": (
        [START, *call(0, "toolu_1", "f", '{"x"'), end("tool_use"), STOP],
        """
        0 call toolu_1 f
        0 call - - {"x"
        0 complete
        tool_use 5>7""",
    ),
    "calls run whatever reason is given": (
        [START, *call(0, "toolu_1", "f", "{}"), end("end_turn"), STOP],
        """
        0 call toolu_1 f
        0 call - - {}
        0 complete
        tool_use 5>7 finish_reason='end_turn'""",
    ),
    "after the limit the last block is cut": (
        [START, *call(0, "toolu_1", "f", "{}"), *call(1, "toolu_2", "g", "{}"), end("max_tokens"), STOP],
        """
        0 call toolu_1 f
        0 call - - {}
        2 call toolu_2 g
        2 call - - {}
        0 complete
        length 5>7""",
    ),
    "after the limit a call that text follows is whole": (
        [
            START,
            *call(0, "toolu_1", "f", "{}"),
            begin(1, "text", text="a"),
            close(1),
            end("max_tokens"),
            STOP,
        ],
        """
        0 call toolu_1 f
        0 call - - {}
        2 text 'a'
        0 complete
        length 5>7""",
    ),
    "the end of the context is a limit too": (
        [START, begin(0, "text", text="a"), close(0), end("model_context_window_exceeded"), STOP],
        """
        0 text 'a'
        length 5>7 finish_reason='model_context_window_exceeded'""",
    ),
    "a call that was not closed is not completed": (
        [START, begin(0, "tool_use", id="toolu_1", name="f", input={}), args(0, "{}"), end("tool_use"), STOP],
        """
        0 call toolu_1 f
        0 call - - {}
        stop 5>7 finish_reason='tool_use'""",
    ),
    "a reason nobody knows: calls that can be run are completed": (
        [START, *call(0, "toolu_1", "f", "{}"), *call(1, "toolu_2", "g", '{"x"'), end("bored"), STOP],
        """
        0 call toolu_1 f
        0 call - - {}
        2 call toolu_2 g
        2 call - - {"x"
        0 complete
        tool_use 5>7 finish_reason='bored'""",
    ),
    "a stop sequence": (
        [START, begin(0, "text", text="a"), close(0), end("stop_sequence", stop_sequence="END"), STOP],
        """
        0 text 'a'
        stop 5>7 finish_reason='stop_sequence' stop_sequence='END'""",
    ),
    "a refusal": (
        [
            START,
            begin(0, "text", text="I"),
            close(0),
            *call(1, "toolu_1", "f", "{}"),
            end("refusal", stop_details={"type": "refusal", "explanation": "No."}),
            STOP,
        ],
        """
        0 text 'I'
        2 call toolu_1 f
        2 call - - {}
        safety 5>7 finish_reason='refusal' stop_details={'type': 'refusal', 'explanation': 'No.'} refusal='No.'""",
    ),
    "a tool of the server": (
        [
            START,
            {"type": "content_block_start", "index": 0, "content_block": SEARCH},
            args(0, ""),
            args(0, '{"q"'),
            args(0, ':"x"}'),
            close(0),
            {"type": "content_block_start", "index": 1, "content_block": FOUND},
            close(1),
            begin(2, "text", text="So"),
            close(2),
            end(container={"id": "container_1"}),
            STOP,
        ],
        """
        0 opaque {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}
        2 opaque {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "http://h"}]}
        4 text 'So'
        stop 5>7 container={'id': 'container_1'}""",
    ),
    "text in the middle of a call, and thinking in that of a text": (
        [
            START,
            begin(0, "tool_use", id="t1", name="f", input={}),
            args(0, '{"a"'),
            text(0, "o"),
            text(0, "ops"),
            args(0, ": 1}"),
            close(0),
            begin(1, "text", text=""),
            add(1, "thinking_delta", thinking="hm"),
            text(1, "a"),
            close(1),
            end("tool_use"),
        ],
        """
        0 call t1 f
        0 call - - {"a"
        2 text 'o'
        2 text 'ops'
        0 call - - : 1}
        6 thinking 'hm'
        4 text 'a'
        0 complete
        tool_use 5>7""",
    ),
    "a pause after a compaction": (
        [START, begin(0, "compaction", content="all of it"), close(0), end("compaction")],
        """
        0 opaque {"type": "compaction", "content": "all of it"}
        pause 5>7 finish_reason='compaction'""",
    ),
    "a pause": (
        [
            START,
            {"type": "content_block_start", "index": 0, "content_block": SEARCH},
            close(0),
            end("pause_turn"),
        ],
        """
        0 opaque {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
        pause 5>7 finish_reason='pause_turn'""",
    ),
    "blocks nobody knows grow by what their deltas hold": (
        [
            START,
            begin(0, "compaction", content=None),
            add(0, "compaction_delta", content="What "),
            add(0, "compaction_delta", content="was", sealed=None),
            close(0),
            begin(1, "novelty", z=1, rows=[1]),
            add(1, "novelty_delta", z=2, rows=[2]),
            add(1, "citations_delta", citation=CITED),
            close(1),
            end(),
            STOP,
        ],
        """
        0 opaque {"type": "compaction", "content": "What was", "sealed": null}
        2 opaque {"type": "novelty", "z": 2, "rows": [1, 2], "citations": [{"type": "char_location", "cited_text": "sky"}]}
        stop 5>7""",
    ),
    "no indexes": (
        [START, begin(None, "text", text=""), text(None, "a"), begin(None, "text", text="b"), end(), STOP],
        """
        0 text 'a'
        2 text 'b'
        stop 5>7""",
    ),
    "the same index for every block": (
        [
            START,
            begin(0, "text", text="a"),
            close(0),
            begin(0, "text", text=""),
            text(0, "b"),
            close(0),
            end(),
        ],
        """
        0 text 'a'
        2 text 'b'
        stop 5>7""",
    ),
    "deltas without a start": (
        [
            START,
            text(1, "a"),
            add(0, "thinking_delta", thinking="hm"),
            args(2, "{}"),
            close(2),
            add(9, "news_delta"),
            end(),
        ],
        """
        2 text 'a'
        0 thinking 'hm'
        4 call made-up -
        4 call - - {}
        stop 5>7""",
    ),
    "complete by the reason alone": (
        [START, begin(0, "text", text="a"), end()],
        """
        0 text 'a'
        stop 5>7""",
    ),
    "complete by the marker alone": (
        [START, begin(0, "text", text="a"), end(None), STOP],
        """
        0 text 'a'
        stop 5>7""",
    ),
    "what a proxy adds": (
        [START, "", ": keepalive", begin(0, "text", text="a"), close(0), end(), "[DONE]", STOP, "[DONE]"],
        """
        0 text 'a'
        stop 5>7""",
    ),
    "a cut": (
        [START, begin(0, "text", text="a"), close(0)],
        """
        0 text 'a'
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "nothing but an end": (
        [STOP],
        """
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "no event at all": (
        ["[1, 2]"],
        """
        ! PartialStreamError provider: an event of the stream is not a message chunk (model='p/m')""",
    ),
    "overloaded in mid-stream": (
        [
            START,
            begin(0, "text", text="a"),
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ],
        """
        0 text 'a'
        ! OverloadedError provider: Overloaded (model='p/m', type='overloaded_error')""",
    ),
    "an error that says nothing": (
        [START, {"type": "error"}],
        """
        ! ModelError provider: the stream reported an error without saying which (model='p/m')""",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_stream(name: str) -> None:
    events, expected = ROWS[name]
    outcome = decode(wire(events))
    assert trace(outcome.events, outcome.error) == dedent(expected).strip()


@pytest.mark.parametrize("name", ROWS)
def test_event_names_and_chunks_make_no_difference(name: str) -> None:
    body = wire(ROWS[name][0])
    whole = decode(body)
    assert same(decode(wire(ROWS[name][0], names=False)), whole)
    for size in range(1, 30, 4):
        assert same(decode(body, size), whole)


@pytest.mark.parametrize(
    "error, kind",
    [
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, ContextOverflowError),
        ({"type": "invalid_request_error", "message": "no"}, BadRequestError),
        ({"type": "api_error", "message": "no"}, OverloadedError),
        ("no", ModelError),
    ],
)
def test_errors_by_their_class_wherever_they_come(error: Any, kind: type[ModelError]) -> None:
    for body in (
        wire([START, {"type": "error", "error": error}]),
        wire([{"error": error}], names=False),
        b"event: error\ndata: " + json.dumps({"error": error}).encode() + b"\n\n",
        json.dumps({"type": "error", "error": error}).encode(),
    ):
        assert type(decode(body).error) is kind


def whole(*blocks: Any, reason: str | None = "end_turn", **fields: Any) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": 7}
    return json.dumps(
        {**MESSAGE, "content": blocks, "stop_reason": reason, "usage": usage, **fields}
    ).encode()


CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}}
BLOCKS = [
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "eHh4"},
    {"type": "text", "text": "Blue", "citations": [CITED]},
    SEARCH,
    FOUND,
    {"type": "novelty", "z": 1},
    CALL,
]


def test_an_answer_in_one_piece() -> None:
    reply = decode(whole(*BLOCKS, reason="tool_use")).reply
    assert (reply.text, reply.thinking, reply.stop_reason) == ("Blue", "hm", "tool_use")
    assert [(call.id, call.args, call.completed) for call in reply.tool_calls] == [
        ("toolu_1", {"x": 1}, True)
    ]
    assert reply.origin == "anthropic-messages:p/m"
    assert replayed(reply) == BLOCKS


@pytest.mark.parametrize(
    "body, kind",
    [
        (b"{}", ModelError),
        (b'{"content": "a"}', ModelError),
        (whole({"type": "text", "text": "a"})[:-9], PartialStreamError),
        (b"<html>", ModelError),
        (b"", PartialStreamError),
    ],
)
def test_no_answer(body: bytes, kind: type[ModelError]) -> None:
    assert type(decode(body).error) is kind


def test_the_limit_cuts_the_last_call_of_an_answer_in_one_piece() -> None:
    reply = decode(whole(CALL, {**CALL, "id": "toolu_2"}, reason="max_tokens")).reply
    assert [call.completed for call in reply.tool_calls] == [True, False]


def test_made_up_ids_differ_between_answers_and_are_the_same_for_the_same() -> None:
    body = wire([START, begin(0, "tool_use", name="f"), close(0), end("tool_use")])
    ids = set()
    for seed in ("1", "1", "2"):
        decoder = AnthropicDecoder(seed=seed)
        ids.add(next(e.id for e in decoder.feed(body) if isinstance(e, ToolCallDelta)))
    assert len(ids) == 2


def test_blocks_stay_in_the_order_of_their_indexes() -> None:
    events = [START, begin(1, "text", text="b"), begin(0, "thinking", thinking="a"), end(), STOP]
    assert decode(wire(events)).reply.content == (Thinking(text="a"), Text("b"))


@pytest.mark.parametrize(
    "fields, row",
    [
        ({}, (0, 0, 0, 0, 0)),
        ({"input_tokens": 1, "output_tokens": 2}, (1, 2, 0, 0, 0)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4},
            (1, 0, 3, 4, 0),
        ),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}},
            (0, 0, 0, 3, 0),
        ),
        ({"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 4}}, (0, 5, 0, 0, 4)),
        ({"input_tokens": "1", "output_tokens": -2, "cache_creation": [1]}, (0, 0, 0, 0, 0)),
    ],
)
def test_usage(fields: dict[str, Any], row: tuple[int, ...]) -> None:
    usage = usage_of(fields)
    counts = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    assert (*counts, usage.reasoning_tokens) == row


def test_what_comes_later_erases_no_usage_that_it_does_not_tell() -> None:
    first = {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1}
    start = {"type": "message_start", "message": {**MESSAGE, "usage": first}}
    stop = {**end(), "usage": {"input_tokens": None, "output_tokens": 7}}
    usage = decode(wire([start, begin(0, "text", text="a"), stop, STOP])).reply.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (5, 3, 7)


def test_what_is_billed_besides_goes_into_the_metadata() -> None:
    usage = {
        "cache_creation": {"ephemeral_1h_input_tokens": 2},
        "server_tool_use": {"web_search_requests": 1},
        "iterations": [{"type": "compaction", "input_tokens": 9}],
    }
    reply = decode(whole({"type": "text", "text": "a"}, usage={**usage, "service_tier": "standard"})).reply
    assert reply.metadata == {"usage_details": usage}
    plain = {"server_tool_use": {"web_search_requests": 0}, "iterations": [{"type": "message"}]}
    assert decode(whole({"type": "text", "text": "a"}, usage=plain)).reply.metadata == {}


@pytest.mark.parametrize("depth", [200, 990, 100_000])
def test_depth_does_no_harm(depth: int) -> None:
    nested = '{"type":"content_block_start","index":0,"content_block":{"type":"x","a":' + "[" * depth
    body = wire([START, nested + "]" * depth + "}}", end(), STOP], names=False)
    assert isinstance(decode(body).error, PartialStreamError | None)


def test_bytes_that_are_no_text_do_no_harm() -> None:
    body = wire([START, text(0, "?"), end(), STOP]).replace(b"?", b"\xff\\ud800")
    assert decode(body).reply.text == "\ufffd\ufffd"
