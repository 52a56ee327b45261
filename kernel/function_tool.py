"""Tools made of functions: ``@tool`` for a typed one, ``raw_tool`` for one with its own JSON Schema.

1. What is wrong with the definition is a ``ToolDefinitionError``: at once where a look at the
   signature shows it, with the first use of ``spec`` where annotations must be resolved.
2. pydantic makes the schema and decodes the arguments; it is loaded with the first ``spec``, never
   by an import of unspool. Decoding is strict JSON: what a gate saw is what the function gets.
   Parameters typed as a model of your own follow the configuration of that model.
3. Arguments are decoded once: ``execute`` takes what ``check_arguments`` has decoded.
4. A synchronous function runs in a worker thread and keeps its context variables.

Read with: ``schema.py`` (the lines a model reads), ``ports.py`` (``Tool``), ``tool_call.py``.
"""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from .errors import ToolDefinitionError, ToolValidationError
from .ports import JSON, ToolContext, ToolSpec
from .schema import compile_schema, pydantic_problems, schema_problems
from .threads import in_thread

if TYPE_CHECKING:
    from jsonschema_rs import Validator
    from pydantic import ValidationError

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Owner = TypeVar("Owner")

_encode = msgspec.json.Encoder().encode
_PARKED = 8  # decoded arguments waiting for execute: as many as calls run at once
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Traits(TypedDict, total=False):
    """The options of ``tool`` and ``raw_tool``: the fields of ``ToolSpec`` of the same names.

    A function of the arguments decides for each call; the spec then holds the careful choice.
    """

    title: str
    read_only: bool | Callable[[JSON], bool] | None
    concurrency_safe: bool | Callable[[JSON], bool] | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    interrupt: Literal["block", "cancel"]
    strict: bool | None
    deferred: bool
    needs_approval: bool | Callable[[JSON], bool]
    timeout_s: float | None
    max_result_bytes: int | None
    meta: dict[str, Any]


@overload
def tool(
    fn: Callable[P, T], /, *, name: str = "", description: str = "", **traits: Unpack[Traits]
) -> "FunctionTool[P, T]": ...
@overload
def tool(
    *, name: str = "", description: str = "", **traits: Unpack[Traits]
) -> "Callable[[Callable[P, T]], FunctionTool[P, T]]": ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    **traits: Unpack[Traits],
) -> Any:
    """A tool from a typed function; it stays callable as the function.

    The name is the function's. The description is its docstring up to the first section, those
    of the parameters come from an ``Args:`` section, ``Annotated[int, "text"]`` or a pydantic
    ``Field``. A parameter annotated ``ToolContext`` is injected and not in the schema.

    Raises:
        ToolDefinitionError: the function can't be a tool; the message says what to change.
    """
    if fn is None:
        return lambda fn: FunctionTool(fn, name, description, traits)
    return FunctionTool(fn, name, description, traits)


def raw_tool(
    name: str,
    description: str,
    schema: JSON,
    fn: Callable[[JSON, ToolContext], object],
    **traits: Unpack[Traits],
) -> "RawTool":
    """A tool from a JSON Schema and a function of the arguments and the context, sync or async."""
    return RawTool(name, description, schema, fn, traits)


class _DecidesByArguments:
    """The traits that may be functions of the arguments."""

    _traits: Traits

    def read_only(self, args: JSON, /) -> bool:
        choice = self._traits.get("read_only")
        return choice(args) if callable(choice) else bool(choice)

    def concurrency_safe(self, args: JSON, /) -> bool:
        choice = self._traits.get("concurrency_safe")
        if choice is None:
            return self.read_only(args)
        return choice(args) if callable(choice) else choice

    def needs_approval(self, args: JSON, /) -> bool:
        choice = self._traits.get("needs_approval", False)
        return choice(args) if callable(choice) else choice


_CAREFUL = {"read_only": None, "concurrency_safe": False, "needs_approval": True}


