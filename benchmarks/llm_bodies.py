"""Streams as providers send them, event by event: the same bytes for ours, for bare and for the SDKs.

Nothing but the standard library, because the SDKs run in an environment of their own.
"""

import json
from typing import Any

Body = list[bytes]  # one item for each event, as servers write them
_WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog,",
    "and",
    "then",
    "it",
    "sleeps.",
]
_ARGS = json.dumps({"path": "/src/pkg/module.py", "old": "return 1", "new": "x" * 120})
_STEP = len(_ARGS) // 45 + 1
_PIECES = [_ARGS[at : at + _STEP] for at in range(0, len(_ARGS), _STEP)]


def bodies(format: str, events: int) -> dict[str, Body]:
    """Two streams of about ``events`` events: text alone, and calls whose arguments come in pieces."""
    text, calls = _FORMATS[format]
    words = [" " + _WORDS[number % len(_WORDS)] for number in range(events)]
    return {"text": text(words), "calls": calls(max(1, events // len(_PIECES)))}


def _event(value: Any, name: str = "") -> bytes:
    data = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
    return b"event: " + name.encode() + b"\n" + data if name else data


# --- chat/completions ----------------------------------------------------------------------------


def _chunk(delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(
        {
            "id": "chatcmpl-AbCdEf0123456789AbCdEf0123456",
            "object": "chat.completion.chunk",
            "created": 1727346142,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_a7d06e42a7",
            "choices": [choice] if usage is None else [],
            "usage": usage,
            "obfuscation": "a1b2c3d4",
        }
    )


_CHAT_END = [
    _chunk({}, usage={"prompt_tokens": 900, "completion_tokens": 2000, "total_tokens": 2900}),
    b"data: [DONE]\n\n",
]


def _chat_text(words: list[str]) -> Body:
    first = _chunk({"role": "assistant", "content": "", "refusal": None})
    return [first, *[_chunk({"content": word}) for word in words], _chunk({}, "stop"), *_CHAT_END]


def _chat_calls(count: int) -> Body:
    body = [_chunk({"role": "assistant", "content": None})]
    for index in range(count):
        call = {"id": f"call_{index:024}", "type": "function", "function": {"name": "edit", "arguments": ""}}
        body.append(_chunk({"tool_calls": [{"index": index, **call}]}))
        body += [_chunk({"tool_calls": [{"index": index, "function": {"arguments": x}}]}) for x in _PIECES]
    return [*body, _chunk({}, "tool_calls"), *_CHAT_END]


# --- messages ------------------------------------------------------------------------------------


def _named(type: str, **fields: Any) -> bytes:
    return _event({"type": type, **fields}, type)


_MESSAGE_START = _named(
    "message_start",
    message={
        "id": "msg_01AbCdEf0123456789",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 1},
    },
)


def _message_end(reason: str) -> Body:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [_named("message_delta", delta=delta, usage={"output_tokens": 2000}), _named("message_stop")]


def _block(index: int, block: Any, deltas: list[Any]) -> Body:
    return [
        _named("content_block_start", index=index, content_block=block),
        *[_named("content_block_delta", index=index, delta=delta) for delta in deltas],
        _named("content_block_stop", index=index),
    ]


def _messages_text(words: list[str]) -> Body:
    deltas = [{"type": "text_delta", "text": word} for word in words]
    return [_MESSAGE_START, *_block(0, {"type": "text", "text": ""}, deltas), *_message_end("end_turn")]


def _messages_calls(count: int) -> Body:
    body = [_MESSAGE_START]
    for index in range(count):
        block = {"type": "tool_use", "id": f"toolu_{index:022}", "name": "edit", "input": {}}
        body += _block(index, block, [{"type": "input_json_delta", "partial_json": x} for x in _PIECES])
    return body + _message_end("tool_use")


# --- responses -----------------------------------------------------------------------------------


def _responses(output: list[Any], inner: Body) -> Body:
    response: dict[str, Any] = {
        "id": "resp_0123456789",
        "object": "response",
        "created_at": 1727346142,
        "model": "gpt-4o-2024-08-06",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "in_progress",
    }
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 900, "output_tokens": 2000, "total_tokens": 2900, **details}
    done = {**response, "status": "completed", "output": output, "usage": usage}
    return [
        _named("response.created", sequence_number=0, response=response),
        *inner,
        _named("response.completed", sequence_number=9999, response=done),
    ]


def _responses_text(words: list[str]) -> Body:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "annotations": []}
    text = "".join(words)
    whole = {**item, "content": [{**part, "text": text}]}
    deltas = [
        _named(
            "response.output_text.delta", sequence_number=n, **at, delta=word, logprobs=[], obfuscation="a1b2"
        )
        for n, word in enumerate(words)
    ]
    added = {"output_index": 0, "item": {**item, "content": []}}
    inner = [
        _named("response.output_item.added", sequence_number=1, **added),
        _named("response.content_part.added", sequence_number=2, **at, part={**part, "text": ""}),
        *deltas,
        _named("response.output_text.done", sequence_number=9996, **at, text=text),
        _named("response.content_part.done", sequence_number=9997, **at, part={**part, "text": text}),
        _named("response.output_item.done", sequence_number=9998, output_index=0, item=whole),
    ]
    return _responses([whole], inner)


def _responses_calls(count: int) -> Body:
    inner: Body = []
    items: list[Any] = []
    kind = "response.function_call_arguments"
    for index in range(count):
        item = {"id": f"fc_{index}", "type": "function_call", "call_id": f"call_{index:024}", "name": "edit"}
        at = {"item_id": item["id"], "output_index": index}
        items.append({**item, "arguments": _ARGS, "status": "completed"})
        added = {**item, "arguments": "", "status": "in_progress"}
        inner += [
            _named("response.output_item.added", sequence_number=1, output_index=index, item=added),
            *[_named(f"{kind}.delta", sequence_number=2, **at, delta=x, obfuscation="a1") for x in _PIECES],
            _named(f"{kind}.done", sequence_number=3, **at, arguments=_ARGS),
            _named("response.output_item.done", sequence_number=4, output_index=index, item=items[-1]),
        ]
    return _responses(items, inner)


# --- gemini --------------------------------------------------------------------------------------


def _candidate(part: Any, finish: str | None = None) -> bytes:
    candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
    return _event(
        {
            "candidates": [candidate | ({"finishReason": finish} if finish else {})],
            "usageMetadata": {
                "promptTokenCount": 900,
                "candidatesTokenCount": 7,
                "totalTokenCount": 907,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 900}],
            },
            "modelVersion": "gemini-2.5-flash",
            "responseId": "AbCdEf0123456789",
        }
    )


def _gemini_text(words: list[str]) -> Body:
    return [*[_candidate({"text": word}) for word in words], _candidate({"text": ""}, "STOP")]


def _gemini_calls(count: int) -> Body:
    """Calls come whole: as many of them as there would be pieces."""
    call = {"name": "edit", "args": json.loads(_ARGS)}
    calls = [_candidate({"functionCall": call}) for _ in range(count * len(_PIECES))]
    return [*calls, _candidate({"text": ""}, "STOP")]


_FORMATS = {
    "openai-chat": (_chat_text, _chat_calls),
    "anthropic-messages": (_messages_text, _messages_calls),
    "openai-responses": (_responses_text, _responses_calls),
    "gemini": (_gemini_text, _gemini_calls),
}
