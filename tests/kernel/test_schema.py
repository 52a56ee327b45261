"""Arguments against a JSON Schema: what is told, in which words and in which order."""

import subprocess
import sys
from typing import Any

import pytest

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.ports import ValidationIssue
from unspool.kernel.schema import compile_schema, path_text, schema_issues


def obj(required: tuple[str, ...] = (), closed: bool = False, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return schema | ({"additionalProperties": False} if closed else {})


INT, STR, NULL, LIST = {"type": "integer"}, {"type": "string"}, {"type": "null"}, {"type": "array"}
KIND_A = obj(kind={"const": "a"}, size=INT, required=("size",))
KIND_B = obj(kind={"const": "b"}, name=STR, required=("name",))

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "fits": (obj(x=INT), {"x": 1}, []),
    "no schema at all": ({}, {"x": 1}, []),
    "open by default": (obj(x=INT), {"y": 1}, []),
    "type": (obj(x=STR), {"x": 3}, ["$.x: expected string, got integer"]),
    "3.0 is an integer": (obj(x=INT), {"x": 3.0}, []),
    "3.5 is not": (obj(x=INT), {"x": 3.5}, ["$.x: expected integer, got number"]),
    "an integer is a number": (obj(x={"type": "number"}), {"x": 3}, []),
    "no coercion": (obj(x=INT), {"x": "3"}, ["$.x: expected integer, got string"]),
    "true is no integer": (obj(x=INT), {"x": True}, ["$.x: expected integer, got boolean"]),
    "1 is no boolean": (obj(x={"type": "boolean"}), {"x": 1}, ["$.x: expected boolean, got integer"]),
    "null": (obj(x=INT), {"x": None}, ["$.x: expected integer, got null"]),
    "several types, null last": (
        obj(x={"type": ["null", "string", "integer"]}),
        {"x": []},
        ["$.x: expected integer or string or null, got array"],
    ),
    "big integer": (obj(x=INT), {"x": 2**80}, []),
    "missing": (obj(path=STR, required=("path",)), {}, ["$.path: missing"]),
    "unknown": (obj(closed=True), {"z": 1, "a b": 2}, ["$.z: unknown", '$["a b"]: unknown']),
    "forbidden property": (obj(z=False), {"z": 1}, ["$.z: unknown"]),
    "enum": (obj(m={"enum": ["a", "b"]}), {"m": "c"}, ['$.m: not one of "a", "b"']),
    "enum of other types": (obj(m={"enum": [1, None]}), {"m": 2}, ["$.m: not one of 1, null"]),
    "constant": (obj(m={"const": "a"}), {"m": "b"}, ['$.m: not one of "a"']),
    "minimum": (obj(n={"minimum": 3}), {"n": 1}, ["$.n: value is less than the minimum of 3"]),
    "the value is not repeated": (
        obj(s={"maxLength": 3}),
        {"s": "x" * 10_000},
        ["$.s: value is longer than 3 characters"],
    ),
    "nested": (
        obj(a={"type": "array", "items": obj(n=INT)}),
        {"a": [{"n": 1}, {"n": "x"}]},
        ["$.a[1].n: expected integer, got string"],
    ),
    "nothing is checked below a wrong type": (
        obj(n={"type": "integer", "minimum": 3, "enum": [4]}),
        {"n": 1.5},
        ["$.n: expected integer, got number"],
    ),
    "encoded array": (
        obj(a=LIST),
        {"a": ' ["x"] '},
        ["$.a: expected array, got string (it looks like a JSON-encoded array: send the array itself)"],
    ),
    "encoded object": (
        obj(a={"type": "object"}),
        {"a": '{"x": 1}'},
        ["$.a: expected object, got string (it looks like a JSON-encoded object: send the object itself)"],
    ),
    "no hint for other text": (obj(a=LIST), {"a": "[x"}, ["$.a: expected array, got string"]),
    "the order": (
        obj(t=STR, s=STR, v={"minimum": 3}, o=obj(q=INT, required=("q",)), required=("p",), closed=True),
        {"t": 1, "s": 1, "v": 1, "z": 1, "o": {}},
        [
            "$.o.q: missing",
            "$.p: missing",
            "$.s: expected string, got integer",
            "$.t: expected string, got integer",
            "$.v: value is less than the minimum of 3",
            "$.z: unknown",
        ],
    ),
    "union of types": (
        obj(a={"anyOf": [STR, NULL]}),
        {"a": 4},
        ["$.a: expected string or null, got integer"],
    ),
    "union: the branch whose type fits": (
        obj(a={"anyOf": [obj(k=INT), NULL]}),
        {"a": {"k": "x"}},
        ["$.a.k: expected integer, got string"],
    ),
    "union: the branch whose tag fits": (
        obj(a={"oneOf": [KIND_A, KIND_B]}),
        {"a": {"kind": "b"}},
        ["$.a.name: missing"],
    ),
    "union: no tag fits": (
        obj(a={"oneOf": [obj(kind={"const": "a"}), obj(kind={"const": "b"})]}),
        {"a": {"kind": "c"}},
        ['$.a.kind: not one of "a", "b"'],
    ),
    "union: no details that contradict": (
        obj(a={"anyOf": [obj(x=INT, required=("x",)), obj(y=INT, required=("y",))]}),
        {"a": {}},
        ["$.a: fits none of the allowed forms"],
    ),
    "reference inside the schema": (
        obj(a={"$ref": "#/$defs/N"}) | {"$defs": {"N": INT}},
        {"a": "x"},
        ["$.a: expected integer, got string"],
    ),
    "many problems": (
        obj(closed=True),
        {f"k{n:02}": 1 for n in range(25)},
        [f"$.k{n:02}: unknown" for n in range(20)] + ["$: and 5 more"],
    ),
    "a long key": (obj(closed=True), {"k" * 9_000: 1}, [f"$.{'k' * 288}…: unknown"]),
    "a long enum": (
        obj(m={"enum": list(range(50))}),
        {"m": 99},
        [f"$.m: not one of {', '.join(map(str, range(20)))}, …"],
    ),
}


