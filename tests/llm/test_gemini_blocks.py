"""Parts of generateContent answers as blocks, row by row, and calls that come in pieces."""

import json
from typing import Any

import pytest

from unspool.kernel.errors import PartialStreamError
from unspool.kernel.messages import Content, Image, Text, Thinking, ToolCall
from unspool.llm.gemini_args import ArgsBuilder, steps_of
from unspool.llm.gemini_stream import GeminiDecoder
from unspool.llm.gemini_wire import PartialArg

from .gemini_decoding import (  # tests/llm/, not llm/
    CODE,
    META,
    PNG,
    S1,
    S2,
    SOUND,
    answer,
    call,
    decode,
    fields,
    kept,
    same,
    signed,
    stream,
    text,
    thought,
)


def blocks_of(*parts: dict[str, Any]) -> list[Content]:
    """The blocks of an answer of ``parts``: the same in one piece and as a stream."""
    whole, streamed = decode(json.dumps(answer(*parts)).encode()), decode(stream(*parts))
    assert whole.error is None
    assert same(whole, streamed)
    return list(whole.reply.content)


BLOCKS: dict[str, tuple[list[dict[str, Any]], list[Content]]] = {
    "texts that follow each other are one": ([text("a"), text(""), text("b")], [Text("ab")]),
    "a thought by its flag, signed": ([thought("a", **signed(S1))], [Thinking(text="a", signature=S1)]),
    "a thought by its flag, not signed": ([thought("a")], [Thinking(text="a")]),
    "a signature makes no thought": (
        [text("a", **signed(S1), thought=False)],
        [Text("a"), kept(signed(S1))],
    ),
    "neither": ([text("a")], [Text("a")]),
    "a thought in between begins a new text": (
        [thought("a"), text("b"), thought("c"), text("d")],
        [Thinking(text="a"), Text("b"), Thinking(text="c"), Text("d")],
    ),
    "a signature ends its thought": (
        [thought("a"), thought("b", **signed(S1)), thought("c"), thought("d", **signed(S2))],
        [Thinking(text="ab", signature=S1), Thinking(text="cd", signature=S2)],
    ),
    "the same of a text": (
        [text("a", **signed(S1)), text("b", **signed(S2)), text("c"), text("d", **signed("")), CODE],
        [Text("a"), kept(signed(S1)), Text("b"), kept(signed(S2)), Text("cd"), kept(CODE)],
    ),
    "an empty part signs what is before it": (
        [thought("a"), thought("", **signed(S1)), text("b"), text("", **signed(S2))],
        [Thinking(text="a", signature=S1), Text("b"), kept(signed(S2))],
    ),
    "but not if that is signed": (
        [
            text("a", **signed(S1)),
            text("", **signed(S2)),
            thought("b", **signed(S1)),
            thought("", **signed(S2)),
        ],
        [
            Text("a"),
            kept(signed(S1)),
            kept(text("", **signed(S2))),
            Thinking(text="b", signature=S1),
            Thinking(signature=S2),
        ],
    ),
    "a signature that is said again": (
        [text("a", **signed(S1)), text("b", **signed(S1)), text("", **signed(S1)), text("c")],
        [Text("ab"), kept(signed(S1)), Text("c")],
    ),
    "other fields of a text": (
        [text("a"), text("b", **META), text("c", **META), text("d", **META, **signed(S1)), text("e", new=1)],
        [Text("a"), Text("bcd"), kept(signed(S1)), fields(META), Text("e"), fields({"new": 1})],
    ),
    "of a thought": ([thought("a", **META), text("b")], [Thinking(text="a"), fields(META), Text("b")]),
    "of a text that is empty": (
        [text("a"), text("", **META), text("b")],
        [Text("a"), kept(text("", **META)), Text("b")],
    ),
    "of a call": (
        [{**call("f"), **signed(S1), **META}, text("a")],
        [ToolCall(id="", name="f", thought_signature=S1), fields(META), Text("a")],
    ),
    "of an image": (
        [{**PNG, **signed(S1), **META}],
        [Image(data="aGk=", mime_type="image/png"), kept(signed(S1)), fields(META)],
    ),
    "fields that are null are none": (
        [text("a", inlineData=None, partMetadata=None), {**call("f"), "text": None}, {**PNG, "text": ""}],
        [Text("a"), ToolCall(id="", name="f"), Image(data="aGk=", mime_type="image/png")],
    ),
    "a text beside a call": ([{**text("a"), **call("f")}], [Text("a"), ToolCall(id="", name="f")]),
    "a signature by itself": (
        [call("f"), text("", **signed(S1))],
        [ToolCall(id="", name="f"), kept(text("", **signed(S1)))],
    ),
    "a signature without a text field": ([text("a"), signed(S1)], [Text("a"), kept(signed(S1))]),
    "a thought without text": ([thought("", **signed(S1)), text("a")], [Thinking(signature=S1), Text("a")]),
    "of parallel calls the first is signed": (
        [{**call("f", args={"x": 1}), **signed(S1)}, call("f", args={"x": 2})],
        [
            ToolCall(id="", name="f", args={"x": 1}, thought_signature=S1),
            ToolCall(id="", name="f", args={"x": 2}),
        ],
    ),
    "ids as they came": ([call("f", id="i1", args={})], [ToolCall(id="i1", name="f")]),
    "arguments that are missing": ([call("f")], [ToolCall(id="", name="f")]),
    "arguments as text": ([call("f", args='{"x":1}')], [ToolCall(id="", name="f", args={"x": 1})]),
    "a call that says nothing": ([text("a"), call(), text("b")], [Text("ab")]),
    "one that says nothing but signs": (
        [text("a"), {**call(), **signed(S1)}, text("b")],
        [Text("a"), kept(signed(S1)), Text("b")],
    ),
    "an image": (
        [text("a"), PNG, text("b")],
        [Text("a"), Image(data="aGk=", mime_type="image/png"), Text("b")],
    ),
    "an image that is signed": (
        [{**PNG, **signed(S1)}],
        [Image(data="aGk=", mime_type="image/png"), kept(signed(S1))],
    ),
    "an image that is a file": (
        [{"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a.png"}}],
        [Image(url="gs://b/a.png", mime_type="image/png")],
    ),
    "an image in the thoughts": ([{**PNG, "thought": True}], [kept({**PNG, "thought": True})]),
    "what we have no block for": (
        [text("a"), {**CODE, **signed(S1)}, SOUND, {"toolCall": {"id": "t"}}, {"other": [1]}, text("b")],
        [
            Text("a"),
            kept({**CODE, **signed(S1)}),
            kept(SOUND),
            kept({"toolCall": {"id": "t"}}),
            kept({"other": [1]}),
            Text("b"),
        ],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    parts, expected = BLOCKS[name]
    assert [without_made_up(block) for block in blocks_of(*parts)] == expected


def without_made_up(block: Content) -> Content:
    if isinstance(block, ToolCall) and block.id.startswith("local_"):
        assert block.completed
        return ToolCall(id="", name=block.name, args=block.args, thought_signature=block.thought_signature)
    return block


def test_ids_are_made_up_once_and_for_all() -> None:
    parts = [call("f"), call("f"), call("g", id="i"), call("h", id="i")]
    ids = [block.id for block in blocks_of(*parts) if isinstance(block, ToolCall)]
    assert len(set(ids)) == 4
    assert ids[2] == "i"
    again = [block.id for block in blocks_of(*parts) if isinstance(block, ToolCall)]
    assert again == ids
    other = GeminiDecoder(model="p/m", seed="2")
    events = list(other.feed(stream(*parts)))
    assert not {getattr(event, "id", "") for event in events} & {ids[0], ids[1], ids[3]}


def piece(path: str, *, more: bool = True, **value: Any) -> dict[str, Any]:
    going_on: dict[str, Any] = {"willContinue": True} if more else {}
    return call(partialArgs=[{"jsonPath": path, **value}], **going_on)


def test_arguments_in_pieces() -> None:
    parts = [
        {**call("f", willContinue=True), **signed(S1)},
        piece("$.name", stringValue="Bos", willContinue=True),
        piece("$.name", stringValue="ton", willContinue=True),
        piece("$.name", stringValue=""),
        piece("$.at[1].x", numberValue=2),
        piece("$['a.b']", boolValue=False),
        piece("$.none", nullValue="NULL_VALUE"),
        call(),
        call("f", willContinue=True),
        piece("$.name", stringValue="Rome", more=False),
        text("done"),
    ]
    first, second, said = blocks_of(*parts)
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert first.args == {"name": "Boston", "at": [None, {"x": 2}], "a.b": False, "none": None}
    assert first.thought_signature == S1
    assert (second.args, second.thought_signature) == ({"name": "Rome"}, None)
    assert first.completed and second.completed
    assert said == Text("done")


def test_a_piece_may_repeat_name_and_id() -> None:
    parts = [call("f", id="i", willContinue=True), call("f", id="i", args={"x": 1}), call("f", id="j")]
    assert blocks_of(*parts) == [ToolCall(id="i", name="f", args={"x": 1}), ToolCall(id="j", name="f")]


def test_a_call_that_was_to_continue_is_never_run() -> None:
    outcome = decode(stream(call("f", willContinue=True), piece("$.x", numberValue=1)))
    (found,) = outcome.reply.tool_calls
    assert (found.args, found.completed, outcome.reply.stop_reason) == ({"x": 1}, False, "stop")


@pytest.mark.parametrize("path", ["", "x", "$", "$.", "$.a[", "$.a[x]", "$..a", "$.a b[", "$" + ".a" * 65])
def test_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        steps_of(path)


@pytest.mark.parametrize("path", ["$.a.b", "$.a[0]", "$[0]", "$.list[99999]"])
def test_a_path_through_a_value(path: str) -> None:
    builder = ArgsBuilder()
    builder.add(PartialArg(json_path="$.a", number_value=1))
    with pytest.raises(ValueError, match="the path leads"):
        builder.add(PartialArg(json_path=path, number_value=1))
    outcome = decode(
        stream(call("f", willContinue=True), piece("$.a", numberValue=1), piece(path, numberValue=1))
    )
    assert type(outcome.error) is PartialStreamError
