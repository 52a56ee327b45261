"""``unspool demo``: real tools and files, a scripted model, however the output and the run end."""

import os
import pty
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from unspool import MessageEnd, ToolExecEnd, ToolExecStart, fold
from unspool.cli.demo import NOTICE, find_text
from unspool.kernel.codec import Codec
from unspool.tools import Root
from unspool.trajectory import load
from unspool.trajectory.record import body_of

from .driving import (  # tests/cli/, not cli/
    COMMAND,
    WAIT_S,
    check_end,
    ended,
    environment,
    running,
    stored,
    unspool,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("print('an albatross')\n")
    (tmp_path / "README.md").write_text("# Birds\n\nAbout the albatross.\n")
    (tmp_path / "data.bin").write_bytes(b"albatross\0" * 9)
    return tmp_path


def test_demo_runs_all_tools_over_real_files_and_leaves_a_trajectory(folder: Path) -> None:
    done = unspool("demo", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    session, facts = stored(folder)
    lines = done.stdout.splitlines()
    assert lines[0] == NOTICE and "scripted" in NOTICE and "real" in NOTICE
    assert lines[-1] == f"session: {session}"
    assert (folder / ".unspool" / ".gitignore").read_text() == "*\n"
    assert check_end(facts)[1] == "stop"
    assert stat.S_IMODE((folder / ".unspool" / "sessions.db").stat().st_mode) == 0o600
    results = {fact.tool: fact for fact in facts if isinstance(fact, ToolExecEnd)}
    assert {fact.outcome for fact in results.values()} == {"ok"}
    assert set(results) == {"list_dir", "glob", "read_file", "grep"}
    assert "About the albatross." in str(results["read_file"].content)
    assert "README.md:3" in str(results["grep"].content)
    for name in ("list_dir(", "glob(", "read_file(", "grep(", "About the albatross.", "4 turns, 4 calls"):
        assert name in done.stdout


@pytest.mark.parametrize("files", [{}, {"data.bin": b"\0" * 99}, {"x": b"\xff\xfe\x00"}])
def test_folder_without_text_is_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    done = unspool("demo", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no text file" in done.stdout


def test_root_and_log_are_where_they_were_asked_for(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = unspool("demo", "--root", "../src", "--log", "deep/down.jsonl", cwd=elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert "code.py" in done.stdout and "README.md" not in done.stdout
    facts, _ = ended(elsewhere / "deep" / "down.jsonl")
    assert stat.S_IMODE((elsewhere / "deep" / "down.jsonl").stat().st_mode) == 0o600
    assert not (elsewhere / ".unspool").exists()
    assert facts


def test_the_likeliest_file_is_taken(folder: Path) -> None:
    find = find_text(Root(folder))
    assert find == ("README.md", "albatross")
    (folder / "README.md").unlink()
    find = find_text(Root(folder))
    assert find is not None and find.path == "src/code.py" and find.pattern == "**/*.py"


def test_output_is_plain_in_a_pipe_and_coloured_on_a_terminal(folder: Path) -> None:
    assert "\x1b" not in unspool("demo", cwd=folder).stdout
    ours, theirs = pty.openpty()
    with running([*COMMAND, "demo"], folder, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = _read_all(ours)
        assert process.wait(WAIT_S) == 0
    os.close(ours)
    assert b"\x1b[" in seen and b"session: " in seen


def _read_all(fd: int) -> bytes:
    seen = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # how a terminal says that nobody writes any more
            return seen
        if not data:
            return seen
        seen += data


# --- interrupted -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_run_in_an_orderly_way(folder: Path, number: int) -> None:
    command = [*COMMAND, "demo", "--delay", "60", "--log", "log.jsonl"]
    with running(command, folder) as process:
        _wait_for(process, b"> ")
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) == (130, b"")
    assert b"aborted" in out and b"trajectory: log.jsonl" in out
    facts, reason = ended(folder / "log.jsonl")
    assert reason == "aborted"
    marker = next(fact for fact in facts if isinstance(fact, MessageEnd) and fact.cause == "abort")
    assert marker.message is not None and marker.message.stop_reason == "aborted"


def _wait_for(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.startswith(text):
            return
    pytest.fail("the output ended early")


def test_killed_process_leaves_a_log_that_can_be_read(folder: Path) -> None:
    with running([*COMMAND, "demo", "--delay", "60", "--log", "log.jsonl"], folder) as process:
        _wait_for(process, b"> ")
        process.kill()
        process.wait(WAIT_S)
    facts = load(folder / "log.jsonl")
    assert fold(facts).active
    done = unspool("show", "log.jsonl", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the end is missing" in done.stdout


STUBBORN = """
import sys, time
from unspool import Limits, tool
from unspool.cli.run import Job, open_log, perform
from unspool.cli.output import console
from unspool.cli.signals import leave, quit_on_signals
from unspool.cli.toolset import Toolset
from unspool.cli.view import TextView
from unspool.llm.scripted import ScriptedModel, call

@tool
def stubborn() -> str:
    "Block a thread, whatever anybody says."
    print("* blocking", flush=True)
    time.sleep(3600)
    return ""

quit_on_signals()
model = ScriptedModel([[call("c1", "stubborn")], "never"])
view, limits = TextView(console(), live=True), Limits(grace_s=float(sys.argv[1]))
leave(perform(Job(prompt="go", model=model, tools=Toolset([stubborn]), log=open_log("log.jsonl"), view=view, limits=limits)))
"""


def test_tool_that_does_not_stop_is_left_behind(tmp_path: Path) -> None:
    with running([*COMMAND[:2], "-W", "ignore", "-c", STUBBORN, "0.1"], tmp_path) as process:
        _wait_for(process, b"* blocking")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    facts, reason = ended(tmp_path / "log.jsonl")
    assert reason == "aborted"
    assert next(fact for fact in facts if isinstance(fact, ToolExecEnd)).abandoned


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    with running([*COMMAND[:2], "-c", STUBBORN, "3600"], tmp_path) as process:
        _wait_for(process, b"* blocking")
        process.send_signal(signal.SIGINT)
        while process.poll() is None:  # the second only counts once the first was taken
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        assert (process.returncode, process.communicate()[1]) == (130, b"")


# --- output that takes no more -----------------------------------------------------------------


def test_closed_pipe_ends_quietly_with_the_log_complete(folder: Path) -> None:
    command = [*COMMAND, "demo", "--delay", "0.2", "--log", "log.jsonl"]
    with running(command, folder) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 141
    facts, reason = ended(folder / "log.jsonl")
    assert reason == "aborted"
    starts = [fact for fact in facts if isinstance(fact, ToolExecStart)]
    assert len(starts) == len([fact for fact in facts if isinstance(fact, ToolExecEnd)])


def test_full_output_is_told(folder: Path) -> None:
    with (
        open("/dev/full", "wb") as full,
        running([*COMMAND, "demo", "--log", "log.jsonl"], folder, stdout=full) as process,
    ):
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        assert err.decode() == "unspool: output: cannot be written (reason='No space left on device')\n"
    ended(folder / "log.jsonl")


def test_process_without_output_still_runs(folder: Path) -> None:
    command = f"exec {' '.join(COMMAND)} demo --log log.jsonl >&- 2>&- <&-"
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment(), timeout=WAIT_S, check=False)
    assert done.returncode == 0
    assert ended(folder / "log.jsonl")[1] == "stop"


def test_ascii_terminal_is_no_obstacle(folder: Path) -> None:
    (folder / "README.md").write_text("# Vögel — Übersicht\n")
    done = unspool("demo", cwd=folder, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xf6" in done.stdout


def test_facts_of_the_demo_encode_as_stored(folder: Path) -> None:
    unspool("demo", "--log", "log.jsonl", cwd=folder)
    facts, _ = ended(folder / "log.jsonl")
    lines = (folder / "log.jsonl").read_bytes().splitlines()[1:]
    assert [Codec().encode(fact) for fact in facts] == [body_of(line) for line in lines]
    assert fold(facts).messages[-1].text.startswith("I listed the folder")
