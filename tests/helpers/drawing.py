"""Strategies for random scenarios.

Read with: ``scenarios.py``.
"""

from typing import Any

from hypothesis import strategies as st
from scenarios import Action, Scenario

from unspool.kernel import AuthError, Thinking, ToolCall
from unspool.kernel.errors import ContextOverflowError, OverloadedError
from unspool.llm.scripted import Cut, Say, Unfinished, Wait

TOOLS = (
    "ok",
    "fail",
    "crash",
    "fatal",
    "slow",
    "odd",
    "stubborn",
    "safe_ok",
    "safe_slow",
    "interruptible",
    "interruptible",
    "late",
    "nowhere",
    "asks",
    "checked",
    "finder",
    "hidden",
)


HOOKS = [
    "before_turn",
    "after_turn",
    "stop_guard",
    "stop_after_tool",
    "before_stop",
    "after_model_call",
    "before_model_call",
    "before_request",
    "result_message",
]
VERDICTS = ["allow"] * 4 + ["rewrite", "deny", "ask", "raise", "slow", "nonsense", "nothing"]


@st.composite
def calls(draw: st.DrawFn) -> list[ToolCall]:
    names = draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4))
    ids = draw(st.lists(st.sampled_from(["c1", "c2", "c3", ""]), min_size=len(names), max_size=len(names)))
    return [
        ToolCall(id=id, name=name, args={"s": draw(st.sampled_from([0, 1, 7]))})
        for id, name in zip(ids, names, strict=True)
    ]


BUSY = st.lists(st.builds(lambda c: ["let me see", *c], calls()), max_size=3)  # replies that keep a run going


def answers() -> st.SearchStrategy[Any]:
    text = st.sampled_from(["fine", "", "  \n", "two words"])
    with_calls = st.builds(lambda t, c: [t, *c], text, calls())
    return st.one_of(
        text,
        *[with_calls] * 8,
        st.builds(lambda c: [Thinking(text="hm", signature="sig"), Wait(1), *c], calls()),
        st.builds(lambda t: [t, Cut()], text),
        st.builds(lambda t: [t, OverloadedError("busy")], text),
        st.builds(lambda t: Say([t], stop_reason="length", chunk=2), text),
        st.builds(lambda c: Say([*c, Unfinished("c9", "ok", '{"s"')], stop_reason="length"), calls()),
        st.just([Wait(float("inf"))]),
        st.just(["half", Wait(20), "more"]),
        st.just(Say(["no"], stop_reason="safety")),
        st.just(AuthError("bad key")),
        st.just(ContextOverflowError("too long")),
        st.just(RuntimeError("an adapter's bug")),
    )


def scenarios() -> st.SearchStrategy[Scenario]:
    actions = st.builds(
        Action,
        st.integers(1, 40),
        st.sampled_from(["steer", "steer", "follow_up", "abort", "abort_silent", "leave", "cancel", "pause"]),
        st.booleans(),
    )
    return st.builds(
        Scenario,
        script=st.builds(lambda first, rest: (*first, *rest), BUSY, st.lists(answers(), max_size=5)),
        actions=st.lists(actions, max_size=4).map(tuple),
        raising=st.sampled_from([""] * 40 + HOOKS),
        guard=st.lists(st.sampled_from(["go_on", "stop", "fail"]), max_size=3).map(tuple),
        turns=st.integers(1, 9),
        tool_calls=st.sampled_from([None, None, None, None, 0, 2]),
        concurrency=st.integers(1, 3),
        attempts=st.integers(0, 2),
        slow=st.booleans(),
        gate=st.none() | st.lists(st.sampled_from(VERDICTS), max_size=5).map(tuple),
        approve=st.sampled_from(["", "", "allow", "deny", "pause", "raise"]),
        decision=st.sampled_from(["allow", "deny"]),
        model_hooks=st.lists(st.sampled_from(["options", "answer", "rewrite"]), max_size=2).map(tuple),
        one_by_one=st.booleans(),
        step_limit=st.booleans(),
        keep=st.booleans(),
        result_messages=st.booleans(),
        tokens=st.sampled_from([None, None, 100]),
        plain=st.booleans(),
    )
