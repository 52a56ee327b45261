"""As much of the formats as a run's server needs: a plain last answer, and what is in a request."""

import json
from typing import Any, Final

_DONE: Final[dict[str, list[Any]]] = {
    "openai-chat": [{"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}],
    "gemini": [
        {
            "candidates": [
                {
                    "index": 0,
                    "content": {"role": "model", "parts": [{"text": "done"}]},
                    "finishReason": "STOP",
                }
            ]
        }
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "m", "type": "message", "role": "assistant", "content": []},
        },
        {
            "type": "response.output_text.delta",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "delta": "done",
        },
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "done"}],
            },
        },
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ],
}
_RESULT: Final = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}


def last_answer(wire: str, then: str) -> bytes:
    """The events of an answer that ends a run; after a pause it holds the result that was waited for."""
    if wire == "anthropic-messages":
        return _sse(
            _anthropic([_RESULT], "Found") if "web_search_tool_result" in then else _anthropic([], "done")
        )
    return _sse(_DONE[wire]) + (b"data: [DONE]\n\n" if wire == "openai-chat" else b"")


def _anthropic(blocks: list[Any], text: str) -> list[Any]:
    started = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 1},
    }
    events: list[Any] = [{"type": "message_start", "message": started}]
    for index, block in enumerate([*blocks, {"type": "text", "text": ""}]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if block["type"] == "text":
            delta = {"type": "text_delta", "text": text}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    return [*events, ended, {"type": "message_stop"}]


def _sse(events: list[Any]) -> bytes:
    lines = []
    for event in events:
        if "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def answer_with(wire: str, usage: Any) -> bytes:
    """A whole answer, not a stream, with these counts."""
    text = {"type": "text", "text": "done"}
    answers: dict[str, Any] = {
        "openai-chat": {
            "choices": [{"message": {"content": "done"}, "finish_reason": "stop"}],
            "usage": usage,
        },
        "openai-responses": {"status": "completed", "output": [], "usage": usage},
        "anthropic-messages": {
            "type": "message",
            "content": [text],
            "stop_reason": "end_turn",
            "usage": usage,
        },
        "gemini": {**_DONE["gemini"][0], "usageMetadata": usage},
    }
    return json.dumps(answers[wire]).encode()


def reply_blocks(wire: str, request: Any) -> list[str]:
    """The types of what the last reply in a request consists of; none where it holds no reply."""
    match wire:
        case "anthropic-messages":
            return [block["type"] for block in _anthropic_reply(request)]
        case "openai-chat":
            replies = [part for part in request.get("messages", []) if part["role"] == "assistant"]
            reply = replies[-1] if replies else {}
            return ["text"] * bool(reply.get("content")) + ["tool_call" for _ in reply.get("tool_calls", [])]
        case "gemini":
            turns = [part for part in request.get("contents", []) if part["role"] == "model"]
            return [_gemini_kind(part) for part in (turns[-1]["parts"] if turns else [])]
        case _:
            items = [item for item in request.get("input", []) if item.get("role") != "user"]
            return [
                item.get("type", "message") for item in items if not item.get("type", "").endswith("_output")
            ]


def signature_of(wire: str, request: Any) -> str | None:
    """The first signature in a request."""
    if wire == "anthropic-messages":
        return next((block["signature"] for block in _anthropic_reply(request) if "signature" in block), None)
    turns = [part for part in request.get("contents", []) if part["role"] == "model"]
    signed = [
        part["thoughtSignature"] for turn in turns for part in turn["parts"] if "thoughtSignature" in part
    ]
    return signed[0] if signed else None


def results_of(wire: str, request: Any) -> tuple[list[str], list[str]]:
    """The ids of the calls in a request, and those that its results answer."""
    match wire:
        case "anthropic-messages":
            blocks = [block for part in request.get("messages", []) for block in _blocks(part)]
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        case "openai-chat":
            parts = request.get("messages", [])
            calls = [call["id"] for part in parts for call in part.get("tool_calls") or ()]
            return calls, [part["tool_call_id"] for part in parts if part["role"] == "tool"]
        case "openai-responses":
            items = request.get("input", [])
            calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
            return calls, [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        case _:  # Gemini pairs by position
            return [], []


def _anthropic_reply(request: Any) -> list[Any]:
    replies = [part for part in request.get("messages", []) if part["role"] == "assistant"]
    return _blocks(replies[-1]) if replies else []


def _blocks(part: Any) -> list[Any]:
    content = part["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _gemini_kind(part: Any) -> str:
    return next((key for key in part if key not in ("thought", "thoughtSignature")), "thought")
