"""Answers in, events out: each row is a stream and the whole trace of what it means."""

import json
from textwrap import dedent
from typing import Any

import pytest

from unspool.kernel.errors import ModelError, OverloadedError, PartialStreamError
from unspool.kernel.ports import StreamEnd, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallEnd

from .decoding import decode, same  # noqa: TID251  # tests/llm/, not llm/

DONE = "[DONE]"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None
) -> dict[str, Any]:
    part: dict[str, Any] = {"function": {"name": name, "arguments": args}}
    return delta(
        tool_calls=[{**part, **({} if index is None else {"index": index}), **({"id": id} if id else {})}]
    )


def stop(reason: str = "stop") -> dict[str, Any]:
    return delta(reason)


def wire(events: list[Any]) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


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
            return f"{event.index} thinking {event.text!r}"
        case ToolCallDelta():
            id = "made-up" if event.id.startswith("call_") else event.id or "-"
            return f"{event.index} call {id} {event.name or '-'} {event.args}".rstrip()
        case ToolCallEnd():
            return f"{event.index} complete"
        case StreamEnd():
            usage = event.usage
            rows = [event.stop_reason]
            if usage.total_tokens:
                rows.append(f"{usage.input_tokens}+{usage.cache_read_tokens}>{usage.output_tokens}")
            return " ".join([*rows, *(f"{key}={value!r}" for key, value in event.metadata.items())])
        case _:
            return repr(event)


