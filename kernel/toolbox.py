"""The tools of a run, looked up by name, with their optional abilities resolved once.

Read with: ``ports.py`` (``Tool``), ``tool_call.py``.
"""

from collections.abc import Callable, Iterable, Sequence

from .errors import ToolDefinitionError
from .ports import JSON, Tool, ToolSpec
from .schema import compile_schema, schema_problems


class ResolvedTool:
    """A tool and how to use it.

    ``check`` lists what is wrong with arguments, one line each.
    """

    __slots__ = ("_safe", "check", "spec", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.spec = tool.spec
        self.check = _checker(tool, self.spec)
        self._safe = _safety(tool, self.spec)

    def is_safe(self, args: JSON) -> bool:
        """Whether a call with ``args`` may run beside others; a tool that cannot say is not safe."""
        try:
            return self._safe(args)
        except Exception:  # noqa: BLE001 (the arguments are not checked yet: what the tool makes of bad ones is "no")
            return False


def _checker(tool: Tool, spec: ToolSpec) -> Callable[[JSON], Sequence[str]]:
    own: Callable[[JSON], Sequence[str]] | None = getattr(tool, "check_arguments", None)
    if own is not None:  # a ChecksArguments; isinstance with a protocol costs more than a short run
        return own
    if not spec.schema:
        return _accept
    validator = compile_schema(spec.schema, spec.name)
    return lambda args: schema_problems(validator, args)


def _accept(args: JSON) -> Sequence[str]:
    return ()


def _safety(tool: Tool, spec: ToolSpec) -> Callable[[JSON], bool]:
    own: Callable[[JSON], bool] | None = getattr(tool, "concurrency_safe", None)
    if own is not None:  # a DecidesConcurrency
        return own
    safe = spec.concurrency_safe if spec.concurrency_safe is not None else bool(spec.read_only)
    return lambda args: safe


class Toolbox:
    """Tools by name.

    Raises:
        ToolDefinitionError: two tools have one name, or a tool's schema is not a JSON Schema.
    """

    __slots__ = ("by_name", "specs")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.by_name: dict[str, ResolvedTool] = {}
        for tool in tools:
            resolved = ResolvedTool(tool)
            name = resolved.spec.name
            if name in self.by_name:
                raise ToolDefinitionError("tools: two tools have one name", name=name)
            self.by_name[name] = resolved
        self.specs = tuple([resolved.spec for resolved in self.by_name.values()])
