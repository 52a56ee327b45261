"""Many commands, and much output: bounded time and memory. ``UNSPOOL_LONG=1`` for two gigabytes."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from anyio import create_task_group

from unspool.tools.shell.exchange import FD

from .conftest import FakeContext, Processes, Run

FLOOD = 2_000_000_000 if os.environ.get("UNSPOOL_LONG") == "1" else 200_000_000


@pytest.mark.anyio
async def test_a_hundred_shells_at_once(run: Run, processes: Processes) -> None:
    seen: set[str] = set()

    async def one(number: int) -> None:
        result = await run(f"echo {number}; sleep 0.1; printf end; sleep 300 &", FakeContext(f"s{number}"))
        text = str(result.content)
        assert len(result.details["killed"]) == 1, result
        seen.add(text.partition("\n[")[0])

    began = time.monotonic()
    async with create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert seen == {f"{number}\nend" for number in range(100)}
    assert time.monotonic() - began < 30
    assert processes.alive() == []


_FLOODED = r"""
    import asyncio, os, re, sys, time
    from tests.tools.shell.conftest import FakeContext
    from unspool.tools.shell import bash_tool

    def peak():
        with open("/proc/self/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) // 1024

    async def main():
        tool, ctx = bash_tool(sys.argv[1]), FakeContext().ctx
        await tool.execute({"command": "seq 5000"}, ctx)
        before, began = peak(), time.monotonic()
        result = await tool.execute({"command": sys.argv[2], "timeout": 60}, ctx)
        seconds = time.monotonic() - began
        kept = os.path.getsize(result.details["output_file"])
        print(peak() - before, result.details["bytes"], kept, f"{seconds:.2f}", result.details["exit_code"])

    asyncio.run(main())
"""


@pytest.mark.anyio
async def test_any_number_of_the_descriptor(run: Run) -> None:
    """Also that which the shell knows it by."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(FD)]
    try:
        for fd in sorted(opened, reverse=True):
            if abs(fd - FD) < 6:
                os.close(fd)
                opened.remove(fd)
                assert (await run("echo up")).content == "up"
    finally:
        for fd in opened:
            os.close(fd)


@pytest.mark.parametrize(
    "source",
    ["yes", "tr '\\0' x < /dev/zero", "yes >&2", "cat /dev/urandom"],
    ids=["lines", "one line", "stderr", "noise"],
)
def test_a_flood(source: str, root: Path) -> None:  # B208
    size = FLOOD if source == "yes" else FLOOD // 4
    command = f"{{ {source}; }} 2>&1 | head -c {size} 1>&2"
    argv = [sys.executable, "-c", textwrap.dedent(_FLOODED), str(root), command]
    done = subprocess.run(argv, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    grown, told, kept, _, code = done.stdout.split()
    assert (int(told), int(code)) == (size, 0)
    assert (64 << 20) >= int(kept) - 100 > 40_000_000
    assert int(grown) < 50  # MB
