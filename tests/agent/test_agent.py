"""What an agent is given, shows, forks and answers."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hosts import Newest, find, secret
from making import Made, at, wait

from unspool import Agent, Verdict, assistant_message, tool, user_message
from unspool.kernel import (
    CallOptions,
    ConfigChanged,
    ContextSnapshot,
    ContextUsage,
    Hooks,
    Limits,
    MessageDiscarded,
    MessageUpdate,
    PassThrough,
    StopVerdict,
    SystemBlock,
    fold,
    raw_tool,
)
from unspool.llm.scripted import Cut, ScriptedModel, Wait, call
from unspool.trajectory import replay
from unspool.trajectory.memory import MemoryLog

Go = Callable[[Any], Any]


def test_settings_are_kept(go: Go) -> None:  # T268, T278
    options = CallOptions(session_id="session-abc", temperature=0.5)
    made = Made("a", "b", system="be brief", thinking="low", options=options, tools=[wait])

    async def main() -> None:
        await made.agent.run("x")
        made.agent.configure(options=CallOptions(session_id="session-def"))
        await made.agent.run("y")

    go(main)
    first, second = made.model.requests
    assert (first.system, [tool.name for tool in first.tools]) == ((SystemBlock(text="be brief"),), ["wait"])
    assert (first.options.session_id, first.options.thinking, first.options.temperature) == (
        "session-abc",
        "low",
        0.5,
    )
    assert second.options == CallOptions(session_id="session-def")


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="no such setting: modle"):
        Agent(ScriptedModel(), modle=1)  # type: ignore[call-overload]  # the fault
    with pytest.raises(TypeError, match="can't be changed: log"):
        Agent(ScriptedModel()).configure(log=MemoryLog())  # type: ignore[call-arg]  # the fault


def test_changes_count_from_the_next_turn(go: Go) -> None:  # I-18
    other = ScriptedModel(["from the other"], name="scripted/other")
    extra = raw_tool("extra", "", {}, lambda args, ctx: "x")
    made = Made([call("c1", "wait")], tools=[wait], system="one")

    async def main() -> None:
        def change() -> None:
            made.agent.configure(
                model=other, tools=[wait, extra], system="two", thinking="high", limits=Limits(turns=9)
            )

        at(made, "tool_exec_dispatch", change)
        await made.agent.run("go")

    go(main)
    (changed,) = [fact for fact in made.log.facts if isinstance(fact, ConfigChanged)]
    assert (changed.model, changed.limits) == ("scripted/other", Limits(turns=9))
    (request,) = other.requests
    assert [tool.name for tool in request.tools] == ["wait", "extra"]
    assert (request.system, request.options.thinking) == ((SystemBlock(text="two"),), "high")
    assert made.agent.state.blobs[changed.tools or ""][1]["name"] == "extra"
    made.check()


def test_what_a_run_would_send(go: Go) -> None:  # C.17
    async def shorten(messages: Any) -> Any:
        return messages[-2:]

    made = Made("ok", "ok", "ok", tools=[wait], hooks=Hooks(before_request=shorten), system="be brief")

    async def main() -> None:
        for number in range(2):
            await made.agent.run(f"prompt {number}")
        made.agent.set_messages([*made.agent.state.messages, user_message("next")])
        shown = await made.agent.build_request()
        assert list(await made.agent.build_llm_messages()) == list(shown.messages)
        assert made.agent.build_llm_tools() == shown.tools
        facts = len(made.log.facts)
        await made.agent.continue_()
        sent = made.model.requests[-1]
        assert facts < len(made.log.facts)
        assert (list(sent.messages), sent.system, sent.tools, sent.options) == (
            list(shown.messages),
            shown.system,
            shown.tools,
            shown.options,
        )

    go(main)


def test_a_fork_goes_its_own_way(go: Go) -> None:
    made = Made("one", "two", "three", tools=[wait], system="be brief", name="root")

    async def main() -> Agent[str]:
        await made.agent.run("first")
        made.agent.steer("not copied")
        log = MemoryLog()
        fork = made.agent.fork(log=log)
        await fork.run("in the fork")
        assert fold(log.facts) == fork.state
        return fork

    fork = go(main)
    assert [message.text for message in fork.state.messages] == ["first", "one", "in the fork", "two"]
    assert made.texts == ["user: first", "assistant: one"]
    assert fork.state.session != made.agent.state.session
    assert made.model.requests[1].tools == made.model.requests[0].tools


def test_deferred_tools_in_use_stay_with_a_conversation(go: Go) -> None:
    tools = [find, secret]
    made = Made([call("c1", "find")], "found", "one", "two", tools=tools, messages=[user_message("hello")])

    async def main() -> tuple[Agent[Any], Agent[Any]]:
        await made.agent.run("find it")
        log, other = MemoryLog(), MemoryLog()
        imported: Agent[Any] = Agent(made.model, tools=tools, log=log, messages=made.agent.export_messages())
        await imported.run("imported")
        made.agent.set_messages([user_message("a summary of all that")])  # refers to no tool
        fork = made.agent.fork(log=other)
        await fork.run("in the fork")
        for each in (log, other):
            assert (await replay(each)).same
        assert made.agent.fork(messages=[user_message("anew")]).state.active_tools == ()
        return imported, fork

    for agent in go(main):
        assert agent.state.active_tools == ("secret",)
    offered = [[tool.name for tool in request.tools] for request in made.model.requests]
    assert offered == [["find"], ["find", "secret"], ["find", "secret"], ["find", "secret"]]
    made.check()


def test_a_session_goes_on_in_another_process(go: Go) -> None:
    first = Made("one")
    go(lambda: first.agent.run("hello"))
    second = Made("two", state=fold(first.log.facts), log=first.log)
    go(lambda: second.agent.run("again"))
    assert second.texts == ["user: hello", "assistant: one", "user: again", "assistant: two"]
    assert fold(first.log.facts) == second.agent.state


def test_a_pause_and_its_decision(go: Go) -> None:
    deleted: list[str] = []

    @tool(needs_approval=True)
    def delete(path: str) -> str:
        deleted.append(path)
        return "gone"

    calls = [call("c1", "delete", path="a"), call("c2", "delete", path="b")]
    made = Made(calls, tools=[delete])

    async def main() -> None:
        result = await made.agent.run("go")
        assert (result.end_reason, [c.id for c in result.pending], deleted) == ("paused", ["c1", "c2"], [])
        elsewhere = Made("done", tools=[delete], state=fold(made.log.facts))
        with pytest.raises(ValueError, match="no such call waits"):
            await elsewhere.agent.resume({"c9": Verdict.allow()})
        result = await elsewhere.agent.resume({"c2": Verdict.allow(by="ann")})
        assert (result.text, deleted) == ("done", ["b"])

    go(main)


def test_decisions_one_after_another_over_processes(go: Go) -> None:  # B146
    paid: list[int] = []

    @tool(needs_approval=True)
    def pay(n: int) -> str:
        paid.append(n)
        return "paid"

    peek = raw_tool("peek", "", {}, lambda args, ctx: "seen")
    calls = [call("h1", "pay", n=1), call("h2", "pay", n=2), call("h3", "peek")]
    first = Made(calls, tools=[pay, peek])
    go(lambda: first.agent.run("go"))
    first.agent.decide({"h2": Verdict.allow(by="ann")})
    first.check()
    with pytest.raises(ValueError, match="no such call waits"):
        first.agent.decide({"h2": Verdict.deny()})

    second = Made(state=fold(first.log.facts), log=first.log, tools=[pay, peek])
    assert (go(second.agent.continue_).end_reason, paid) == ("paused", [])
    second.agent.decide({"h1": Verdict.deny("too much")})

    third = Made("done", state=fold(first.log.facts), log=first.log, tools=[pay, peek])
    assert go(third.agent.continue_).text == "done"
    assert paid == [2]
    results = {getattr(m, "tool_call_id", ""): m.text for m in third.agent.state.messages if m.role == "tool"}
    assert results == {"h1": "not executed: denied: too much", "h2": "paid", "h3": "seen"}
    assert sum(type(fact).__name__ == "ApprovalRequested" for fact in first.log.facts) == 1


def test_usage_over_runs(go: Go) -> None:
    from unspool.kernel import Usage  # noqa: PLC0415  # only here
    from unspool.llm.scripted import Say  # noqa: PLC0415  # only here

    usage = Usage(input_tokens=5, output_tokens=2)
    made = Made(Say("a", usage=usage), Say("b", usage=usage))

    async def main() -> None:
        assert (await made.agent.run("x")).usage == usage
        assert (await made.agent.run("y")).usage == usage

    go(main)
    assert made.agent.usage == usage + usage


def test_live_shows_what_is_no_fact(go: Go) -> None:  # T46
    async def report(args: Any, ctx: Any) -> str:
        ctx.progress("half way", percent=50)
        await ctx.clock.sleep(1)
        return "x"

    made = Made(
        ["Let me ", "see", call("c1", "report")],
        ["broken", Wait(1), Cut()],
        tools=[raw_tool("report", "", {}, report)],
    )
    seen: dict[str, Any] = {}

    def look(event: Any) -> None:
        live = made.agent.live
        if isinstance(event, MessageUpdate):
            seen[f"{event.kind} {event.delta}"] = (live.text, live.message_id, live.tool_calls)
        if type(event).__name__ == "ToolExecUpdate":
            seen["progress"] = (list(live.running), live.progress["c1"].summary)
        if isinstance(event, MessageDiscarded):
            seen["discarded"] = (live.text, live.message_id)

    async def main() -> None:
        made.agent.subscribe(look)
        result = await made.agent.run("go")
        assert result.error_kind == "stream_partial"

    go(main)
    assert seen["text Let me "] == ("Let me ", "m2", ())
    assert seen["text see"] == ("Let me see", "m2", ())
    assert seen["tool_call {}"] == ("Let me see", "m2", ("{}",))
    assert seen["progress"] == (["c1"], "half way")
    assert seen["discarded"] == ("", "")
    assert made.agent.live.running == {}


def test_context_usage_is_the_managers(go: Go) -> None:  # C.18
    class Counts(PassThrough):
        synced: list[int] = []  # a test's note

        def usage(self) -> ContextUsage | None:
            return ContextUsage(tokens=10, window=100, percent=10.0)

        def snapshot(self) -> ContextSnapshot | None:
            return ContextSnapshot(baseline=ContextUsage(tokens=40))

        def sync(self, view: Any, /) -> None:
            self.synced.append(len(view))

    made = Made("hi", context=Counts())
    assert made.agent.context_usage == ContextUsage(tokens=10, window=100, percent=10.0)
    assert made.agent.baseline_context_usage == ContextUsage(tokens=40)
    made.agent.set_messages([user_message("a"), assistant_message("b")])
    assert Counts.synced == [2]
    assert Made().agent.context_usage is None


# --- listeners ---------------------------------------------------------------------------------


def test_listeners_hear_all_events_in_order_of_registration(go: Go) -> None:  # T269
    made = Made("a", "b", "c")
    heard: list[str] = []

    async def main() -> None:
        ends = made.agent.subscribe(lambda event: heard.append("first"))
        made.agent.subscribe(lambda event: heard.append("second"))
        assert heard == []
        made.agent.configure(system="other")
        assert heard == []
        await made.agent.run("x")
        assert heard[:4] == ["first", "second"] * 2
        ends()
        ends()
        heard.clear()
        await made.agent.run("y")
        assert set(heard) == {"second"}

    go(main)


def test_a_message_queued_while_idle_is_heard_at_once(go: Go) -> None:
    made = Made("hi")
    made.agent.steer("hello")
    assert made.lines == ["queue_changed [steering] queued 'hello'"]
    go(made.agent.continue_)
    assert made.lines.count("queue_changed [steering] queued 'hello'") == 1
    made.check()


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("oops"), asyncio.CancelledError("oops")], ids=["error", "cancelled"]
)
def test_a_listener_that_raises_breaks_nothing(
    go: Go, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:  # T458, I-19, B155
    made = Made("hi")
    after: list[str] = []

    def broken(event: Any) -> None:
        raise error

    async def main() -> None:
        made.agent.subscribe(broken)
        made.agent.subscribe(lambda event: after.append(type(event).__name__))
        with caplog.at_level(logging.ERROR):
            await made.agent.run("x")

    go(main)
    assert made.texts[-1] == "assistant: hi"
    assert after[-1] == "AgentEnd" and len(after) == len(made.heard)
    assert caplog.text.count("a listener of the agent raised") == 1
    assert "oops" in caplog.text


def test_a_listener_cannot_be_async() -> None:
    async def listener(event: Any) -> None: ...

    class Callable:
        async def __call__(self, event: Any) -> None: ...

    for wrong in (listener, Callable()):
        with pytest.raises(TypeError, match="give a plain function"):
            Made().agent.subscribe(wrong)  # type: ignore[arg-type]  # the fault


# --- typed output ------------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: int


def test_an_answer_of_a_type(go: Go) -> None:
    model = ScriptedModel(['{"x": 1}', '```json\n{"x": 1, "y": 2}\n```'])

    async def main() -> None:
        agent = Agent(model, output=Point)
        result = await agent.run("where?")
        assert result.output == Point(1, 2)
        assert "$.y: missing" in agent.state.messages[2].text
        assert model.requests[0].options.response_format["schema"]["required"] == ["x", "y"]  # type: ignore[index]

    go(main)


def test_an_answer_that_never_fits(go: Go) -> None:
    async def main() -> None:
        result = await Agent(ScriptedModel(["no"] * 5), output=Point).run("where?")
        assert (result.end_reason, result.error_kind) == ("stop_guard", "stop_guard")
        assert not result.output
        assert "Point" in result.error

    go(main)


def test_the_hosts_guard_comes_after_the_type(go: Go) -> None:
    asked: list[str] = []

    def guard(info: Any) -> StopVerdict:
        asked.append(info.reply.text)
        return StopVerdict()

    async def main() -> None:
        agent = Agent(ScriptedModel(["no", "3"]), output=int, hooks=Hooks(stop_guard=guard))
        assert (await agent.run("how many?")).output == 3

    go(main)
    assert asked == ["3"]


@pytest.mark.parametrize("given", [object(), Newest, Newest(1).project, "default"])
def test_what_is_no_context_manager_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="no context manager"):
        Agent(ScriptedModel([]), context=given)
    with pytest.raises(TypeError, match="no context manager"):
        Agent(ScriptedModel([])).configure(context=given)
