"""Answers in the shapes that servers send, as material to mutate; written by hand, one of each kind of thing."""

import json
from typing import Any, Final


def sse(*events: Any, name: str = "", end: bytes = b"") -> bytes:
    """Events as a stream; with ``name`` the field of each that names it."""
    parts: list[bytes] = []
    for event in events:
        if name and name in event:
            parts.append(b"event: " + event[name].encode() + b"\n")
        parts.append(b"data: " + json.dumps(event).encode() + b"\n\n")
    return b"".join(parts) + end


def chat_chunk(delta: Any, finish: str | None = None, **more: Any) -> Any:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m-1",
        "choices": [choice],
        **more,
    }


def _call(**fields: Any) -> Any:
    return {"tool_calls": [{"index": 0, **fields}]}


DONE = b"data: [DONE]\n\n"
_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
_CHAT = [
    sse(
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "hm"}),
        chat_chunk({"content": "Grüße 😀"}),
        chat_chunk({}, "stop"),
        {"id": "chatcmpl-1", "choices": [], "usage": _USAGE},
        end=DONE,
    ),
    sse(
        chat_chunk(_call(id="call_1", type="function", function={"name": "f", "arguments": ""})),
        chat_chunk(_call(function={"arguments": '{"x":'})),
        chat_chunk(_call(function={"arguments": " 1}"})),
        chat_chunk(
            {"tool_calls": [{"id": "call_2", "function": {"name": "g", "arguments": {"y": [1, None]}}}]}
        ),
        chat_chunk({"tool_calls": [{"index": 2, "id": "c3", "custom": {"name": "h", "input": "raw"}}]}),
        chat_chunk({}, "tool_calls", usage=_USAGE, x_groq={"usage": _USAGE}),
        end=DONE,
    ),
    b": ping\n\n" + sse(chat_chunk({"refusal": "no"}, "content_filter")) + b"event: error\ndata: {}\n\n",
    sse({"error": {"message": "Rate limit reached, try again in 1.5s", "type": "x", "code": "rate_limit"}}),
    json.dumps(
        {
            "id": "1",
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "content": [{"type": "text", "text": "hi"}],
                        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    "finish_reason": "length",
                }
            ],
            "usage": _USAGE,
        }
    ).encode(),
]
_MESSAGES_USAGE = {
    "input_tokens": 9,
    "output_tokens": 1,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 2,
    "cache_creation": {"ephemeral_5m_input_tokens": 2},
}


def messages_block(index: int, block: Any, *deltas: Any) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


MESSAGES_START = {
    "type": "message_start",
    "message": {"id": "msg_1", "role": "assistant", "model": "m", "content": [], "usage": _MESSAGES_USAGE},
}
MESSAGES_END = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]
_MESSAGES = [
    sse(
        MESSAGES_START,
        {"type": "ping"},
        *messages_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *messages_block(1, {"type": "redacted_thinking", "data": "b64"}),
        *messages_block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Grüße 😀"}),
        *messages_block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"x":'},
            {"type": "input_json_delta", "partial_json": " 1}"},
        ),
        *MESSAGES_END,
        name="type",
    ),
    sse(
        MESSAGES_START,
        *messages_block(
            0,
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        ),
        *messages_block(
            1,
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srv_1",
                "content": [{"type": "web_search_result", "url": "u", "encrypted_content": "e"}],
            },
        ),
        *messages_block(
            2,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "a"}},
            {"type": "text_delta", "text": "a"},
        ),
        *MESSAGES_END,
        name="type",
    ),
    sse(
        MESSAGES_START, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, name="type"
    ),
    json.dumps(
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
            ],
            "stop_reason": "end_turn",
            "usage": _MESSAGES_USAGE,
        }
    ).encode(),
]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "enc",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"x": 1}'},
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "g", "input": "raw"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 14,
    },
}


