"""``run_in_background``: a task of a registry, with the tool's directory, environment and output."""

from pathlib import Path

import anyio
import pytest

from unspool.kernel.function_tool import RawTool
from unspool.tools.shell import OutputFiles, bash_tool
from unspool.tools.tasks import Tasks

from .conftest import FakeContext, Processes, call_tool, error_of

pytestmark = pytest.mark.anyio


def with_tasks(root: Path, processes: Processes, tasks: Tasks, outputs: OutputFiles | None = None) -> RawTool:
    return bash_tool(root, env=processes.env, tasks=tasks, outputs=outputs)


async def test_a_task(root: Path, processes: Processes) -> None:
    async with Tasks() as tasks:
        tool, ctx = with_tasks(root, processes, tasks), FakeContext().ctx
        (root / "sub").mkdir()
        await call_tool(tool, ctx, command="cd sub; export X=1")
        started = await call_tool(tool, ctx, command="pwd; echo $X; cd /; exit 3", run_in_background=True)
        assert str(started.content).startswith("shell-1 runs in the background (pid ")
        details = started.details
        assert (details["shell_id"], details["status"]) == ("shell-1", "running") and details["pid"] > 0
        assert (details["session"], details["description"]) == ("s1", "pwd; echo $X; cd /; exit 3")
        (task,) = await tasks.wait("shell-1")
        assert (task.status, task.exit_code, task.command) == ("failed", 3, "pwd; echo $X; cd /; exit 3")
        assert tasks.output("shell-1", 0, 1000).text == f"{root}/sub\n1\n"
        assert (await call_tool(tool, ctx, command="pwd")).content == f"{root}/sub"  # its cd is its own


async def test_it_goes_on_when_its_call_is_over_and_stops_with_the_registry(
    root: Path, processes: Processes
) -> None:
    async with Tasks() as tasks:
        tool, ctx = with_tasks(root, processes, tasks), FakeContext().ctx
        await call_tool(
            tool, ctx, command="trap '' TERM; setsid -f sleep 300; sleep 300", run_in_background=True
        )
        assert (await call_tool(tool, ctx, command="echo on")).content == "on"
        assert processes.alive() != []
    assert processes.alive() == []


async def test_its_own_timeout(root: Path, processes: Processes) -> None:
    async with Tasks() as tasks:
        tool, ctx = with_tasks(root, processes, tasks), FakeContext().ctx
        started = await call_tool(tool, ctx, command="sleep 300", run_in_background=True, timeout=0.1)
        (task,) = await tasks.wait(started.details["shell_id"])
        assert task.status == "timed_out"


async def test_a_cancel_while_it_starts(root: Path, processes: Processes) -> None:
    async with Tasks() as tasks:
        tool, ctx = with_tasks(root, processes, tasks), FakeContext().ctx

        async def cancelled_after(seconds: float) -> None:
            with anyio.move_on_after(seconds):
                await call_tool(tool, ctx, command="sleep 300", run_in_background=True)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(cancelled_after, number * 0.005)
    assert processes.alive() == []


async def test_what_can_not_be_started(root: Path, processes: Processes) -> None:
    broken = root / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    async with Tasks() as tasks:
        tool = bash_tool(root, tasks=tasks, shell=str(broken))
        error = await error_of(call_tool(tool, FakeContext().ctx, command="true", run_in_background=True))
        assert error == "the command could not be run: Exec format error"
        assert tasks.list() == ()


async def test_the_schema_says_it(root: Path, processes: Processes) -> None:
    async with Tasks() as tasks:
        spec = with_tasks(root, processes, tasks).spec
        assert "run_in_background" in spec.schema["properties"] and "run_in_background" in spec.description
