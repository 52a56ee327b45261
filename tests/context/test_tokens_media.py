"""The tokens of images and documents, by the providers' rules and from the first bytes."""

from base64 import b64encode
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.context.media_tokens import (
    PDF_PAGE,
    UNKNOWN_IMAGE,
    Size,
    document_tokens,
    image_size,
    image_tokens,
    pages_of,
)
from unspool.kernel.messages import Document, Image


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x02\x00\x00\x00"


def jpeg(width: int, height: int, before: int = 0) -> bytes:
    other = b"\xff\xe1" + pack(">H", before + 2) + bytes(before) if before else b""
    return (
        b"\xff\xd8\xff\xe0\x00\x10JFIF"
        + bytes(10)
        + other
        + b"\xff\xc2\x00\x11\x08"
        + pack(">HH", height, width)
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + pack("<HH", width, height) + b"\x00\x00\x00"


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + body.ljust(14, b"\x00")


def base64(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.mark.parametrize(
    ("head", "size"),
    [
        pytest.param(png(640, 480), (640, 480), id="png"),
        pytest.param(gif(640, 480), (640, 480), id="gif"),
        pytest.param(jpeg(640, 480), (640, 480), id="jpeg"),
        pytest.param(jpeg(640, 480, before=40_000), (640, 480), id="jpeg behind a thumbnail"),
        pytest.param(webp(b"VP8 ", bytes(6) + pack("<HH", 640, 480)), (640, 480), id="webp"),
        pytest.param(webp(b"VP8L", b"\x2f" + pack("<I", 639 | 479 << 14)), (640, 480), id="webp lossless"),
        pytest.param(webp(b"VP8X", bytes(4) + b"\x7f\x02\x00\xdf\x01\x00"), (640, 480), id="webp extended"),
        pytest.param(webp(b"ALPH", b""), None, id="webp of another kind"),
        pytest.param(png(0, 480), None, id="no width"),
        pytest.param(png(640, 480)[:20], None, id="png cut off"),
        pytest.param(jpeg(640, 480)[:-3], None, id="jpeg cut off"),
        pytest.param(b"\xff\xd8" + b"\xff" * 50, None, id="jpeg of fill bytes"),
        pytest.param(b"BM" + bytes(50), None, id="another format"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_the_size_of_an_image(head: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(head) == (None if size is None else Size(*size))


@given(
    st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF....WEBPVP8X"]),
    st.binary(max_size=80),
)
def test_any_bytes_have_a_size_or_none(magic: bytes, rest: bytes) -> None:
    size = image_size(magic + rest)
    assert size is None or (size.width > 0 and size.height > 0)


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("anthropic/claude-sonnet-5", (200, 200), 54),
        ("anthropic/claude-sonnet-5", (1000, 1000), 1334),
        ("anthropic/claude-sonnet-5", (4000, 4000), 1600),
        ("bedrock/anthropic.claude-4", (1568, 10), 21),
        ("openai/gpt-5", (512, 512), 85 + 170),
        ("openai/gpt-5", (1024, 1024), 85 + 4 * 170),
        ("openai/gpt-5", (2048, 4096), 85 + 6 * 170),
        ("openrouter/openai/o3", (100_000, 1), 85 + 4 * 170),
        ("gemini/gemini-3-pro", (300, 300), 258),
        ("gemini/gemini-3-pro", (1000, 700), 2 * 258),
        ("google/gemini-3-pro", (100_000, 100_000), 64 * 258),
        ("mistral/large", (4000, 4000), UNKNOWN_IMAGE),
    ],
)
def test_the_rule_of_a_provider(model: str, size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(Image(data=base64(png(*size)), mime_type="image/png"), model) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("anthropic/claude", 1399), ("openai/gpt-5", 765), ("gemini/x", 1032), ("x/y", 1200)],
)
@pytest.mark.parametrize(
    "image",
    [
        pytest.param(Image(url="https://example.com/a.png"), id="url"),
        pytest.param(Image(data="no base64 \u00e9"), id="no base64"),
        pytest.param(Image(data="abcde"), id="base64 of a length that there is not"),
        pytest.param(Image(), id="nothing"),
        pytest.param(Image(data=base64(b"BM" + bytes(50))), id="a format that is not read"),
    ],
)
def test_an_image_that_does_not_say_its_size(image: Image, model: str, tokens: int) -> None:
    assert image_tokens(image, model) == tokens


def test_an_image_in_a_url_is_read() -> None:
    url = f"data:image/png;base64,{base64(png(512, 512))}"
    assert image_tokens(Image(url=url), "openai/gpt-5") == 255


def pdf(pages: int, size: int = 0) -> bytes:
    page = b"<< /Type /Page /Parent 1 0 R >>\n"
    return b"%PDF-1.4\n<< /Type /Pages /Count 9 >>\n<</Type/Pages>>" + page * pages + bytes(size)


@pytest.mark.parametrize(
    ("data", "size", "pages"),
    [
        pytest.param(pdf(3), len(pdf(3)), 3, id="pages"),
        pytest.param(b"<</Type/Page>><</Type\n/Page/X 1>>", 30, 2, id="written in other ways"),
        pytest.param(pdf(4), 2 * len(pdf(4)), 8, id="the half that was not looked at is like the other"),
        pytest.param(b"%PDF-1.7 compressed", 400_000, 8, id="by size"),
        pytest.param(b"", 0, 1, id="nothing"),
    ],
)
def test_the_pages_of_a_pdf(data: bytes, size: int, pages: int) -> None:
    assert pages_of(data, size) == pages


@pytest.mark.parametrize(
    ("document", "model", "tokens"),
    [
        (Document(data=base64(pdf(3)), mime_type="application/pdf", name="a.pdf"), "x/y", 3 * PDF_PAGE + 5),
        (Document(data=base64(pdf(3)), mime_type="application/pdf"), "gemini/gemini-3", 3 * 258),
        (Document(url="https://example.com/a.pdf"), "x/y", PDF_PAGE),
        (Document(data=base64(b"twelve bytes"), mime_type="text/plain"), "x/y", 12),
        (Document(data=base64(b"{}"), mime_type="application/json"), "x/y", 2),
        (Document(data=base64("é".encode() * 9), mime_type="text/plain; charset=utf-8"), "x/y", 9),
        (Document(url=f"data:text/plain;base64,{base64(b'abc')}", mime_type="text/plain"), "x/y", 3),
        (Document(data=base64(bytes(160_000)), mime_type="audio/mpeg"), "x/y", 320),
        (Document(data=base64(png(512, 512)), mime_type="image/png"), "openai/gpt-5", 255),
        (Document(data=base64(b"a" * 1_500_000), mime_type="text/plain"), "x/y", 1_000_000),
        (Document(data="A" * 40_000_000, mime_type="application/zip"), "x/y", 1_000_000),
        (Document(data="?", mime_type="text/plain"), "x/y", 1),
    ],
    ids=lambda value: value.mime_type if isinstance(value, Document) else None,
)
def test_a_document(document: Document, model: str, tokens: int) -> None:
    assert document_tokens(document, model, len) == tokens
