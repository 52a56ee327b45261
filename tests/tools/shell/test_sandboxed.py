"""``bash`` inside the sandbox: the same tool, with its state, its limits and its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.kernel.function_tool import RawTool
from unspool.tools.sandbox import Sandbox, SandboxUnavailableError
from unspool.tools.shell import OutputFiles, bash_tool

from .conftest import FakeContext, Processes, call_tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def sandboxed(root: Path, processes: Processes) -> Iterator[RawTool]:
    outputs = OutputFiles()
    try:
        sandbox = Sandbox(root, readable=[outputs.path])
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    yield bash_tool(root, env=processes.env, wrap=sandbox.wrap, outputs=outputs)
    outputs.close()


async def test_state_goes_in_and_out(sandboxed: RawTool, root: Path) -> None:
    ctx = FakeContext().ctx
    (root / "sub").mkdir()
    await call_tool(sandboxed, ctx, command="cd sub; export X='1\n2'; echo made > file")
    result = await call_tool(sandboxed, ctx, command='pwd; echo "$X"; echo $PAGER; ls; hostname')
    assert result.content == f"{root}/sub\n1\n2\ncat\nfile\nsandbox"
    assert (root / "sub" / "file").read_text() == "made\n"
    assert (await call_tool(sandboxed, ctx, command="exit 7")).details["exit_code"] == 7


async def test_nothing_from_inside_reaches_what_makes_the_sandbox(sandboxed: RawTool) -> None:
    """The program that makes it runs outside: a library that the code inside names for it would be loaded there."""
    ctx = FakeContext().ctx
    result = await call_tool(sandboxed, ctx, command="export LD_PRELOAD=/none/evil.so X=kept LD_DEBUG=files")
    assert result.content == (
        "[no output, exit code 0]\n[not kept for the next command: LD_DEBUG, LD_PRELOAD; a command that needs it sets "
        "it itself]"
    )
    assert (await call_tool(sandboxed, ctx, command="echo $X; echo ${HOME}")).content == "kept\n/tmp"


async def test_a_wrapper_gets_the_environment_of_the_host_alone(root: Path, processes: Processes) -> None:
    def wrap(argv: list[str]) -> list[str]:
        return ["/bin/sh", "-c", 'echo "outside: $X $Y"; exec "$@"', "sh", *argv]

    tool, ctx = bash_tool(root, env={**processes.env, "Y": "given"}, wrap=wrap), FakeContext().ctx
    await call_tool(tool, ctx, command="export X=evil Y=evil")
    assert (await call_tool(tool, ctx, command="echo inside: $X $Y")).content == (
        "outside:  given\ninside: evil evil"
    )


async def test_a_long_output_can_be_looked_at(sandboxed: RawTool) -> None:
    ctx = FakeContext().ctx
    file = (await call_tool(sandboxed, ctx, command="seq 30000")).details["output_file"]
    assert (await call_tool(sandboxed, ctx, command=f"sed -n 20000p {file}")).content == "20000"
    assert (await call_tool(sandboxed, ctx, command=f"rm {file}")).details["exit_code"] == 1


async def test_nothing_is_left(sandboxed: RawTool, processes: Processes) -> None:
    ctx = FakeContext().ctx
    result = await call_tool(sandboxed, ctx, command="(setsid -f sleep 300); sleep 0.2; echo x")
    assert str(result.content).startswith("x")
    assert processes.alive() == []
    result = await call_tool(
        sandboxed, ctx, command="trap '' TERM; setsid -f sleep 300; sleep 300", timeout=0.5
    )
    assert result.details["timed_out"]
    assert processes.alive() == []
