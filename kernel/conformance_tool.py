"""The conformance kit for tools: ``await check_tool(make, args=...)``.

A tool of your own passes in your tests with one line, on asyncio and on trio::

    await check_tool(lambda: WordCount(), args={"path": "a.txt"}, bad_args={"path": ""})

Wrong arguments are derived from the schema besides those given: a property that it does not know, a
required one left out, a value of another type, anywhere along the good arguments.

Read with: ``conformance.py``, ``ports.py`` (``Tool`` and its abilities), ``tool_call.py`` (how tools are run).
"""

import copy
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from .conformance import (
    MOMENTS,
    Check,
    Kit,
    Moment,
    Ran,
    as_list,
    attempt,
    living,
    must_be_callable,
    raised,
    shown,
)
from .errors import ToolError, ToolValidationError
from .json_edge import clean_json, copy_json
from .ports import JSON, Clock, Decision, Refused, Tool, ToolSpec, ValidationIssue
from .schema import Path, compile_schema, path_text
from .tool_definition import TOOL_NAME
from .tool_result import to_content
from .toolbox import ResolvedTool

Arguments: TypeAlias = JSON | Sequence[JSON]
_UNKNOWN = "unspool_no_such_property"


async def check_tool(
    make: Callable[[], Tool | Awaitable[Tool]],
    *,
    args: Arguments,
    bad_args: Arguments = (),
    failing_args: Arguments = (),
    run_context: JSON | None = None,
    clock: Clock | None = None,
    timeout_s: float = 60.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a tool keeps to the protocol ``Tool``, on the event loop that this is awaited on.

    ``make`` gives a tool, sync or async; it is called for each use, so let it set up afresh what the
    tool changes. ``args`` (one JSON object or several) are carried out, several times. ``bad_args``
    must be refused. ``failing_args`` fit the schema, but the tool fails with them. ``run_context`` and
    ``clock`` are what the tool's context shows; the clock is also that of the limits: ``timeout_s``
    for one call, ``grace_s`` for a cancelled one to end. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a tool.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, ("spec", "execute"), "check_tool")
    kit = _ToolKit(make, clock, timeout_s, grace_s)
    kit.good, kit.bad, kit.failing = as_list(args), as_list(bad_args), as_list(failing_args)
    kit.run_context = run_context or {}
    await kit.carry_out(_CHECKS, skip)
    kit.conclude(f"tool {kit.tool_name!r}" if kit.tool_name else "tool")


class KitToolContext:
    """The ``ToolContext`` of a call that a kit makes; ``shown`` holds the progress."""

    def __init__(self, clock: Clock, run_context: JSON) -> None:
        self.call_id = "call_1"
        self.idempotency_key = "conformance:call_1"
        self.agent = ("conformance",)
        self.session = "conformance"
        self.decision: Decision | None = None
        self.run_context = run_context
        self.clock = clock
        self.cancelled = False
        self.shown: list[tuple[str, str, dict[str, Any]]] = []

    def progress(self, summary: str = "", /, *, topic: str = "summary", **payload: Any) -> None:
        self.shown.append((summary, topic, payload))

    def cancel(self) -> None:
        self.cancelled = True


class _Call(NamedTuple):
    """A call that was made: what it was given, what that was before, what came of it."""

    tool: Tool
    spec: bytes
    given: JSON
    before: JSON
    ran: Ran


