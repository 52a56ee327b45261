"""What a model reads of its tasks, and which ends are told by a tool instead of a notice."""

from typing import Any

import anyio
import pytest

from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ChecksArguments, DecidesTraits, Tool, ToolContext, ToolResult
from unspool.tools.tasks import Tasks, task_tools

from .conftest import Desk, ScriptedWork, launching

pytestmark = pytest.mark.anyio


async def use(
    desk: Desk, name: str, ctx: ToolContext | None = None, tasks: Tasks | None = None, **args: Any
) -> str:
    """What the model reads; errors with ``error: `` before them."""
    tool = next(tool for tool in task_tools(tasks or desk.tasks) if tool.spec.name == name)
    assert isinstance(tool, ChecksArguments)
    assert tool.check_arguments(args) == ()
    try:
        result = await tool.execute(args, ctx or desk.ctx())
    except ToolError as error:
        return f"error: {error}"
    assert isinstance(result, ToolResult)
    assert isinstance(result.content, str)
    return result.content


async def test_output_is_read_once_by_each_agent(desk: Desk) -> None:
    work = await desk.start("one\n")
    desk.clock.now += 3
    head = "shell-1 (make): running, for 3 s\n"
    assert await use(desk, "task_output", task_id="shell-1") == f"{head}one\n[bytes 0 to 4 of 4]"
    assert await use(desk, "task_output", task_id="shell-1") == f"{head}[no new output]"
    work.write("two\n")
    assert await use(desk, "task_output", task_id="shell-1") == f"{head}two\n[bytes 4 to 8 of 8]"
    other = desk.ctx(agent="other")
    assert await use(desk, "task_output", other, task_id="shell-1") == f"{head}one\ntwo\n[bytes 0 to 8 of 8]"


async def test_output_from_an_offset(desk: Desk) -> None:
    work = await desk.start("0123456789")
    for offset, shown in ((0, "0123456789\n[bytes 0 to 10 of 10]"), (7, "789\n[bytes 7 to 10 of 10]")):
        assert (await use(desk, "task_output", task_id="shell-1", offset=offset)).endswith(f"\n{shown}")
    assert "\n789\n" in await use(desk, "task_output", task_id="shell-1", offset=-3)
    assert "\n0123456789\n" in await use(desk, "task_output", task_id="shell-1", offset=-99)
    assert "\n0123456789\n" in await use(
        desk, "task_output", task_id="shell-1"
    )  # offsets do not move the mark
    work.kept_from = 4
    work.output_file = "/tmp/out.log"
    assert (await use(desk, "task_output", task_id="shell-1", offset=2)).splitlines()[1:] == [
        "456789",
        "[bytes 4 to 10 of 10]",
        "[bytes 2 to 4 are left out; the whole output is in /tmp/out.log]",
    ]


