"""The tokens of images and documents, by what providers say of them.

Only the beginning of an image is decoded, for its width and height. Rules are by the model's name:

- Anthropic: width · height / 750, after shrinking to 1,568 pixels on the long edge; at most 1,600.
- OpenAI: 85, and 170 for each tile of 512 pixels, after shrinking to 2,048 on the long and 768 on the short edge.
- Gemini: 258 up to 384 pixels on both edges, else 258 for each tile of 768 pixels.
- others: 1,200.

A page of a PDF counts 2,000 (1,500 to 3,000 for Anthropic, which reads text and picture; 258 for Gemini, which reads
the picture). Sound counts 32 tokens per second.

Read with: ``tokens.py`` (the caller).
"""

import math
import re
from binascii import a2b_base64
from collections.abc import Callable
from struct import unpack
from typing import Final, NamedTuple

from unspool.kernel.messages import Document, Image

UNKNOWN_IMAGE: Final = 1_200
PDF_PAGE: Final = 2_000
GEMINI_TILE: Final = 258
MOST: Final = 1_000_000  # no single document counts more
_HEADER: Final = 65_536  # bytes of an image that are looked at: JPEG has its size behind other data
_SOUND_BYTES: Final = 16_000  # a second, at 128 kbit/s
_SOUND_TOKENS: Final = 32  # a second
_SCANNED: Final = 1_000_000  # bytes of a PDF that are looked at; the rest is taken to be like them
_SCANNED_TEXT: Final = 100_000  # likewise, of a text
_BYTES_PER_PAGE: Final = 50_000  # where a PDF does not show its pages
_PAGE: Final = re.compile(rb"/Type\s*/Page(?!s)")
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")


class Size(NamedTuple):
    """Of an image, in pixels."""

    width: int
    height: int


def image_tokens(image: Image, model: str) -> int:
    """The tokens of an image for a model (``provider/model``); at least 1, at most some thousand.

    An image that is only a URL, or cannot be read, counts as much as an ordinary one of 1,024 by 1,024.
    """
    data = _data_of(image)
    size = image_size(_decoded(data, _HEADER)) if data else None
    size = size or Size(1024, 1024)
    if _is_anthropic(model):
        return _anthropic(size)
    if _is_gemini(model):
        return _gemini(size)
    return _openai(size) if _is_openai(model) else UNKNOWN_IMAGE


def document_tokens(document: Document, model: str, text_tokens: Callable[[str], int]) -> int:
    """The tokens of a document for a model, its name among them; about 1,000,000 at most.

    Text is counted by ``text_tokens``, PDF by its pages, sound and film by their size. What is only a URL counts as
    one page. Takes about 15 ms at most: of a long document only the beginning is looked at.
    """
    kind = document.mime_type.lower()
    if kind.startswith("image/"):
        return image_tokens(Image(data=document.data, url=document.url, mime_type=kind), model)
    return min(MOST, max(1, _content_tokens(_data_of(document), kind, model, text_tokens))) + text_tokens(
        document.name
    )


def _content_tokens(data: str, kind: str, model: str, text_tokens: Callable[[str], int]) -> int:
    if not data:
        return PDF_PAGE
    size = len(data) * 3 // 4
    if kind.startswith(("audio/", "video/")):
        return size * _SOUND_TOKENS // _SOUND_BYTES
    if kind.startswith(_TEXTS):
        head = _decoded(data, _SCANNED_TEXT)
        rest = max(1.0, size / len(head)) if size > _SCANNED_TEXT and head else 1.0
        return round(text_tokens(head.decode("utf-8", "replace")) * rest)
    return pages_of(_decoded(data, _SCANNED), size) * (GEMINI_TILE if _is_gemini(model) else PDF_PAGE)


def image_size(head: bytes) -> Size | None:
    """Width and height from the first bytes of a PNG, JPEG, GIF or WebP; None where they do not say."""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return _size(*unpack(">II", head[16:24]))
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return _size(*unpack("<HH", head[6:10]))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp(head)
    return _jpeg(head) if head.startswith(b"\xff\xd8") else None


def pages_of(pdf: bytes, size: int) -> int:
    """The pages of a PDF of ``size`` bytes, as its beginning ``pdf`` shows them; at least 1.

    Newer files compress the objects that say so: they are judged by their size, and so is anything else.
    """
    pages = len(_PAGE.findall(pdf))
    if not pages:
        return max(1, size // _BYTES_PER_PAGE)
    return max(pages, round(pages * size / len(pdf)))


def _is_anthropic(model: str) -> bool:
    return "claude" in model.lower() or model.lower().startswith("anthropic/")


def _is_gemini(model: str) -> bool:
    return "gemini" in model.lower() or model.lower().startswith("google/")


def _is_openai(model: str) -> bool:
    provider, _, name = model.lower().rpartition("/")
    return provider.startswith("openai") or name.startswith(("gpt-", "chatgpt", "o1", "o3", "o4"))


def _anthropic(size: Size) -> int:
    shrunk = _shrunk(size, min(1.0, 1568 / max(size)))
    return min(1600, math.ceil(shrunk.width * shrunk.height / 750))


def _openai(size: Size) -> int:
    shrunk = _shrunk(size, min(1.0, 2048 / max(size)))
    return 85 + 170 * _tiles(_shrunk(shrunk, min(1.0, 768 / min(shrunk))), 512)


def _gemini(size: Size) -> int:
    return GEMINI_TILE if max(size) <= 384 else GEMINI_TILE * min(_tiles(size, 768), 64)


def _shrunk(size: Size, by: float) -> Size:
    return Size(max(1, round(size.width * by)), max(1, round(size.height * by)))


def _tiles(size: Size, edge: int) -> int:
    return math.ceil(size.width / edge) * math.ceil(size.height / edge)


def _data_of(block: Image | Document) -> str:
    """The base64 data of a block; a ``data:`` URL holds it too."""
    if block.data:
        return block.data
    url = block.url or ""
    head, _, data = url.partition(",") if url.startswith("data:") else ("", "", "")
    return data if head.endswith(";base64") else ""


def _decoded(data: str, most: int) -> bytes:
    """At most ``most`` bytes from the beginning of base64 data; none where it is not that."""
    piece = "".join(data[: most // 3 * 4].split())
    try:
        return a2b_base64(piece + "=" * (-len(piece) % 4))
    except ValueError:
        return b""


def _size(width: int, height: int) -> Size | None:
    return Size(width, height) if width and height else None


def _webp(head: bytes) -> Size | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = unpack("<HH", head[26:30])
            return _size(width & 0x3FFF, height & 0x3FFF)
        case b"VP8L":
            (bits,) = unpack("<I", head[21:25])
            return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            return Size(int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1)
        case _:
            return None


def _jpeg(head: bytes) -> Size | None:
    """From segment to segment, up to the one that begins a frame."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = unpack(">HH", head[at + 5 : at + 9])
            return _size(width, height)
        at += 1 if marker == 0xFF else 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None
