"""Real commands as tasks: how they end, that none is left, and what becomes of them without ``aclose``."""

import io
import os
import select
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import pytest

from unspool.kernel.messages import Message
from unspool.tools.shell import CommandRequest, OutputBuffer, OutputFiles, start_command
from unspool.tools.shell.command_work import CommandWork
from unspool.tools.tasks import Launch, Tasks

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]


def running(
    script: str, mark: str = "", files: OutputFiles | None = None, timeout_s: float | None = None
) -> Launch:
    async def launch(id: str) -> CommandWork:
        request = CommandRequest(
            argv=["/bin/sh", "-c", script],
            env={"PATH": os.environ["PATH"], "MARK": mark},
            cwd="/",
            timeout_s=timeout_s,
            grace_s=0.3,
        )
        command = start_command(request, OutputBuffer(files))
        assert await command.started()
        return CommandWork(command)

    return launch


def marked(mark: str) -> list[int]:
    """The processes that run with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has just ended, or is another user's
    return found


class BrokenFile(io.RawIOBase):
    """A log on a disk that is full, or one that can't be flushed."""

    def __init__(self, write: str = "", close: str = "") -> None:
        self._write_error, self._close_error = write, close

    def tell(self) -> int:
        return 0

    def write(self, data: Any, /) -> int:
        if self._write_error:
            raise OSError(28, self._write_error)
        return len(data)

    def close(self) -> None:
        error, self._close_error = self._close_error, ""
        if error:
            raise OSError(5, error)


class BrokenFiles(OutputFiles):
    def __init__(self, file: BrokenFile) -> None:
        super().__init__()
        self._file = file

    def create(self) -> tuple[Path, BinaryIO]:
        return Path("/tmp/never-made.log"), cast(BinaryIO, self._file)


LONG = "head -c 100000 /dev/zero | tr '\\0' x"  # more than is kept in memory alone


@pytest.mark.parametrize(
    ("script", "file", "status", "exit_code", "errors"),
    [
        (LONG, {"write": "disk full"}, "failed", 0, ("copy", "disk full")),  # T138
        (LONG, {"close": "flush log"}, "failed", 0, ("copy", "flush log")),  # T139
        (LONG, {"write": "disk full", "close": "flush log"}, "failed", 0, ("copy", "disk full; flush log")),
        (f"{LONG}; exit 7", {"write": "disk full"}, "failed", 7, ("copy", "disk full")),  # T140
        ("exit 7", {}, "failed", 7, ()),
        ("echo fine", {}, "completed", 0, ()),
        ("kill -KILL $$", {}, "failed", 137, ("killed by SIGKILL",)),
    ],
)
async def test_how_a_command_ends(
    script: str, file: dict[str, str], status: str, exit_code: int, errors: tuple[str, ...]
) -> None:
    told: list[Message] = []
    async with Tasks(notify=told.append) as tasks:
        await tasks.start("shell", running(script, files=BrokenFiles(BrokenFile(**file))))
        (task,) = await tasks.wait()
        assert len(told) == 1
    assert (task.status, task.exit_code) == (status, exit_code)
    assert bool(task.error) == bool(errors)
    assert all(error in task.error for error in errors)


async def test_a_command_with_a_time_of_its_own() -> None:
    async with Tasks() as tasks:
        await tasks.start("shell", running("sleep 1000", timeout_s=0.05))
        (task,) = await tasks.wait()
        assert task.status == "timed_out"


async def test_output_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path))
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with Tasks() as tasks:
        await tasks.start("shell", running(f"echo naïve; cat {gate}; {LONG}; echo end", files=files))
        reader = ("s", ("main",))
        text = ""
        with anyio.fail_after(10):
            while text != "naïve\n":
                _, piece = tasks.unread_output("shell-1", reader, 1000)
                text += piece.text
                await anyio.sleep(0.001)
        assert tasks.list()[0].output_bytes == 7
        await anyio.to_thread.run_sync(gate.write_text, "go\n")
        (task,) = await tasks.wait()
        asked, piece = tasks.unread_output("shell-1", reader, 1000)
        assert (asked, piece.end, piece.total) == (7, 100_014, 100_014)
        assert (piece.text, piece.start) == ("x" * 996 + "end\n", 99_014)  # too much at once: the end of it
        assert tasks.output("shell-1", -4, 100).text == "end\n"
    assert os.path.getsize(task.output_file) == 100_014  # noqa: ASYNC240 (the test may block)
    files.close()


async def test_twenty_shells_half_stopped_and_none_left() -> None:
    mark = uuid.uuid4().hex
    told: list[Message] = []
    # each has children that ignore TERM, one of them in a session of its own
    script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & echo ready; wait"
    with anyio.fail_after(30):
        async with Tasks(notify=told.append) as tasks:
            started = [await tasks.start("shell", running(script, mark)) for _ in range(20)]
            while any(task.output_bytes == 0 for task in tasks.list()):
                await anyio.lowlevel.checkpoint()
            pids = [task.pid for task in started]
            assert set(pids) <= set(marked(mark))
            async with anyio.create_task_group() as group:
                for task in started[::2]:
                    group.start_soon(tasks.stop, task.id)
            assert [task.status for task in tasks.list()] == ["stopped", "running"] * 10
            assert set(pids) & set(marked(mark)) == set(pids[1::2])
        assert marked(mark) == []
    assert [task.status for task in tasks.list()] == ["stopped"] * 20
    assert len(told) == 20


WITHOUT_CLOSE = """
    import asyncio, sys
    import anyio
    sys.path.insert(0, {here!r})
    from tests.tools.tasks.test_processes import running
    from unspool.tools.tasks import Tasks

    tasks = Tasks()

    async def main():
        task = await tasks.start("shell", running("trap '' TERM; while :; do sleep 1000; done"))
        print(task.pid, flush=True)
        return task

    {run}
    (task,) = tasks.list()
    print(task.status, task.error, flush=True)
"""
RUNS = {
    "asyncio": ("anyio.run(main, backend='asyncio')", "stopped its event loop ended"),
    "trio": ("anyio.run(main, backend='trio')", "stopped its event loop ended"),
    "a loop that is left alone": (
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "running ",
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_without_aclose_the_commands_are_killed_and_a_warning_says_so(case: str) -> None:
    run, status = RUNS[case]
    here = str(Path(__file__).parents[3])
    script = textwrap.dedent(WITHOUT_CLOSE).format(here=here, run=run)
    with subprocess.Popen(
        [sys.executable, "-W", "always::ResourceWarning", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        pid = int(process.stdout.readline())
        handle = os.pidfd_open(pid)
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(30)
    assert (process.returncode, out.rstrip("\n")) == (0, status)
    assert "background task shell-1 was killed: await Tasks.aclose()" in err
    ready, _, _ = select.select([handle], [], [], 20)  # readable when the process has ended
    os.close(handle)
    assert ready
