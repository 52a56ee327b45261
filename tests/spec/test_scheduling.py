"""When the calls of a reply run, and how messages from outside reach them."""

from typing import Any

import pytest
from play import Player, Spans

from unspool.kernel import Inbox, Limits
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import call


def slow(*names: str, **args: Any) -> list[Any]:
    return [call(f"c{number}", name, **args) for number, name in enumerate(names, 1)]


def test_safe_calls_run_together_up_to_the_limit(play: Player) -> None:  # T444
    spans = Spans()
    run = play(
        slow("safe", "safe", "safe"),
        "done",
        tools=[spans.tool("safe", concurrency_safe=True)],
        limits=Limits(concurrency=2),
    )
    assert spans.most == 2
    assert run.sent()[2:] == ["tool c1: c1", "tool c2: c2", "tool c3: c3"]


def test_read_only_is_safe(play: Player) -> None:  # A.4.1
    spans = Spans()
    play(slow("look", "look"), "done", tools=[spans.tool("look", read_only=True)])
    assert spans.most == 2


def test_unset_is_not_safe(play: Player) -> None:
    spans = Spans()
    play(slow("do", "do"), "done", tools=[spans.tool("do")])
    assert spans.most == 1


def test_unsafe_call_runs_alone(play: Player) -> None:  # T444
    spans = Spans()
    tools = [spans.tool("safe", concurrency_safe=True), spans.tool("unsafe")]
    play(slow("safe", "unsafe", "safe"), "done", tools=tools)
    assert spans.most == 1
    assert spans.began == {"c1": 0.0, "c2": 1.0, "c3": 2.0}


def test_safety_may_depend_on_the_arguments(play: Player) -> None:
    spans = Spans()
    tool = spans.tool("t", concurrency_safe=lambda args: args["s"] == 1)
    play([call("c1", "t", s=1), call("c2", "t", s=1), call("c3", "t", s=2)], "done", tools=[tool])
    assert spans.began == {"c1": 0.0, "c2": 0.0, "c3": 1.0}


def test_results_keep_the_order_of_the_calls(play: Player) -> None:  # T262
    spans = Spans()
    tool = spans.tool("t", concurrency_safe=True)
    run = play([call("c1", "t", s=2), call("c2", "t", s=1)], "done", tools=[tool])
    ends = [row for row in run.trace.splitlines() if row.startswith(("tool_exec_end", "message_end tool"))]
    assert ends == [
        "tool_exec_end c2 ok: c2",
        "tool_exec_end c1 ok: c1",
        "message_end tool c1",
        "message_end tool c2",
    ]


def test_result_is_committed_as_soon_as_earlier_ones_are(play: Player) -> None:  # I-16
    spans = Spans()
    tool = spans.tool("t", concurrency_safe=True)
    run = play([call("c1", "t", s=1), call("c2", "t", s=9)], "done", tools=[tool])
    rows = run.trace.splitlines()
    assert rows.index("message_end tool c1") < rows.index("tool_exec_end c2 ok: c2")


@pytest.mark.parametrize("safe", [False, True])
def test_steering_skips_what_has_not_started(play: Player, safe: bool) -> None:  # T7, T26, T263
    inbox = Inbox()

    async def steered(args: Any, ctx: Any) -> object:
        inbox.steer("interrupt")
        return args["value"]

    run = play(
        [call("c1", "t", value="first"), call("c2", "t", value="second")],
        "noted",
        tools=[raw_tool("t", "", {}, steered, concurrency_safe=safe)],
        limits=Limits(concurrency=1),
        inbox=inbox,
    )
    assert run.outcomes() == {"c1": "ok", "c2": "skipped"}
    assert run.results()["c2"] == "not executed: a new message from the user came first"
    assert 'tool_exec_start c2 t({"value":"second"})' in run.trace
    assert run.sent()[-1] == "user: interrupt"
    assert (run.end.tool_errors, run.end.tool_skips) == (0, 1)  # I-16e


def test_steering_waits_for_a_tool_that_blocks(play: Player) -> None:  # T445
    spans = Spans()
    tools = [
        spans.tool("patient", concurrency_safe=True),
        spans.tool("eager", concurrency_safe=True, interrupt="cancel"),
    ]
    run = play(
        [call("c1", "patient", s=9), call("c2", "eager", s=9)],
        "noted",
        tools=tools,
        at={2.0: lambda o: o.steer("stop that")},
    )
    assert run.outcomes() == {"c1": "ok", "c2": "interrupted"}
    assert spans.ended == {"c2": 2.0, "c1": 9.0}


def test_steering_interrupts_one_long_tool_at_once(play: Player) -> None:  # T446, I-16
    spans = Spans()
    run = play(
        [call("c1", "eager", s=900)],
        "noted",
        tools=[spans.tool("eager", interrupt="cancel")],
        at={2.0: lambda o: o.steer("stop that")},
    )
    assert run.now == 2.0
    assert run.results()["c1"].startswith("interrupted by a new message while it was running")
    assert run.sent()[-1] == "user: stop that"


def test_steering_while_the_model_answers(play: Player) -> None:  # A.5.4
    run = play("first", "second", on={"message_start assistant": lambda o: o.steer("also")})
    assert run.texts == ["user: go", "assistant: first", "user: also", "assistant: second"]


def test_steering_before_the_run(play: Player) -> None:  # A.1.5
    run = play("fine", on={"agent_start": lambda o: o.steer("be quick")})
    assert run.sent() == ["user: go", "user: be quick"]


def test_two_queues_two_meanings(play: Player) -> None:  # B120
    def both(outside: Any) -> None:
        outside.follow_up("later")
        outside.steer("now")

    run = play("one", "two", "three", on={"message_start assistant": both})
    assert run.texts == [
        "user: go", "assistant: one", "user: now", "assistant: two", "user: later", "assistant: three",
    ]  # fmt: skip


def test_limit_on_calls(play: Player) -> None:
    run = play(slow("t", "t", "t"), "never", tools=[Spans().tool("t")], limits=Limits(tool_calls=2))
    assert run.outcomes() == {"c1": "ok", "c2": "ok", "c3": "skipped"}
    assert run.end.reason == "max_tool_calls"
    assert run.results()["c3"] == "not executed: the run may make no more tool calls"
