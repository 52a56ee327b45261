"""Faults that were reported against other libraries in what is sent, and how answers of Responses end."""

import json
from typing import Any

import pytest
from jsonschema_rs import validator_for
from msgspec.structs import replace
from wires import FORMATS, GEMINI, RESPONSES, Json, sse

from unspool.kernel import tool
from unspool.kernel.errors import (
    ModelError,
    OverloadedError,
    PartialStreamError,
    RateLimitError,
)
from unspool.kernel.messages import Message, Text, Thinking, ToolCall, make_call, tool_message, user_message
from unspool.kernel.ports import ModelRequest, ToolSpec
from unspool.llm.closed_schemas import closed_schema, strict_schema
from unspool.llm.gemini_schema import gemini_parameters
from unspool.llm.schemas import plain_schema

from .decoding import NO_SHARED, shared  # tests/llm/, not llm/

_ROOT = shared("bugcases")
_CASES: dict[str, dict[str, Any]] = {}
if _ROOT:
    _LINES = (_ROOT / "cases.jsonl").read_bytes().strip().split(b"\n")  # some hold U+2028
    _CASES = {case["id"]: case for case in map(json.loads, _LINES)}
needs_cases = pytest.mark.skipif(not _CASES, reason=NO_SHARED)


# --- B071: a history of another provider, without signatures -------------------------------------


@needs_cases
@pytest.mark.parametrize("model", ["p/gemini-3-pro-preview", "p/gemini-2.5-flash"])
def test_a_history_without_signatures(model: str) -> None:  # B071
    messages = []
    for row in _CASES["B071"]["trigger"]["messages"]:
        calls = [
            make_call(each["id"], each["name"], json.dumps(each["args"]))
            for each in row.get("tool_calls", ())
        ]
        texts = [Text(row["content"])] if row["content"] else []
        id = row.get("tool_call_id", "")
        messages.append(
            Message(
                role=row["role"], content=(*texts, *calls), tool_call_id=id, origin="x:p/m" if calls else ""
            )
        )
    before = repr(messages)
    body = GEMINI.sent(ModelRequest(messages=messages), model)
    (part,) = body["contents"][1]["parts"]
    assert part["functionCall"] == {"name": "ls", "args": {"d": "."}}
    assert ("thoughtSignature" in part) == ("gemini-3" in model)  # the placeholder that Google documents
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == "ls"
    assert "toolu_x" not in json.dumps(body) and repr(messages) == before


# --- B125: items whose reasoning is gone ---------------------------------------------------------


def item(kind: str, id: str, **fields: Any) -> Json:
    return {"type": kind, "id": id, **fields}


def message_item(id: str, text: str) -> Json:
    return item("message", id, role="assistant", content=[{"type": "output_text", "text": text}])


def reasoning_item(id: str) -> Json:
    return item("reasoning", id, encrypted_content=f"e-{id}", summary=[{"type": "summary_text", "text": id}])


def test_only_what_lost_its_reasoning_goes_without_its_id() -> None:  # B125
    items = [
        reasoning_item("ra"),
        message_item("msg_a", "ma"),
        reasoning_item("rb"),
        message_item("msg_b", "mb"),
    ]
    reply = RESPONSES.read(RESPONSES.answer("", None, *items))
    kept = [block for block in reply.content if not (type(block) is Thinking and block.text == "ra")]
    rows = RESPONSES.sent(ModelRequest(messages=[replace(reply, content=tuple(kept)), user_message("u")]))[
        "input"
    ]
    assert [row.get("id") for row in rows] == [None, "rb", "msg_b", None]
    assert (rows[0]["role"], rows[0]["content"]) == ("assistant", "ma")


# --- B126: the ends of an answer of Responses ----------------------------------------------------

CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
PAR = {"type": "response.output_text.delta", "output_index": 0, "delta": "par"}
CALL_ITEM = item("function_call", "fc", call_id="c1", name="f", arguments="{}")


def over(kind: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "response": {"id": "r", "status": kind, **fields}}


