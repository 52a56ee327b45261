"""JSON Schemas of Python types, as tools show them: made by pydantic, without a title for each field.

pydantic is loaded with the first schema, never by an import of unspool.

Read with: ``tool_definition.py`` (the other caller), ``tests/kernel/test_schema_for.py``.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from .errors import ToolDefinitionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_DEFS = "#/$defs/"


def schema_for(type_or_model: object, /) -> dict[str, Any]:
    """The JSON Schema that a tool's argument of this type has.

    Raises:
        ToolDefinitionError: the type has no JSON form.
    """
    with no_json_form(
        "schema: the type has no JSON form; use JSON types, pydantic models or dataclasses",
        type=_name(type_or_model),
    ):
        schema = arguments_schema(arguments_adapter({"x": type_or_model}))
    return _inlined(schema["properties"]["x"], schema.get("$defs", {}))


def as_tool_schema(type_or_model: object, /) -> dict[str, Any]:
    """The JSON Schema of a type whose values are objects, as ``raw_tool`` takes it.

    For a pydantic model, a dataclass or a TypedDict.

    Raises:
        ToolDefinitionError: the values are not objects, or the type has no JSON form.
    """
    schema = schema_for(type_or_model)
    if schema.get("type") != "object":
        raise ToolDefinitionError(
            "schema: the arguments of a tool are an object; use a pydantic model, a dataclass or a TypedDict",
            type=_name(type_or_model),
        )
    return schema


def arguments_adapter(fields: Mapping[str, Any]) -> "TypeAdapter[dict[str, Any]]":
    """What decodes named arguments of these types, strictly and no others, and knows their schema."""
    import pydantic  # noqa: PLC0415  # 50 ms and more that an import of unspool must not cost
    from typing_extensions import TypedDict  # noqa: PLC0415  # comes with pydantic

    arguments = cast(Any, TypedDict)("Arguments", dict(fields))
    arguments.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
    return pydantic.TypeAdapter(arguments)


def arguments_schema(adapter: "TypeAdapter[dict[str, Any]]") -> dict[str, Any]:
    """The JSON Schema of the arguments that ``adapter`` decodes."""
    schema = adapter.json_schema(schema_generator=_untitled())
    schema.pop("title", None)
    return schema


@contextlib.contextmanager
def no_json_form(text: str, **details: Any) -> Iterator[None]:
    """Tell what pydantic cannot make a schema of as a ``ToolDefinitionError``, with its reason."""
    from pydantic.errors import PydanticUserError  # noqa: PLC0415  # as above

    try:
        yield
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ToolDefinitionError(text, **details, reason=reason) from error


@functools.cache
def _untitled() -> Any:
    """pydantic's schema generator without a title for each field: it repeats the name, in tokens."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415  # as above

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _inlined(shown: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """``shown`` as a schema of its own: a reference becomes what it names, so that there is a type."""
    name = shown.get("$ref", "").removeprefix(_DEFS)
    if name:
        rest = {key: value for key, value in shown.items() if key != "$ref"}
        shown = {key: value for key, value in defs[name].items() if key != "title"} | rest
        if f'"{_DEFS}{name}"'.encode() not in msgspec.json.encode([shown, defs]):
            defs = {key: value for key, value in defs.items() if key != name}
    return shown | ({"$defs": defs} if defs else {})


def _name(type_or_model: object) -> str:
    return type_or_model.__name__ if isinstance(type_or_model, type) else repr(type_or_model)
