"""The kernel's blocks as content blocks of Anthropic Messages.

What the format cannot take is put where it can be read or left out, never sent broken: no text without words, no
result without content, no kind of image or document that it refuses, no image in the result of a call that failed.

Read with: ``anthropic_messages.py`` (the caller), ``tests/llm/test_anthropic_request.py`` (the tables).
"""

import re
from collections.abc import Iterable
from typing import Final

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolReference,
)

from .anthropic_blocks import FIELDS_OF
from .anthropic_wire import FORMAT
from .encoding import Part
from .free_form import sent_args
from .media import PDF, Source, decoded, image_source, left_out, source_of, text_in
from .origins import warn_left_out
from .wire_ids import wire_id, wire_name

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def text_part(text: str) -> Part:
    """Text, which must hold more than white space."""
    return {"type": "text", "text": text}


def call_part(call: ToolCall) -> Part:
    """A call; arguments that did not parse are sent as none, the input of a free-form tool as one of them."""
    return {
        "type": "tool_use",
        "id": wire_id(call.id, _ID),
        "name": wire_name(call.name, _TOOL_NAME),
        "input": sent_args(call),
    }


def result_parts(message: Message, references: frozenset[str]) -> tuple[Part, list[Part]]:
    """The result of a call, and what goes beside it: next to references a result holds nothing else, and an error
    holds only text."""
    referred = [
        {"type": "tool_reference", "tool_name": block.tool_name}
        for block in message.content
        if type(block) is ToolReference and block.tool_name in references
    ]
    others = content_parts(
        block
        for block in message.content
        if type(block) is not ToolReference or block.tool_name not in references
    )
    held, beside = (referred, others) if referred else (others, [])
    if message.is_error:
        beside = [part for part in [*held, *beside] if part["type"] not in ("text", "tool_reference")]
        held = [part for part in others if part["type"] == "text"]
    result: Part = {
        "type": "tool_result",
        "tool_use_id": wire_id(message.tool_call_id, _ID),
        "content": held or [text_part("(no output)")],
    }
    if message.is_error:
        result["is_error"] = True
    return result, beside


def content_parts(blocks: Iterable[Content]) -> list[Part]:
    """Blocks of a user or a result."""
    return [part for block in blocks if (part := _part(block)) is not None]


def _part(block: Content) -> Part | None:
    """A block as a content block; None for one that is empty or that the format does not know."""
    match block:
        case Text(text) if text.strip():
            return text_part(text)
        case Image():
            return _image(block)
        case Document():
            return _document(block)
        case ToolReference(name):
            return text_part(f"tool {name!r} is now available")
        case Opaque(provider=provider, data={"type": str(kind)} as data) if provider == FORMAT:
            return None if kind.startswith(FIELDS_OF) else dict(data)
        case Opaque():
            warn_left_out(block, FORMAT)
            return None
        case _:
            return None


def _image(block: Image) -> Part | None:
    match image_source(block, FORMAT):
        case Source() as source:
            return {"type": "image", "source": _source(source)}
        case str(line):
            return text_part(line)
        case _:
            return None


def _document(block: Document) -> Part | None:
    source = source_of(block)
    if source is None:
        return None
    kind = source.kind or PDF
    if source.url and kind != PDF:
        return text_part(f"{block.name or 'document'}: {kind}, at {source.url}")
    part = _source(source._replace(kind=kind))
    if kind != PDF:
        text = text_in(decoded(source.data))
        if text is None:
            return text_part(left_out(block, kind, FORMAT))
        if not text.strip():
            return None
        part = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": part, **({"title": block.name} if block.name else {})}


def _source(source: Source) -> Part:
    if source.url:
        return {"type": "url", "url": source.url}
    return {"type": "base64", "media_type": source.kind, "data": source.data}