ENDS: dict[str, tuple[list[Any], str | type[ModelError]]] = {
    "cut for length": (
        [CREATED, PAR, over("incomplete", incomplete_details={"reason": "max_output_tokens"})],
        "length",
    ),
    "filtered": ([CREATED, over("incomplete", incomplete_details={"reason": "content_filter"})], "safety"),
    "failed": ([CREATED, over("failed", error={"code": "server_error", "message": "x"})], OverloadedError),
    "an error": ([{"type": "error", "code": "rate_limit_exceeded", "message": "x"}], RateLimitError),
    "nothing": (
        [CREATED, {"type": "response.output_item.done", "item": CALL_ITEM, "output_index": 0}],
        PartialStreamError,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_an_answer(name: str) -> None:  # B126
    events, want = ENDS[name]
    if isinstance(want, str):
        reply = RESPONSES.read(sse(*events))
        assert (reply.text, reply.stop_reason) == ("par" if name == "cut for length" else "", want)
    else:
        error = RESPONSES.error(sse(*events))
        assert type(error) is want and error.retryable


@pytest.mark.parametrize("events", [[{"candidates": []}], [{"candidates": []}, "[DONE]"], []])
def test_an_answer_of_gemini_with_neither_candidates_nor_feedback(events: list[Any]) -> None:  # B072
    error = GEMINI.error(sse(*events))
    assert isinstance(error, PartialStreamError) and error.retryable


# --- B128, B131: schemas -------------------------------------------------------------------------


@needs_cases
def test_references_of_each_kind() -> None:  # B128
    given = _CASES["B128"]["trigger"]["schemas"]
    acts, kind, tree, missing, outside, escaped = map(plain_schema, given)
    assert acts["properties"]["acts"]["items"] == {"type": "object"}
    assert kind["properties"]["k"] == {
        "enum": ["a", "b"],
        "type": "string",
        "default": "a",
        "description": "keep me",
    }
    assert tree["properties"]["root"]["properties"]["kids"]["items"] == {"type": "object"}
    assert missing["properties"]["x"] == outside["properties"]["x"] == {}
    assert escaped["properties"]["x"] == {"type": "string"}
    for schema in given:
        assert "$ref" not in json.dumps(gemini_parameters(schema))
        assert "$ref" not in json.dumps(plain_schema(schema))


def test_a_tool_with_a_bad_reference_does_not_fail_the_others() -> None:  # B128
    bad = {"type": "object", "properties": {"x": {"$ref": "http://example.invalid/s.json"}}}
    tools = (ToolSpec(name="bad", schema=bad, strict=True), ToolSpec(name="good", strict=True))
    for format in FORMATS.values():
        body = json.dumps(format.sent(ModelRequest(messages=[], tools=tools)))
        assert '"good"' in body and '"bad"' in body
    (sent,) = GEMINI.sent(ModelRequest(messages=[], tools=tools))["tools"]
    assert "$ref" not in json.dumps(sent)


class TestStrictTools:  # B131
    """What a strict tool may be in Python, and whether the model's arguments fit the function."""

    def test_optional_arguments(self) -> None:
        @tool
        def f(a: int, b: str = "x") -> str:
            return f"{a}{b}"

        schema = f.spec.schema
        assert strict_schema(schema) is None  # null would not stand for "x": it goes as an ordinary tool
        closed = closed_schema(schema)
        assert closed is not None and closed["required"] == ["a"]

    def test_objects_of_any_keys(self) -> None:
        @tool
        def g(fields: dict[str, int]) -> str:
            return str(fields)

        assert strict_schema(g.spec.schema) is closed_schema(g.spec.schema) is None

    def test_no_arguments(self) -> None:
        @tool
        def m() -> str:
            return "m"

        empty = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        for closed in (strict_schema(m.spec.schema), closed_schema(m.spec.schema)):
            assert closed is not None
            assert {key: value for key, value in closed.items() if key != "title"} == empty

    def test_what_a_strict_model_gives_fits_the_schema_of_the_tool(self) -> None:
        @tool
        def h(a: int, b: str | None = None) -> str:
            return f"{a}{b}"

        closed = strict_schema(h.spec.schema)
        assert closed is not None and sorted(closed["required"]) == ["a", "b"]
        for args in ({"a": 1, "b": None}, {"a": 1, "b": "x"}):
            assert validator_for(closed).is_valid(args)
            assert validator_for(h.spec.schema).is_valid(args)


# --- B130: data is no schema ---------------------------------------------------------------------


@pytest.mark.parametrize("model", ["p/gemini-3-pro-preview", "p/gemini-2.5-flash"])
def test_a_result_that_looks_like_a_schema_is_a_text(model: str) -> None:  # B130
    result = {"parameters": {"properties": {"b": {"$ref": "#/$defs/B"}}, "$defs": {"B": {"type": "object"}}}}
    if _CASES:
        assert result == _CASES["B130"]["trigger"]["result"]
    call = ToolCall(id="c1", name="describe")
    messages = [
        user_message("go"),
        Message(role="assistant", content=(call,)),
        tool_message(call, json.dumps(result)),
    ]
    sent = GEMINI.sent(ModelRequest(messages=messages), model)["contents"][2]["parts"][0]["functionResponse"]
    assert sent["response"] == {"output": json.dumps(result)}