class _ToolKit(Kit):
    good: Sequence[JSON] = ()
    bad: Sequence[JSON] = ()
    failing: Sequence[JSON] = ()
    run_context: JSON = {}
    tool_name = ""
    _made: list[_Call] | None = None

    # --- what it says of itself

    async def spec(self) -> None:
        tool = await self.fresh()
        ran = attempt(lambda: tool.spec)
        if ran.error is not None or not isinstance(ran.value, ToolSpec):
            got = ran.failure or shown(ran.value)
            self.found("a ToolSpec as the tool's `spec`", got, "make `spec` an attribute or a property")
            return
        self.tool_name = str(ran.value.name)

    async def spec_plain(self) -> None:
        spec = (await self.fresh()).spec
        advice = "fill the spec with text, numbers, lists and objects only"
        ran = attempt(lambda: msgspec.json.decode(msgspec.json.encode(spec), type=ToolSpec))
        if ran.error is not None:
            self.found("a spec that is plain JSON, each field of its type", ran.failure, advice)
        elif ran.value != spec:
            field = next(name for name in spec.__struct_fields__ if _differ(spec, ran.value, name))
            expected = f"a spec that comes back from JSON as it was: {field}={shown(getattr(spec, field))}"
            self.found(expected, f"{field}={shown(getattr(ran.value, field))}", advice)

    async def name(self) -> None:
        name = (await self.fresh()).spec.name
        if not TOOL_NAME.fullmatch(name):
            expected = "a name of 1 to 128 letters, digits, '_', '-' and '.'"
            self.found(expected, shown(name), "give the tool a name that providers take")

    async def schema(self) -> None:
        spec = (await self.fresh()).spec
        if error := attempt(compile_schema, spec.schema, spec.name).error:
            self.found("a JSON Schema of an object, or {}", raised(error), "correct the schema at that place")

    async def spec_stable(self) -> None:
        for call in await self.calls():
            spec = call.tool.spec
            if spec != call.tool.spec or _bytes(spec) != call.spec:
                expected = f"the same spec on each access: {shown(msgspec.json.decode(call.spec))}"
                advice = "make the spec once, and don't change it when the tool runs"
                self.found_once(expected, shown(call.tool.spec), advice)

    # --- what it says of arguments

    async def args_accepted(self) -> None:
        advice = "correct the check or the schema, or the `args` given to check_tool"
        for args in self.good:
            given = _copy(args)
            check = ResolvedTool(await self.fresh()).check
            ran = attempt(_listed, check, given)
            if ran.error is not None or ran.value:
                self.found(f"{shown(args)} is accepted", ran.failure or _issues(ran.value), advice)

    async def args_refused(self) -> None:
        for args in self.bad:
            await self._refused(args, f"{shown(args)} is refused")

    async def missing_refused(self) -> None:
        await self._mistakes_refused("missing", "left out")

    async def unknown_refused(self) -> None:
        await self._mistakes_refused("unknown", "added, which the schema does not allow")

    async def type_refused(self) -> None:
        await self._mistakes_refused("type", "of a type that the schema does not allow")

    async def _mistakes_refused(self, kind: str, what: str) -> None:
        schema = (await self.fresh()).spec.schema
        for args in self.good:
            for mistake in wrong_arguments(schema, args):
                if mistake.kind == kind:
                    expected = f"{shown(mistake.args)} is refused: {path_text(mistake.path)} is {what}"
                    await self._refused(mistake.args, expected, path_text(mistake.path))

    async def _refused(self, args: JSON, expected: str, path: str = "") -> None:
        check = ResolvedTool(await self.fresh()).check
        ran = attempt(_listed, check, _copy(args))
        if ran.error is not None:
            self.found(expected, ran.failure, "give issues instead of raising")
        elif not ran.value:
            self.found(expected, "it is accepted", "refuse it in `check_arguments`, or correct the schema")
        elif not all(isinstance(issue, ValidationIssue) and issue.path[:1] == "$" for issue in ran.value):
            advice = "give ValidationIssue with a path such as $.files[0]"
            self.found(f"{expected}, with issues that name a path", _issues(ran.value), advice)
        elif path and all(issue.path != path for issue in ran.value):
            advice = "name the place in the issue's path"
            self.found(f"{expected}, with an issue at {path}", _issues(ran.value), advice)

    # --- what it does

    def context(self) -> KitToolContext:
        return KitToolContext(self.clock, self.run_context)

    async def call(self, args: JSON) -> _Call:
        """Make a call on a fresh tool, its arguments checked before as the kernel does."""
        tool = await self.fresh()
        spec, given = _bytes(tool.spec), _copy(args)
        attempt(lambda: ResolvedTool(tool).check(given))
        ran = await self.run(tool.execute, given, self.context())
        return _Call(tool, spec, given, args, ran)

    async def calls(self) -> list[_Call]:
        """A call with each of the good arguments, made once."""
        if self._made is None:
            self._made = [await self.call(args) for args in self.good]
        return self._made

    async def raises(self) -> None:
        failing = [await self.call(args) for args in self.failing]
        for call in [*await self.calls(), *failing]:
            error = call.ran.error
            if error is not None and not isinstance(error, Exception):
                expected = f"{shown(call.before)} gives a result, or raises ToolError or another Exception"
                advice = "raise ToolError with what the model should read; FatalToolError ends the run"
                self.found(expected, raised(error), advice)
        for call in failing:
            ran = call.ran
            if ran.late or (ran.error is None and not _is_error(ran.value)):
                expected = f"{shown(call.before)} fails with an Exception or a result that is an error"
                got = ran.failure or shown(ran.value)
                self.found(expected, got, "raise ToolError, or return ToolResult(is_error=True)")

    async def execute(self) -> None:
        for call in await self.calls():
            expected = f"`execute` with {shown(call.before)} gives a result"
            if call.ran.failure:
                advice = "give check_tool `args` that can be carried out, or a longer `timeout_s`"
                self.found(expected, call.ran.failure, advice)
                continue
            ran = attempt(to_content, call.ran.value)
            if ran.error is not None:
                advice = "return text, JSON, content blocks or a ToolResult"
                self.found(expected, f"{shown(call.ran.value)} ({raised(ran.error)})", advice)

    async def args_unchanged(self) -> None:
        for call in await self.calls():
            self._unchanged("`execute`", call.given, call.before)
        for args in self.good:
            given, check = _copy(args), ResolvedTool(await self.fresh()).check
            attempt(check, given)
            self._unchanged("checking the arguments", given, args)

    def _unchanged(self, who: str, given: JSON, before: JSON) -> None:
        if given != before:
            expected = f"{who} leaves the arguments as they were: {shown(before)}"
            self.found(expected, shown(given), "change a copy")

    async def same_kind(self) -> None:
        for call in await self.calls():
            again = (await self.call(call.before)).ran
            first, second = _kind(call.ran), _kind(again)
            if first != second:
                expected = f"a second tool gives the same kind of result for {shown(call.before)}: {first}"
                advice = "keep no state between tools, or let `make` set up afresh what the tool changes"
                self.found(expected, second, advice)

    async def cancel(self) -> None:
        for args in self.good[:1]:
            tool = await self.fresh()
            for moment in MOMENTS:
                if await self._cancelled(tool, args, moment):
                    return

    async def leaves_nothing(self) -> None:
        for args in self.good[:1]:
            tool = await self.fresh()
            await self.run(tool.execute, _copy(args), self.context())
            for moment in MOMENTS:
                before = living()
                await self._cancelled(tool, args, moment)
                if left := await self.left_since(before):
                    expected = f"no task is left {self.grace_s:g} s after `execute` was cancelled or ended"
                    advice = "start tasks in a task group inside `execute`, and await them when cancelled"
                    self.found(expected, f"still running: {', '.join(left)}", advice)
                    return

    async def _cancelled(self, tool: Tool, args: JSON, moment: Moment) -> bool:
        """Cancel a call in mid-way; whether it did not end."""
        ctx, given = self.context(), _copy(args)
        ran = await self.run_cancelled(lambda: tool.execute(given, ctx), moment, ctx.cancel)
        if ran is None or not ran.late:
            return False
        expected = f"`execute` ends within {self.grace_s:g} s when it is cancelled"
        advice = "let the cancellation through; in a thread, look at ctx.cancelled every so often"
        self.found(expected, "it goes on", advice)
        return True

    # --- its optional abilities

    async def spec_for(self) -> None:
        for args in self.good:
            tool, given = await self.fresh(), _copy(args)
            decide = getattr(tool, "spec_for", None)
            if decide is None:
                return
            spec = tool.spec
            ran = attempt(decide, given)
            self._unchanged("`spec_for`", given, args)
            expected = "`spec_for` gives a ToolSpec with the name and the schema of `spec`"
            advice = "change traits only: msgspec.structs.replace(self.spec, read_only=True)"
            if ran.error is not None or not isinstance(ran.value, ToolSpec):
                self.found(expected, ran.failure or shown(ran.value), advice)
            elif (ran.value.name, ran.value.schema) != (spec.name, spec.schema):
                self.found(expected, shown(ran.value), advice)

    async def validate(self) -> None:
        for args in [*self.good, *self.failing]:
            ran = await self._ask("validate", args)
            if ran is not None and (ran.failure or not (ran.value is None or isinstance(ran.value, Refused))):
                expected = f"`validate` gives None or Refused for {shown(args)}"
                self.found(expected, ran.failure or shown(ran.value), "return None where nothing is wrong")

    async def preview(self) -> None:
        for args in self.good:
            ran = await self._ask("preview", args)
            if ran is None:
                continue
            plain = ran if ran.failure else attempt(_strict, ran.value)
            if plain.failure:
                got = ran.failure or f"{shown(ran.value)} ({raised(plain.error or ToolError())})"
                expected = f"`preview` gives a JSON object for {shown(args)}"
                self.found(expected, got, "return a dict of text, numbers, lists and objects")

    async def _ask(self, ability: str, args: JSON) -> Ran | None:
        """What an optional ability answers; None where the tool has not got it."""
        tool, given = await self.fresh(), _copy(args)
        ask = getattr(tool, ability, None)
        if ask is None:
            return None
        ran = await self.run(ask, given, self.context())
        self._unchanged(f"`{ability}`", given, args)
        return ran


