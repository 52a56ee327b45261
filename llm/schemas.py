"""JSON Schemas of tools and answers in the forms that providers take; always on copies.

The schema of a tool stays what arguments are checked by. What is sent may say less than it: ``plain_schema`` is
without references, ``allOf`` and ``const``, which many providers do not know.

References are inlined where they lead into the schema itself. One to what is being inlined already is cut: it
becomes an object (or whatever type is named there) of which nothing more is said. One that leads nowhere or out
of the schema says nothing about the value; nothing is ever fetched.

Read with: ``closed_schemas.py`` (strict modes), ``gemini_schema.py`` (Gemini's subset),
``tests/llm/test_schemas.py`` (the tables).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from unspool.kernel.json_edge import json_type

Schema: TypeAlias = dict[str, Any]

_MAX_DEPTH: Final = 64  # levels of a schema; deeper ones say nothing more
_MAX_NODES: Final = 5_000  # of an inlined schema: references to references grow without limit
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_TEXTS: Final = frozenset({"type", "title", "description", "format", "pattern"})
_HEADS: Final = frozenset({"$defs", "definitions", "$schema", "$id", "$anchor", "$comment"})


def plain_schema(schema: Mapping[str, Any]) -> Schema:
    """``schema`` with references inlined, ``allOf`` merged and ``const`` as ``enum``.

    >>> plain_schema({"$defs": {"K": {"const": 1}}, "properties": {"k": {"$ref": "#/$defs/K", "title": "k"}}})
    {'properties': {'k': {'enum': [1], 'title': 'k'}}}
    """
    return inlined(schema).schema


class Inlined(NamedTuple):
    """A plain schema, and whether a reference in it had to be cut or led nowhere."""

    schema: Schema
    lossy: bool


def inlined(schema: Mapping[str, Any]) -> Inlined:
    """``plain_schema`` for who must know whether all of ``schema`` is in it."""
    inliner = _Inliner(schema)
    return Inlined(inliner.plain(schema), inliner.lossy)


class _Inliner:
    """Makes one schema plain; ``lossy`` says whether a reference had to be cut or led nowhere."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._open: list[str] = ["#"]  # what is being inlined, outermost first
        self._nodes = 0
        self._depth = 0
        self.lossy = False

    def plain(self, node: Any) -> Schema:
        if not isinstance(node, Mapping):  # true, false, or a mistake
            return {}
        self._nodes += 1
        if self._nodes > _MAX_NODES or self._depth >= _MAX_DEPTH:
            self.lossy = True
            return _generic(node)
        self._depth += 1
        try:
            return self._plain(node)
        finally:
            self._depth -= 1

    def _plain(self, node: Mapping[str, Any]) -> Schema:
        own = {key: self._value(key, value) for key, value in node.items() if _is_sound(key, value)}
        reference, parts = own.pop("$ref", None), own.pop("allOf", None)
        if "const" in own:
            own["enum"] = [own.pop("const")]
        if isinstance(reference, str):
            own = merged(own, self._target(reference))
        for part in parts or ():
            own = merged(own, self.plain(part))
        return own

    def _value(self, key: str, value: Any) -> Any:
        if key in _MAPS:
            return {name: self.plain(each) for name, each in value.items()}
        if key in _LISTS or (key == "items" and isinstance(value, list)):
            return [self.plain(each) for each in value]
        return self.plain(value) if key in _SINGLE and isinstance(value, Mapping) else value

    def _target(self, reference: str) -> Schema:
        target = _resolve(self._root, reference)
        if target is None:
            self.lossy = True
            return {}
        if reference in self._open:
            self.lossy = True
            return _generic(target)
        self._open.append(reference)
        try:
            return self.plain(target)
        finally:
            self._open.pop()


def _is_sound(key: str, value: Any) -> bool:
    """Whether a keyword stays: no head of a schema, and of the right shape where we look into it."""
    if key in _HEADS:
        return False
    if key in _MAPS:
        return isinstance(value, Mapping)
    if key in _LISTS or key in ("enum", "allOf"):
        return isinstance(value, list) and bool(value)
    if key == "required" or (key == "type" and value and not isinstance(value, str)):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return key not in _TEXTS or isinstance(value, str)


def _resolve(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | None:
    """What a reference into the schema itself leads to; None where that is nothing."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    node: Any = root
    for token in unquote(reference[1:]).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name[:6]) < len(node):
            node = node[int(name[:6])]
        else:
            return None
    return node if isinstance(node, Mapping) else None


def _generic(target: Mapping[str, Any]) -> Schema:
    """What is left of a schema that is cut."""
    kind = target.get("type")
    cut: Schema = {"type": kind if isinstance(kind, str) else "object"}
    if isinstance(said := target.get("description"), str):
        cut["description"] = said
    return cut


def merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> Schema:
    """What fits both plain schemas; where they cannot be combined, what ``a`` says."""
    result = {**b, **a}
    for key in a.keys() & b.keys():
        if combine := _COMBINED.get(key):
            result[key] = combine(a[key], b[key])
    return result


def _both_values(a: Any, b: Any) -> Any:
    """Values that are in both; those of ``a`` where none is."""
    return [value for value in a if value in b] or a


def _both_types(a: Any, b: Any) -> Any:
    first, second = (value if isinstance(value, list) else [value] for value in (a, b))
    common = _both_values(first, second)
    return common[0] if len(common) == 1 else common


def _all_properties(a: Any, b: Any) -> Any:
    shared = {name: merged(a[name], b[name]) for name in a if name in b}
    return {**a, **b, **shared}


def _union(a: Any, b: Any) -> Any:
    return list(dict.fromkeys([*a, *b]))


_COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "type": _both_types,
    "enum": _both_values,
    "properties": _all_properties,
    "required": _union,
    "items": lambda a, b: merged(a, b) if isinstance(a, Mapping) and isinstance(b, Mapping) else a,
    "additionalProperties": lambda a, b: False if b is False else a,
}


def branches_of(node: Mapping[str, Any]) -> list[Schema]:
    """What a plain schema is one of; empty where it is no union."""
    branches: list[Schema] = node.get("anyOf") or node.get("oneOf") or []
    return branches


def one_object(plain: Schema) -> Schema:
    """A plain schema as one of an object, for arguments: of a union of objects, all properties, and required what
    all of them require.

    >>> union = [{"properties": {"a": {}, "b": {}}, "required": ["a"]}, {"properties": {"a": {}}, "required": ["a"]}]
    >>> one_object({"anyOf": union})
    {'properties': {'a': {}, 'b': {}}, 'required': ['a'], 'type': 'object'}
    """
    branches = [each for each in branches_of(plain) if "properties" in each]
    rest = {key: value for key, value in plain.items() if key not in ("anyOf", "oneOf")}
    if branches:
        common = set.intersection(*(set(branch.get("required", ())) for branch in branches))
        found: Schema = {}
        for branch in branches:
            found = merged(found, {"properties": branch["properties"]})
        rest = merged(rest, {**found, "required": [name for name in found["properties"] if name in common]})
    return {"properties": {}, **rest, "type": "object"}


def types_of(node: Mapping[str, Any]) -> list[str]:
    """The JSON types a plain schema names, or shows by what it says; empty where it does neither."""
    kind = node.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [each for each in kind if isinstance(each, str)]
    if "properties" in node:
        return ["object"]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    return list(dict.fromkeys(map(json_type, node.get("enum", ()))))
