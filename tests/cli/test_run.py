"""``unspool run`` against a server, and everything that keeps a run from beginning or going on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspool import AgentStart, ToolExecEnd, TurnStart, fold, tool
from unspool.cli.app import app
from unspool.cli.run import Job, open_log, perform
from unspool.cli.toolset import Toolset
from unspool.cli.view import JsonView
from unspool.kernel.codec import Codec
from unspool.kernel.events import SessionChanged, UnknownFact
from unspool.llm.scripted import ScriptedModel, call

from .driving import COMMAND, WAIT_S, ChatServer, ended, running, stored, unspool  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_run_shows_text_calls_results_usage_and_time(tmp_path: Path, server: ChatServer) -> None:
    (tmp_path / "note.txt").write_text("the answer is 42\n")
    server.answers = [[("read_file", {"path": "note.txt"})], "It is 42."]
    args = ["run", "-m", "local/small", "--base-url", server.url, "--log", "log.jsonl", "what is it?"]
    done = unspool(*args, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "> what is it?",
        '→ read_file(path="note.txt")',
        "← read_file ok, ",
        "the answer is 42",
        "It is 42.",
        "· 1,200 tokens in, 34 out · ",
        "stop · 2 turns, 1 call · 2,400 tokens in, 68 out · ",
        "trajectory: log.jsonl",
    ):
        assert text in done.stdout
    assert ended(tmp_path / "log.jsonl")[1] == "stop"
    first = server.requests[0]
    assert first["model"] == "small" and first["messages"][-1]["content"] == "what is it?"
    assert [item["function"]["name"] for item in first["tools"]] == ["read_file", "list_dir", "glob", "grep"]


def test_json_is_one_event_a_line_and_folds_to_the_logs_state(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [[("list_dir", {})], "Nothing here."]
    done = unspool("run", "-m", "local/x", "--base-url", server.url, "--json", "look", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    events = [Codec().decode(line.encode()) for line in done.stdout.splitlines()]
    facts = [event for event in events if not isinstance(event, UnknownFact)]
    signals = {event.type for event in events if isinstance(event, UnknownFact)}
    assert signals == {"message_start", "message_update"}
    session, kept = stored(tmp_path)
    assert facts == kept
    assert isinstance(facts[0], SessionChanged) and facts[0].metadata == {"unspool.base_url": server.url}
    assert isinstance(facts[1], AgentStart) and facts[1].session == session
    assert fold(events) == fold(facts)


def test_prompt_model_and_system_may_come_from_elsewhere(tmp_path: Path, server: ChatServer) -> None:
    server.answers = ["Yes."]
    args = ["run", "--base-url", server.url, "--system", "be brief", "-"]
    done = unspool(*args, cwd=tmp_path, stdin="is it\nso?\n", UNSPOOL_MODEL="local/from-env")
    assert (done.returncode, done.stderr) == (0, "")
    request = server.requests[0]
    assert request["model"] == "from-env"
    assert [message["content"] for message in request["messages"]] == ["be brief", "is it\nso?\n"]


def test_turns_are_limited(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [[("list_dir", {})]] * 2
    args = ["run", "-m", "local/x", "--base-url", server.url, "--max-turns", "2", "--log", "log", "go on"]
    done = unspool(*args, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "unspool: max_turns: run: no turns left (limit=2)\n")
    assert ended(tmp_path / "log")[1] == "max_turns"


def test_refusing_server_fails_the_run(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [401]
    args = ["run", "-m", "local/x", "--base-url", server.url, "--log", "log", "--json", "hello"]
    done = unspool(*args, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("unspool: auth: ") and done.stderr.count("\n") == 1
    assert ended(tmp_path / "log")[1] == "error"


# --- what keeps a run from beginning -----------------------------------------------------------

MODEL = ["-m", "local/x"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "empty prompt": (["run", *MODEL, " \n"], "the prompt is empty"),
    "empty input": (["run", *MODEL, "-"], "the prompt is empty"),
    "no model": (["run", "hi"], "no model: give -m provider/model or set UNSPOOL_MODEL"),
    "no key": (["run", "-m", "openai/x", "hi"], "set OPENAI_API_KEY"),
    "odd model": (["run", "-m", "gpt", "hi"], "a model is named provider/model"),
    "no provider": (["run", "-m", "nobody/x", "hi"], "no such provider"),
    "no folder": (["demo", "--root", "none"], "root: does not exist"),
    "a file": (["run", *MODEL, "--root", "file", "hi"], "root: is not a directory"),
    "log is a folder": (["demo", "--log", "."], "log: cannot be opened (path='.', reason='Is a directory')"),
    "log in a file": (["demo", "--log", "file/log"], "log: cannot be opened (path='file/log'"),
    "log is used": (["demo", "--log", "used"], "log: holds a run already, name another file (path='used')"),
    "log is no log": (["run", *MODEL, "--log", "file", "hi"], "log: not an unspool log (kind='not_a_log', path='file'"),
    "full disk": (["demo", "--log", "/dev/full"], "No space left on device"),
    "no log to show": (["show", "none"], "session: there is no such session or file (given='none', store='.unspool/sessions.db')"),
    "no such log": (["show", "./none"], "log: cannot be read (path='./none', reason='No such file or directory')"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_begin_is_one_line_and_status_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("not a folder, and not a log either\n")
    with open_log(str(tmp_path / "used")) as log:
        log.append(TurnStart(1, seq=1))
    args, reason = REFUSED[name]
    done = CliRunner().invoke(app, args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("unspool: ") and done.stderr.count("\n") == 1
    assert reason in done.stderr


@pytest.mark.parametrize(
    "args", [[], ["walk"], ["run"], ["demo", "--loud"], ["run", "--max-turns", "0", "hi"]]
)
def test_bad_usage_is_status_2(args: list[str]) -> None:
    assert CliRunner().invoke(app, args).exit_code == 2


def test_refusal_in_a_process_has_no_traceback(tmp_path: Path) -> None:
    done = unspool("run", "-m", "groq/x", "hi", cwd=tmp_path)
    assert done.returncode == 2
    assert "GROQ_API_KEY" in done.stderr and done.stderr.count("\n") == 1


def test_interrupt_while_reading_the_prompt(tmp_path: Path) -> None:
    command = [*COMMAND[:2], "-c", "print('*', flush=True); import unspool.cli as c; c.main()", "run", "-m", "local/x", "-"]  # fmt: skip
    with running(command, tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:  # until the handler is there, the interpreter's own answers
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode in (130, -signal.SIGTERM)
        assert process.communicate()[1] == b""


def test_missing_extra_is_told() -> None:
    code = "import sys; sys.modules['typer'] = None; from unspool.cli import main; main()"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "unspool: typer is missing: pip install 'unspool[cli]'\n"


def test_command_is_installed_and_says_its_version(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("unspool")
    done = subprocess.run([script, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "unspool 0.1.0\n", "")


# --- what ends a run in the middle -------------------------------------------------------------


def test_log_that_fails_in_mid_run_is_one_line_and_status_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = open_log(str(tmp_path / "log"))

    @tool
    async def fill() -> str:
        """Leave no room."""
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, log._fd)
        os.close(full)
        return ""

    model = ScriptedModel([[call("c1", "fill")], "never"])
    with open(os.devnull, "wb") as nowhere:
        job = Job(prompt="go", model=model, tools=Toolset([fill]), log=log, view=JsonView(nowhere))
        assert perform(job) == 1
    assert capfd.readouterr().err == (
        f"unspool: log: cannot be written (path={str(tmp_path / 'log')!r}, reason='No space left on device')\n"
    )


def test_failing_tool_does_not_fail_the_run(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [[("read_file", {"path": "../secret"})], "I may not."]
    done = unspool("run", *MODEL, "--base-url", server.url, "--log", "log", "read", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    facts, _ = ended(tmp_path / "log")
    assert [fact.outcome for fact in facts if isinstance(fact, ToolExecEnd)] == ["error"]


def test_closed_pipe_ends_a_json_run(tmp_path: Path, server: ChatServer) -> None:
    server.answers = ["word " * 20_000]
    command = [*COMMAND, "run", *MODEL, "--base-url", server.url, "--json", "--log", "log", "talk"]
    with running(command, tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 141
    assert ended(tmp_path / "log")[1] == "aborted"


@pytest.mark.parametrize("closed", ["", "2>&-", "2>/dev/full"])
@pytest.mark.parametrize("python_warnings", ["", "error"])
def test_a_warning_is_told_and_stops_nothing(
    tmp_path: Path, server: ChatServer, closed: str, python_warnings: str
) -> None:
    """Also where nobody can be told, or warnings were to be errors."""
    server.answers = [401, "Yes."]
    command = f'"$PYTHON" -P -m unspool.cli run -m local/x --base-url {server.url} "is it?" {closed}'
    env = {
        "PATH": os.environ["PATH"],
        "PYTHON": sys.executable,
        "LOCAL_API_KEY": "key-1,key-2",
        "PYTHONWARNINGS": python_warnings,
    }
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(server.requests)) == (0, 2)
    said = "unspool: local/x: key 1 of 2 was refused (auth), another is taken\n"
    assert done.stderr == ("" if closed else said)
