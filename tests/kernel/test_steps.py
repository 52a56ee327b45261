"""The decision table as a table: a state, the step that must follow. No loop, no clock, no model."""

import pytest

from unspool.kernel import AgentState, Cost, Limits, ToolCall, Usage, next_step, user_message
from unspool.kernel.call_states import CallState, call_states
from unspool.kernel.state import Queued, Turn
from unspool.kernel.steps import (
    AskModel,
    AskToContinue,
    CloseTurn,
    Deliver,
    End,
    Pause,
    RunTools,
    Step,
    TryStop,
)


def running(**fields: object) -> AgentState:
    return AgentState(active=True, **fields)  # type: ignore[arg-type]  # each row names real fields


def turn(*stages: str) -> Turn:
    calls = [CallState(ToolCall(id=f"c{n}", name="t"), stage) for n, stage in enumerate(stages)]
    return Turn(1, "m2", call_states(calls))


def queued(lane: str) -> tuple[Queued, ...]:
    return (Queued("q1", lane, user_message("hi")),)


SPENT = Usage(cost=Cost(output=2.0))
OPEN = Turn(1)
PROMPTS, FOLLOW_UPS = Deliver(("prompt", "steering")), Deliver(("follow_up",))

ROWS: dict[str, tuple[AgentState, Limits, bool, Step]] = {
    "0 ended": (AgentState(end_reason="stop"), Limits(), False, End("stop")),
    "0 abort beats everything": (running(turn=turn("requested")), Limits(), True, End("aborted")),
    "0 abort beats a finished answer": (running(tail="assistant"), Limits(), True, End("aborted")),
    "0 cost used up": (running(run_usage=SPENT, tail="user"), Limits(cost=2.0), False, End("budget")),
    "0 tokens used up": (
        running(run_usage=Usage(input_tokens=8, output_tokens=2), tail="user"),
        Limits(tokens=10),
        False,
        End("budget"),
    ),
    "0 one call too many": (
        running(turn=turn("committed", "requested"), dispatches=1),
        Limits(tool_calls=1),
        False,
        End("max_tool_calls"),
    ),
    "0 calls used up, none wanted": (
        running(turn=turn("committed"), dispatches=1),
        Limits(tool_calls=1),
        False,
        CloseTurn(),
    ),
    "1 the reply failed": (running(failed="safety", turn=Turn(1, "m2")), Limits(), False, End("error")),
    "1 the guard failed the run": (running(failed="stop_guard"), Limits(), False, End("stop_guard")),
    "2 calls requested": (running(turn=turn("requested", "requested")), Limits(), False, RunTools()),
    "2 a call in doubt": (running(turn=turn("dispatched")), Limits(), False, RunTools()),
    "2 ended, not committed": (running(turn=turn("ended")), Limits(), False, RunTools()),
    "3 one before the one that waits": (
        running(turn=turn("requested", "waiting")),
        Limits(),
        False,
        Pause(),
    ),
    "2 a message came before the decision": (
        running(turn=turn("waiting"), steering=queued("steering")),
        Limits(),
        False,
        RunTools(),
    ),
    "3 waiting": (running(turn=turn("committed", "waiting")), Limits(), False, Pause()),
    "3 the rest is held back": (running(turn=turn("waiting", "requested")), Limits(), False, Pause()),
    "4 all in": (running(turn=turn("committed", "committed")), Limits(), False, CloseTurn()),
    "4 no calls": (running(turn=Turn(1, "m2")), Limits(), False, CloseTurn()),
    "5 open without a reply": (running(turn=OPEN, tail="user"), Limits(), False, AskModel()),
    "5 a prompt first": (running(turn=OPEN, prompts=queued("prompt")), Limits(), False, PROMPTS),
    "5 a taken one first": (running(turn=OPEN, taken=queued("prompt")), Limits(), False, PROMPTS),
    "6 terminal tool": (running(terminal=True, tail="tool"), Limits(), False, TryStop("stop_after_tool")),
    "6 steering stays queued": (
        running(terminal=True, tail="tool", steering=queued("steering")),
        Limits(),
        False,
        TryStop("stop_after_tool"),
    ),
    "7 prompts": (running(prompts=queued("prompt")), Limits(), False, PROMPTS),
    "7 steering": (running(tail="assistant", steering=queued("steering")), Limits(), False, PROMPTS),
    "7 no turns left: it stays queued": (
        running(tail="tool", steering=queued("steering"), turns=2),
        Limits(turns=2),
        False,
        End("max_turns"),
    ),
    "8 cut": (running(cut=True, tail="assistant"), Limits(), False, AskToContinue()),
    "8 steering first": (
        running(cut=True, tail="assistant", steering=queued("steering")),
        Limits(),
        False,
        PROMPTS,
    ),
    "8 no recoveries left": (
        running(cut=True, tail="assistant", recoveries=3),
        Limits(),
        False,
        TryStop("end_turn"),
    ),
    "8 no turns left": (
        running(cut=True, tail="assistant", turns=1),
        Limits(turns=1),
        False,
        TryStop("end_turn"),
    ),
    "9 a user message": (running(tail="user"), Limits(), False, AskModel()),
    "9 tool results": (running(tail="tool"), Limits(), False, AskModel()),
    "10 no turns left": (running(tail="tool", turns=3), Limits(turns=3), False, End("max_turns")),
    "11 follow-ups": (running(tail="assistant", follow_ups=queued("follow_up")), Limits(), False, FOLLOW_UPS),
    "11 no turns left": (
        running(tail="assistant", follow_ups=queued("follow_up"), turns=1),
        Limits(turns=1),
        False,
        End("max_turns"),
    ),
    "12 nothing left": (running(tail="assistant"), Limits(), False, TryStop("end_turn")),
}


@pytest.mark.parametrize("row", ROWS)
def test_next_step(row: str) -> None:
    state, limits, aborted, expected = ROWS[row]
    assert next_step(state, limits, aborted=aborted) == expected


def test_steering_one_by_one_leaves_the_second_for_the_next_turn() -> None:
    taken = running(turn=OPEN, tail="user", steering=queued("steering"))
    assert next_step(taken, Limits(), one_by_one=True) == AskModel()
    assert next_step(taken, Limits()) == PROMPTS
