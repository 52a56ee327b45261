"""Conversations as contents of generateContent, row by row."""

from typing import Any

import pytest

from unspool.kernel.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    make_call,
    tool_message,
    user_message,
)
from unspool.kernel.ports import ModelRequest
from unspool.kernel.transcript import Transcript

from .gemini_requests import (
    C1,
    C2,
    GO,
    GO_PART,
    PDF,
    PDF_PART,
    PNG,
    PNG_PART,
    THREE,
    WAV_PART,
    call,
    contents,
    reply,
    response,
    result,
    said,
    sent,
    text,
    told,
    user,
)

ODD = [ToolCall(id=str(at), name=name) for at, name in enumerate(["a b/c", "", "a.b:c-d"], 1)]
LOST = ToolCall(id="9", name="n n")
CONTENTS: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "a text": ([user_message("hi")], [told(text("hi"))]),
    "one role, one content": (
        [user_message("a"), user(Text("b"), Text("")), reply(Text("c")), reply(Text("d")), user_message("e")],
        [told(text("a"), text("b")), said(text("c"), text("d")), told(text("e"))],
    ),
    "images and documents": (
        [
            user(
                PNG,
                Image(data="aGk="),
                Image(url="data:image/webp;base64,aGk="),
                Image(url="https://h/a.JPG?x=1"),
                Image(url="https://h/a"),
                PDF,
                Document(url="gs://b/a.pdf"),
                Document(data="aGk=", mime_type="text/plain"),
            )
        ],
        [
            told(
                PNG_PART,
                PNG_PART,
                {"inlineData": {"mimeType": "image/webp", "data": "aGk="}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://h/a.JPG?x=1"}},
                {"fileData": {"fileUri": "https://h/a"}},
                PDF_PART,
                {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf"}},
                text("hi"),
            )
        ],
    ),
    "names that the format does not take, alike in call and result": (
        [GO, reply(*ODD), *(result(call, Text(call.id)) for call in ODD), result(LOST)],
        [
            GO_PART,
            said(call("a_b_c"), call("unknown"), call("a.b:c-d")),
            told(
                response("a_b_c", "1"),
                response("unknown", "2"),
                response("a.b:c-d", "3"),
                response("n_n", "(no output)"),
            ),
        ],
    ),
    "parts that the kernel does not model": (
        [
            user(Opaque(provider="gemini", data={"fileData": {"fileUri": "u"}, "videoMetadata": {"fps": 1}})),
            reply(C2),
            result(C2, Opaque(provider="gemini", data={"fileData": {"fileUri": "u"}})),
        ],
        [
            told({"fileData": {"fileUri": "u"}, "videoMetadata": {"fps": 1}}),
            said(call("g")),
            told(
                response("g", "[attached below]"),
                text("Attached to the result of g:"),
                {"fileData": {"fileUri": "u"}},
            ),
        ],
    ),
    "nothing is not sent": (
        [GO, user(), user(Text("")), user(Image()), reply(), reply(Text("\n")), reply(Thinking()), GO],
        [told(text("go"), text("go"))],
    ),
    "calls and results": (
        [GO, reply(Text("so"), C1, C2), tool_message(C1, "one"), result(C2), GO],
        [
            GO_PART,
            said(text("so"), call("f", {"x": 1}), call("g")),
            told(response("f", "one"), response("g", "(no output)"), text("go")),
        ],
    ),
    "results stand in the order of their calls": (
        [GO, reply(C1, C2), tool_message(C2, "two"), tool_message(C1, "one")],
        [GO_PART, said(call("f", {"x": 1}), call("g")), told(response("f", "one"), response("g", "two"))],
    ),
    "an error": (
        [GO, reply(C2), result(C2, Text("no"), is_error=True)],
        [
            GO_PART,
            said(call("g")),
            told({"functionResponse": {"name": "g", "response": {"error": "no"}}}),
        ],
    ),
    "invalid arguments are replayed as none": (
        [GO, reply(make_call("c3", "f", '{"x":'))],
        [GO_PART, said(call("f"))],
    ),
    "several texts, a tool that became known": (
        [GO, reply(C2), result(C2, Text("a"), Text("b"), ToolReference("h"))],
        [GO_PART, said(call("g")), told(response("g", "a\nb\ntool 'h' is now available"))],
    ),
    "images of results follow the last of them": (
        [GO, reply(C1, C2), result(C1, Text("shot"), PNG), result(C2, PDF), GO],
        [
            GO_PART,
            said(call("f", {"x": 1}), call("g")),
            told(
                response("f", "shot\n[attached below]"),
                response("g", "[attached below]"),
                text("Attached to the result of f:"),
                PNG_PART,
                text("Attached to the result of g:"),
                PDF_PART,
                text("go"),
            ),
        ],
    ),
    "a result without its call": ([GO, tool_message(C2, "two")], [told(text("go"), response("g", "two"))]),
    "the system in the middle": (
        [GO, Message(role="system", content=(Text("now b"),)), Message(role="system")],
        [told(text("go"), text("<system>\nnow b\n</system>"))],
    ),
    "a conversation that begins with a reply": (
        [reply(Text("a")), GO],
        [told(text("(the conversation goes on)")), said(text("a")), GO_PART],
    ),
    "none": ([], []),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents(name: str) -> None:
    messages, expected = CONTENTS[name]
    assert contents(*messages) == expected


@pytest.mark.parametrize("name", CONTENTS)
def test_a_transcript_that_grows_gives_the_same(name: str) -> None:
    messages, expected = CONTENTS[name]
    for end in range(len(messages)):
        grown = Transcript(messages[:end])
        sent(ModelRequest(messages=grown))
    assert sent(ModelRequest(messages=Transcript(messages)))["contents"] == expected


def test_results_hold_images_from_generation_3_on() -> None:
    sound = Document(data="aGk=", mime_type="audio/wav")
    *_, last = contents(
        GO, reply(C2), result(C2, PNG), GO, reply(C2), result(C2, PNG, Text("a"), sound), name=THREE
    )
    assert last == told(
        response("g", "a\n[attached below]", parts=[PNG_PART]),
        text("Attached to the result of g:"),
        WAV_PART,
    )
    (_, _, first) = contents(GO, reply(C2), result(C2, PNG), name=THREE)
    assert first == told(response("g", "[attached]", parts=[PNG_PART]))
