"""Files as parts of Gemini's contents, by their kind.

A kind that the API does not take is refused, and with it every later request of the conversation. So:

- images of the kinds it takes, PDFs, sound and films go as they are;
- data of another kind that is text goes as text, after the name of the document: "text should not be sent as raw
  bytes", says the API of inline data, and JSON sent so is refused;
- anything else becomes a line that says what is missing, with a ``LeftOutWarning``.

What is at a URL is not read here: text there stays a file.

Read with: ``gemini_contents.py`` (the caller), ``tests/llm/test_gemini_files.py`` (the tables).
"""

import base64
import re
import warnings
from typing import Final
from urllib.parse import unquote_to_bytes

from unspool.kernel.messages import Document, Image

from .encoding import Part
from .gemini_wire import FORMAT
from .origins import LeftOutWarning

_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.IGNORECASE)
_TAKEN: Final = frozenset(
    {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/bmp", "application/pdf"}
)
_TEXT: Final = "text/plain"
_OTHER_NAMES: Final = {"image/jpg": "image/jpeg"}  # which is refused
_KINDS: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "pdf": "application/pdf",
    "txt": _TEXT,
}


def file_part(block: Image | Document) -> Part | None:
    """A file as a part; None where there is nothing in it."""
    name = block.name if type(block) is Document else ""
    usual = "image/png" if type(block) is Image else "application/pdf"
    if block.data:
        return _inline(block.data, _kind(block.mime_type) or _kind_by_name(name) or usual, block)
    url = block.url or ""
    if found := _DATA_URL.match(url):
        data, given = url[found.end() :], _kind(found.group(1)) or _kind(block.mime_type)
        if found.group(2).lower().endswith(";base64"):
            return _inline(data, given or usual, block)
        return _inline(base64.b64encode(unquote_to_bytes(data)).decode(), given or _TEXT, block)
    return (
        _linked(url, _kind(block.mime_type) or _kind_by_name(url.partition("?")[0]), block) if url else None
    )


def _kind(mime_type: str) -> str:
    """A MIME type as the API names it, without its parameters."""
    kind = mime_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def _kind_by_name(name: str) -> str:
    return _KINDS.get(name.rpartition(".")[2].lower(), "")


def _is_taken(kind: str) -> bool:
    return kind in _TAKEN or kind.startswith(("audio/", "video/"))


def _inline(data: str, kind: str, block: Image | Document) -> Part | None:
    if _is_taken(kind):
        return {"inlineData": {"mimeType": kind, "data": data}}
    content = _decoded(data)
    is_picture = kind.startswith("image/") and kind != "image/svg+xml"
    words = None if content is None or is_picture else _text_of(content)
    if words is not None:
        return _named(words, block) if words.strip() else None
    if content is not None and kind.startswith("text/"):  # in another encoding: the API may know it
        return {"inlineData": {"mimeType": _TEXT, "data": data}}
    return _left_out(kind, block)


def _linked(url: str, kind: str, block: Image | Document) -> Part:
    if not kind:
        return {"fileData": {"fileUri": url}}
    if _is_taken(kind) or kind.startswith("text/") or kind == "application/json":
        return {"fileData": {"mimeType": kind, "fileUri": url}}
    return _left_out(f"{kind} at {url}", block)


def _decoded(data: str) -> bytes | None:
    """The bytes of base64 data; None where it is none."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError:
        return None


def _text_of(content: bytes) -> str | None:
    """The text that bytes are; None where they are none."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _named(words: str, block: Image | Document) -> Part:
    name = block.name if type(block) is Document else ""
    return {"text": f"{name}:\n{words}" if name else words}


def _left_out(what: str, block: Image | Document) -> Part:
    kind = type(block).__name__.lower()
    warnings.warn(
        f"the {kind} {what} is not sent in {FORMAT}: it is refused there", LeftOutWarning, stacklevel=2
    )
    name = (block.name if type(block) is Document else "") or kind
    return {"text": f"{name}: {what}, which cannot be shown here"}
