"""What an ``Agent`` may be given, and how it becomes the settings of its runs.

Read with: ``agent.py``, ``config.py``.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from msgspec.structs import replace

from .codec import Codec
from .config import AgentContext, LoopConfig, QueueMode
from .events import Lineage
from .hooks import Hooks
from .json_edge import clean_text
from .limits import Limits, Retry
from .lowering import hash_of
from .messages import AgentMessage
from .ports import CallOptions, ChatModel, Clock, ContextManager, EventLog, SystemBlock, ThinkingLevel, Tool
from .redaction import holds_key
from .state import AgentState
from .texts import Texts


class _Shared(TypedDict, total=False):
    name: str
    thinking: ThinkingLevel | None
    limits: Limits
    retry: Retry
    options: CallOptions
    context: ContextManager | None
    hooks: Hooks
    texts: Texts
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    run_context: Mapping[str, Any] | None


class Changes(_Shared, total=False):
    """What ``configure`` may change; each counts from the next turn on.

    ``name`` is the agent's. ``thinking`` is short for the option of that name. ``run_context`` is seen by
    tools and hooks, never by the model.
    """

    model: ChatModel | str
    tools: Iterable[Tool]
    system: str | Sequence[SystemBlock]


class AgentOptions(_Shared, total=False):
    """The options of ``Agent``: what ``configure`` may change later, and what stays.

    ``log`` is written ahead. ``state`` goes on with a session: the fold of its log's facts. ``messages``
    begin a new one. ``lineage`` says whose child the session is.
    """

    log: EventLog | None
    clock: Clock
    codec: Codec
    rand: Callable[[], float]
    state: AgentState | None
    messages: Sequence[AgentMessage]
    lineage: Lineage | None


_RENAMED = {"name": "agent"}
_OF_CONTEXT = {"tools", "system", "run_context"}
_CHANGES = frozenset(Changes.__annotations__)
_OPTIONS = frozenset(AgentOptions.__annotations__) | _CHANGES


def change(
    config: LoopConfig, context: AgentContext, changes: Mapping[str, Any], *, later: bool = False
) -> tuple[LoopConfig, AgentContext]:
    """The settings with ``changes``; ``later`` allows only what may change while the agent lives.

    Raises:
        TypeError: there is no such setting, it cannot change any more, or options that are not JSON.
        ValueError: the model's name holds a key of a model provider, or the options do.
    """
    unknown = sorted(set(changes) - (_CHANGES if later else _OPTIONS))
    if unknown:
        what = "can't be changed" if later else "no such setting"
        raise TypeError(f"agent: {what}: {', '.join(unknown)}; there are {', '.join(sorted(_CHANGES))}")
    changes = dict(changes)
    if "tools" in changes:
        changes["tools"] = tuple(changes["tools"])
    thinking = {"thinking": changes.pop("thinking")} if "thinking" in changes else {}
    of_config = {_RENAMED.get(key, key): value for key, value in changes.items() if key not in _OF_CONTEXT}
    of_context = {key: value for key, value in changes.items() if key in _OF_CONTEXT}
    if "name" in changes:
        of_config["agent"] = clean_text(changes["name"])
    if "options" in changes:
        hash_of(changes["options"])  # refused here, not by a run: what cannot be recorded
    if (manager := changes.get("context")) is not None:
        check_manager(manager)
    config = dataclasses.replace(config, **of_config)
    if holds_key(config.model.name):
        raise ValueError("model: its name is recorded and holds no secrets, give keys to the model")
    if thinking:
        config = dataclasses.replace(config, options=_with_thinking(config.options, thinking["thinking"]))
    return config, dataclasses.replace(context, **of_context) if of_context else context


def check_manager(manager: object) -> None:
    """See that something is a context manager.

    Raises:
        TypeError: it lacks a method of one, or is a class or function that makes one.
    """
    names = ("project", "compact", "sync", "usage", "snapshot")
    missing = [name for name in names if not callable(getattr(manager, name, None))]
    if missing or isinstance(manager, type):
        raise TypeError(
            f"agent: no context manager: {manager!r} (missing={missing}); give the manager itself, as in "
            "context=context.default()"
        )


def _with_thinking(options: CallOptions, thinking: ThinkingLevel | None) -> CallOptions:
    return replace(options, thinking=thinking)
