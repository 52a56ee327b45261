"""Tools made of functions: ``@tool`` for a typed one, ``raw_tool`` for one with its own JSON Schema.

1. What is wrong with the definition is a ``ToolDefinitionError``: at once where a look at the
   signature shows it, with the first use of ``spec`` where annotations must be resolved.
2. pydantic makes the schema and decodes the arguments, strictly: what a gate saw is what the
   function gets.
3. Arguments are decoded once: ``execute`` takes what ``check_arguments`` has decoded.
4. A synchronous function runs in a worker thread and keeps its context variables.
5. A trait that is a function of the arguments is asked for each call; ``spec`` holds the careful
   choice, which also stands where the function fails.

Read with: ``tool_definition.py`` (what a function says), ``tool_traits.py``, ``tool_functions.py``,
``schema.py`` (the words a model reads), ``ports.py`` (``Tool`` and its abilities).
"""

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import msgspec

from .errors import ToolDefinitionError, ToolValidationError
from .ports import JSON, ToolContext, ToolSpec, ValidationIssue
from .schema import compile_schema, pydantic_issues, schema_issues
from .tool_definition import TOOL_NAME, ToolDefinition
from .tool_functions import (
    Preview,
    PreviewFunction,
    Validate,
    ValidateFunction,
    as_preview,
    as_validate,
    call_in_thread,
    is_async,
    of_instance,
)
from .tool_traits import Traits, decided, functions, plain_traits

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


@overload
def tool(
    fn: Callable[P, T],
    /,
    *,
    name: str = "",
    description: str = "",
    validate: ValidateFunction | None = None,
    preview: PreviewFunction | None = None,
    **traits: Unpack[Traits],
) -> "FunctionTool[P, T]": ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    validate: ValidateFunction | None = None,
    preview: PreviewFunction | None = None,
    **traits: Unpack[Traits],
) -> "Callable[[Callable[P, T]], FunctionTool[P, T]]": ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    validate: ValidateFunction | None = None,
    preview: PreviewFunction | None = None,
    **traits: Unpack[Traits],
) -> Any:
    """A tool from a typed function; it stays callable as the function.

    The name is the function's. The description is its docstring up to the first section, those
    of the parameters come from an ``Args:`` section, ``Annotated[int, "text"]`` or a pydantic
    ``Field``. A parameter annotated ``ToolContext`` is injected and not in the schema.

    ``validate`` and ``preview`` are functions of the arguments, as JSON, and the context; sync or
    async, and without ``self`` for a method. ``validate`` gives None, or why the call is refused:
    a text or ``Refused``. ``preview`` gives what the call is going to do: a JSON object or a text.

    Raises:
        ToolDefinitionError: the function can't be a tool; the message says what to change.
    """
    if fn is None:
        return lambda fn: FunctionTool(fn, name, description, traits, validate, preview)
    return FunctionTool(fn, name, description, traits, validate, preview)


def raw_tool(
    name: str,
    description: str,
    schema: JSON,
    fn: Callable[[JSON, ToolContext], object],
    *,
    validate: ValidateFunction | None = None,
    preview: PreviewFunction | None = None,
    **traits: Unpack[Traits],
) -> "RawTool":
    """A tool from a JSON Schema and a function of the arguments and the context, sync or async.

    ``validate`` and ``preview`` are as for ``tool``.

    Raises:
        ToolDefinitionError: the name or a trait can't be used.
    """
    return RawTool(name, description, schema, fn, traits, validate, preview)


class _DecidesTraits(ABC):
    """A tool some of whose traits may be functions of the arguments."""

    _decides: Mapping[str, Callable[[JSON], Any]]

    @property
    @abstractmethod
    def spec(self) -> ToolSpec:
        """What a model and a host are told about the tool."""

    @property
    def has_plain_traits(self) -> bool:
        """Whether ``spec`` holds for all arguments."""
        return not self._decides

    def spec_for(self, args: JSON, /) -> ToolSpec:
        """The spec as it holds for ``args``; ``spec`` itself where no trait is a function.

        Raises what a trait's function raises.
        """
        return decided(self.spec, self._decides, args) if self._decides else self.spec


class FunctionTool(_DecidesTraits, Generic[P, T_co]):
    """A typed function as a tool. Made by ``tool``; a method becomes a tool of its instance."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        fn: Callable[P, T_co],
        name: str,
        description: str,
        traits: Traits,
        validate: ValidateFunction | None,
        preview: PreviewFunction | None,
    ) -> None:
        self._fn: Any = fn
        self._definition = ToolDefinition(fn, name, description, traits)
        self._decides = functions(traits)
        self._is_async = is_async(fn)
        self._validate, self._preview = validate, preview
        self.validate: Validate | None = as_validate(validate, self._definition.name)
        self.preview: Preview | None = as_preview(preview, self._definition.name)
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
        bound.validate = as_validate(of_instance(self._validate, instance), self._definition.name)
        bound.preview = as_preview(of_instance(self._preview, instance), self._definition.name)
        return bound

    @property
    def spec(self) -> ToolSpec:
        if self._definition.is_method and not inspect.ismethod(self._fn):
            raise ToolDefinitionError("tool: a method; take it from an instance", tool=self._definition.name)
        return self._definition.spec

    def check_arguments(self, args: JSON, /) -> Sequence[ValidationIssue]:
        """What is wrong with ``args``; the decoded value is kept for ``execute``."""
        data = _json(args)
        try:
            decoded = self._definition.decode(data)
        except ValueError as error:
            return pydantic_issues(cast("ValidationError", error), args)
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
        return await call_in_thread(functools.partial(self._fn, **kwargs), ctx)

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
            issues = pydantic_issues(cast("ValidationError", error), args)
            raise ToolValidationError("\n".join(issue.text for issue in issues)) from error


class RawTool(_DecidesTraits):
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
        validate: ValidateFunction | None,
        preview: PreviewFunction | None,
    ) -> None:
        if not TOOL_NAME.fullmatch(name):
            raise ToolDefinitionError("tool: no usable name; use letters, digits, '_' and '-'", tool=name)
        self._fn: Any = fn
        self._is_async = is_async(fn)
        self._decides = functions(traits)
        self.validate: Validate | None = as_validate(validate, name)
        self.preview: Preview | None = as_preview(preview, name)
        self._spec = ToolSpec(
            name=name,
            description=description,
            schema=copy.deepcopy(dict(schema)) or {"type": "object"},
            **plain_traits(traits, name),
        )

    def __repr__(self) -> str:
        return f"<tool {self._spec.name!r}>"

    @property
    def spec(self) -> ToolSpec:
        _ = self._validator  # an invalid schema is told at registration
        return self._spec

    @functools.cached_property
    def _validator(self) -> "Validator":
        return compile_schema(self._spec.schema, self._spec.name)

    def check_arguments(self, args: JSON, /) -> Sequence[ValidationIssue]:
        return schema_issues(self._validator, args)

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        if self._is_async:
            result: object = await self._fn(args, ctx)
            return result
        return await call_in_thread(functools.partial(self._fn, args, ctx), ctx)


def _json(args: JSON) -> bytes:
    return _encode(args if type(args) is dict else dict(args))
