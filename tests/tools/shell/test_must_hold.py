"""What a shell tool must bear, each through a real agent on both event loops: what the model is told, in bounded time
and memory, and nothing left in ``/proc`` of all that carries the mark in its environment.
"""

import re
import resource
import time
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from unspool.kernel import Agent, Limits
from unspool.kernel.events import ToolExecEnd, ToolExecUpdate
from unspool.kernel.messages import Text
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools.shell import OutputFiles, bash_tool

from .conftest import Processes
from .test_load import FLOOD

pytestmark = pytest.mark.anyio
_MAX_S = 30.0  # of one case, on a busy machine; the flood apart
_MAX_GROWTH = 64 << 10  # KiB of memory, for all cases together


class Case(NamedTuple):
    command: str
    told: str  # a pattern of the whole result
    timeout: float = 60


_LEFT = r"\n\[left running in the background, and ended: .+\]"
_LATE = r"\n\[timed out after \d+\.\d s, and ended with all that it had started; exit code (\d+|unknown)\]"
CASES: dict[str, Case] = {
    "background child keeping the pipe open": Case("sleep 300 & echo up", "up" + _LEFT),
    "flood": Case(f"yes | head -c {FLOOD}", r"(?s)(y\n){400}\[… lines .+ left out …\]\n(y\n)+\[.+ left out of .+"),
    "ignored TERM": Case("trap '' TERM; echo up; while :; do sleep 1; done", "up" + _LATE, 1),
    "fork tree": Case(
        "f() { (( $1 )) && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 300; }; f 4 & sleep 0.5; echo up", "up" + _LEFT
    ),
    "double fork": Case("(setsid setsid -f sleep 300 &); sleep 0.2; echo up", "up" + _LEFT),
    "not UTF-8": Case(r"printf 'a\xff\xc3b\n'", "a\ufffd\ufffdb"),
    "no newline": Case("printf up", "up"),
    "prompt for input": Case("read -p 'Sure? ' x; echo $?; head -c 1 | wc -c", r"1\n0"),
    "prompt on the terminal": Case("echo x > /dev/tty", r".*/dev/tty: No such device or address\n\[exit code 1\]"),
    "directory deleted": Case(
        "mkdir d; cd d; rmdir ../d; echo up", r"up\n\[the working directory was deleted: back in .+/root\]"
    ),
    "shell deleted under itself": Case("exec sleep 300", _LATE[2:], 1),
}  # fmt: skip


async def told(root: Path, processes: Processes, outputs: OutputFiles, **args: object) -> str:
    """What the model is told of one call."""
    tool = bash_tool(root, env=processes.env, outputs=outputs)
    agent = Agent(ScriptedModel([[call("c1", "bash", **args)], "done"]), tools=[tool])
    text = ""
    async for event in agent.stream("go"):
        if isinstance(event, ToolExecEnd):
            assert event.outcome == "ok"
            text = "".join(part.text for part in event.content if isinstance(part, Text))
    return text


async def test_each_case(root: Path, processes: Processes) -> None:
    outputs = OutputFiles()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, case in CASES.items():
        began = time.monotonic()
        text = await told(root, processes, outputs, command=case.command, timeout=case.timeout)
        assert re.fullmatch(case.told, text), f"{name}: {text[:300]!r} … {text[-300:]!r}"
        assert name == "flood" or time.monotonic() - began < _MAX_S, name
        assert processes.alive() == [], name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _MAX_GROWTH
    outputs.close()


async def test_a_hundred_at_once(root: Path, processes: Processes) -> None:
    calls = [
        call(f"c{number}", "bash", command=f"echo {number}; sleep 300 & sleep 0.1") for number in range(100)
    ]
    agents = [
        Agent(ScriptedModel([[each], "done"]), tools=[bash_tool(root, env=processes.env)]) for each in calls
    ]
    ends: list[ToolExecEnd] = []

    async def run(agent: Agent[str]) -> None:
        async for event in agent.stream("go"):
            if isinstance(event, ToolExecEnd):
                ends.append(event)

    began = time.monotonic()
    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(run, agent)
    assert time.monotonic() - began < 60
    assert sorted(end.outcome for end in ends) == ["ok"] * 100
    assert processes.alive() == []


@pytest.mark.parametrize(
    "command", ["echo up; sleep 300", "trap '' TERM; yes", "echo up; setsid -f sleep 300; sleep 300"]
)
async def test_an_abort_in_mid_command(command: str, root: Path, processes: Processes) -> None:
    tool = bash_tool(root, env=processes.env)
    agent = Agent(
        ScriptedModel([[call("c1", "bash", command=command)]]), tools=[tool], limits=Limits(grace_s=60)
    )
    outcomes: list[str] = []
    async for event in agent.stream("go"):
        if isinstance(event, ToolExecUpdate):
            agent.abort()
        if isinstance(event, ToolExecEnd):
            outcomes.append(event.outcome)
    assert outcomes == ["cancelled"]
    assert processes.alive() == []
