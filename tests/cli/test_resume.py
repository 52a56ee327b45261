"""``unspool run --session`` and ``unspool resume``: sessions that are gone on with, in this process or after its end."""

import json
import os
import pty
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from unspool import Agent, CallOptions, Fact, Hooks, Limits, ToolContext, Verdict, fold
from unspool.cli.places import open_store
from unspool.cli.run import DEFAULT_SYSTEM
from unspool.cli.waiting import waiting_lines
from unspool.kernel.events import ApprovalDecided, ToolExecEnd
from unspool.kernel.hooks import ToolUse
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools import file_tools
from unspool.trajectory import JsonlLog, SessionHandle, load, recorded_settings, runs

from .driving import COMMAND, WAIT_S, ChatServer, invoke, running, unspool  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")
STORES = ["kept.db", "kept"]
MODEL = ["-m", "local/x"]


def facts_of(store: str, session: str) -> list[Fact]:
    with open_store(store) as sessions:
        return list(sessions.facts(session))


def contents(server: ChatServer, request: int = -1) -> list[str]:
    return [message["content"] for message in server.requests[request]["messages"]]


# --- run --session -----------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES)
def test_a_session_is_begun_and_gone_on_with(tmp_path: Path, server: ChatServer, store: str) -> None:
    server.answers = ["One.", "Two."]
    at = ["--base-url", server.url, "--store", store, "--session", "talk"]
    first = unspool(
        "run",
        *at,
        *MODEL,
        "--title",
        "A talk",
        "--system",
        "be brief",
        "--max-turns",
        "7",
        "one?",
        cwd=tmp_path,
    )
    assert (first.returncode, first.stderr) == (0, "") and first.stdout.splitlines()[-1] == "session: talk"
    second = unspool("run", *at, "two?", cwd=tmp_path, UNSPOOL_MODEL="local/other")
    assert (second.returncode, second.stderr) == (0, "")
    assert contents(server) == ["be brief", "one?", "One. ", "two?"]
    assert server.requests[1]["model"] == "x"  # the session's own, not that of the environment
    state = fold(facts_of(store, "talk"))
    assert (state.title, state.runs, state.limits, state.end_reason) == ("A talk", 2, Limits(turns=7), "stop")


def test_what_is_said_beats_what_was_recorded(server: ChatServer) -> None:
    server.answers = ["One.", "Two."]
    at = ["--base-url", server.url, "--session", "talk"]
    invoke("run", *at, *MODEL, "one?")
    invoke("run", *at, "-m", "local/y", "--system", "be long", "--max-turns", "3", "--title", "T", "two?")
    assert (server.requests[1]["model"], contents(server)[0]) == ("y", "be long")
    facts = facts_of("", "talk")
    state = fold(facts)
    assert (state.model, state.limits, state.title) == ("local/y", Limits(turns=3), "T")
    assert contents(server, 0)[0] == DEFAULT_SYSTEM
    assert [run.previous_run for run in runs(facts)] == ["", "r1"]


def test_a_session_that_was_at_another_server_goes_nowhere_else_by_itself(
    tmp_path: Path, server: ChatServer
) -> None:
    """Not to the provider's own, which would be told all of it; nor to what a log says, which would be told the key."""
    server.answers = ["Hello.", "Again.", "And again.", "Once more."]
    secret = server.url.replace("//", "//user:hunter2@")
    begun = unspool("run", "-m", "openai/x", "--base-url", secret, "--session", "s", "hi", cwd=tmp_path)
    again = unspool("run", "--session", "s", "more", cwd=tmp_path, OPENAI_API_KEY="k")
    assert (begun.returncode, again.returncode) == (0, 2)
    assert f"give --base-url {server.url} to go on there, or -m openai/x" in again.stderr
    assert b"hunter2" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    there = unspool("run", "--session", "s", "--base-url", server.url, "more", cwd=tmp_path)
    moved = unspool("run", "--session", "s", "-m", "local/x", "more", cwd=tmp_path, LOCAL_BASE_URL=server.url)
    last = unspool("run", "--session", "s", "more", cwd=tmp_path, LOCAL_BASE_URL=server.url)
    assert [each.returncode for each in (there, moved, last)] == [0, 0, 0]
    assert len(server.requests) == 4


def test_a_new_session_without_a_run_yet_takes_what_a_new_one_takes(server: ChatServer) -> None:
    with open_store(create=True) as sessions:
        sessions.create("talk", title="Begun elsewhere").close()
    server.answers = ["One."]
    invoke("run", "--base-url", server.url, "--session", "talk", *MODEL, "one?")
    assert contents(server)[0] == DEFAULT_SYSTEM
    assert fold(facts_of("", "talk")).title == "Begun elsewhere"


