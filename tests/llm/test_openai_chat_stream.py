"""Answers in, events out: each row is a stream and the whole trace of what it means."""

import doctest
import json
from textwrap import dedent
from typing import Any

import pytest

from unspool.kernel.errors import ModelError, OverloadedError, PartialStreamError
from unspool.kernel.messages import Image, Opaque
from unspool.kernel.ports import (
    BlockEvent,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.llm import openai_chat_documents, openai_chat_faults, openai_chat_finish
from unspool.llm.openai_chat_kept import KeptFields
from unspool.llm.openai_chat_wire import Delta

from .decoding import decode, same  # tests/llm/, not llm/

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
        case BlockEvent(block=Opaque(data=data)):
            return f"{event.index} kept {json.dumps(data)}"
        case BlockEvent(block=Image() as image):
            return f"{event.index} image {image.mime_type} {image.data or image.url}"
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
    "two calls without arguments, index and ids": (
        [call(None, None, "f", ""), call(None, None, "g", ""), stop("tool_calls")],
        """
        2 call - f
        3 call - g
        2 call made-up -
        3 call made-up -
        2 complete
        3 complete
        tool_use""",
    ),
    "two calls without arguments and ids, index 0 for both": (
        [call(0, None, "f", ""), call(0, None, "g"), call(0, None, None, "{}"), stop("tool_calls")],
        """
        2 call - f
        3 call - g
        3 call - - {}
        2 call made-up -
        3 call made-up -
        2 complete
        3 complete
        tool_use""",
    ),
    "two calls of one name without ids, index 0 for both": (
        [call(0, None, "f", '{"x":1}'), call(0, None, "f", '{"x":2}'), stop("tool_calls")],
        """
        2 call - f {"x":1}
        3 call - f {"x":2}
        2 call made-up -
        3 call made-up -
        2 complete
        3 complete
        tool_use""",
    ),
    "the name on every piece, no ids": (
        [call(0, None, "f", ""), call(0, None, "f", '{"x"'), call(0, None, "f", ":1}"), stop("tool_calls")],
        """
        2 call - f
        2 call - - {"x"
        2 call - - :1}
        2 call made-up -
        2 complete
        tool_use""",
    ),
    "the whole call twice, no ids": (
        [call(0, None, "f", '{"x":1}'), call(0, None, "f", '{"x": 1}'), stop("tool_calls")],
        """
        2 call - f {"x":1}
        2 call made-up -
        2 complete
        tool_use repeated_arguments=['call_14effb26110783b9eab8f7a8']""",
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
        safety finish_reason='content_filter'""",
    ),
    "a refusal": (
        [delta(refusal="I'd "), delta(refusal="rather not"), stop()],
        """
        safety finish_reason='stop' refusal="I'd rather not\"""",
    ),
    "no call is completed beside a refusal": (
        [delta(refusal="no"), call(0, "c1", "f", "{}"), stop()],
        """
        2 call c1 f {}
        safety finish_reason='stop' refusal='no'""",
    ),
    "a reason we do not know: calls that are whole": (
        [delta(content="a"), call(0, "c1", "f", "{}"), call(1, "c2", "f", "{"), stop("novel")],
        """
        1 text 'a'
        2 call c1 f {}
        3 call c2 f {
        2 complete
        tool_use finish_reason='novel'""",
    ),
    "a reason we do not know: whether the last call was to have arguments": (
        [call(0, "c1", "f", ""), call(1, "c2", "f", ""), stop("novel")],
        """
        2 call c1 f
        3 call c2 f
        2 complete
        tool_use finish_reason='novel'""",
    ),
    "the old function_call, of those who ask for functions by themselves": (
        [
            delta(function_call={"name": "f", "arguments": ""}),
            delta(function_call={"arguments": '{"x"'}),
            delta(function_call={"arguments": ": 1}"}),
            stop("function_call"),
        ],
        """
        2 kept {"type": "function_call", "function_call": {"name": "f", "arguments": "{\\"x\\": 1}"}}
        stop finish_reason='function_call'""",
    ),
    "the old function_call beside the call that it is": (
        [
            delta(
                function_call={"name": "f", "arguments": "{}"},
                tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            ),
            stop("tool_calls"),
        ],
        """
        2 call c1 f {}
        2 complete
        tool_use""",
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
    "the whole message in a chunk": (
        [{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}],
        """
        1 text 'hello'
        stop""",
    ),
    "the message so far beside what is new": (
        [
            {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]},
            {"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}, "finish_reason": "stop"}]},
        ],
        """
        1 text 'a'
        1 text 'b'
        stop""",
    ),
    "images": (
        [
            delta(
                content="see",
                images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}],
            ),
            delta(images=[{"image_url": "http://h/a.png"}, {"type": "novel"}]),
            call(0, "c1", "f", "{}"),
            stop("tool_calls"),
        ],
        """
        1 text 'see'
        2 call c1 f {}
        2 complete
        3 image image/png aGk=
        4 image  http://h/a.png
        5 kept {"type": "images", "images": [{"type": "novel"}]}
        tool_use""",
    ),
    "citations and sound in one answer": (
        [
            delta(content="a", annotations=[{"type": "url_citation"}], audio={"id": "au", "transcript": "a"}),
            stop(),
        ],
        """
        1 text 'a'
        1 kept {"type": "annotations", "annotations": [{"type": "url_citation"}]}
        2 kept {"type": "audio", "audio": {"id": "au", "transcript": "a"}}
        stop""",
    ),
    "thinking, and what else there may be, among the parts of the content": (
        [
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
            delta(content=[{"type": "thinking", "thinking": "m"}, {"type": "text", "text": "so"}]),
            delta(content=[{"type": "reference", "reference_ids": [1]}]),
            delta(content=[{"type": "image_url", "image_url": {"url": "http://h/a.png"}}]),
            stop(),
        ],
        """
        0 thinking 'hm'
        0 thinking 'm'
        1 text 'so'
        2 image  http://h/a.png
        3 kept {"type": "content", "content": [{"type": "reference", "reference_ids": [1]}]}
        stop""",
    ),
    "ids that are numbers, indexes that are texts": (
        [
            {"id": 5, "choices": [{"index": "0", "delta": {"content": "a"}}]},
            {"id": 5, "choices": [{"index": "1", "delta": {"content": "no"}}]},
            delta(tool_calls=[{"index": "0", "id": 7, "function": {"name": "f", "arguments": '{"x"'}}]),
            delta(tool_calls=[{"index": "0", "function": {"arguments": ":1}"}}]),
            stop("tool_calls"),
        ],
        """
        1 text 'a'
        2 call 7 f {"x"
        2 call - - :1}
        2 complete
        tool_use""",
    ),
    "fields of other types than they should be": (
        [
            {**delta(reasoning={"text": "hm"}, refusal=[]), "usage": []},
            call(0, "c1", "f", []),
            {**stop("tool_calls"), "usage": "none", "x_groq": {"usage": []}},
        ],
        """
        0 thinking 'hm'
        2 call c1 f []
        2 complete
        tool_use""",
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
    "an error without the key, as old servers have it": (
        [
            delta(content="a"),
            {"object": "error", "message": "boom", "type": "ServerError", "code": 500},
            DONE,
        ],
        """
        1 text 'a'
        ! OverloadedError provider: boom (model='p/m', status=500, code='500', type='ServerError')""",
    ),
    "an error that is a code and a message": (
        [delta(content="a"), {"code": "TooManyRequests", "message": "slow down", "request_id": "r"}, DONE],
        """
        1 text 'a'
        ! ModelError provider: slow down (model='p/m', code='TooManyRequests')""",
    ),
    "an error that is a detail": (
        [delta(content="a"), {"detail": "upstream died"}, DONE],
        """
        1 text 'a'
        ! OverloadedError provider: upstream died (model='p/m')""",
    ),
    "a chunk of something else is no error": (
        [{"prompt_filter_results": [], "choices": []}, delta(content="a"), {"message": "hi"}, stop()],
        """
        1 text 'a'
        stop""",
    ),
    "why Groq stopped early": (
        [delta(content="a"), {"choices": [], "x_groq": {"id": "r", "error": "over_capacity"}}, DONE],
        """
        1 text 'a'
        ! PartialStreamError provider: over_capacity (model='p/m')""",
    ),
    "an error in the choice": (
        [
            delta(content="a"),
            {
                "choices": [
                    {"delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "Rate limited"}}
                ]
            },
            DONE,
        ],
        """
        1 text 'a'
        ! RateLimitError provider: Rate limited (model='p/m', status=429, code='429')""",
    ),
    "an error in the choice, without a reason": (
        [delta(content="a"), {"choices": [{"error": {"code": 429, "message": "slow"}}]}, DONE],
        """
        1 text 'a'
        ! RateLimitError provider: slow (model='p/m', status=429, code='429')""",
    ),
    "an error in the choice beside its last text": (
        [delta(content="a"), {"choices": [{"delta": {"content": "b"}, "error": "gone"}]}, DONE],
        """
        1 text 'a'
        ! PartialStreamError provider: gone (model='p/m')""",
    ),
    "a code that says success is no error": (
        [
            delta(content="a"),
            *[
                {"code": code, "message": "success", "choices": []}
                for code in (200, "200", 201, "OK", "success", 0, "0")
            ],
            {"status_code": 200, "message": "done"},
            stop(),
            DONE,
        ],
        """
        1 text 'a'
        stop""",
    ),
    "a code that says success beside one that does not": (
        [{"code": 200, "status_code": 503, "message": "down"}],
        """
        ! OverloadedError provider: down (model='p/m', status=503, code='200')""",
    ),
    "tools that the server ran": (
        [
            delta(executed_tools=[{"index": 0, "type": "search", "arguments": "{}"}, {"type": "x"}]),
            delta(content="a"),
            delta(executed_tools=[{"index": 0, "arguments": "{}", "output": "1"}, {"index": 1, "type": "y"}]),
            stop(),
            DONE,
        ],
        """
        1 text 'a'
        2 kept {"type": "executed_tools", "executed_tools": [{"index": 0, "type": "search", "arguments": "{}", "output": "1"}, {"type": "x"}, {"index": 1, "type": "y"}]}
        stop""",
    ),
    "what the server looked up": (
        [delta(role="assistant", context={"citations": [1], "intent": None}), delta(content="a"), stop()],
        """
        1 text 'a'
        2 kept {"type": "context", "context": {"citations": [1]}}
        stop""",
    ),
    "probabilities of tokens": (
        [
            {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [1], "refusal": None}}]},
            {"choices": [{"delta": {"content": "b"}, "logprobs": {"content": [1, 2]}}]},
            {"choices": [{"delta": {}, "logprobs": None, "finish_reason": "stop"}]},
        ],
        """
        1 text 'a'
        1 text 'b'
        stop logprobs={'content': [1, 1, 2], 'refusal': None}""",
    ),
    "probabilities of no token": (
        [
            {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": []}}]},
            {"choices": [{"delta": {}, "logprobs": {"content": None, "refusal": None}}]},
            stop(),
        ],
        """
        1 text 'a'
        stop""",
    ),
    "an error in the choice and nothing else": (
        [{"choices": [{"delta": {}, "error": "gone"}]}, DONE],
        """
        ! PartialStreamError provider: gone (model='p/m')""",
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
    "what servers ran and looked up, and how likely it is": (
        json.dumps(
            {
                "choices": [
                    {
                        "message": {
                            "content": "a",
                            "executed_tools": [{"index": 0, "type": "search"}],
                            "context": {"intent": "b"},
                        },
                        "logprobs": {"content": [1]},
                        "finish_reason": "stop",
                    }
                ]
            }
        ).encode(),
        """
        1 text 'a'
        2 kept {"type": "executed_tools", "executed_tools": [{"index": 0, "type": "search"}]}
        3 kept {"type": "context", "context": {"intent": "b"}}
        stop logprobs={'content': [1]}""",
    ),
    "an error with status 200": (
        b' {"error": {"message": "no", "code": "context_length_exceeded"}}',
        "! ContextOverflowError provider: no (model='p/m', code='context_length_exceeded')",
    ),
    "a whole answer, cut": (
        b'{"id": "r1", "choices": [{"message": {"content": "a',
        "! PartialStreamError provider: the answer ended early (model='p/m')",
    ),
    "an error without the key": (
        b'{"object": "error", "message": "Too many requests", "code": 429}',
        "! RateLimitError provider: Too many requests (model='p/m', status=429, code='429')",
    ),
    "an error of a code and a message": (
        b'{"code": "429", "message": "slow"}',
        "! RateLimitError provider: slow (model='p/m', status=429, code='429')",
    ),
    "an error in the choice": (
        b'{"choices": [{"message": {}, "finish_reason": "error", "error": {"code": 429, "message": "slow"}}]}',
        "! RateLimitError provider: slow (model='p/m', status=429, code='429')",
    ),
    "other JSON": (
        b'{"hello": 1}',
        "! ModelError provider: the answer is not a chat completion (model='p/m')",
    ),
    "a JSON array": (b"[1]", "! ModelError provider: the answer is not a chat completion (model='p/m')"),
    "HTML": (
        b"<!doctype html><p>Sign in",
        "! ModelError provider: the answer is HTML, not a chat completion: is the base URL right? (model='p/m')",
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


REASONS: dict[str, str] = {  # beside a text and a call that is whole, what the reply comes to
    "stop": "tool_use",
    "STOP": "tool_use",
    "tool_calls": "tool_use",
    "length": "length",
    "MAX_TOKENS": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "safety",
    "content-filter": "safety",
    "sensitive": "safety",
    "error": "stream_partial",
    "network_error": "stream_partial",
    "abort": "stream_partial",
    "insufficient_system_resource": "overloaded",
    "malformed_function_call": "malformed_reply",
}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons(reason: str) -> None:
    outcome = decode(wire([delta(content="a"), call(0, "c1", "f", "{}"), stop(reason), DONE]))
    error = outcome.error
    assert (error.error_kind if error else outcome.reply.stop_reason) == REASONS[reason]
    assert [call.completed for call in outcome.reply.tool_calls] == [REASONS[reason] == "tool_use"]
    assert isinstance(error, PartialStreamError | OverloadedError | None)
    assert error is None or (error.retryable and getattr(error, "text", "a") == "a")


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


@pytest.mark.parametrize("module", [openai_chat_documents, openai_chat_faults, openai_chat_finish])
def test_doctests(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("field", ["context", "executed_tools"])
def test_what_grows_is_not_copied_for_each_piece(field: str) -> None:
    kept, grown = KeptFields(), []
    for number in range(3):
        piece = {"index": 0, f"k{number}": number, "none": None}
        kept.add(Delta(context=piece) if field == "context" else Delta(executed_tools=[piece]))
        ((_, block),) = kept.blocks()
        assert type(block) is Opaque
        found = block.data[field]
        grown.append(found if field == "context" else found[0])
    assert grown[0] is grown[1] is grown[2]
    assert {key: value for key, value in grown[0].items() if key != "none"} == {
        "index": 0,
        "k0": 0,
        "k1": 1,
        "k2": 2,
    }
