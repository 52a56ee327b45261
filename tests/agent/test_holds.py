"""Holding, resetting, injecting: what may start when, and what becomes of messages."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from making import Made, at, wait

from unspool import AgentBusyError, RunsHeldError, assistant_message, user_message
from unspool.kernel import AgentEnd
from unspool.llm.scripted import Wait, call

Go = Callable[[Any], Any]


def test_inject_into_a_run(go: Go) -> None:  # T41
    made = Made([call("c1", "wait", s=9)], "answered", tools=[wait])

    async def main() -> list[str]:
        told: list[str] = []
        at(made, "tool_exec_dispatch", lambda: told.append(made.agent.inject("look here")))
        await made.agent.run("go")
        return told

    assert go(main) == ["steered"]
    assert made.texts[-2:] == ["user: look here", "assistant: answered"]
    made.check()


def test_inject_after_an_answer_starts_a_run(go: Go) -> None:  # T42
    made = Made("initial", "after inject")

    async def main() -> str:
        async with made.agent:
            await made.agent.run("start")
            told = made.agent.inject("runtime reminder")
            await made.agent.wait_idle()
            return told

    assert go(main) == "resumed"
    assert made.texts == [
        "user: start",
        "assistant: initial",
        "user: runtime reminder",
        "assistant: after inject",
    ]
    made.check()


def test_inject_without_an_owner_of_background_runs_is_queued(go: Go) -> None:
    made = Made("initial", "next")

    async def main() -> str:
        await made.agent.run("start")
        told = made.agent.inject("later")
        await made.agent.continue_()
        return told

    assert go(main) == "queued"
    assert made.texts[-2:] == ["user: later", "assistant: next"]


def test_inject_before_an_answer_is_queued(go: Go) -> None:  # T43
    made = Made(messages=[user_message("unanswered")])

    async def main() -> str:
        async with made.agent:
            return made.agent.inject("more")

    assert go(main) == "queued"
    assert [queued.message.text for queued in made.agent.state.steering] == ["more"]
    made.check()


def test_inject_of_nothing(go: Go) -> None:  # T44
    made = Made(messages=[assistant_message("hi")])
    with pytest.raises(ValueError, match="inject: the message is empty"):
        made.agent.inject("  ")
    assert made.agent.state.steering == ()


def test_two_injects_at_once(go: Go) -> None:  # T45
    made = Made("one", "two", "three", messages=[assistant_message("hi")])

    async def main() -> None:
        async with made.agent:
            threads = [threading.Thread(target=made.agent.inject, args=(text,)) for text in ("a", "b")]
            for thread in threads:
                thread.start()
            for thread in threads:
                await anyio.to_thread.run_sync(thread.join)
            await made.agent.wait_idle()

    go(main)
    assert sorted(text for text in made.texts if text.startswith("user")) == ["user: a", "user: b"]
    made.check()


def test_inject_from_the_listener_of_the_end(go: Go) -> None:  # T47
    made = Made("run 1", "run 2")

    async def main() -> list[str]:
        told: list[str] = []
        async with made.agent:
            at(made, "agent_end", lambda: told.append(made.agent.inject("again")))
            await made.agent.run("go")
            await made.agent.wait_idle()
        return told

    assert go(main) == ["resumed"]
    assert made.texts[-1] == "assistant: run 2"
    made.check()


def test_holding_ends_the_run_without_a_marker(go: Go) -> None:  # T48
    made = Made([Wait(1000), "never"])

    async def main() -> None:
        async with made.agent:
            made.agent.prompt("start")
            while not made.model.requests:
                await anyio.lowlevel.checkpoint()
            async with made.agent.hold_runs():
                assert not made.agent.running

    go(main)
    assert made.texts == ["user: start"]
    assert made.log.facts[-1].reason == "aborted"  # type: ignore[union-attr]  # an AgentEnd
    made.check()


def test_holds_are_counted(go: Go) -> None:  # T50, T54
    made = Made("hi")

    async def main() -> None:
        async with made.agent.hold_runs():
            async with made.agent.hold_runs():
                pass
            with pytest.raises(RunsHeldError):
                await made.agent.run("no")
        await made.agent.run("yes")

    go(main)
    assert made.texts == ["user: yes", "assistant: hi"]


def test_two_holders_of_one_run(go: Go) -> None:  # T59
    made = Made([Wait(1000), "never"])

    async def main() -> int:
        entered = 0
        leave = anyio.Event()

        async def hold() -> None:
            nonlocal entered
            async with made.agent.hold_runs():
                entered += 1
                await leave.wait()

        async with made.agent, anyio.create_task_group() as tasks:
            made.agent.prompt("start")
            tasks.start_soon(hold)
            tasks.start_soon(hold)
            while entered < 2:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(RunsHeldError):
                made.agent.prompt("no")
            leave.set()
        return entered

    assert go(main) == 2


def test_a_listener_that_goes_on_while_runs_are_held(go: Go) -> None:  # T51
    made = Made([Wait(1000), "never"])
    raised: list[BaseException] = []

    def go_on() -> None:
        try:
            made.agent.prompt("more")
        except RunsHeldError as error:
            raised.append(error)

    async def main() -> None:
        async with made.agent:
            at(made, "agent_end", go_on)
            made.agent.prompt("start")
            while not made.model.requests:
                await anyio.lowlevel.checkpoint()
            async with made.agent.hold_runs():
                pass

    go(main)
    assert len(raised) == 1


@pytest.mark.parametrize("what", ["hold_runs", "reset", "wait_idle"])
def test_waiting_from_a_listener_is_refused(go: Go, what: str) -> None:
    made = Made("hi")
    raised: list[str] = []

    def wait_here() -> None:
        try:
            getattr(made.agent, what)()
        except RuntimeError as error:
            raised.append(str(error))

    async def main() -> None:
        at(made, "turn_start", wait_here)
        await made.agent.run("go")

    go(main)
    assert raised == [f"{what}: called from a listener, which the run waits for; start a task that does it"]
    assert made.texts[-1] == "assistant: hi"


def test_reset_while_a_run_is_under_way(go: Go) -> None:  # T55
    made = Made([Wait(1000), "never"], "fresh")

    async def main() -> None:
        async with made.agent:
            made.agent.prompt("start")
            while not made.model.requests:
                await anyio.lowlevel.checkpoint()
            made.agent.follow_up("forgotten")
            await made.agent.reset()
            assert (made.agent.running, made.texts, made.agent.state.follow_ups) == (False, [], ())
            await made.agent.run("again")

    go(main)
    assert made.texts == ["user: again", "assistant: fresh"]
    assert [message.text for message in made.model.requests[-1].messages] == ["again"]
    made.check()


def test_reset_of_a_paused_run(go: Go) -> None:
    from unspool import tool  # noqa: PLC0415  # only here

    @tool(needs_approval=True)
    def delete(path: str) -> str:
        return "gone"

    made = Made([call("c1", "delete", path="a")], "fresh", tools=[delete])

    async def main() -> None:
        assert (await made.agent.run("go")).end_reason == "paused"
        with pytest.raises(AgentBusyError, match="wait for a decision"):
            made.agent.set_messages([])
        await made.agent.reset()
        assert (await made.agent.run("again")).text == "fresh"

    go(main)
    made.check()


def test_messages_are_replaced_only_while_idle(go: Go) -> None:  # T56, T270
    made = Made([Wait(3), "hi"], "yes")

    async def main() -> None:
        refused: list[bool] = []

        def replace() -> None:
            with pytest.raises(AgentBusyError):
                made.agent.set_messages([])
            refused.append(True)

        at(made, "turn_start", replace)
        await made.agent.run("go")
        assert refused
        made.agent.set_messages([])
        assert made.texts == []
        given = [user_message("a"), assistant_message("b")]
        made.agent.set_messages(given)
        given.clear()
        made.agent.set_messages([*made.agent.export_messages(), user_message("c")])
        await made.agent.continue_()

    go(main)
    assert made.texts == ["user: a", "assistant: b", "user: c", "assistant: yes"]
    made.check()


def test_queues_can_be_cleared_apart(go: Go) -> None:  # T61
    made = Made()
    made.agent.steer("a")
    made.agent.follow_up("b")
    made.agent.clear_queue(steering=False)
    assert [queued.message.text for queued in made.agent.state.steering] == ["a"]
    assert made.agent.state.follow_ups == ()
    made.agent.clear_queue()
    assert made.agent.state.steering == ()
    made.check()


def test_a_follow_up_waits_out_a_hold(go: Go) -> None:  # T58
    made = Made("hi", "more")

    async def main() -> None:
        await made.agent.run("go")
        made.agent.follow_up("later")
        async with made.agent.hold_runs():
            with pytest.raises(RunsHeldError):
                await made.agent.continue_()
            assert len(made.agent.state.follow_ups) == 1
        await made.agent.continue_()

    go(main)
    assert made.texts[-2:] == ["user: later", "assistant: more"]
    made.check()


def test_abort_of_an_idle_agent_arms_nothing(go: Go) -> None:  # T60
    made = Made("hi")

    async def main() -> None:
        made.agent.abort()
        async with made.agent.hold_runs():
            pass
        await made.agent.run("go")

    go(main)
    assert made.texts == ["user: go", "assistant: hi"]
    assert sum(isinstance(event, AgentEnd) for event in made.heard) == 1
