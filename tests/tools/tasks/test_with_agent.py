"""A real agent whose tasks end while it runs, while it is idle, and with its process."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from unspool.kernel import Agent, FakeClock, Message, ToolContext, ToolResult, tool
from unspool.kernel.events import Fact
from unspool.kernel.state import fold
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.tools.tasks import Tasks, task_tools
from unspool.trajectory import MemoryLog

from .conftest import ScriptedWork, WatchedTasks, launching

pytestmark = pytest.mark.anyio


class Host:
    """An agent with tasks, a tool that starts one and a tool during which it ends."""

    def __init__(self, script: Sequence[Entry], facts: Sequence[Fact] = ()) -> None:
        self.work: list[ScriptedWork] = []
        self.clock = FakeClock()
        self.tasks = WatchedTasks(clock=self.clock)
        self.log = MemoryLog(facts, session="s")
        tasks = self.tasks

        @tool
        async def start(ctx: ToolContext) -> ToolResult:
            """Start a build."""
            self.work.append(ScriptedWork("built\n"))
            task = await tasks.start(
                "shell", launching(self.work[-1]), description="make", session=ctx.session, agent=ctx.agent
            )
            return ToolResult(content=f"started {task.id}", details={"task": task.details})

        @tool
        async def meanwhile() -> str:
            """Work on something else; the build ends."""
            self.work[-1].finish()
            await tasks.wait(tasks.list()[-1].id)
            return "done"

        self.model = ScriptedModel(script)
        self.agent = Agent(
            self.model,
            tools=[start, meanwhile, *task_tools(tasks)],
            state=fold(facts) if facts else None,
            log=self.log,
            clock=self.clock,
        )

    def seen(self) -> list[str]:
        """The conversation, a line for each message; notices as their status."""
        return [line(message) for message in self.agent.export_messages()]


@asynccontextmanager
async def hosting(script: Sequence[Entry], facts: Sequence[Fact] = ()) -> AsyncGenerator[Host, None]:
    host = Host(script, facts)
    try:
        yield host
    finally:
        await host.tasks.aclose()


def line(message: Message) -> str:
    task = message.metadata.get("task")
    if task is not None:
        assert message.text.startswith("<task-notification>")
        return f"notice: {task['id']} {task['status']}"
    calls = " ".join(each.name for each in message.tool_calls)
    return f"{message.role}: {message.text.splitlines()[0] if message.text else calls}"


async def test_a_task_ends_while_the_agent_runs() -> None:
    async with hosting(
        [[call("1", "start")], [call("2", "meanwhile")], "that is all", "the build is done"]
    ) as host:
        host.tasks.notify(host.agent.follow_up)
        result = await host.agent.run("go")
        assert result.text == "the build is done"
        assert host.seen() == [
            "user: go",
            "assistant: start",
            "tool: started shell-1",
            "assistant: meanwhile",
            "tool: done",
            "assistant: that is all",
            "notice: shell-1 completed",
            "assistant: the build is done",
        ]
        assert "<output-tail>built\n</output-tail>" in host.model.requests[-1].messages[-1].text


async def test_a_task_ends_while_the_agent_is_idle_and_is_told_in_the_next_run() -> None:
    async with hosting([[call("1", "start")], "started", "hello", "I have seen it"]) as host:
        host.tasks.notify(host.agent.follow_up)
        await host.agent.run("go")
        host.work[0].finish(1)
        await host.tasks.wait()
        assert host.seen()[-1] == "assistant: started"
        await host.agent.run("hi")
        assert host.seen()[4:] == [
            "user: hi",
            "assistant: hello",
            "notice: shell-1 failed",
            "assistant: I have seen it",
        ]


async def test_a_task_wakes_an_idle_agent() -> None:
    async with hosting([[call("1", "start")], "started", "woken"]) as host:
        host.tasks.notify(host.agent.inject)
        async with host.agent:
            await host.agent.run("go")
            host.work[0].finish()
            await host.tasks.wait()
            await host.agent.wait_idle()
            assert host.seen()[-2:] == ["notice: shell-1 completed", "assistant: woken"]


async def test_no_notice_where_the_model_waited_for_the_end() -> None:
    async with hosting(
        [[call("1", "start")], [call("2", "task_wait", task_ids=["shell-1"])], "done"]
    ) as host:
        host.tasks.notify(host.agent.follow_up)
        host.tasks.when_waiting = lambda: host.work[0].finish(3)
        await host.agent.run("go")
        assert host.seen()[-2:] == [
            "tool: shell-1 (make): failed, exit code 3, after 0 s",
            "assistant: done",
        ]


async def test_steering_reaches_a_wait_at_once_and_the_task_goes_on() -> None:
    async with hosting(
        [[call("1", "start")], [call("2", "task_wait", task_ids=["shell-1"])], "yes?"]
    ) as host:
        host.tasks.notify(host.agent.follow_up)
        host.tasks.when_waiting = lambda: host.agent.steer("look here")
        await host.agent.run("go")
        assert host.seen()[-2:] == ["user: look here", "assistant: yes?"]
        assert host.clock.now < 60  # the wait did not take its time
        assert [task.status for task in host.tasks.list()] == ["running"]


async def test_an_aborted_run_stops_no_task() -> None:
    async with hosting([[call("1", "start")], [call("2", "task_wait", task_ids=["shell-1"])]]) as host:
        host.tasks.when_waiting = host.agent.abort
        result = await host.agent.run("go")
        assert result.end_reason == "aborted"
        assert [task.status for task in host.tasks.list()] == ["running"]
        assert host.work[0].stops == 0


async def test_what_was_running_when_the_process_died_is_told_after_the_resume() -> None:
    script: list[Entry] = [[call("1", "start")], [call("2", "start")], [call("3", "meanwhile")], "on it"]
    async with hosting(script) as first:
        await first.agent.run("go")
        facts = list(first.log.facts)  # the process dies here: nobody saw how shell-1 ended, nor shell-2

    async with hosting([[call("4", "start")], "started", "two were lost"], facts) as second:
        second.tasks.notify(second.agent.follow_up)
        assert [task.id for task in second.tasks.restore(facts)] == ["shell-1", "shell-2"]
        await second.agent.run("hi")
        assert second.seen()[-7:] == [
            "user: hi",
            "assistant: start",
            "tool: started shell-3",  # ids go on
            "assistant: started",
            "notice: shell-1 lost",
            "notice: shell-2 lost",
            "assistant: two were lost",
        ]
        assert [task.id for task in Tasks().restore(second.log.facts)] == ["shell-3"]
