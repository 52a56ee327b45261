"""What all sessions below one root share: depth, number, slots, budget."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from unspool import Limits, Usage
from unspool.kernel import AgentStart, ChildStarted, FakeClock, ModelRequest, StreamEvent, fold
from unspool.llm.scripted import Say, ScriptedModel, Wait
from unspool.subagent import AgentDefinition, Budget, TreeLimits, tree
from unspool.subagent.tree import Tree
from unspool.trajectory import MemoryLog

from .subagent_scenes import Clock, Scene, go, ran, said, several, sub, text_of

__all__ = ["go"]


class Spawner(ScriptedModel):
    """Always calls as many agents as it can, each with the same task, and answers once it is refused."""

    def __init__(self, width: int, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self._width = width
        self._calls = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        last = request.messages[-1]
        if last.role == "tool":
            self._script = [*["x"] * len(self.requests), "I give up"]
        else:
            self._calls += self._width
            calls = [sub(f"c{self._calls + n}", "same", "the same") for n in range(self._width)]
            self._script = [*["x"] * len(self.requests), calls]
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


@pytest.mark.parametrize(("width", "most", "expected"), [(1, 100, 3), (5, 20, 20), (3, 100, 39)])
def test_a_delegate_that_delegates_again(go: Any, width: int, most: int, expected: int) -> None:  # B181
    clock = Clock()
    same = AgentDefinition(name="same")
    scene = Scene([], agents=[same], clock=clock, tree=TreeLimits(depth=3, descendants=most))
    scene.model = Spawner(width, clock)
    scene.agent = scene.make()
    assert go(lambda: scene.agent.run("begin")).end_reason == "stop"
    assert len(scene.logs) == expected
    refused = [
        end
        for log in scene.logs.values()
        for end in scene.ends(log.facts)
        if end.outcome == "error" and "limit" in text_of(end)
    ]
    assert refused
    assert all(fold(log.facts).end_reason == "stop" for log in scene.logs.values())
    assert scene.agent.total_usage == scene.spent


def test_children_of_earlier_processes_count(go: Any) -> None:
    scene = Scene(
        [[several("tasks", ("a", "1"), ("a", "2"))], "done"], {"a": [[sub("x", "b")], "1", "2"], "b": ["b"]}
    )
    go(lambda: scene.agent.run("begin"))
    assert len(scene.logs) == 3
    tree._trees.clear()  # as another process has none
    again = Scene([[sub("c2", "a")], "done"], {"a": ["never"]}, log=scene.log, tree=TreeLimits(descendants=3))
    again.logs.update(scene.logs)
    go(lambda: again.agent.run("more"))
    assert "3 are the limit" in text_of(again.ends()[-1])


def test_one_slot_is_enough_for_any_depth(go: Any) -> None:
    chain = {name: [[sub("c", following)], name] for name, following in zip("abc", "bcd", strict=True)}
    scene = Scene([[sub("c", "a")], "done"], {**chain, "d": ["d"]}, tree=TreeLimits(concurrency=1))
    assert go(lambda: scene.agent.run("begin")).text == "done"
    assert len(scene.logs) == 4


def test_no_more_children_run_at_once_than_there_are_slots(go: Any) -> None:
    """Seven runs of ten seconds each on two slots; those that only wait for others need none."""
    slow = [["x", Wait(10)]] * 4
    inner = [several("tasks", ("c", "1"), ("c", "2"))]
    steps = [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("d", "5")]
    scene = Scene(
        [[several("tasks", *steps)], "done"],
        {"a": slow, "b": [inner, "b"], "c": slow, "d": [inner, "d"]},
        tree=TreeLimits(concurrency=2),
    )
    assert go(lambda: scene.agent.run("begin")).text == "done"
    assert scene.clock.monotonic() == 40
    assert len(scene.logs) == 9


def test_the_budget_of_the_caller_is_watched_while_children_run(go: Any) -> None:
    dear = Usage(input_tokens=300, output_tokens=10)
    steps = [("a", "1"), ("b", "2"), ("c", "3")]
    script = [Say([sub("x", "nobody")], usage=dear), Say(["much", Wait(50)], usage=dear)]
    scene = Scene(
        [Say([several("tasks", *steps)], usage=Usage(input_tokens=10)), "never"],
        {
            "a": script,
            "b": [Say([Wait(1), sub("x", "nobody")], usage=dear), Say(["much", Wait(50)], usage=dear)],
            "c": [Say([Wait(2), sub("x", "nobody")], usage=dear), Say(["much", Wait(50)], usage=dear)],
        },
        options={"limits": Limits(tokens=900)},
    )
    result = go(lambda: scene.agent.run("begin"))
    assert result.end_reason == "budget"
    assert scene.clock.monotonic() < 3, "they were ended as soon as it was used up"
    assert result.total_usage == scene.spent
    (end,) = scene.ends()
    assert text_of(end).count("was ended: the budget of its caller is used up") == 3


def test_a_child_has_what_is_left(go: Any) -> None:
    agent = AgentDefinition(name="a", budget=Budget(tokens=500))
    use = Usage(input_tokens=100)
    scene = Scene(
        [Say([sub("c1", "a")], usage=use), Say([sub("c2", "a")], usage=use), "done"],
        {"a": [Say(["x"], usage=Usage(input_tokens=450)), Say([sub("x", "no")], usage=use), "never"]},
        agents=[agent],
        options={"limits": Limits(tokens=1000)},
    )
    result = go(lambda: scene.agent.run("begin"))
    starts = [fact for log in scene.logs.values() for fact in log.facts if isinstance(fact, AgentStart)]
    assert [fact.limits.tokens for fact in starts] == [500, 350]
    assert [fact.limits.grace_s for fact in starts] == [4.0, 4.0]
    assert result.end_reason == "stop"


def test_tokens_of_a_child_that_are_used_up(go: Any) -> None:
    agent = AgentDefinition(name="a", budget=Budget(tokens=100))
    scene = Scene([[sub("c1", "a")], "done"], {"a": [said("well", 50, sub("x", "no"))]}, agents=[agent])
    go(lambda: scene.agent.run("begin"))
    (end,) = scene.ends()
    assert "agent 'a' ran out of its 100 tokens" in text_of(end)
    assert "it last said: well" in text_of(end)


def test_slots_are_given_in_order(go: Any) -> None:
    got: list[str] = []

    async def main() -> None:
        slots = Tree("root")

        async def take(name: str, first: bool = False) -> None:
            if await slots.take_slot(1, lambda: False, first=first):
                got.append(name)

        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                group.start_soon(take, name)
                await anyio.wait_all_tasks_blocked()
            group.start_soon(take, "front", True)
            await anyio.wait_all_tasks_blocked()
            for _ in range(3):
                slots.free_slot()
                await anyio.wait_all_tasks_blocked()

    go(main)
    assert got == ["a", "front", "b", "c"]


def test_a_child_started_names_its_mode(go: Any) -> None:
    scene = Scene([[several("chain", ("a", "1"))], "done"], {"a": ["x"]}, log=MemoryLog())
    assert ran(go(lambda: scene.agent.run("begin"))) == ("stop", "done")
    (started,) = [fact for fact in scene.log.facts if isinstance(fact, ChildStarted)]
    assert (started.mode, started.used) == ("chain", Usage())
