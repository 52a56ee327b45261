"""Whose process a call runs in, and that none of them stays."""

import gc
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.tools.interpreter import PythonInterpreter
from unspool.tools.interpreter.process import Worker
from unspool.tools.sandbox import Sandbox

from .conftest import Call, caller, text_of

pytestmark = pytest.mark.anyio


async def test_each_agent_has_its_own(call: Call) -> None:
    await call("x = 'of a'", agent="a")
    assert "NameError" in text_of(await call("x", agent="b"))
    assert text_of(await call("x", agent="a")) == "'of a'"
    assert text_of(await call("1", agent="c")) == "1"
    told = text_of(await call("x", agent="b"))
    assert told.startswith("Traceback")
    assert told.endswith(
        "[a new Python: the old one was ended to make room for others, its variables are lost]"
    )


HOLD = """import os, time
open("up", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
"went on"
"""


async def appears(path: Path) -> None:
    with anyio.fail_after(30):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110 (another process makes it)
            await anyio.sleep(0.01)


async def test_one_call_at_a_time(call: Call, root: Path) -> None:
    results: list[str] = []

    async def first() -> None:
        results.append(text_of(await call(HOLD)))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await appears(root / "up")
        for args in ({}, {"restart": True}):
            with pytest.raises(ToolError, match="still running an earlier call"):
                await call("1", **args)
        assert text_of(await call("2", agent="b")) == "2", "another agent's is not waited for"
        (root / "go").touch()
    assert results[0].startswith("'went on'")


async def test_processes_that_are_in_use_are_not_ended_for_others(call: Call, root: Path) -> None:
    results: list[str] = []

    async def first(agent: str) -> None:
        results.append(text_of(await call(HOLD.replace("up", f"up-{agent}"), agent=agent)))

    async with anyio.create_task_group() as group:
        for agent in ("a", "b"):
            group.start_soon(first, agent)
            await appears(root / f"up-{agent}")
        with pytest.raises(ToolError, match="all 2 Pythons are in use"):
            await call("1", agent="c")
        (root / "go").touch()
    assert len(results) == 2


async def test_it_has_no_network_and_no_secrets(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "canary")
    (tmp_path / "secret").write_text("canary")
    code = """import glob, os, socket
seen = repr(dict(os.environ)) + "".join(open(p, errors="replace").read() for p in glob.glob("/proc/*/environ"))
for attempt in (lambda: open("../secret").read(), lambda: socket.create_connection(("127.0.0.1", 22))):
    try:
        attempt()
    except OSError as error:
        print(type(error).__name__)
"canary" in seen"""
    assert text_of(await call(code)) == "FileNotFoundError\nConnectionRefusedError\nFalse"


# --- the tool and its processes ---


async def test_it_needs_a_sandbox() -> None:
    with pytest.raises(ToolDefinitionError, match="only in a sandbox"):
        PythonInterpreter(cast(Any, None))


async def test_the_traits(interpreter: PythonInterpreter) -> None:
    spec = interpreter.tool.spec
    assert (spec.name, spec.read_only, spec.concurrency_safe, spec.open_world) == (
        "python",
        False,
        False,
        False,
    )
    assert set(spec.schema["properties"]) == {"code", "timeout", "restart"}


async def test_closing_ends_the_processes(sandbox: Sandbox) -> None:
    interpreter = PythonInterpreter(sandbox)
    call = caller(interpreter)
    await call("x = 1")
    await call("1", agent="b")
    workers: list[Worker] = list(interpreter._workers.values())
    assert [worker.alive for worker in workers] == [True, True]
    await interpreter.aclose()
    await interpreter.aclose()
    assert [worker.alive for worker in workers] == [False, False]
    assert "NameError" in text_of(await call("x"))
    await interpreter.aclose()


async def test_closing_in_mid_call(interpreter: PythonInterpreter, call: Call, root: Path) -> None:
    results: list[str] = []

    async def first() -> None:
        results.append(text_of(await call(HOLD)))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await appears(root / "up")
        await interpreter.aclose()
    assert results == ["[Python ended (signal 9); all variables are lost]"]


async def test_a_forgotten_interpreter_leaves_nothing(sandbox: Sandbox) -> None:
    interpreter = PythonInterpreter(sandbox)
    await caller(interpreter)("x = 1")
    worker = next(iter(interpreter._workers.values()))
    del interpreter
    gc.collect()
    assert not worker.alive


def test_one_that_is_killed_while_it_begins_leaves_nothing(sandbox: Sandbox) -> None:
    for moment in range(25):
        worker = Worker(sandbox, sys.executable, sandbox.roots[0])
        time.sleep(moment / 1000)  # any moment will do
        worker.kill()
        held = select.poll()
        held.register(worker._replies, 0)
        assert held.poll(20_000), "somebody still has the other end of the pipe"
        worker.close()


def test_nothing_outlives_the_host(sandbox: Sandbox, root: Path) -> None:
    """The host is killed while the code is inside a call to C, where no interrupt reaches it."""
    os.mkfifo(root / "held")
    reader = os.open(root / "held", os.O_RDONLY | os.O_NONBLOCK)
    host = f"""import anyio
from unspool.tools.interpreter import PythonInterpreter
from unspool.tools.sandbox import Sandbox
class Context:
    session, agent = "s", ("main",)
code = "f = open('held', 'wb', 0)\\nf.write(b'up')\\n'a' * 10**9 in ('a' * 10**5 + 'b') * 10**4 or pow(3, 10**9)"
anyio.run(PythonInterpreter(Sandbox({str(root)!r})).tool.execute, {{"code": code}}, Context())
"""
    with subprocess.Popen([sys.executable, "-c", host], cwd=root) as process:
        try:
            anyio.run(_wait_readable, reader)
            assert os.read(reader, 10) == b"up"
            process.send_signal(signal.SIGKILL)
            anyio.run(_wait_readable, reader)
            assert os.read(reader, 10) == b""
        finally:
            process.kill()
            os.close(reader)


async def _wait_readable(fd: int) -> None:
    with anyio.fail_after(20):
        await anyio.wait_readable(fd)


async def test_it_keeps_to_the_protocol_of_tools(interpreter: PythonInterpreter) -> None:
    await check_tool(
        lambda: interpreter.tool,
        args={"code": "1 + 1"},
        bad_args=[{}, {"code": 3}, {"code": "1", "timeout": "x"}],
    )
