"""What comes next, as a table over the state: pure, read top to bottom, first match wins.

Where a run stands is a value, so that going on after a retry, a pause, a crash or a fork is one
and the same thing: look at the state, take the next step.

Read with: ``state.py``, ``loop.py`` (which performs the steps), ``tests/kernel/test_steps.py``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from .limits import Limits
from .state import AgentState, Turn


class End(Struct, frozen=True, gc=False):
    """The run is over for ``reason``."""

    reason: str


class RunTools(Struct, frozen=True, gc=False):
    """Calls of the open turn may run, or their results are still to be committed."""


class Pause(Struct, frozen=True, gc=False):
    """Only a person can let the run go on."""


class CloseTurn(Struct, frozen=True, gc=False):
    """The reply and all results are in."""


class AskModel(Struct, frozen=True, gc=False):
    """The model is to be asked."""


class TryStop(Struct, frozen=True, gc=False):
    """Nothing is left to do: the stop guard may still object."""

    trigger: Literal["end_turn", "stop_after_tool"]


class Deliver(Struct, frozen=True, gc=False):
    """Queued messages go into the transcript: prompts and steering, or follow-ups."""

    lanes: tuple[str, ...]


class AskToContinue(Struct, frozen=True, gc=False):
    """The reply was cut by the output limit: ask the model to go on."""


Step: TypeAlias = End | RunTools | Pause | CloseTurn | AskModel | TryStop | Deliver | AskToContinue

_RUN_TOOLS, _PAUSE, _CLOSE_TURN, _ASK, _CONTINUE = (
    RunTools(),
    Pause(),
    CloseTurn(),
    AskModel(),
    AskToContinue(),
)
_PROMPTS = Deliver(("prompt", "steering"))
_FOLLOW_UPS = Deliver(("follow_up",))


def next_step(state: AgentState, limits: Limits, *, aborted: bool = False, one_by_one: bool = False) -> Step:
    """The next step of the run that ``state`` shows. Rows as in the design's table.

    ``one_by_one``: a turn takes one steering message, not all.
    """
    if not state.active:
        return End(state.end_reason)
    if aborted:
        return End("aborted")
    if state.failed:
        return End("stop_guard" if state.failed == "stop_guard" else "error")
    bounded = limits.cost is not None or limits.tool_calls is not None or limits.tokens is not None
    if bounded and (reached := limit_reached(state, limits)):
        return End(reached)
    if state.turn is not None:
        return _in_turn(state, state.turn, one_by_one)
    return _between_turns(state, limits)


def limit_reached(state: AgentState, limits: Limits) -> str:
    """The end reason of a limit on calls, cost or tokens that is used up, or ``""``.

    The limit on calls ends a run only when the model wants one call more.
    """
    if limits.cost is not None or limits.tokens is not None:
        used = state.total_run_usage
        if limits.cost is not None and used.cost and used.cost.total >= limits.cost:
            return "budget"
        if limits.tokens is not None and used.total_tokens >= limits.tokens:
            return "budget"
    if limits.tool_calls is None or state.dispatches < limits.tool_calls or state.turn is None:
        return ""
    wanted = (call.stage in ("requested", "started", "waiting") for call in state.turn.calls.uncommitted)
    return "max_tool_calls" if any(wanted) else ""


def _in_turn(state: AgentState, turn: Turn, one_by_one: bool) -> Step:
    if not turn.reply_id:
        answerable = state.tail in ("user", "tool")
        if state.prompts or state.taken or (state.steering and not (one_by_one and answerable)):
            return _PROMPTS
        return _ASK if answerable else _CLOSE_TURN
    if turn.calls.committed == len(turn.calls):
        return _CLOSE_TURN
    waiting = any(call.stage == "waiting" for call in turn.calls.uncommitted)
    if waiting and not (state.steering or state.prompts):
        return _PAUSE  # nothing runs until it is decided
    return _RUN_TOOLS


def _between_turns(state: AgentState, limits: Limits) -> Step:
    turns_left = state.turns < limits.turns
    if state.terminal:
        return TryStop("stop_after_tool")
    if state.taken or ((state.prompts or state.steering) and turns_left):
        return _PROMPTS
    if state.cut and turns_left and state.recoveries < limits.length_recoveries:
        return _CONTINUE
    if state.tail in ("user", "tool"):
        return _ASK if turns_left else End("max_turns")
    if state.prompts or state.steering:
        return End("max_turns")
    if state.follow_ups:
        return _FOLLOW_UPS if turns_left else End("max_turns")
    return TryStop("end_turn")