_CHECKS: tuple[Check[_ToolKit], ...] = (
    Check("spec", _ToolKit.spec),
    Check("spec_plain", _ToolKit.spec_plain, ("spec",)),
    Check("name", _ToolKit.name, ("spec_plain",)),
    Check("schema", _ToolKit.schema, ("spec_plain",)),
    Check("args_accepted", _ToolKit.args_accepted, ("schema",)),
    Check("args_refused", _ToolKit.args_refused, ("schema",)),
    Check("missing_refused", _ToolKit.missing_refused, ("args_accepted",)),
    Check("unknown_refused", _ToolKit.unknown_refused, ("args_accepted",)),
    Check("type_refused", _ToolKit.type_refused, ("args_accepted",)),
    Check("raises", _ToolKit.raises, ("args_accepted",)),
    Check("execute", _ToolKit.execute, ("raises",)),
    Check("spec_stable", _ToolKit.spec_stable, ("execute",)),
    Check("args_unchanged", _ToolKit.args_unchanged, ("execute",)),
    Check("same_kind", _ToolKit.same_kind, ("execute",)),
    Check("cancel", _ToolKit.cancel, ("execute",)),
    Check("leaves_nothing", _ToolKit.leaves_nothing, ("cancel",)),
    Check("spec_for", _ToolKit.spec_for, ("schema",)),
    Check("validate", _ToolKit.validate, ("args_accepted",)),
    Check("preview", _ToolKit.preview, ("args_accepted",)),
)


