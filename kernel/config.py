"""What a run is given: one frozen configuration, one context of values and live objects.

Read with: ``loop.py``, ``limits.py``.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .abort import Abort, Inbox
from .clock import SystemClock
from .codec import Codec
from .events import ToolExecEnd
from .limits import Limits, Retry
from .messages import AgentMessage
from .ports import CallOptions, ChatModel, Clock, ContextManager, EventLog, SystemBlock, Tool
from .state import AgentState

DEFAULT_CONTINUE_TEXT = (
    "Your last message was cut off by the output limit. Continue exactly where it stopped; "
    "do not repeat or summarise what you already wrote."
)


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """What a turn hook is shown. ``index`` counts from 1 within the run."""

    index: int
    state: AgentState


@dataclass(frozen=True, slots=True)
class StopInfo:
    """What the stop guard is shown: after which turn, the last reply, and what made the run stop."""

    turns: int
    reply: AgentMessage | None
    trigger: Literal["end_turn", "stop_after_tool"]
    state: AgentState


@dataclass(frozen=True, slots=True)
class StopVerdict:
    """The stop guard's answer.

    ``stop`` lets the run end. ``go_on`` commits ``text`` as a user message and goes on; without
    text it cannot. ``fail`` ends the run as failed, with ``text`` as the reason.
    """

    decision: Literal["stop", "go_on", "fail"] = "stop"
    text: str = ""


Messages: TypeAlias = Sequence[str | AgentMessage] | None
BeforeTurn: TypeAlias = Callable[[TurnInfo], Awaitable[Messages]]
StopGuard: TypeAlias = Callable[[StopInfo], Awaitable[StopVerdict]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """Code of the host that runs at fixed points; a hook that raises ends the run as failed.

    ``before_turn`` runs after ``turn_start`` and may give messages to commit before the model is
    asked. ``after_turn`` runs after ``turn_end`` of a turn that was not cut short. ``stop_guard``
    may keep a run from stopping normally; it is not asked about aborts, errors or limits.
    ``stop_after_tool`` says of a successful call whether the run shall stop after its turn.
    """

    before_turn: BeforeTurn | None = None
    after_turn: Callable[[TurnInfo], Awaitable[None]] | None = None
    stop_guard: StopGuard | None = None
    stop_after_tool: Callable[[ToolExecEnd], bool] | None = None


_LIMITS, _RETRY, _OPTIONS, _HOOKS = Limits(), Retry(), CallOptions(), Hooks()  # immutable, so shared


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopConfig:
    """How a run is done; only ``model`` is required.

    ``refresh`` is read once per turn and gives the configuration to go on with. ``rand`` is the
    source of jitter, in [0, 1). ``log`` is written ahead; a consumer that keeps its own log leaves
    it out.
    """

    model: ChatModel
    limits: Limits = _LIMITS
    retry: Retry = _RETRY
    options: CallOptions = _OPTIONS
    context: ContextManager | None = None
    hooks: Hooks = _HOOKS
    inbox: Inbox | None = None
    abort: Abort | None = None
    log: EventLog | None = None
    refresh: "Callable[[], LoopConfig] | None" = None
    clock: Clock = field(default_factory=SystemClock)
    codec: Codec = field(default_factory=Codec)
    rand: Callable[[], float] = random.random
    agent: str = "agent"
    continue_text: str = DEFAULT_CONTINUE_TEXT


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
