"""The four wire formats side by side: a model of each, its requests as JSON, and answers as servers give them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unspool.kernel.errors import ModelError
from unspool.kernel.messages import Message
from unspool.kernel.ports import ModelRequest
from unspool.kernel.reply import ReplyBuilder
from unspool.llm import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.http_model import HttpModel

Json = dict[str, Any]
CALL: tuple[str, str, Json] = ("call_1", "f", {"x": 1})


def sse(*events: Any) -> bytes:
    """Events as a stream; those that say their type are named by it."""
    lines = []
    for event in events:
        name = event.get("type") if isinstance(event, dict) else None
        data = event if isinstance(event, str) else json.dumps(event)
        lines.append(f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n")
    return "".join(lines).encode()


def chat_answer(text: str, call: tuple[str, str, Json] | None = None, **delta: Any) -> bytes:
    """An answer of chat/completions; ``delta`` are further fields of its message."""
    if call is not None:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        delta["tool_calls"] = [{"index": 0, "id": call[0], "function": function}]
    choice = {"index": 0, "delta": {**delta, "content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    return sse({"id": "r1", "choices": [choice]}, {"id": "r1", "choices": [end]}, "[DONE]")


def responses_answer(text: str, call: tuple[str, str, Json] | None = None, *before: Json) -> bytes:
    """An answer of Responses; ``before`` are the items that come first."""
    items = [*before]
    if text:
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "content": parts})
    if call is not None:
        item = {"call_id": call[0], "name": call[1], "arguments": json.dumps(call[2])}
        items.append({"type": "function_call", "id": "fc_1", **item})
    answer = {"id": "resp_1", "status": "completed", "output": items}
    return sse({"type": "response.completed", "response": answer})


def anthropic_answer(text: str, call: tuple[str, str, Json] | None = None, *before: Json) -> bytes:
    """An answer of Anthropic Messages; ``before`` are the blocks that come first."""
    blocks = [*before]
    if text:
        blocks.append({"type": "text", "text": text})
    if call is not None:
        blocks.append({"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]})
    events: list[Json] = [{"type": "message_start", "message": {"id": "msg_1", "role": "assistant"}}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if call else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}})
    return sse(*events, {"type": "message_stop"})


def gemini_answer(text: str, call: tuple[str, str, Json] | None = None, *before: Json, **more: Any) -> bytes:
    """An answer of generateContent; ``before`` are the parts that come first, ``more`` is said of the call."""
    parts = [*before]
    if text:
        parts.append({"text": text})
    if call is not None:
        parts.append({"functionCall": {"id": call[0], "name": call[1], "args": call[2]}, **more})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return sse({"candidates": [candidate], "responseId": "r1"})


@dataclass(frozen=True)
class Format:
    """One wire format. ``model`` is what one asks it for where no other is named."""

    name: str
    kind: type[HttpModel]
    answer: Callable[..., bytes]
    model: str

    def at(self, base_url: str, name: str = "", **settings: Any) -> Any:
        """A model of a server."""
        return self.kind(name or f"p/{self.model}", base_url=base_url, **settings)

    def sent(self, request: ModelRequest, name: str = "") -> Json:
        """The body of a request."""
        body: Json = json.loads(self.at("http://h", name)._body(request))
        return body

    def headers(self, request: ModelRequest, key: str = "") -> dict[str, str]:
        """The headers of a request."""
        model = self.at("http://h")
        return {**(model._auth(key) if key else {}), **model._more_headers(request)}

    def read(self, body: bytes, name: str = "") -> Message:
        """The reply that an answer is."""
        decoder: AnswerDecoder = self.at("http://h", name)._decoder(ModelRequest(messages=[]), "")
        builder = ReplyBuilder()
        for event in [*decoder.feed(body), *decoder.close()]:
            builder.add(event)
        return builder.message()

    def error(self, body: bytes) -> ModelError:
        """The error that an answer with status 200 is."""
        try:
            self.read(body)
        except ModelError as error:
            return error
        raise AssertionError("the answer is no error")


CHAT = Format("openai-chat", OpenAIChatModel, chat_answer, "m")
RESPONSES = Format("openai-responses", OpenAIResponsesModel, responses_answer, "gpt-5.2")
ANTHROPIC = Format("anthropic-messages", AnthropicModel, anthropic_answer, "claude-sonnet-4-5")
GEMINI = Format("gemini", GeminiModel, gemini_answer, "gemini-3-flash-preview")
FORMATS = {each.name: each for each in (CHAT, RESPONSES, ANTHROPIC, GEMINI)}
