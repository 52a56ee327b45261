"""The kernel's blocks as content blocks of Anthropic Messages.

What the format cannot take is put where it can be read or left out, never sent broken: no text without words, no
result without content, no kind of image or document that it refuses, no image in the result of a call that failed.

Read with: ``anthropic_messages.py`` (the caller), ``tests/llm/test_anthropic_request.py`` (the tables).
"""

import base64
import binascii
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
from .origins import warn_left_out
from .wire_ids import wire_id, wire_name

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PDF: Final = "application/pdf"
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


def text_part(text: str) -> Part:
    """Text, which must hold more than white space."""
    return {"type": "text", "text": text}


def call_part(call: ToolCall) -> Part:
    """A call; arguments that did not parse are sent as none."""
    return {
        "type": "tool_use",
        "id": wire_id(call.id, _ID),
        "name": wire_name(call.name, _TOOL_NAME),
        "input": call.args,
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
        case Image(data=None, url=None):
            return None
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


def _source(block: Image | Document, mime_type: str) -> Part:
    """Where an image or a document comes from; a URL that holds the data itself counts as data."""
    if block.data is not None:
        return {"type": "base64", "media_type": _media_type(block.mime_type) or mime_type, "data": block.data}
    url = block.url or ""
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        found = _media_type(head.removeprefix("data:"))
        return {"type": "base64", "media_type": found or mime_type, "data": data}
    return {"type": "url", "url": url}


def _media_type(text: str) -> str:
    """A media type without its parameters, under the name that the format knows."""
    plain = text.partition(";")[0].strip().lower()
    return "image/jpeg" if plain == "image/jpg" else plain


def _image(block: Image) -> Part:
    source = _source(block, "image/png")
    if source["type"] == "base64" and source["media_type"] not in _IMAGES:
        return text_part(f"image: {source['media_type']}, which cannot be shown here")
    return {"type": "image", "source": source}


def _document(block: Document) -> Part | None:
    if block.data is None and block.url is None:
        return None
    source = _source(block, _PDF)
    if source["type"] == "url" and block.mime_type and _media_type(block.mime_type) != _PDF:
        return text_part(f"{block.name or 'document'}: {block.mime_type}, at {source['url']}")
    if source["type"] == "base64" and source["media_type"] != _PDF:
        text = _decoded(source["data"])
        if text is None:
            return text_part(
                f"{block.name or 'document'}: {source['media_type']}, which cannot be shown here"
            )
        if not text.strip():
            return None
        source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, **({"title": block.name} if block.name else {})}


def _decoded(data: str) -> str | None:
    """The text in base64 data; None where it is no text."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
