"""Files as parts of Gemini's contents, by their kind.

A kind that the API does not take is refused, and with it every later request of the conversation. So:

- images of the kinds it takes, PDFs, sound and films go as they are;
- data of another kind that is text goes as text, after the name of the document: "text should not be sent as raw
  bytes", says the API of inline data, and JSON sent so is refused;
- anything else becomes a line that says what is missing, with a ``LeftOutWarning``.

What is at a URL is not read here: text there stays a file.

Read with: ``gemini_contents.py`` (the caller), ``media.py``, ``tests/llm/test_gemini_files.py`` (the tables).
"""

from typing import Final

from unspool.kernel.messages import Document, Image

from .encoding import Part
from .gemini_wire import FORMAT
from .media import PDF, decoded, left_out, source_of, text_in

_TAKEN: Final = frozenset(
    {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/bmp", PDF}
)
_TEXT: Final = "text/plain"
_KINDS: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "pdf": PDF,
    "txt": _TEXT,
}


def file_part(block: Image | Document) -> Part | None:
    """A file as a part; None where there is nothing in it."""
    source = source_of(block)
    if source is None:
        return None
    if source.url:
        kind = source.kind or _kind_by_name(source.url.partition("?")[0])
        return _linked(source.url, kind, block)
    name = block.name if type(block) is Document else ""
    usual = "image/png" if type(block) is Image else PDF
    return _inline(source.data, source.kind or _kind_by_name(name) or usual, block)


def _kind_by_name(name: str) -> str:
    return _KINDS.get(name.rpartition(".")[2].lower(), "")


def _is_taken(kind: str) -> bool:
    return kind in _TAKEN or kind.startswith(("audio/", "video/"))


def _inline(data: str, kind: str, block: Image | Document) -> Part | None:
    if _is_taken(kind):
        return {"inlineData": {"mimeType": kind, "data": data}}
    content = decoded(data)
    is_picture = kind.startswith("image/") and kind != "image/svg+xml"
    words = None if is_picture else text_in(content)
    if words is not None:
        return _named(words, block) if words.strip() else None
    if content is not None and kind.startswith("text/"):  # in another encoding: the API may know it
        return {"inlineData": {"mimeType": _TEXT, "data": data}}
    return {"text": left_out(block, kind, FORMAT)}


def _linked(url: str, kind: str, block: Image | Document) -> Part:
    if not kind:
        return {"fileData": {"fileUri": url}}
    if _is_taken(kind) or kind.startswith("text/") or kind == "application/json":
        return {"fileData": {"mimeType": kind, "fileUri": url}}
    return {"text": left_out(block, f"{kind} at {url}", FORMAT)}


def _named(words: str, block: Image | Document) -> Part:
    name = block.name if type(block) is Document else ""
    return {"text": f"{name}:\n{words}" if name else words}
