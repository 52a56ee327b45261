"""Context managers by name, for command lines, and as they describe themselves in a log.

Read with: ``presets.py``, ``engine.py`` (``describe``).
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from unspool.kernel.ports import BlobStore, ContextManager

from .clearing import ClearToolResults
from .duplicates import CollapseDuplicateReads
from .economy import Prices
from .engine import Engine
from .extract import ExtractiveSummary
from .keeping import KeepTokens, KeepTurns
from .offloading import OffloadToolResults
from .presets import default, keep_tokens, keep_turns, none
from .priorities import ReduceByPriority
from .provider import DropCompacted
from .squeezing import Squeeze
from .summary import SummaryCheckpoint
from .tokens import TextCounter
from .trimming import TrimText
from .work import Strategy

NAMES: Final = ("none", "default", "keep_turns:N", "keep_tokens:N", "clear:N", "MODULE:FACTORY")


def clear(keep: int, *, window: int = 0, counter: TextCounter | str = "auto") -> Engine:
    """Clears old tool results, all but the newest ``keep``, and nothing else."""
    return Engine(
        [ClearToolResults(keep=keep)], window=window, counter=counter, name="clear", settings={"keep": keep}
    )


_PRESETS: Final[Mapping[str, Callable[..., Engine]]] = {
    "none": none,
    "default": default,
    "keep_turns": keep_turns,
    "keep_tokens": keep_tokens,
    "clear": clear,
}
_ENGINE: Final = frozenset(inspect.signature(Engine).parameters)
_COUNTED: Final = frozenset({"keep_turns", "keep_tokens", "clear"})  # that take a number
_STRATEGIES: Final[Mapping[str, Callable[..., Strategy]]] = {
    each.name: each
    for each in (
        ClearToolResults,
        CollapseDuplicateReads,
        DropCompacted,
        ExtractiveSummary,
        KeepTokens,
        KeepTurns,
        OffloadToolResults,
        ReduceByPriority,
        Squeeze,
        SummaryCheckpoint,
        TrimText,
    )
}


def manager_named(spec: str, *, window: int = 0, counter: TextCounter | str = "auto") -> ContextManager:
    """The manager that is meant by a name: a preset, with its number where it takes one, or what a factory gives.

    ``window`` and ``counter`` are for presets. A factory is a callable without arguments.

    Raises:
        ValueError: there is none of this name, its number is missing or wrong, or there is no such factory.
    """
    name, _, argument = spec.partition(":")
    preset = _preset(name)
    if preset is None:
        if not argument:
            raise ValueError(f"context: no such manager: {spec!r}, there are {', '.join(NAMES)}")
        return _made_by(name, argument)
    if name not in _COUNTED:
        if argument:
            raise ValueError(f"context: {name} takes no number (given={spec!r})")
        return preset(window=window, counter=counter)
    if not (argument.isascii() and argument.isdigit() and int(argument)):
        raise ValueError(f"context: {name} takes a number above 0, as in {name}:10 (given={spec!r})")
    return preset(int(argument), window=window, counter=counter)


def _preset(name: str) -> Callable[..., Engine] | None:
    return _PRESETS.get(name)


def _made_by(module: str, factory: str) -> ContextManager:
    """What a callable of a module gives.

    Raises:
        ValueError: there is no such module or callable, or what it gives is no context manager.
    """
    try:
        made = getattr(importlib.import_module(module), factory)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"context: {module}:{factory} gives no manager: {error}") from error
    if not all(callable(getattr(made, name, None)) for name in ("project", "compact", "sync")):
        raise ValueError(
            f"context: {module}:{factory} gives no context manager but {type(made).__name__}, which has no "
            "project, compact and sync"
        )
    return cast("ContextManager", made)


def manager_of(
    description: Mapping[str, Any],
    *,
    counter: TextCounter | str = "auto",
    blobs: BlobStore | None = None,
) -> ContextManager:
    """A manager that describes itself as ``description`` does: what ``agent_start.context`` holds.

    ``blobs`` is where one that offloads results puts them.

    Raises:
        ValueError: it is of a class that is not from here, or has settings that a description does not hold.
    """
    name = str(description.get("manager", ""))
    given = {"counter": counter, "blobs": blobs, "prices": _prices(description.get("prices"))}
    if (preset := _preset(name)) is not None:
        made = _called(preset, {**description, **given})
        if made is not None and _describes(made, description):
            return cast("ContextManager", made)
    listed = description.get("strategies")  # another's description may hold anything
    strategies = [_strategy(each, given) for each in listed] if isinstance(listed, list | tuple) else [None]
    if name and all(each is not None for each in strategies):
        rest = {key: value for key, value in description.items() if key not in (*_ENGINE, "manager")}
        settings = {**description, **given, "strategies": strategies, "name": name, "settings": rest}
        made = _called(Engine, settings)
        if made is not None and _describes(made, description):
            return cast("ContextManager", made)
    raise ValueError(f"context: the manager cannot be made again from its description (manager={name!r})")


def _prices(described: object) -> Prices:
    """Prices as an engine describes them."""
    try:
        return msgspec.convert(described, Prices)
    except msgspec.ValidationError:
        return Prices()


def _strategy(description: object, given: Mapping[str, Any]) -> object | None:
    """A strategy that describes itself like that; None for one that is not from here."""
    if not isinstance(description, Mapping):
        return None
    make = _STRATEGIES.get(str(description.get("strategy", "")))
    return None if make is None else _called(make, {**description, **given})


def _called(make: Callable[..., Any], settings: Mapping[str, Any]) -> object | None:
    """What ``make`` gives for those of the settings that it takes; None where one is missing or wrong."""
    taken = inspect.signature(make).parameters
    try:
        return cast("object", make(**{key: value for key, value in settings.items() if key in taken}))
    except (TypeError, ValueError):
        return None


def _describes(made: object, description: Mapping[str, Any]) -> bool:
    """Whether ``made`` says of itself what is described; it may count by another name, and the same."""
    assert isinstance(made, Engine)  # presets are
    said = {**msgspec.to_builtins(made.describe()), "counter": description.get("counter")}
    return said == {"counter": None, **description}
