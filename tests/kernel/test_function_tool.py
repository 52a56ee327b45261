"""Functions as tools: the schema a model sees, the arguments a function gets, what is refused."""

from __future__ import annotations

import contextvars
import dataclasses
import datetime
import enum
import functools
import pathlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, assert_type, cast

import anyio
import pytest
from pydantic import BaseModel, Field, field_validator

from unspool.kernel.errors import ToolDefinitionError, ToolError, ToolValidationError
from unspool.kernel.function_tool import FunctionTool, RawTool, raw_tool, tool
from unspool.kernel.ports import (
    JSON,
    ChecksArguments,
    DecidesTraits,
    Previews,
    Refused,
    Tool,
    ToolContext,
    Validates,
    ValidationIssue,
)
from unspool.kernel.tool_functions import PreviewFunction, ValidateFunction


class Uncancelled:
    cancelled = False


CTX = cast(ToolContext, Uncancelled())


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    count: int = 1
    tags: list[str] = []

    @field_validator("name")
    @classmethod
    def _not_empty(cls, name: str) -> str:
        if not name:
            raise ValueError("a name has letters")
        return name


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    The second may be left out.

    Args:
        a: the first number,
            on two lines
        b (int): the second

    Returns:
        Their sum.
    """
    return a + b


def typed(annotation: object) -> FunctionTool[..., Any]:
    """A tool with one parameter ``x`` of a type, which returns what it got."""

    async def echo(x: Any) -> Any:
        return x

    echo.__annotations__ = {"x": annotation}
    return tool(echo)


def told(tool: ChecksArguments, args: JSON) -> list[str]:
    """What is wrong with ``args``, in lines."""
    return [issue.text for issue in tool.check_arguments(args)]


# --- the spec ----------------------------------------------------------------------------------


def test_spec() -> None:
    assert (add.spec.name, add.spec.description) == (
        "add",
        "Add two numbers.\n\nThe second may be left out.",
    )
    assert add.spec.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "the first number, on two lines"},
            "b": {"type": "integer", "description": "the second", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add.spec is add.spec


def test_traits_and_names() -> None:
    @tool(name="sum-up", description="Sums.", title="Sum", read_only=True, timeout_s=3, meta={"a": 1})
    def fn() -> None:
        """Not shown."""

    assert (fn.spec.name, fn.spec.description, fn.spec.title) == ("sum-up", "Sums.", "Sum")
    assert (fn.spec.read_only, fn.spec.timeout_s, fn.spec.meta) == (True, 3, {"a": 1})
    assert (fn.__name__, fn.__doc__, fn()) == ("fn", "Not shown.", None)


def test_parameter_descriptions() -> None:
    @tool
    def fn(
        a: Annotated[int, "from the annotation"],
        b: Annotated[str, Field(description="from the field", min_length=2)],
        c: int = Field(5, ge=1, description="from the default"),
        d: int = 0,
    ) -> None:
        """Summary.

        Arguments:
            a: not used
            d: from the docstring: with a colon
            nobody: not a parameter
        """

    properties = fn.spec.schema["properties"]
    assert {name: shown["description"] for name, shown in properties.items()} == {
        "a": "from the annotation",
        "b": "from the field",
        "c": "from the default",
        "d": "from the docstring: with a colon",
    }
    assert properties["c"]["default"] == 5
    assert fn.spec.schema["required"] == ["a", "b"]


def test_defaults_without_a_json_form_are_not_shown() -> None:
    missing = object()

    @tool
    def fn(a: Any = missing, b: Color = Color.RED, c: float | None = None) -> None: ...

    properties = fn.spec.schema["properties"]
    assert "default" not in properties["a"]
    assert (properties["b"]["default"], properties["c"]["default"]) == ("red", None)


def test_the_context_is_hidden() -> None:
    @tool
    async def fn(ctx: ToolContext, a: int, maybe: ToolContext | None = None) -> Any:
        return ctx, a, maybe

    assert list(fn.spec.schema["properties"]) == ["a"]
    assert anyio.run(fn.execute, {"a": 1}, CTX) == (CTX, 1, CTX)
    assert told(fn, {"a": 1, "ctx": 2}) == ["$.ctx: unknown"]


def test_protocols() -> None:
    tools: list[Tool] = [add, raw_tool("r", "", {}, lambda args, ctx: None)]
    for each in tools:
        assert isinstance(each, ChecksArguments)
        assert isinstance(each, DecidesTraits)
        assert not isinstance(each, Validates | Previews)


# --- traits ------------------------------------------------------------------------------------


def both_kinds(**traits: Any) -> list[FunctionTool[..., Any] | RawTool]:
    """A tool of each kind, with these traits."""

    async def run(n: int = 0) -> None: ...

    return [tool(run, **traits), raw_tool("run", "", {}, lambda args, ctx: None, **traits)]


BY_ARGUMENTS: dict[str, tuple[Any, Any]] = {  # trait: (what a function decides, the careful choice)
    "title": ("Delete a.txt", ""),
    "activity": ("deleting a.txt", ""),
    "read_only": (True, None),
    "concurrency_safe": (True, False),
    "destructive": (False, None),
    "idempotent": (True, None),
    "open_world": (False, None),
    "interrupt": ("cancel", "block"),
    "needs_approval": (False, True),
    "timeout_s": (2.5, None),
    "max_result_bytes": (100, None),
}


@pytest.mark.parametrize(("trait", "choice", "careful"), [(t, *row) for t, row in BY_ARGUMENTS.items()])
def test_a_trait_is_a_value_or_a_function_of_the_arguments(trait: str, choice: Any, careful: Any) -> None:
    for made in both_kinds(**{trait: choice}):
        assert getattr(made.spec, trait) == choice
        assert made.spec_for({"n": 1}) is made.spec

    for made in both_kinds(**{trait: lambda args: choice if args["n"] == 1 else careful}):
        assert getattr(made.spec, trait) == careful
        assert [getattr(made.spec_for({"n": n}), trait) for n in (1, 2)] == [choice, careful]


def test_several_traits_by_arguments() -> None:
    def inside(args: JSON) -> bool:
        return not str(args["path"]).startswith("/")

    @tool(read_only=inside, needs_approval=lambda args: not inside(args), timeout_s=3)
    def look(path: str) -> None:
        """Look."""

    decided = look.spec_for({"path": "a"})
    assert (decided.read_only, decided.needs_approval, decided.timeout_s) == (True, False, 3)
    assert (decided.name, decided.description, decided.schema) == ("look", "Look.", look.spec.schema)
    assert look.spec_for({"path": "/"}).needs_approval
    assert look.spec.concurrency_safe is None  # follows read_only, in each of them


def test_what_a_trait_function_raises_comes_through() -> None:
    for made in both_kinds(activity=lambda args: f"reading {args['path']}"):
        assert made.spec_for({"path": "a"}).activity == "reading a"
        with pytest.raises(KeyError):
            made.spec_for({})


@pytest.mark.parametrize(
    ("trait", "answer"),
    [("activity", ["a"]), ("read_only", "yes"), ("interrupt", "stop"), ("timeout_s", "3"), ("title", None)],
)
def test_an_answer_of_another_type_is_no_answer(trait: str, answer: Any) -> None:
    for made in both_kinds(**{trait: lambda args: answer}):
        with pytest.raises(ValueError, match=rf"at `\$.{trait}`"):
            made.spec_for({})


@pytest.mark.parametrize("trait", ["strict", "deferred", "meta"])
def test_traits_of_the_definition_are_no_functions(trait: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"can't be a function .tool='run', trait='{trait}'"):
        both_kinds(**{trait: lambda args: None})


def test_traits_of_methods() -> None:
    one, two = Shop("one"), Shop("two")
    assert one.stock.spec_for({"item": "a"}).activity == "counting a"
    assert one.price_tool.spec_for({}) is one.price_tool.spec
    assert one.stock.spec is two.stock.spec


# --- abilities ---------------------------------------------------------------------------------


def able(validate: ValidateFunction | None = None, preview: PreviewFunction | None = None) -> list[Any]:
    """A tool of each kind, with these abilities."""

    def run(path: str) -> None: ...

    return [
        tool(run, validate=validate, preview=preview),
        tool(validate=validate, preview=preview)(run),
        raw_tool("run", "", {}, lambda args, ctx: None, validate=validate, preview=preview),
    ]


NO = Refused("no such file", code=404)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "outcome"), [(None, None), ("no such file", Refused("no such file")), (NO, NO)]
)
async def test_validate(answer: Any, outcome: Refused | None) -> None:
    got: list[object] = []

    def now(args: JSON, ctx: ToolContext) -> Refused | str | None:
        got.append((args, ctx, threading.current_thread() is threading.main_thread()))
        return cast("Refused | str | None", answer)

    async def later(args: JSON, ctx: ToolContext) -> Refused | str | None:
        got.append((args, ctx, "async"))
        return cast("Refused | str | None", answer)

    for fn, where in ((now, False), (later, "async")):
        for made in able(validate=fn):
            assert isinstance(made, Validates) and not isinstance(made, Previews)
            assert await made.validate({"path": "a"}, CTX) == outcome
            assert got.pop() == ({"path": "a"}, CTX, where)


@pytest.mark.anyio
@pytest.mark.parametrize(("answer", "outcome"), [({"diff": "+a"}, {"diff": "+a"}), ("+a", {"text": "+a"})])
async def test_preview(answer: Any, outcome: JSON) -> None:
    def now(args: JSON, ctx: ToolContext) -> JSON | str:
        assert threading.current_thread() is not threading.main_thread()
        return cast("JSON | str", answer)

    async def later(args: JSON, ctx: ToolContext) -> JSON | str:
        return cast("JSON | str", answer)

    for fn in (now, later):
        for made in able(preview=fn):
            assert isinstance(made, Previews) and not isinstance(made, Validates)
            assert await made.preview({"path": "a"}, CTX) == outcome


def test_a_tool_without_an_ability_has_none() -> None:
    for made in able():
        assert (made.validate, made.preview) == (None, None)


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [True, False, 3, []])
async def test_answers_that_mean_nothing(answer: Any) -> None:
    for made in able(validate=lambda args, ctx: answer, preview=lambda args, ctx: answer):
        with pytest.raises(ToolDefinitionError, match=r"validate must give .* \(tool='run', got="):
            await made.validate({}, CTX)
        with pytest.raises(ToolDefinitionError, match=r"preview must give .* \(tool='run', got="):
            await made.preview({}, CTX)


@pytest.mark.anyio
async def test_what_an_ability_raises_comes_through() -> None:
    def fails(args: JSON, ctx: ToolContext) -> str:
        raise OSError("disk")

    for made in able(validate=fails, preview=fails):
        with pytest.raises(OSError, match="disk"):
            await made.validate({}, CTX)
        with pytest.raises(OSError, match="disk"):
            await made.preview({}, CTX)


@pytest.mark.anyio
async def test_abilities_of_methods_get_no_self() -> None:
    stock = Shop("one").stock
    assert stock.validate is not None
    assert await stock.validate({"item": ""}, CTX) == Refused("name an item")
    assert await stock.validate({"item": "a"}, CTX) is None


# --- arguments ---------------------------------------------------------------------------------

DECODED: list[tuple[object, object, object]] = [
    (int, 3.0, 3),
    (int | str, 3.0, 3),
    (list[int], [1, 2.0], [1, 2]),
    (float, 3, 3.0),
    (int | None, None, None),
    (datetime.date, "2024-02-03", datetime.date(2024, 2, 3)),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (Color, "blue", Color.BLUE),
    (Point, {"x": 1}, Point(1.0)),
    (Item, {"name": "n"}, Item(name="n")),
    (list[Item], [{"name": "n", "count": 2.0}], [Item(name="n", count=2)]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (bytes, "ab", b"ab"),
    (Any, {"free": [1.5]}, {"free": [1.5]}),
    (int, 2**80, 2**80),
    (Annotated[int, Field(strict=False)], "3", 3),
]


@pytest.mark.parametrize(("annotation", "sent", "got"), DECODED, ids=[str(case[0]) for case in DECODED])
def test_decoding(annotation: object, sent: object, got: object) -> None:
    fn = typed(annotation)
    assert fn.check_arguments({"x": sent}) == ()
    result = anyio.run(fn.execute, {"x": sent}, CTX)
    assert (result, type(result)) == (got, type(got))


REFUSED: list[tuple[object, object, list[str]]] = [
    (int, "3", ["$.x: expected integer, got string"]),
    (int, True, ["$.x: expected integer, got boolean"]),
    (int, 1.5, ["$.x: expected integer, got number"]),
    (str, 3, ["$.x: expected string, got integer"]),
    (bool, 1, ["$.x: expected boolean, got integer"]),
    (float, "1", ["$.x: expected number, got string"]),
    (int | str, [], ["$.x: expected integer or string, got array"]),
    (
        list[int],
        ["a", 2.0, 1.5],
        ["$.x[0]: expected integer, got string", "$.x[2]: expected integer, got number"],
    ),
    (
        list[int],
        "[1]",
        ["$.x: expected array, got string (it looks like a JSON-encoded array: send the array itself)"],
    ),
    (
        Item,
        '{"name": "n"}',
        ["$.x: expected object, got string (it looks like a JSON-encoded object: send the object itself)"],
    ),
    (Item, {"tags": [1]}, ["$.x.name: missing", "$.x.tags[0]: expected string, got integer"]),
    (Item, {"name": ""}, ["$.x.name: a name has letters"]),
    (list[Item], [{"name": 1}], ["$.x[0].name: expected string, got integer"]),
    (Point, {"z": 1, "y": "a"}, ["$.x.x: missing", "$.x.y: expected number, got string", "$.x.z: unknown"]),
    (Item | Point, {"q": 1}, ["$.x.name: missing", "$.x.x: missing", "$.x.q: unknown"]),
    (Literal["a", "b"], "c", ['$.x: not one of "a", "b"']),
    (Literal["it's", "a or b", 2], "c", ['$.x: not one of "it\'s", "a or b", 2']),
    (Color, "green", ['$.x: not one of "red", "blue"']),
    (Annotated[int, Field(ge=3)], 1, ["$.x: value should be greater than or equal to 3"]),
    (Annotated[str, Field(min_length=2)], "a", ["$.x: value should have at least 2 characters"]),
    (datetime.date, 3, ["$.x: expected string, got integer"]),
    (dict[str, int], {"a b": "c"}, ['$.x["a b"]: expected integer, got string']),
]


@pytest.mark.parametrize(("annotation", "sent", "lines"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_what_is_wrong(annotation: object, sent: object, lines: list[str]) -> None:
    fn = typed(annotation)
    assert told(fn, {"x": sent}) == lines
    with pytest.raises(ToolValidationError) as caught:
        anyio.run(fn.execute, {"x": sent}, CTX)
    assert str(caught.value) == "\n".join(lines)


def test_missing_and_unknown() -> None:
    assert told(add, {"b": "x", "z": 1}) == [
        "$.a: missing",
        "$.b: expected integer, got string",
        "$.z: unknown",
    ]


ISSUES: list[tuple[object, object, ValidationIssue]] = [
    (
        list[int],
        "[1]",
        ValidationIssue(
            kind="type",
            path="$.x",
            message="expected array, got string",
            expected=("array",),
            received="string",
            hint="it looks like a JSON-encoded array: send the array itself",
        ),
    ),
    (
        Literal["a", 2],
        "c",
        ValidationIssue(kind="value", path="$.x", message='not one of "a", 2', expected=('"a"', "2")),
    ),
    (
        Item,
        {"name": ""},
        ValidationIssue(kind="value", path="$.x.name", message="a name has letters"),
    ),
]


@pytest.mark.parametrize(("annotation", "sent", "issue"), ISSUES, ids=[str(case[0]) for case in ISSUES])
def test_issues_are_data(annotation: object, sent: object, issue: ValidationIssue) -> None:
    assert typed(annotation).check_arguments({"x": sent}) == (issue,)


@pytest.mark.anyio
async def test_arguments_are_decoded_once() -> None:
    decoded: list[str] = []

    class Counted(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def _count(cls, name: str) -> str:
            decoded.append(name)
            return name

    fn = typed(Counted)
    first = {"x": {"name": "first"}}
    assert fn.check_arguments(first) == ()
    one = await fn.execute(first, CTX)
    assert decoded == ["first"]
    two = await fn.execute(first, CTX)  # a retry gets a value of its own
    assert decoded == ["first", "first"] and one == two and one is not two

    assert fn.check_arguments(first) == ()
    first["x"]["name"] = "changed"
    changed = await fn.execute(first, CTX)
    assert cast(Counted, changed).name == "changed"


@pytest.mark.anyio
async def test_arguments_checked_and_never_executed_are_forgotten() -> None:
    for n in range(100):
        assert add.check_arguments({"a": n}) == ()
    assert len(add._parked) <= 8
    assert await add.execute({"a": 1}, CTX) == 3


# --- calling -----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_synchronous_function_runs_in_a_thread_with_its_context() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var")

    @tool
    def fn(x: int) -> tuple[int, str, bool]:
        return x, var.get(), threading.current_thread() is threading.main_thread()

    var.set("kept")
    assert await fn.execute({"x": 1}, CTX) == (1, "kept", False)
    assert fn(2) == (2, "kept", True)


@pytest.mark.anyio
async def test_a_cancelled_thread_is_waited_for() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def fn() -> None:
        started.set()
        release.wait(5)
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(fn.execute, {}, CTX)
        await anyio.to_thread.run_sync(started.wait)
        group.cancel_scope.cancel()
        release.set()
    assert ended.is_set()


@pytest.mark.anyio
async def test_many_threads_at_once() -> None:
    together = threading.Barrier(50)

    @tool
    def fn() -> None:
        together.wait(5)  # more than anyio's own limit of 40

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(fn.execute, {}, CTX)


@pytest.mark.anyio
async def test_errors_come_through() -> None:
    @tool
    def fails(how: str) -> None:
        raise StopIteration if how == "stop" else ToolError("no such city", city=how)

    with pytest.raises(ToolError, match="no such city"):
        await fails.execute({"how": "x"}, CTX)
    with pytest.raises((StopIteration, RuntimeError)):
        await fails.execute({"how": "stop"}, CTX)


@pytest.mark.anyio
async def test_other_callables() -> None:
    def connect(url: str, timeout: int = 3, *, key: str) -> tuple[str, int, str]:
        """Connect."""
        return url, timeout, key

    async def later(x: int) -> int:
        return x

    class Callable_:
        async def __call__(self, x: int) -> int:
            """Twice."""
            return 2 * x

    bound = tool(functools.partial(connect, key="secret"))
    assert list(bound.spec.schema["properties"]) == ["url", "timeout"]
    assert (bound.spec.name, bound.spec.description) == ("connect", "Connect.")
    assert "secret" not in str(bound.spec)
    assert await bound.execute({"url": "u"}, CTX) == ("u", 3, "secret")
    first = tool(functools.partial(connect, "u", key="secret"))
    assert list(first.spec.schema["properties"]) == ["timeout"]
    assert await tool(functools.partial(later)).execute({"x": 1}, CTX) == 1
    called = tool(Callable_(), name="twice")
    assert (called.spec.description, await called.execute({"x": 2}, CTX)) == ("Twice.", 4)

    @functools.wraps(later)
    def wrapper(x: int) -> Any:
        return later(x + 1)

    assert await tool(wrapper).execute({"x": 1}, CTX) == 2


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool(
        read_only=True,
        activity=lambda args: f"counting {args['item']}",
        validate=lambda args, ctx: None if args["item"] else "name an item",
    )
    async def stock(self, item: str, ctx: ToolContext) -> str:
        """What there is."""
        return f"{self.name}: {item}"

    @staticmethod
    @tool
    def hours(day: str) -> str:
        return day

    @classmethod
    def kinds(cls, kind: str) -> str:
        return f"{cls.__name__}: {kind}"

    def price(self, item: str) -> str:
        return f"{self.name}: {item}"

    price_tool = tool(price)


@pytest.mark.anyio
async def test_methods() -> None:
    one, two = Shop("one"), Shop("two")
    assert list(one.stock.spec.schema["properties"]) == ["item"]
    assert one.stock.spec is two.stock.spec
    assert await one.stock.execute({"item": "a"}, CTX) == "one: a"
    assert await two.stock.execute({"item": "a"}, CTX) == "two: a"
    assert await one.stock("b", CTX) == "one: b"
    assert await Shop.hours.execute({"day": "mon"}, CTX) == "mon"
    assert await tool(Shop.kinds).execute({"kind": "a"}, CTX) == "Shop: a"
    assert await tool(two.price).execute({"item": "a"}, CTX) == "two: a"
    with pytest.raises(ToolDefinitionError, match="take it from an instance"):
        _ = Shop.stock.spec


def test_types() -> None:
    decorated: FunctionTool[[int], str]

    @tool
    def plain(x: int) -> str:
        return str(x)

    @tool(read_only=True)
    def optioned(x: int) -> str:
        return str(x)

    decorated = plain
    decorated = optioned
    assert_type(decorated(1), str)
    assert_type(Shop("s").price_tool(item="x"), str)


# --- refusals ----------------------------------------------------------------------------------


def _variadic(*paths: str) -> None: ...
def _keywords(**options: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _unresolvable(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _generator(a: int) -> Iterator[int]:
    yield a


async def _async_generator(a: int) -> AsyncIterator[int]:
    yield a


class _Opaque: ...


def _opaque(a: _Opaque) -> None: ...
def _callback(a: Callable[[], None]) -> None: ...


BAD: list[tuple[Callable[..., Any], str]] = [
    (_variadic, "name each instead"),
    (_keywords, "name each instead"),
    (_positional, "remove the '/'"),
    (_unresolvable, "'Nowhere' is not defined"),
    (_generator, "return the result"),
    (_async_generator, "return the result"),
    (_opaque, "has no JSON form"),
    (_callback, "has no JSON form"),
    (lambda x: x, "no usable name"),
    (_Opaque, "a class can't be a tool"),
    (staticmethod(_opaque), "put @staticmethod above @tool"),
    (cast(Any, classmethod(cast(Any, _opaque))), "make tools of bound class methods"),
]


@pytest.mark.parametrize(("fn", "words"), BAD, ids=[words for _, words in BAD])
def test_what_cannot_be_a_tool(fn: Callable[..., Any], words: str) -> None:
    with pytest.raises(ToolDefinitionError, match="tool=") as caught:
        _ = tool(fn).spec
    assert words in str(caught.value)


# --- raw tools ---------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.anyio
async def test_raw_tools() -> None:
    async def later(args: Any, ctx: ToolContext) -> Sequence[Any]:
        return [args["x"], ctx, "async"]

    def now(args: Any, ctx: ToolContext) -> Sequence[Any]:
        return [args["x"], ctx, threading.current_thread() is threading.main_thread()]

    for fn, end in ((later, "async"), (now, False)):
        made = raw_tool("raw", "A raw one.", SCHEMA, fn, read_only=True)
        assert (made.spec.name, made.spec.schema, made.spec.read_only) == ("raw", SCHEMA, True)
        assert told(made, {"x": "a"}) == ["$.x: expected integer, got string"]
        assert made.check_arguments({"x": 1.0}) == ()
        assert await made.execute({"x": 1}, CTX) == [1, CTX, end]


def test_raw_schemas() -> None:
    schema = {"type": "object", "properties": {}}
    made = raw_tool("raw", "", schema, lambda args, ctx: None)
    schema["type"] = "changed later"
    assert made.spec.schema == {"type": "object", "properties": {}}
    assert raw_tool("raw", "", {}, lambda args, ctx: None).spec.schema == {"type": "object"}
    with pytest.raises(ToolDefinitionError, match="tool='raw'"):
        _ = raw_tool("raw", "", {"type": "objct"}, lambda args, ctx: None).spec
    with pytest.raises(ToolDefinitionError, match="no usable name"):
        raw_tool("a b", "", {}, lambda args, ctx: None)


def test_validator_and_preview_of_a_method_may_see_the_instance() -> None:
    class Box:
        def __init__(self, holds: int) -> None:
            self.holds = holds

        def fits(self, args: Any, ctx: ToolContext) -> str | None:
            return None if args["n"] <= self.holds else f"only {self.holds} fit"

        async def shows(self, args: Any, ctx: ToolContext) -> Any:
            return {"left": self.holds - args["n"]}

        @tool(validate=fits, preview=shows)
        def put(self, n: int) -> str:
            return f"{n} of {self.holds}"

    async def main() -> None:
        small, large = Box(1).put, Box(9).put
        assert small.validate is not None and large.validate is not None and large.preview is not None
        ctx: Any = Uncancelled()
        assert await small.validate({"n": 2}, ctx) == Refused("only 1 fit")
        assert await large.validate({"n": 2}, ctx) is None
        assert await large.preview({"n": 2}, ctx) == {"left": 7}

    anyio.run(main)