# --- wrong arguments, from a schema and right ones -----------------------------------------------


class Mistake(NamedTuple):
    """Arguments with one thing wrong at ``path``; ``kind`` is missing, unknown or type."""

    kind: str
    path: Path
    args: JSON


def wrong_arguments(schema: JSON, args: JSON) -> list[Mistake]:
    """Arguments that differ from the good ``args`` in one thing that ``schema`` does not allow.

    Unions are not entered: what is wrong with a value of one has no single answer.
    """
    validator = compile_schema(schema, "")
    found = []
    for kind, path, value in _mistakes(schema, args, (), schema):
        wrong = _copy(args)
        _put(wrong, path, value)
        if not validator.is_valid(wrong):
            found.append(Mistake(kind, path, wrong))
    return found


_GONE = object()


def _mistakes(node: JSON, value: Any, path: Path, root: JSON) -> Iterator[tuple[str, Path, Any]]:
    node = _resolved(node, root)
    types = _types(node, root)
    if path and types:
        other = next((wrong for name, wrong in _WRONG if name not in types), _GONE)
        if other is not _GONE:
            yield "type", path, other
    if isinstance(value, Mapping):
        inner = node.get("properties", {})
        yield from (("missing", (*path, name), _GONE) for name in node.get("required", ()) if name in value)
        if node.get("additionalProperties") is False:
            yield "unknown", (*path, _UNKNOWN), True
        for name in [name for name in value if isinstance(inner.get(name), Mapping)]:
            yield from _mistakes(inner[name], value[name], (*path, name), root)
    elif isinstance(value, list) and value and isinstance(node.get("items"), Mapping):
        yield from _mistakes(node["items"], value[0], (*path, 0), root)


