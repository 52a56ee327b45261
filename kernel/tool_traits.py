"""The traits of a tool, each a value or a function of a call's arguments.

Read with: ``ports.py`` (``ToolSpec``, ``DecidesTraits``), ``function_tool.py`` (the caller).
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

import msgspec
from msgspec import Struct

from .errors import ToolDefinitionError
from .json_edge import clean_text, plain_json
from .ports import JSON, ToolSpec

V = TypeVar("V")
ByArguments: TypeAlias = V | Callable[[JSON], V]


class Traits(TypedDict, total=False):
    """The options of ``tool`` and ``raw_tool``: the fields of ``ToolSpec`` of the same names.

    A function of the arguments decides for each call; the spec then holds the careful choice.
    """

    title: ByArguments[str]
    activity: ByArguments[str]
    read_only: ByArguments[bool | None]
    concurrency_safe: ByArguments[bool | None]
    destructive: ByArguments[bool | None]
    idempotent: ByArguments[bool | None]
    open_world: ByArguments[bool | None]
    interrupt: ByArguments[Literal["block", "cancel"]]
    needs_approval: ByArguments[bool]
    timeout_s: ByArguments[float | None]
    max_result_bytes: ByArguments[int | None]
    strict: bool | None
    deferred: bool
    meta: dict[str, Any]


_Decide: TypeAlias = Callable[[JSON], Any]


class _Decidable(Struct, frozen=True, kw_only=True):
    """The traits that may be functions: what those may answer, and what stands until they are asked."""

    title: str = ""
    activity: str = ""
    read_only: bool | None = None
    concurrency_safe: bool | None = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    interrupt: Literal["block", "cancel"] = "block"
    needs_approval: bool = True
    timeout_s: float | None = None
    max_result_bytes: int | None = None


_CAREFUL = _Decidable()


def functions(traits: Traits) -> dict[str, _Decide]:
    """The traits that are functions."""
    return {name: value for name, value in traits.items() if callable(value)}


def plain_traits(traits: Traits, tool: str) -> dict[str, Any]:
    """The traits for the spec, with the careful choice where one is a function.

    Raises:
        ToolDefinitionError: a trait of ``tool`` is a function and may not be.
    """
    decides = functions(traits)
    for name in decides.keys() - set(_Decidable.__struct_fields__):
        raise ToolDefinitionError("tool: this trait can't be a function", tool=tool, trait=name)
    plain: dict[str, Any] = {
        name: getattr(_CAREFUL, name) if name in decides else value for name, value in traits.items()
    }
    for name in ("title", "activity"):  # facts show them
        if isinstance(plain.get(name), str):
            plain[name] = clean_text(plain[name])
    if "meta" in plain:
        plain["meta"] = plain_json(plain["meta"])  # as it comes back from a log
    return plain


def decided(spec: ToolSpec, decides: Mapping[str, _Decide], args: JSON) -> ToolSpec:
    """``spec`` as it holds for ``args``.

    Raises what a function raises, and ``msgspec.ValidationError`` for an answer of another type:
    made of arguments nobody has checked, it would go into the log and could not be read back.
    """
    given: dict[str, Any] = {name: decide(args) for name, decide in decides.items()}
    answers = msgspec.convert(
        {name: clean_text(value) if isinstance(value, str) else value for name, value in given.items()},
        _Decidable,
    )
    return msgspec.structs.replace(spec, **{name: getattr(answers, name) for name in decides})
