"""What a command's result says, and what the next command finds."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.function_tool import RawTool
from unspool.tools.files.root import Roots
from unspool.tools.shell import BashTool, OutputFiles, bash_tool
from unspool.tools.shell.exchange import Left
from unspool.tools.shell.session import ShellStates

from .conftest import FakeContext, Processes, Run, call_tool, each, error_of

pytestmark = pytest.mark.anyio

# what is run: the text of the result, and the exit code
RESULTS: dict[str, tuple[str, str, int]] = {
    "output": ("echo hi", "hi", 0),
    "output without a newline": ("printf hi", "hi", 0),
    "nothing": ("true", "[no output, exit code 0]", 0),  # B211
    "nothing, and failed": ("false", "[no output, exit code 1]", 1),
    "nothing found": ("grep zzz /dev/null", "[no output, exit code 1]", 1),
    "blank output": ("echo; echo ' '", "[no output, exit code 0]", 0),
    "exit code": ("echo broken; exit 7", "broken\n[exit code 7]", 7),  # T137, T423
    "both streams in order": ("echo a; echo b >&2; echo c", "a\nb\nc", 0),
    "signal": ("kill -9 $$", "[no output, exit code 137: the shell was ended by SIGKILL]", 137),
    "several lines": ("cat <<X\na\nX\necho b", "a\nb", 0),
    "syntax error": ("if", "bash: eval: line 2: syntax error: unexpected end of file\n[exit code 2]", 2),
    "no input": ("read x; echo $?", "1", 0),
    "no input for cat": ("cat", "[no output, exit code 0]", 0),
    "no terminal": ("echo x > /dev/tty", "bash: line 1: /dev/tty: No such device or address\n[exit code 1]", 1),
    "not a login shell": ("shopt -q login_shell || echo no", "no", 0),
    "not UTF-8": (r"printf 'ok \377\360 end'", "ok \ufffd\ufffd end", 0),  # B209
    "NUL": (r"printf 'a\0b'", "a␀b", 0),
    "colours and progress": (r"printf '\033[31mred\033[0m\r50%%\r99%%\n'", "99%", 0),
    "half a character": (r"printf 'x\xe2\x82'; exit 3", "x\ufffd\n[exit code 3]", 3),
    "set -x": ("set -x; echo a", "++ echo a\na", 0),
    "set -v": ("set -v; echo a", "a", 0),
    "set -e": ("set -e; false; echo never", "[no output, exit code 1]", 1),
    "EXIT trap": ("trap 'echo bye' EXIT; echo hi", "hi\nbye", 0),
    "EXIT trap and exit": ("trap 'echo bye $?' EXIT; exit 3", "bye 3\n[exit code 3]", 3),
    "exec": ("exec echo hi", "hi", 0),
    "functions of the same names": ("exit() { echo no; }; pwd() { echo no; }; env() { echo no; }; true", "[no output, exit code 0]", 0),
    "DEBUG trap": ("trap 'echo d' DEBUG; true", "d", 0),
    "longer than an argument may be": (f"cat <<X | wc -c\n{'x' * 300_000}\nX", "300001", 0),
    "not ASCII": ("echo 'é €𝄞'", "é €𝄞", 0),
    "closes its output": ("echo a; exec >&- 2>&-; sleep 0.2; exit 3", "a\n[exit code 3]", 3),
    "process substitution": ("exec > >(sleep 0.1; cat); echo late", "late", 0),
}  # fmt: skip


async def test_results(run: Run) -> None:
    async def check(case: str) -> None:
        command, text, code = RESULTS[case]
        result = await run(command, FakeContext(case))
        assert (result.content, result.details["exit_code"]) == (text, code)
        assert not result.is_error
        assert "timed_out" not in result.details and "aborted" not in result.details

    await each(RESULTS, check)


async def test_details(run: Run, root: Path) -> None:
    details = (await run("echo a; echo b; exit 2")).details
    assert details == {"exit_code": 2, "bytes": 4, "lines": 2, "cwd": str(root), "killed": []}
    assert (await run("kill -TERM $$")).details["signal"] == "SIGTERM"


async def test_time_over(run: Run) -> None:  # T133, T423
    result = await run("echo up; sleep 20", timeout=1)
    assert result.details["timed_out"] and result.details["exit_code"] == 143
    assert re.fullmatch(
        r"up\n\[timed out after \d\.\d s, and ended with all that it had started; exit code 143\]",
        str(result.content),
    )
    assert not result.is_error


async def test_time_that_is_over_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins when the shell runs, however long that took to start."""
    result = await run("sleep 20", timeout=1e-9)
    assert result.details["timed_out"] and result.details["exit_code"] == 143
    monkeypatch.setattr("unspool.tools.shell.conduct._START_S", -1.0)
    result = await run("sleep 20", timeout=0.1)  # and where that takes too long, there is an end to it too
    assert result.details["timed_out"] and result.details["exit_code"] in (-1, 143)


