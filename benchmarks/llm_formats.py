"""The wire formats that are measured, and the least that a client of each would decode.

The structs are what somebody writes who wants text, calls and usage from one well-behaved server.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from unspool.llm.anthropic import AnthropicModel
from unspool.llm.anthropic_stream import AnthropicDecoder
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.gemini import GeminiModel
from unspool.llm.gemini_stream import GeminiDecoder
from unspool.llm.http_model import HttpModel
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.openai_chat_stream import ChatDecoder
from unspool.llm.openai_responses import OpenAIResponsesModel
from unspool.llm.openai_responses_stream import ResponsesDecoder


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Call(Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Delta(Struct, gc=False):
    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(Struct, gc=False):
    delta: Delta
    finish_reason: str | None = None


class Chunk(Struct, gc=False):
    choices: list[Choice] = []
    usage: dict[str, Any] | None = None


class MessagesDelta(Struct, gc=False):
    text: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class MessagesBlock(Struct, gc=False):
    type: str
    id: str | None = None
    name: str | None = None


class MessagesEvent(Struct, gc=False):
    type: str
    index: int = 0
    delta: MessagesDelta | None = None
    content_block: MessagesBlock | None = None
    usage: dict[str, Any] | None = None


class Item(Struct, gc=False):
    type: str
    call_id: str | None = None
    name: str | None = None


class Response(Struct, gc=False):
    status: str = ""
    usage: dict[str, Any] | None = None


class ResponsesEvent(Struct, gc=False):
    type: str
    output_index: int = 0
    delta: str | None = None
    item: Item | None = None
    response: Response | None = None


class GeminiCall(Struct, gc=False):
    name: str
    args: dict[str, Any] = {}


class GeminiPart(Struct, gc=False, rename="camel"):
    text: str | None = None
    function_call: GeminiCall | None = None


class GeminiContent(Struct, gc=False):
    parts: list[GeminiPart] = []


class Candidate(Struct, gc=False, rename="camel"):
    content: GeminiContent
    finish_reason: str | None = None


class GeminiChunk(Struct, gc=False, rename="camel"):
    candidates: list[Candidate] = []
    usage_metadata: dict[str, Any] | None = None


class Format(NamedTuple):
    """Ours, the bare decode of one event, and what is new in it."""

    decoder: Callable[[], AnswerDecoder]
    model: Callable[[str], HttpModel]
    bare: Callable[[bytes], Any]
    said: Callable[[Any], object]


def chat_said(chunk: Chunk) -> object:
    if not chunk.choices:
        return None
    delta = chunk.choices[0].delta
    return delta.content or delta.tool_calls


def messages_said(event: MessagesEvent) -> object:
    return (delta.text or delta.partial_json) if (delta := event.delta) is not None else event.content_block


def responses_said(event: ResponsesEvent) -> object:
    return event.delta or event.item


def gemini_said(chunk: GeminiChunk) -> object:
    part = chunk.candidates[0].content.parts[0]
    return part.text or part.function_call


_FORMATS: dict[str, tuple[type[AnswerDecoder], type[HttpModel], type, Callable[[Any], object]]] = {
    "openai-chat": (ChatDecoder, OpenAIChatModel, Chunk, chat_said),
    "anthropic-messages": (AnthropicDecoder, AnthropicModel, MessagesEvent, messages_said),
    "openai-responses": (ResponsesDecoder, OpenAIResponsesModel, ResponsesEvent, responses_said),
    "gemini": (GeminiDecoder, GeminiModel, GeminiChunk, gemini_said),
}


def formats() -> dict[str, Format]:
    """All of them, by name."""
    return {
        name: Format(
            lambda decoder=decoder: decoder(model="p/m"),  # type: ignore[misc]
            lambda url, model=model: model("p/m", base_url=url, api_key="k"),  # type: ignore[misc]
            msgspec.json.Decoder(kind).decode,
            said,
        )
        for name, (decoder, model, kind, said) in _FORMATS.items()
    }
