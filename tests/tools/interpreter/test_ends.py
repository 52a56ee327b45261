"""How calls of ``python`` end: by themselves, in time, cancelled, or with their process."""

import os
from pathlib import Path

import anyio
import pytest

from .conftest import Call, text_of

pytestmark = pytest.mark.anyio


async def test_a_slow_call_is_interrupted(call: Call) -> None:
    await call("x = 1")
    for code in (
        "import time\ntime.sleep(1000)",
        "while True: pass",
        "import subprocess\nsubprocess.run(['sleep', '1000'])",
    ):
        result = await call(f"print('begun')\n{code}", timeout=0.3)
        text = text_of(result)
        assert (result.is_error, result.details["error"]) == (True, "KeyboardInterrupt")
        assert text.startswith("begun\nTraceback")
        assert text.endswith("[interrupted after 0.3 s; the variables are kept]")
    assert text_of(await call("x")) == "1"


async def test_a_call_that_will_not_end_is_killed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.tools.interpreter.process.GRACE_S", 0.3)
    result = await call(
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('a')\nwhile True: pass", timeout=0.5
    )
    assert text_of(result) == (
        "a\n[the code did not end within 0.5 s, nor when interrupted: Python was ended; all variables are lost]"
    )
    assert result.details["error"] == "WorkerLost"
    assert "NameError" in text_of(await call("signal"))


async def test_a_python_that_ends_is_told(call: Call) -> None:
    assert text_of(await call("x = 1\nprint('a')\nimport os\nos._exit(3)")) == (
        "a\n[Python ended (exit code 3); all variables are lost]"
    )
    assert "(exit code 139)" in text_of(await call("import ctypes\nctypes.string_at(0)"))
    assert text_of(await call("5")) == "5"


async def test_restart(call: Call) -> None:
    await call("x = 1")
    assert "NameError" in text_of(await call("x", restart=True))


async def test_a_cancelled_call_stops_and_keeps_the_variables(call: Call, root: Path) -> None:
    await call("x = 1")
    os.mkfifo(root / "held")
    reader = os.open(root / "held", os.O_RDONLY | os.O_NONBLOCK)
    code = "with open('held', 'wb', 0) as f:\n  f.write(b'up')\n  while True: pass"

    async def run() -> None:
        await call(code)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.fail_after(20):
                await anyio.wait_readable(reader)
            group.cancel_scope.cancel()
        assert os.read(reader, 10) == b"up"
        assert os.read(reader, 10) == b"", "it does not run any more"
    finally:
        os.close(reader)
    assert text_of(await call("x")) == "1"


async def test_a_call_that_is_cancelled_at_any_step_keeps_the_variables(call: Call) -> None:
    await call("x = 1")

    async def run() -> None:
        await call("sum(range(10))")

    with anyio.fail_after(20):  # no step at which an answer is waited for that does not come
        for steps in range(60):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            result = await call("x")
            assert text_of(result) == "1", steps


async def test_a_call_that_is_cancelled_before_it_begins_does_not_run(call: Call) -> None:
    await call("x = 1")
    for _ in range(10):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await call("x = 2\nwhile True: pass")
        assert text_of(await call("'up'")) == "'up'"


@pytest.mark.parametrize("junk", ["b'x' * 100", "b'\\xff' * 100", "b'\\0\\0\\0\\2{]'", "b'\\0\\0\\0\\2[]'"])
async def test_forged_replies_are_survived(call: Call, junk: str) -> None:
    forge = f"import os\nfor fd in range(3, 30):\n  try: os.write(fd, {junk})\n  except OSError: pass"
    await call(forge)
    await call("1")
    assert text_of(await call("6 * 7", restart=True)) == "42"


async def test_a_call_that_is_cancelled_at_once(call: Call) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await call("x = 1")
    assert text_of(await call("1")).startswith("1")