_WRONG: tuple[tuple[str, Any], ...] = (("object", {}), ("array", []), ("string", "x"), ("boolean", True))


def _types(node: JSON, root: JSON) -> set[str]:
    """The types that a schema allows; none where it does not say so plainly."""
    given = node.get("type")
    if given is not None:
        return {given} if isinstance(given, str) else set(given)
    branches = [_types(_resolved(branch, root), root) for branch in node.get("anyOf", ())]
    return set().union(*branches) if all(branches) else set()


def _resolved(node: JSON, root: JSON) -> JSON:
    """The schema that a reference inside ``root`` leads to; ``{}`` where it leads nowhere."""
    for _ in range(32):
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        target: Any = root
        for step in reference.removeprefix("#").split("/")[1:]:
            target = target.get(step.replace("~1", "/").replace("~0", "~"), {})
        node = target
    return {}


def _put(args: JSON, path: Path, value: Any) -> None:
    place: Any = args
    for step in path[:-1]:
        place = place[step]
    if value is _GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.copy(value)


# --- small things ------------------------------------------------------------------------------


def _copy(args: JSON) -> dict[str, Any]:
    copied: dict[str, Any] = copy_json(dict(args))
    return copied


def _differ(a: ToolSpec, b: ToolSpec, field: str) -> bool:
    return bool(getattr(a, field) != getattr(b, field))


def _bytes(spec: ToolSpec) -> bytes:
    return msgspec.json.encode(spec)


def _strict(value: object) -> None:
    if not isinstance(value, Mapping):
        raise ToolValidationError(f"a {type(value).__name__}")
    clean_json(msgspec.to_builtins(dict(value)))


def _listed(check: Callable[[JSON], Sequence[ValidationIssue]], args: JSON) -> list[ValidationIssue]:
    return list(check(args))


def _issues(issues: Sequence[Any]) -> str:
    return "; ".join(i.text if isinstance(i, ValidationIssue) else shown(i) for i in issues)


def _is_error(value: object) -> bool:
    return bool(getattr(value, "is_error", False))


def _kind(ran: Ran) -> str:
    """What kind of result it is: the kinds of its content and whether it is an error."""
    if ran.failure:
        return ran.failure
    ran = attempt(to_content, ran.value)
    if ran.error is not None:
        return f"no result ({raised(ran.error)})"
    content, _, is_error, _ = ran.value
    kinds = ", ".join(dict.fromkeys(type(block).__name__ for block in content)) or "nothing"
    return f"{kinds}{' (an error)' if is_error else ''}"
