"""A tree that is stopped at any event, by an abort or by a consumer that leaves: all of it ends, once, accounted."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.tools.shell.conftest import Processes

from unspool import Agent, tool
from unspool.kernel import (
    AgentEnd,
    AgentStart,
    ChildEnded,
    ChildStarted,
    SystemClock,
    ToolContext,
    ToolExecEnd,
    fold,
)
from unspool.llm.scripted import ScriptedModel, Wait, call
from unspool.subagent import AgentDefinition, TreeLimits
from unspool.subagent.subagents import Subagents
from unspool.tools.shell import bash_tool
from unspool.tools.tasks import Tasks
from unspool.trajectory import MemoryLog

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
        assert scene.agent.state.end_reason == "aborted" or at >= count - 2  # only its end was left to tell
        assert scene.clock.monotonic() <= whole.clock.monotonic()


def test_no_process_of_a_child_is_left(go: Any, tmp_path: Path) -> None:  # B183
    """A child in a command of a minute, one in the background that streams, one below it: all end with the tree."""
    processes = Processes()
    clock = SystemClock()
    tasks = Tasks(clock=clock)
    minute = call("x", "bash", command=f"echo on > {tmp_path}/on; sleep 60")
    scripts: dict[str, list[Any]] = {
        "a": [[minute]],
        "b": [[sub("g1", "g")]],
        "g": [["I think", Wait(60)]],
    }
    models = {name: ScriptedModel(script, clock=clock) for name, script in scripts.items()}
    agents = [AgentDefinition(name=name, model=model) for name, model in models.items()]
    subagents = Subagents(agents, tasks=tasks)
    root = ScriptedModel([[sub("c1", "b", background=True), sub("c2", "a")], "never"])
    shell = bash_tool(tmp_path, env=processes.env)
    log = MemoryLog()
    agent = Agent(root, name="root", tools=[shell, subagents.tool], log=log)

    async def main() -> None:
        async with tasks, anyio.create_task_group() as group:
            group.start_soon(agent.run, "begin")
            while not ((tmp_path / "on").exists() and len(subagents.running()) == 3):  # noqa: ASYNC110 (a file says it)
                await anyio.sleep(0.01)
            assert processes.alive()
            agent.abort()
            await agent.wait_idle()
            await tasks.stop_all(log.session)

    go(main)
    assert processes.gone_within(1)
    assert agent.state.end_reason == "aborted" and not agent.state.children
    assert [task.status for task in tasks.list()] == ["stopped"]
    for each in subagents.logs._logs.values():
        assert [fact.reason for fact in each.facts if isinstance(fact, AgentEnd)] == ["aborted"]
    assert any(
        "I think" in m.text for each in subagents.logs._logs.values() for m in fold(each.facts).messages
    )
