"""Files as parts of generateContent, by their kind: what the API takes, what goes as text, and what it refuses."""

import base64
import warnings
from typing import Any

import pytest

from unspool.kernel.messages import Document, Image, Text
from unspool.llm.origins import LeftOutWarning

from .gemini_requests import (  # tests/llm/, not llm/
    C2,
    GO,
    GO_PART,
    PDF,
    PDF_PART,
    PNG,
    PNG_PART,
    THREE,
    call,
    contents,
    reply,
    response,
    result,
    said,
    text,
    told,
    user,
)

BINARY = base64.b64encode(b"\x89\x00\xff").decode()


def base64_of(words: str) -> str:
    return base64.b64encode(words.encode()).decode()


def inline(kind: str, data: str = "aGk=") -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def file(uri: str, kind: str = "") -> dict[str, Any]:
    return {"fileData": {"mimeType": kind, "fileUri": uri} if kind else {"fileUri": uri}}


def image(kind: str, data: str = "aGk=") -> Image:
    return Image(data=data, mime_type=kind)


def document(kind: str, data: str = "aGk=", name: str = "") -> Document:
    return Document(data=data, mime_type=kind, name=name)


SENT: dict[str, tuple[Image | Document, dict[str, Any]]] = {
    "an image": (PNG, PNG_PART),
    "an image of no kind": (Image(data="aGk="), PNG_PART),
    "an image of a kind by another name": (image("image/jpg"), inline("image/jpeg")),
    "a kind in capitals, with parameters": (image("IMAGE/PNG; q=1"), PNG_PART),
    "heic": (image("image/heic"), inline("image/heic")),
    "an image in a URL": (Image(url="data:image/webp;base64,aGk="), inline("image/webp")),
    "an image in a URL of no kind": (Image(url="data:;base64,aGk="), PNG_PART),
    "an image at a URL": (Image(url="https://h/a.JPG?x=1"), file("https://h/a.JPG?x=1", "image/jpeg")),
    "a URL that does not tell": (Image(url="https://h/a"), file("https://h/a")),
    "a document": (PDF, PDF_PART),
    "a document of no kind": (Document(data="aGk="), PDF_PART),
    "a document at a URL": (Document(url="gs://b/a.pdf"), file("gs://b/a.pdf", "application/pdf")),
    "a text at a URL": (Document(url="gs://b/a", mime_type="text/csv"), file("gs://b/a", "text/csv")),
    "sound": (document("audio/wav"), inline("audio/wav")),
    "a film": (document("video/mp4", BINARY), inline("video/mp4", BINARY)),
    "a text": (document("text/plain"), text("hi")),
    "a text with a name": (document("text/csv", base64_of("a,b"), "t.csv"), text("t.csv:\na,b")),
    "a kind by its name": (Document(data="aGk=", name="a.txt"), text("a.txt:\nhi")),
    "JSON": (document("application/json", base64_of('{"ä": 1}')), text('{"ä": 1}')),
    "a text of a kind that is not known": (document("x/y", base64_of("a\nb")), text("a\nb")),
    "a drawing": (image("image/svg+xml", base64_of("<svg/>")), text("<svg/>")),
    "a drawing in a URL": (Image(url="data:image/svg+xml;utf8,<svg>%20"), text("<svg> ")),
    "a text in a URL": (Document(url="data:,a%20b", name="n"), text("n:\na b")),
    "a text of another encoding": (document("text/csv", BINARY), inline("text/plain", BINARY)),
}


@pytest.mark.parametrize("name", SENT)
def test_what_is_sent(name: str) -> None:
    block, expected = SENT[name]
    with warnings.catch_warnings(action="error"):
        assert contents(user(block)) == [told(expected)]


REFUSED: dict[str, tuple[Image | Document, str]] = {
    "gif": (image("image/gif"), "image: image/gif, which cannot be shown here"),
    "gif at a URL": (
        Image(url="https://h/a.gif"),
        "image: image/gif at https://h/a.gif, which cannot be shown here",
    ),
    "an office document": (
        document("application/vnd.ms-excel", BINARY, "a.xls"),
        "a.xls: application/vnd.ms-excel, which cannot be shown here",
    ),
    "an archive at a URL": (
        Document(url="gs://b/a", mime_type="application/zip"),
        "document: application/zip at gs://b/a, which cannot be shown here",
    ),
    "what is not base64": (document("x/y", "no!"), "document: x/y, which cannot be shown here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_refused(name: str) -> None:
    block, words = REFUSED[name]
    with pytest.warns(LeftOutWarning, match="is not sent in gemini"):
        assert contents(user(block)) == [told(text(words))]
    with pytest.warns(LeftOutWarning):
        _, _, last = contents(GO, reply(C2), result(C2, Text("a"), block))
    assert last == told(response("g", f"a\n{words}"))


def test_no_text_is_no_part() -> None:
    assert contents(user(document("text/plain", base64_of(" \n"))), GO) == [GO_PART]


def test_texts_are_part_of_a_result() -> None:
    found = contents(
        GO, reply(C2), result(C2, document("text/csv", base64_of("1,2"), "t.csv"), PNG), name=THREE
    )
    answer = response("g", "t.csv:\n1,2", parts=[PNG_PART])
    assert found[0] == GO_PART
    assert found[1]["parts"][0]["functionCall"] == call("g")["functionCall"]
    assert found[2] == told(answer)


def test_files_of_replies() -> None:
    with pytest.warns(LeftOutWarning, match="image/gif"):
        found = contents(GO, reply(PNG, image("image/gif", BINARY)))
    assert found[1] == said(PNG_PART, text("image: image/gif, which cannot be shown here"))
