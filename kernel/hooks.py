"""Code of the host that runs at fixed points of a run, and what it is shown and may answer.

Every hook may be a plain function or an ``async`` one. Where nothing else is said, a hook that raises
ends the run as failed; a gate that raises denies. Hooks are not announced: they run before the
consumer has seen an effect, and must leave none.

Read with: ``config.py``, ``loop.py``, ``tool_prepare.py``, ``model_call.py``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from .events import ModelResponse, ToolExecEnd
from .messages import AgentMessage, Message, ToolCall
from .ports import JSON, CallOptions, ModelRequest, ToolContext, ToolSpec
from .state import AgentState

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""What a hook may give: a value, or something to await for it."""


class TurnInfo(Struct, frozen=True):
    """What a turn hook is shown. ``index`` counts from 1 within the run."""

    index: int
    state: AgentState


class StopInfo(Struct, frozen=True):
    """What the stop guard is shown: after which turn, the last reply, and what made the run stop."""

    turns: int
    reply: AgentMessage | None
    trigger: Literal["end_turn", "stop_after_tool"]
    state: AgentState


class StopVerdict(Struct, frozen=True):
    """The stop guard's answer.

    ``stop`` lets the run end. ``go_on`` commits ``text`` as a user message and goes on; without
    text it cannot. ``fail`` ends the run as failed, with ``text`` as the reason.
    """

    decision: Literal["stop", "go_on", "fail"] = "stop"
    text: str = ""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a call may run: what a gate answers, and a person.

    ``allow`` runs it, with ``args`` instead of its own where given; they are checked like those of
    the model. ``deny`` tells the model ``reason``. ``ask`` (a gate's only) has a person decide.

    ``by`` (who or what decided), ``reason`` and ``details`` (a JSON object) are recorded with the call. What a
    person says with it reaches the gate and the tool: ``ToolUse.decision``, ``ToolContext.decision``.
    """

    decision: Literal["allow", "deny", "ask"]
    args: dict[str, Any] | None = None
    reason: str = ""
    by: str = ""
    details: dict[str, Any] = {}

    @staticmethod
    def allow(
        args: dict[str, Any] | None = None,
        *,
        by: str = "",
        reason: str = "",
        details: dict[str, Any] | None = None,
    ) -> "Verdict":
        """Let the call run."""
        return Verdict(decision="allow", args=args, reason=reason, by=by, details=details or {})

    @staticmethod
    def deny(reason: str = "", *, by: str = "", details: dict[str, Any] | None = None) -> "Verdict":
        """Do not let it run."""
        return Verdict(decision="deny", reason=reason, by=by, details=details or {})

    @staticmethod
    def ask(reason: str = "", *, by: str = "", details: dict[str, Any] | None = None) -> "Verdict":
        """Have a person decide."""
        return Verdict(decision="ask", reason=reason, by=by, details=details or {})


Decisions: TypeAlias = Verdict | Mapping[str, Verdict]
"""One verdict for all calls that wait, or one for each by call id; a call without one is declined."""


class ToolUse(Struct, frozen=True):
    """A call as gates and middlewares see it.

    ``spec`` is the tool's as it holds for ``args``; ``args`` are those that would run, ``call`` holds
    those the model asked for. ``approved`` says that a person has let it pass, ``decision`` what they said.
    """

    call: ToolCall
    spec: ToolSpec
    args: JSON
    ctx: ToolContext
    state: AgentState
    preview: JSON | None = None
    approved: bool = False
    decision: Verdict | None = None


class ApprovalInfo(Struct, frozen=True):
    """Calls that wait for a person; by call id, why a gate asked, what a tool that can tell is going
    to do, and the gate's ``Verdict.details``."""

    calls: tuple[ToolCall, ...]
    reasons: Mapping[str, str]
    previews: Mapping[str, JSON]
    state: AgentState
    details: Mapping[str, JSON] = {}


class ModelCallInfo(Struct, frozen=True):
    """A model call that is about to be made. ``attempt`` counts from 1 within the turn."""

    request: ModelRequest
    attempt: int
    state: AgentState


class ReplyInfo(Struct, frozen=True):
    """What a model call came to. ``reply`` is None where it failed."""

    reply: Message | None
    response: ModelResponse
    state: AgentState


Messages: TypeAlias = Sequence[str | AgentMessage] | None
BeforeTurn: TypeAlias = Callable[[TurnInfo], MaybeAwaitable[Messages]]
AfterTurn: TypeAlias = Callable[[TurnInfo], MaybeAwaitable[None]]
BeforeModelCall: TypeAlias = Callable[[ModelCallInfo], MaybeAwaitable[CallOptions | Message | None]]
BeforeRequest: TypeAlias = Callable[[Sequence[Message]], MaybeAwaitable[Sequence[Message]]]
AfterModelCall: TypeAlias = Callable[[ReplyInfo], MaybeAwaitable[None]]
Gate: TypeAlias = Callable[[ToolUse], MaybeAwaitable[Verdict]]
"""Decides on a call that fits its tool. See ``Hooks.gate``."""
Approve: TypeAlias = Callable[[ApprovalInfo], MaybeAwaitable[Decisions | None]]
"""Decides on calls that wait; None pauses the run. See ``Hooks.approve``."""
CallNext: TypeAlias = Callable[[], Awaitable[object]]
"""What a middleware calls to go on: the next one, or the tool."""
MakesResultMessage: TypeAlias = Callable[[ToolCall, Message], AgentMessage | None]
Middleware: TypeAlias = Callable[[ToolUse, CallNext], Awaitable[object]]
"""Runs around the execution of a call; what it returns is the result. See ``Hooks.middlewares``."""
StopGuard: TypeAlias = Callable[[StopInfo], MaybeAwaitable[StopVerdict]]
BeforeStop: TypeAlias = Callable[[StopInfo], MaybeAwaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """Where a host takes part in a run.

    - ``before_turn`` runs after ``turn_start`` and may give messages to commit before the model is
      asked; ``after_turn`` after ``turn_end`` of a turn that was not cut short.
    - ``before_model_call`` sees each request; it may give other options for this call, or the reply
      itself, in place of the model. ``before_request`` rewrites the lowered messages of one call; the
      transcript stays as it is. ``after_model_call`` sees what came of each call.
    - ``gate`` decides on each call that fits its tool; what is no ``Verdict`` denies, None too. ``approve`` decides, in place of a pause, on
      calls that wait for a person; None pauses the run after all. ``middlewares`` run around each
      execution, the first outermost; what they return is the result.
    - ``tool_result_message`` may give the message that a result becomes, from the call and the plain
      message; it must lower to a ``tool`` message of the same call.
    - ``stop_after_tool`` says of a successful call whether the run shall stop after its turn.
    - ``stop_guard`` may keep a run from stopping normally; it is not asked about aborts, errors or
      limits. ``before_stop`` then may take its time before the run closes, to speak the last reply for
      instance: what is queued meanwhile is still answered, and an abort that says what was heard of the
      reply (``keep``) leaves that much of it.
    """

    before_turn: BeforeTurn | None = None
    after_turn: AfterTurn | None = None
    before_model_call: BeforeModelCall | None = None
    before_request: BeforeRequest | None = None
    after_model_call: AfterModelCall | None = None
    gate: Gate | None = None
    approve: Approve | None = None
    middlewares: Sequence[Middleware] = ()
    tool_result_message: MakesResultMessage | None = None
    stop_after_tool: Callable[[ToolExecEnd], bool] | None = None
    stop_guard: StopGuard | None = None
    before_stop: BeforeStop | None = None
