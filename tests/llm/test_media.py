"""Images and documents of every kind, and what each of the four formats sends of them: one row for each."""

import base64
import doctest
import json
import warnings
from typing import Any

import pytest
from wires import ANTHROPIC, CHAT, FORMATS, GEMINI, RESPONSES, Json

from unspool.kernel.messages import Document, Image, Message
from unspool.kernel.ports import ModelRequest
from unspool.llm import media
from unspool.llm.origins import LeftOutWarning

BINARY = "AP8="  # no text in any encoding
SVG = base64.b64encode(b"<svg/>").decode()


def image(kind: str, data: str = BINARY) -> Image:
    return Image(data=data, mime_type=kind)


def document(kind: str, name: str, data: str = BINARY) -> Document:
    return Document(data=data, mime_type=kind, name=name)


def shown(kind: str) -> tuple[Json, Json, Json]:
    """An image in the formats but Gemini's."""
    url = f"data:{kind};base64,{BINARY}"
    return (
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "image", "source": {"type": "base64", "media_type": kind, "data": BINARY}},
    )


def inline(kind: str) -> Json:
    return {"inlineData": {"mimeType": kind, "data": BINARY}}


def sound(format: str) -> Json:
    return {"type": "input_audio", "input_audio": {"data": BINARY, "format": format}}


def file(kind: str, name: str) -> Json:
    return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{BINARY}"}


# What is sent in chat, in Responses, in Messages and in Gemini's format; a text is the line that is sent instead, of
# which it is warned: "text: " before it where it is none, but what the file says.
JPEG, PNG, WEBP = shown("image/jpeg"), shown("image/png"), shown("image/webp")
OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
AT_URL: tuple[Json, Json, Json] = (
    {"type": "image_url", "image_url": {"url": "https://h/a.png"}},
    {"type": "input_image", "image_url": "https://h/a.png", "detail": "auto"},
    {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}},
)
NO = "which cannot be shown here"
ROWS: dict[str, tuple[Image | Document, tuple[Any, ...]]] = {
    "an image by another name, with parameters": (image("image/JPG; q=1"), (*JPEG, inline("image/jpeg"))),
    "an image of no kind": (image(""), (*PNG, inline("image/png"))),
    "an image in its URL": (
        Image(url=f"data:image/webp;charset=x;base64,{BINARY}"),
        (*WEBP, inline("image/webp")),
    ),
    "an image by an old name": (image("image/x-png"), (*PNG, inline("image/png"))),
    "an image by the name of old browsers": (image("image/pjpeg"), (*JPEG, inline("image/jpeg"))),
    "an image by the ending of its name": (image("JPG"), (*JPEG, inline("image/jpeg"))),
    "an image in its URL, with white space": (
        Image(url=f"data:image/webp; charset=x; base64 ,{BINARY}"),
        (*WEBP, inline("image/webp")),
    ),
    "an image at a URL whose kind is none of an image": (
        Image(url="https://h/a.png", mime_type="application/octet-stream"),
        (*AT_URL, {"fileData": {"mimeType": "image/png", "fileUri": "https://h/a.png"}}),
    ),
    "a text in its URL that cannot be encoded": (
        Document(url="data:text/plain,a\ud800", name="a.txt"),
        (
            *["text: a.txt:\n\na\ufffd"] * 2,
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a\ufffd"},
                "title": "a.txt",
            },
            "text: a.txt:\na\ufffd",
        ),
    ),
    "an image whose data is empty": (Image(data="", mime_type="image/png"), (None, None, None, None)),
    "a drawing": (
        image("image/svg+xml", SVG),
        (*[f"image: image/svg+xml, {NO}"] * 3, "text: <svg/>"),
    ),
    "a drawing in its URL": (
        Image(url="data:image/svg+xml,%3Csvg/%3E"),
        (*[f"image: image/svg+xml, {NO}"] * 3, "text: <svg/>"),
    ),
    "a bitmap": (image("image/bmp"), (*[f"image: image/bmp, {NO}"] * 3, inline("image/bmp"))),
    "a scan": (image("image/tiff"), (f"image: image/tiff, {NO}",) * 4),
    "a scan at a URL": (
        Image(url="https://h/a", mime_type="image/tiff"),
        (f"image: image/tiff at https://h/a, {NO}",) * 4,
    ),
    "sound with parameters": (
        document("audio/wav; rate=16000", "a.wav"),
        (sound("wav"), *[f"a.wav: audio/wav, {NO}"] * 2, inline("audio/wav")),
    ),
    "sound by another name": (
        document("AUDIO/MPEG", "a.mp3"),
        (sound("mp3"), *[f"a.mp3: audio/mpeg, {NO}"] * 2, inline("audio/mpeg")),
    ),
    "other sound": (
        document("audio/ogg", "a.ogg"),
        (*[f"a.ogg: audio/ogg, {NO}"] * 3, inline("audio/ogg")),
    ),
    "a film": (document("video/mp4", "a.mp4"), (*[f"a.mp4: video/mp4, {NO}"] * 3, inline("video/mp4"))),
    "an archive": (document("application/zip", "a.zip"), (f"a.zip: application/zip, {NO}",) * 4),
    "an archive by another name": (
        document("application/x-zip-compressed; a=b", "a.zip"),
        (f"a.zip: application/x-zip-compressed, {NO}",) * 4,
    ),
    "an office document": (
        document(OFFICE, "a.docx"),
        (f"a.docx: {OFFICE}, {NO}", file(OFFICE, "a.docx"), *[f"a.docx: {OFFICE}, {NO}"] * 2),
    ),
    "text in another encoding": (
        document("text/plain", "a.txt", "/w=="),
        (
            f"a.txt: text/plain, {NO}",
            {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,/w=="},
            f"a.txt: text/plain, {NO}",
            {"inlineData": {"mimeType": "text/plain", "data": "/w=="}},
        ),
    ),
    "a document that is a drawing": (
        document("image/svg+xml", "a.svg", SVG),
        (
            *["text: a.svg:\n\n<svg/>"] * 2,
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "<svg/>"},
                "title": "a.svg",
            },
            "text: a.svg:\n<svg/>",
        ),
    ),
    "a PDF in its URL": (
        Document(url=f"data:application/pdf;base64,{BINARY}", name="a.pdf"),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BINARY}"},
            },
            file("application/pdf", "a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": BINARY},
                "title": "a.pdf",
            },
            inline("application/pdf"),
        ),
    ),
    "a film at a URL": (
        Document(url="https://h/a", mime_type="video/mp4"),
        (
            "text: document: https://h/a",
            f"document: video/mp4 at https://h/a, {NO}",
            "text: document: video/mp4, at https://h/a",
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://h/a"}},
        ),
    ),
}


