"""Builds requests of generateContent and says what is to be in them."""

import json
from typing import Any

from unspool.kernel.messages import Content, Document, Image, Message, ToolCall, make_call, user_message
from unspool.kernel.ports import CallOptions, ModelRequest
from unspool.llm.gemini_request import GeminiDialect, encode_request

THREE, TWO = "google/gemini-3-flash-preview", "google/gemini-2.5-flash"
S1, S2 = "c2lnLTE=", "c2lnLTI="
C1, C2 = make_call("c1", "f", '{"x": 1}'), make_call("c2", "g")
PNG, PDF = Image(data="aGk=", mime_type="image/png"), Document(data="aGk=", name="a.pdf")
PNG_PART = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
PDF_PART = {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}
WAV_PART = {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}


def sent(request: ModelRequest, name: str = TWO, dialect: GeminiDialect | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_request(request, name, dialect or GeminiDialect()))
    return body


def contents(*messages: Message, name: str = TWO, **options: Any) -> list[dict[str, Any]]:
    request = ModelRequest(messages=list(messages), options=CallOptions(**options))
    found: list[dict[str, Any]] = sent(request, name)["contents"]
    return found


def user(*blocks: Content) -> Message:
    return Message(role="user", content=blocks)


def reply(*blocks: Content, origin: str = "") -> Message:
    return Message(role="assistant", content=blocks, origin=origin)


def result(call: ToolCall, *blocks: Content, is_error: bool = False) -> Message:
    return Message(role="tool", content=blocks, tool_call_id=call.id, tool_name=call.name, is_error=is_error)


def told(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def call(name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args or {}}, **more}


def response(name: str, output: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **more}}


GO, GO_PART = user_message("go"), told({"text": "go"})
