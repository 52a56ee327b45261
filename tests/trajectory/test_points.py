"""Where to fork a session to try again, or to say something else."""

from pathlib import Path
from typing import Any

import pytest

from unspool import (
    Agent,
    AgentStart,
    LogError,
    Message,
    MessageEnd,
    QueueChanged,
    TurnStart,
    assistant_message,
    fold,
    tool,
    user_message,
)
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import MemoryLog, SqliteSessions, before_message, before_run, runs


@tool
def look() -> str:
    """Look."""
    return "nothing"


def asked(*prompts: str, **options: Any) -> MemoryLog:
    log = MemoryLog()
    agent = Agent(ScriptedModel([f"answer to {prompt}" for prompt in prompts]), log=log, **options)
    for prompt in prompts:
        agent.run_sync(prompt)
    return log


def conversation(log: MemoryLog, at: int) -> list[str]:
    return [message.text for message in fold(log.facts[:at]).messages]


def test_before_a_run_its_prompts_are_not_there_yet() -> None:
    log = asked("a", "b", "c")
    points = [before_run(log.facts, run.run_id) for run in runs(log.facts)]
    assert [conversation(log, at) for at in points] == [
        [],
        ["a", "answer to a"],
        ["a", "answer to a", "b", "answer to b"],
    ]
    assert points[0] == 0
    assert all(isinstance(log.facts[at], AgentStart) for at in points)


def test_before_a_prompt_is_before_its_run() -> None:
    log = asked("a", "b")
    first, second = [run.run_id for run in runs(log.facts)]
    assert before_message(log.facts, "m1") == before_run(log.facts, first)
    assert before_message(log.facts, "m3") == before_run(log.facts, second)


def test_before_a_message_of_mid_run_is_before_it_was_queued() -> None:
    log = MemoryLog()
    agent = Agent(ScriptedModel([[call("c1", "look")], "one"]), tools=[look], log=log)
    agent.subscribe(
        lambda event: agent.steer("wait") if isinstance(event, TurnStart) and event.index == 1 else None
    )
    agent.run_sync("go")
    steered = next(fact for fact in log.facts if isinstance(fact, QueueChanged) and fact.lane == "steering")
    committed = next(
        fact for fact in log.facts if isinstance(fact, MessageEnd) and fact.queue_id == steered.ids[0]
    )
    assert before_message(log.facts, committed.id) == steered.seq - 1
    assert before_message(log.facts, steered.ids[0]) == steered.seq - 1
    assert not fold(log.facts[: steered.seq - 1]).steering


def test_a_message_queued_while_idle_and_one_never_delivered_have_their_points() -> None:
    log = asked("a")
    agent: Agent[str] = Agent(ScriptedModel([]), log=log, state=fold(log.facts))
    agent.follow_up("later")
    assert before_message(log.facts, "q2") == len(log.facts) - 1
    crashed = log.facts[:2]  # the run's start, and its prompt in the queue
    assert before_message(crashed, "q1") == 0


def test_a_fork_asks_again_and_another_asks_something_else(tmp_path: Path) -> None:
    with SqliteSessions(tmp_path / "s.db") as sessions:
        with sessions.create("s") as log:
            agent: Agent[str] = Agent(ScriptedModel(["one", "two"]), log=log)
            agent.run_sync("a")
            agent.run_sync("b")
        first, second = runs(sessions.facts("s"))
        again = sessions.fork("s", before_run(sessions.facts("s"), second.run_id))
        other = sessions.fork("s", before_message(sessions.facts("s"), "m3"))
        for session, prompts in ((again, second.prompts), (other, [user_message("B?")])):
            with sessions.open(session) as log:
                Agent(ScriptedModel(["better"]), log=log).run_sync(prompts)
        assert [message.text for message in fold(sessions.facts(again)).messages] == [
            "a",
            "one",
            "b",
            "better",
        ]
        assert [message.text for message in fold(sessions.facts(other)).messages] == [
            "a",
            "one",
            "B?",
            "better",
        ]
        for session in (again, other):
            assert runs(sessions.facts(session))[-1].previous_run == first.run_id  # not the one it replaces


# --- where there is none -------------------------------------------------------------------------


@pytest.mark.parametrize(("run", "known"), [("other", 1), ("", 1)])
def test_a_run_that_is_not_there_is_told_with_those_that_are(run: str, known: int) -> None:
    log = asked("a")
    with pytest.raises(LogError) as caught:
        before_run(log.facts, run)
    assert caught.value.details["kind"] == "no_fact"
    assert caught.value.details["runs"] == [each.run_id for each in runs(log.facts)]
    assert len(caught.value.details["runs"]) == known


@pytest.mark.parametrize("message", ["m2", "m5", "m9", "", "q9"])
def test_a_message_that_nobody_sent_is_told_with_those_that_were(message: str) -> None:
    log = asked("a", "b")
    with pytest.raises(LogError) as caught:
        before_message(log.facts, message)
    assert (caught.value.details["kind"], caught.value.details["messages"]) == ("no_fact", ["m1", "m3"])


def test_imported_messages_were_not_sent() -> None:
    history: list[Message] = [user_message("old"), assistant_message("answer")]
    log = asked("a", messages=history)
    with pytest.raises(LogError, match="no such message that somebody sent"):
        before_message(log.facts, "m1")
    assert before_message(log.facts, "m3") == fold(log.facts).seq - len([f for f in log.facts if f.run_id])


def test_not_all_are_named_in_a_long_session() -> None:
    log = asked(*[str(number) for number in range(25)])
    with pytest.raises(LogError) as caught:
        before_run(log.facts, "none")
    assert caught.value.details["runs"] == [run.run_id for run in runs(log.facts)][-20:]
