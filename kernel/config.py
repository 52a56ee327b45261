"""What a run is given: one frozen configuration, one context of values and live objects.

Read with: ``hooks.py`` (code of the host), ``loop.py``, ``limits.py``.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from .abort import Abort, Inbox
from .clock import SystemClock
from .codec import Codec
from .events import Lineage
from .hooks import Hooks
from .limits import Limits, Retry
from .messages import AgentMessage
from .ports import CallOptions, ChatModel, Clock, ContextManager, EventLog, SystemBlock, Tool
from .state import AgentState
from .texts import DEFAULT_TEXTS, Texts

_LIMITS, _RETRY, _OPTIONS, _HOOKS = Limits(), Retry(), CallOptions(), Hooks()  # immutable, so shared
QueueMode: TypeAlias = Literal["all", "one"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopConfig:
    """How a run is done; only ``model`` is required.

    ``steering_mode`` and ``follow_up_mode`` say whether all queued messages are delivered together or
    one before each model call. ``refresh`` is read once per turn and gives the settings to go on with.
    ``rand`` is the source of jitter, in [0, 1). ``log`` is written ahead; a consumer that keeps its
    own log leaves it out. ``lineage`` says whose child the session is, where it is nested in another.
    """

    model: ChatModel
    limits: Limits = _LIMITS
    retry: Retry = _RETRY
    options: CallOptions = _OPTIONS
    context: ContextManager | None = None
    hooks: Hooks = _HOOKS
    texts: Texts = DEFAULT_TEXTS
    steering_mode: QueueMode = "all"
    follow_up_mode: QueueMode = "all"
    inbox: Inbox | None = None
    abort: Abort | None = None
    log: EventLog | None = None
    refresh: "Callable[[], Settings] | None" = None
    clock: Clock = field(default_factory=SystemClock)
    codec: Codec = field(default_factory=Codec)
    rand: Callable[[], float] = random.random
    agent: str = "agent"
    lineage: Lineage | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentContext:
    """What a run starts from: values and live objects, never logged as such.

    ``run_context`` is seen by tools and hooks, never by the model. ``state``, given to go on with a
    session, wins over ``messages``.
    """

    messages: Sequence[AgentMessage] = ()
    tools: Sequence[Tool] = ()
    system: str | Sequence[SystemBlock] = ""
    run_context: Mapping[str, Any] | None = None
    state: AgentState | None = None


class Settings(NamedTuple):
    """What may change while a run goes on: everything of ``config`` that the run is not bound to (its
    inbox, abort, log, clock and codec), and tools, system prompt and run context of ``context``."""

    config: LoopConfig
    context: AgentContext
