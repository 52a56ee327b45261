"""Images and PDFs: told by content, passed as they are when small, scaled down when not, refused when dangerous."""

import base64
import struct
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from unspool.kernel.errors import ToolError
from unspool.kernel.messages import Document, Image, Text
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools import Root
from unspool.tools.files import images, read_file
from unspool.tools.files.images import for_model, image_size
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.sniffing import image_type

pytestmark = pytest.mark.anyio
MIME = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def made(form: str, size: tuple[int, int], mode: str = "RGB", **options: Any) -> bytes:
    file = BytesIO()
    Pillow.new(mode, size, "red").save(file, form, **options)
    return file.getvalue()


def noise(size: tuple[int, int]) -> Pillow.Image:
    """Pixels that don't compress, the same ones each time."""
    count, data, seed = size[0] * size[1] * 3, bytearray(), 1
    while len(data) < count:
        seed = seed * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        data += seed.to_bytes(8, "little")[3:]
    return Pillow.frombytes("RGB", size, bytes(data[:count]))


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is that large, and holds nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("form", MIME)
@pytest.mark.parametrize("name", ["picture.txt", "picture.png", "picture"])
async def test_an_image_by_its_content(root: Path, ctx: ToolContext, form: str, name: str) -> None:
    data = made(form, (30, 20))
    (root / name).write_bytes(data)
    result = await read_file_tool(Root(root)).execute({"path": name}, ctx)
    assert isinstance(result, ToolResult)
    assert result.content == (
        Text(f"[image {MIME[form]}, 30x20 pixels, {len(data)} B]"),
        Image(data=base64.b64encode(data).decode(), mime_type=MIME[form]),
    )
    assert result.details["file"]["partial"] is False


async def test_text_that_is_called_an_image(root: Path, call: Callable[..., Any]) -> None:
    (root / "a.png").write_text("text\n")
    assert await call("read_file", path="a.png") == "1\ttext\n[end of the file: 1 line]"


async def test_a_pdf(root: Path, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"%PDF-1.7\n" + b"\0" * 100
    (root / "paper").write_bytes(data)
    tool = read_file_tool(Root(root))
    result = await tool.execute({"path": "paper"}, ctx)
    assert isinstance(result, ToolResult)
    assert result.content == (
        Text("[PDF document, 109 B]"),
        Document(data=base64.b64encode(data).decode(), mime_type="application/pdf", name="paper"),
    )
    monkeypatch.setattr(read_file, "MAX_PDF", 108)
    with pytest.raises(ToolError, match="paper is too large: over 108 B"):
        await tool.execute({"path": "paper"}, ctx)


# --- sizes -----------------------------------------------------------------------------------------

WEBP: dict[str, dict[str, Any]] = {
    "lossy": {},
    "lossless": {"lossless": True},
    "extended": {"exif": b"Exif\0\0x"},
}
SIZED = {
    **{form: made(form, (321, 123)) for form in MIME},
    **{f"WEBP {name}": made("WEBP", (321, 123), **options) for name, options in WEBP.items()},
    "JPEG progressive": made("JPEG", (321, 123), progressive=True, exif=b"Exif\0\0" + b"x" * 999),
}


@pytest.mark.parametrize("data", SIZED.values(), ids=SIZED)
def test_sizes_are_read_from_headers(data: bytes) -> None:
    mime_type = image_type(data)
    assert image_size(data, mime_type) == (321, 123)
    for end in range(len(data)):  # cut anywhere: a size or none, never an error
        assert image_size(data[:end], mime_type) in (None, (321, 123))


def test_what_is_damaged() -> None:
    with pytest.raises(ToolError, match="the image is damaged: no size in its header"):
        for_model(b"\x89PNG\r\n\x1a\n", "image/png")
    with pytest.raises(ToolError, match="the image is damaged"):
        for_model(png_header(3000, 3000), "image/png")


# --- too large -------------------------------------------------------------------------------------


def test_a_side_that_is_too_long() -> None:
    image = for_model(made("PNG", (4000, 100)), "image/png")
    assert (image.size, image.mime_type) == ((2000, 50), "image/png")
    assert image.note.startswith("scaled down from 4000x100, ")
    assert Pillow.open(BytesIO(image.data)).size == (2000, 50)
    assert for_model(made("PNG", (2000, 100)), "image/png").note == ""


def test_the_smaller_encoding_is_taken() -> None:
    photo = BytesIO()
    noise((2200, 200)).save(photo, "PNG")
    assert for_model(photo.getvalue(), "image/png").mime_type == "image/jpeg"
    assert for_model(made("JPEG", (2200, 200)), "image/jpeg").mime_type == "image/png"


def test_what_is_transparent_stays_so() -> None:
    image = for_model(made("PNG", (2100, 10), "RGBA"), "image/png")
    assert Pillow.open(BytesIO(image.data)).mode == "RGBA"


def test_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", 20_000)
    photo = BytesIO()
    noise((400, 300)).save(photo, "PNG")
    image = for_model(photo.getvalue(), "image/png")
    assert len(image.data) <= 20_000
    assert image.size < (400, 300)


def test_turned_as_the_camera_says() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    assert for_model(made("JPEG", (3000, 1000), exif=exif), "image/jpeg").size == (667, 2000)


def test_an_animation_becomes_its_first_frame() -> None:
    frames = [Pillow.new("RGB", (2100, 10), color) for color in ("red", "blue")]
    file = BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    assert for_model(file.getvalue(), "image/gif").note.endswith(", first frame only")


def test_a_bomb_is_not_decoded() -> None:
    with pytest.raises(ToolError, match="too large to be decoded: 60000x60000 pixels"):
        for_model(png_header(60_000, 60_000), "image/png")


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    small = made("PNG", (10, 10))
    assert for_model(small, "image/png").data == small
    with pytest.raises(ToolError, match=r"2001x10 pixels, .* pip install 'unspool\[images\]'"):
        for_model(made("PNG", (2001, 10)), "image/png")
