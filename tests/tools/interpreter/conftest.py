"""An interpreter on a directory, and calls of it by several agents."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools.interpreter import PythonInterpreter
from unspool.tools.sandbox import Sandbox, SandboxUnavailableError

Call = Callable[..., Awaitable[ToolResult]]


class FakeContext:
    """As much of a ``ToolContext`` as the tool looks at."""

    cancelled = False

    def __init__(self, agent: str) -> None:
        self.session, self.agent = "s", (agent,)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "a röot"
    path.mkdir()
    return path


@pytest.fixture
def sandbox(root: Path) -> Sandbox:
    try:
        return Sandbox(root)
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")


@pytest.fixture
async def interpreter(sandbox: Sandbox) -> AsyncIterator[PythonInterpreter]:
    async with PythonInterpreter(sandbox, max_workers=2) as running:
        yield running


@pytest.fixture
def call(interpreter: PythonInterpreter) -> Call:
    return caller(interpreter)


def caller(interpreter: PythonInterpreter) -> Call:
    async def run(code: str, agent: str = "main", **args: Any) -> ToolResult:
        given = {"code": code, **args}
        assert interpreter.tool.check_arguments(given) == ()
        ctx = cast(ToolContext, FakeContext(agent))
        return cast(ToolResult, await interpreter.tool.execute(given, ctx))

    return run


def text_of(result: ToolResult) -> str:
    assert isinstance(result.content, str)
    return result.content
