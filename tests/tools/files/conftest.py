"""A context as a running call has it, and both event loops."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import ChecksArguments, ToolContext, ToolResult
from unspool.tools import Workspace, file_tools
from unspool.tools.files import grep
from unspool.tools.files.ripgrep import Listing
from unspool.tools.files.saving import sha256

Call = Callable[..., Awaitable[str]]


class FakeContext:
    """As much of a ``ToolContext`` as the file tools look at; time passes when a test says so."""

    def __init__(self, agent: str = "root", session: str = "session") -> None:
        self.agent = (agent,)
        self.session = session
        self.cancelled = False
        self.clock = self
        self.now = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.now


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ctx() -> ToolContext:
    return cast(ToolContext, FakeContext())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def read_all(root: Path, ctx: ToolContext) -> Callable[[], Workspace]:
    """A workspace of ``root`` whose agent has read every file that is there when it is called."""

    def make() -> Workspace:
        workspace = Workspace(root)
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = str(path.relative_to(root))
                workspace.saw(name, sha256(path.read_bytes()), partial=False, ctx=ctx)
        return workspace

    return make


@pytest.fixture
def call(root: Path, ctx: ToolContext) -> Call:
    """Runs a tool of ``root`` by name; what the model would read, errors with ``error: `` before them."""
    tools = {tool.spec.name: tool for tool in file_tools(root)}

    async def run(name: str, /, **args: Any) -> str:
        tool = tools[name]
        assert isinstance(tool, ChecksArguments)
        assert tool.check_arguments(args) == ()
        try:
            result = await tool.execute(args, ctx)
            return cast(str, result.content if isinstance(result, ToolResult) else result)
        except ToolError as error:
            return f"error: {error}"

    return run


@pytest.fixture(scope="session")
def call_now() -> Callable[..., str]:
    """Calls a tool's function, without an event loop."""

    def run(tool: FunctionTool[..., str], **args: Any) -> str:
        return tool(ctx=cast(ToolContext, FakeContext()), **args)

    return run


@pytest.fixture(scope="session")
def agent() -> Callable[..., ToolContext]:
    """Makes the context of an agent's calls, from its name and its session."""
    return lambda name="root", session="session": cast(ToolContext, FakeContext(name, session))


@pytest.fixture
def waits_for_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    """``grep`` starts ripgrep for a single file, and searches none before that has ended."""

    class Waiting(Listing):
        @property
        def has_ended(self) -> bool:
            self._process.wait()
            return True

    monkeypatch.setattr(grep, "Listing", Waiting)
    monkeypatch.setattr(grep, "FEW", 0)
