"""Requests of chat/completions, from the kernel's form to JSON bytes.

What the format cannot take is left out or put where it can be read, never sent broken:

- an assistant message with neither text nor calls is not sent; one with calls only has null content;
- images and documents of tool results go into one user message after the last consecutive result;
- reasoning is not sent, except where the dialect says how; that of another format becomes text between tags;
- a call id longer than the format allows is replaced, alike in the call and in its result.

Read with: ``openai_chat.py`` (the caller), ``tests/llm/test_openai_chat_request.py`` (the tables).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
)
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec

from .cache_marks import mark_last, marked_system
from .encoding import Part, Piece, encode_messages
from .origins import is_of_format, thinking_as_text, warn_left_out
from .wire_ids import wire_id

FORMAT = "openai-chat"
_ID = re.compile(r".{0,40}", re.DOTALL)  # longer ids of other providers are refused by OpenAI
_CHOICES = frozenset({"auto", "none", "required"})
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where servers of this format differ.

    ``max_tokens`` is the name of that field. ``top_effort`` is the highest reasoning effort that is
    accepted by name. ``replay_thinking`` names the message field that reasoning goes back in; None
    leaves it out. ``cache_key`` says whether ``prompt_cache_key`` is known, ``cache_marks`` whether
    ``cache_control`` is.
    """

    max_tokens: str = "max_tokens"
    top_effort: str = "high"
    replay_thinking: str | None = None
    cache_key: bool = False
    cache_marks: bool = False


def encode_request(request: ModelRequest, model: str, dialect: Dialect, *, stream: bool = True) -> bytes:
    """The JSON body of a request.

    ``options.extra`` is merged last and wins; a field it sets to None is not sent.
    """
    options = request.options
    ttl = options.cache_last if dialect.cache_marks else None
    messages = encode_messages(
        request.messages,
        partial(_cut, dialect=dialect, drop_reasoning=options.drop_reasoning),
        key=(FORMAT, dialect, options.drop_reasoning),
        mark=None if ttl is None else partial(mark_last, ttl=ttl),
        before=list(_system(request.system, dialect)),
    )
    body: dict[str, Any] = {"model": model, "messages": messages}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if (choice := options.tool_choice) is not None:
            named = {"type": "function", "function": {"name": choice}}
            body["tool_choice"] = choice if choice in _CHOICES else named
    body.update(_options(options, dialect))
    for key, value in options.extra.items():
        if value is None:
            body.pop(key, None)
        else:
            body[key] = value
    return _encode(body)


def _options(options: CallOptions, dialect: Dialect) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if options.max_tokens is not None:
        fields[dialect.max_tokens] = options.max_tokens
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if options.stop:
        fields["stop"] = list(options.stop)
    if options.thinking not in (None, "off"):  # the format has no word for off that all accept
        above = options.thinking in ("xhigh", "max")
        fields["reasoning_effort"] = dialect.top_effort if above else options.thinking
    if options.response_format is not None:
        fields["response_format"] = _response_format(options.response_format)
    if options.cache_key is not None and dialect.cache_key:
        fields["prompt_cache_key"] = options.cache_key
    return fields


def _response_format(neutral: dict[str, Any]) -> dict[str, Any]:
    """The wire's ``response_format``.

    ``{"type": "json"}`` asks for any object, ``{"type": "json_schema", "schema": …}`` (with ``name``
    and ``strict`` where wanted) for one of a schema; the wire's own forms pass as they are.
    """
    match neutral:
        case {"type": "json"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "schema": schema}:
            rest = {key: value for key, value in neutral.items() if key not in ("type", "schema")}
            return {"type": "json_schema", "json_schema": {"name": "reply", **rest, "schema": schema}}
        case _:
            return neutral


def _tool(spec: ToolSpec) -> Part:
    function: Part = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = spec.schema or {"type": "object", "properties": {}}
    if spec.strict is not None:
        function["strict"] = spec.strict
    return {"type": "function", "function": function}


def _system(blocks: tuple[SystemBlock, ...], dialect: Dialect) -> Iterator[Part]:
    blocks = tuple([block for block in blocks if block.text.strip()])
    text = "\n\n".join([block.text for block in blocks])
    if dialect.cache_marks and any(block.cache is not None for block in blocks):
        yield {"role": "system", "content": marked_system(blocks)}
    elif text:
        yield {"role": "system", "content": text}


