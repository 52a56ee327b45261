"""The store and what is done with its sessions: listed, shown, tailed, forked, deleted."""

import json
import os
import pty
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool import Agent, Fact, fold, user_message
from unspool.cli.ls import short
from unspool.cli.places import open_store
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools import file_tools
from unspool.trajectory import JsonlLog, JsonlSessions, SessionHandle, Sessions, load, runs

from .driving import COMMAND, WAIT_S, invoke, running, stored, unspool  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture(params=["kept.db", "kept"])
def store(request: pytest.FixtureRequest) -> str:
    """A place of sessions of either kind."""
    place: str = request.param
    return place


@pytest.fixture
def sessions(store: str) -> Iterator[Sessions]:
    with open_store(store, create=True) as opened:
        yield opened


def talk(log: SessionHandle, *prompts: str) -> None:
    """A run for each prompt."""
    agent: Agent[str] = Agent(ScriptedModel([f"{prompt}?" for prompt in prompts], name="local/x"), log=log)
    for prompt in prompts:
        agent.run_sync(prompt)


def make(sessions: Sessions, name: str, *prompts: str, **about: Any) -> list[Fact]:
    with sessions.create(name, **about) as log:
        talk(log, *prompts)
    return list(sessions.facts(name))


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# --- where they are ----------------------------------------------------------------------------


def test_without_a_store_nothing_is_listed_and_nothing_made(tmp_path: Path) -> None:
    assert invoke("ls").output == ""
    assert invoke("ls", "--json").output == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", ["kept.db", "kept.sqlite", "kept"])
@pytest.mark.parametrize("variable", [True, False])
def test_a_store_is_a_database_or_a_folder(tmp_path: Path, store: str, variable: bool) -> None:
    place = {"UNSPOOL_STORE": store} if variable else {}
    option = [] if variable else ["--store", store]
    for _ in range(2):
        assert unspool("demo", *option, cwd=tmp_path, **place).returncode == 0
    assert not (tmp_path / ".unspool").exists()
    assert (tmp_path / store).is_dir() == (store == "kept")
    done = unspool("ls", "--json", *option, cwd=tmp_path, **place)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    if store == "kept":
        names = {info["session"] for info in objects(done.stdout)}
        assert {path.name for path in (tmp_path / store).iterdir()} == {f"{name}.jsonl" for name in names}


def test_the_default_store_stays_out_of_git(tmp_path: Path) -> None:
    invoke("demo")
    invoke("demo", "--log", "apart.jsonl")
    assert (tmp_path / ".unspool" / ".gitignore").read_text() == "*\n"
    session, facts = stored(tmp_path)
    assert fold(facts).session == session
    assert fold(load(tmp_path / "apart.jsonl")).session != session


NO_STORE: dict[str, tuple[list[str], str]] = {
    "not there": (["ls", "--store", "none.db"], "store: there are no sessions yet (kind='no_store', path='none.db')"),
    "a text": (["ls", "--store", "text"], "log: not an unspool log"),
    "somebody's database": (["ls", "--store", "other.db"], "log: not an unspool log"),
    "to verify": (["verify"], "store: there are no sessions yet"),
    "to show": (["show"], "session: there is none yet (store='.unspool/sessions.db')"),
    "to tail": (["tail", "--store", "none"], "session: there is none yet (store='none')"),
    "a folder as a log": (["show", "./folder"], "session: this is a store of many"),
    "a database as a log": (["show", "other.db"], "session: this is a store of many"),
    "to run in": (["demo", "--store", "text"], "log: not an unspool log"),
    "not writable": (["demo", "--store", "text/x.db"], "log: cannot be opened"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_STORE)
def test_what_is_no_store_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "text").write_text("words\n")
    (tmp_path / "folder").mkdir()
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    args, reason = NO_STORE[name]
    done = invoke(*args, status=2)
    assert reason in done.stderr and done.stdout == ""


# --- which one is meant ------------------------------------------------------------------------