async def test_a_long_line(run: Run) -> None:  # T134
    result = await run("head -c 300000 /dev/zero | tr '\\0' x")
    assert str(result.content).startswith("xxx") and "no output" not in result.content
    file = result.details["output_file"]
    assert (await run(f"wc -c < {file}")).content == "300000"  # as the note says it can be looked at


async def test_lines_beyond_the_limit(run: Run) -> None:
    result = await run("seq 3000")
    assert "\n[lines 401-1400 left out of 3000 lines, 13.6 KB; the output is in /" in result.content
    assert result.details["lines"] == 3000


async def test_workdir(run: Run, root: Path) -> None:  # T135, T136, T423
    (root / "nested").mkdir()
    (root / "file").touch()
    assert str((await run("pwd", workdir="nested")).content) == str(root / "nested")
    assert str((await run("pwd")).content) == str(root)  # for that command only
    assert await error_of(run("pwd", workdir="none")) == f"working directory does not exist: {root}/none"
    assert await error_of(run("pwd", workdir="file")) == f"working directory is not a directory: {root}/file"


async def test_nothing_to_run(run: Run) -> None:
    assert await error_of(run(" \n")) == "the command is empty"
    assert "NUL" in await error_of(run("echo \0"))


def test_bad_definitions(root: Path) -> None:  # T423
    with pytest.raises(ToolDefinitionError, match="no such shell"):
        bash_tool(root, shell="no-such-shell")
    with pytest.raises(ToolDefinitionError, match="root: does not exist"):
        bash_tool(root / "none")


async def test_a_shell_that_can_not_be_run(root: Path, run: Run) -> None:
    broken = root / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    tool = bash_tool(root, shell=str(broken))
    error = await error_of(call_tool(tool, FakeContext().ctx, command="true"))
    assert error == "the command could not be run: Exec format error"


PREFIX: dict[str, tuple[str, str, str]] = {  # T424
    "variable": ("export X=1", "echo $X", "1"),
    "both outputs": ("echo prefix-output", "echo command-output", "prefix-output\ncommand-output"),
    "none": ("", "echo command-output", "command-output"),
}


@pytest.mark.parametrize("case", PREFIX)
async def test_prefix(case: str, root: Path) -> None:
    prefix, command, text = PREFIX[case]
    result = await call_tool(bash_tool(root, prefix=prefix), FakeContext().ctx, command=command)
    assert result.content == text


async def test_wrap(root: Path) -> None:
    seen: list[list[str]] = []

    def wrap(argv: list[str]) -> list[str]:
        seen.append(argv)
        return ["/usr/bin/env", "-i", "WRAPPED=1", *argv]

    tool, ctx = bash_tool(root, wrap=wrap, env={"GIVEN": "2"}), FakeContext().ctx
    result = await call_tool(tool, ctx, command="echo $WRAPPED $GIVEN $PAGER; export LATER=3")
    assert result.content == "1 2 cat" and len(seen) == 1
    assert (
        await call_tool(tool, ctx, command="echo $LATER $GIVEN")
    ).content == "3 2"  # the wrapper cleared it


# --- state ------------------------------------------------------------------------------------------

