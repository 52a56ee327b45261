"""However a command ends, nothing of it is left in ``/proc``, and that in bounded time."""

import time

import anyio
import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.limits import Limits
from unspool.tools.shell import CommandRequest, conduct, killing

from .conftest import FakeContext, Processes, Run, each

pytestmark = pytest.mark.anyio
_DEAF = "trap '' TERM INT HUP; while :; do sleep 1; done"  # does not hear TERM

# what is run; the output; the names of the processes that were left and ended
SURVIVORS: dict[str, tuple[str, str, set[str]]] = {  # B203
    "child that keeps the pipe open": ("sleep 300 & sleep 0.2; echo done", "done", {"sleep"}),
    "nohup": ("nohup sleep 300 >/dev/null & sleep 0.2; echo done", "done", {"sleep"}),
    "orphan": ("(sleep 300 &) ; sleep 0.2; echo x", "x", {"sleep"}),
    "setsid": ("setsid sleep 300 & sleep 0.2; echo x", "x", {"sleep"}),
    "double fork and setsid": ("(setsid setsid -f sleep 300 &); sleep 0.2; echo x", "x", {"sleep"}),
    "no environment": ("(env -i setsid -f sleep 300); sleep 0.2; echo x", "x", {"sleep"}),
    "ignored TERM": (f'(setsid bash -c "{_DEAF}" &); sleep 0.2; echo x', "x", {"bash", "sleep"}),
    "stopped": ("sleep 300 & sleep 0.2; kill -STOP $!; echo x", "x", {"sleep"}),
    "fork tree": (
        "f() { if (( $1 )); then f $(($1 - 1)) & f $(($1 - 1)) & fi; sleep 300; }; f 4 & sleep 0.8; echo x",
        "x",
        {"bash", "sleep"},
    ),
    "the shell is replaced": ("sleep 300 & sleep 0.2; exec echo x", "x", {"sleep"}),
    "exit code stays": ("sleep 300 & sleep 0.2; echo x; exit 4", "x\n[exit code 4]", {"sleep"}),
}
_LAUNCHERS = {
    "bash",
    "setsid",
    "nohup",
    "env",
}  # what a process is called until it is the program it shall run

# what does not end by itself, nor, mostly, by TERM
STUBBORN: dict[str, str] = {  # B206, B208
    "waits for a child that ignores TERM": f'bash -c "{_DEAF}" & echo up; wait',
    "function in the background": 'bash -c "cmd() { sleep 300; }; cmd & echo up"; sleep 300',
    "ignores TERM itself": f"trap '' TERM; echo up; {_DEAF}",
    "a trap that goes on": "trap 'echo no' TERM; echo up; while :; do sleep 0.1; done",
    "leaves group and session": "setsid setsid -f sleep 300 & echo up; sleep 300",
    "stopped": "echo up; kill -STOP $$",
    "starts more all the time": "echo up; while :; do (sleep 300 &); sleep 0.01; done",
    "floods": "echo up; yes",
    "floods without a newline": "echo up; cat /dev/zero",
    "waits for input": "echo up; exec 0<>/dev/ptmx; read x",
    "stops the one that watches": "echo up; sleep 0.2; kill -STOP $PPID; sleep 300",
}


async def test_what_is_left_in_the_background_is_ended(run: Run, processes: Processes) -> None:
    async def check(case: str) -> None:
        command, text, names = SURVIVORS[case]
        began = time.monotonic()
        result = await run(command, timeout=20)
        assert time.monotonic() - began < 10  # 1.8 s on an idle machine
        output, _, note = str(result.content).partition("\n[left running in the background, and ended: ")
        assert output == text
        told = {part.partition(" (")[0] for part in note.rstrip("]").split(" and ")[0].split(", ")}
        assert told <= names | _LAUNCHERS and len(result.details["killed"]) >= len(names)

    await each(SURVIVORS, check)
    assert processes.alive() == []


async def test_it_takes_no_longer_than_it_must(run: Run) -> None:
    began = time.monotonic()
    await run("sleep 300 & echo done", timeout=10)
    assert time.monotonic() - began < 5


async def test_what_ends_by_itself_is_not_ended(run: Run) -> None:
    result = await run("(sleep 0.02; echo late) & echo early")
    assert (result.content, result.details["killed"]) == ("early\nlate", [])


def test_stopping_takes_no_longer_than_the_kernel_waits() -> None:
    """Whatever the command does: the sum of the times that are given to it, to its supervisor and to its end."""
    given = CommandRequest(argv=(), env={}, cwd="/").grace_s + conduct._MARGIN_S + killing.KILL_S
    assert given < Limits().grace_s


async def test_time_is_over(run: Run, processes: Processes) -> None:
    async def check(case: str) -> None:
        began = time.monotonic()
        result = await run(STUBBORN[case], timeout=1)
        assert time.monotonic() - began < 12  # 4.2 s on an idle machine
        assert result.details["timed_out"] and str(result.content).startswith("up\n")

    await each(STUBBORN, check)
    assert processes.alive() == []


async def test_the_call_is_cancelled(run: Run, processes: Processes) -> None:
    async def check(case: str) -> None:
        began, ended = time.monotonic(), False
        with anyio.move_on_after(1):
            await run(STUBBORN[case])
            ended = True
        assert not ended and time.monotonic() - began < 12

    await each(STUBBORN, check)
    assert processes.alive() == []


@pytest.mark.parametrize("pause", ["sleep 0.2;", ""])
async def test_the_one_that_watches_is_killed(pause: str, run: Run, processes: Processes) -> None:
    try:
        result = await run(f"echo up; {pause} kill -9 $PPID; sleep 300")
    except ToolError as error:  # before it could say that it had started the shell
        assert not pause and "the process that watches over the command was killed" in str(error)
    else:
        assert result.details["exit_code"] == -1
        assert "[the process that watches over the command was killed: something" in str(result.content)
    assert processes.gone_within(1)


async def test_a_cancelled_command_leaves_the_state_as_it_was(run: Run) -> None:
    ctx = FakeContext()
    with anyio.move_on_after(0.3):
        await run("export X=1; sleep 300", ctx)
    assert (await run("echo ${X-none}", ctx)).content == "none"
