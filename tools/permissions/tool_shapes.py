"""Where the arguments of tools hold paths, commands and URLs: a table of the built-in ones, and what others say.

Read with: ``requests.py``, which reads calls by it.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.ports import ToolSpec

from .modes import CAPABILITIES, Capability

_META_KEYS: Final = {"capability", "path_args", "command_arg", "host_arg", "agent_arg", "key"}

Depth: TypeAlias = Literal["", "most", "visible", "all"]
"""What a search of a directory reads of it."""


class Shape(Struct, frozen=True, kw_only=True):
    """Where the arguments of a tool hold what; ``default`` is for a path that was left out."""

    capability: Capability
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    url: str = ""
    command: str = ""
    code: str = ""
    cwd: str = ""
    agent: str = ""
    patch: str = ""
    default: str = ""
    recursive: Depth = ""
    key: str = ""


_EDIT = Shape(capability="write", reads=("path",), writes=("path",))
_LIST = Shape(capability="read", reads=("path",), default=".")
_INTERNAL = Shape(capability="internal")
TABLE: Final[dict[str, Shape]] = {
    "read_file": Shape(capability="read", reads=("path",)),
    "list_dir": _LIST,
    "glob": _LIST,
    "grep": Shape(capability="read", reads=("path",), default=".", recursive="most"),
    "write_file": Shape(capability="write", writes=("path",)),
    "edit_file": _EDIT,
    "multi_edit": _EDIT,
    "apply_patch": Shape(capability="write", patch="patch"),
    "bash": Shape(capability="exec", command="command", cwd="workdir"),
    "python": Shape(capability="exec", code="code"),
    "fetch_url": Shape(capability="network", url="url"),
    "web_search": Shape(capability="network"),
    "subagent": Shape(capability="internal", agent="agent"),
    "todo": _INTERNAL,
    "ask_user": _INTERNAL,
    "task_list": _INTERNAL,
    "task_output": _INTERNAL,
    "task_wait": _INTERNAL,
    "task_stop": _INTERNAL,
}


def said_shape(spec: ToolSpec) -> Shape | None:
    """What a tool's maker says of it."""
    said: Any = spec.meta.get("permission")
    if said is None:
        return None
    if not isinstance(said, Mapping):
        raise ToolDefinitionError("permissions: meta['permission'] is no object", tool=spec.name)
    if unknown := sorted(set(said) - _META_KEYS):
        raise ToolDefinitionError(
            "permissions: meta['permission'] has unknown keys", tool=spec.name, keys=unknown
        )
    capability: Any = said.get("capability", "unknown")
    paths: Any = said.get("path_args", ())
    if capability not in CAPABILITIES:
        raise ToolDefinitionError(
            "permissions: no such capability",
            tool=spec.name,
            capability=capability,
            there_are=list(CAPABILITIES),
        )
    names = [said.get(key, "") for key in ("command_arg", "host_arg", "agent_arg", "key")]
    if not isinstance(paths, list | tuple) or not all(isinstance(name, str) for name in (*paths, *names)):
        raise ToolDefinitionError(
            "permissions: meta['permission'] names its arguments by text", tool=spec.name
        )
    command, host, agent, key = names
    reads_only = capability in ("read", "internal")
    return Shape(
        capability=capability,
        reads=tuple(paths),
        writes=() if reads_only else tuple(paths),
        command=command,
        url=host,
        agent=agent,
        key=key,
    )


def hinted(tool: str, spec: ToolSpec, trusted_servers: Collection[str]) -> Capability:
    """What the hints of an MCP server come to; nothing, for one that the host does not trust."""
    if not tool.startswith("mcp__") or not is_trusted(tool, trusted_servers):
        return "unknown"
    if spec.read_only is not True or spec.destructive is True:
        return "unknown"
    return "read" if spec.open_world is False else "network"


def is_trusted(tool: str, trusted_servers: Collection[str]) -> bool:
    """Whether what a tool says of itself counts: it is the host's own, or of an MCP server that the host trusts."""
    return not tool.startswith("mcp__") or tool.split("__")[1] in trusted_servers
