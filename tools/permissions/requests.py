"""What a call would do, read from its tool and its arguments.

1. A table says which arguments of the built-in tools are paths, commands and URLs.
2. Another tool says it in ``spec.meta["permission"]``: ``capability``, and the names of the arguments that hold
   paths (``path_args``), a command (``command_arg``), a host or URL (``host_arg``), an agent (``agent_arg``).
   ``key`` names what a grant for it covers, in place of the tool's capability.
3. A label never lowers what is known: not the table's entry, not what the arguments hold, not a tool that says
   of itself that it writes.
4. The hints of an MCP server count for those that the host trusts. Without anything to go by, the capability is
   unknown.
"""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.ports import JSON, ToolSpec
from unspool.tools.files.sweep import IGNORED

from .arguments import Arguments
from .modes import Capability
from .tool_shapes import TABLE, Depth, Shape, hinted, is_trusted, said_shape

_STRICTNESS: Final[tuple[Capability, ...]] = ("internal", "read", "network", "write", "exec", "unknown")


class Request(Struct, frozen=True, kw_only=True):
    """What one call would do.

    ``reads`` and ``writes`` are paths as given. ``urls`` are URLs or hosts. ``command`` is for a shell,
    ``code`` for another interpreter, both run in ``cwd``. ``recursive`` says what below the paths is read: ``most``
    leaves out directories such as ``.git``, ``visible`` what begins with a dot.
    ``destructive`` asks for a person unless a rule names the tool. ``unclear`` says what could not be read from the
    arguments. ``workspace`` is where relative paths begin, if not where the engine's do.
    """

    tool: str
    capability: Capability
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    command: str | None = None
    code: str | None = None
    cwd: str = ""
    recursive: Depth = ""
    destructive: bool = False
    read_only: bool = False
    key: str = ""
    unclear: str = ""
    workspace: str = ""


def request_of(tool: str, args: JSON, spec: ToolSpec, trusted_servers: Collection[str] = ()) -> Request:
    """What a call of ``tool`` with ``args`` would do.

    Raises:
        ToolDefinitionError: the tool's ``meta["permission"]`` can't be used.
    """
    said = said_shape(spec) if is_trusted(tool, trusted_servers) else None
    shape = TABLE.get(tool)
    if shape is None:
        shape = said or Shape(capability=hinted(tool, spec, trusted_servers))
    elif said is not None:
        shape = replace(shape, capability=stricter(shape.capability, said.capability))
    if not all(_takes(spec, name) for name in shape.reads):
        shape = replace(shape, default="")
    request = _read(tool, args, shape)
    return replace(
        request,
        capability=_at_least(request, spec),
        destructive=spec.destructive is True and tool not in TABLE,
        read_only=spec.read_only is True or tool == "web_search",
    )


def _takes(spec: ToolSpec, name: str) -> bool:
    """Whether a tool has an argument of that name, as far as it says: another one of the same name may not."""
    properties = spec.schema.get("properties")
    return not isinstance(properties, Mapping) or name in properties


def stricter(one: Capability, other: Capability) -> Capability:
    """The capability of two that needs more care."""
    return one if _STRICTNESS.index(one) >= _STRICTNESS.index(other) else other


def _at_least(request: Request, spec: ToolSpec) -> Capability:
    """The capability, raised to what the arguments and the tool's own traits show."""
    least = request.capability
    changes = least == "read" and spec.read_only is False
    if changes or (least in ("read", "internal") and spec.destructive is True and request.tool not in TABLE):
        least = "unknown"
    shown: list[tuple[object, Capability]] = [
        (request.reads, "read"),
        (request.urls, "network"),
        (request.writes, "write"),
        (request.command is not None or request.code is not None, "exec"),
        (request.unclear, "unknown"),
    ]
    for has, capability in shown:
        if has:
            least = stricter(least, capability)
    return least


def _read(tool: str, args: JSON, shape: Shape) -> Request:
    reader = Arguments(args, shape.default)
    reads, writes = reader.texts(*shape.reads), reader.texts(*shape.writes)
    if shape.patch:
        reads = writes = reader.patched(shape.patch)
    if tool == "read_file":
        reads = tuple(path for path in reads if not path.startswith("blob:"))
    return Request(
        tool=tool,
        capability=shape.capability,
        reads=reads,
        writes=writes,
        urls=reader.texts(shape.url) if shape.url else (),
        agents=reader.agents(shape.agent) if shape.agent else (),
        command=reader.text(shape.command) if shape.command else None,
        code=reader.text(shape.code) if shape.code else None,
        cwd=(reader.optional(shape.cwd) or "") if shape.cwd else "",
        recursive="all" if _names_ignored(args) and shape.recursive else shape.recursive,
        key=shape.key,
        unclear=reader.unclear,
    )


def _names_ignored(args: JSON) -> bool:
    """Whether a search names directories that are left out of others."""
    return any(name in str(args.get("glob", "")) for name in IGNORED)