def test_a_session_is_named_by_its_id_or_the_beginning_of_it(sessions: Sessions, store: str) -> None:
    make(sessions, "apple", "one")
    make(sessions, "apricot", "two")
    make(sessions, "apri", "three")
    for given, prompt in (("apple", "one"), ("app", "one"), ("apric", "two"), ("apri", "three")):
        assert f"> {prompt}\n" in invoke("show", given, "--store", store).stdout
    done = invoke("show", "ap", "--store", store, status=2)
    assert "session: more than one begins like that (given='ap', sessions=[" in done.stderr
    done = invoke("show", "pear", "--store", store, status=2)
    assert f"session: there is no such session or file (given='pear', store='{store}')" in done.stderr
    assert "log: cannot be read" in invoke("show", "./apple", "--store", store, status=2).stderr


def test_the_newest_is_shown_where_none_is_named(sessions: Sessions, store: str) -> None:
    make(sessions, "b", "older")
    make(sessions, "a", "newer")
    assert "> newer\n" in invoke("show", "--store", store).stdout
    assert "agent_end stop" in invoke("tail", "--store", store).stdout


def test_an_id_comes_before_a_file_and_a_file_before_the_beginning_of_an_id(
    tmp_path: Path, sessions: Sessions, store: str
) -> None:
    make(sessions, "notes", "in the store")
    for name in ("notes", "no"):
        with JsonlLog(tmp_path / name) as log:
            talk(log, f"in the file {name}")
    assert "> in the store\n" in invoke("show", "notes", "--store", store).stdout
    assert "> in the file notes\n" in invoke("show", "./notes", "--store", store).stdout
    assert "> in the file no\n" in invoke("show", "no", "--store", store).stdout
    assert "> in the store\n" in invoke("show", "not", "--store", store).stdout


def test_a_file_is_found_beside_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log.jsonl") as log:
        talk(log, "hello")
    (tmp_path / "bad.db").write_text("no database at all, and longer than any header of one" * 20)
    assert "> hello\n" in invoke("show", "log.jsonl", "--store", "bad.db").stdout


# --- ls ----------------------------------------------------------------------------------------


def test_list_is_aligned_with_the_newest_first(sessions: Sessions, store: str) -> None:
    make(sessions, "first", "say\n  something " + "long " * 20)
    make(sessions, "second", "x", title="Ein schöner Titel 標題")
    copied = sessions.fork("first", 4)
    done = invoke("ls", "--store", store)
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["session", "title", "facts", "updated", "from"]
    assert [line.split()[0] for line in lines] == [copied[:12], "second", "first"]
    assert "say something long long" in lines[2] and "…" in lines[2] and "Ein schöner Titel 標題" in lines[1]
    assert lines[0].endswith("  first@4") and not lines[1].endswith(" ")
    for line, session in zip(lines, (copied, "second", "first"), strict=True):
        facts = len(list(sessions.facts(session)))
        assert re.search(rf" {facts}  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", line), (line, facts)
    when = time.strftime("%Y-%m-%d %H:", time.localtime(sessions.info("first").updated))
    assert when in lines[2]


def test_list_as_json_is_one_info_a_line(sessions: Sessions, store: str) -> None:
    make(sessions, "s", "x", title="T", namespace="team/a", sender="ann", metadata={"k": [1]})
    make(sessions, "t", "y", namespace="team/b")
    make(sessions, "u", "z", namespace="teams", sender="ann")
    found = objects(invoke("ls", "--json", "--store", store).stdout)
    assert [info["session"] for info in found] == ["u", "t", "s"]
    assert found[2]["title"] == "T" and found[2]["metadata"] == {"k": [1]} and found[2]["sender"] == "ann"
    assert found[2]["facts"] == len(list(sessions.facts("s")))
    for args, expected in (
        (["--namespace", "team"], ["t", "s"]),
        (["--namespace", "team/a"], ["s"]),
        (["--sender", "ann"], ["u", "s"]),
        (["--sender", "ann", "-n", "1"], ["u"]),
        (["-n", "2"], ["u", "t"]),
    ):
        found = objects(invoke("ls", "--json", "--store", store, *args).stdout)
        assert [info["session"] for info in found] == expected


