"""A context as a running call has it, both event loops, and a look at the processes of this machine."""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from anyio import create_task_group

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import RawTool
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools.shell import bash_tool


class FakeContext:
    """As much of a ``ToolContext`` as the shell tools look at."""

    call_id = "c1"
    cancelled = False

    def __init__(self, session: str = "s1", agent: tuple[str, ...] = ("main",)) -> None:
        self.session = session
        self.agent = agent
        self.reports: list[tuple[str, str, dict[str, Any]]] = []

    def progress(self, summary: str = "", /, *, topic: str = "summary", **payload: Any) -> None:
        self.reports.append((summary, topic, payload))

    @property
    def ctx(self) -> ToolContext:
        return cast(ToolContext, self)


class Processes:
    """The processes that carry this test's mark in their environment, wherever they went."""

    def __init__(self) -> None:
        self.mark = f"test-{uuid4().hex}"

    @property
    def env(self) -> dict[str, str]:
        return {"UNSPOOL_TEST_MARK": self.mark}

    def alive(self) -> list[int]:
        """Zombies are not alive, and have no environment. Supervisors have none of the command's."""
        found = []
        wanted = self.mark.encode()
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if wanted in Path("/proc", name, "environ").read_bytes():
                    found.append(int(name))
            except OSError:
                continue  # gone meanwhile
        return found

    def gone_within(self, seconds: float) -> bool:
        """Whether all are gone by then; for what ends them after we could wait for it."""
        until = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "root"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "outside"
    path.mkdir()
    return path


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Fails the test that leaves one behind."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    kept = Processes()
    yield kept
    assert kept.alive() == []


@pytest.fixture
def bash(root: Path, processes: Processes) -> RawTool:
    return bash_tool(root, env=processes.env)


Run = Callable[..., Coroutine[Any, Any, ToolResult]]


@pytest.fixture
def run(bash: RawTool) -> Run:
    """Runs a command; arguments are checked as the kernel checks them."""

    async def call(command: str, ctx: FakeContext | None = None, **args: Any) -> ToolResult:
        return await call_tool(bash, (ctx or FakeContext()).ctx, command=command, **args)

    return call


async def call_tool(tool: RawTool, ctx: ToolContext, **args: Any) -> ToolResult:
    assert list(tool.check_arguments(args)) == []
    result = await tool.execute(args, ctx)
    assert isinstance(result, ToolResult)
    return result


async def error_of(call: Awaitable[ToolResult]) -> str:
    with pytest.raises(ToolError) as caught:
        await call
    return str(caught.value)


async def each(cases: Iterable[str], check: Callable[[str], Awaitable[None]]) -> None:
    """All at once; the failures with their names."""
    wrong: dict[str, str] = {}

    async def guarded(case: str) -> None:
        try:
            await check(case)
        except (AssertionError, ToolError) as error:
            wrong[case] = str(error)

    async with create_task_group() as group:
        for case in cases:
            group.start_soon(guarded, case)
    assert wrong == {}
