"""A log that refuses a fact: an exception, nothing more recorded, all work stopped."""

import gc
from typing import Any

import pytest
from play import EncodedLog, Outside, Played, Player, echo

from unspool.kernel import LogError
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import call

SCRIPT = ([call("c1", "echo", value="a"), call("c2", "echo", value="b")], "done")
FACTS = 23


def test_number_of_facts(play: Player) -> None:
    assert len(play(*SCRIPT, tools=[echo()]).facts) == FACTS


@pytest.mark.parametrize("position", range(1, FACTS + 1))
def test_refused_fact_ends_everything(play: Player, position: int) -> None:  # T19, T449
    ran: list[str] = []

    async def work(args: Any, ctx: Any) -> object:
        ran.append(ctx.call_id)
        return args["value"]

    tools = [raw_tool("echo", "", {}, work)]
    log = EncodedLog(refuse_at=position)
    run = play(*SCRIPT, tools=tools, log=log)
    assert run.error is not None
    assert "session disk full" in str(run.error)
    assert len(run.facts) == position - 1
    dispatched = [fact for fact in run.facts if type(fact).__name__ == "ToolExecDispatch"]
    assert len(ran) <= len(dispatched)


def answered(run: Played) -> bool:
    """Whether the session shows a final answer, so that there is nothing to continue."""
    return run.state.tail == "assistant" and run.state.turn is None


@pytest.mark.parametrize("position", range(3, FACTS))
def test_session_goes_on_after_a_refused_fact(play: Player, position: int) -> None:  # T449
    first = play(*SCRIPT, tools=[echo()], log=EncodedLog(refuse_at=position))
    if answered(first):
        pytest.skip("the answer was in")
    replied = any(message.role == "assistant" for message in first.state.messages)
    second = play(*SCRIPT[replied:], prompt=None, state=first.state, tools=[echo()])
    assert second.end.reason == "stop"
    assert second.state.turn is None
    assert list(second.results()) == ["c1", "c2"]
    assert second.texts[0] == "user: go"
    assert second.texts[-1] == "assistant: done"


def test_refused_steering_is_told_to_its_sender(play: Player) -> None:
    heard: list[str] = []

    def steer(outside: Outside) -> None:
        with pytest.raises(LogError) as refused:
            outside.steer("now")
        heard.append(str(refused.value))

    run = play("one", "two", log=EncodedLog(refuse_at=7), on={"message_start assistant": steer})
    assert "session disk full" in heard[0]
    assert run.state.steering == ()
    assert isinstance(run.error, LogError)  # and nothing more is recorded


def test_nothing_depends_on_garbage_collection(play: Player) -> None:  # B157
    want = play(*SCRIPT, tools=[echo()]).trace
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        assert play(*SCRIPT, tools=[echo()]).trace == want
    finally:
        gc.set_threshold(*threshold)
