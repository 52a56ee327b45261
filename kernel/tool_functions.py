"""The functions a tool is made of, sync or async, and what ``validate`` and ``preview`` may answer.

Read with: ``function_tool.py`` (the caller), ``ports.py`` (``Validates``, ``Previews``).
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias, cast

from .errors import ToolDefinitionError
from .ports import JSON, Refused, ToolContext
from .threads import in_thread

# of (args, ctx); of a method's tool also of (self, args, ctx)
ValidateFunction: TypeAlias = Callable[..., Refused | str | Awaitable[Refused | str | None] | None]
PreviewFunction: TypeAlias = Callable[..., JSON | str | Awaitable[JSON | str]]
Validate: TypeAlias = Callable[[JSON, ToolContext], Coroutine[Any, Any, Refused | None]]
Preview: TypeAlias = Callable[[JSON, ToolContext], Coroutine[Any, Any, JSON]]


def is_async(fn: Callable[..., object]) -> bool:
    """Whether calling ``fn`` gives a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


async def call_in_thread(call: Callable[[], object], ctx: ToolContext) -> object:
    """The result of a synchronous function; one that turns out to be awaitable is awaited."""
    result = await in_thread(call, lambda: ctx.cancelled)
    return await result if inspect.isawaitable(result) else result


def of_instance(fn: Callable[..., Any] | None, instance: object) -> Any:
    """``fn`` for the tool of ``instance``: one of (self, args, ctx) is bound to it."""
    if fn is None or len(inspect.signature(fn).parameters) != len(("self", "args", "ctx")):
        return fn
    return functools.partial(fn, instance)


def as_validate(fn: ValidateFunction | None, tool: str) -> Validate | None:
    """The ability ``validate`` of ``tool``: a text is a refusal. None where there is no function."""
    if fn is None:
        return None
    answer_of = _asker(fn)

    async def validate(args: JSON, ctx: ToolContext, /) -> Refused | None:
        answer = await answer_of(args, ctx)
        if isinstance(answer, str):
            return Refused(answer)
        if answer is None or isinstance(answer, Refused):
            return answer
        # a False that is meant as "no" must not pass for "nothing to object to"
        raise ToolDefinitionError(
            "tool: validate must give None, a text or Refused", tool=tool, got=type(answer).__name__
        )

    return validate


def as_preview(fn: PreviewFunction | None, tool: str) -> Preview | None:
    """The ability ``preview`` of ``tool``: a text becomes ``{"text": …}``. None where there is no function."""
    if fn is None:
        return None
    answer_of = _asker(fn)

    async def preview(args: JSON, ctx: ToolContext, /) -> JSON:
        answer = await answer_of(args, ctx)
        if isinstance(answer, str):
            return {"text": answer}
        if isinstance(answer, Mapping):
            return answer
        raise ToolDefinitionError(
            "tool: preview must give a JSON object or a text", tool=tool, got=type(answer).__name__
        )

    return preview


def _asker(fn: Callable[[JSON, ToolContext], object]) -> Callable[[JSON, ToolContext], Awaitable[object]]:
    """``fn`` as something to await."""
    if is_async(fn):
        return cast("Callable[[JSON, ToolContext], Awaitable[object]]", fn)

    async def ask(args: JSON, ctx: ToolContext) -> object:
        return await call_in_thread(functools.partial(fn, args, ctx), ctx)

    return ask
