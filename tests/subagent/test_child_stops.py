"""A tree that is stopped at any event, by an abort or by a consumer that leaves: all of it ends, once, accounted."""

import os
from typing import Any

import pytest

from unspool import tool
from unspool.kernel import AgentEnd, AgentStart, ChildEnded, ChildStarted, ToolContext, ToolExecEnd, fold
from unspool.llm.scripted import Wait, call
from unspool.subagent import TreeLimits

from .subagent_scenes import Scene, go, said, several, sub

__all__ = ["go"]


@tool
async def work(ctx: ToolContext) -> str:
    """Work."""
    await ctx.clock.sleep(5)
    return "worked"


def _scene(slots: int) -> Scene:
    return Scene(
        [said("", 1, several("tasks", ("a", "x"), ("b", "y"))), said("done", 2)],
        {
            "a": [said("", 3, sub("d1", "g"), call("w", "work")), said("half", 4)],
            "b": [["b ", Wait(3), "says"], said("never", 1)],
            "g": [said("", 5, call("w", "work")), said("deep", 6)],
        },
        tools=[work],
        tree=TreeLimits(concurrency=slots),
    )


def _check(scene: Scene) -> None:
    assert not scene.subagents.running()
    assert not scene.agent.state.children
    assert scene.agent.total_usage == scene.spent
    for log in (scene.log, *scene.logs.values()):
        facts = log.facts
        if not facts:
            continue  # it had not begun
        starts = sum(isinstance(fact, AgentStart) for fact in facts)
        assert sum(isinstance(fact, AgentEnd) for fact in facts) == starts
        assert isinstance(facts[-1], AgentEnd)
        begun = [fact.child for fact in facts if isinstance(fact, ChildStarted)]
        assert sorted(begun) == sorted(fact.child for fact in facts if isinstance(fact, ChildEnded))
        ended = [fact.call_id for fact in facts if isinstance(fact, ToolExecEnd)]
        assert len(ended) == len(set(ended))
        assert fold(facts).turn is None
    assert not scene.subagents.trees.of(scene.log.session).nodes


async def _events(scene: Scene) -> int:
    count = 0
    async with scene.agent.stream("begin") as stream:
        async for _ in stream:
            count += 1
    return count


@pytest.mark.parametrize("slots", [1, 8])
@pytest.mark.parametrize("how", ["abort", "leave"])
def test_stopped_at_any_event(go: Any, how: str, slots: int) -> None:
    whole = _scene(slots)
    count = go(lambda: _events(whole))
    _check(whole)
    for at in range(1, count, 1 if os.environ.get("UNSPOOL_LONG") else 9):
        scene = _scene(slots)

        async def main(scene: Scene = scene, at: int = at) -> None:
            seen = 0
            async with scene.agent.stream("begin") as stream:
                async for _ in stream:
                    seen += 1
                    if seen == at and how == "leave":
                        break
                    if seen == at:
                        scene.agent.abort(keep=True)

        go(main)
        _check(scene)
        assert scene.agent.state.end_reason == "aborted"
        assert scene.clock.monotonic() <= whole.clock.monotonic()