def test_a_title_for_a_file(tmp_path: Path, server: ChatServer) -> None:
    server.answers = ["One."]
    invoke("run", "--base-url", server.url, *MODEL, "--log", "log", "--title", "T", "one?")
    assert fold(load(tmp_path / "log")).title == "T"


NOT_BEGUN: dict[str, tuple[list[str], str]] = {
    "both places": (["--session", "s", "--log", "l", *MODEL], "a run is stored by --log or in a --session, not both"),
    "no model": (["--session", "new"], "no model: give -m provider/model or set UNSPOOL_MODEL"),
    "odd name": (["--session", "a b", *MODEL], "a session's id is made of"),
    "its model is gone": (["--session", "there"], "no such provider"),
    "no folder": (["--session", "new", *MODEL, "--root", "none"], "root: does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_BEGUN)
def test_a_session_that_cannot_be_begun_is_not_made(name: str) -> None:
    with open_store(create=True) as sessions, sessions.create("there") as log:
        Agent(ScriptedModel(["one"], name="nobody/x"), log=log).run_sync("hello")
    before = facts_of("", "there")
    args, reason = NOT_BEGUN[name]
    assert reason in invoke("run", *args, "hello", status=2).stderr
    with open_store() as sessions:
        assert [info.session for info in sessions.list()] == ["there"]
    assert facts_of("", "there") == before


def test_the_model_of_a_session_that_cannot_be_made_is_named_as_such() -> None:
    with open_store(create=True) as sessions, sessions.create("there") as log:
        Agent(ScriptedModel(["one"], name="nobody/x"), log=log).run_sync("hello")
    done = invoke("run", "--session", "there", "hello", status=2)
    assert done.stderr.endswith(": it is the session's model, -m gives it another\n")


@pytest.mark.parametrize("store", STORES)
def test_a_session_has_one_writer(tmp_path: Path, server: ChatServer, store: str) -> None:
    server.answers = [None, "Other."]
    at = ["--base-url", server.url, "--store", store, *MODEL]
    with running([*COMMAND, "run", *at, "--session", "s", "one?"], tmp_path) as process:
        assert server.asked.acquire(timeout=WAIT_S)
        for args in (["run", *at, "--session", "s", "two?"], ["resume", *at, "s"]):
            done = unspool(*args, cwd=tmp_path)
            assert done.returncode == 2 and done.stderr.count("\n") == 1
            assert (
                done.stderr.startswith("unspool: log: another writer has it open")
                and str(process.pid) in done.stderr
            )
        beside = unspool("run", *at, "--session", "t", "three?", cwd=tmp_path)  # another session of the store
        assert (beside.returncode, beside.stderr) == (0, "")
        assert "one?" in unspool("show", "s", "--store", store, cwd=tmp_path).stdout  # readers need nothing


# --- after a crash -----------------------------------------------------------------------------


def kill_in_mid_run(server: ChatServer, folder: Path, *args: str) -> None:
    """A run whose process dies while it waits for the answer after a call."""
    (folder / "note.txt").write_text("the answer is 42\n")
    server.answers = [[("read_file", {"path": "note.txt"})], None]
    with running(
        [*COMMAND, "run", *MODEL, "--base-url", server.url, *args, "what is it?"], folder
    ) as process:
        for _ in range(2):
            assert server.asked.acquire(timeout=WAIT_S)
        process.kill()
        process.wait(WAIT_S)


@pytest.mark.parametrize("store", STORES)
def test_killed_run_is_resumed_where_it_stopped(tmp_path: Path, server: ChatServer, store: str) -> None:
    at = ["--base-url", server.url, "--store", store]
    kill_in_mid_run(
        server, tmp_path, "--store", store, "--session", "s", "--system", "be brief", "--max-turns", "9"
    )
    assert "the end is missing" in unspool("show", "s", "--store", store, cwd=tmp_path).stdout
    server.answers = ["It is 42."]
    done = unspool("resume", "s", *at, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "interrupted: the last run has no end" in done.stdout and "It is 42." in done.stdout
    assert "→" not in done.stdout  # the call that had ended is not run again
    assert done.stdout.splitlines()[-1] == "session: s"
    assert server.requests[-1]["model"] == "x" and contents(server)[0] == "be brief"
    facts = facts_of(store, "s")
    assert [(run.cause, run.end_reason) for run in runs(facts)] == [("prompt", ""), ("continue", "stop")]
    assert fold(facts).limits == Limits(turns=9)
    assert len([fact for fact in facts if isinstance(fact, ToolExecEnd)]) == 1


@pytest.mark.parametrize("store", STORES)
def test_killed_run_is_closed_by_the_next_prompt(tmp_path: Path, server: ChatServer, store: str) -> None:
    at = ["--base-url", server.url, "--store", store]
    kill_in_mid_run(server, tmp_path, "--store", store, "--session", "s")
    server.answers = ["Never mind."]
    done = unspool("run", "--session", "s", *at, "and now?", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the last run was interrupted: what it left open is closed first" in done.stdout
    assert contents(server)[-1] == "and now?"
    state = fold(facts_of(store, "s"))
    assert (state.end_reason, state.turn, state.active) == ("stop", None, False)


def test_a_file_is_resumed_and_its_torn_last_line_cut_off(tmp_path: Path, server: ChatServer) -> None:
    kill_in_mid_run(server, tmp_path, "--log", "log.jsonl")
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b'{"type":"mo')
    server.answers = ["It is 42."]
    done = unspool("resume", "log.jsonl", "--base-url", server.url, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "trajectory: log.jsonl"
    assert (
        done.stderr.startswith("unspool: log: the last line is torn, it is cut off")
        and done.stderr.count("\n") == 1
    )
    assert fold(load(tmp_path / "log.jsonl")).end_reason == "stop"


def test_events_of_a_resumed_run_as_json(tmp_path: Path, server: ChatServer) -> None:
    kill_in_mid_run(server, tmp_path, "--session", "s")
    before = len(facts_of("", "s"))
    server.answers = ["It is 42."]
    done = unspool("resume", "s", "--json", "--base-url", server.url, cwd=tmp_path)
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert (facts[0]["type"], facts[0]["seq"], facts[0]["cause"]) == ("agent_start", before + 1, "continue")


# --- with calls that wait ----------------------------------------------------------------------


class Careful:
    """A tool of the files that needs approval and says what it is going to do."""

    def __init__(self, inner: Any) -> None:
        self.spec, self.execute = replace(inner.spec, needs_approval=True), inner.execute

    async def preview(self, args: Mapping[str, Any], ctx: ToolContext, /) -> dict[str, Any]:
        return {"text": f"first\nsecond of {args.get('path')}", "size": 7}


def pause(log: SessionHandle, root: Path) -> None:
    """A session that waits for two calls, under settings of its own."""
    reply = [call("c1", "read_file", path="a.txt"), call("c2", "read_file", path="b.txt\x1b[2J")]
    agent: Agent[str] = Agent(
        ScriptedModel([reply], name="local/recorded"),
        tools=[Careful(tool) for tool in file_tools(root)],
        system="be careful",
        options=CallOptions(temperature=0.25),
        limits=Limits(turns=5),
        log=log,
    )
    assert agent.run_sync("read them").end_reason == "paused"


@pytest.fixture(params=STORES)
def paused(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The store of a session ``s`` that waits."""
    store: str = request.param
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"text of {name}\n")
    with open_store(store, create=True) as sessions, sessions.create("s") as log:
        pause(log, tmp_path)
    return store


def outcomes(store: str) -> dict[str, str]:
    return {fact.call_id: fact.outcome for fact in facts_of(store, "s") if isinstance(fact, ToolExecEnd)}


SHOWN = """\
waits for approval: c1 read_file
  path: "a.txt"
  preview:
    text:
      | first
      | second of a.txt
    size: 7
waits for approval: c2 read_file
  path: "b.txt\\u001b[2J"
  preview:
    text:
      | first
      | second of b.txt␛[2J
    size: 7
"""


def test_without_a_decision_the_calls_are_shown(paused: str) -> None:
    before = facts_of(paused, "s")
    done = invoke("resume", "s", "--store", paused, status=2)
    assert done.stdout == SHOWN
    assert done.stderr == "unspool: resume: calls wait for approval, give --allow or --deny\n"
    done = invoke("resume", "s", "--json", "--store", paused, status=2)
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["call_id"], first["tool"], first["args"]) == ("c1", "read_file", {"path": "a.txt"})
    assert second["preview"]["size"] == 7 and second["reason"] == ""
    assert facts_of(paused, "s") == before


@pytest.mark.parametrize(("option", "outcome"), [("--allow", "ok"), ("--deny", "denied")])
def test_all_calls_are_decided_at_once(paused: str, server: ChatServer, option: str, outcome: str) -> None:
    server.answers = ["Done."]
    done = invoke("resume", "s", option, "--store", paused, "--base-url", server.url)
    assert done.stdout.startswith(SHOWN) and "Done." in done.stdout
    assert outcomes(paused)["c1"] == outcome and set(outcomes(paused)) == {"c1", "c2"}
    request = server.requests[0]
    assert (request["model"], request["temperature"], contents(server)[0]) == ("recorded", 0.25, "be careful")
    state = fold(facts_of(paused, "s"))
    assert (state.end_reason, state.cause, state.limits) == ("stop", "resume", Limits(turns=5))
    assert recorded_settings(state).options == CallOptions(temperature=0.25)


def test_calls_are_decided_one_after_another(
    paused: str, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ann")
    done = invoke("resume", "s", "--allow", "c1", "--store", paused)  # needs no model yet
    assert done.stdout.endswith("still waits for approval: c2\nsession: s\n") and outcomes(paused) == {}
    assert "waits for approval: c1" not in invoke("resume", "s", "--store", paused, status=2).stdout
    server.answers = ["Done."]
    invoke("resume", "s", "c2", "--deny", "--store", paused, "--base-url", server.url)
    assert outcomes(paused) == {"c1": "ok", "c2": "denied"}
    decided = [fact for fact in facts_of(paused, "s") if isinstance(fact, ApprovalDecided)]
    assert [(fact.call_id, fact.approved, fact.by) for fact in decided] == [
        ("c1", True, "ann"),
        ("c2", False, "ann"),
    ]


def test_both_calls_by_their_ids(paused: str, server: ChatServer) -> None:
    server.answers = ["Done."]
    invoke("resume", "--allow", "s", "c2", "c1", "--store", paused, "-m", "local/y", "--base-url", server.url)
    assert server.requests[0]["model"] == "y" and outcomes(paused)["c1"] == "ok"


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["s", "--allow", "--deny"], "resume: give --allow or --deny, not both"),
        (["s", "c1"], "resume: what of these calls? give --allow, --deny or --answer"),
        (["s", "c9", "--allow"], "resume: no such call waits for a decision: ['c9']; these do: ['c1', 'c2']"),
        (["s", "--allow", "-m", "nobody/x"], "no such provider"),
        (["s", "--allow", "--root", "none"], "root: does not exist"),
        (["t", "--allow"], "no such session"),
    ],
)
def test_decisions_that_fit_nothing(paused: str, args: list[str], reason: str) -> None:
    before = facts_of(paused, "s")
    assert reason in invoke("resume", *args, "--store", paused, status=2).stderr
    assert facts_of(paused, "s") == before


@pytest.mark.parametrize(
    ("typed", "expected", "status"),
    [
        (b"y\nn\n", {"c1": "ok", "c2": "denied"}, 0),
        (b"hm\nno\nYES\n", {"c1": "denied", "c2": "error"}, 0),
        (b"y\n\x04", {}, 0),
        (b"\x04", {}, 2),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_person_at_the_terminal_is_asked(
    tmp_path: Path,
    paused: str,
    server: ChatServer,
    typed: bytes,
    expected: dict[str, str],
    status: int,
    as_json: bool,
) -> None:
    server.answers = ["Done."]
    command = [
        *COMMAND,
        "resume",
        "s",
        "--store",
        paused,
        "--base-url",
        server.url,
        *(["--json"] if as_json else []),
    ]
    ours, theirs = pty.openpty()
    with running(command, tmp_path, stdin=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == status, err
    os.close(ours)
    assert b"allow c1 read_file? [y/n]" in err
    assert (b"  path: " in err) == as_json and (b"  path: " in out) == (not as_json)
    assert outcomes(paused) == expected
    if as_json:
        assert all(json.loads(line) for line in out.splitlines())
    waiting = [waiting.call.id for waiting in fold(facts_of(paused, "s")).waiting_calls]
    assert waiting == ([] if expected else ["c2"] if typed.startswith(b"y") else ["c1", "c2"])


def test_another_prompt_passes_over_the_calls_that_wait(paused: str, server: ChatServer) -> None:
    server.answers = ["As you like."]
    done = invoke("run", "--session", "s", "--store", paused, "--base-url", server.url, "never mind")
    assert done.stdout.endswith("session: s\n") and contents(server)[-1] == "never mind"
    assert outcomes(paused) == {"c1": "skipped", "c2": "skipped"}
    assert fold(facts_of(paused, "s")).waiting_calls == ()


def test_of_two_that_begin_a_session_at_once_one_has_it(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [None, None]
    command = [*COMMAND, "run", *MODEL, "--base-url", server.url, "--session", "s", "hello"]
    with running(command, tmp_path) as first, running(command, tmp_path) as second:
        assert server.asked.acquire(timeout=WAIT_S)
        over: Queue[subprocess.Popen[bytes]] = Queue()

        def watch(process: subprocess.Popen[bytes]) -> None:
            process.wait()
            over.put(process)

        for process in (first, second):
            Thread(target=watch, args=(process,), daemon=True).start()
        loser = over.get(timeout=WAIT_S)
        assert loser.stderr is not None
        assert (loser.returncode, loser.stderr.read().count(b"\n")) == (2, 1)
    assert len(runs(facts_of("", "s"))) == 1


def test_why_a_gate_asked_is_shown(tmp_path: Path) -> None:
    def gate(use: ToolUse) -> Verdict:
        return Verdict.ask("outside of office hours")

    with JsonlLog(tmp_path / "log") as log:
        model = ScriptedModel([[call("c1", "read_file", path="two\nlines")]], name="local/x")
        agent: Agent[str] = Agent(model, tools=file_tools(tmp_path), hooks=Hooks(gate=gate), log=log)
        assert agent.run_sync("read").end_reason == "paused"
    shown = "waits for approval: c1 read_file (outside of office hours)\n  path:\n    | two\n    | lines\n"
    assert invoke("resume", "log", status=2).stdout == shown


def test_tools_that_are_not_here_are_told(server: ChatServer, paused: str) -> None:
    with open_store(paused) as sessions, sessions.open("s") as log:
        state = fold(sessions.facts("s"))
        specs = [spec.name for spec in recorded_settings(state).tools]
        assert specs == ["read_file", "list_dir", "glob", "grep"] and log.seq
    server.answers = ["Done.", "Done."]
    with open_store(paused) as sessions, sessions.create("other") as log:
        agent: Agent[str] = Agent(
            ScriptedModel(["x"], name="local/x"), tools=[Renamed(file_tools(".")[0])], log=log
        )
        agent.run_sync("hello")
        agent.follow_up("and then?")
    done = invoke("resume", "other", "--store", paused, "--base-url", server.url)
    assert (
        "queued: and then?" in done.stdout and "tools of the session that are not here: launch" in done.stdout
    )
    assert contents(server)[-1] == "and then?"


class Renamed:
    """A tool that the command has not."""

    def __init__(self, inner: Any) -> None:
        self.spec, self.execute = replace(inner.spec, name="launch"), inner.execute


# --- with nothing to go on from ----------------------------------------------------------------


@pytest.mark.parametrize("args", [[], ["--allow"], ["--deny", "c1"]])
def test_a_session_that_has_ended_is_not_resumed(args: list[str]) -> None:
    with open_store(create=True) as sessions, sessions.create("s") as log:
        Agent(ScriptedModel(["one"], name="local/x"), log=log).run_sync("hello")
    reason = (
        "resume: no call waits for a decision"
        if args
        else "the last message is an answer, give a prompt instead"
    )
    assert reason in invoke("resume", "s", *args, status=2).stderr


def test_an_empty_session_is_not_resumed(tmp_path: Path) -> None:
    JsonlLog(tmp_path / "log").close()
    assert "there are no messages, give a prompt instead" in invoke("resume", "log", status=2).stderr
    assert "log: cannot be opened (path='./none'" in invoke("resume", "./none", status=2).stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "change", [lambda whole: whole.replace(b'"seq":2', b'"seq":3'), lambda whole: b"words\n"]
)
def test_a_damaged_session_is_not_gone_on_with(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    with JsonlLog(tmp_path / "log") as log:
        Agent(ScriptedModel(["one"], name="local/x"), log=log).run_sync("hello")
    (tmp_path / "log").write_bytes(change((tmp_path / "log").read_bytes()))
    before = (tmp_path / "log").read_bytes()
    assert "log: " in invoke("resume", "log", status=2).stderr
    assert (tmp_path / "log").read_bytes() == before


def test_after_each_fact_what_waits_can_be_told(paused: str) -> None:
    facts = facts_of(paused, "s")
    told = [list(waiting_lines(fold(facts[:number]))) for number in range(len(facts) + 1)]
    assert told[0] == [] and told[-1] == SHOWN.replace("␛", "\x1b").splitlines()
    assert ["interrupted: the last run has no end", "queued: read them"] in told
    assert any(line.startswith("has not run: c1 read_file(path=") for lines in told for line in lines)


def test_refusals_in_a_process_have_no_traceback(tmp_path: Path) -> None:
    for args in (
        ["resume", "none"],
        ["run", "--session", "x", "hi"],
        ["delete", "x", "--yes"],
        ["fork", "x"],
    ):
        done: subprocess.CompletedProcess[str] = unspool(*args, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
