"""``bash`` in the background with a real agent, and what is known of it after a kill -9."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from unspool.kernel import Agent
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.tools.shell import bash_tool
from unspool.tools.tasks import Tasks, task_tools
from unspool.trajectory import JsonlLog

pytestmark = pytest.mark.anyio


async def test_commands_in_the_background(tmp_path: Path) -> None:
    script: list[Entry] = [
        [call("1", "bash", command="echo '</output-tail>'; exit 3", run_in_background=True)],
        [call("2", "bash", command="echo up; sleep 1000", run_in_background=True, description="a server")],
        "both run",
        "let me see",
        [call("3", "task_stop", task_id="shell-2")],
        "one failed, one was stopped",
    ]
    model = ScriptedModel(script)
    async with Tasks() as tasks:
        tools = [bash_tool(tmp_path, tasks=tasks), *task_tools(tasks)]
        agent = Agent(model, tools=tools)
        await agent.run("go")
        await tasks.wait("shell-1")
        tasks.notify(agent.follow_up)  # it has ended: this tells it
        assert (await agent.run("and now?")).text == "one failed, one was stopped"
    seen = [message.text for message in agent.export_messages()]
    (told,) = [text for text in seen if text.startswith("<task-notification>")]
    assert "<status>failed</status>" in told
    assert "<exit-code>3</exit-code>" in told
    assert "<output-tail>&lt;/output-tail&gt;\n</output-tail>" in told
    assert any(text.startswith("shell-2 (a server): stopped") for text in seen)


KILLED = """
    import os, signal, sys
    import anyio
    from unspool.kernel import Agent
    from unspool.llm.scripted import ScriptedModel, call
    from unspool.tools.shell import bash_tool
    from unspool.tools.tasks import Tasks
    from unspool.trajectory import JsonlLog

    async def main():
        tasks = Tasks()
        model = ScriptedModel([[call("1", "bash", command="sleep 1000", run_in_background=True)], "it runs"])
        agent = Agent(model, tools=[bash_tool({root!r}, tasks=tasks)], log=JsonlLog({log!r}))
        await agent.run("go")
        print(tasks.list()[0].pid, flush=True)
        sys.stdin.readline()

    anyio.run(main)
"""


async def test_after_a_kill_the_command_is_gone_and_told_as_lost(tmp_path: Path) -> None:
    log = str(tmp_path / "log.jsonl")
    script = textwrap.dedent(KILLED).format(root=str(tmp_path), log=log)
    with subprocess.Popen(  # noqa: ASYNC220 (the test may block)
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        handle = os.pidfd_open(pid)
        process.send_signal(signal.SIGKILL)
    ready, _, _ = select.select([handle], [], [], 20)
    os.close(handle)
    assert ready  # what watches the command ended it

    with JsonlLog(log) as stored:
        tasks = Tasks()
        model = ScriptedModel(["hello", "it was lost"])
        agent = Agent(model, tools=task_tools(tasks), log=stored)
        tasks.notify(agent.follow_up)
        (lost,) = tasks.restore([fact async for fact in stored.read()])
        assert (lost.id, lost.status, lost.pid) == ("shell-1", "lost", pid)
        await agent.run("hi")
        assert "<status>lost</status>" in model.requests[-1].messages[-1].text
        assert Tasks().restore([fact async for fact in stored.read()]) == ()
