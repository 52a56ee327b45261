"""Answers in, events out: each row is a stream and the whole trace of what it means."""

import json
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import (
    BadRequestError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import Opaque, Thinking, make_call
from unspool.kernel.ports import (
    BlockEvent,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.llm.openai_responses_usage import usage_of

from .decoding import decode_responses, same  # tests/llm/, not llm/

Row = dict[str, Any]


def event(kind: str, index: int | None = 0, id: str | None = None, **fields: Any) -> Row:
    where = {"output_index": index, "item_id": id}
    return {"type": f"response.{kind}", **{k: v for k, v in where.items() if v is not None}, **fields}


def added(index: int | None, type: str, **fields: Any) -> Row:
    return event("output_item.added", index, item={"type": type, **fields})


def done(index: int | None, type: str, **fields: Any) -> Row:
    return event("output_item.done", index, item={"type": type, **fields})


def text(delta: str, index: int | None = 0, **fields: Any) -> Row:
    return event("output_text.delta", index, delta=delta, **fields)


def args(delta: str, index: int | None = 0, **fields: Any) -> Row:
    return event("function_call_arguments.delta", index, delta=delta, **fields)


def summary(delta: str, part: int = 0, index: int = 0) -> Row:
    return event("reasoning_summary_text.delta", index, summary_index=part, delta=delta)


def said(words: str, **fields: Any) -> Row:
    """A message item of one text."""
    return {"type": "message", "content": [{"type": "output_text", "text": words}], **fields}


def call(call_id: str | None, name: str, arguments: Any, **fields: Any) -> Row:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def over(*output: Row, kind: str = "completed", **fields: Any) -> Row:
    return {"type": f"response.{kind}", "response": {"id": "r1", "output": list(output), **fields}}


def cut(reason: str, *output: Row) -> Row:
    return over(*output, kind="incomplete", status="incomplete", incomplete_details={"reason": reason})


def wire(events: list[Any], named: bool = False) -> bytes:
    rows = []
    for each in events:
        name = f"event: {each['type']}\n" if named and isinstance(each, dict) and each else ""
        rows.append(f"{name}data: {each if isinstance(each, str) else json.dumps(each)}\n\n")
    return "".join(rows).encode()


def trace(events: list[StreamEvent], error: ModelError | None) -> str:
    lines = [render(each) for each in events]
    if error is not None:
        lines.append(f"! {type(error).__name__} {error}")
    return "\n".join(lines)


def render(event: StreamEvent) -> str:
    match event:
        case TextDelta():
            return f"{event.index} text {event.text!r}"
        case ThinkingDelta(signature=None):
            return f"{event.index} thinking {event.text!r}"
        case ThinkingDelta():
            return f"{event.index} signature {event.signature}"
        case ToolCallDelta():
            id = "made-up" if event.id.startswith("call_") else event.id or "-"
            kept = f" keeps {event.thought_signature}" if event.thought_signature else ""
            return f"{event.index} call {id} {event.name or '-'} {event.args}".rstrip() + kept
        case ToolCallEnd():
            return f"{event.index} complete"
        case BlockEvent(block=Opaque() as block):
            return f"{event.index} {block.provider} {json.dumps(block.data)}"
        case StreamEnd():
            return " ".join(
                [event.stop_reason, *(f"{key}={value!r}" for key, value in event.metadata.items())]
            )
        case _:
            return repr(event)


ROWS: dict[str, tuple[list[Any], str]] = {
    "text": (
        [
            event("created", None, response={"id": "r1", "status": "in_progress"}),
            event("queued", None, response={"id": "r1"}),
            added(0, "message", id="m1"),
            event("content_part.added", 0, "m1", part={"type": "output_text", "text": ""}),
            text("He", id="m1"),
            text("y", id="m1"),
            event("output_text.done", 0, "m1", text="Hey"),
            event("content_part.done", 0, "m1", part={"type": "output_text", "text": "Hey"}),
            done(0, id="m1", **said("Hey")),
            over(said("Hey", id="m1")),
        ],
        """
        0 text 'He'
        0 text 'y'
        999 openai-responses {"type": "message_fields", "item": {"id": "m1", "content": [{"type": "output_text", "text": 3}]}}
        stop""",
    ),
    "a text of which nothing else is known": ([text("Hey", None), over()], "0 text 'Hey'\nstop"),
    "no deltas: the whole texts are taken": (
        [event("output_text.done", text="Hey"), over(said("Hey"))],
        "0 text 'Hey'\nstop",
    ),
    "no deltas: the whole item is taken": ([done(0, **said("Hey")), over()], "0 text 'Hey'\nstop"),
    "nothing but the last event": ([over(said("Hey"))], "0 text 'Hey'\nstop"),
    "the rest is taken from what is whole": (
        [text("H"), event("output_text.done", text="He"), done(0, **said("Hey")), over(said("Hey you"))],
        """
        0 text 'H'
        0 text 'e'
        0 text 'y'
        0 text ' you'
        stop""",
    ),
    "a text that differs from its pieces stays as it was said": (
        [text("He"), done(0, **said("Ho")), over()],
        "0 text 'He'\nstop",
    ),
    "content as a string": ([over({"type": "message", "content": "Hey"})], "0 text 'Hey'\nstop"),
    "no kinds of items": ([over({"content": [{"type": "text", "text": "Hey"}]})], "0 text 'Hey'\nstop"),
    "texts of several parts, citations after them": (
        [
            text("a", content_index=0),
            text("b", content_index=1),
            event("output_text.annotation.added", content_index=1, annotation={"url": "u"}),
            over(),
        ],
        """
        0 text 'a'
        1 text 'b'
        999 openai-responses {"type": "message_fields", "item": {"content": [{"type": "output_text", "text": 1}, {"type": "output_text", "text": 1, "annotations": [{"url": "u"}]}]}}
        stop""",
    ),
    "parts without indexes count once": (
        [
            text("a"),
            text("b"),
            over(
                {
                    "type": "message",
                    "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
                }
            ),
        ],
        "0 text 'a'\n0 text 'b'\nstop",
    ),
    "a phase is kept": (
        [done(0, **said("Hey", phase="commentary")), over()],
        """
        0 text 'Hey'
        999 openai-responses {"type": "message_fields", "item": {"phase": "commentary", "content": [{"type": "output_text", "text": 3}]}}
        stop""",
    ),
    "reasoning in summaries, with what only the provider can read": (
        [
            added(0, "reasoning", id="rs", encrypted_content="half"),
            summary("a"),
            summary("b"),
            summary("c", 1),
            done(
                0,
                "reasoning",
                id="rs",
                encrypted_content="whole",
                summary=[{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}],
            ),
            over(),
        ],
        """
        0 thinking 'a'
        0 thinking 'b'
        0 thinking '\\n\\nc'
        0 signature {"item":{"id":"rs","encrypted_content":"whole","summary":[{"type":"summary_text","text":2},{"type":"summary_text","text":1}]}}
        stop""",
    ),
    "reasoning as such, and nothing whole": (
        [
            event("reasoning_text.delta", 0, "rs", delta="a"),
            event("reasoning_text.done", 0, "rs", text="ab"),
            over(),
        ],
        """
        0 thinking 'a'
        0 thinking 'b'
        0 signature {"item":{"id":"rs","content":[{"type":"reasoning_text","text":2}],"summary":[]}}
        stop""",
    ),
    "of reasoning and its summary the reasoning is shown": (
        [
            over(
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "s"}],
                    "content": [{"type": "reasoning_text", "text": "long"}],
                }
            )
        ],
        """
        0 thinking 'long'
        0 signature {"item":{"summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":4}]}}
        stop""",
    ),
    "reasoning, text, a call: in this order, each with what it came after": (
        [
            over(
                {"type": "reasoning", "id": "rs", "summary": []},
                said("so", id="m1"),
                call("c1", "f", "{}", id="fc", status="completed"),
            )
        ],
        """
        1000 text 'so'
        2000 call c1 f
        2000 call - - {}
        0 signature {"item":{"id":"rs","summary":[]}}
        1999 openai-responses {"type": "message_fields", "item": {"id": "m1", "content": [{"type": "output_text", "text": 2}]}, "reasoning": "rs"}
        2000 call - - keeps {"item":{"id":"fc","status":"completed"},"reasoning":"rs"}
        2000 complete
        tool_use""",
    ),
    "what the last event leaves out is kept": (
        [
            done(0, "reasoning", id="rs", encrypted_content="e", summary=[]),
            over({"type": "reasoning", "id": "rs", "encrypted_content": None, "summary": []}),
        ],
        """
        0 signature {"item":{"id":"rs","encrypted_content":"e","summary":[]}}
        stop""",
    ),
    "a call in pieces": (
        [
            added(0, "function_call", call_id="c1", name="f", arguments=""),
            args('{"x"'),
            args(": 1}"),
            event("function_call_arguments.done", arguments='{"x": 1}'),
            done(0, **call("c1", "f", '{"x": 1}')),
            over(call("c1", "f", '{"x": 1}')),
        ],
        """
        0 call c1 f
        0 call - - {"x"
        0 call - - : 1}
        0 complete
        tool_use""",
    ),
    "two calls, interleaved": (
        [
            added(0, "function_call", id="a", call_id="c1", name="f"),
            added(1, "function_call", id="b", call_id="c2", name="g"),
            args("{", 1),
            args("{}", 0),
            args("}", 1),
            over(),
        ],
        """
        0 call c1 f
        1000 call c2 g
        1000 call - - {
        0 call - - {}
        1000 call - - }
        0 call - - keeps {"item":{"id":"a"}}
        1000 call - - keeps {"item":{"id":"b"}}
        0 complete
        1000 complete
        tool_use""",
    ),
    "index 0 for everything": (
        [
            added(0, "reasoning", id="rs"),
            summary("hm"),
            added(0, "function_call", id="a", call_id="c1", name="f"),
            args("{}", 0, id="a"),
            added(0, "function_call", id="b", call_id="c2", name="g"),
            args('{"y"', 0, id="b"),
            args(":2}", 0, id="b"),
            over(),
        ],
        """
        0 thinking 'hm'
        1000 call c1 f
        1000 call - - {}
        2000 call c2 g
        2000 call - - {"y"
        2000 call - - :2}
        0 signature {"item":{"id":"rs","summary":[{"type":"summary_text","text":2}]}}
        1000 call - - keeps {"item":{"id":"a"},"reasoning":"rs"}
        2000 call - - keeps {"item":{"id":"b"},"reasoning":"rs"}
        1000 complete
        2000 complete
        tool_use""",
    ),
    "no indexes, no ids": (
        [
            text("so", None),
            added(None, "function_call", call_id="c1", name="f"),
            args("{}", None),
            done(None, **call("c1", "f", "{}")),
            added(None, "function_call", call_id="c2", name="g"),
            args("{}", None),
            over(said("so"), call("c1", "f", "{}"), call("c2", "g", "{}")),
        ],
        """
        0 text 'so'
        1000 call c1 f
        1000 call - - {}
        2000 call c2 g
        2000 call - - {}
        1000 complete
        2000 complete
        tool_use""",
    ),
    "another item id in each event": (
        [
            added(0, "message", id="x1"),
            text("H", id="x2"),
            text("i", id="x3"),
            done(0, id="x4", **said("Hi")),
            over(said("Hi")),
        ],
        """
        0 text 'H'
        0 text 'i'
        999 openai-responses {"type": "message_fields", "item": {"id": "x4", "content": [{"type": "output_text", "text": 2}]}}
        stop""",
    ),
    "the last event has more items, in another order": (
        [
            done(0, id="b", **said("b")),
            over(
                said("a"),
                said("b", id="b"),
            ),
        ],
        """
        0 text 'b'
        1000 text 'a'
        999 openai-responses {"type": "message_fields", "item": {"id": "b", "content": [{"type": "output_text", "text": 1}]}}
        stop""",
    ),
    "arguments whole at once, as an object": (
        [over(call("c1", "f", {"x": 1}))],
        """
        0 call c1 f
        0 call - - {"x":1}
        0 complete
        tool_use""",
    ),
    "arguments only where the call begins": (
        [added(0, **call("c1", "f", '{"x":1}')), over()],
        """
        0 call c1 f
        0 call - - {"x":1}
        0 complete
        tool_use""",
    ),
    "arguments written differently are the same": (
        [added(0, **call("c1", "f", "")), args('{"x": 1}'), over(call("c1", "f", '{"x":1}'))],
        """
        0 call c1 f
        0 call - - {"x": 1}
        0 complete
        tool_use""",
    ),
    "other arguments than were streamed: nobody knows which, none is run": (
        [added(0, **call("c1", "f", "")), args('{"x":1}'), over(call("c1", "f", '{"x":2}'))],
        """
        0 call c1 f
        0 call - - {"x":1}
        0 call - - {"x":2}
        0 complete
        tool_use""",
    ),
    "no call id: the item's, else a made-up one": (
        [over(call(None, "f", "{}", id="fc"), call(None, "g", "{}"))],
        """
        0 call - f
        0 call - - {}
        1000 call - g
        1000 call - - {}
        0 call fc - keeps {"item":{"id":"fc"}}
        1000 call made-up -
        0 complete
        1000 complete
        tool_use""",
    ),
    "ids that are numbers, indexes that are texts": (
        [
            {
                "type": "response.output_item.added",
                "output_index": "0",
                "item": {"type": "function_call", "id": 5, "call_id": 7, "name": "f"},
            },
            {
                "type": "response.function_call_arguments.delta",
                "output_index": "0",
                "item_id": 5,
                "delta": "{}",
            },
            {"type": "response.completed", "response": {"id": 9, "output": []}},
        ],
        """
        0 call 7 f
        0 call - - {}
        0 call - - keeps {"item":{"id":5}}
        0 complete
        tool_use""",
    ),
    "a free-form call": (
        [
            added(0, "custom_tool_call", id="ct", call_id="c1", name="sql"),
            event("custom_tool_call_input.delta", delta="select"),
            event("custom_tool_call_input.done", input="select 1"),
            done(0, "custom_tool_call", id="ct", call_id="c1", name="sql", input="select 1"),
            over(),
        ],
        """
        0 call c1 sql
        0 call - - select
        0 call - -  1
        0 call - - keeps {"item":{"type":"custom_tool_call","id":"ct"}}
        0 complete
        tool_use""",
    ),
    "what only the provider understands, whatever it is": (
        [
            added(0, "web_search_call", id="ws", status="in_progress"),
            event("web_search_call.searching", 0, "ws"),
            event("code_interpreter_call_code.delta", 3, "ci", delta="print()"),
            done(0, "web_search_call", id="ws", status="completed"),
            done(1, "brand_new", x=1),
            over(
                {"type": "web_search_call", "id": "ws", "status": "completed"}, {"type": "brand_new", "x": 1}
            ),
        ],
        """
        0 openai-responses {"type": "web_search_call", "id": "ws", "status": "completed"}
        1000 openai-responses {"type": "brand_new", "x": 1}
        stop""",
    ),
    "unknown events and fields": (
        [{"type": "keepalive"}, event("new.thing", delta={"a": 1}), {}, ":", text("Hey"), over(), "[DONE]"],
        "0 text 'Hey'\nstop",
    ),
    "a refusal": (
        [
            event("refusal.delta", delta="I'd "),
            event("refusal.delta", delta="rather"),
            event("refusal.done", refusal="I'd rather not"),
            over(),
        ],
        """
        safety finish_reason='completed' refusal="I'd rather not\"""",
    ),
    "no call is completed beside a refusal": (
        [event("refusal.delta", delta="no"), over(call("c1", "f", "{}"))],
        """
        1000 call c1 f
        1000 call - - {}
        safety finish_reason='completed' refusal='no'""",
    ),
    "length": ([text("par"), cut("max_output_tokens")], "0 text 'par'\nlength"),
    "length, by the status alone": (
        [
            text("par"),
            over(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ],
        "0 text 'par'\nlength",
    ),
    "an unknown reason": ([cut("tired")], "length finish_reason='tired'"),
    "no reason": ([over(kind="incomplete")], "length finish_reason='incomplete'"),
    "length after calls: whole ones but the last item": (
        [
            cut(
                "max_output_tokens",
                call("c1", "f", "{}"),
                call("c2", "f", '{"x'),
                call("c3", "f", "{}", status="incomplete"),
                call("c4", "f", "{}"),
            )
        ],
        """
        0 call c1 f
        0 call - - {}
        1000 call c2 f
        1000 call - - {"x
        2000 call c3 f
        2000 call - - {}
        3000 call c4 f
        3000 call - - {}
        2000 call - - keeps {"item":{"status":"incomplete"}}
        0 complete
        length""",
    ),
    "content filter: no call is completed": (
        [cut("content_filter", call("c1", "f", "{}"), said("x"))],
        """
        0 call c1 f
        0 call - - {}
        1000 text 'x'
        safety finish_reason='content_filter'""",
    ),
    "a call without a name is not completed": (
        [args("{}"), over()],
        """
        0 call - - {}
        0 call made-up -
        stop""",
    ),
    "an empty answer": ([over()], "stop"),
    "a whole call, then nothing": (
        [done(0, **call("c1", "f", "{}"))],
        """
        0 call c1 f
        0 call - - {}
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "[DONE] alone ends nothing well": (
        [text("a"), "[DONE]"],
        """
        0 text 'a'
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "half an event": (
        ['{"type": "response.output_text.del'],
        "! PartialStreamError provider: an event of the stream is not a response chunk (model='p/m')",
    ),
    "failed, and nobody says why": (
        [over(kind="failed")],
        """
        ! OverloadedError provider: the response failed without an explanation (model='p/m', type='server_error')""",
    ),
    "cancelled": (
        [over(kind="cancelled")],
        "! ModelError provider: the response was cancelled (model='p/m')",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_stream(name: str) -> None:
    events, want = ROWS[name]
    outcome = decode_responses(wire(events))
    assert trace(outcome.events, outcome.error) == dedent(want).strip()


@pytest.mark.parametrize("name", ROWS)
def test_names_of_events_and_chunking_change_nothing(name: str) -> None:
    whole = decode_responses(wire(ROWS[name][0]))
    for size in (1, 7):
        assert same(decode_responses(wire(ROWS[name][0], named=True), size), whole)


FAULTS: dict[str, tuple[Row, type[ModelError]]] = {
    "flat": ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, RateLimitError),
    "flat, server": ({"type": "error", "code": "server_error", "message": "slow"}, OverloadedError),
    "an object": ({"type": "error", "error": {"code": "insufficient_quota"}}, QuotaError),
    "a status beside it": (
        {"type": "error", "status_code": 400, "error": {"message": "what?"}},
        BadRequestError,
    ),
    "no type": ({"error": {"code": "context_length_exceeded", "message": "long"}}, ContextOverflowError),
    "a text": ({"type": "error", "error": "overloaded"}, OverloadedError),
    "without the key, as chat has it": ({"object": "error", "message": "boom", "code": 500}, OverloadedError),
    "a detail": ({"detail": "overloaded"}, OverloadedError),
    "another type": ({"type": "response.error", "code": "rate_limit_exceeded"}, RateLimitError),
    "failed": (over(kind="failed", error={"code": "server_error", "message": "oops"}), OverloadedError),
    "failed, in the status": (over(status="failed", error={"code": "rate_limit_exceeded"}), RateLimitError),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_in_the_stream(name: str) -> None:
    row, kind = FAULTS[name]
    for named in (True, False):
        outcome = decode_responses(wire([text("a"), row], named=named and "type" in row))
        assert type(outcome.error) is kind
        assert outcome.reply.text == "a"


def test_the_end_of_the_answer_ends_the_stream() -> None:
    outcome = decode_responses(wire([text("a"), over(), text("b"), {"type": "error", "code": "x"}]))
    assert (outcome.reply.text, outcome.error) == ("a", None)


def test_text_of_a_stream_that_is_cut() -> None:
    outcome = decode_responses(wire([text("a"), text("b")]))
    assert isinstance(outcome.error, PartialStreamError)
    assert outcome.error.text == "ab"


WHOLE: dict[str, tuple[Any, str]] = {
    "completed": ({"status": "completed", "output": [said("Hey")]}, "0 text 'Hey'\nstop"),
    "no status": ({"output": [said("Hey")]}, "0 text 'Hey'\nstop"),
    "in an array": ([{"output": [said("Hey")]}], "0 text 'Hey'\nstop"),
    "incomplete": (
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [said("a")],
        },
        "0 text 'a'\nlength",
    ),
    "failed": (
        {"status": "failed", "error": {"code": "server_error", "message": "oops"}},
        "! OverloadedError provider: oops (model='p/m', code='server_error')",
    ),
    "an error and nothing else": (
        {"error": {"type": "invalid_request_error", "message": "what?"}},
        "! BadRequestError provider: what? (model='p/m', type='invalid_request_error')",
    ),
    "an error without the key": (
        {"object": "error", "code": 429, "message": "slow"},
        "! RateLimitError provider: slow (model='p/m', status=429, code='429')",
    ),
    "an error of a code and a message": (
        {"code": "429", "message": "slow"},
        "! RateLimitError provider: slow (model='p/m', status=429, code='429')",
    ),
    "an id that is a number": ({"id": 5, "output": [said("Hey")]}, "0 text 'Hey'\nstop"),
    "in the background": (
        {"status": "queued", "output": []},
        "! ModelError provider: the response is not finished (model='p/m', status='queued')",
    ),
    "of another format": (
        {"choices": [{"message": {"content": "Hey"}}]},
        "! ModelError provider: the answer is not a response (model='p/m')",
    ),
    "output of another kind": (
        {"output": "Hey"},
        "! ModelError provider: the answer is not a response (model='p/m')",
    ),
    "items that are none": ({"output": [1, None, "a", {"type": 3}, said("Hey")]}, "1000 text 'Hey'\nstop"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_in_one_piece(name: str) -> None:
    body, want = WHOLE[name]
    outcome = decode_responses(json.dumps(body).encode())
    events = [
        each for each in outcome.events if "unknown" not in repr(each) and "'type': 3" not in repr(each)
    ]
    assert trace(events, outcome.error) == dedent(want).strip()


def test_half_of_an_answer_in_one_piece() -> None:
    assert isinstance(decode_responses(b'{"output": [').error, PartialStreamError)


def test_the_reply() -> None:
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    output = [
        {"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": []},
        call("c1", "f", '{"x": 1}'),
        {"type": "web_search_call", "id": "ws"},
    ]
    outcome = decode_responses(wire([over(*output, model="m-1", usage=usage)]))
    reply, end = outcome.reply, outcome.events[-1]
    assert reply.content == (
        Thinking(signature='{"item":{"id":"rs","encrypted_content":"e","summary":[]}}'),
        make_call("c1", "f", '{"x": 1}'),
        Opaque(provider="openai-responses", data={"type": "web_search_call", "id": "ws"}),
    )
    assert (reply.stop_reason, reply.origin) == ("tool_use", "openai-responses:p/m")
    assert isinstance(end, StreamEnd)
    assert (end.model, end.response_id) == ("m-1", "r1")
    assert (end.usage.input_tokens, end.usage.cache_read_tokens, end.usage.output_tokens) == (5, 4, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input_tokens": None, "output_tokens": "3", "input_tokens_details": 4},
        {"input_tokens": -1, "output_tokens_details": {"reasoning_tokens": 5}},
        {"input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2}},
    ],
)
def test_wrong_or_missing_counts_are_none(fields: Row) -> None:
    assert usage_of(fields).total_tokens == 0


def test_more_cached_or_reasoned_than_there_is() -> None:
    usage = usage_of(
        {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 7},
        }
    )
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (0, 5, 0)
    assert (usage.output_tokens, usage.reasoning_tokens) == (2, 2)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "{}", "message", "reasoning"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "text", "content", "summary", "call_id", "arguments", "status"]),
            inner,
        )
    ),
    max_leaves=6,
)
_NAMES = sorted(
    {each["type"] for rows, _ in ROWS.values() for each in rows if isinstance(each, dict) and each}
)
_EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(_NAMES)},
    optional={
        key: _VALUES
        for key in (
            "delta",
            "item",
            "text",
            "arguments",
            "annotation",
            "response",
            "refusal",
            "part",
            "error",
        )
    }
    | {
        "output_index": st.integers(-1, 2),
        "content_index": st.integers(-1, 2),
        "item_id": st.text(max_size=1),
    },
)


@pytest.mark.parametrize("kind", [[[]], {}, 7], ids=str)
def test_a_part_of_a_strange_type(kind: Any) -> None:
    item = {"type": "message", "id": "m", "content": [{"type": kind, "text": "a"}]}
    for body in (
        wire([event("response.output_item.done", item=item), over(item)]),
        json.dumps(over(item)).encode(),
    ):
        decode_responses(body)
    decode_responses(json.dumps({"output": [item], "status": "completed"}).encode())


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(_EVENTS, max_size=6))
def test_nothing_but_model_errors(events: list[Row]) -> None:
    decode_responses(wire([*events, over()]))
    decode_responses(json.dumps(events[0] if events else []).encode())
