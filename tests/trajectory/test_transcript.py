"""The conversation as it was written, whatever became of it since."""

from collections.abc import Sequence
from typing import Any

import anyio
from hosts import HOSTS, Reading, codec

from unspool.kernel import (
    Agent,
    AgentContext,
    Fact,
    FakeClock,
    Hooks,
    Limits,
    LoopConfig,
    StopVerdict,
    Texts,
    agent_loop,
    assistant_message,
    user_message,
)
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory import MemoryLog, transcript
from unspool.trajectory.transcript import Written


def lines(facts: Sequence[Fact]) -> list[str]:
    """Each message as a line; one that the conversation no longer holds in brackets."""
    return [_line(each) for each in transcript(facts)]


def _line(each: Written) -> str:
    text = f"{each.id} {each.message.role}: {each.message.text}"
    text = f"{text} <{each.cause}>" if each.cause else text
    return text if each.kept else f"({text})"


async def talk(*script: Any, act: Any = None, **options: Any) -> list[Fact]:
    clock, log = FakeClock(1000.0), MemoryLog()
    agent = Agent(ScriptedModel(script, clock=clock), log=log, clock=clock, **options)
    await (act(agent) if act is not None else agent.run("go"))
    return log.facts


def test_each_message_with_where_it_comes_from() -> None:
    _, facts = anyio.run(HOSTS["parallel"]().session)
    written = transcript(facts)
    assert [each.message.role for each in written] == [
        *["user", "assistant", "tool", "tool", "tool"],
        *["assistant", "tool", "tool", "tool", "assistant", "tool", "assistant"],
    ]
    assert all(
        each.kept and each.run_id == "r1" and facts[each.seq - 1].time == each.time for each in written
    )
    assert written[2].message.text == "nothing in the kitchen"  # a result has its content


def test_why_the_kernel_or_a_hook_wrote_it() -> None:
    hooks = Hooks(
        before_turn=lambda info: ["remember"] if info.index == 1 else [],
        stop_guard=lambda info: StopVerdict("go_on", "sure?") if info.turns < 3 else StopVerdict("stop"),
    )
    script = [Say(["half"], stop_reason="length"), "whole", "yes"]
    assert lines(anyio.run(lambda: talk(*script, hooks=hooks, texts=Texts(go_on="go on")))) == [
        "m1 user: go",
        "m2 user: remember <before_turn>",
        "m3 assistant: half",
        "m4 user: go on <length_recovery>",
        "m5 assistant: whole",
        "m6 user: sure? <stop_guard>",
        "m7 assistant: yes",
    ]


def test_a_run_without_turns_left() -> None:
    facts = anyio.run(
        lambda: talk([call("c1", "x")], limits=Limits(turns=1), texts=Texts(step_limit="that is all"))
    )
    assert lines(facts)[-1] == "m4 assistant: that is all <step_limit>"


def test_after_a_compaction_the_replaced_message_is_still_told() -> None:
    _, facts = anyio.run(HOSTS["overflow"]().session)
    told = lines(facts)
    assert told[0] == "(m1 user: first)"
    assert [line for line in told if "Before:" in line] == []  # a summary is nobody's message
    assert sum(line.startswith("(") for line in told) < len(told)


def test_after_a_reset_and_other_messages() -> None:
    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        await agent.reset()
        agent.set_messages([user_message("imported"), assistant_message("yes")])
        await agent.run("and now?")
        agent.set_messages([user_message("all new")])

    facts = anyio.run(lambda: talk("one", "two", act=act))
    assert lines(facts) == [
        "(m1 user: go)",
        "(m2 assistant: one)",
        "(m3 user: imported <import>)",
        "(m4 assistant: yes <import>)",
        "(m5 user: and now?)",
        "(m6 assistant: two)",
        "m7 user: all new",
    ]


def test_an_interrupted_reply_and_its_marker() -> None:
    async def act(agent: Agent[Any]) -> None:
        agent.subscribe(
            lambda event: agent.abort(keep=True) if getattr(event, "delta", "") == " upon" else None
        )
        await agent.run("a tale")
        await agent.run("go on")

    facts = anyio.run(lambda: talk(["Once", " upon", Wait(9), " a time"], "there was", act=act))
    assert lines(facts) == [
        "m1 user: a tale",
        "m2 assistant: Once upon",
        "m3 assistant: aborted by the user <abort>",
        "m4 user: go on",
        "m5 assistant: there was",
    ]
    assert transcript(facts)[1].message.stop_reason == "interrupted"  # type: ignore[attr-defined]


def test_an_answer_that_was_cut_to_what_was_heard() -> None:
    async def act(agent: Agent[Any]) -> None:
        await agent.run("a tale")

    async def abort(info: Any) -> None:
        agents[0].abort(keep=lambda text: text[:4], marker=False)
        await anyio.sleep_forever()

    agents: list[Agent[Any]] = []

    async def main() -> list[Fact]:
        log = MemoryLog()
        agents.append(
            Agent(ScriptedModel(["Once upon"]), log=log, hooks=Hooks(before_stop=abort), clock=FakeClock())
        )
        await act(agents[0])
        return log.facts

    facts = anyio.run(main)
    assert lines(facts) == ["m1 user: a tale", "(m2 assistant: Once upon)"]


def test_a_history_that_a_loop_was_given() -> None:
    async def main() -> list[Fact]:
        log = MemoryLog()
        context = AgentContext(messages=[user_message("before"), assistant_message("yes")])
        async with agent_loop("go", context, LoopConfig(model=ScriptedModel(["fine"]), log=log)) as run:
            await run.result()
        return log.facts

    facts = anyio.run(main)
    assert lines(facts) == ["m1 user: before", "m2 assistant: yes", "m3 user: go", "m4 assistant: fine"]
    assert [each.seq for each in transcript(facts)][:2] == [1, 1]


def test_a_fork_has_what_was_written_before_it() -> None:
    async def main() -> tuple[list[Fact], list[Fact]]:
        log, other = MemoryLog(), MemoryLog()
        agent = Agent(ScriptedModel(["one", "two"]), log=log, clock=FakeClock())
        await agent.run("go")
        fork = agent.fork(log=other)
        await fork.run("elsewhere")
        return log.facts, other.facts

    facts, forked = anyio.run(main)
    assert lines(facts) == ["m1 user: go", "m2 assistant: one"]
    assert [line.partition(" <")[0] for line in lines(forked)] == [
        "m1 user: go",
        "m2 assistant: one",
        "m3 user: elsewhere",
        "m4 assistant: two",
    ]


def test_a_message_of_the_application_is_itself() -> None:
    _, facts = anyio.run(HOSTS["own_messages"]().session)
    assert [each.message for each in transcript(facts) if isinstance(each.message, Reading)] == [
        Reading(1.5),
        Reading(9.0),
        Reading(2.5),
        Reading(9.0),
    ]
    assert codec().wrap(Reading(1.5)).kind == "reading"


def test_nothing() -> None:
    assert transcript([]) == []
