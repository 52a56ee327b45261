"""Schemas as providers take them: without references, in Gemini's subset, closed for strict modes."""

import copy
import doctest
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from unspool.kernel.type_schema import schema_for
from unspool.llm import gemini_schema as gemini_schemas
from unspool.llm import schemas
from unspool.llm.closed_schemas import closed_schema, strict_schema
from unspool.llm.gemini_schema import gemini_parameters, gemini_schema
from unspool.llm.schemas import plain_schema

Json = dict[str, Any]
STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NULL: Json = {"type": "null"}


def obj(required: str = "", **properties: Any) -> Json:
    """An object of these properties."""
    needed: Json = {"required": required.split()} if required else {}
    return {"type": "object", "properties": properties, **needed}


def ref(name: str, **beside: Any) -> Json:
    return {"$ref": f"#/$defs/{name}", **beside}


NODE = {"$defs": {"Node": obj(kids={"type": "array", "items": ref("Node")})}}
PLAIN: dict[str, tuple[Json, Json]] = {
    "nothing to do": (obj(x=INTEGER), obj(x=INTEGER)),
    "a reference": ({**obj(k=ref("K")), "$defs": {"K": STRING}}, obj(k=STRING)),
    "what stands beside a reference holds": (
        {
            **obj(k=ref("K", description="mine", default="a")),
            "$defs": {"K": {**STRING, "description": "its"}},
        },
        obj(k={**STRING, "description": "mine", "default": "a"}),
    ),
    "a reference to a property": (
        obj(h=obj(), acts={"type": "array", "items": {"$ref": "#/properties/h"}}),
        obj(h=obj(), acts={"type": "array", "items": obj()}),
    ),
    "names that are escaped": (
        {**obj(x={"$ref": "#/definitions/A~0B~1C%20D"}), "definitions": {"A~B/C D": STRING}},
        obj(x=STRING),
    ),
    "a reference into a list": (
        {**obj(x={"$ref": "#/$defs/U/anyOf/1"}), "$defs": {"U": {"anyOf": [STRING, INTEGER]}}},
        obj(x=INTEGER),
    ),
    "a reference to a reference": (
        {**obj(x=ref("A")), "$defs": {"A": ref("B"), "B": INTEGER}},
        obj(x=INTEGER),
    ),
    "one that recurs is cut": (
        {**obj(root=ref("Node")), **NODE},
        obj(root=obj(kids={"type": "array", "items": {"type": "object"}})),
    ),
    "one that recurs at the root": (
        obj(next={"$ref": "#"}),
        obj(next={"type": "object"}),
    ),
    "one that is nothing but itself": (
        {**obj(x=ref("A")), "$defs": {"A": ref("A")}},
        obj(x={"type": "object"}),
    ),
    "one that leads nowhere says nothing": (obj(x=ref("Missing")), obj(x={})),
    "one that leads outside says nothing": (obj(x={"$ref": "http://example.invalid/s.json"}), obj(x={})),
    "parts that all hold": (
        {"allOf": [obj("a", a=STRING), obj("b", b=INTEGER, a={"maxLength": 3})]},
        obj("a b", b=INTEGER, a={**STRING, "maxLength": 3}),
    ),
    "types in common": ({"allOf": [{"type": ["string", "null"]}, STRING]}, STRING),
    "a constant": (obj(k={"const": "a"}), obj(k={"enum": ["a"]})),
    "anyOf and nullable": (
        {**obj(k={"anyOf": [ref("K"), NULL], "default": None}), "$defs": {"K": STRING}},
        obj(k={"anyOf": [STRING, NULL], "default": None}),
    ),
    "heads": ({"$schema": "s", "$id": "i", "$comment": "c", **obj()}, obj()),
    "mistakes": (
        {"type": 5, "properties": [], "required": "x", "enum": {}, "anyOf": [], "description": "d"},
        {"description": "d"},
    ),
    "names of properties are no keywords": (
        obj(const=STRING, allOf=INTEGER),
        obj(const=STRING, allOf=INTEGER),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain(name: str) -> None:
    schema, expected = PLAIN[name]
    before = copy.deepcopy(schema)
    found = plain_schema(schema)
    assert found == expected
    assert schema == before  # arguments are still checked by it
    assert plain_schema(found) == found


def test_references_that_multiply_are_bounded() -> None:
    defs: Json = {f"L{n}": obj(a=ref(f"L{n + 1}"), b=ref(f"L{n + 1}")) for n in range(40)}
    schema = {**obj(x=ref("L0")), "$defs": {**defs, "L40": STRING}}
    assert len(json.dumps(plain_schema(schema))) < 1_000_000


def test_depth_is_bounded() -> None:
    schema: Json = {}
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    assert json.dumps(plain_schema(schema)).count("items") == 64


# --- Gemini's subset ----------------------------------------------------------------------------

SUBSET: dict[str, tuple[Json, Json]] = {
    "a reference": ({**obj(k=ref("K")), "$defs": {"K": STRING}}, obj(k=STRING)),
    "null beside a type": (
        obj(k={"type": ["string", "null"], "default": None}),
        obj(k={**STRING, "nullable": True, "default": None}),
    ),
    "null beside a type, as anyOf": (
        obj(k={"anyOf": [STRING, NULL], "description": "d"}),
        obj(k={**STRING, "nullable": True, "description": "d"}),
    ),
    "several types": (
        obj(k={"type": ["string", "integer", "null"]}),
        obj(k={"anyOf": [{**STRING, "nullable": True}, {**INTEGER, "nullable": True}]}),
    ),
    "oneOf": (obj(k={"oneOf": [STRING, INTEGER]}), obj(k={"anyOf": [STRING, INTEGER]})),
    "what stands beside anyOf goes into each branch": (
        obj(k={"anyOf": [STRING, INTEGER], "description": "d"}),
        obj(k={"anyOf": [{**STRING, "description": "d"}, {**INTEGER, "description": "d"}]}),
    ),
    "values of strings": (obj(k={"enum": ["a", None]}), obj(k={**STRING, "enum": ["a"], "nullable": True})),
    "values of numbers are told": (
        obj(k={"type": "integer", "enum": [1, 2], "description": "which"}),
        obj(k={"type": "integer", "description": "which One of: 1, 2."}),
    ),
    "formats": (
        obj(a={**STRING, "format": "date-time"}, b={**STRING, "format": "uri"}),
        obj(a={**STRING, "format": "date-time"}, b=STRING),
    ),
    "a tuple": (
        obj(k={"type": "array", "prefixItems": [STRING, INTEGER]}),
        obj(k={"type": "array", "items": {"anyOf": [STRING, INTEGER]}}),
    ),
    "keywords that it does not know": (
        {**obj(k={**STRING, "minLength": 1, "x-note": 1, "examples": ["a"]}), "additionalProperties": False},
        obj(k={**STRING, "minLength": 1}),
    ),
    "required ones that are none": (
        {"type": "object", "properties": {"a": STRING}, "required": ["a", "b"]},
        obj("a", a=STRING),
    ),
}


@pytest.mark.parametrize("name", SUBSET)
def test_gemini_subset(name: str) -> None:
    schema, expected = SUBSET[name]
    assert gemini_schema(schema) == expected


def test_a_value_of_any_type_and_an_array_of_them() -> None:
    found = gemini_schema(obj(any={}, list={"type": "array"}))["properties"]
    kinds = ["string", "number", "boolean", "object"]
    assert [branch["type"] for branch in found["any"]["anyOf"]] == kinds
    assert [branch["type"] for branch in found["list"]["items"]["anyOf"]] == kinds


def test_parameters_are_one_object() -> None:
    union = {"anyOf": [obj("a b", a=STRING, b=INTEGER), obj("a", a=STRING, c=INTEGER)]}
    assert gemini_parameters(union) == obj("a", a=STRING, b=INTEGER, c=INTEGER)
    assert gemini_parameters({}) == {"type": "object", "properties": {}}


# --- strict modes -------------------------------------------------------------------------------


def closed(required: str = "", **properties: Any) -> Json:
    return {**obj(**properties), "required": required.split(), "additionalProperties": False}


TREE = {
    **closed("root", root=ref("Node")),
    "$defs": {"Node": closed("kids", kids={"type": "array", "items": ref("Node")})},
}
# a schema; OpenAI's form; Anthropic's form
CLOSED: dict[str, tuple[Json, Json | None, Json | None]] = {
    "no parameters": ({}, closed(), closed()),
    "no parameters, as an object": (obj(), closed(), closed()),
    "all required": (obj("x", x=INTEGER), closed("x", x=INTEGER), closed("x", x=INTEGER)),
    "an optional one that may be null": (
        obj("a", a=INTEGER, b={"anyOf": [STRING, NULL], "default": None}),
        closed("a b", a=INTEGER, b={"anyOf": [STRING, NULL]}),
        closed("a", a=INTEGER, b={"anyOf": [STRING, NULL]}),
    ),
    "an optional one that may not": (
        obj("a", a=INTEGER, b={**STRING, "default": "x"}),
        None,
        closed("a", a=INTEGER, b=STRING),
    ),
    "null in a list of types": (
        obj("a", a={"type": ["string", "null"], "enum": ["x", None]}),
        closed("a", a={"type": ["string", "null"], "enum": ["x", None]}),
        closed("a", a={"anyOf": [{**STRING, "enum": ["x"]}, NULL]}),
    ),
    "values of several types": (
        obj("a", a={"enum": ["x", 1, None]}),
        closed("a", a={"type": ["string", "integer", "null"], "enum": ["x", 1, None]}),
        closed("a", a={"anyOf": [{**STRING, "enum": ["x"]}, {**INTEGER, "enum": [1]}, NULL]}),
    ),
    "objects inside are closed too": (
        obj("l", l={"type": "array", "items": obj("q", q=INTEGER)}),
        closed("l", l={"type": "array", "items": closed("q", q=INTEGER)}),
        closed("l", l={"type": "array", "items": closed("q", q=INTEGER)}),
    ),
    "a reference, a constant, a title": (
        {**obj("k", k=ref("K", title="t")), "$defs": {"K": {"const": "a"}}},
        closed("k", k={"type": "string", "enum": ["a"], "title": "t"}),
        closed("k", k={"type": "string", "enum": ["a"], "title": "t"}),
    ),
    "limits": (
        obj("a", a={**INTEGER, "minimum": 1, "description": "d"}, b=NULL) | {"required": ["a", "b"]},
        closed("a b", a={**INTEGER, "minimum": 1, "description": "d"}, b=NULL),
        closed("a b", a={**INTEGER, "description": "d (minimum: 1)"}, b=NULL),
    ),
    "formats": (
        obj("a b", a={**STRING, "format": "email"}, b={**STRING, "format": "odd"}),
        closed("a b", a={**STRING, "format": "email"}, b={**STRING, "description": 'format: "odd"'}),
        closed("a b", a={**STRING, "format": "email"}, b={**STRING, "description": 'format: "odd"'}),
    ),
    "a URL": (
        obj("a", a={**STRING, "format": "uri", "minLength": 1}),
        closed("a", a={**STRING, "description": 'format: "uri", minLength: 1'}),
        closed("a", a={**STRING, "format": "uri", "description": "minLength: 1"}),
    ),
    "a union inside": (
        obj("u", u={"oneOf": [obj("a", a=STRING), INTEGER], "description": "d"}),
        closed("u", u={"anyOf": [closed("a", a=STRING), INTEGER], "description": "d"}),
        closed("u", u={"anyOf": [closed("a", a=STRING), INTEGER], "description": "d"}),
    ),
    "objects of any keys": ({"type": "object", "additionalProperties": INTEGER}, None, None),
    "objects of any keys and values": ({"type": "object", "additionalProperties": {}}, None, None),
    "further keys are welcome": ({**obj("a", a=STRING), "additionalProperties": True}, None, None),
    "any value": (obj("a", a={}), None, None),
    "a tuple": (obj("a", a={"type": "array", "prefixItems": [STRING]}), None, None),
    "a condition": ({**obj("a", a=STRING), "if": {}, "then": {}}, None, None),
    "an array of anything": (obj("a", a={"type": "array"}), None, None),
    "recursion": ({**obj("root", root=ref("Node")), **NODE}, None, None),
    "recursion that is strict as it stands": (TREE, TREE, None),
    "a reference that leads nowhere": (obj("a", a=ref("Missing")), None, None),
    "no object": ({"type": "array", "items": STRING}, None, {"type": "array", "items": STRING}),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed(name: str) -> None:
    schema, strict, anthropic = CLOSED[name]
    before = copy.deepcopy(schema)
    assert strict_schema(schema) == strict
    assert closed_schema(schema) == anthropic
    assert schema == before


_KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "allOf", "enum", "required", "$ref", "$defs", "format"),
        *("const", "additionalProperties", "description", "minimum", "prefixItems", "oneOf", "if"),
        *("string", "object", "array", "null", "#", "#/$defs/type"),
    ]
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | _KEYWORDS | st.just("date"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(_KEYWORDS, _ANYTHING, max_size=6))
def test_no_schema_is_too_strange(schema: Json) -> None:
    """What is no schema at all may become anything, but never an error."""
    for found in (plain_schema(schema), gemini_schema(schema), gemini_parameters(schema)):
        assert "$ref" not in found and json.dumps(found)
    for form in (strict_schema(schema), closed_schema(schema)):
        assert form is None or json.dumps(form)


def test_a_deep_schema_has_no_strict_form() -> None:
    schema: Json = {"type": "array", "items": STRING}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    assert strict_schema(obj("a", a=schema)) is closed_schema(obj("a", a=schema)) is None


class Inner(BaseModel):
    q: int = 1


class Answer(BaseModel):
    """What an agent's answer may be."""

    city: str
    inner: Inner | None = None
    tags: list[str]


def test_types_of_answers() -> None:
    found = closed_schema(schema_for(Answer))
    assert found is not None
    assert found["required"] == ["city", "tags"] and found["additionalProperties"] is False
    (inner, null) = found["properties"]["inner"]["anyOf"]
    assert inner["additionalProperties"] is False and null == NULL
    assert strict_schema(schema_for(Answer)) is None  # Inner.q has a default that null would not mean


@pytest.mark.parametrize("module", [schemas, gemini_schemas])
def test_doctests(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
