"""The conformance kits: our own implementations pass, and each check finds what is broken for it alone."""

import asyncio
import gc
import importlib.util
import itertools
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from unspool.kernel import (
    AgentMessage,
    AuthError,
    BadRequestError,
    ChatModel,
    Compaction,
    ContextManager,
    ContextSnapshot,
    ContextUsage,
    Edit,
    FakeClock,
    Message,
    ModelRequest,
    NetworkError,
    PassThrough,
    Projection,
    Refused,
    StreamEnd,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSpec,
    Usage,
    ValidationIssue,
    raw_tool,
    tool,
    user_message,
)
from unspool.kernel.conformance import ConformanceError, Kit, living
from unspool.kernel.conformance_context import check_context
from unspool.kernel.conformance_model import check_model
from unspool.kernel.conformance_tool import check_tool, wrong_arguments
from unspool.kernel.ports import ContextScope
from unspool.kernel.spawn import current_backend
from unspool.llm import OpenAIChatModel
from unspool.llm.http import close_connections
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.tools import file_tools

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs an async function on each backend."""

    def runner(main: Callable[[], Awaitable[None]]) -> None:
        anyio.run(main, backend=request.param)

    return runner


def failed(run: Run, check: Callable[[], Awaitable[None]]) -> ConformanceError | None:
    """What a kit tells; None when all is well."""
    try:
        run(check)
    except ConformanceError as error:
        return error
    return None


def names(error: ConformanceError | None) -> tuple[str, ...]:
    return error.checks if error else ()


async def leak() -> None:
    """Leave a task behind."""
    current_backend().spawn(anyio.sleep_forever)
    await anyio.lowlevel.checkpoint()


class _Forever:
    """Comes when every fake timer has run out; not stopped by a cancellation."""

    async def wait(self) -> None:
        with anyio.CancelScope(shield=True):
            for _ in range(3000):
                with suppress(asyncio.CancelledError):  # a native cancel knows no shield
                    await anyio.lowlevel.checkpoint()


FOREVER = _Forever()


# --- tools -------------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "files": {"type": "array", "items": {"$ref": "#/$defs/File"}},
    },
    "required": ["value"],
    "additionalProperties": False,
    "$defs": {"File": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
ARGS = {"value": "x", "count": 1, "files": [{"name": "a"}]}


class Good:
    """A tool that has every ability and keeps to the protocol."""

    spec = ToolSpec(name="echo", description="Says it again.", schema=SCHEMA)

    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        ctx.progress("working", topic="summary", done=1)
        await ctx.clock.sleep(1)
        return args["value"]

    def spec_for(self, args: Any) -> Any:
        return replace(self.spec, read_only=args["value"] == "x")

    async def validate(self, args: Any, ctx: ToolContext) -> Any:
        return None if args["value"] else Refused("nothing to say")

    async def preview(self, args: Any, ctx: ToolContext) -> Any:
        return {"says": args["value"]}


class NoSpec(Good):
    spec: Any = {"name": "echo"}


class RaisingSpec(Good):
    @property
    def spec(self) -> ToolSpec:  # type: ignore[override]
        raise RuntimeError("not yet")


class TupleInSpec(Good):
    spec = replace(Good.spec, meta={"colours": ("red", "blue")})


class ObjectInSpec(Good):
    spec = replace(Good.spec, meta={"lock": object()})


class MistypedSpec(Good):
    spec = replace(Good.spec, read_only="yes")


class BadName(Good):
    spec = replace(Good.spec, name="say it")


class BadSchema(Good):
    spec = replace(Good.spec, schema={"type": "object", "required": "value"})


class ArraySchema(Good):
    spec = replace(Good.spec, schema={"type": "array"})


class NewSpecs(Good):
    numbers = itertools.count()

    @property
    def spec(self) -> ToolSpec:  # type: ignore[override]
        return replace(Good.spec, description=f"Says it again, {next(self.numbers)}.")

    spec_for: Any = None  # otherwise asked for a spec that has changed meanwhile


class Picky(Good):
    def check_arguments(self, args: Any) -> Sequence[ValidationIssue]:
        return [ValidationIssue(kind="value", path="$.value", message="never good enough")]


def found(kind: Any, path: str) -> ValidationIssue:
    return ValidationIssue(kind=kind, path=path, message=kind)


def problems(args: Any) -> Iterator[ValidationIssue]:
    """All that is wrong with ``args`` by ``SCHEMA``, by hand; empty text besides."""
    if "value" not in args:
        yield found("missing", "$.value")
    elif not isinstance(args["value"], str):
        yield found("type", "$.value")
    elif not args["value"]:
        yield found("value", "$.value")
    yield from (found("unknown", f"$.{name}") for name in args if name not in SCHEMA["properties"])
    if not isinstance(args.get("count"), int | None):
        yield found("type", "$.count")
    files = args.get("files", [])
    if not isinstance(files, list):
        yield found("type", "$.files")
        return
    for index, file in enumerate(files):
        if not isinstance(file, dict):
            yield found("type", f"$.files[{index}]")
        elif "name" not in file:
            yield found("missing", f"$.files[{index}].name")
        elif not isinstance(file["name"], str):
            yield found("type", f"$.files[{index}].name")


class Checking(Good):
    def check_arguments(self, args: Any) -> Sequence[ValidationIssue]:
        return [issue for issue in problems(args) if self.tells(issue)]

    def tells(self, issue: ValidationIssue) -> bool:
        return True


class AllowsEmpty(Checking):
    def tells(self, issue: ValidationIssue) -> bool:
        return issue.kind != "value"


class AllowsMissing(Checking):
    def tells(self, issue: ValidationIssue) -> bool:
        return issue.kind != "missing"


class AllowsUnknown(Checking):
    def tells(self, issue: ValidationIssue) -> bool:
        return issue.kind != "unknown"


class AllowsTypes(Checking):
    def tells(self, issue: ValidationIssue) -> bool:
        return issue.path != "$.files[0].name" or issue.kind != "type"


class NamesNoPath(Checking):
    def check_arguments(self, args: Any) -> Sequence[ValidationIssue]:
        return [
            replace(issue, path="") if issue.kind == "value" else issue
            for issue in super().check_arguments(args)
        ]


class NamesAnotherPath(Checking):
    def check_arguments(self, args: Any) -> Sequence[ValidationIssue]:
        return [
            replace(issue, path="$") if issue.kind == "unknown" else issue
            for issue in super().check_arguments(args)
        ]


class RaisesInCheck(Checking):
    def check_arguments(self, args: Any) -> Sequence[ValidationIssue]:
        args["value"]
        return super().check_arguments(args)


class Exits(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        sys.exit(3)


class CancelsItself(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        raise asyncio.CancelledError


class GivesObject(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        return object()


class Synchronous(Good):
    def execute(self, args: Any, ctx: ToolContext) -> Any:
        return "x"


class Fails(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        raise ToolError("no such thing")


class NeverEnds(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        await anyio.sleep_forever()


class ChangesArgs(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        args["files"][0]["name"] = "b"
        return "x"


class Remembers(Good):
    used = False

    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        if Remembers.used:
            raise ToolError("used already")
        Remembers.used = True
        return "x"


class ChangesSpec(Good):
    def __init__(self) -> None:
        self.spec = replace(Good.spec, meta={})

    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        self.spec.meta["used"] = True
        return "x"


class IgnoresCancel(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        try:
            await ctx.clock.sleep(1)
        finally:
            if ctx.cancelled:
                await FOREVER.wait()
        return "x"


class Leaks(Good):
    async def execute(self, args: Any, ctx: ToolContext) -> Any:
        await leak()
        return "x"


class RenamesItself(Good):
    def spec_for(self, args: Any) -> Any:
        return replace(self.spec, name="other")


class NoSpecFor(Good):
    def spec_for(self, args: Any) -> Any:
        return {"read_only": True}


class SpecForChangesArgs(Good):
    def spec_for(self, args: Any) -> Any:
        args.pop("count")
        return self.spec


class ValidatesWithFalse(Good):
    async def validate(self, args: Any, ctx: ToolContext) -> Any:
        return False


class ValidateChangesArgs(Good):
    async def validate(self, args: Any, ctx: ToolContext) -> Any:
        args["value"] = "y"


class PreviewsText(Good):
    async def preview(self, args: Any, ctx: ToolContext) -> Any:
        return "it will say x"


class PreviewsObject(Good):
    async def preview(self, args: Any, ctx: ToolContext) -> Any:
        return {"what": object()}


class PreviewChangesArgs(Good):
    async def preview(self, args: Any, ctx: ToolContext) -> Any:
        args["value"] = "y"
        return args


BROKEN_TOOLS: list[tuple[type, str]] = [
    (NoSpec, "spec"),
    (RaisingSpec, "spec"),
    (TupleInSpec, "spec_plain"),
    (ObjectInSpec, "spec_plain"),
    (MistypedSpec, "spec_plain"),
    (BadName, "name"),
    (BadSchema, "schema"),
    (ArraySchema, "schema"),
    (NewSpecs, "spec_stable"),
    (ChangesSpec, "spec_stable"),
    (Picky, "args_accepted"),
    (AllowsEmpty, "args_refused"),
    (NamesNoPath, "args_refused"),
    (AllowsMissing, "missing_refused"),
    (RaisesInCheck, "missing_refused"),
    (AllowsUnknown, "unknown_refused"),
    (NamesAnotherPath, "unknown_refused"),
    (AllowsTypes, "type_refused"),
    (Exits, "raises"),
    (CancelsItself, "raises"),
    (GivesObject, "execute"),
    (Synchronous, "execute"),
    (Fails, "execute"),
    (NeverEnds, "execute"),
    (ChangesArgs, "args_unchanged"),
    (Remembers, "same_kind"),
    (IgnoresCancel, "cancel"),
    (Leaks, "leaves_nothing"),
    (RenamesItself, "spec_for"),
    (NoSpecFor, "spec_for"),
    (SpecForChangesArgs, "spec_for"),
    (ValidatesWithFalse, "validate"),
    (ValidateChangesArgs, "validate"),
    (PreviewsText, "preview"),
    (PreviewsObject, "preview"),
    (PreviewChangesArgs, "preview"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN_TOOLS, ids=[row[0].__name__ for row in BROKEN_TOOLS])
def test_a_broken_tool_fails_the_one_check(run: Run, broken: type, check: str) -> None:
    Remembers.used = False
    bad = {"value": ""} if issubclass(broken, Checking) else {"value": 3}

    async def main() -> None:
        await check_tool(broken, args=ARGS, bad_args=bad, clock=FakeClock())

    assert names(failed(run, main)) == (check,)


def test_a_thread_that_is_not_told_of_the_cancellation(run: Run) -> None:
    # in real time: a thread that hears nothing ends by itself or never
    deaf = raw_tool("deaf", "Sleeps.", {}, lambda args, ctx: time.sleep(0.2))

    async def main() -> None:
        await check_tool(lambda: deaf, args={}, grace_s=0.02)

    assert names(failed(run, main)) == ("cancel",)


@pytest.mark.parametrize("good", [Good, Checking])
def test_good_tools_pass(run: Run, good: type) -> None:
    async def main() -> None:
        await check_tool(good, args=[ARGS, {"value": "y"}], bad_args={"value": 3}, clock=FakeClock())

    run(main)


def test_our_file_tools_pass(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    rows: dict[str, Any] = {
        "read_file": ({"path": "a.txt", "offset": 1, "limit": 1}, {"path": "b.txt"}),
        "list_dir": ({"path": ".", "depth": 2}, {"path": "a.txt"}),
        "glob": ({"pattern": "*.txt", "path": "."}, {"pattern": "*", "path": "../"}),
        "grep": ({"pattern": "t.o"}, {"pattern": "("}),
    }
    tools = {made.spec.name: made for made in file_tools(tmp_path)}
    assert set(rows) == set(tools)

    async def main() -> None:
        for name, (args, failing) in rows.items():
            await check_tool(
                partial(tools.__getitem__, name), args=args, bad_args={"path": 3}, failing_args=failing
            )

    run(main)


@tool(read_only=lambda args: args["a"] > 0)
def add(a: int, b: int | None = None, names: list[str] | None = None) -> dict[str, int]:
    """Adds numbers."""
    return {"sum": a + (b or 0)}


@tool(
    validate=lambda args, ctx: "too long" if args["seconds"] > 60 else None, preview=lambda args, ctx: "zzz"
)
async def rest(seconds: float, ctx: ToolContext) -> str:
    """Sleeps."""
    await ctx.clock.sleep(seconds)
    return "rested"


def test_typed_and_raw_tools_pass(run: Run) -> None:
    raw = raw_tool("raw", "Says it again.", SCHEMA, lambda args, ctx: args["value"], read_only=True)
    quiet = raw_tool("quiet", "Takes anything.", {}, lambda args, ctx: None)

    async def main() -> None:
        await check_tool(lambda: add, args=[{"a": 1}, {"a": -1, "b": 2, "names": ["x"]}], bad_args={"a": "1"})
        await check_tool(lambda: rest, args={"seconds": 0.01})
        await check_tool(lambda: raw, args=ARGS)
        await check_tool(lambda: quiet, args={})

    run(main)


def test_arguments_that_fail_must_fail(run: Run) -> None:
    class Tells(Good):
        async def execute(self, args: Any, ctx: ToolContext) -> Any:
            return ToolResult(content="no", is_error=args["value"] == "bad")

    async def main(failing: Any) -> None:
        await check_tool(Tells, args=ARGS, failing_args=failing)

    assert names(failed(run, lambda: main({"value": "bad"}))) == ()
    assert names(failed(run, lambda: main([{"value": "bad"}, {"value": "fine"}]))) == ("raises",)


def test_make_may_be_async_and_is_asked_for_each_use(run: Run) -> None:
    made: list[Good] = []

    async def make() -> Tool:
        await anyio.lowlevel.checkpoint()
        made.append(Good())
        return made[-1]

    async def main() -> None:
        await check_tool(make, args=ARGS, clock=FakeClock())

    run(main)
    assert len(made) > 5


def test_what_breaks_a_check_is_told_and_is_the_cause(run: Run) -> None:
    def make() -> Tool:
        raise OSError("no disk")

    error = failed(run, lambda: check_tool(make, args={}))
    assert error is not None
    assert names(error) == ("spec",)
    assert isinstance(error.__cause__, OSError)
    assert "OSError: no disk" in str(error)


def test_the_report_says_what_was_expected_what_came_and_what_to_do(run: Run) -> None:
    class Broken(ChangesArgs, PreviewsText):
        pass

    error = failed(run, lambda: check_tool(Broken, args={"value": "x", "files": [{"name": "a"}]}))
    assert str(error) == (
        "tool 'echo': 2 violations\n"
        "\n"
        "args_unchanged\n"
        "  expected: `execute` leaves the arguments as they were: {'value': 'x', 'files': [{'name': 'a'}]}\n"
        "  got:      {'value': 'x', 'files': [{'name': 'b'}]}\n"
        "  to do:    change a copy\n"
        "\n"
        "preview\n"
        "  expected: `preview` gives a JSON object for {'value': 'x', 'files': [{'name': 'a'}]}\n"
        "  got:      'it will say x' (ToolValidationError: a str)\n"
        "  to do:    return a dict of text, numbers, lists and objects"
    )


def test_checks_can_be_left_out(run: Run) -> None:
    async def main(*skip: str) -> None:
        await check_tool(PreviewsText, args=ARGS, clock=FakeClock(), skip=skip)

    run(lambda: main("preview"))
    with pytest.raises(ValueError, match="no such check: previews; there are spec, "):
        run(lambda: main("previews"))


def test_an_instance_is_not_a_maker(run: Run) -> None:
    given: Any
    for check, given in ((check_tool, add), (check_model, ScriptedModel()), (check_context, PassThrough())):
        arguments: dict[str, Any] = {"args": {}} if check is check_tool else {}
        with pytest.raises(TypeError, match="expected a callable that gives an instance"):
            run(lambda check=check, given=given, more=arguments: check(given, **more))  # type: ignore[misc]


def test_a_kit_that_is_cancelled_stops_what_it_runs(run: Run) -> None:
    stopped: list[str] = []

    class Waits(Good):
        async def execute(self, args: Any, ctx: ToolContext) -> Any:
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append("tool")

    async def main() -> None:
        with anyio.move_on_after(0.05):
            await check_tool(Waits, args=ARGS)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    run(main)
    assert stopped == ["tool"]


def test_wrong_arguments_go_as_deep_as_the_good_ones() -> None:
    wrong = wrong_arguments(SCHEMA, ARGS)
    assert [(mistake.kind, mistake.path) for mistake in wrong] == [
        ("missing", ("value",)),
        ("unknown", ("unspool_no_such_property",)),
        ("type", ("value",)),
        ("type", ("count",)),
        ("type", ("files",)),
        ("type", ("files", 0)),
        ("missing", ("files", 0, "name")),
        ("type", ("files", 0, "name")),
    ]
    assert ARGS == {"value": "x", "count": 1, "files": [{"name": "a"}]}


# --- models ------------------------------------------------------------------------------------


class GoodModel:
    """A model that says what it is told to say, and calls a tool where there is one."""

    name: Any = "test/model"
    supports_tools: Any = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        for piece in ("I ", "say: ", request.messages[-1].text):
            await anyio.lowlevel.checkpoint()
            yield TextDelta(piece, 0)
        for event in self.call(request):
            yield event
        yield self.end(request)

    def call(self, request: ModelRequest) -> list[Any]:
        if not request.tools:
            return []
        return [ToolCallDelta(1, id="c1", name="ping"), ToolCallDelta(1, args="{}"), ToolCallEnd(1)]

    def end(self, request: ModelRequest) -> Any:
        return StreamEnd(stop_reason="tool_use" if request.tools else "stop", usage=Usage(output_tokens=3))


class NoProvider(GoodModel):
    name = "model"


class RaisingName(GoodModel):
    @property
    def name(self) -> str:
        raise RuntimeError("not yet")


class MaybeTools(GoodModel):
    supports_tools = None


class Coroutine(GoodModel):
    async def stream(self, request: ModelRequest) -> Any:  # type: ignore[override]
        return [TextDelta("x")]


class JustIterator(GoodModel):
    def stream(self, request: ModelRequest) -> Any:
        async def events() -> AsyncIterator[Any]:
            yield TextDelta("x")

        class Iterator:
            def __aiter__(self) -> AsyncIterator[Any]:
                return events()

        return Iterator()


class Refuses(GoodModel):
    """A model that fails for some requests."""

    def error(self, request: ModelRequest) -> BaseException | None:
        return None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        if error := self.error(request):
            raise error
        async with aclosing(super().stream(request)) as stream:
            async for event in stream:
                yield event


class NeverAnswers(Refuses):
    def error(self, request: ModelRequest) -> BaseException | None:
        return AuthError("provider: the key is missing")


class LeaksErrors(Refuses):
    def error(self, request: ModelRequest) -> BaseException | None:
        return KeyError("choices") if request.system else None


class BreaksOnTools(Refuses):
    def error(self, request: ModelRequest) -> BaseException | None:
        return NetworkError("provider: reset") if request.tools else None


class RefusesTools(Refuses):
    supports_tools = False

    def error(self, request: ModelRequest) -> BaseException | None:
        return BadRequestError("provider: no tools") if request.tools else None


class ChangesRequest(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        for spec in request.tools:
            spec.schema["strict"] = True
        return super().call(request)


class YieldsText(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return ["text"]


class YieldsNone(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [ThinkingDelta(text=None, index=1)]  # type: ignore[arg-type]


class NoEnd(GoodModel):
    def end(self, request: ModelRequest) -> Any:
        return TextDelta(".", 0)


class TwoEnds(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [StreamEnd(stop_reason="stop")]


class OneIndex(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [ThinkingDelta("hm", 0)]


class EndsNothing(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [*super().call(request), ToolCallEnd(7)]


class EndsTwice(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [*super().call(request), *super().call(request)[2:]]


class EndsNoCall(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return super().call(request)[:2]


class SameIds(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        made = super().call(request)
        return made and [*made, ToolCallDelta(2, id="c1", name="ping"), ToolCallEnd(2)]


class NoId(GoodModel):
    def call(self, request: ModelRequest) -> list[Any]:
        return [ToolCallDelta(1, name="ping"), ToolCallEnd(1)] if request.tools else []


class OwnStopReason(GoodModel):
    def end(self, request: ModelRequest) -> Any:
        return StreamEnd(stop_reason="end_turn")


class NegativeUsage(GoodModel):
    def end(self, request: ModelRequest) -> Any:
        return replace(super().end(request), usage=Usage(input_tokens=-1))


class ReasonsTooMuch(GoodModel):
    def end(self, request: ModelRequest) -> Any:
        return replace(super().end(request), usage=Usage(output_tokens=1, reasoning_tokens=2))


class SaysNothing(GoodModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        yield ThinkingDelta("hm", 0)
        yield TextDelta(" ", 1)
        yield StreamEnd(stop_reason="stop")


class SlowToClose(GoodModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        try:
            yield TextDelta("x")
            yield StreamEnd(stop_reason="stop")
        except GeneratorExit:
            await FOREVER.wait()
            raise


class ReadsToTheEnd(GoodModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        try:
            yield TextDelta("x")
        except GeneratorExit:
            yield TextDelta("y")
        yield StreamEnd(stop_reason="stop")


class BusyAfterClose(GoodModel):
    busy = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        if self.busy:
            raise NetworkError("provider: the connection is in use")
        self.busy = "twenty" in request.messages[-1].text
        yield TextDelta("x")
        self.busy = False
        yield StreamEnd(stop_reason="stop")


class IgnoresCancelling(GoodModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        with anyio.CancelScope(shield=True):
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            if "twenty" in request.messages[-1].text:
                await FOREVER.wait()
        yield TextDelta("x")
        yield StreamEnd(stop_reason="stop")


class LeakyStream(GoodModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        await leak()
        yield TextDelta("x")
        yield StreamEnd(stop_reason="stop")


class MixesStreams(GoodModel):
    said = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        self.said = request.messages[-1].text
        yield TextDelta("I say: ")
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        yield TextDelta(self.said)
        yield StreamEnd(stop_reason="stop")


class OneStreamAtATime(GoodModel):
    streams = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        if self.streams:
            raise NetworkError("provider: the connection is in use")
        self.streams += 1
        try:
            yield TextDelta("x")
            await anyio.lowlevel.checkpoint()
            yield StreamEnd(stop_reason="stop")
        finally:
            self.streams -= 1


BROKEN_MODELS: list[tuple[type, str]] = [
    (NoProvider, "name"),
    (RaisingName, "name"),
    (MaybeTools, "supports_tools"),
    (Coroutine, "stream"),
    (JustIterator, "stream"),
    (NeverAnswers, "answered"),
    (LeaksErrors, "errors"),
    (BreaksOnTools, "refusal"),
    (ChangesRequest, "request_unchanged"),
    (YieldsText, "events"),
    (YieldsNone, "events"),
    (NoEnd, "end"),
    (TwoEnds, "end"),
    (OneIndex, "indexes"),
    (EndsNothing, "calls"),
    (EndsTwice, "calls"),
    (EndsNoCall, "calls"),
    (SameIds, "calls"),
    (NoId, "calls"),
    (OwnStopReason, "stop_reason"),
    (NegativeUsage, "usage"),
    (ReasonsTooMuch, "usage"),
    (SaysNothing, "reply"),
    (SlowToClose, "early_close"),
    (ReadsToTheEnd, "early_close"),
    (BusyAfterClose, "after_close"),
    (IgnoresCancelling, "cancel"),
    (LeakyStream, "leaves_nothing"),
    (MixesStreams, "concurrent"),
    (OneStreamAtATime, "concurrent"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN_MODELS, ids=[row[0].__name__ for row in BROKEN_MODELS])
def test_a_broken_model_fails_the_one_check(run: Run, broken: type, check: str) -> None:
    skip = ("early_close",) if check == "cancel" else ()

    async def main() -> None:
        await check_model(broken, clock=FakeClock(), skip=skip)

    assert names(failed(run, main)) == (check,)


@pytest.mark.parametrize("good", [GoodModel, RefusesTools])
def test_good_models_pass(run: Run, good: type) -> None:
    run(lambda: check_model(good, clock=FakeClock()))


def test_the_scripted_model_passes(run: Run) -> None:
    clock = FakeClock()
    said = Say(["Hello", Wait(1.0), " there", call("c1", "ping", x=1)], chunk=2)

    async def main() -> None:
        await check_model(lambda: ScriptedModel([said, "again"], clock=clock), clock=clock)

    run(main)


@pytest.fixture
def loopback() -> Iterator[Any]:
    """The scripted HTTP server of the model tests; tests/ is no package to import it from."""
    spec = importlib.util.spec_from_file_location(
        "conformance_loopback", Path(__file__).parents[1] / "llm" / "loopback.py"
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.Loopback()
    pieces = [
        {"choices": [{"index": 0, "delta": {"content": "Hello"}}]},
        {"choices": [{"index": 0, "delta": {"content": " there"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    ]
    chunks = [module.chunked(f"data: {json.dumps(piece)}\n\n".encode()) for piece in pieces]
    for _ in range(40):
        server.script(module.SSE_HEAD, *chunks, module.chunked(b"data: [DONE]\n\n"), module.chunked(b""))
    yield server
    server.close()
    del sys.modules[spec.name]


def test_the_openai_chat_model_passes(run: Run, loopback: Any) -> None:
    async def main() -> None:
        dead = OpenAIChatModel("test/dead", base_url="http://127.0.0.1:1")
        await check_model(
            lambda: OpenAIChatModel("test/m-1", base_url=loopback.url, api_key="sk-1"),
            make_failing=lambda: dead,
            grace_s=2.0,
        )
        await close_connections()

    run(main)
    gc.collect()  # while the filter holds
    assert len(loopback.exchanges) > 10


def test_a_model_that_hangs_is_not_waited_for(run: Run) -> None:
    async def main() -> None:
        clock = FakeClock()
        await check_model(lambda: ScriptedModel([[Wait(float("inf"))]] * 2, clock=clock), clock=clock)

    assert names(failed(run, main)) == ("answered",)


def test_a_failing_model_raises_model_errors(run: Run) -> None:
    class Breaks(Refuses):
        def error(self, request: ModelRequest) -> BaseException | None:
            return ConnectionError("refused")

    async def main(make_failing: Callable[[], ChatModel]) -> None:
        await check_model(GoodModel, make_failing=make_failing, shapes=["plain"])

    assert names(failed(run, lambda: main(NeverAnswers))) == ()
    assert names(failed(run, lambda: main(Breaks))) == ("errors",)
    assert names(failed(run, lambda: main(GoodModel))) == ("errors",)


def test_shapes_and_requests_are_chosen(run: Run) -> None:
    seen: list[str] = []

    class Notes(GoodModel):
        def end(self, request: ModelRequest) -> Any:
            seen.append(request.messages[-1].text)
            return super().end(request)

    own = ModelRequest(messages=(user_message("my own"),))
    alone = ("early_close", "after_close", "cancel", "leaves_nothing", "concurrent")

    async def main(*shapes: str) -> None:
        await check_model(Notes, shapes=shapes, requests={"mine": own}, skip=alone)

    run(lambda: main("plain", "conversation"))
    assert seen == ["Say hello.", "Say goodbye.", "my own"]
    with pytest.raises(ValueError, match="no such shape: songs"):
        run(lambda: main("songs"))


# --- context managers ----------------------------------------------------------------------------


class GoodContext(PassThrough):
    """Keeps what the view begins with out once it is too long; begins anew at user messages."""

    KEEP = 60

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope) -> Any:
        return Projection(messages=self.cut(view), tokens=len(view))

    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        start = max(0, len(view) - self.KEEP) // 20 * 20
        users = [n for n, message in enumerate(view) if message.role == "user" and message.text]
        later = [n for n in users if n >= start]
        if later:
            return view[later[0] :]
        calls = [n for n in range(start, len(view)) if view[n].has_tool_calls]
        return [view[users[-1]], *view[calls[0] :]]

    def usage(self) -> Any:
        return ContextUsage(tokens=3, window=100, percent=3.0)

    def snapshot(self) -> Any:
        return ContextSnapshot(messages=1)


class Summarising(GoodContext):
    """Commits a summary of all but the newest user message and what follows it."""

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        newest = max(n for n, message in enumerate(view) if message.role == "user" and message.text)
        if newest < 20:
            return Compaction(changed=False)
        request = ModelRequest(messages=(user_message("Sum this up."),))
        summary = await scope.call_model(request, "compaction")
        return Compaction(
            changed=True,
            commit=True,
            edits=[Edit(start=0, stop=newest, messages=[user_message(summary.text)])],
        )


class RaisingProject(GoodContext):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope) -> Any:
        raise KeyError("window") if len(view) == 1 else KeyError("other")


class ProjectsList(GoodContext):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope) -> Any:
        return list(view)


class ProjectsText(GoodContext):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope) -> Any:
        return Projection(messages=["hello"])  # type: ignore[list-item]


class Empties(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        return [] if len(view) > 1000 else view


class CutsPairs(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        newest = max(n for n, message in enumerate(view) if message.role == "user")
        return view if len(view) - newest < 40 else [view[newest], *view[-21:]]


class LosesUser(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        return view[-40:]


class LosesEnd(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        return view[:-2] if view[-1].role == "tool" else view


class ChangesMessages(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        for message in view:
            if isinstance(message, Message):
                message.metadata["seen"] = True
        return view


class ChangesList(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        copied = list(view)
        if isinstance(view, list):
            view.clear()
        return copied


class Alternates(GoodContext):
    calls = 0

    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        self.calls += 1
        return view[-1:] if self.calls % 2 == 0 and view[-1].role == "user" else view


class Counts(GoodContext):
    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        return [user_message(f"There are {len(view)} messages."), *view]


class Sticky(GoodContext):
    first: AgentMessage | None = None

    def cut(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        self.first = self.first or view[0]
        return view if view[0] is self.first else [self.first, *view]


class RaisingSync(GoodContext):
    def sync(self, view: Sequence[AgentMessage]) -> Any:
        raise KeyError("ids")


class AsyncSync(GoodContext):
    def sync(self, view: Sequence[AgentMessage]) -> Any:
        return True


class RaisingCompact(GoodContext):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        raise KeyError(reason)


class CompactsToBool(GoodContext):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        return False


class CompactsNoRange(GoodContext):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        return Compaction(changed=True, commit=True, edits=[Edit(start=3, stop=1)])


class PretendsToCompact(GoodContext):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        return Compaction(changed=True)


class CompactsUserAway(Summarising):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        if len(view) < 1000 or view[-1].role != "user":
            return Compaction(changed=False)
        edits = [Edit(start=0, stop=len(view), messages=[user_message("All done.")])]
        return Compaction(changed=True, commit=True, edits=edits)


class NegativeContextUsage(GoodContext):
    def usage(self) -> Any:
        return ContextUsage(tokens=-1)


class RaisingSnapshot(GoodContext):
    def snapshot(self) -> Any:
        raise KeyError("usage")


class AsksBadly(Summarising):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        await scope.call_model(ModelRequest(messages=()), "compaction")
        return Compaction(changed=False)


class AsksForNothing(Summarising):
    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope) -> Any:
        await scope.call_model(ModelRequest(messages=(user_message("Sum up."),)), "")
        return Compaction(changed=False)


class NeedsModel(GoodContext):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope) -> Any:
        await scope.call_model(ModelRequest(messages=(user_message("Which ones?"),)), "selection")
        return await super().project(view, scope)


BROKEN_CONTEXTS: list[tuple[type, str]] = [
    (RaisingProject, "projection"),
    (ProjectsList, "projection"),
    (ProjectsText, "projection"),
    (Empties, "not_empty"),
    (CutsPairs, "pairs"),
    (LosesUser, "newest_user"),
    (LosesEnd, "ending"),
    (ChangesMessages, "view_unchanged"),
    (ChangesList, "view_unchanged"),
    (Alternates, "stable"),
    (Counts, "prefix"),
    (Sticky, "sync"),
    (RaisingSync, "sync"),
    (AsyncSync, "sync"),
    (RaisingCompact, "compact"),
    (CompactsToBool, "compact"),
    (CompactsNoRange, "compact"),
    (PretendsToCompact, "compact_shrinks"),
    (CompactsUserAway, "compact_keeps"),
    (NegativeContextUsage, "usage"),
    (RaisingSnapshot, "snapshot"),
    (AsksBadly, "call_model"),
    (AsksForNothing, "call_model"),
    (NeedsModel, "call_model_fails"),
]


@pytest.mark.parametrize(
    ("broken", "check"), BROKEN_CONTEXTS, ids=[row[0].__name__ for row in BROKEN_CONTEXTS]
)
def test_a_broken_context_manager_fails_the_one_check(run: Run, broken: type, check: str) -> None:
    async def main() -> None:
        await check_context(broken, long=1200, clock=FakeClock())

    assert names(failed(run, main)) == (check,)


@pytest.mark.parametrize("good", [PassThrough, GoodContext, Summarising])
def test_good_context_managers_pass(run: Run, good: Callable[[], ContextManager]) -> None:
    run(lambda: check_context(good, views={"mine": [user_message("a"), user_message("b")]}, long=1200))


def test_only_a_task_that_outlives_the_grace_time_is_left_behind(run: Run) -> None:
    async def main() -> None:
        clock = FakeClock()
        kit = Kit(Good, clock, 60.0, 5.0)
        before = living()
        slow = kit.start(lambda: clock.sleep(1.0))
        assert await kit.left_since(before) == []
        assert slow.ran is not None
        await leak()
        assert len(await kit.left_since(before)) == 1

    run(main)


def test_reports_are_plain_text() -> None:
    """pytest and logs show the report as it is."""
    error = ConformanceError("model 'a/b'", [])
    assert json.dumps(str(error))
    assert error.checks == ()
