"""How runs end and what keeps them going: turns, guard, output limit, hooks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from play import EncodedLog, Player, echo, gives

from unspool.kernel import (
    AgentContext,
    ConfigChanged,
    Hooks,
    Inbox,
    Limits,
    LoopConfig,
    OverloadedError,
    Settings,
    StopInfo,
    StopVerdict,
    ToolError,
    ToolExecEnd,
    TurnInfo,
    agent_loop,
)
from unspool.kernel.function_tool import raw_tool
from unspool.kernel.texts import DEFAULT_TEXTS, Texts
from unspool.kernel.trace import line
from unspool.llm.scripted import Say, ScriptedModel, Unfinished, call


def cut(*parts: Any) -> Say:
    return Say(parts, stop_reason="length")


def test_turns_are_limited(play: Player) -> None:  # T4
    turns = [[call(f"c{number}", "tool")] for number in range(9)]
    run = play(*turns, tools=[gives("x")], limits=Limits(turns=3))
    assert run.brief[-2:] == ["error max_turns: run: no turns left (limit=3)", "agent_end max_turns"]
    assert (run.end.turns, run.end.tool_calls) == (3, 3)
    assert len(run.requests) == 3
    assert run.texts[0] == "user: go"


def test_steering_at_the_limit_stays_queued(play: Player) -> None:  # B117, I-16d
    run = play(
        "answer", limits=Limits(turns=1), on={"message_end assistant": lambda o: o.steer("and in French")}
    )
    assert run.end.reason == "max_turns"
    assert [queued.message.text for queued in run.state.steering] == ["and in French"]
    assert "user: and in French" not in run.texts


def test_follow_up_at_the_limit_stays_queued(play: Player) -> None:  # I-16d
    run = play("answer", limits=Limits(turns=1), on={"agent_start": lambda o: o.follow_up("more")})
    assert run.end.reason == "max_turns"
    assert [queued.message.text for queued in run.state.follow_ups] == ["more"]


# --- the output limit --------------------------------------------------------------------------


def test_cut_answer_is_continued(play: Player) -> None:  # T22
    run = play(cut("partial answer"), "and the rest")
    assert run.sent() == ["user: go", "assistant: partial answer", f"user: {DEFAULT_TEXTS.go_on}"]
    assert (run.end.turns, run.end.reason) == (2, "stop")


def test_text_of_the_request_to_continue_is_a_choice(play: Player) -> None:
    run = play(cut("partial"), "rest", texts=Texts(go_on="go on"))
    assert run.sent()[-1] == "user: go on"
    assert "message_end user 'go on' (length_recovery)" in run.brief


def test_continuing_is_bounded(play: Player) -> None:  # T438
    run = play(*[cut("more ")] * 4, "never")
    assert len(run.requests) == 4
    assert run.end.reason == "stop"


def test_unfinished_call_is_taken_out(play: Player) -> None:  # T23
    run = play(cut("I will", Unfinished("c1", "echo", '{"val')), "sorry", tools=[echo()])
    assert run.sent()[1] == "assistant: I will"
    assert run.outcomes() == {}
    assert len(run.requests) == 2


def test_finished_call_of_a_cut_reply_runs(play: Player) -> None:  # T21
    run = play(cut(call("c1", "echo", value="kept")), "done", tools=[echo()])
    assert run.sent() == ["user: go", "assistant: echo#c1", "tool c1: kept"]


def test_unfinished_sibling_of_a_finished_call_does_not_run(play: Player) -> None:  # I-17b
    reply = cut(call("c1", "echo", value="kept"), Unfinished("c2", "echo", '{"value":"half"}'))
    run = play(reply, "done", tools=[echo()])
    assert run.outcomes() == {"c1": "ok", "c2": "invalid"}
    assert run.results()["c2"] == "the call was cut off by the output limit and was not executed"


def test_steering_goes_before_continuing(play: Player) -> None:  # A.12.3, ours
    run = play(cut("partial"), "fine", on={"message_end assistant": lambda o: o.steer("never mind")})
    assert run.sent() == ["user: go", "assistant: partial", "user: never mind"]


# --- stopping after a tool ---------------------------------------------------------------------


def stops_after(name: str) -> Hooks:
    return Hooks(stop_after_tool=lambda end: end.tool == name)


def test_stop_after_tool(play: Player) -> None:  # T24
    run = play(
        [call("c1", "commit")], "never", tools=[gives("x", "commit"), echo()], hooks=stops_after("commit")
    )
    assert len(run.requests) == 1
    assert run.end.reason == "stop"
    assert run.texts[-1] == "tool: x"


def test_siblings_of_a_terminal_call_run(play: Player) -> None:  # B144
    calls = [call("c1", "final"), call("c2", "echo", value="x")]
    run = play(calls, "never", tools=[gives("x", "final"), echo()], hooks=stops_after("final"))
    assert run.outcomes() == {"c1": "ok", "c2": "ok"}
    assert len(run.requests) == 1


def test_stop_after_a_certain_result(play: Player) -> None:  # T25
    answers = iter([False, True])

    async def check(args: Any, ctx: Any) -> object:
        return {"foundation_ready": next(answers)}

    def ready(end: ToolExecEnd) -> bool:
        return "true" in repr(end.content)

    run = play(
        [call("c1", "t")],
        [call("c2", "t")],
        "never",
        tools=[raw_tool("t", "", {}, check)],
        hooks=Hooks(stop_after_tool=ready),
    )
    assert len(run.requests) == 2
    assert run.end.reason == "stop"


def test_failed_call_does_not_stop(play: Player) -> None:  # A.7.2
    run = play(
        [call("c1", "commit")], "sorry", tools=[gives(ToolError("no"), "commit")], hooks=stops_after("commit")
    )
    assert len(run.requests) == 2


def test_queues_outlive_a_stop_after_tool(play: Player) -> None:  # I-16d
    def both(outside: Any) -> None:
        outside.steer("steering")
        outside.follow_up("follow-up")

    run = play(
        [call("c1", "commit")],
        tools=[gives("x", "commit")],
        hooks=stops_after("commit"),
        on={"message_end tool": both},
    )
    queued = [*run.state.steering, *run.state.follow_ups]
    assert [entry.message.text for entry in queued] == ["steering", "follow-up"]
    assert run.end.reason == "stop"


# --- the stop guard ----------------------------------------------------------------------------


class Guard:
    """Gives its verdicts in order, then lets the run stop; remembers what it was shown."""

    def __init__(self, *verdicts: StopVerdict) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[tuple[int, str, str]] = []

    async def __call__(self, info: StopInfo) -> StopVerdict:
        self.asked.append((info.turns, info.trigger, info.reply.text if info.reply else ""))
        return self.verdicts.pop(0) if self.verdicts else StopVerdict()


def test_guard_lets_it_stop(play: Player) -> None:  # T439
    guard = Guard()
    run = play("done", hooks=Hooks(stop_guard=guard))
    assert guard.asked == [(1, "end_turn", "done")]
    assert run.end.reason == "stop"


def test_guard_objects(play: Player) -> None:  # T439
    guard = Guard(StopVerdict("go_on", "run the tests"))
    run = play("done", "tested", hooks=Hooks(stop_guard=guard))
    assert run.texts == ["user: go", "assistant: done", "user: run the tests", "assistant: tested"]
    assert "message_end user 'run the tests' (stop_guard)" in run.brief
    assert [turns for turns, _, _ in guard.asked] == [1, 2]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_guard_objects_without_a_word(play: Player, text: str) -> None:  # T439
    run = play("done", hooks=Hooks(stop_guard=Guard(StopVerdict("go_on", text))))
    assert run.end.reason == "stop"
    assert len(run.requests) == 1


def test_guard_fails_the_run(play: Player) -> None:  # T439
    run = play("done", hooks=Hooks(stop_guard=Guard(StopVerdict("fail", "nothing was done"))))
    assert run.brief[-2:] == ["error stop_guard: nothing was done", "agent_end stop_guard"]


def test_guard_never_sees_a_stop_with_follow_ups(play: Player) -> None:  # A.6.3
    guard = Guard()
    play("one", "two", hooks=Hooks(stop_guard=guard), on={"agent_start": lambda o: o.follow_up("more")})
    assert guard.asked == [(2, "end_turn", "two")]


def test_guard_against_a_stop_after_tool(play: Player) -> None:  # T440
    inbox = Inbox()

    async def commit(args: Any, ctx: Any) -> object:
        inbox.steer("quickly")
        return "committed"

    guard = Guard(StopVerdict("go_on", "push too"))
    hooks = Hooks(stop_guard=guard, stop_after_tool=lambda end: True)
    run = play([call("c1", "t")], "pushed", tools=[raw_tool("t", "", {}, commit)], hooks=hooks, inbox=inbox)
    assert run.sent()[-2:] == ["user: push too", "user: quickly"]
    assert guard.asked[0] == (1, "stop_after_tool", "")


@pytest.mark.parametrize("case", ["abort", "error", "limit"])
def test_guard_is_not_asked_about_other_ends(play: Player, case: str) -> None:  # A.6.1
    guard = Guard()
    calls = [call("c1", "echo", value="x")]
    if case == "abort":
        play(calls, tools=[echo()], hooks=Hooks(stop_guard=guard), on={"turn_end": lambda o: o.stop()})
    elif case == "error":
        play(RuntimeError("boom"), hooks=Hooks(stop_guard=guard))
    else:
        play(calls, tools=[echo()], hooks=Hooks(stop_guard=guard), limits=Limits(turns=1))
    assert guard.asked == []


def test_message_that_comes_while_the_guard_thinks_is_answered(play: Player) -> None:  # I-16f
    inbox = Inbox()

    async def slow_guard(info: StopInfo) -> StopVerdict:
        if info.turns == 1:
            inbox.steer("wait")
        return StopVerdict()

    run = play("one", "two", hooks=Hooks(stop_guard=slow_guard), inbox=inbox)
    assert run.texts == ["user: go", "assistant: one", "user: wait", "assistant: two"]


# --- hooks of a turn ---------------------------------------------------------------------------


def test_turn_hooks(play: Player) -> None:  # T450
    seen: list[str] = []

    async def before(info: TurnInfo) -> Sequence[str]:
        seen.append(f"before {info.index}")
        return ["remember"] if info.index == 1 else []

    async def after(info: TurnInfo) -> None:
        seen.append(f"after {info.index} with {len(info.state.messages)} messages")

    run = play(
        [call("c1", "echo", value="x")],
        "done",
        tools=[echo()],
        hooks=Hooks(before_turn=before, after_turn=after),
    )
    assert seen == ["before 1", "after 1 with 4 messages", "before 2", "after 2 with 5 messages"]
    assert run.sent(0) == ["user: go", "user: remember"]
    assert "message_end user 'remember' (before_turn)" in run.brief


def test_before_turn_runs_once_for_all_attempts(play: Player) -> None:
    seen: list[int] = []

    async def before(info: TurnInfo) -> None:
        seen.append(info.index)

    play(OverloadedError("busy"), "fine", hooks=Hooks(before_turn=before))
    assert seen == [1]


def failing(hook: str) -> Hooks:
    async def breaks(info: Any) -> Any:
        raise ZeroDivisionError("oops")

    def stop_after_tool(end: ToolExecEnd) -> bool:
        raise ZeroDivisionError("oops")

    hooks: Any = {hook: stop_after_tool if hook == "stop_after_tool" else breaks}
    return Hooks(**hooks)


@pytest.mark.parametrize("hook", ["before_turn", "after_turn", "stop_guard", "stop_after_tool"])
def test_hook_that_raises_ends_the_run_in_order(play: Player, hook: str) -> None:  # T450
    run = play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=failing(hook))
    assert run.brief[-2] == f"error hook: hook: {hook} raised (reason='oops')"
    assert run.end.reason == "error"
    assert run.texts[0] == "user: go"
    assert run.state.turn is None


def test_error_ending_carries_its_messages(play: Player) -> None:  # I-14
    run = play([call("c1", "echo", value="x")], RuntimeError("boom"), tools=[echo()])
    assert run.result is not None
    assert [message.role for message in run.result.messages] == ["user", "assistant", "tool"]
    assert (run.result.end_reason, run.result.error_kind, run.result.error) == ("error", "unknown", "boom")


def test_configuration_is_taken_at_each_turn(play: Player) -> None:  # I-18
    second = ScriptedModel(["from the other"], name="scripted/other")
    first = LoopConfig(model=ScriptedModel([[call("c1", "tool")]]))
    log = EncodedLog()

    async def main() -> list[str]:
        current = first

        def refresh() -> Settings:
            return Settings(current, context)

        config = replace(first, refresh=refresh, log=log)
        current, context = config, AgentContext(tools=[gives("x")])
        async with agent_loop("go", context, config) as run:
            async for event in run:
                if line(event).startswith("tool_exec_end"):
                    current = replace(config, model=second)
            return [message.text for message in run.transcript()]

    assert anyio.run(main, backend=play.backend)[-1] == "from the other"
    assert [fact.model for fact in log.facts if isinstance(fact, ConfigChanged)] == ["scripted/other"]
