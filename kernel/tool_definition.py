"""A typed function read as the definition of a tool: its spec, and how its arguments are decoded.

What a look at the signature shows is refused at once, what needs the annotations with the first use
of ``spec``. pydantic is loaded with that, never by an import of unspool. Decoding is strict JSON;
parameters typed as a model of your own follow the configuration of that model.

Read with: ``function_tool.py`` (the caller), ``type_schema.py``, ``docstrings.py``.
"""

import functools
import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast, get_args, get_origin, get_type_hints

import msgspec

from .docstrings import read_docstring
from .errors import ToolDefinitionError
from .ports import ToolContext, ToolSpec
from .redaction import holds_key
from .tool_traits import Traits, plain_traits
from .type_schema import arguments_adapter, arguments_schema, no_json_form

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_encode = msgspec.json.Encoder().encode


class ToolDefinition:
    """What a function's signature, annotations and docstring say; shared by a method's bound tools.

    A ``name`` or ``description`` that is given goes before what the function says.
    """

    def __init__(self, fn: Callable[..., object], name: str, description: str, traits: Traits) -> None:
        self.target = _target(fn)
        self.name = name or getattr(self.target, "__name__", "")
        self.is_method = False
        self._hidden = fn.keywords if isinstance(fn, functools.partial) else {}
        self._docs = read_docstring(self.target.__doc__ or "")
        self._description = description or self._docs.description
        self._traits = plain_traits(traits, self.name)
        self._parameters = self._read_signature(fn)

    def _refuse(self, what: str, **details: Any) -> ToolDefinitionError:
        return ToolDefinitionError(f"tool: {what}", tool=self.name or repr(self.target), **details)

    def _read_signature(self, fn: Callable[..., object]) -> list[inspect.Parameter]:
        if isinstance(fn, staticmethod | classmethod):
            raise self._refuse("put @staticmethod above @tool; make tools of bound class methods")
        if inspect.isclass(fn):
            raise self._refuse("a class can't be a tool; write a function that makes one")
        if not TOOL_NAME.fullmatch(self.name):
            raise self._refuse("no usable name; give one of letters, digits, '_' and '-': tool(fn, name=...)")
        if inspect.isasyncgenfunction(self.target) or inspect.isgeneratorfunction(self.target):
            raise self._refuse("a generator can't be a tool; return the result, tell progress by ToolContext")
        if holds_key(self.name):
            raise self._refuse("its name holds a key of a model provider")
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
    def _adapter(self) -> "TypeAdapter[dict[str, Any]]":
        fields = {p.name: self._field(p) for p in self._parameters if p.name in self.hints}
        with self._no_json_form():
            return arguments_adapter({name: field for name, field in fields.items() if field is not None})

    def _no_json_form(self) -> AbstractContextManager[None]:
        return no_json_form(
            "tool: a parameter has no JSON form; use JSON types, pydantic models or dataclasses, or bind "
            "it with functools.partial",
            tool=self.name,
        )

    def _field(self, parameter: inspect.Parameter) -> Any:
        """The parameter as a field of a TypedDict; None for one that is injected."""
        from pydantic import Field  # noqa: PLC0415  # 50 ms and more that an import of unspool must not cost
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
        with self._no_json_form():
            schema = arguments_schema(self._adapter)
        for parameter in self._parameters:
            shown = schema.get("properties", {}).get(parameter.name)
            if shown is not None and parameter.default is not parameter.empty:
                _show_default(shown, parameter.default)
        return ToolSpec(name=self.name, description=self._description, schema=schema, **self._traits)


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


def _show_default(field_schema: dict[str, Any], default: object) -> None:
    """Add a default that has a JSON form; the function applies it itself."""
    try:
        field_schema.setdefault("default", msgspec.to_builtins(default))
    except (TypeError, ValueError):
        return
