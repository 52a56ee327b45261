"""JSON Schemas in the closed forms of strict modes, where a grammar keeps the model to the schema; on copies.

Both forms know objects of named properties only, and no references, tuples or conditions. Beyond that:

====================  ==========================================  ===========================================
what                  ``strict_schema`` (OpenAI)                  ``closed_schema`` (Anthropic)
====================  ==========================================  ===========================================
optional properties   required; they come as null, which they     stay optional
                      have to take
limits of values      most are kept, others told in the           told in the description
                      description
null beside a type    a list of types                             ``anyOf``
====================  ==========================================  ===========================================

A schema that cannot be said in a form has none: its tool is sent as an ordinary one.

Read with: ``schemas.py``, the ``*_request.py`` files (the callers), ``tests/llm/test_schemas.py`` (the tables).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from unspool.kernel.json_edge import encode_text, json_type

from .schemas import Schema, branches_of, inlined, merged, types_of

_NEVER: Final = frozenset(
    {"patternProperties", "prefixItems", "not", "if", "then", "else", "contains", "propertyNames"}
    | {"dependentSchemas", "dependentRequired", "unevaluatedProperties"}
)
_SAID: Final = frozenset({"type", "title", "description", "enum"})
_SOME_LIMITS: Final = frozenset(
    {"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minItems", "maxItems"}
)
_LIMITS: Final = _SOME_LIMITS | {"format", "minLength", "maxLength", "uniqueItems"}
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


_MAX_DEPTH: Final = 128  # of a schema as it stands


class _Rules(NamedTuple):
    """Where the forms differ."""

    kept: frozenset[str]
    formats: frozenset[str]
    optional: bool  # whether a property may stay optional
    lists: bool  # whether a type may be a list of types


_OPENAI: Final = _Rules(_SAID | _SOME_LIMITS, _FORMATS, optional=False, lists=True)
_ANTHROPIC: Final = _Rules(_SAID, _FORMATS | {"uri"}, optional=True, lists=False)


class _NoFormError(Exception):
    """A schema has no closed form."""


def strict_schema(schema: Mapping[str, Any]) -> Schema | None:
    """``schema`` as OpenAI's strict mode wants it; None where it cannot be said that way.

    One that recurs is taken as it is if it is strict already.
    """
    plain, lossy = inlined(schema)
    if lossy:
        return dict(schema) if _is_strict(schema) else None
    if branches_of(plain) or plain.get("type", "object") != "object":
        return None
    return _closed_root(plain, _OPENAI)


def closed_schema(schema: Mapping[str, Any]) -> Schema | None:
    """``schema`` as Anthropic's strict tools and output formats want it; None where it cannot be said that way."""
    plain, lossy = inlined(schema)
    return None if lossy else _closed_root(plain, _ANTHROPIC)


def _closed_root(plain: Schema, rules: _Rules) -> Schema | None:
    if not branches_of(plain) and plain.get("type", "object") == "object":
        plain = {**plain, "type": "object"}
        if not plain.get("properties") and plain.get("additionalProperties", False) is False:  # no parameters
            plain = {**plain, "properties": {}, "additionalProperties": False}
    try:
        return _closed(plain, rules)
    except _NoFormError:
        return None


def _closed(node: Mapping[str, Any], rules: _Rules) -> Schema:
    if not _NEVER.isdisjoint(node):
        raise _NoFormError
    kinds = types_of(node)
    if branches := branches_of(node):
        return _closed_union(node, branches, rules)
    if not kinds:
        raise _NoFormError
    if len(kinds) > 1 and not rules.lists:
        return _closed_union(node, [{"type": kind} for kind in kinds], rules)
    closed = {key: value for key, value in node.items() if key in rules.kept}
    closed.setdefault("type", kinds if len(kinds) > 1 else kinds[0])
    if told := _told(node, rules):
        closed["description"] = f"{node['description']} ({told})" if node.get("description") else told
    if node.get("format") in rules.formats:
        closed["format"] = node["format"]
    if "object" in kinds:
        closed |= _closed_object(node, rules)
    if "array" in kinds:
        if not isinstance(items := node.get("items"), Mapping):
            raise _NoFormError
        closed["items"] = _closed(items, rules)
    return closed


def _told(node: Mapping[str, Any], rules: _Rules) -> str:
    """The limits that a form does not know, in words."""
    told = [key for key in node if key in _LIMITS and key not in rules.kept]
    if node.get("format") in rules.formats:
        told.remove("format")
    return ", ".join([f"{key}: {encode_text(node[key])}" for key in told])


def _closed_union(node: Mapping[str, Any], branches: list[Schema], rules: _Rules) -> Schema:
    said = {key: node[key] for key in ("title", "description") if key in node}
    rest = {key: value for key, value in node.items() if key not in (*said, "anyOf", "oneOf", "default")}
    if not branches_of(node):
        rest.pop("type", None)
    return {**said, "anyOf": [_closed(_fitting(merged(branch, rest)), rules) for branch in branches]}


def _fitting(branch: Schema) -> Schema:
    """A branch of one type without the values that belong to others."""
    match branch:
        case {"type": str(kind), "enum": list(values)}:
            kinds = (kind, "integer") if kind == "number" else (kind,)
            rest = {key: value for key, value in branch.items() if key != "enum"}
            own = [value for value in values if json_type(value) in kinds]
            return {**rest, "enum": own} if own and kind != "null" else rest
        case _:
            return branch


def _closed_object(node: Mapping[str, Any], rules: _Rules) -> Schema:
    properties, required = node.get("properties", {}), node.get("required", ())
    if node.get("additionalProperties", not properties) is not False:  # other keys are welcome
        raise _NoFormError
    optional = [name for name in properties if name not in required]
    if not rules.optional and not all(_takes_null(properties[name]) for name in optional):
        raise _NoFormError
    closed = {name: _closed(each, rules) for name, each in properties.items()}
    needed = [name for name in closed if not rules.optional or name not in optional]
    return {"properties": closed, "required": needed, "additionalProperties": False}


def _takes_null(node: Mapping[str, Any]) -> bool:
    if branches := branches_of(node):
        return any(map(_takes_null, branches))
    return "null" in types_of(node)


def _is_strict(node: Any, depth: int = 0) -> bool:
    """Whether all objects in a schema are closed and all their properties required, wherever they stand."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, list):
        return all(_is_strict(each, depth + 1) for each in node)
    if not isinstance(node, Mapping):
        return True
    names, needed = node.get("properties"), node.get("required")
    if isinstance(names, Mapping) or node.get("type") == "object":
        listed = [each for each in needed if isinstance(each, str)] if isinstance(needed, list) else []
        if node.get("additionalProperties") is not False or not set(names or ()) <= set(listed):
            return False
    return all(_is_strict(each, depth + 1) for each in node.values())