@pytest.mark.parametrize(("schema", "args", "lines"), CASES.values(), ids=CASES)
def test_what_is_told(schema: dict[str, Any], args: dict[str, Any], lines: list[str]) -> None:
    issues = schema_issues(compile_schema(schema, "t"), args)
    assert [issue.text for issue in issues] == lines
    assert all(len(line) <= 300 for line in lines)


ISSUES: dict[str, tuple[dict[str, Any], dict[str, Any], ValidationIssue]] = {
    "missing": (
        obj(path=STR, required=("path",)),
        {},
        ValidationIssue(kind="missing", path="$.path", message="missing"),
    ),
    "type": (
        obj(x={"type": ["null", "string", "integer"]}),
        {"x": []},
        ValidationIssue(
            kind="type",
            path="$.x",
            message="expected integer or string or null, got array",
            expected=("integer", "string", "null"),
            received="array",
        ),
    ),
    "type, with a hint": (
        obj(a=LIST),
        {"a": "[1]"},
        ValidationIssue(
            kind="type",
            path="$.a",
            message="expected array, got string",
            expected=("array",),
            received="string",
            hint="it looks like a JSON-encoded array: send the array itself",
        ),
    ),
    "one of some values": (
        obj(m={"enum": ["a", 1, None]}),
        {"m": "c"},
        ValidationIssue(
            kind="value", path="$.m", message='not one of "a", 1, null', expected=('"a"', "1", "null")
        ),
    ),
    "another value": (
        obj(n={"minimum": 3}),
        {"n": 1},
        ValidationIssue(kind="value", path="$.n", message="value is less than the minimum of 3"),
    ),
    "unknown": (
        obj(closed=True),
        {"a b": 2},
        ValidationIssue(kind="unknown", path='$["a b"]', message="unknown"),
    ),
}


@pytest.mark.parametrize(("schema", "args", "issue"), ISSUES.values(), ids=ISSUES)
def test_issues_are_data(schema: dict[str, Any], args: dict[str, Any], issue: ValidationIssue) -> None:
    assert schema_issues(compile_schema(schema, "t"), args) == (issue,)


def test_at_most_twenty_issues_and_a_count() -> None:
    issues = schema_issues(compile_schema(obj(closed=True), "t"), {f"k{n:02}": 1 for n in range(25)})
    assert [issue.path for issue in issues[:-1]] == [f"$.k{n:02}" for n in range(20)]
    assert issues[-1] == ValidationIssue(kind="value", path="$", message="and 5 more")


def test_a_long_place_leaves_room_for_what_is_wrong() -> None:
    key = "k" * 9_000
    schema = obj() | {"properties": {key: LIST, "m": {"enum": ["v" * 9_000]}}}
    wrong_type, wrong_value = schema_issues(compile_schema(schema, "t"), {key: "[]", "m": 1})
    assert wrong_type.text.endswith(
        "…: expected array, got string (it looks like a JSON-encoded array: send the array itself)"
    )
    assert wrong_value.text.startswith('$.m: not one of "vvv')
    assert (len(wrong_type.text), len(wrong_value.text), len(wrong_value.expected[0])) == (300, 300, 300)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "must have type 'object'"),
        ({"properties": {}}, "must have type 'object'"),
        (obj(x={"type": "objct"}), "$.properties.x.type"),
        (obj(x={"pattern": "("}), "not a valid JSON Schema"),
        (obj(x={"$ref": "#/$defs/none"}), "not a valid JSON Schema"),
        (obj(x={"$ref": "https://example.invalid/x"}), "references outside the schema are not followed"),
        (obj(x={"$ref": "file:///etc/passwd"}), "references outside the schema are not followed"),
        ({"type": "object", "required": "x"}, "not a valid JSON Schema"),
        ({"type": "object", "$schema": "urn:what"}, "not a valid JSON Schema"),
    ],
)
def test_a_schema_that_cannot_be_used(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolDefinitionError, match="tool='lookup'") as caught:
        compile_schema(schema, "lookup")
    assert words in str(caught.value)


def test_paths() -> None:
    assert path_text(("a", 0, "b-c", "d e", 'f"')) == '$.a[0].b-c["d e"]["f\\""]'


def test_deeply_nested_arguments() -> None:
    args: dict[str, Any] = {}
    for _ in range(900):
        args = {"a": args}
    assert schema_issues(compile_schema(obj(a={"$ref": "#"}), "t"), args) == ()


def test_importing_loads_neither_validator() -> None:
    code = """if True:
        import sys, unspool.kernel.schema, unspool.kernel.function_tool, unspool.kernel.type_schema
        print([name for name in ("jsonschema_rs", "pydantic") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