def _cut(messages: Sequence[Message], dialect: Dialect, drop_reasoning: bool) -> Iterator[Piece]:
    """Each message by itself, but results that follow each other together with what is attached to them."""
    results: list[Part] = []
    attached: list[Part] = []  # what the results so far could not hold
    for message in messages:
        if message.role == "tool":
            results.append(_result(message, attached))
            continue
        if results:
            yield _piece(results, attached)
            results, attached = [], []
        yield 1, list(_message(message, dialect, drop_reasoning))
    if results:
        yield _piece(results, attached)


def _piece(results: list[Part], attached: list[Part]) -> Piece:
    return len(results), [*results, {"role": "user", "content": attached}] if attached else results


def _message(message: Message, dialect: Dialect, drop_reasoning: bool) -> Iterator[Part]:
    match message.role:
        case "assistant":
            yield from _assistant(message, dialect, drop_reasoning)
        case "user":
            if content := _user_content(message.content):
                yield {"role": "user", "content": content}
        case _:
            if message.text.strip():
                yield {"role": "system", "content": message.text}


def _assistant(message: Message, dialect: Dialect, drop_reasoning: bool) -> Iterator[Part]:
    calls, own = message.tool_calls, is_of_format(message, FORMAT)
    text = message.text if own else _text_of_another(message, drop_reasoning)
    spoken = bool(text.strip())
    if not spoken and not calls:
        return
    part: Part = {"role": "assistant", "content": text if spoken else None}
    if own and dialect.replay_thinking and not drop_reasoning and (thinking := message.thinking):
        part[dialect.replay_thinking] = thinking
    if calls:
        part["tool_calls"] = [_call(call) for call in calls]
    yield part


def _text_of_another(message: Message, drop_reasoning: bool) -> str:
    """The text of a reply that was made in another format, its reasoning between tags."""
    texts: list[str] = []
    for block in message.content:
        if type(block) is Text:
            texts.append(block.text)
        elif type(block) is Thinking and (said := thinking_as_text(block, drop=drop_reasoning)):
            texts.append(f"{said.text}\n\n")
        elif type(block) is Opaque:
            warn_left_out(block, FORMAT)
    return "".join(texts)


def _call(call: ToolCall) -> Part:
    function = {"name": call.name, "arguments": call.arguments_text}
    return {"id": wire_id(call.id, _ID), "type": "function", "function": function}


def _result(message: Message, attached: list[Part]) -> Part:
    """The result's message; what a result cannot hold is added to ``attached``."""
    parts = [part for block in message.content if (part := _part(block)) is not None]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    others = [part for part in parts if part["type"] != "text"]
    if others:
        texts.append("[attached below]")
        attached += [
            {"type": "text", "text": f"Attached to the result of {message.tool_name or 'the tool'}:"},
            *others,
        ]
    return {
        "role": "tool",
        "tool_call_id": wire_id(message.tool_call_id, _ID),
        "content": "\n".join(texts) or "(no output)",
    }


def _user_content(blocks: tuple[Content, ...]) -> str | list[Part]:
    """A string where there is only one text, else parts; empty when nothing can be sent."""
    if len(blocks) == 1 and type(block := blocks[0]) is Text:
        return block.text
    parts = [part for block in blocks if (part := _part(block)) is not None]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(block: Content) -> Part | None:
    """A block as a content part; None for one that is empty or that the format does not know."""
    match block:
        case Text(text) if text:
            return {"type": "text", "text": text}
        case Image(data=None, url=None):
            return None
        case Image():
            url = block.url or f"data:{block.mime_type or 'image/png'};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case Document():
            return _document(block)
        case ToolReference(name):
            return {"type": "text", "text": f"tool {name!r} is now available"}
        case _:
            return None


def _document(block: Document) -> Part | None:
    """A document as a file; one that is only a URL as text, since the format takes no URL."""
    if block.data is not None:
        mime = block.mime_type or "application/pdf"
        data = f"data:{mime};base64,{block.data}"
        return {"type": "file", "file": {"filename": block.name or "document", "file_data": data}}
    return {"type": "text", "text": f"{block.name or 'document'}: {block.url}"} if block.url else None
