"""Children that go on in the background, as tasks."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from unspool import Verdict, tool
from unspool.kernel import AgentEnd, ChildEnded, Hooks, Message, fold
from unspool.llm.scripted import Wait, call
from unspool.subagent import AgentDefinition, DefinitionError, TreeLimits
from unspool.subagent.subagents import Subagents
from unspool.tools.tasks import Tasks, task_tools
from unspool.trajectory import MemoryLog

from .subagent_scenes import Clock, Scene, go, said, sub, text_of

__all__ = ["go"]


class Desk:
    """A scene with a registry of tasks on the same clock."""

    def __init__(self, script: Any, scripts: Any, **shared: Any) -> None:
        clock = Clock()
        self.notices: list[Message] = []
        self.tasks = Tasks(clock=clock, notify=self.notices.append)
        self.scene = Scene(
            script,
            scripts,
            clock=clock,
            tasks=self.tasks,
            tools=[*shared.pop("tools", ()), *task_tools(self.tasks)],
            **shared,
        )

    def running(self, main: Callable[[], Any]) -> Callable[[], Any]:
        async def closed() -> Any:
            async with self.tasks:
                return await main()

        return closed


def later(id: str = "c1", agent: str = "writer", task: str = "write", **more: Any) -> Any:
    return sub(id, agent, task, background=True, **more)


def test_it_ends_after_the_parent(go: Any) -> None:  # B180
    desk = Desk([[later(description="a poem")], "begun"], {"writer": [["a poem", Wait(3)]]})
    scene = desk.scene

    async def main() -> Any:
        result = await scene.agent.run("begin")
        assert list(scene.agent.state.children)
        (task,) = await desk.tasks.wait()
        return result, task

    result, task = go(desk.running(main))
    assert result.text == "begun"
    told = msgspec.json.decode(text_of(scene.ends()[0]))
    session = next(iter(scene.logs))
    assert told == {"task_id": "agent-1", "description": "a poem", "status": "running", "thread": session}
    assert (task.status, task.session) == ("completed", scene.log.session)
    last = scene.log.facts[-1]
    assert isinstance(last, ChildEnded) and (last.run_id, last.end_reason) == ("", "stop")
    assert not scene.agent.state.children
    (notice,) = desk.notices
    assert "a poem" in notice.text and "completed" in notice.text
    assert scene.agent.total_usage == scene.spent
    lines = desk.tasks.output("agent-1").text.splitlines()
    assert msgspec.json.decode(lines[0])["role"] == "user"
    assert lines[-1].startswith("[thread") and "a poem" in lines


def test_closing_stops_it(go: Any) -> None:  # B180
    desk = Desk([[later()], "begun"], {"writer": [["well", Wait(60)]]})
    scene = desk.scene

    async def main() -> Any:
        await scene.agent.run("begin")
        await scene.clock.sleep(2)

    go(desk.running(main))
    assert scene.clock.monotonic() < 3
    (task,) = desk.tasks.list()
    assert task.status == "stopped"
    ends = [fact.reason for fact in scene.facts() if isinstance(fact, AgentEnd)]
    assert ends == ["aborted"]
    assert scene.pairs() == [("started", "writer"), ("aborted", "writer")]


def test_stopping_a_tree_with_one_in_the_background(go: Any) -> None:  # B183
    desk = Desk(
        [[later("c1", "b"), sub("c2", "a")]],
        {"a": [[sub("d1", "g")]], "b": [["b says", Wait(60)]], "g": [["g says", Wait(60)]]},
    )
    scene = desk.scene

    async def main() -> Any:
        scene.clock.call_later(0.2, scene.agent.abort)
        result = await scene.agent.run("begin")
        await desk.tasks.stop_all(scene.log.session)
        return result

    assert go(desk.running(main)).end_reason == "aborted"
    assert scene.clock.monotonic() < 1
    for log in scene.logs.values():
        assert [f.reason for f in log.facts if isinstance(f, AgentEnd)] == ["aborted"]
        assert any("says" in m.text for m in fold(log.facts).messages) or "a-" in log.session
    assert scene.agent.total_usage == scene.spent


@pytest.mark.parametrize("when", [1, 4.9999])
def test_messages_to_it_are_answered(go: Any, when: float) -> None:  # T166, T467
    desk = Desk([[later()], "begun"], {"writer": [["first", Wait(5)], "second"]})
    scene = desk.scene

    async def main() -> Any:
        def send() -> None:
            assert desk.tasks.append_pending("agent-1", "in French") == "ok"

        scene.clock.call_later(when, send)
        await scene.agent.run("begin")
        return await desk.tasks.wait()

    (task,) = go(desk.running(main))
    assert (task.status, task.unread) == ("completed", 0)
    assert scene.models["writer"].requests[1].messages[-1].text == "in French"
    assert desk.tasks.append_pending("agent-1", "too late") == "terminal"


def test_one_that_fails(go: Any) -> None:
    desk = Desk([[later()], "begun"], {"writer": []})
    scene = desk.scene

    async def main() -> Any:
        await scene.agent.run("begin")
        return await desk.tasks.wait()

    (task,) = go(desk.running(main))
    assert task.status == "failed" and "agent 'writer' failed: script" in task.error


def test_no_deeper(go: Any) -> None:  # T161
    desk = Desk([[sub("c1", "a")], "done"], {"a": [[later("d1", "a")], "a"]}, tree=TreeLimits(depth=1))
    scene = desk.scene
    go(desk.running(lambda: scene.agent.run("begin")))
    (end,) = scene.ends(scene.facts())
    assert "depth" in msgspec.json.decode(text_of(end))["error"]
    assert desk.tasks.list() == ()


def test_it_ends_before_the_child_that_started_it(go: Any) -> None:
    desk = Desk(
        [[sub("c1", "a")], "done"],
        {"a": [said("", 1, later("d1", "b")), said("a", 2)], "b": [["b", Wait(5)], said("b", 3)]},
    )
    scene = desk.scene
    result = go(desk.running(lambda: scene.agent.run("begin")))
    assert scene.clock.monotonic() == 5
    assert result.total_usage == scene.spent
    assert scene.pairs(scene.facts(0)) == [("started", "b"), ("stop", "b")]


class File:
    """An output that fails as it is told."""

    name = "/out"

    def __init__(self, fails: str) -> None:
        self.fails, self.data = fails, b""

    def write(self, data: bytes) -> None:
        if "write" in self.fails:
            raise OSError("disk full")
        self.data += data

    def close(self) -> None:
        if "close" in self.fails:
            raise OSError("gone")


OUTPUTS = {  # T162 to T165
    "": ("completed", ""),
    "open": ("failed", "its output cannot be opened: no place"),
    "write": ("failed", "its output cannot be written: disk full"),
    "close": ("failed", "its output cannot be closed: gone"),
    "run, close": ("failed", "script: no answer left"),
}


@pytest.mark.parametrize("fails", OUTPUTS)
def test_output(go: Any, fails: str) -> None:
    status, error = OUTPUTS[fails]
    file = File(fails)

    def output(id: str) -> File:
        if fails == "open":
            raise OSError("no place")
        return file

    script = [] if "run" in fails else ["hello"]
    desk = Desk([[later()], "begun"], {"writer": script}, output=output)

    async def main() -> Any:
        await desk.scene.agent.run("begin")
        return await desk.tasks.wait()

    (task,) = go(desk.running(main))
    assert task.status == status
    assert error in task.error
    assert ("gone" in task.error) is ("close" in fails)
    if not fails:
        assert task.output_file == "/out" and b"hello" in file.data


def test_approvals_are_the_hosts(go: Any) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    for approve, expected in ((lambda info: Verdict.allow(), "completed"), (None, "failed")):
        desk = Desk(
            [[later()], "begun"],
            {"writer": [[call("p", "pay")], "it is paid"]},
            tools=[pay],
            options={"hooks": Hooks(approve=approve)},
        )

        async def main(desk: Desk = desk) -> Any:
            await desk.scene.agent.run("begin")
            return await desk.tasks.wait()

        (task,) = go(desk.running(main))
        assert task.status == expected
    assert "waits for a person" in task.error


def test_a_fork_begins_as_its_caller_did_then(go: Any) -> None:
    """Also where the caller has gone on before the fork gets its slot."""
    fork = AgentDefinition(name="fork", context="fork")
    desk = Desk(
        [[later("c1", "slow")], [later("c2", "fork", "think")], ["on", Wait(1)], "forked"],
        {"slow": [["x", Wait(9)]]},
        agents=[fork],
        tree=TreeLimits(concurrency=1),
    )
    scene = desk.scene

    async def main() -> None:
        await scene.agent.run("begin")
        await desk.tasks.wait()

    go(desk.running(main))
    caller, child = scene.model.requests[1], scene.model.requests[3]
    assert [message.content for message in child.messages[:-1]] == [m.content for m in caller.messages]
    assert child.messages[-1].text == "think"


def test_one_that_ran_when_the_process_died_is_told(go: Any) -> None:
    desk = Desk([[later()], "begun"], {"writer": [["well", Wait(60)]]})
    go(desk.running(lambda: desk.scene.agent.run("begin")))
    session = next(iter(desk.scene.logs))
    facts = [fact for fact in desk.scene.log.facts if not isinstance(fact, ChildEnded)]
    again = Desk(
        [[sub("c2", thread=session, task="go on")], "done"],
        {"writer": ["at last"]},
        log=MemoryLog(facts, session=desk.scene.log.session),
    )
    again.scene.logs.update(desk.scene.logs)
    (lost,) = again.tasks.restore(facts)
    assert (lost.id, lost.status) == ("agent-1", "lost")
    go(again.running(lambda: again.scene.agent.run("and the agent?")))
    assert "at last" in text_of(again.scene.ends()[-1])
    assert again.scene.agent.total_usage == again.scene.spent


def test_an_agent_for_the_background_needs_tasks() -> None:
    with pytest.raises(DefinitionError, match="tasks"):
        Subagents([AgentDefinition(name="a", background=True)])
