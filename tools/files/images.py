"""Images small enough for a model: passed as they are, or scaled down by Pillow (extra ``images``).

How large an image is comes from its header, before anything is decoded: what would take too much memory is refused.
"""

import importlib
import struct
import warnings
from io import BytesIO
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import size_text

MAX_SIDE = 2000  # pixels
MAX_BYTES = 3_750_000  # 5 MB as base64, which is the most that providers take
MAX_PIXELS = 64_000_000  # decoded: 256 MB
_SMALLER = 0.75  # how much of a side is kept when an image has too many bytes still
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length


class ImageData(NamedTuple):
    """An image for a model; ``note`` says what was done to it, empty when nothing was."""

    data: bytes
    mime_type: str
    size: tuple[int, int]
    note: str = ""


def for_model(data: bytes, mime_type: str) -> ImageData:
    """``data`` itself where it is small enough, and a smaller image of it else.

    Raises:
        ToolError: it is damaged, takes too much memory, or is too large and Pillow is not installed.
    """
    size = image_size(data, mime_type)
    if size is None:
        raise ToolError(f"the image is damaged: no size in its header ({mime_type})")
    width, height = size
    if max(size) <= MAX_SIDE and len(data) <= MAX_BYTES:
        return ImageData(data, mime_type, size)
    if width * height > MAX_PIXELS:
        raise ToolError(f"the image is too large to be decoded: {width}x{height} pixels")
    return _scaled(data, size)


def image_size(data: bytes, mime_type: str) -> tuple[int, int] | None:
    """Width and height in pixels, as the header has them; None when it has none that make sense."""
    try:
        size = _SIZES[mime_type](data)
    except struct.error:  # the data end before
        return None
    return size if size is not None and min(size) > 0 else None


def _png_size(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from(">II", data, 16)
    return (width, height) if data[12:16] == b"IHDR" else None


def _gif_size(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low, high, low2, high2 = struct.unpack_from("<HBHB", data, 24)
            return (low | high << 16) + 1, (low2 | high2 << 16) + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        start, marker = struct.unpack_from(">BB", data, at)
        if start != 0xFF:
            return None
        if marker == 0xFF:  # fill
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + max(length, 2)


_SIZES = {"image/png": _png_size, "image/gif": _gif_size, "image/webp": _webp_size, "image/jpeg": _jpeg_size}


def _scaled(data: bytes, size: tuple[int, int]) -> ImageData:
    pillow = _pillow(size, len(data))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd but readable files; the size was looked at before
            with pillow.open(BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise ToolError(f"the image is too large to be decoded: {opened.size}")
                opened.draft("RGB", (MAX_SIDE, MAX_SIDE))
                first_only = ", first frame only" if getattr(opened, "is_animated", False) else ""
                image = importlib.import_module("PIL.ImageOps").exif_transpose(opened)
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            made, mime_type = _encoded(image)
            while len(made) > MAX_BYTES:
                image.thumbnail((image.width * _SMALLER, image.height * _SMALLER))
                made, mime_type = _encoded(image)
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, pillow.DecompressionBombError) as error:
        raise ToolError(f"the image is damaged: {error}") from error
    note = f"scaled down from {size[0]}x{size[1]}, {size_text(len(data))}{first_only}"
    return ImageData(made, mime_type, image.size, note)


def _encoded(image: Any) -> tuple[bytes, str]:
    """As PNG or JPEG, whichever is smaller; transparent images as PNG."""
    png = BytesIO()
    image.save(png, "PNG")
    if image.mode == "RGBA" and len(png.getvalue()) <= MAX_BYTES:
        return png.getvalue(), "image/png"
    jpeg = BytesIO()
    image.convert("RGB").save(jpeg, "JPEG", quality=85)
    smaller = min(
        (png.getvalue(), "image/png"), (jpeg.getvalue(), "image/jpeg"), key=lambda made: len(made[0])
    )
    return smaller


def _pillow(size: tuple[int, int], length: int) -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ToolError(
            f"the image is too large for a model: {size[0]}x{size[1]} pixels, {size_text(length)}; to have it scaled "
            "down, install Pillow: pip install 'unspool[images]'"
        ) from error