def responses_output(index: int, item: Any, *inner: Any) -> list[Any]:
    at = {"output_index": index, "item_id": item["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *[{**at, **event} for event in inner],
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


_OUT = RESPONSE["output"]
assert isinstance(_OUT, list)
_RESPONSES = [
    sse(
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
        *responses_output(
            0,
            _OUT[0],
            {"type": "response.reasoning_summary_part.added", "summary_index": 0},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "hm"},
            {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": "hm"},
        ),
        *responses_output(
            1,
            _OUT[1],
            {"type": "response.content_part.added", "content_index": 0, "part": {"type": "output_text"}},
            {"type": "response.output_text.delta", "content_index": 0, "delta": "hi"},
            {"type": "response.output_text.done", "content_index": 0, "text": "hi"},
        ),
        *responses_output(
            2,
            _OUT[2],
            {"type": "response.function_call_arguments.delta", "delta": '{"x": 1}'},
            {"type": "response.function_call_arguments.done", "arguments": '{"x": 1}'},
        ),
        *responses_output(3, _OUT[3], {"type": "response.custom_tool_call_input.delta", "delta": "raw"}),
        *responses_output(4, _OUT[4]),
        {"type": "response.completed", "response": RESPONSE},
        name="type",
    ),
    sse(
        {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "no"},
        {
            "type": "response.incomplete",
            "response": {
                **RESPONSE,
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
            },
        },
        name="type",
    ),
    sse({"type": "error", "code": "server_error", "message": "x"}, name="type"),
    sse(
        {
            "type": "response.failed",
            "response": {**RESPONSE, "status": "failed", "error": {"code": "x", "message": "y"}},
        },
        name="type",
    ),
    json.dumps(RESPONSE).encode(),
]


def gemini_chunk(*parts: Any, finish: str | None = None) -> Any:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": {
            "promptTokenCount": 8,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 1,
            "totalTokenCount": 13,
        },
        "modelVersion": "m",
        "responseId": "r",
    }


_GEMINI_PARTS = (
    {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
    {"text": "Grüße 😀"},
    {"functionCall": {"name": "f", "args": {"x": 1}, "id": "c1"}, "thoughtSignature": "c2ln"},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
)
_GEMINI = [
    sse(*[gemini_chunk(part) for part in _GEMINI_PARTS], gemini_chunk({"text": ""}, finish="STOP")),
    sse({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 8}}),
    sse({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED"}}),
    json.dumps([gemini_chunk(*_GEMINI_PARTS, finish="MAX_TOKENS")]).encode(),
    json.dumps(gemini_chunk(*_GEMINI_PARTS, finish="STOP")).encode(),
]
ANSWERS: Final[dict[str, list[bytes]]] = {
    "openai-chat": _CHAT,
    "openai-responses": _RESPONSES,
    "anthropic-messages": _MESSAGES,
    "gemini": _GEMINI,
}
REFUSALS: Final = [
    b'{"error":{"message":"Please try again in 1m2.5s. sk-proj-abcdefghijklmnop","type":"t","code":"rate"}}',
    b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}',
    b'[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}]',
    b'{"detail":[{"loc":["body"],"msg":"field required"}]}',
    b"<html><title>502 Bad Gateway</title></html>",
    b'{"error":"model not found","retry_after":5}',
    b"",
]
DELAYS: Final = [
    b"7",
    b"1.5",
    b"Thu, 01 Jan 2026 00:01:30 GMT",
    b"Thu, 01 Jan 2026 00:01:30 -0000",
    b"-1",
    b"inf",
]
STREAM: Final = b'\xef\xbb\xbf: ping\n\nevent: x\r\ndata: a\r\n\r\nid: 1\rdata:b\rdata\n\ndata: {"a": 1}'
ARGUMENTS: Final = [
    b'{"x": 1, "y": [null, true, "a\\u00e9\\ud83d\\ude00"], "z": {"": 1.5e3}}',
    b'"{\\"x\\": \\"1\\"}"',
    b'{"x": "a\nb"}',
    b'{"x": 1}{"x": 1}',
]