def _make_spec(name: str, description: str, schema: dict[str, Any], traits: Traits) -> ToolSpec:
    plain = {key: _CAREFUL[key] if callable(value) else value for key, value in traits.items()}
    return ToolSpec(name=name, description=description, schema=schema, **cast(Any, plain))


class FunctionTool(_DecidesByArguments, Generic[P, T_co]):
    """A typed function as a tool. Made by ``tool``; a method becomes a tool of its instance."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, fn: Callable[P, T_co], name: str, description: str, traits: Traits) -> None:
        self._fn: Any = fn
        self._traits = traits
        self._definition = _Definition(fn, name, description, traits)
        self._is_async = _is_async(fn)
        self._parked: dict[bytes, dict[str, Any]] = {}
        functools.update_wrapper(self, self._definition.target, updated=())
        self.__wrapped__ = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        result: T_co = self._fn(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<tool {self._definition.name!r}>"

    def __set_name__(self, owner: type, name: str) -> None:
        self._definition.is_method = inspect.isfunction(self._fn)

    @overload
    def __get__(self, instance: None, owner: type, /) -> "FunctionTool[P, T_co]": ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[Owner, Q], T]", instance: Owner, owner: type, /
    ) -> "FunctionTool[Q, T]": ...
    def __get__(self, instance: object, owner: type, /) -> "FunctionTool[..., Any]":
        if instance is None or not self._definition.is_method:
            return self
        bound: FunctionTool[..., Any] = copy.copy(self)
        bound._fn = bound.__wrapped__ = self._fn.__get__(instance, owner)
        bound._parked = {}
        return bound

    @property
    def spec(self) -> ToolSpec:
        if self._definition.is_method and not inspect.ismethod(self._fn):
            raise ToolDefinitionError("tool: a method; take it from an instance", tool=self._definition.name)
        return self._definition.spec

    def check_arguments(self, args: JSON, /) -> Sequence[str]:
        """What is wrong with ``args``, one line each; the decoded value is kept for ``execute``."""
        data = _json(args)
        try:
            decoded = self._definition.decode(data)
        except ValueError as error:
            return pydantic_problems(cast("ValidationError", error), args)
        while len(self._parked) >= _PARKED:
            self._parked.pop(next(iter(self._parked)), None)
        self._parked[data] = decoded
        return ()

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        """The function's result.

        Raises:
            ToolValidationError: the arguments do not fit.
        """
        kwargs = self._take(args)
        for name in self._definition.injected:
            kwargs[name] = ctx
        if self._is_async:
            result: object = await self._fn(**kwargs)
            return result
        return await _call_in_thread(functools.partial(self._fn, **kwargs), ctx)

    def _take(self, args: JSON) -> dict[str, Any]:
        """Decoded arguments, each set given out once: the function may change what it gets.

        They are found by their JSON, not by the identity of ``args``: nothing stale can be run.
        """
        data = _json(args)
        decoded = self._parked.pop(data, None)
        if decoded is not None:
            return decoded
        try:
            return self._definition.decode(data)
        except ValueError as error:
            problems = pydantic_problems(cast("ValidationError", error), args)
            raise ToolValidationError("\n".join(problems)) from error


class RawTool(_DecidesByArguments):
    """A tool with a JSON Schema of its own. Made by ``raw_tool``.

    ``execute`` takes arguments as checked.
    """

    def __init__(
        self,
        name: str,
        description: str,
        schema: JSON,
        fn: Callable[[JSON, ToolContext], object],
        traits: Traits,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ToolDefinitionError("tool: no usable name; use letters, digits, '_' and '-'", tool=name)
        self._fn: Any = fn
        self._traits = traits
        self._is_async = _is_async(fn)
        self._spec = _make_spec(name, description, copy.deepcopy(dict(schema)) or {"type": "object"}, traits)

    def __repr__(self) -> str:
        return f"<tool {self._spec.name!r}>"

    @property
    def spec(self) -> ToolSpec:
        _ = self._validator  # an invalid schema is told at registration
        return self._spec

    @functools.cached_property
    def _validator(self) -> "Validator":
        return compile_schema(self._spec.schema, self._spec.name)

    def check_arguments(self, args: JSON, /) -> Sequence[str]:
        return schema_problems(self._validator, args)

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        if self._is_async:
            result: object = await self._fn(args, ctx)
            return result
        return await _call_in_thread(functools.partial(self._fn, args, ctx), ctx)


def _json(args: JSON) -> bytes:
    return _encode(args if type(args) is dict else dict(args))


# --- calling -----------------------------------------------------------------------------------


def _is_async(fn: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


async def _call_in_thread(call: Callable[[], object], ctx: ToolContext) -> object:
    """The result of a synchronous function; one that turns out to be awaitable is awaited."""
    result = await in_thread(call, lambda: ctx.cancelled)
    return await result if inspect.isawaitable(result) else result


# --- reading the definition --------------------------------------------------------------------


class _Definition:
    """What a function's signature, annotations and docstring say; shared by a method's bound tools."""

    def __init__(self, fn: Callable[..., object], name: str, description: str, traits: Traits) -> None:
        self.target = _target(fn)
        self.name = name or getattr(self.target, "__name__", "")
        self.is_method = False
        self._hidden = fn.keywords if isinstance(fn, functools.partial) else {}
        self._docs = _read_docstring(self.target.__doc__ or "")
        self._description = description or self._docs.description
        self._traits = traits
        self._parameters = self._read_signature(fn)

    def _refuse(self, what: str, **details: Any) -> ToolDefinitionError:
        return ToolDefinitionError(f"tool: {what}", tool=self.name or repr(self.target), **details)

    def _read_signature(self, fn: Callable[..., object]) -> list[inspect.Parameter]:
        if isinstance(fn, staticmethod | classmethod):
            raise self._refuse("put @staticmethod above @tool; make tools of bound class methods")
        if inspect.isclass(fn):
            raise self._refuse("a class can't be a tool; write a function that makes one")
        if not _NAME.fullmatch(self.name):
            raise self._refuse("no usable name; give one of letters, digits, '_' and '-': tool(fn, name=...)")
        if inspect.isasyncgenfunction(self.target) or inspect.isgeneratorfunction(self.target):
            raise self._refuse("a generator can't be a tool; return the result, tell progress by ToolContext")
        parameters = [p for p in inspect.signature(fn).parameters.values() if p.name not in self._hidden]
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise self._refuse("models send named arguments; name each instead", parameter=str(parameter))
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise self._refuse("models send named arguments; remove the '/'", parameter=parameter.name)
        return parameters

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Resolved annotations of the parameters a call passes."""
        try:
            hints = get_type_hints(self.target, include_extras=True)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise self._refuse(
                "an annotation can't be resolved; its names must be importable at run time: from the "
                "module's top level, not from inside a function or under TYPE_CHECKING",
                reason=str(error),
            ) from error
        parameters = self._parameters[1:] if self.is_method else self._parameters
        return {parameter.name: hints.get(parameter.name, Any) for parameter in parameters}

    @functools.cached_property
    def injected(self) -> tuple[str, ...]:
        """Names of the parameters that get the ``ToolContext``."""
        return tuple(name for name, hint in self.hints.items() if _is_context(hint))

    @functools.cached_property
    def decode(self) -> Callable[[bytes], dict[str, Any]]:
        """Keyword arguments from JSON; raises pydantic's ``ValidationError``, a ``ValueError``."""
        validate: Callable[[bytes], dict[str, Any]] = self._adapter.validate_json

        def decode(data: bytes) -> dict[str, Any]:
            try:
                return validate(data)
            except ValueError as error:
                inputs = [entry["input"] for entry in cast("ValidationError", error).errors()]
                if not any(isinstance(value, float) and value.is_integer() for value in inputs):
                    raise
            return validate(_encode(_whole_numbers(msgspec.json.decode(data))))

        return decode

    @functools.cached_property
    def _adapter(self) -> Any:
        import pydantic  # noqa: PLC0415  # 50 ms and more that an import of unspool must not cost
        from typing_extensions import TypedDict as PydanticDict  # noqa: PLC0415  # comes with pydantic

        fields = {p.name: self._field(p) for p in self._parameters if p.name in self.hints}
        arguments = cast(Any, PydanticDict)("Arguments", {n: f for n, f in fields.items() if f is not None})
        arguments.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
        try:
            return pydantic.TypeAdapter(arguments)
        except (pydantic.errors.PydanticUserError, NameError, TypeError) as error:
            raise self._no_schema(error) from error

    def _no_schema(self, error: Exception) -> ToolDefinitionError:
        reason = str(error).partition("\n")[0]
        return self._refuse(
            "a parameter has no JSON form; use JSON types, pydantic models or dataclasses, or bind it "
            "with functools.partial",
            reason=reason,
        )

    def _field(self, parameter: inspect.Parameter) -> Any:
        """The parameter as a field of a TypedDict; None for one that is injected."""
        from pydantic import Field  # noqa: PLC0415  # as above
        from pydantic.fields import FieldInfo  # noqa: PLC0415

        if parameter.name in self.injected:
            return None
        hint = self.hints[parameter.name]
        base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        texts = [extra for extra in extras if isinstance(extra, str)]
        text = texts[0] if texts else self._docs.parameters.get(parameter.name)
        annotated: Any = Annotated
        marks: list[Any] = [Field(description=text), *extras]
        if isinstance(parameter.default, FieldInfo):
            return annotated[(base, *marks, parameter.default)]  # pydantic fills in its default
        field = annotated[(base, *marks)]
        return field if parameter.default is parameter.empty else NotRequired[field]

    @functools.cached_property
    def spec(self) -> ToolSpec:
        from pydantic.errors import PydanticUserError  # noqa: PLC0415  # as above

        try:
            schema = self._adapter.json_schema(schema_generator=_untitled_schema())
        except PydanticUserError as error:
            raise self._no_schema(error) from error
        schema.pop("title", None)
        for parameter in self._parameters:
            shown = schema.get("properties", {}).get(parameter.name)
            if shown is not None and parameter.default is not parameter.empty:
                _show_default(shown, parameter.default)
        return _make_spec(self.name, self._description, schema, self._traits)


