"""The tools of a run, looked up by name, with their optional abilities resolved once.

Read with: ``ports.py`` (``Tool``), ``tool_call.py``.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from .errors import ToolDefinitionError
from .ports import JSON, Refused, Tool, ToolContext, ToolSpec, ValidationIssue
from .schema import compile_schema, schema_issues


class ResolvedTool:
    """A tool and how to use it; ``check`` lists what is wrong with arguments."""

    __slots__ = ("_spec_for", "check", "looks", "preview", "spec", "tool", "validate")

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.spec = tool.spec
        self.check = _checker(tool, self.spec)
        # abilities of the protocols in ports.py; isinstance with one costs more than a short run
        self.validate: Callable[[JSON, ToolContext], Awaitable[Refused | None]] | None
        self.validate = getattr(tool, "validate", None)
        self.preview: Callable[[JSON, ToolContext], Awaitable[JSON]] | None
        self.preview = getattr(tool, "preview", None)
        self.looks = self.validate is not None or self.preview is not None  # at its calls, before they run
        self._spec_for: Callable[[JSON], ToolSpec] | None = None
        if not getattr(tool, "has_plain_traits", False):
            self._spec_for = getattr(tool, "spec_for", None)

    @property
    def decides(self) -> bool:
        """Whether its traits may depend on the arguments."""
        return self._spec_for is not None

    def spec_for(self, args: JSON) -> ToolSpec:
        """The spec as it holds for ``args``; where the tool cannot say, its careful one."""
        if self._spec_for is None:
            return self.spec
        try:
            return self._spec_for(args)
        except Exception:  # noqa: BLE001 (the arguments may not be checked yet: what the tool makes of bad ones is no answer)
            return self.spec

    def is_safe(self, args: JSON) -> bool:
        """Whether a call with ``args`` may run beside others."""
        return is_safe(self.spec_for(args))

    def may_repeat(self, args: JSON) -> bool:
        """Whether a call that may have run already does no harm when it runs again."""
        spec = self.spec_for(args)
        return bool(spec.read_only or spec.idempotent)


def is_safe(spec: ToolSpec) -> bool:
    """Whether a call may run beside others."""
    return bool(spec.read_only) if spec.concurrency_safe is None else spec.concurrency_safe


def _checker(tool: Tool, spec: ToolSpec) -> Callable[[JSON], Sequence[ValidationIssue]]:
    own: Callable[[JSON], Sequence[ValidationIssue]] | None = getattr(tool, "check_arguments", None)
    if own is not None:
        return own
    if not spec.schema:
        return _accept
    validator = compile_schema(spec.schema, spec.name)
    return lambda args: schema_issues(validator, args)


def _accept(args: JSON) -> Sequence[ValidationIssue]:
    return ()


class Toolbox:
    """Tools by name.

    ``may_ask`` says whether any call may need a person's approval.

    Raises:
        ToolDefinitionError: two tools have one name, or a tool's schema is not a JSON Schema.
    """

    __slots__ = ("by_name", "deferred", "may_ask", "specs")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.by_name: dict[str, ResolvedTool] = {}
        for tool in tools:
            resolved = ResolvedTool(tool)
            name = resolved.spec.name
            if name in self.by_name:
                raise ToolDefinitionError("tools: two tools have one name", name=name)
            self.by_name[name] = resolved
        self.specs = tuple([resolved.spec for resolved in self.by_name.values()])
        self.deferred = any(spec.deferred for spec in self.specs)
        self.may_ask = any(
            resolved.spec.needs_approval or resolved.decides for resolved in self.by_name.values()
        )

    def offered(self, active: Sequence[str]) -> tuple[ToolSpec, ...]:
        """The specs a model is told about: deferred tools only once they are ``active``."""
        if not self.deferred:
            return self.specs
        return tuple([spec for spec in self.specs if not spec.deferred or spec.name in active])