def sent_part(format: str, block: Image | Document) -> tuple[Any, list[str]]:
    """The one part of a user message, its text where it is one, and what was warned of."""
    request = ModelRequest(messages=[Message(role="user", content=(block,))])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        body = FORMATS[format].sent(request)
    assert all(warning.category is LeftOutWarning for warning in caught)
    messages = body.get("messages") or body.get("input") or body.get("contents")
    content = messages[0].get("content") or messages[0].get("parts") if messages else [None]
    part = content[0] if isinstance(content, list) else content
    said = [str(warning.message) for warning in caught]
    return part.get("text", part) if isinstance(part, dict) else part, said


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ROWS)
def test_a_file(name: str, format: str) -> None:
    block, wants = ROWS[name]
    order = [CHAT, RESPONSES, ANTHROPIC, GEMINI]
    want = wants[[each.name for each in order].index(FORMATS[format].name)]
    part, warned = sent_part(format, block)
    if isinstance(want, str) and not want.startswith("text: "):
        what = want.partition(": ")[2].removesuffix(f", {NO}")
        kind = type(block).__name__.lower()
        assert warned == [f"the {kind} {what} is not sent in {format}: it is refused there"]
    else:
        assert warned == []
    assert part == (want.removeprefix("text: ") if isinstance(want, str) else want)


def test_an_image_of_a_result_that_is_refused_stands_in_the_result() -> None:
    result = Message(role="tool", content=(image("image/bmp"),), tool_call_id="c1", tool_name="f")
    with pytest.warns(LeftOutWarning, match="image/bmp"):
        messages = CHAT.sent(ModelRequest(messages=[result]))["messages"]
    assert messages == [
        {"role": "tool", "tool_call_id": "c1", "content": f"image: image/bmp, {NO}"},
    ]
    assert "data:" not in json.dumps(messages)


def test_doctests() -> None:
    assert doctest.testmod(media).failed == 0