def test_damaged_sessions_are_listed_with_their_problem(tmp_path: Path) -> None:
    with JsonlSessions(tmp_path / "kept") as sessions:
        make(sessions, "good", "hello")
        make(sessions, "bad", "hello")
    path = tmp_path / "kept" / "bad.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"session":"bad"', b'"session":"bat"', 1))
    done = invoke("ls", "--store", "kept", status=1)
    lines = done.stdout.splitlines()
    assert re.search(r"^bad +! log: damaged header", "\n".join(lines), re.MULTILINE)
    assert re.search(r"^good +hello +\d+", "\n".join(lines), re.MULTILINE)
    found = {
        info["session"]: info for info in objects(invoke("ls", "--json", "--store", "kept", status=1).stdout)
    }
    assert "damaged header" in found["bad"]["problem"] and "problem" not in found["good"]


def test_random_ids_are_cut_short_and_others_are_not() -> None:
    assert short("0123456789abcdef" * 2) == "0123456789ab"
    assert short("my-very-long-name-of-a-session-33") == "my-very-long-name-of-a-session-33"


def test_what_would_command_a_terminal_is_shown_in_lists(sessions: Sessions, store: str) -> None:
    make(sessions, "s", "x", title="red\x1b[31m\nalert")
    assert "red␛[31m alert" in invoke("ls", "--store", store).stdout


# --- show --------------------------------------------------------------------------------------


