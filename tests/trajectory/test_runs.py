"""The runs of a session as a list."""

from typing import Any

import anyio

from unspool import Agent, Usage, fold, tool
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.trajectory import MemoryLog, RunInfo, runs


@tool
def look() -> str:
    """Look."""
    return "nothing"


def agent_with(log: MemoryLog, script: list[Any]) -> "Agent[str]":
    return Agent(ScriptedModel(script), tools=[look], log=log)


def texts(run: RunInfo) -> list[str]:
    return [prompt.text for prompt in run.prompts]


def test_each_run_has_its_cause_prompts_ends_and_usage() -> None:
    log = MemoryLog()
    script = [
        Say([call("c1", "look")], usage=Usage(input_tokens=10, output_tokens=1)),
        Say(["one"], usage=Usage(input_tokens=20, output_tokens=2)),
        Say(["two"], usage=Usage(input_tokens=40, output_tokens=4)),
        "three",
    ]
    agent = agent_with(log, script)
    agent.run_sync(["a", "b"])
    agent.run_sync("c")
    agent.follow_up("later")
    anyio.run(agent.continue_)
    first, second, third = runs(log.facts)
    assert (texts(first), texts(second), texts(third)) == (["a", "b"], ["c"], [])
    assert [prompt.id for prompt in first.prompts] == ["m1", "m2"]  # type: ignore[attr-defined]
    assert [run.cause for run in (first, second, third)] == ["prompt", "prompt", "continue"]
    assert [run.end_reason for run in (first, second, third)] == ["stop"] * 3
    assert first.usage == Usage(input_tokens=30, output_tokens=3)
    assert second.usage == Usage(input_tokens=40, output_tokens=4)
    assert (first.previous_run, second.previous_run, third.previous_run) == (
        "",
        first.run_id,
        second.run_id,
    )
    assert (first.first, second.first, third.last) == (1, first.last + 1, len(log.facts))
    assert third.first == second.last + 2  # what was queued in between belongs to no run


def test_after_each_fact_the_newest_run_is_that_of_the_state() -> None:
    log = MemoryLog()
    agent = agent_with(log, [[call("c1", "look")], "one", "two"])
    agent.run_sync("a")
    agent.run_sync("b")
    for number in range(len(log.facts) + 1):
        facts = log.facts[:number]
        state, found = fold(facts), runs(facts)
        assert len(found) == state.runs
        if found:
            assert (found[-1].run_id, found[-1].cause) == (state.run_id, state.cause)
            assert (found[-1].last, found[-1].usage) == (state.seq, state.run_usage)
            assert found[-1].end_reason == state.end_reason


def test_a_prompt_that_a_crash_left_queued_stays_that_of_its_run() -> None:
    log = MemoryLog()
    agent_with(log, ["never"]).run_sync("a")
    crashed = log.facts[:2]  # the start, and the prompt in its queue
    log = MemoryLog(crashed)
    agent = Agent(ScriptedModel(["answer"]), log=log, state=fold(crashed))
    anyio.run(agent.continue_)
    first, second = runs(log.facts)
    assert (texts(first), first.end_reason, first.last) == (["a"], "", 2)
    assert first.prompts[0].id == "m1"  # type: ignore[attr-defined]
    assert (texts(second), second.end_reason) == ([], "stop")


def test_a_session_without_facts_has_none() -> None:
    assert runs([]) == []
