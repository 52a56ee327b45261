"""``--tools coding``: what runs without a question, what is asked, what a session goes on with."""

import json
import os
import pty
import signal
from pathlib import Path

import pytest

from unspool import Fact, fold
from unspool.cli.places import open_store
from unspool.kernel.events import ApprovalDecided, ApprovalRequested, ToolExecDispatch, ToolExecEnd

from .driving import COMMAND, WAIT_S, ChatServer, invoke, running, unspool  # tests/cli/, not cli/

MODEL = ["-m", "local/x", "--session", "s"]
WRITE = ("write_file", {"path": "a.txt", "content": "hello\n"})
LS = ("bash", {"command": "ls -a"})


@pytest.fixture(autouse=True)
def home(elsewhere: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where grants are kept that outlive a session."""
    path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path))
    return path


def run(server: ChatServer, *args: str, status: int = 0) -> str:
    done = invoke("run", *MODEL, "--base-url", server.url, *args, "go", status=status)
    return done.stdout + done.stderr


def facts() -> list[Fact]:
    with open_store("") as sessions:
        return list(sessions.facts("s"))


def ends() -> list[tuple[str, str]]:
    return [(fact.tool, fact.outcome) for fact in facts() if isinstance(fact, ToolExecEnd)]


def rulings() -> list[str]:
    return [
        fact.ruling.by for fact in facts() if isinstance(fact, ToolExecDispatch) and fact.ruling is not None
    ]


def test_a_mode_and_a_rule_let_calls_run(elsewhere: Path, server: ChatServer) -> None:
    server.answers = [[WRITE], [("bash", {"command": "cat a.txt && git --version"})], "Done."]
    run(server, "--tools", "coding", "--permissions", "accept-edits", "--rule", "allow Bash(git *)")
    assert (elsewhere / "a.txt").read_text() == "hello\n"
    assert ends() == [("write_file", "ok"), ("bash", "ok")]
    assert rulings() == ["mode accept-edits", "rule Bash(git *)"]


def test_what_is_not_allowed_waits_and_the_session_remembers_its_tools(
    elsewhere: Path, server: ChatServer
) -> None:
    server.answers = [[WRITE], "Done."]
    told = run(server, "--tools", "coding", status=1)
    assert "paused" in told and not (elsewhere / "a.txt").exists()
    (asked,) = [fact for fact in facts() if isinstance(fact, ApprovalRequested)]
    assert asked.ruling is not None and asked.ruling.details["mode"] == "default"
    done = invoke("resume", "s", "--allow", "--base-url", server.url)
    assert "Done." in done.stdout and (elsewhere / "a.txt").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (".unspool/sessions.db", []),
        (".unspool/other", []),
        ("kept.db-wal", ["--store", "kept.db"]),
        ("kept/s.jsonl", ["--store", "kept"]),
    ],
)
def test_no_tool_writes_where_sessions_are(
    elsewhere: Path, server: ChatServer, path: str, where: list[str]
) -> None:
    server.answers = [[("write_file", {"path": path, "content": "x"})], "Done."]
    at = ["--tools", "coding", "--permissions", "bypass", "--json", *where]
    told = run(server, *at)
    ended = [json.loads(line) for line in told.splitlines() if '"tool_exec_end"' in line]
    assert [(end["outcome"], (end.get("ruling") or {}).get("by")) for end in ended] in (
        [("denied", "protected")],
        [("invalid", None)],  # it is there, and has not been read
    )
    assert not (elsewhere / path).exists() or (elsewhere / path).read_bytes() != b"x"


def test_the_rules_of_a_session_stay(server: ChatServer) -> None:
    server.answers = [[LS], "One.", [LS], [("bash", {"command": "ls -l"})], "Two."]
    run(server, "--tools", "coding", "--rule", "deny Bash(ls *)")
    run(server)  # nothing said again
    assert ends() == [("bash", "denied")] * 3
    state = fold(facts())
    assert state.metadata["unspool.rules"] == ["deny Bash(ls *)"]


def test_what_was_read_in_an_earlier_process_counts_as_read(elsewhere: Path, server: ChatServer) -> None:
    (elsewhere / "b.txt").write_text("one\ntwo\n")
    edit = {"path": "b.txt", "old_string": "two", "new_string": "2"}
    server.answers = [[("read_file", {"path": "b.txt"})], "Read.", [("edit_file", edit)], "Edited."]
    run(server, "--tools", "coding", "--permissions", "accept-edits")
    run(server)
    assert ends() == [("read_file", "ok"), ("edit_file", "ok")]
    assert (elsewhere / "b.txt").read_text() == "one\n2\n"


def test_a_shell_goes_on_where_it_was(elsewhere: Path, server: ChatServer) -> None:
    (elsewhere / "sub").mkdir()
    server.answers = [[("bash", {"command": "cd sub"})], "One.", [("bash", {"command": "pwd"})], "Two."]
    run(server, "--tools", "coding")
    run(server)
    (_, last) = [fact for fact in facts() if isinstance(fact, ToolExecEnd)]
    assert last.details["cwd"] == str(elsewhere / "sub")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--tools", "none"], "--tools: there is no such set: none; there are files, coding"),
        (["--tools", "coding", "--permissions", "yolo"], "permissions: no such mode"),
        (["--tools", "coding", "--rule", "Bash(git *)"], "--rule: it says allow, ask or deny and what"),
        (["--tools", "coding", "--rule", "allow Bash(git"], "permissions"),
        (["--permissions", "plan"], "--permissions, --rule and --sandbox are for --tools coding"),
    ],
)
def test_what_can_not_be_meant(server: ChatServer, args: list[str], reason: str) -> None:
    assert reason in run(server, *args, status=2)
    assert server.requests == [] and not Path(".unspool").exists()


def test_a_question_of_the_model_gets_its_answer(server: ChatServer) -> None:
    question = ("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
    server.answers = [[question], "Blue it is."]
    run(server, "--tools", "coding", status=1)
    done = invoke("resume", "s", "--answer", "blue", "--base-url", server.url)
    assert "Blue it is." in done.stdout
    assert "blue" in server.requests[1]["messages"][-1]["content"]


def test_an_answer_lets_nothing_else_run(elsewhere: Path, server: ChatServer) -> None:
    server.answers = [[WRITE], "Never."]
    run(server, "--tools", "coding", status=1)
    for args in (["--answer", "no"], ["--answer", "no", "call_0_0"], ["--answer", "no", "--allow"]):
        assert "--allow" in invoke("resume", "s", *args, "--base-url", server.url, status=2).stderr
    assert not (elsewhere / "a.txt").exists() and fold(facts()).waiting_calls


def test_of_several_questions_one_is_named(server: ChatServer) -> None:
    server.answers = [[("ask_user", {"question": "Which?"}), ("ask_user", {"question": "When?"})], "Well."]
    run(server, "--tools", "coding", status=1)
    first, second = [call.call.id for call in fold(facts()).waiting_calls]
    at = ["--base-url", server.url]
    assert f"say which: {first}, {second}" in invoke("resume", "s", "--answer", "x", *at, status=2).stderr
    invoke("resume", "s", first, "--answer", "this one", *at)
    invoke("resume", "s", second, "--answer", "now", *at)
    told = [message["content"] for message in server.requests[1]["messages"][-2:]]
    assert ["this one" in told[0], "now" in told[1]] == [True, True]


def test_a_lost_task_is_told_with_the_next_prompt(elsewhere: Path, server: ChatServer) -> None:
    start = ("bash", {"command": "sleep 1000", "run_in_background": True})
    server.answers = [[start], "Started.", "I see."]
    run(server, "--tools", "coding", "--permissions", "bypass")
    run(server)
    notice, prompt = server.requests[2]["messages"][-2:]
    assert "shell-1" in notice["content"] and prompt["content"] == "go"
    assert len(server.requests) == 3  # no turn of its own


def test_live_tools_of_a_replay_are_the_sessions(elsewhere: Path, server: ChatServer) -> None:
    server.answers = [[LS], "Done."]
    run(server, "--tools", "coding")
    assert "all" in invoke("replay", "s", "--live-tools").stdout


def typed(server: ChatServer, cwd: Path, keys: bytes, *args: str, home: Path) -> tuple[bytes, bytes, int]:
    """A run with somebody at the terminal."""
    command = [*COMMAND, "run", *MODEL, "--base-url", server.url, "--tools", "coding", *args, "go"]
    ours, theirs = pty.openpty()
    try:
        with running(command, cwd, stdin=theirs) as process:
            os.close(theirs)
            os.write(ours, keys)
            out, err = process.communicate(timeout=WAIT_S)
            return out, err, process.returncode
    finally:
        os.close(ours)


@pytest.mark.parametrize(
    ("keys", "expected", "grants"),
    [
        (b"y\ny\n", ["ok", "ok"], [None, None]),
        (b"s\n", ["ok", "ok"], ["session"]),
        (b"a\n", ["ok", "ok"], ["always"]),
        (b"n\ny\n", ["denied", "ok"], [None, None]),
        (b"what?\nyes\nno\n", ["ok", "denied"], [None, None]),
    ],
)
def test_a_person_is_asked_while_it_runs(
    elsewhere: Path,
    home: Path,
    server: ChatServer,
    keys: bytes,
    expected: list[str],
    grants: list[str | None],
) -> None:
    again = ("write_file", {"path": "a.txt", "content": "more\n"})
    server.answers = [[WRITE], [again], "Done."]
    out, err, status = typed(server, elsewhere, keys, home=home)
    assert (status, b"allow" in err) == (0, True), err
    assert [outcome for _, outcome in ends()] == expected
    decided = [fact for fact in facts() if isinstance(fact, ApprovalDecided)]
    assert [fact.details.get("grant") for fact in decided] == grants
    assert b"waits for approval" in out and b"hello" in out


def test_a_grant_for_good_is_kept_for_this_folder(elsewhere: Path, home: Path, server: ChatServer) -> None:
    server.answers = [[WRITE], "Done.", [WRITE], "Again."]
    typed(server, elsewhere, b"a\n", home=home)
    (kept,) = home.rglob("*.json")
    assert "a.txt" in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600
    with open_store("") as sessions:
        sessions.delete("s")
    (elsewhere / "a.txt").unlink()  # the new session has not read it
    run(server, "--tools", "coding")
    assert ends() == [("write_file", "ok")]
    server.answers = [[WRITE], "Elsewhere."]
    (elsewhere / "other").mkdir()
    run(server, "--tools", "coding", "--root", "other", status=1)  # another folder: it is asked


def test_the_end_of_input_leaves_the_call_waiting(elsewhere: Path, home: Path, server: ChatServer) -> None:
    server.answers = [[WRITE]]
    _, _, status = typed(server, elsewhere, b"\x04", home=home)
    assert status == 1 and [call.call.name for call in fold(facts()).waiting_calls] == ["write_file"]


def test_what_runs_in_the_background_ends_with_the_command(elsewhere: Path, server: ChatServer) -> None:
    start = ("bash", {"command": "echo $$ > pid; sleep 1000", "run_in_background": True})
    wait = ("bash", {"command": "until [ -s pid ]; do sleep 0.01; done"})
    server.answers = [[start], [wait], "Started."]
    told = run(server, "--tools", "coding", "--permissions", "bypass")
    assert "ended with the run, in the background: shell-1" in told
    pid = int((elsewhere / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_killed_in_a_command_and_gone_on_with(elsewhere: Path, server: ChatServer) -> None:
    slow = ("bash", {"command": "echo $$ > pid; sleep 1000"})
    server.answers = [[slow], [WRITE], "Done."]
    command = [
        *COMMAND, "run", *MODEL, "--base-url", server.url, "--tools", "coding", "--permissions", "bypass", "go",
    ]  # fmt: skip
    with running(command, elsewhere) as process:
        while not (elsewhere / "pid").exists() or not (elsewhere / "pid").read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
    pid = int((elsewhere / "pid").read_text())
    done = unspool("resume", "s", "--base-url", server.url, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert ends() == [("bash", "unknown"), ("write_file", "ok")]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_session_stays_in_its_sandbox(elsewhere: Path, server: ChatServer) -> None:
    outside = elsewhere.parent / f"{elsewhere.name}-outside"
    escape = ("bash", {"command": f"echo x > {outside} || echo refused"})
    server.answers = [[escape], "One.", [escape], "Two."]
    run(server, "--tools", "coding", "--permissions", "bypass", "--sandbox")
    run(server)
    assert ends() == [("bash", "ok")] * 2 and not outside.exists()


def test_events_on_stdout_are_nothing_but_events(elsewhere: Path, home: Path, server: ChatServer) -> None:
    server.answers = [[WRITE], "Done."]
    out, err, status = typed(server, elsewhere, b"y\n", "--json", home=home)
    assert status == 0 and b"hello" in err
    assert all(json.loads(line) for line in out.splitlines())


def test_what_a_long_command_says_is_shown_while_it_runs(elsewhere: Path, server: ChatServer) -> None:
    (elsewhere / "go").mkdir()
    server.answers = [
        [("bash", {"command": "echo so far; until [ -e go/on ]; do sleep 0.01; done"})],
        "Done.",
    ]
    command = [
        *COMMAND, "run", *MODEL, "--base-url", server.url, "--tools", "coding", "--permissions", "bypass", "go",
    ]  # fmt: skip
    with running(command, elsewhere) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "… so far".encode():
                (elsewhere / "go" / "on").touch()
                break
        out, _ = process.communicate(timeout=WAIT_S)
    assert b"Done." in out and process.returncode == 0
