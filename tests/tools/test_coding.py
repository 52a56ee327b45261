"""``coding``: the usual tools as one value, what they share, and what is taken up by a later process."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from unspool.kernel import Agent, Hooks, Verdict
from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.events import ToolExecEnd
from unspool.kernel.messages import Text
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.tools import Coding, coding
from unspool.tools.sandbox import SandboxUnavailableError
from unspool.trajectory import JsonlLog, MemoryLog

from .shell.conftest import Processes

pytestmark = pytest.mark.anyio
FILES = ["read_file", "list_dir", "glob", "grep", "write_file", "edit_file", "multi_edit", "apply_patch"]
OTHERS = ["task_output", "task_wait", "task_stop", "task_list", "todo", "ask_user", "fetch_url"]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "root"
    (path / "sub").mkdir(parents=True)
    (path / "file.txt").write_text("old\n")
    return path


@pytest.fixture
def processes() -> Iterator[Processes]:
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    kept = Processes()
    yield kept
    assert kept.alive() == []


async def run(tools: Coding, script: Sequence[Entry], *, hooks: Hooks | None = None) -> list[tuple[str, str]]:
    """The outcome of each call and what the model is told of it."""
    agent = Agent(ScriptedModel([*script, "done"]), tools=tools, hooks=hooks or Hooks(), log=MemoryLog())
    ends = [event async for event in agent.stream("go") if isinstance(event, ToolExecEnd)]
    return [(end.outcome, _text(end)) for end in ends]


def _text(end: ToolExecEnd) -> str:
    return "".join(part.text for part in end.content if isinstance(part, Text))


def sandboxed(root: Path, processes: Processes) -> Coding:
    try:
        return coding(root, env=processes.env, sandbox=True)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))


# --- the set ----------------------------------------------------------------------------------------


async def test_the_tools(root: Path) -> None:
    async with coding(root) as tools:
        assert [tool.spec.name for tool in tools] == [*FILES, "bash", *OTHERS]
        assert (len(tools), tools[0].spec.name, [tool.spec.name for tool in tools[-1:]]) == (
            16,
            "read_file",
            ["fetch_url"],
        )
        assert str(root) in repr(tools)


async def test_some_are_left_out(root: Path) -> None:
    async with coding(root, leave_out=["bash", "fetch_url"]) as tools:
        assert [tool.spec.name for tool in tools] == [*FILES, *OTHERS[:-1]]


def test_what_can_not_be(root: Path) -> None:
    with pytest.raises(ToolDefinitionError, match=r"no such tools to leave out \(names=\['shell'\]\)"):
        coding(root, leave_out=["bash", "shell"])
    with pytest.raises(ToolDefinitionError, match="give a directory"):
        coding()
    with pytest.raises(ToolDefinitionError, match="does not exist"):
        coding(root / "none")


async def test_with_a_sandbox(root: Path, processes: Processes) -> None:
    script = [
        [call("c1", "bash", command="echo $0 > made; hostname; ls /home; cat /proc/net/dev | wc -l")],
        [call("c2", "python", code="x = open('made').read()\nx")],
        [call("c3", "bash", command="seq 30000")],
    ]
    async with sandboxed(root, processes) as tools:
        assert "python" in [tool.spec.name for tool in tools]
        (_, shell), (_, python), (_, long) = await run(tools, script)
        assert shell.startswith("sandbox\n") and python == repr("bash\n")
        file = long.partition("the output is in ")[2].partition(":")[0]
        assert (await run(tools, [[call("c1", "bash", command=f"tail -n 1 {file}")]]))[0] == ("ok", "30000")


# --- what is shared ---------------------------------------------------------------------------------


async def test_agents_share_files_and_have_shells_of_their_own(root: Path, processes: Processes) -> None:
    async with coding(root, env=processes.env) as tools:
        await run(tools, [[call("c1", "bash", command="cd sub; export X=1")]])
        assert await run(tools, [[call("c1", "bash", command="pwd; echo ${X-none}")]]) == [
            ("ok", f"{root}\nnone")
        ]
        read, edit = call("c1", "read_file", path="file.txt"), {"path": "file.txt", "old_string": "old"}
        assert (await run(tools, [[read], [call("c2", "edit_file", **edit, new_string="new")]]))[1][0] == "ok"
        [(outcome, text)] = await run(tools, [[call("c1", "edit_file", **edit, new_string="newer")]])
        assert outcome == "invalid" and "read" in text  # what the other has read does not count for this one


@pytest.mark.parametrize("workdir", [{}, {"workdir": "sub"}], ids=["cd", "workdir"])
async def test_the_gate_knows_where_the_shell_is(
    workdir: dict[str, str], root: Path, processes: Processes
) -> None:
    (root / "sub" / "link").symlink_to("/etc")
    asked: list[str] = []

    def approve(info: object) -> Verdict:
        asked.append(str(info))
        return Verdict.deny("no", by="ann")

    async with coding(root, env=processes.env) as tools:
        hooks = Hooks(gate=tools.permissions(), approve=approve)
        script: list[Entry] = [] if workdir else [[call("c1", "bash", command="cd sub")]]
        script += [
            [call("c2", "bash", command="ls .", **workdir)],
            [call("c3", "bash", command="cat ../file.txt", **workdir)],
            [call("c4", "bash", command="cat link/hostname", **workdir)],
            [call("c5", "bash", command="cat ../../outside.txt", **workdir)],
        ]
        ends = (await run(tools, script, hooks=hooks))[-4:]
        assert [outcome for outcome, _ in ends] == ["ok", "ok", "denied", "denied"]
        assert ends[1][1] == "old"
        assert len(asked) == 2


async def test_the_gate_knows_where_the_shell_finds_programs(root: Path, processes: Processes) -> None:
    """A program of the workspace, put before that of the system by a command that was allowed once."""
    (root / "bin").mkdir()
    (root / "bin" / "git").write_text("#!/bin/sh\necho EVIL\n")
    (root / "bin" / "git").chmod(0o755)
    asked: list[object] = []

    def approve(info: object) -> Verdict:
        asked.append(info)
        return Verdict.allow(by="ann") if len(asked) == 1 else Verdict.deny("no")

    script = [[call("c1", "bash", command="export PATH=$PWD/bin:$PATH")]]
    script += [[call("c2", "bash", command="ls")], [call("c3", "bash", command="git status")]]
    async with coding(root, env=processes.env) as tools:
        ends = await run(tools, script, hooks=Hooks(gate=tools.permissions(), approve=approve))
    assert [outcome for outcome, _ in ends] == ["ok", "ok", "denied"]


async def test_a_long_output_is_looked_at_without_a_question(root: Path, processes: Processes) -> None:
    async with coding(root, env=processes.env) as tools:
        hooks = Hooks(gate=tools.permissions())
        permitted = Hooks(gate=tools.permissions(rules={"allow": ["Bash(seq *)"]}))
        [(_, text)] = await run(tools, [[call("c1", "bash", command="seq 30000")]], hooks=permitted)
        file = text.partition("the output is in ")[2].partition(":")[0]
        assert os.path.exists(file)  # noqa: ASYNC240  # one look
        script = [
            [call("c1", "bash", command=f"sed -n 20000p {file}")],
            [call("c2", "bash", command=f"grep -n 2999 {file} | head -n 1")],
            [call("c3", "bash", command=f"cat {os.path.dirname(file)}/*.log | wc -l")],
        ]
        assert await run(tools, script, hooks=hooks) == [
            ("ok", "20000"),
            ("ok", "2999:2999"),
            ("ok", "30000"),
        ]
    assert not os.path.exists(file)  # noqa: ASYNC240  # one look


async def test_closing_leaves_no_process(root: Path, processes: Processes) -> None:
    script = [
        [call("c1", "bash", command="trap '' TERM; setsid -f sleep 300; sleep 300", run_in_background=True)]
    ]
    tools = coding(root, env=processes.env)
    await run(tools, script)
    await tools.aclose()
    assert processes.alive() == []
    await tools.aclose()
    assert (await run(tools, [[call("c1", "bash", command="echo on")]])) == [("ok", "on")]
    await tools.aclose()


async def test_closing_leaves_no_interpreter(root: Path, processes: Processes) -> None:
    async with sandboxed(root, processes) as tools:
        await run(tools, [[call("c1", "python", code="x = 1")]])
        assert tools._python is not None
        (worker,) = tools._python._workers.values()
        assert worker.alive
    assert not worker.alive


async def test_closing_while_it_is_cancelled(root: Path, processes: Processes) -> None:
    tools = sandboxed(root, processes)
    await run(tools, [[call("c1", "bash", command="sleep 300", run_in_background=True)]])
    await run(tools, [[call("c1", "python", code="x = 1"), call("c2", "bash", command="seq 30000")]])
    outputs = tools._outputs.path
    assert tools._python is not None
    (worker,) = tools._python._workers.values()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await tools.aclose()
    assert processes.alive() == [] and not worker.alive
    assert not outputs.exists()


def test_closing_while_its_task_is_cancelled(root: Path, processes: Processes) -> None:
    tools = coding(root, env=processes.env)

    async def main() -> None:
        command = "trap '' TERM; seq 30000; sleep 300"
        await run(tools, [[call("c1", "bash", command=command, run_in_background=True)]])
        closing = asyncio.ensure_future(tools.aclose())
        await asyncio.sleep(0.1)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()

    outputs = tools._outputs.path
    asyncio.run(main())
    assert processes.alive() == [] and not outputs.exists()


# --- after a resume ---------------------------------------------------------------------------------

KILLED = """
    import os, signal, sys
    import anyio
    from unspool.kernel import Agent
    from unspool.llm.scripted import ScriptedModel, call
    from unspool.tools import coding
    from unspool.trajectory import JsonlLog

    root, log, mark = sys.argv[1:]

    async def main():
        tools = coding(root, env={"UNSPOOL_TEST_MARK": mark})
        script = [
            [call("c1", "read_file", path="file.txt"), call("c2", "bash", command="cd sub; export X=1")],
            [call("c3", "bash", command="sleep 1000", run_in_background=True)],
            "begun",
        ]
        await Agent(ScriptedModel(script), tools=tools, log=JsonlLog(log)).run("go")
        os.kill(os.getpid(), signal.SIGKILL)

    anyio.run(main)
