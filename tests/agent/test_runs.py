"""Running an agent: one run at a time, in the foreground, in the background, interrupted."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from making import Made, at, wait

from unspool import (
    Agent,
    AgentBusyError,
    ContinueError,
    Hooks,
    Limits,
    RunsHeldError,
    Verdict,
    raw_tool,
    user_message,
)
from unspool.kernel import AgentEnd, BadRequestError, MessageUpdate, StopInfo, Texts
from unspool.llm.scripted import Say, ScriptedModel, Wait, call

Go = Callable[[Any], Any]


def test_a_conversation(go: Go) -> None:  # T258, T284, T285
    made = Made("hi", "you said hello")

    async def main() -> None:
        assert (await made.agent.run("hello")).text == "hi"
        assert (await made.agent.run("what did I say?")).text == "you said hello"

    go(main)
    assert made.texts == [
        "user: hello",
        "assistant: hi",
        "user: what did I say?",
        "assistant: you said hello",
    ]
    assert [len(request.messages) for request in made.model.requests] == [1, 3]
    made.check()


def test_a_fresh_agent(go: Go) -> None:  # T267, T279
    made = Made()
    assert (made.texts, made.agent.running, made.agent.usage.total_tokens) == ([], False, 0)

    async def main() -> None:
        made.agent.abort()  # T60, T273: nothing to abort
        with pytest.raises(ContinueError, match="there are no messages"):
            await made.agent.continue_()
        await made.agent.wait_idle()

    go(main)
    assert made.heard == []


def test_a_second_prompt_while_one_runs(go: Go) -> None:  # T274, T275
    made = Made([Wait(5), "done"])

    async def main() -> None:
        async with made.agent:
            made.agent.prompt("first")
            with pytest.raises(AgentBusyError, match="steer it, queue a follow-up, or wait"):
                await made.agent.run("second")
            with pytest.raises(AgentBusyError):
                made.agent.prompt("second")
            with pytest.raises(AgentBusyError):
                await made.agent.continue_()
            with pytest.raises(AgentBusyError):
                async for _ in made.agent.stream("second"):
                    pass

    go(main)
    assert made.texts == ["user: first", "assistant: done"]
    made.check()


def test_a_prompt_that_waits_its_turn(go: Go) -> None:
    made = Made([Wait(5), "one"], [Wait(5), "two"], "three")

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.agent.run, "first")
            await anyio.lowlevel.checkpoint()
            for text in ("second", "third"):
                tasks.start_soon(partial(made.agent.run, text, busy="queue"))
                await anyio.lowlevel.checkpoint()

    go(main)
    assert [text for text in made.texts if text.startswith("user")] == [
        "user: first",
        "user: second",
        "user: third",
    ]
    made.check()


@pytest.mark.parametrize(
    ("keep", "kept"),
    [(True, ["assistant: Once upon"]), (False, []), (lambda text: text[:4], ["assistant: Once"])],
    ids=["all of it", "nothing", "what was heard"],
)
def test_a_prompt_that_interrupts(go: Go, keep: Any, kept: list[str]) -> None:
    made = Made(["Once upon", Wait(50), " a time"], "4")

    async def main() -> str:
        async with made.agent:
            made.agent.prompt("tell a tale")
            while not made.agent.live.text:
                await anyio.lowlevel.checkpoint()
            return (await made.agent.run("2 + 2?", busy="interrupt", keep=keep)).text

    assert go(main) == "4"
    assert made.texts == ["user: tell a tale", *kept, "user: 2 + 2?", "assistant: 4"]
    assert len(made.model.requests[1].messages) == 2 + len(kept)
    made.check()


def test_background_runs_need_an_owner(go: Go) -> None:
    made = Made("hi")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="async with agent"):
            made.agent.prompt("hello")
        async with made.agent:
            made.agent.prompt("hello")
        assert made.texts[-1] == "assistant: hi"  # leaving waits for the run

    go(main)


def test_an_exception_in_the_owner_aborts_its_runs(go: Go) -> None:
    made = Made([Wait(500), "never"])

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with made.agent:
                made.agent.prompt("hello")
                await anyio.lowlevel.checkpoint()
                raise ZeroDivisionError

    go(main)
    assert made.log.facts[-1].reason == "aborted"  # type: ignore[union-attr]  # an AgentEnd
    made.check()


def test_leaving_the_stream_aborts_the_run(go: Go) -> None:
    made = Made(["a", Wait(1), "b"], "next")

    async def main() -> None:
        async with made.agent.stream("go") as run:
            async for event in run:
                if isinstance(event, MessageUpdate):
                    break
        assert not made.agent.running
        await made.agent.run("again")

    go(main)
    assert made.texts == ["user: go", "user: again", "assistant: next"]
    made.check()


def test_a_consumer_that_never_comes_back(go: Go) -> None:  # B154
    made = Made([*["x"] * 50_000, call("c1", "wait")], "done", tools=[wait])

    async def main() -> None:
        run = made.agent.stream("go")
        await anext(run)
        made.agent.abort()  # nobody waits for the consumer
        await run.aclose()
        assert (await made.agent.run("again")).end_reason == "stop"

    go(main)
    assert [fact.reason for fact in made.log.facts if isinstance(fact, AgentEnd)] == ["aborted", "stop"]
    made.check()


def test_a_stream_that_is_never_begun_holds_nothing_up(go: Go) -> None:
    made = Made("hi")

    async def main() -> None:
        await made.agent.stream("unused").aclose()
        made.agent.stream("dropped")
        await made.agent.run("hello")

    go(main)
    assert made.texts == ["user: hello", "assistant: hi"]


def test_cancelling_a_run_ends_it_in_the_log(go: Go) -> None:
    made = Made([Wait(1000), "never"], "later")

    async def main() -> None:
        with anyio.CancelScope() as scope:
            at(made, "context_projected", scope.cancel)
            await made.agent.run("hello")
        assert made.log.facts[-1].reason == "aborted"  # type: ignore[union-attr]  # an AgentEnd
        assert (await made.agent.run("again")).text == "later"

    go(main)
    made.check()


def test_abort_from_outside(go: Go) -> None:  # T283
    made = Made([Wait(1000), "never"])

    async def main() -> str:
        at(made, "context_projected", lambda: made.agent.abort(reason="enough"))
        return (await made.agent.run("hello")).end_reason

    assert go(main) == "aborted"
    assert made.texts == ["user: hello", "assistant: enough"]
    made.check()


def test_queues_outlive_an_abort(go: Go) -> None:  # T434
    made = Made("answered")

    async def main() -> None:
        at(made, "context_projected", lambda: made.agent.steer("and this"))
        at(made, "context_projected", lambda: made.agent.abort(marker=False))
        await made.agent.run("hello")
        await made.agent.continue_()

    go(main)
    assert made.texts == ["user: hello", "user: and this", "assistant: answered"]
    made.check()


def test_continue_from_a_user_message(go: Go) -> None:  # T286
    made = Made("now", messages=[user_message("unanswered")])

    async def main() -> None:
        await made.agent.continue_()
        with pytest.raises(ContinueError, match="the last message is an answer"):  # T280
            await made.agent.continue_()

    go(main)
    assert made.texts == ["user: unanswered", "assistant: now"]
    made.check()


def test_continue_takes_a_follow_up(go: Go) -> None:  # T276, T272
    made = Made("one", "two")

    async def main() -> None:
        await made.agent.run("first")
        made.agent.follow_up("more")
        assert made.texts == ["user: first", "assistant: one"]
        await made.agent.continue_()

    go(main)
    assert made.texts[-2:] == ["user: more", "assistant: two"]
    made.check()


def test_steering_one_at_a_time(go: Go) -> None:  # T277, T271
    made = Made("one", "two", "three", steering_mode="one")

    async def main() -> None:
        await made.agent.run("first")
        made.agent.steer("a")
        made.agent.steer("b")
        await made.agent.continue_()

    go(main)
    assert made.texts[2:] == ["user: a", "assistant: two", "user: b", "assistant: three"]
    made.check()


def test_an_agent_without_an_event_loop() -> None:  # B153
    agent = Agent(ScriptedModel(["hi", "again"]))
    assert agent.run_sync("hello").text == "hi"
    assert agent.run_sync("hello").text == "again"

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await agent\.run"):
            agent.run_sync("hello")

    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)


def test_a_listener_may_start_the_next_run(go: Go) -> None:  # T47
    made = Made("one", "two")

    async def main() -> None:
        async with made.agent:
            at(made, "agent_end", lambda: made.agent.prompt("second"))
            result = await made.agent.run("first")
            assert result.text == "one"
            await made.agent.wait_idle()

    go(main)
    assert made.texts == ["user: first", "assistant: one", "user: second", "assistant: two"]
    made.check()


def test_many_agents_share_a_model_and_tools(go: Go) -> None:
    script = [[call("c1", "wait", s=1)], "done"]

    async def main() -> list[str]:
        texts: list[str] = []

        async def one(number: int) -> None:
            made = Made(*script, tools=[wait])
            texts.append((await made.agent.run(f"hello {number}")).text)
            made.check()

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        return texts

    assert go(main) == ["done"] * 20


def test_the_view_of_each_turn_extends_the_last_one_over_runs(go: Go) -> None:
    made = Made(*["ok"] * 5)

    async def main() -> list[int]:
        lowered = []
        for number in range(5):
            async with made.agent.stream(f"prompt {number}") as run:
                await run.result()
                lowered.append(run.counters.lowered)
        return lowered

    assert go(main) == [1, 3, 5, 7, 9]  # two new messages a run, never the whole history


def test_the_end_is_told_before_the_result(go: Go) -> None:
    made = Made("hi")

    async def main() -> bool:
        ended: list[bool] = []
        made.agent.subscribe(lambda e: ended.append(made.agent.running) if isinstance(e, AgentEnd) else None)
        await made.agent.run("hello")
        return ended == [False]

    assert go(main)


def test_steering_from_another_thread(go: Go) -> None:
    made = Made([call("c1", "wait", s=100)], "seen", tools=[wait])

    async def main() -> None:
        def steer() -> None:
            thread = threading.Thread(target=made.agent.steer, args=("from a thread",))
            thread.start()
            thread.join()

        at(made, "tool_exec_dispatch", steer)
        await made.agent.run("go")

    go(main)
    assert "user: from a thread" in made.texts
    made.check()


def test_no_model_by_that_name() -> None:
    with pytest.raises(BadRequestError, match="no such provider"):
        Agent("nosuch/model")


def test_held_runs_refuse_everything(go: Go) -> None:  # T49, T52
    made = Made("hi", "there")

    async def main() -> None:
        await made.agent.run("hello")
        async with made.agent, made.agent.hold_runs():
            with pytest.raises(RunsHeldError):
                await made.agent.run("no")
            with pytest.raises(RunsHeldError):
                made.agent.prompt("no")
            with pytest.raises(RunsHeldError):
                made.agent.inject("no")
            made.agent.steer("kept")
            with pytest.raises(RunsHeldError):
                await made.agent.continue_()
        await made.agent.continue_()

    go(main)
    assert made.texts[-2:] == ["user: kept", "assistant: there"]
    made.check()


def test_what_nobody_has_seen_is_not_kept(go: Go) -> None:
    made = Made(Say(["abcdefghij"], chunk=1), "next")

    async def main() -> None:
        shown: list[str] = []
        async for event in made.agent.stream("go"):
            if isinstance(event, MessageUpdate):
                shown.append(event.delta)
                if len(shown) == 2:
                    made.agent.abort(marker=False, keep=True)
        assert shown == ["a", "b"]

    go(main)
    assert made.texts == ["user: go", "assistant: ab"]
    made.check()


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (lambda text: text[:9], ["assistant: Far away "]),
        (lambda text: "", []),
        (True, ["assistant: Far away and long ago"]),
    ],
    ids=["a part", "nothing", "all of it"],
)
def test_a_finished_answer_is_cut_to_what_was_heard(go: Go, keep: Any, left: list[str]) -> None:
    async def speak(info: StopInfo) -> None:
        await anyio.sleep_forever()

    made = Made("Far away and long ago", "4", hooks=Hooks(before_stop=speak))

    async def main() -> None:
        async with made.agent:
            made.agent.prompt("tell a tale")
            while not made.texts[1:]:
                await anyio.lowlevel.checkpoint()
            made.agent.configure(hooks=Hooks())
            await made.agent.run("2 + 2?", busy="interrupt", keep=keep)

    go(main)
    assert made.texts == ["user: tell a tale", *left, "user: 2 + 2?", "assistant: 4"]
    assert [message.text for message in made.model.requests[1].messages][1:-1] == [text[11:] for text in left]
    made.check()


def test_messages_are_delivered_as_they_came(go: Go) -> None:
    made = Made("seen")

    async def main() -> None:
        made.agent.steer("first")
        await made.agent.run("second")

    go(main)
    assert made.texts == ["user: first", "user: second", "assistant: seen"]


def test_a_stream_may_continue_or_resume(go: Go) -> None:
    delete = raw_tool("delete", "", {}, lambda args, ctx: "gone", needs_approval=True)
    made = Made([call("c1", "delete")], "done", tools=[delete], messages=[user_message("go")])

    async def main() -> None:
        assert made.agent.can_continue
        assert (await made.agent.stream().result()).end_reason == "paused"
        with pytest.raises(ValueError, match="not both"):
            made.agent.stream("x", decisions=Verdict.allow())
        with pytest.raises(ValueError, match="no such call waits"):
            made.agent.stream(decisions={"c9": Verdict.allow()})
        assert (await made.agent.stream(decisions=Verdict.allow()).result()).text == "done"
        assert not made.agent.can_continue
        with pytest.raises(ContinueError):
            made.agent.stream()

    go(main)
    made.check()


def test_a_limit_that_the_host_puts_into_words_is_no_error(go: Go) -> None:
    made = Made([call("c1", "wait")], tools=[wait], limits=Limits(turns=1), texts=Texts(step_limit="Enough."))

    async def main() -> None:
        result = await made.agent.run("go")
        assert (result.raise_for_error().text, result.end_reason) == ("Enough.", "max_turns")

    go(main)


def test_a_model_that_takes_no_tools_is_offered_none(go: Go) -> None:
    made = Made(tools=[wait])
    model = ScriptedModel(["ok"], supports_tools=False)
    made.agent.configure(model=model)

    async def main() -> None:
        await made.agent.run("go")

    go(main)
    assert model.requests[0].tools == () == made.agent.build_llm_tools()
    assert "error warning no_tools: scripted/model takes no tools: none are offered to it" in made.lines