def _whole_numbers(value: Any) -> Any:
    """``value`` with 3 for 3.0, which is an integer in JSON Schema but not for pydantic."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _whole_numbers(item) for key, item in value.items()}
        case list():
            return [_whole_numbers(item) for item in value]
        case _:
            return value


def _target(fn: Callable[..., object]) -> Callable[..., object]:
    """The function that holds the annotations and the docstring."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) or inspect.isclass(fn) else type(fn).__call__


def _is_context(hint: Any) -> bool:
    base = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return any(ToolContext in getattr(option, "__mro__", ()) for option in (base, *get_args(base)))


@functools.cache
def _untitled_schema() -> Any:
    """pydantic's schema generator without a title for each field: it repeats the name, in tokens."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415  # as above

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _show_default(field_schema: dict[str, Any], default: object) -> None:
    """Add a default that has a JSON form; the function applies it itself."""
    try:
        field_schema.setdefault("default", msgspec.to_builtins(default))
    except (TypeError, ValueError):
        return


class _Docs(NamedTuple):
    description: str
    parameters: dict[str, str]


_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields?):\s*")
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


def _read_docstring(doc: str) -> _Docs:
    """The text before the first section, and the ``Args:`` entries, of a Google-style docstring."""
    head: list[str] = []
    entries: dict[str, list[str]] = {}
    section, indent, current = "", 0, ""
    for line in inspect.cleandoc(doc).splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if _SECTION.fullmatch(line):
            section, indent = text[0], 0
        elif not section:
            head.append(line)
        elif section in "AP" and text:
            indent = indent or depth
            entry = _ENTRY.fullmatch(text) if depth == indent else None
            if entry:
                current = entry[1]
                entries[current] = [entry[2]]
            elif current:
                entries[current].append(text)
    return _Docs("\n".join(head).strip(), {name: " ".join(lines).strip() for name, lines in entries.items()})
