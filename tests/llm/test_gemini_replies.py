"""What a model said, as it goes back to that model, to another Gemini, and from another provider."""

from typing import Any

import pytest

from unspool.kernel.messages import (
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    tool_message,
)
from unspool.llm.gemini_contents import SKIP_SIGNATURE
from unspool.llm.origins import LeftOutWarning

from .gemini_decoding import answer, decode, sse  # tests/llm/, not llm/
from .gemini_requests import (
    GO,
    GO_PART,
    PNG,
    PNG_PART,
    S1,
    S2,
    THREE,
    TWO,
    call,
    contents,
    reply,
    said,
    text,
    told,
    user,
)

OWN, OTHER, FOREIGN = f"gemini:{THREE}", f"gemini:{TWO}", "openai-chat:p/m"
SIGNED = ToolCall(id="i1", name="f", thought_signature=S1)
PLAIN = ToolCall(id="i2", name="f")
MADE_UP = ToolCall(id="local_" + "0" * 24, name="f")
CODE = {"executableCode": {"code": "1"}, "thoughtSignature": S1}


def kept(**part: Any) -> Opaque:
    return Opaque(provider="gemini", data=part)


def fields(**more: Any) -> Opaque:
    return kept(type="fields_of_part", **more)


REPLIES: dict[str, tuple[list[Content], str, list[dict[str, Any]]]] = {
    "a signed call": ([SIGNED], OWN, [{**call("f"), "id": 1, "thoughtSignature": S1}]),
    "of parallel calls only the first": (
        [SIGNED, PLAIN],
        OWN,
        [{**call("f"), "id": 1, "thoughtSignature": S1}, {**call("f"), "id": 2}],
    ),
    "an id of our own is not sent": ([MADE_UP], OWN, [call("f", thoughtSignature=SKIP_SIGNATURE)]),
    "one that was taken, and numbered": (
        [ToolCall(id=f"{MADE_UP.id}~2", name="f")],
        OWN,
        [call("f", thoughtSignature=SKIP_SIGNATURE)],
    ),
    "another Gemini's signature and id": (
        [SIGNED, PLAIN],
        OTHER,
        [call("f", thoughtSignature=SKIP_SIGNATURE), call("f")],
    ),
    "another provider's call": ([PLAIN], FOREIGN, [call("f", thoughtSignature=SKIP_SIGNATURE)]),
    "made by hand": ([SIGNED], "", [call("f", thoughtSignature=S1)]),
    "a signature that cannot be one": (
        [ToolCall(id="i1", name="f", thought_signature="not base64!")],
        OWN,
        [{**call("f"), "id": 1, "thoughtSignature": SKIP_SIGNATURE}],
    ),
    "thoughts": (
        [Thinking(text="a", signature=S1), Thinking(text="b"), Thinking(signature=S2), Text("c")],
        OWN,
        [
            text("a", thought=True, thoughtSignature=S1),
            text("b", thought=True),
            text("", thought=True, thoughtSignature=S2),
            text("c"),
        ],
    ),
    "thoughts of another Gemini": (
        [Thinking(text="a", signature=S1), Thinking(signature=S2), Text("c")],
        OTHER,
        [text("<thinking>\na\n</thinking>"), text("c")],
    ),
    "thoughts of another provider": (
        [Thinking(text="a", redacted="x"), Text("c")],
        FOREIGN,
        [text("<thinking>\na\n</thinking>"), text("c")],
    ),
    "a signature joins what it signs": (
        [Text("a"), kept(thoughtSignature=S1), PNG, kept(thoughtSignature=S2)],
        OWN,
        [text("a", thoughtSignature=S1), {**PNG_PART, "thoughtSignature": S2}],
    ),
    "a signature by itself": (
        [Text("a"), kept(text="", thoughtSignature=S1), Text(" "), kept(thoughtSignature=S2)],
        OWN,
        [text("a"), text("", thoughtSignature=S1), text("", thoughtSignature=S2)],
    ),
    "signatures of another Gemini": (
        [Text("a"), kept(thoughtSignature=S1), kept(text="", thoughtSignature=S1), kept(**CODE)],
        OTHER,
        [text("a"), {"executableCode": {"code": "1"}}],
    ),
    "two signatures after one text": (
        [Text("a"), kept(thoughtSignature=S1), kept(thoughtSignature=S2)],
        OWN,
        [text("a", thoughtSignature=S1), text("", thoughtSignature=S2)],
    ),
    "fields of a part join it": (
        [
            Text("a"),
            kept(thoughtSignature=S1),
            fields(partMetadata={"k": 1}),
            Text("b"),
            Thinking(text="c"),
            fields(new=2),
            SIGNED,
            fields(partMetadata={"k": 3}),
        ],
        OWN,
        [
            text("a", thoughtSignature=S1, partMetadata={"k": 1}),
            text("b"),
            text("c", thought=True, new=2),
            {**call("f", partMetadata={"k": 3}), "id": 1, "thoughtSignature": S1},
        ],
    ),
    "fields of another Gemini's part": (
        [Text("a"), kept(thoughtSignature=S1), fields(partMetadata={"k": 1})],
        OTHER,
        [text("a")],
    ),
    "fields of nothing": (
        [Text(" "), fields(partMetadata={"k": 1}), Text("a"), fields()],
        OWN,
        [text("a")],
    ),
    "what is kept verbatim": ([kept(**CODE), kept(other=[1])], OWN, [CODE, {"other": [1]}]),
    "a thought image": ([kept(**PNG_PART, thought=True)], OWN, [{**PNG_PART, "thought": True}]),
    "a thought image of another Gemini": ([Text("a"), kept(**PNG_PART, thought=True)], OTHER, [text("a")]),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies(name: str) -> None:
    blocks, origin, expected = REPLIES[name]
    _, found = contents(GO, reply(*blocks, origin=origin), name=THREE)
    assert found == said(*map(with_id, expected))


def with_id(part: dict[str, Any]) -> dict[str, Any]:
    """``id`` 1 in a row above stands for ``i1`` inside of the call."""
    if number := part.get("id"):
        part = {key: value for key, value in part.items() if key != "id"}
        part["functionCall"] = {**part["functionCall"], "id": f"i{number}"}
    return part


def test_no_placeholder_before_generation_3() -> None:
    _, found = contents(GO, reply(SIGNED, origin=FOREIGN), name=TWO)
    assert found == said(call("f"))


def test_reasoning_can_be_dropped() -> None:
    blocks: list[Content] = [Thinking(text="a", signature=S1), Text("b"), kept(thoughtSignature=S2), SIGNED]
    _, found = contents(GO, reply(*blocks, origin=OWN), name=THREE, drop_reasoning=True)
    assert found == said(text("b"), with_id({**call("f"), "id": 1, "thoughtSignature": S1}))
    _, found = contents(GO, reply(*blocks[:2], origin=FOREIGN), name=THREE, drop_reasoning=True)
    assert found == said(text("b"))


def test_what_only_another_provider_understands_is_left_out() -> None:
    other = Opaque(provider="openai-responses", data={"type": "web_search_call"})
    with pytest.warns(LeftOutWarning, match="web_search_call"):
        assert contents(GO, reply(Text("a"), other)) == [GO_PART, said(text("a"))]
    with pytest.warns(LeftOutWarning):
        assert contents(user(other, Text("a"))) == [told(text("a"))]


def test_an_answer_goes_back_as_it_came() -> None:
    parts = [
        text("a", thought=True, thoughtSignature=S1),
        text("b", thoughtSignature=S2),
        text("c", partMetadata={"k": 1}),
        text("d", thoughtSignature=S1, partMetadata={"k": 2}),
        text("e"),
        CODE,
        {"functionCall": {"name": "f", "args": {"x": 1}, "id": "i"}, "thoughtSignature": S1, "new": [1]},
        {"functionCall": {"name": "f", "args": {}, "id": "j"}},
        text("", thoughtSignature=S2),
    ]
    came = decode(sse(answer(*parts))).reply
    results = [tool_message(call, "ok") for call in came.tool_calls]
    _, model, last = contents(GO, came, *results, name="p/m")
    assert model["parts"] == parts
    assert [part["functionResponse"]["id"] for part in last["parts"]] == ["i", "j"]
