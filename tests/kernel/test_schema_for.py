"""Types as JSON Schemas: what a tool's argument of a type shows, and schemas for ``raw_tool``."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.function_tool import raw_tool, tool
from unspool.kernel.type_schema import as_tool_schema, schema_for


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """A thing in a shop."""

    name: str
    count: int = Field(1, ge=1, description="how many")


class Basket(BaseModel):
    items: list[Item]


class Node(BaseModel):
    value: int
    next: Node | None = None


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    deep: bool


class Opaque: ...


class Record(msgspec.Struct):
    x: int


ITEM = {
    "type": "object",
    "description": "A thing in a shop.",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 1, "minimum": 1, "description": "how many"},
    },
    "required": ["name"],
}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
    "required": ["x"],
    "additionalProperties": False,  # as everything in the arguments of a tool that does not say otherwise
}

OBJECTS: dict[str, tuple[object, dict[str, Any]]] = {
    "a model": (Item, ITEM),
    "a dataclass": (Point, POINT),
    "a TypedDict": (
        Options,
        {"type": "object", "properties": {"deep": {"type": "boolean"}}, "additionalProperties": False},
    ),
    "a mapping": (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    "a model in a model": (
        Basket,
        {
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
            "required": ["items"],
            "$defs": {"Item": {"title": "Item", **ITEM}},
        },
    ),
    "described": (Annotated[Point, Field(description="where")], {**POINT, "description": "where"}),
}

OTHERS: dict[str, tuple[object, dict[str, Any]]] = {
    "a number": (int, {"type": "integer"}),
    "a constrained number": (Annotated[int, Field(ge=3)], {"type": "integer", "minimum": 3}),
    "a literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "an enum": (Color, {"type": "string", "enum": ["red", "blue"]}),
    "an option": (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "anything": (Any, {}),
    "a list of models": (
        list[Item],
        {"type": "array", "items": {"$ref": "#/$defs/Item"}, "$defs": {"Item": {"title": "Item", **ITEM}}},
    ),
}


@pytest.mark.parametrize(("type_", "schema"), (OBJECTS | OTHERS).values(), ids=OBJECTS | OTHERS)
def test_schema_for(type_: object, schema: dict[str, Any]) -> None:
    assert schema_for(type_) == schema


def test_a_tool_shows_the_same() -> None:
    @tool
    def fn(x: int | str, point: Point) -> None: ...

    shown = fn.spec.schema
    assert shown["properties"]["x"] == schema_for(int | str)
    assert shown["$defs"]["Point"] == {"title": "Point", **schema_for(Point)}


@pytest.mark.parametrize(("type_", "schema"), OBJECTS.values(), ids=OBJECTS)
def test_objects_are_schemas_of_raw_tools(type_: object, schema: dict[str, Any]) -> None:
    assert as_tool_schema(type_) == schema
    assert raw_tool("t", "", as_tool_schema(type_), lambda args, ctx: None).spec.schema == schema


def test_a_model_that_holds_itself() -> None:
    schema = as_tool_schema(Node)
    assert (schema["type"], list(schema["$defs"])) == ("object", ["Node"])

    made = raw_tool("t", "", schema, lambda args, ctx: None)
    issues = made.check_arguments({"value": 1, "next": {"value": "x"}})
    assert [issue.text for issue in issues] == ["$.next.value: expected integer, got string"]


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (int, "int"),
        (list[int], "list[int]"),
        (Any, "Any"),
        (str | None, "str | None"),
        (Color, "Color"),
    ],
)
def test_the_arguments_of_a_tool_are_an_object(type_: object, name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="the arguments of a tool are an object") as caught:
        as_tool_schema(type_)
    assert caught.value.details == {"type": name}


@pytest.mark.parametrize("type_", [Opaque, Record])
@pytest.mark.parametrize("make", [schema_for, as_tool_schema])
def test_types_without_a_json_form(make: Any, type_: type) -> None:
    with pytest.raises(ToolDefinitionError, match="the type has no JSON form") as caught:
        make(type_)
    assert caught.value.details["type"] == type_.__name__