# commands of one agent, and the output of the last
KEPT: dict[str, tuple[list[str], str]] = {
    "directory": (["cd a", "pwd"], "{root}/a"),
    "directory, twice": (["cd a", "cd b", "pwd"], "{root}/a/b"),
    "links are resolved": (["ln -s a/b link; cd link", "pwd"], "{root}/a/b"),
    "cd -": (["cd a", "cd -", "pwd"], "{root}"),
    "exported": (["export X=1", "echo $X"], "1"),
    "exported, several lines": (["export X='1\n=2'", 'echo "$X"'], "1\n=2"),
    "harmless for git": (["export GIT_AUTHOR_NAME=Ann", "echo $GIT_AUTHOR_NAME"], "Ann"),
    "unset": (["export X=1", "unset X", "echo ${X-none}"], "none"),
    "not exported": (["X=1", "echo ${X-none}"], "none"),
    "options are not kept": (["set -e", "false; echo on"], "on"),
    "own EXIT trap": (["trap 'true' EXIT; cd a", "pwd"], "{root}/a"),
    "failed command": (["cd a; false", "pwd"], "{root}/a"),
    "exit: as before": (["cd a; exit 3", "pwd"], "{root}"),
    "exec: as before": (["cd a; exec true", "pwd"], "{root}"),
    "set -e: as before": (["set -e; cd a; false", "pwd"], "{root}"),
    "killed: as before": (["cd a; kill -9 $$", "pwd"], "{root}"),
    "workdir does not move": (["cd a", "@b cd ..", "pwd"], "{root}/a"),
    "its directory is gone": (["cd a/b; rm -r $PWD", "pwd"], "{root}"),
    "PATH is broken": (["PATH=/none; cd a", "pwd; echo $PATH"], "{root}/a\n/none"),
    "too much exported": (
        ["export Y=1", "cd a; export X=$(head -c 900000 /dev/zero | tr '\\0' x)", "pwd; echo $Y"],
        "{root}/a\n1",
    ),
    "PWD agrees": (["cd a", "echo $PWD"], "{root}/a"),
    "a directory with a newline": (["mkdir $'n\n'; cd $'n\n'", 'echo "${PWD##*/}."'], "n\n."),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # nothing in it depends on the event loop
@pytest.mark.parametrize("case", KEPT)
async def test_state_is_kept(case: str, run: Run, root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    commands, text = KEPT[case]
    ctx = FakeContext()
    for command in commands[:-1]:
        where = {"workdir": "b"} if command.startswith("@b ") else {}
        await run(command.removeprefix("@b "), ctx, **where)
    assert (await run(commands[-1], ctx)).content == text.format(root=root)


# what a command exports; what a later one shows of it; what is told
STEERING: dict[str, tuple[str, str, str]] = {
    "a function": ("git() { echo evil; }; export -f git", "git 2>&1 | grep evil", "git()"),
    "a start-up file": ("export BASH_ENV=$PWD/x; echo 'echo evil' > x", "bash -c :", "BASH_ENV"),
    "options of bash": ("export SHELLOPTS", "[[ $- == *x* ]] && echo evil", "SHELLOPTS"),
    "where cd goes": ("export CDPATH=/usr", "cd lib 2>/dev/null && echo evil", "CDPATH"),
    "a library": ("export LD_PRELOAD=/none/evil.so", "cat /dev/null", "LD_PRELOAD"),
    "a program of git": ("export GIT_EXTERNAL_DIFF=evil", "env | grep evil", "GIT_EXTERNAL_DIFF"),
    "settings of git": ("export HOME=/evil", "env | grep evil", "HOME"),
    "an option of the prompt": ("export PROMPT_COMMAND='echo evil'", "env | grep evil", "PROMPT_COMMAND"),
    "an alphabet": ("export LC_ALL=ja_JP.SJIS", "env | grep SJIS", "LC_ALL"),
    "a pager": ("export PAGER=evil", "env | grep evil", "PAGER"),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("case", STEERING)
async def test_no_command_decides_what_later_ones_run(case: str, run: Run) -> None:
    """Whoever judges a later command sees that command alone."""
    first, later, told = STEERING[case]
    ctx = FakeContext()
    result = str((await run(f"export OTHER=1; {first}", ctx)).content)
    assert f"not kept for the next command: {told}; a command that needs it sets it itself]" in result
    shown = str((await run(f"echo $OTHER; {later}", ctx)).content)
    assert shown.partition("\n[")[0] == "1"
    assert "not kept" not in shown


async def test_what_the_host_gives_stays(root: Path, processes: Processes) -> None:
    given = {**processes.env, "GIT_PAGER": "less", "BASH_FUNC_f%%": "() {  echo host\n}"}
    tool, ctx = bash_tool(root, env=given), FakeContext().ctx
    result = await call_tool(
        tool, ctx, command="f; unset -f f; unset GIT_PAGER HOME; f() { echo evil; }; export -f f"
    )
    assert result.content == (
        "host\n[not kept for the next command: GIT_PAGER, HOME, f(); a command that needs it sets it itself]"
    )
    assert (await call_tool(tool, ctx, command="f; echo $GIT_PAGER")).content == "host\nless"


async def test_where_programs_are_found_is_told(bash: RawTool, run: Run, root: Path) -> None:
    assert isinstance(bash, BashTool)
    ctx = FakeContext()
    assert bash.path_of(ctx.ctx) == os.environ["PATH"]
    await run("PATH=$PWD/bin:$PATH", ctx)
    assert bash.path_of(ctx.ctx) == f"{root}/bin:{os.environ['PATH']}"
    assert bash.path_of(FakeContext("s2").ctx) == os.environ["PATH"]


async def test_state_is_kept_for_each_agent(run: Run, root: Path) -> None:
    (root / "a").mkdir()
    here = FakeContext("s1", ("main",))
    result = await run("cd a; export X=1", here)
    assert result.content == f"[no output, exit code 0]\n[working directory: {root}/a]"
    assert result.details["cwd"] == f"{root}/a"
    for other in (FakeContext("s2", ("main",)), FakeContext("s1", ("main", "helper"))):
        assert (await run("pwd; echo ${X-none}", other)).content == f"{root}\nnone"
    assert (await run("pwd; echo ${X-none}", here)).content == f"{root}/a\n1"


def test_the_agents_that_are_remembered_are_bounded(root: Path) -> None:
    states = ShellStates((str(root),), None, confine=True)
    agents = [FakeContext(f"s{number}").ctx for number in range(300)]
    for number, ctx in enumerate(agents):
        states.keep(ctx, states.of(ctx), Left(str(root), {"N": str(number)}), {}, moves=True)
    assert len(states._states) == 256
    assert states.of(agents[299]).env == {"N": "299"} and states.of(agents[1]).env is None


async def test_a_directory_that_is_deleted_between_commands(run: Run, root: Path) -> None:
    ctx = FakeContext()
    await run("mkdir a; cd a", ctx)
    os.rmdir(root / "a")
    error = await error_of(run("touch made", ctx))
    assert error.startswith(f"the working directory {root}/a no longer exists; nothing was run")
    assert (await run("ls; pwd", ctx)).content == str(root)


async def test_the_root_is_deleted(run: Run, root: Path) -> None:
    os.rmdir(root)
    assert await error_of(run("pwd")) == f"the root directory {root} no longer exists"


async def test_commands_begin_inside_the_roots(root: Path, outside: Path, run: Run) -> None:
    ctx = FakeContext()
    result = await run(f"cd {outside}", ctx)
    assert f"[{outside} is outside of {root}: back in {root}]" in result.content
    assert (await run("pwd", ctx)).content == str(root)
    (root / "link").symlink_to(outside)
    for path in (str(outside), "../outside", "..", "link"):
        assert "working directory is outside of" in await error_of(run("pwd", ctx, workdir=path))
    both = bash_tool(Roots(root, outside))
    await call_tool(both, ctx.ctx, command=f"cd {outside}")
    assert (await call_tool(both, ctx.ctx, command="pwd")).content == str(outside)
    free = bash_tool(root, confine_cwd=False)
    await call_tool(free, ctx.ctx, command="cd /")
    assert (await call_tool(free, ctx.ctx, command="pwd")).content == "/"


async def test_a_directory_that_became_a_link_outwards(root: Path, run: Run) -> None:
    ctx = FakeContext()
    await run("mkdir a; cd a", ctx)
    os.rmdir(root / "a")
    (root / "a").symlink_to("/")
    assert "nothing was run" in await error_of(run("pwd", ctx))


async def test_where_an_agent_begins_is_asked_for_each_call(root: Path, outside: Path) -> None:  # T141–T144
    first, second = outside / "first", outside / "second"
    first.mkdir()
    second.mkdir()
    ctx, answer = FakeContext().ctx, [""]
    tool = bash_tool(root, cwd=lambda ctx: answer[0])
    seen = []
    for answer[0] in ("", str(first), str(second), str(second), ""):
        seen.append((await call_tool(tool, ctx, command="pwd")).content)
    assert seen == [str(root), str(first), str(second), str(second), str(root)]


# --- what the model is told -------------------------------------------------------------------------


def test_the_schema_has_no_background_without_a_registry(bash: RawTool) -> None:
    assert list(bash.spec.schema["properties"]) == ["command", "timeout", "workdir", "description"]
    assert "background" not in str(bash.spec.schema) and "run_in_background" not in bash.spec.description
    assert bash.check_arguments({"command": "x", "run_in_background": True})
    assert bash.spec_for({"command": "x", "description": "Build it"}).activity == "Build it"


@pytest.mark.parametrize("given", [{}, {"timeout": 0}, {"timeout": -5}])
async def test_default_timeout(given: dict[str, Any], run: Run) -> None:
    assert (await run("echo ok", **given)).content == "ok"


async def test_progress(run: Run) -> None:
    ctx = FakeContext()
    await run(
        "printf 'a\\nlong line without an end'; sleep 0.5; echo; for i in {1..2000}; do echo $i; done; sleep 0.3",
        ctx,
    )
    seen = [summary for summary, _, _ in ctx.reports]
    assert "long line without an end" in seen and seen[-1] == "2000"
    assert len(ctx.reports) <= 12  # in 0.8 s, at most ten a second
    assert ("tool_delta", {"lines": 2, "bytes": 26}) in [report[1:] for report in ctx.reports]


async def test_output_files_go_with_their_store(root: Path, processes: Processes) -> None:
    outputs = OutputFiles()
    tool = bash_tool(root, env=processes.env, outputs=outputs)
    result = await call_tool(tool, FakeContext().ctx, command="seq 30000")
    file, directory = result.details["output_file"], str(outputs.path)
    assert os.path.dirname(file) == directory and os.path.exists(file)  # noqa: ASYNC240  # one look
    outputs.close()
    assert not os.path.exists(directory)  # noqa: ASYNC240  # one look