ROWS: dict[str, tuple[list[Any], str]] = {
    "text": (
        [delta(role="assistant", content=""), delta(content="He"), delta(content="y"), stop(), DONE],
        """
        1 text 'He'
        1 text 'y'
        stop""",
    ),
    "reasoning, under each of its names": (
        [
            delta(reasoning_content="a"),
            delta(reasoning="b"),
            delta(reasoning_text="c"),
            delta(content="d"),
            stop(),
        ],
        """
        0 thinking 'a'
        0 thinking 'b'
        0 thinking 'c'
        1 text 'd'
        stop""",
    ),
    "reasoning given twice counts once": (
        [delta(reasoning_content="a", reasoning="a"), stop()],
        """
        0 thinking 'a'
        stop""",
    ),
    "a call in pieces": (
        [call(0, "c1", "f", ""), call(0, args='{"x"'), call(0, args=": 1}"), stop("tool_calls"), DONE],
        """
        2 call c1 f
        2 call - - {"x"
        2 call - - : 1}
        2 complete
        tool_use""",
    ),
    "two calls, interleaved": (
        [
            call(0, "c1", "f"),
            call(1, "c2", "g"),
            call(1, args='{"y":'),
            call(0, args="{}"),
            call(1, args="2}"),
            stop("tool_calls"),
        ],
        """
        2 call c1 f
        3 call c2 g
        3 call - - {"y":
        2 call - - {}
        3 call - - 2}
        2 complete
        3 complete
        tool_use""",
    ),
    "id and name on every piece": (
        [call(0, "c1", "f", '{"x"'), call(0, "c1", "f", ":1}"), call(0, "c1", "f", ""), stop("tool_calls")],
        """
        2 call c1 f {"x"
        2 call - - :1}
        2 complete
        tool_use""",
    ),
    "another id with every piece": (
        [call(0, "c1", "f", '{"x"'), call(0, "c2", None, ":1}"), stop("tool_calls")],
        """
        2 call c1 f {"x"
        2 call - - :1}
        2 complete
        tool_use""",
    ),
    "a new id and name at the same index": (
        [call(0, "c1", "f", "{}"), call(0, "c2", "f", '{"y":'), call(0, args="2}"), stop("tool_calls")],
        """
        2 call c1 f {}
        3 call c2 f {"y":
        3 call - - 2}
        2 complete
        3 complete
        tool_use""",
    ),
    "no index, ids": (
        [
            call(None, "c1", "f"),
            call(None, None, None, "{}"),
            call(None, "c2", "f"),
            call(None, "c1"),
            stop("tool_calls"),
        ],
        """
        2 call c1 f
        2 call - - {}
        3 call c2 f
        2 complete
        3 complete
        tool_use""",
    ),
    "no index, no ids": (
        [
            call(None, None, "f", "{}"),
            call(None, None, "f", '{"x":1}'),
            call(None, None, "g", "{}"),
            stop("tool_calls"),
        ],
        """
        2 call - f {}
        3 call - f {"x":1}
        4 call - g {}
        2 call made-up -
        3 call made-up -
        4 call made-up -
        2 complete
        3 complete
        4 complete
        tool_use""",
    ),
    "the id comes late": (
        [call(0, None, "f", "{"), call(0, "c1", None, "}"), stop("tool_calls")],
        """
        2 call - f {
        2 call c1 - }
        2 complete
        tool_use""",
    ),
    "another name without an id, once the first call is whole": (
        [call(0, None, "f", "{"), call(0, None, "g", "}"), call(0, "c2", "h", "{}"), stop("tool_calls")],
        """
        2 call - f {
        2 call - - }
        3 call c2 h {}
        2 call made-up -
        2 complete
        3 complete
        tool_use""",
    ),
    "arguments as an object": (
        [call(0, "c1", "f", {"x": [1, "é"]}), stop("tool_calls")],
        """
        2 call c1 f {"x":[1,"é"]}
        2 complete
        tool_use""",
    ),
    "arguments once more in full": (
        [call(0, "c1", "f", '{"x":'), call(0, args="1}"), call(0, args='{"x": 1}'), stop("tool_calls")],
        """
        2 call c1 f {"x":
        2 call - - 1}
        2 complete
        tool_use repeated_arguments=['c1']""",
    ),
    "arguments three times, in pieces": (
        [
            call(0, "c1", "f", '{"x":1}'),
            *[call(0, args=piece) for piece in ('{"x"', ":1}", '{"x":1}')],
            stop("tool_calls"),
        ],
        """
        2 call c1 f {"x":1}
        2 complete
        tool_use repeated_arguments=['c1']""",
    ),
    "two different objects are an error, not one of them": (
        [call(0, "c1", "f", '{"x":1}'), call(0, args='{"x":2}'), stop("tool_calls")],
        """
        2 call c1 f {"x":1}
        2 call - - {"x":2}
        2 complete
        tool_use""",
    ),
    "braces inside a string": (
        [call(0, "c1", "f", '{"x":"}'), call(0, args='{"}'), stop("tool_calls")],
        """
        2 call c1 f {"x":"}
        2 call - - {"}
        2 complete
        tool_use""",
    ),
    "a call of nothing is none": (
        [
            delta(tool_calls=[{"index": 0}, {"function": None}, {"index": 1, "function": {"name": ""}}]),
            stop("tool_calls"),
        ],
        """
        stop finish_reason='tool_calls'""",
    ),
    "calls though it says stop": (
        [call(0, "c1", "f", "{}"), stop("stop")],
        """
        2 call c1 f {}
        2 complete
        tool_use finish_reason='stop'""",
    ),
    "cut by the limit": (
        [call(0, "c1", "f", "{}"), call(1, "c2", "f", '{"x":'), call(2, "c3", "f", "{}"), stop("length")],
        """
        2 call c1 f {}
        3 call c2 f {"x":
        4 call c3 f {}
        2 complete
        length""",
    ),
    "invalid arguments in a finished answer are completed": (
        [call(0, "c1", "f", '{"x":'), stop("tool_calls")],
        """
        2 call c1 f {"x":
        2 complete
        tool_use""",
    ),
    "filtered": (
        [delta(content="a"), call(0, "c1", "f", "{}"), stop("content_filter")],
        """
        1 text 'a'
        2 call c1 f {}
        safety""",
    ),
    "a refusal": (
        [delta(refusal="I'd "), delta(refusal="rather not"), stop()],
        """
        safety finish_reason='stop' refusal="I'd rather not\"""",
    ),
    "a reason we do not know": (
        [delta(content="a"), call(0, "c1", "f", "{}"), call(1, "c2", "f", "{"), stop("novel")],
        """
        1 text 'a'
        2 call c1 f {}
        3 call c2 f {
        2 complete
        tool_use finish_reason='novel'""",
    ),
    "the old function_call is not ours": (
        [delta(function_call={"name": "f", "arguments": "{}"}), stop("function_call")],
        """
        stop finish_reason='function_call'""",
    ),
    "the last reason holds": (
        [delta(content="a"), stop("stop"), stop("length")],
        """
        1 text 'a'
        length""",
    ),
    "the end marker without a reason": (
        [delta(content="a"), call(0, "c1", "f", "{}"), call(1, "c2", "f", "{"), DONE],
        """
        1 text 'a'
        2 call c1 f {}
        3 call c2 f {
        2 complete
        tool_use""",
    ),
    "nothing after the end marker counts": (
        [delta(content="a"), stop(), DONE, delta(content="b")],
        """
        1 text 'a'
        stop""",
    ),
    "neither reason nor marker": (
        [delta(content="a"), delta(content="b"), call(0, "c1", "f", "{}")],
        """
        1 text 'a'
        1 text 'b'
        2 call c1 f {}
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "only the end marker": (
        [DONE],
        """
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "only usage": (
        [{"choices": [], "usage": {"prompt_tokens": 3}}, DONE],
        """
        ! PartialStreamError provider: the stream ended early (model='p/m')""",
    ),
    "usage after the reason": (
        [
            delta(content="a"),
            stop(),
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 6},
                    "completion_tokens_details": None,
                },
            },
            DONE,
        ],
        """
        1 text 'a'
        stop 4+6>4""",
    ),
    "usage on every chunk: the last value of a field holds, null erases nothing": (
        [
            {**delta(content="a"), "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
            {**delta(content="b"), "usage": {"prompt_tokens": None, "completion_tokens": 2}},
            {**stop(), "usage": None},
        ],
        """
        1 text 'a'
        1 text 'b'
        stop 10+0>2""",
    ),
    "usage in the extra field of Groq": (
        [delta(content="a"), {**stop(), "x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}}],
        """
        1 text 'a'
        stop 7+0>1""",
    ),
    "other choices": (
        [
            {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]},
            delta(content="a"),
            stop(),
        ],
        """
        1 text 'a'
        stop""",
    ),
    "content in parts": (
        [
            delta(content=[{"type": "text", "text": "a"}, "b", {"type": "thinking"}, {"text": 3}, None]),
            stop(),
        ],
        """
        1 text 'ab'
        stop""",
    ),
    "halves of a surrogate pair": (
        ['{"choices":[{"delta":{"content":"\\ud83d"}}]}', delta(content="a"), stop()],
        """
        1 text '\ufffd'
        1 text 'a'
        stop""",
    ),
    "an error object": (
        [delta(content="a"), {"error": {"message": "busy", "type": "server_error", "code": 503}}, DONE],
        """
        1 text 'a'
        ! OverloadedError provider: busy (model='p/m', status=503, code='503', type='server_error')""",
    ),
    "an error that is a string": (
        [{"error": "rate limit reached, try again in 2s"}],
        """
        ! RateLimitError provider: rate limit reached, try again in 2s (model='p/m')""",
    ),
    "broken off by the provider": (
        [delta(content="a"), stop("error")],
        """
        1 text 'a'
        ! PartialStreamError provider: the provider broke off the answer (model='p/m')""",
    ),
    "no resources": (
        [delta(content="a"), stop("insufficient_system_resource")],
        """
        1 text 'a'
        ! OverloadedError provider: broke off the answer (model='p/m', finish_reason='insufficient_system_resource')""",
    ),
    "an event that is not JSON": (
        [delta(content="a"), "oops", stop()],
        """
        1 text 'a'
        ! PartialStreamError provider: an event of the stream is not a chat completion chunk (model='p/m')""",
    ),
    "an event of another shape": (
        [{"choices": "none"}],
        """
        ! PartialStreamError provider: an event of the stream is not a chat completion chunk (model='p/m')""",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_table(name: str) -> None:
    events, expected = ROWS[name]
    outcome = decode(wire(events))
    assert trace(outcome.events, outcome.error) == dedent(expected).strip()


@pytest.mark.parametrize("name", ROWS)
def test_any_chunking_same_events(name: str) -> None:
    body = wire(ROWS[name][0])
    whole = decode(body)
    for size in (1, 2, 3, 10, 100):
        outcome = decode(body, size)
        assert outcome.events == whole.events
        assert same(outcome, whole)


BODIES: dict[str, tuple[bytes, str]] = {
    "a whole answer": (
        json.dumps(
            {
                "id": "r1",
                "choices": [
                    {
                        "message": {
                            "content": None,
                            "reasoning": "hm",
                            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
                        },
                        "finish_reason": "tool_calls",
                    }
                ],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            },
            indent=2,
        ).encode(),
        """
        0 thinking 'hm'
        2 call c1 f {}
        2 complete
        tool_use 3+0>1""",
    ),
    "an error with status 200": (
        b' {"error": {"message": "no", "code": "context_length_exceeded"}}',
        "! ContextOverflowError provider: no (model='p/m', code='context_length_exceeded')",
    ),
    "a whole answer, cut": (
        b'{"id": "r1", "choices": [{"message": {"content": "a',
        "! PartialStreamError provider: the answer ended early (model='p/m')",
    ),
    "other JSON": (
        b'{"hello": 1}',
        "! ModelError provider: the answer is not a chat completion (model='p/m')",
    ),
    "a JSON array": (b"[1]", "! ModelError provider: the answer is not a chat completion (model='p/m')"),
    "HTML": (
        b"<!doctype html><p>Sign in",
        "! ModelError provider: the answer is HTML, not a chat completion (model='p/m')",
    ),
    "nothing": (b"", "! PartialStreamError provider: the stream ended early (model='p/m')"),
    "an error event without data": (
        b"event: error\n\n",
        "! ModelError provider: the stream reported an error without saying which (model='p/m')",
    ),
    "an error event without an error object": (
        b'event: error\ndata: {"message": "upstream died"}\n\n',
        "! OverloadedError provider: upstream died (model='p/m')",
    ),
    "cut in the usage after the reason": (
        wire([delta(content="a"), stop()]) + b'data: {"usage": {"prompt_to',
        """
        1 text 'a'
        stop""",
    ),
    "bytes that are not UTF-8": (
        b'data: {"choices":[{"delta":{"content":"a\xff"},"finish_reason":"stop"}]}\n\n',
        """
        1 text 'a\ufffd'
        stop""",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    body, expected = BODIES[name]
    for size in (0, 1, 7):
        outcome = decode(body, size)
        assert trace(outcome.events, outcome.error) == dedent(expected).strip()


def test_a_partial_stream_keeps_its_text() -> None:
    error = decode(wire([delta(content="He"), delta(content="y")])).error
    assert isinstance(error, PartialStreamError)
    assert (error.text, error.retryable) == ("Hey", True)


def test_made_up_ids_differ_between_calls_and_answers() -> None:
    def ids(answer: str) -> list[str]:
        parts = [{"function": {"name": "f", "arguments": "{}"}}] * 2
        events = [
            {"id": answer, "choices": [{"delta": {"tool_calls": parts}, "finish_reason": "tool_calls"}]}
        ]
        return [call.id for call in decode(wire(events)).reply.tool_calls]

    assert ids("r1") == ids("r1")
    assert len({*ids("r1"), *ids("r2")}) == 4
    assert all(len(id) <= 40 for id in ids("r1"))


def test_error_classes_decide_retries() -> None:
    error = decode(wire([stop("insufficient_system_resource")])).error
    assert isinstance(error, OverloadedError) and error.retryable