def test_shown_session_reads_as_its_run(tmp_path: Path) -> None:
    live = unspool("demo", cwd=tmp_path).stdout.splitlines()
    session, facts = stored(tmp_path)
    shown = unspool("show", session, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == live[1:-1]
    as_json = unspool("show", session[:6], "--json", cwd=tmp_path)
    assert [line["seq"] for line in objects(as_json.stdout)] == [fact.seq for fact in facts]


def test_damage_in_a_database_is_named_after_what_is_whole(tmp_path: Path) -> None:
    with open_store("kept.db", create=True) as sessions:
        make(sessions, "s", "hello")
    spoil(tmp_path / "kept.db", 3)
    for args in (["show", "s"], ["show", "s", "--json"], ["tail", "s"]):
        done = invoke(*args, "--store", "kept.db", status=1)
        assert "damaged record" in done.stderr and "seq=" in done.stderr and done.stderr.count("\n") == 1


def spoil(path: Path, seq: int) -> None:
    """Change a letter of a record of the only session."""
    database = sqlite3.connect(path)
    with database:
        database.execute(
            "UPDATE records SET line = CAST(replace(CAST(line AS TEXT), '\"time\":', '\"tyme\":') AS BLOB) WHERE id & 255 = ?",
            (seq,),
        )
    database.close()


def test_the_conversation_as_it_was_written(tmp_path: Path, sessions: Sessions, store: str) -> None:
    with sessions.create("s") as log:
        model = ScriptedModel([["I look.", call("c1", "list_dir", path=".")], "Nothing\x1b[2J.", "Better."])
        agent: Agent[str] = Agent(model, tools=file_tools(tmp_path), log=log)
        agent.run_sync("look")
        agent.set_messages([user_message("instead")])
        agent.run_sync("again")
    lines = invoke("show", "s", "--as-written", "--store", store).stdout.splitlines()
    assert lines[:4] == ["m1 user · replaced since", "look", "m2 assistant · replaced since", "I look."]
    assert lines[4:6] == ['→ c1 list_dir(path=".")', "m3 tool · replaced since"]
    assert lines[-8:] == ["m4 assistant · replaced since", "Nothing␛[2J.", "m5 user", "instead", "m6 user", "again", "m7 assistant", "Better."]  # fmt: skip
    found = objects(invoke("show", "s", "--as-written", "--json", "--store", store).stdout)
    assert [(each["id"], each["kept"]) for each in found] == [(f"m{n}", n > 4) for n in range(1, 8)]
    assert found[1]["message"]["content"][0]["text"] == "I look." and found[1]["run_id"] == "r1"


# --- tail --------------------------------------------------------------------------------------


def test_tail_gives_the_last_facts_one_a_line(sessions: Sessions, store: str) -> None:
    facts = make(sessions, "s", "hello", "again")
    done = invoke("tail", "s", "-n", "3", "--store", store)
    assert [int(line.split()[0]) for line in done.stdout.splitlines()] == [fact.seq for fact in facts[-3:]]
    assert re.fullmatch(rf" +{len(facts)}  \d\d:\d\d:\d\d  agent_end stop", done.stdout.splitlines()[-1])
    assert len(invoke("tail", "s", "--store", store).stdout.splitlines()) == 10
    assert invoke("tail", "s", "-n", "0", "--store", store).stdout == ""
    everything = invoke("tail", "s", "-n", "999", "--store", store).stdout
    assert "agent_start r2 prompt" in everything and "message_end m3 user 'again'" in everything
    as_json = objects(invoke("tail", "s", "-n", "2", "--json", "--store", store).stdout)
    assert [line["seq"] for line in as_json] == [len(facts) - 1, len(facts)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tail_follows_another_process_until_interrupted(
    tmp_path: Path, sessions: Sessions, store: str, number: int
) -> None:
    with sessions.create("s") as log:
        talk(log, "hello")
        with running([*COMMAND, "tail", "s", "-f", "-n", "1", "--store", store], tmp_path) as process:
            assert process.stdout is not None
            assert b"agent_end" in process.stdout.readline()
            talk(log, "more")
            seen = [process.stdout.readline() for _ in range(10)]
            assert b"agent_start r2" in seen[0] and b"agent_end stop" in seen[-1]
            process.send_signal(number)
            assert (process.wait(WAIT_S), process.communicate()[1]) == (130, b"")


def test_tail_follows_a_file_as_json(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log") as log:
        talk(log, "hello")
        command = [*COMMAND, "tail", "log", "-f", "-n", "1", "--json"]
        with running(command, tmp_path) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["type"] == "agent_end"
            talk(log, "more")
            assert json.loads(process.stdout.readline())["type"] == "agent_start"


# --- fork --------------------------------------------------------------------------------------


def test_fork_shares_the_facts_up_to_a_number(sessions: Sessions, store: str) -> None:
    facts = make(sessions, "s", "one", "two")
    whole = invoke("fork", "s", "--store", store).stdout.strip()
    part = invoke("fork", "s", "--at", "3", "--to", "part", "--store", store).stdout
    assert part == "part\n"
    assert objects(invoke("fork", "s", "--to", "third", "--json", "--store", store).stdout) == [
        {"session": "third"}
    ]
    assert list(sessions.facts(whole)) == facts
    assert list(sessions.facts("part")) == facts[:3]
    assert re.fullmatch("[0-9a-f]{32}", whole)


def test_fork_before_a_run_or_a_message(sessions: Sessions, store: str) -> None:
    facts = make(sessions, "s", "one", "two")
    first, second = runs(facts)
    for before, at in (("r2", second.first - 1), ("m3", second.first - 1), (first.run_id, 0), ("m1", 0)):
        made = invoke("fork", "s", "--before", before, "--store", store).stdout.strip()
        assert len(list(sessions.facts(made))) == at
    done = invoke("fork", "s", "--before", "m2", "--store", store, status=2)
    assert (
        "fork: there is no such run, and no such message that somebody sent "
        "(kind='no_fact', before='m2', runs=['r1', 'r2'], messages=['m1', 'm3'])"
    ) in done.stderr


def test_fork_that_cannot_be_made(sessions: Sessions, store: str) -> None:
    make(sessions, "s", "one")
    assert (
        "log: there is no such fact to fork at"
        in invoke("fork", "s", "--at", "99", "--store", store, status=2).stderr
    )
    assert invoke("fork", "s", "--to", "s", "--store", store, status=2).stdout == ""
    assert "A-Z" in invoke("fork", "s", "--to", "a b", "--store", store, status=2).stderr
    done = invoke("fork", "s", "--at", "1", "--before", "r1", "--store", store, status=2)
    assert "fork: give --at or --before, not both" in done.stderr
    assert "no such session" in invoke("fork", "t", "--store", store, status=2).stderr


def test_a_file_is_forked_into_a_file(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log") as log:
        talk(log, "one")
    assert "give --to FILE" in invoke("fork", "log", status=2).stderr
    assert invoke("fork", "log", "--before", "r1", "--to", "other").stdout == "other\n"
    assert invoke("fork", "log", "--to", "copy").stdout == "copy\n"
    assert (load(tmp_path / "other"), load(tmp_path / "copy")) == ([], load(tmp_path / "log"))


# --- delete ------------------------------------------------------------------------------------


def test_delete_needs_a_yes(sessions: Sessions, store: str) -> None:
    make(sessions, "s", "one")
    assert "give --yes" in invoke("delete", "s", "--store", store, status=2, stdin="y\n").stderr
    assert invoke("delete", "s", "--yes", "--store", store).stdout == "s\n"
    assert "no such session" in invoke("delete", "s", "--yes", "--store", store, status=2).stderr
    assert sessions.list() == []


def test_delete_with_forks(sessions: Sessions, store: str) -> None:
    make(sessions, "s", "one")
    sessions.fork("s", 3, to="t")
    assert "log: forks share the facts" in invoke("delete", "s", "--yes", "--store", store, status=2).stderr
    done = invoke("delete", "s", "--yes", "--forks", "--json", "--store", store)
    assert objects(done.stdout) == [{"session": "t"}, {"session": "s"}]


def test_what_is_in_use_or_no_session_is_not_deleted(tmp_path: Path, sessions: Sessions, store: str) -> None:
    with sessions.create("s"):
        assert "another writer" in invoke("delete", "s", "--yes", "--store", store, status=2).stderr
    (tmp_path / "file").write_text("mine")
    for given in ("./file", "file"):
        assert (
            "session: this is a file" in invoke("delete", given, "--yes", "--store", store, status=2).stderr
        )
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("typed", "status", "gone"), [(b"y\n", 0, True), (b"what\nno\n", 1, False), (b"\x04", 1, False)]
)
def test_delete_asks_on_a_terminal(
    tmp_path: Path, sessions: Sessions, store: str, typed: bytes, status: int, gone: bool
) -> None:
    make(sessions, "s", "one")
    ours, theirs = pty.openpty()
    with running([*COMMAND, "delete", "s", "--store", store], tmp_path, stdin=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == status
    os.close(ours)
    assert b"delete session s? [y/n]" in err and (out == b"s\n") == gone
    assert (sessions.list() == []) == gone


# --- output that takes no more -----------------------------------------------------------------


@pytest.mark.parametrize(
    "args", [["show"], ["show", "--json"], ["tail", "-n", "99999"], ["tail", "-n", "99999", "--json"]]
)
def test_closed_pipe_ends_quietly(tmp_path: Path, args: list[str]) -> None:
    with open_store(create=True) as sessions:
        make(sessions, "s", *["word " * 50] * 200)
    with running([*COMMAND, *args], tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(WAIT_S)) == (b"", 141)


@pytest.mark.parametrize("args", [["ls"], ["show"], ["tail", "--json"], ["verify"], ["fork", "s", "--json"]])
def test_full_output_is_told(tmp_path: Path, args: list[str]) -> None:
    with open_store(create=True) as sessions:
        make(sessions, "s", "hello")
    with open("/dev/full", "wb") as full, running([*COMMAND, *args], tmp_path, stdout=full) as process:
        _, err = process.communicate(timeout=WAIT_S)
        assert err.decode() == "unspool: output: cannot be written (reason='No space left on device')\n"
        assert process.returncode == 1
