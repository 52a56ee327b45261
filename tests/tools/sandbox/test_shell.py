"""The tool ``bash`` in a sandbox: its state lives on, its commands don't get out, and nothing of them stays."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools.sandbox import Sandbox
from unspool.tools.shell import bash_tool

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash"),
]


class FakeContext:
    """As much of a ``ToolContext`` as the tool looks at."""

    session = "s"
    agent = ("main",)
    call_id = "c1"
    cancelled = False
    run_context: dict[str, Any] = {}

    def progress(self, summary: str = "", /, **payload: Any) -> None:
        """Nobody looks."""


@pytest.fixture
def bash(sandbox: Sandbox, root: Path) -> Callable[..., Any]:
    tool = bash_tool(root, wrap=sandbox.wrap)

    async def run(command: str, **args: Any) -> ToolResult:
        result = await tool.execute({"command": command, **args}, cast(ToolContext, FakeContext()))
        return cast(ToolResult, result)

    return run


async def test_directory_and_environment_stay(bash: Callable[..., Any], root: Path) -> None:
    await bash("mkdir sub; cd sub; export GREETING='hello you'; echo x > f")
    assert (root / "sub" / "f").read_text() == "x\n"
    assert "hello you" in (await bash('echo "$GREETING"')).content
    assert f"{root}/sub" in (await bash("pwd")).content


async def test_no_way_out(bash: Callable[..., Any], outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARMLESS_NAME", "canary")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = await bash(
            f'cat "{outside}/.ssh/id"; env; : < /dev/tcp/127.0.0.1/{port}; echo x > "{outside}/x"'
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "canary" not in said.content
    assert os.listdir(outside) == [".ssh"]


async def test_a_timeout_ends_all_of_it(bash: Callable[..., Any], root: Path) -> None:
    os.mkfifo(root / "held")
    reader = os.open(root / "held", os.O_RDONLY | os.O_NONBLOCK)
    command = "exec 5> held; echo up >&5; (setsid nohup sleep 1000 &); trap '' TERM; sleep 1000"
    try:
        result = await bash(command, timeout=1)
        assert result.details["timed_out"] is True
        assert os.read(reader, 100) == b"up\n"
        with anyio.fail_after(20):
            while True:
                await anyio.wait_readable(reader)
                if os.read(reader, 100) == b"":
                    break
    finally:
        os.close(reader)
