"""Schemas as Gemini's ``parameters`` and ``responseSchema`` take them: a subset of OpenAPI 3.0.

The newer fields ``parametersJsonSchema`` and ``responseJsonSchema`` take JSON Schema and need none of this. What
the subset cannot say, and what becomes of it:

- null is not a type beside others: ``nullable``;
- ``anyOf`` stands alone, so what is said beside it goes into each branch; ``oneOf`` is read as ``anyOf``;
- values of ``enum`` are strings that are not empty; others are told in the description;
- ``properties`` are never none: an object without any does not mention them;
- an array has ``items``, tuples have those of all their places;
- a value of any type is a string, a number, a boolean or an object;
- the parameters are one object: of a union of objects, all properties, and required what all require.

Everything else is left out. Read with: ``schemas.py``, ``gemini_request.py`` (the caller).
"""

from collections.abc import Mapping
from typing import Any, Final

from unspool.kernel.json_edge import encode_text

from .schemas import Schema, branches_of, merged, one_object, plain_schema, types_of

_KEPT: Final = frozenset(
    {"title", "description", "nullable", "default", "minimum", "maximum", "minItems", "maxItems", "pattern"}
    | {"minLength", "maxLength", "minProperties", "maxProperties", "propertyOrdering"}
)
_FORMATS: Final = frozenset({"date-time", "float", "double", "int32", "int64"})  # others are refused
_ANY: Final[tuple[Schema, ...]] = tuple({"type": kind} for kind in ("string", "number", "boolean", "object"))


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """``schema`` in Gemini's subset, on a copy.

    >>> gemini_schema({"type": ["string", "null"], "const": "a", "not": {}})
    {'type': 'string', 'enum': ['a'], 'nullable': True}
    """
    return _subset(plain_schema(schema))


def gemini_parameters(schema: Mapping[str, Any]) -> Schema:
    """The same for the parameters of a function, which are an object whatever else the schema says."""
    return {"properties": {}, **_subset(one_object(plain_schema(schema)))}


def _subset(node: Mapping[str, Any]) -> Schema:
    kinds = types_of(node)
    if branches := branches_of(node):
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
        return _union([merged(branch, rest) for branch in branches])
    if not kinds:
        return _union([merged(node, each) for each in _ANY])
    if len(kinds) > 1:
        return _union([{**node, "type": kind} for kind in kinds])
    said = {key: value for key, value in node.items() if key in _KEPT}
    return {"type": kinds[0], **said, **_of_type(kinds[0], node)}


def _union(branches: list[Schema]) -> Schema:
    """One of several; null among them makes the others nullable."""
    some = [branch for branch in branches if types_of(branch) != ["null"] or branches_of(branch)]
    if not some:
        return {"type": "null"}
    extra: Schema = {"nullable": True} if len(some) < len(branches) else {}
    subsets: list[Schema] = []
    for branch in some:
        subset = _subset(branch)
        subsets += [each | extra for each in subset.get("anyOf", [subset])]
    return subsets[0] if len(subsets) == 1 else {"anyOf": subsets}


def _of_type(kind: str, node: Mapping[str, Any]) -> Schema:
    kept: Schema = {}
    if node.get("format") in _FORMATS:
        kept["format"] = node["format"]
    if values := node.get("enum"):
        fitting = [value for value in values if value is not None]
        if kind == "string":
            if some := [value for value in fitting if isinstance(value, str) and value]:
                kept["enum"] = some
            kept |= _described(node, "May be empty.") if "" in fitting else {}
        else:
            kept |= _described(node, f"One of: {', '.join(map(encode_text, fitting))}.")
    if kind == "array":
        kept["items"] = _items(node)
    if kind == "object" and (properties := node.get("properties")):
        kept["properties"] = {name: _subset(each) for name, each in properties.items()}
        if required := [name for name in node.get("required", ()) if name in properties]:
            kept["required"] = required
    return kept


def _described(node: Mapping[str, Any], said: str) -> Schema:
    return {"description": f"{node['description']} {said}" if node.get("description") else said}


def _items(node: Mapping[str, Any]) -> Schema:
    items = node.get("items")
    places = [*node.get("prefixItems", ()), *(items if isinstance(items, list) else ())]
    if places:
        return _union(places)
    return _subset(items if isinstance(items, Mapping) else {})