"""


async def test_a_later_process_goes_on(root: Path, tmp_path: Path, processes: Processes) -> None:
    log = tmp_path / "log.jsonl"
    argv = [sys.executable, "-c", textwrap.dedent(KILLED), str(root), str(log), processes.mark]
    here = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=here, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert done.returncode == -9, done.stderr
    assert processes.gone_within(15)
    told: list[str] = []
    script: list[Entry] = [
        [call("c4", "bash", command="pwd; echo ${X-none}"), call("c5", "task_list")],
        [call("c6", "edit_file", path="../file.txt", old_string="old", new_string="new")],
        [call("c7", "edit_file", path="file.txt", old_string="old", new_string="new")],
        [call("c8", "bash", command="echo on", run_in_background=True)],
        "done",
    ]
    async with coding(root, env=processes.env, notify=lambda message: told.append(message.text)) as tools:
        store = JsonlLog(log)
        tools.restore([record.fact for record in store.records()])
        agent = Agent(ScriptedModel(script), tools=tools, log=store)
        ends = {end.call_id: end async for end in agent.stream("go on") if isinstance(end, ToolExecEnd)}
        await tools.tasks.wait()
    assert _text(ends["c4"]) == f"{root}/sub\nnone"
    assert "shell-1 (sleep 1000): lost" in _text(ends["c5"])
    assert "<status>lost</status>" in told[0]
    assert [ends[id].outcome for id in ("c6", "c7")] == ["invalid", "ok"]  # relative to the root; read before
    assert ends["c8"].details["shell_id"] == "shell-2"
