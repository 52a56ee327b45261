"""Differences between a recorded body and ours that mean nothing, each by a name.

A class is a function that brings both bodies, which are its own copies, into one form as far as one kind of
difference goes. It has explained something where fewer differences are left than before.

Read with: ``roundtrip.py`` (the runner), the ``roundtrip_*.py`` of the formats (more classes), ``docs/conformance.md``.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from unspool.kernel.ports import LEVELS, ThinkingLevel

from .json_compare import differences

Body: TypeAlias = dict[str, Any]
Class: TypeAlias = Callable[[Body, Body], None]
"""Takes the recorded body and ours, and changes them in place; its name is what the class is called."""


def explained(recorded: Body, ours: Body, classes: Sequence[Class]) -> tuple[list[str], list[str]]:
    """The names of the classes that explain differences, and the differences that are left."""
    recorded, ours = copy.deepcopy(recorded), copy.deepcopy(ours)
    names: list[str] = []
    left = list(differences(recorded, ours))
    for each in classes:
        if not left:
            break
        each(recorded, ours)
        now = list(differences(recorded, ours))
        if now != left:
            names.append(each.__name__)
        left = now
    return names, left


def objects(value: Any) -> Iterator[Body]:
    """All objects in a value, the outer ones first."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for each in list(value.values() if isinstance(value, dict) else value):
            yield from objects(each)


def null_is_absent(recorded: Body, ours: Body) -> None:
    """A field that is null says what one that is not there says."""
    for each in [*objects(recorded), *objects(ours)]:
        for key in [key for key, value in each.items() if value is None]:
            del each[key]


def false_stream(recorded: Body, ours: Body) -> None:
    """Not to stream is what a server does by itself."""
    for body in (recorded, ours):
        if body.get("stream") is False:
            del body["stream"]


def empty_is_absent(recorded: Body, ours: Body) -> None:
    """A description, instructions or a list of tools that is empty says nothing."""
    for body in (recorded, ours):
        for key in ("tools", "include", "instructions"):
            if body.get(key) in ("", []):
                del body[key]
        for tool in body.get("tools") or ():
            for each in [tool, tool.get("function") or {}, *(tool.get("functionDeclarations") or ())]:
                if each.get("description") == "":
                    del each["description"]


def order_of_tools(recorded: Body, ours: Body) -> None:
    """Tools of ours come first, then those that ``extra`` adds."""
    for body in (recorded, ours):
        if "tools" in body:
            body["tools"] = sorted(body["tools"], key=_name)


def deferred_tools_in_full(recorded: Body, ours: Body) -> None:
    """Finding tools is left to the server in the recording; by us they are deferred until a result refers to them."""
    for theirs, tool in zip(recorded.get("tools") or (), ours.get("tools") or (), strict=False):
        if "defer_loading" not in tool:
            theirs.pop("defer_loading", None)


def schema_in_closed_form(recorded: Body, ours: Body) -> None:
    """A strict schema goes without references, and limits that strict mode does not know are told in words."""
    for theirs, our in zip(_strict(recorded), _strict(ours), strict=False):
        for key in {"schema", "parameters", "input_schema"} & theirs.keys() & our.keys():
            schema = theirs[key]
            theirs[key], our[key] = _inlined(schema, schema.get("$defs", {})), _inlined(our[key], {})
            _take_back(theirs[key], our[key])


def _strict(body: Body) -> list[Body]:
    """What holds a strict schema; an output format of Anthropic's is always one."""
    output = (body.get("output_config") or {}).get("format") or {}
    return [each for each in objects(body) if each.get("strict") is True or each is output]


def _inlined(node: Any, known: Body) -> Any:
    if isinstance(node, list):
        return [_inlined(each, known) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(known[node["$ref"].rpartition("/")[2]], known)
    found = {key: _inlined(value, known) for key, value in node.items() if key not in ("$defs", "$schema")}
    if isinstance(found.get("required"), list):
        found["required"] = sorted(found["required"])
    return found


def _take_back(theirs: Any, our: Any) -> None:
    """Out of our descriptions what their schema says in fields."""
    if not (isinstance(theirs, dict) and isinstance(our, dict)):
        return
    said = our.get("description", "")
    for key in theirs.keys() - our.keys():
        if isinstance(said, str) and f"{key}: {json.dumps(theirs[key])}" in said:
            del theirs[key]
            our["description"] = theirs.get("description")
    if our.get("description", "") is None:
        del our["description"]
    for key in theirs.keys() & our.keys():
        _take_back(theirs[key], our[key])


def _name(tool: Body) -> str:
    return str(tool.get("name") or tool.get("type") or sorted(tool))


def added(key: str, name: str) -> Class:
    """A class: a field of the body that we always send, and the recording does not."""

    def drop(recorded: Body, ours: Body) -> None:
        if key not in recorded:
            ours.pop(key, None)

    drop.__name__ = name
    return drop


def level_of(word: str | None) -> ThinkingLevel | None:
    """The thinking level that a body asks for in one word."""
    return next((level for level in LEVELS if level == ("off" if word == "none" else word)), None)
