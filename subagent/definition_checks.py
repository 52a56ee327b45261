"""What the fields of an agent's definition must be, each check as a function of the value.

Read with: ``definition.py`` (the caller).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from unspool.kernel.errors import AgentError, ToolDefinitionError
from unspool.kernel.ports import LEVELS, SystemBlock, Tool
from unspool.kernel.redaction import holds_key
from unspool.kernel.type_schema import as_tool_schema, schema_for

CONTEXTS: Final = ("none", "isolated", "fork")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOOLS = re.compile(r"[A-Za-z0-9_.-]{1,128}\*?|\*")


class DefinitionError(AgentError, ValueError):
    """An agent, or a list of agents, that cannot be used as it is defined."""


def check_name(name: object) -> None:
    """See that an agent can have this name."""
    if name == "" or name is None:
        raise DefinitionError("agent name is required")
    if not isinstance(name, str) or holds_key(name) or not _NAME.fullmatch(name):
        raise DefinitionError("agent: name: must be 1 to 64 letters, digits, '_' and '-', and no key")


def check_kind(agent: str, field: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """See that a value is of a class."""
    if not isinstance(value, kind):
        raise refusal(agent, field, f"expected {expected}, got {type(value).__name__}")


def check_callable(agent: str, field: str, value: object, expected: str) -> None:
    """See that a value is a function, or None."""
    if value is not None and not callable(value):
        raise refusal(agent, field, f"expected {expected}, got {type(value).__name__}")


def check_model(agent: str, model: object) -> None:
    """See that a value is a model, the name of one, or None."""
    if model is None:
        return
    if isinstance(model, str):
        if not model.strip():
            raise refusal(agent, "model", "the name is empty; leave it out for the caller's model")
        if holds_key(model):
            raise refusal(agent, "model", "its name is recorded and holds no secrets, give keys to the model")
    elif isinstance(model, type) or not callable(getattr(model, "stream", None)):
        raise refusal(agent, "model", f"expected a ChatModel, a name or None, got {type(model).__name__}")


def check_thinking(agent: str, level: object) -> None:
    """See that there is such a thinking level."""
    if level is not None and level not in LEVELS:
        raise refusal(agent, "thinking", f"no such level: {_short(level)}; there are {', '.join(LEVELS)}")


def check_context(agent: str, mode: object) -> None:
    """See that there is such a context mode."""
    if mode not in CONTEXTS:
        raise refusal(agent, "context", f"no such mode: {_short(mode)}; there are {', '.join(CONTEXTS)}")


def check_context_manager(agent: str, make: object) -> None:
    """See that a value makes context managers, and is not one."""
    if make is None:
        return
    if not isinstance(make, type) and callable(getattr(make, "project", None)):
        raise refusal(
            agent, "context_manager", "each run needs its own; give a function of the model that makes one"
        )
    check_callable(agent, "context_manager", make, "a function of the model")


def system_of(agent: str, system: object) -> str | tuple[SystemBlock, ...]:
    """A system prompt: a text, or blocks."""
    if isinstance(system, str):
        return system
    blocks = _items(agent, "system", system, "a text or SystemBlocks")
    for block in blocks:
        check_kind(agent, "system", block, SystemBlock, "a text or SystemBlocks")
    return blocks


def tools_of(agent: str, tools: object) -> tuple[Tool | str, ...] | None:
    """Tools, and names and patterns of tools; no tool twice."""
    if tools is None:
        return None
    items = _items(agent, "tools", tools, "tools and names of tools")
    seen: dict[str, object] = {}
    for place, item in enumerate(items):
        if isinstance(item, str):
            _check_pattern(agent, f"tools[{place}]", item)
        else:
            _check_tool(agent, f"tools[{place}]", item)
        name = item if isinstance(item, str) else item.spec.name
        if name in seen and not (isinstance(item, str) and isinstance(seen[name], str)):
            raise refusal(agent, "tools", f"two tools have one name: {name!r}")
        seen[name] = item
    return items


def patterns_of(agent: str, field: str, names: object) -> tuple[str, ...]:
    """Names and patterns of tools."""
    patterns = _items(agent, field, names, "names of tools")
    for place, pattern in enumerate(patterns):
        _check_pattern(agent, f"{field}[{place}]", pattern)
    return patterns


def handoffs_of(agent: str, names: object) -> tuple[str, ...]:
    """Names of other agents, each once."""
    targets = _items(agent, "handoffs", names, "names of agents")
    for place, target in enumerate(targets):
        if not isinstance(target, str) or holds_key(target) or not _NAME.fullmatch(target):
            raise refusal(agent, f"handoffs[{place}]", "not the name of an agent")
    if agent in targets:
        raise refusal(agent, "handoffs", "an agent cannot hand over to itself")
    return tuple(dict.fromkeys(targets))


def check_types(agent: str, input: object, output: object) -> None:
    """See that arguments and answers have JSON forms. pydantic is loaded only where there are any."""
    for field, value, schema in (("input", input, as_tool_schema), ("output", output, schema_for)):
        if value is None or (field == "output" and value is str):
            continue
        try:
            schema(value)
        except ToolDefinitionError as error:
            raise refusal(agent, field, str(error)) from error


def refusal(agent: str, field: str, what: str) -> DefinitionError:
    """What is wrong with a field, as an error."""
    return DefinitionError(f"agent {agent!r}: {field}: {what}")


def _check_tool(agent: str, field: str, tool: Any) -> None:
    if isinstance(tool, type) or not callable(getattr(tool, "execute", None)) or not hasattr(tool, "spec"):
        raise refusal(agent, field, f"expected a tool or the name of one, got {type(tool).__name__}")


def _check_pattern(agent: str, field: str, pattern: object) -> None:
    if not isinstance(pattern, str) or holds_key(pattern) or not _TOOLS.fullmatch(pattern):
        raise refusal(agent, field, "not the name of a tool, nor the beginning of one with '*' at its end")


def _items(agent: str, field: str, value: object, expected: str) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise refusal(agent, field, f"expected a list of {expected}, got {type(value).__name__}")
    return tuple(value)


def _short(value: object) -> str:
    """A value in an error: only what was meant as a name, and never a key."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    if holds_key(value):
        return "a secret"
    return repr(value if len(value) <= 64 else f"{value[:64]}…")