async def test_much_output_comes_in_parts(desk: Desk) -> None:
    await desk.start("x" * 110_000)
    sizes = [len(await use(desk, "task_output", task_id="shell-1")) for _ in range(4)]
    assert [size // 1024 for size in sizes] == [50, 50, 7, 0]
    last = (await use(desk, "task_output", task_id="shell-1", offset=90_000)).splitlines()
    assert last[-1] == "[bytes 90000 to 110000 of 110000]"
    first = (await use(desk, "task_output", task_id="shell-1", offset=0)).splitlines()
    assert first[-1] == "[there is more: call task_output again, or with offset=-8000 for the end]"


async def test_waiting_for_the_end_with_its_output(desk: Desk) -> None:
    work = await desk.start("working\n")
    text = await use(desk, "task_output", task_id="shell-1", wait=True)
    assert text.startswith("shell-1 (make): running, for 30 s\nworking")
    work.write("done\n")
    desk.tasks.when_waiting = lambda: work.finish(2, "copy: disk full")
    text = await use(desk, "task_output", task_id="shell-1", wait=True, timeout=1e9)
    assert text == (
        "shell-1 (make): failed, exit code 2, after 30 s\nerror: copy: disk full\ndone\n[bytes 8 to 13 of 13]"
    )
    assert desk.notices == []  # the model has read it


async def test_waiting_for_all_or_any(desk: Desk) -> None:
    first, second = await desk.start("a\n"), await desk.start("b" * 3000)
    text = await use(desk, "task_wait", task_ids=["shell-1", "shell-2", "shell-1"], timeout=5)
    assert text.splitlines() == [
        "shell-1 (make): running, for 5 s",
        "shell-2 (make): running, for 5 s",
        "[still running after 5 s; wait again, or stop it with task_stop]",
    ]
    second.finish(1)
    text = await use(desk, "task_wait", task_ids=["shell-1", "shell-2"], mode="any")
    assert text.splitlines() == [
        "shell-1 (make): running, for 5 s",
        "shell-2 (make): failed, exit code 1, after 5 s",
        "[the end of 3000 bytes; read all with task_output]",
        "b" * 2000,
    ]
    first.finish()
    text = await use(desk, "task_wait", task_ids=["shell-1"])
    assert text == "shell-1 (make): completed, after 5 s\na"
    assert await use(desk, "task_wait", task_ids=[]) == "error: task_ids: name 1 to 20 tasks"


async def test_a_wait_that_is_cancelled_stops_nothing_and_leaves_the_end_to_a_notice(desk: Desk) -> None:
    work = await desk.start()
    with anyio.CancelScope() as scope:

        def end_and_cancel() -> None:
            work.finish()
            scope.cancel()

        desk.tasks.when_waiting = end_and_cancel
        await use(desk, "task_wait", task_ids=["shell-1"])
    assert scope.cancelled_caught
    desk.tasks.when_waiting = None
    assert work.stops == 0
    await desk.tasks.wait()
    assert [notice.metadata["task"]["id"] for notice in desk.notices] == ["shell-1"]


async def test_stopping(desk: Desk) -> None:
    await desk.start("bye\n")
    text = await use(desk, "task_stop", task_id="shell-1")
    assert text == "shell-1 (make): stopped, exit code 143, after 0 s\nbye"
    assert (await use(desk, "task_stop", task_id="shell-1")).endswith("bye\n[it had ended already]")
    assert desk.notices == []


async def test_the_list(desk: Desk) -> None:
    assert await use(desk, "task_list") == "there are no background tasks"
    assert (
        await use(desk, "task_output", task_id="x") == "error: no such task: x; there are no background tasks"
    )
    await desk.start()
    (await desk.start(kind="subagent")).finish()
    await desk.ended("agent-2")
    desk.clock.now += 61
    assert (await use(desk, "task_list")).splitlines() == [
        "shell-1 (make): running, for 61 s",
        "agent-2 (make): completed, after 0 s",
    ]
    args: dict[str, Any]
    for name, args in (
        ("task_output", {"task_id": "agent-1"}),
        ("task_stop", {"task_id": "agent-1"}),
        ("task_wait", {"task_ids": ["shell-1", "agent-1"]}),
    ):
        assert await use(desk, name, **args) == "error: no such task: agent-1; there are: shell-1, agent-2"


async def test_a_session_sees_its_own_tasks_and_those_of_the_host(desk: Desk) -> None:
    for session in ("mine", "yours", ""):
        await desk.start(session=session)
    mine = desk.ctx("mine")
    assert [line.split()[0] for line in (await use(desk, "task_list", mine)).splitlines()] == [
        "shell-1",
        "shell-3",
    ]
    for name in ("task_output", "task_stop"):
        text = await use(desk, name, mine, task_id="shell-2")
        assert text == "error: no such task: shell-2; there are: shell-1, shell-3"


async def test_an_end_that_no_notice_could_tell_is_told_by_the_next_tool(desk: Desk) -> None:
    tasks = Tasks(clock=desk.clock)
    first, second = ScriptedWork(), ScriptedWork()
    for work in (first, second):
        await tasks.start("shell", launching(work), session="s")
    first.finish(3)
    await tasks.wait("shell-1")
    text = await use(desk, "task_output", tasks=tasks, task_id="shell-2")
    assert text.splitlines()[-1] == "[ended meanwhile: shell-1: failed, exit code 3, after 0 s]"
    assert "meanwhile" not in await use(desk, "task_output", tasks=tasks, task_id="shell-2")
    second.finish()
    await tasks.wait()
    assert "shell-2: completed" in await use(desk, "task_list", tasks=tasks)
    assert tasks.untold("s") == ()


async def test_an_end_that_another_call_waits_for_is_left_to_it(desk: Desk) -> None:
    first = await desk.start()
    await desk.start()
    with desk.tasks.reading(["shell-1"]):
        first.finish()
        await desk.ended("shell-1")
        assert "meanwhile" not in await use(desk, "task_output", task_id="shell-2")
    assert [notice.metadata["task"]["id"] for notice in desk.notices] == ["shell-1"]


async def test_details_name_the_tasks(desk: Desk) -> None:
    await desk.start()
    result = await task_tools(desk.tasks)[3].execute({}, desk.ctx())
    assert isinstance(result, ToolResult)
    (details,) = result.details["tasks"]
    assert details == {
        "id": "shell-1",
        "kind": "shell",
        "status": "running",
        "started_at": 1000.0,
        "description": "make",
        "command": "make all",
        "session": "s",
    }


def test_traits() -> None:
    specs = {tool.spec.name: tool for tool in task_tools(Tasks())}
    assert list(specs) == ["task_output", "task_wait", "task_stop", "task_list"]
    assert [tool.spec.interrupt for tool in specs.values()] == ["cancel", "cancel", "block", "block"]
    assert [tool.spec.read_only for tool in specs.values()] == [True, True, False, True]
    for name, args, activity in (
        ("task_output", {"task_id": "shell-1"}, "reading the output of shell-1"),
        ("task_wait", {"task_ids": ["a", "b", "c", "d"]}, "waiting for a, b, c and 1 more"),
        ("task_stop", {"task_id": {"odd": 1}}, "stopping {'odd': 1}"),
        ("task_stop", {}, 'stopping ""'),
    ):
        tool = specs[name]
        assert isinstance(tool, DecidesTraits)
        assert tool.spec_for(args).activity == activity


@pytest.mark.parametrize(
    ("name", "args", "failing"),
    [
        ("task_output", {"task_id": "shell-1", "wait": True, "timeout": 0}, {"task_id": "shell-2"}),
        ("task_wait", {"task_ids": ["shell-1"], "timeout": 0}, {"task_ids": []}),
        ("task_stop", {"task_id": "shell-1"}, {"task_id": "shell-2"}),
        ("task_list", {}, None),
    ],
)
async def test_they_keep_to_the_protocol(
    name: str, args: dict[str, Any], failing: dict[str, Any] | None
) -> None:
    opened: list[Tasks] = []

    async def make() -> Tool:
        opened.append(Tasks())
        await opened[-1].start("shell", launching(ScriptedWork("output\n")))
        return next(tool for tool in task_tools(opened[-1]) if tool.spec.name == name)

    bad: list[dict[str, Any]] = [] if failing is None else [{}]
    await check_tool(make, args=[args], bad_args=bad, failing_args=[failing] if failing else [])
    for tasks in opened:
        await tasks.aclose()
