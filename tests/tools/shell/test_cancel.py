"""A call that is cancelled, at any moment, by any hand, leaves no process; and so does the death of this one."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import create_task_group

from unspool.kernel import Agent
from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.events import ToolExecEnd, ToolExecUpdate
from unspool.kernel.function_tool import RawTool
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools.shell import bash_tool
from unspool.trajectory import MemoryLog

from .conftest import FakeContext, Processes, Run

_TREE = "sleep 300 & setsid -f sleep 300; sleep 300"


def test_a_native_cancel_at_each_of_the_first_steps(run: Run, processes: Processes) -> None:  # B207
    async def cancelled_after(steps: int) -> None:
        task = asyncio.ensure_future(run(_TREE))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    async def main() -> None:
        await asyncio.gather(*(cancelled_after(steps) for steps in range(50)))

    asyncio.run(main())
    assert processes.alive() == []


@pytest.mark.anyio
async def test_a_cancel_at_each_of_the_first_steps(run: Run, processes: Processes) -> None:
    async def cancelled_after(steps: int) -> None:
        async with create_task_group() as group:
            group.start_soon(run, _TREE)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    async with create_task_group() as all_of_them:
        for steps in range(50):
            all_of_them.start_soon(cancelled_after, steps)
    assert processes.alive() == []


@pytest.mark.anyio
async def test_a_cancel_at_each_moment_of_the_start(run: Run, processes: Processes) -> None:
    async def cancelled_after(seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await run(_TREE)

    async with create_task_group() as group:
        for number in range(25):
            group.start_soon(cancelled_after, number * 0.01)
    assert processes.alive() == []


def test_cancelled_again_and_again(run: Run, processes: Processes) -> None:  # B206
    async def main() -> None:
        task = asyncio.ensure_future(run(f"trap '' TERM; {_TREE}"))
        await asyncio.sleep(0.3)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.01)
        assert task.cancelled()

    asyncio.run(main())
    assert processes.alive() == []


def test_a_call_that_is_dropped_with_its_event_loop(bash: RawTool, processes: Processes) -> None:
    async def main() -> None:
        coroutine = bash.execute({"command": _TREE}, FakeContext().ctx)
        coroutine.send(None)
        await asyncio.sleep(0.3)
        coroutine.close()  # as its collection does

    asyncio.run(main())
    assert processes.gone_within(4)


@pytest.mark.anyio
async def test_an_agent_that_is_aborted(bash: RawTool, processes: Processes) -> None:
    agent = Agent(
        ScriptedModel([[call("c1", "bash", command=f"echo up; {_TREE}")]]), tools=[bash], log=MemoryLog()
    )
    ends: list[ToolExecEnd] = []
    async for event in agent.stream("go"):
        if isinstance(event, ToolExecUpdate):
            agent.abort()
        if isinstance(event, ToolExecEnd):
            ends.append(event)
    assert [end.outcome for end in ends] == ["cancelled"]
    assert processes.alive() == []


@pytest.mark.anyio
async def test_it_is_a_tool(root: Path) -> None:
    make: Callable[[], RawTool] = lambda: bash_tool(root)  # typed
    await check_tool(
        make,
        args=[
            {"command": "echo hi"},
            {"command": "exit 3", "timeout": 5, "workdir": ".", "description": "x"},
        ],
        bad_args=[{}, {"command": 3}, {"command": "x", "cwd": "/"}],
        failing_args=[{"command": ""}, {"command": "true", "workdir": "none"}],
    )


_HOST = """
    import asyncio, os, sys, time
    import anyio
    from tests.tools.shell.conftest import FakeContext
    from unspool.tools.shell import bash_tool

    async def main():
        if sys.argv[4:] == ["with a child"] and os.fork() == 0:  # it holds all that we have open
            os.close(2)
            time.sleep(6)
            os._exit(0)
        tool = bash_tool(sys.argv[1], env={"UNSPOOL_TEST_MARK": sys.argv[2]})
        task = asyncio.ensure_future(tool.execute({"command": sys.argv[3]}, FakeContext().ctx))
        await anyio.wait_readable(sys.stdin)
        os._exit(0) if sys.argv[4:] == ["at once"] else sys.exit(0)

    asyncio.run(main())
"""


ENDS = {
    "killed": [],
    "killed, and a child of it has all that it had open": ["with a child"],
    "ends in order": [],
    "ends at once": ["at once"],
}


def test_the_end_of_our_process(root: Path) -> None:
    """Everything goes, also what ignores TERM and what has left group and session."""
    marks = {end: Processes() for end in ENDS}
    hosts: dict[str, subprocess.Popen[str]] = {}
    for end, args in ENDS.items():
        argv = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(_HOST), str(root)]
        argv += [marks[end].mark, f"trap '' TERM; {_TREE}", *args]
        hosts[end] = subprocess.Popen(
            argv, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    for end, process in hosts.items():
        until = time.monotonic() + 60
        while len(marks[end].alive()) < 4 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if end.startswith("killed"):
            os.kill(process.pid, signal.SIGKILL)
        said = process.communicate(timeout=30)[1]  # an end of its input lets it go
        assert (process.returncode, said) == (-9 if end.startswith("killed") else 0, "")
    assert [end for end in ENDS if not marks[end].gone_within(15)] == []
