"""Trees of sessions on the command line: shown, hidden, verified, replayed, deleted, and gone on with at the top."""

import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session_trees import Tree, copy_prefix, pay, paying, three_deep

from unspool import AgentStart, Usage, Verdict
from unspool.cli.ls import short
from unspool.cli.places import open_store
from unspool.kernel import ChildEnded, ChildStarted, ModelResponse
from unspool.trajectory import JsonlSessions, Sessions

from .driving import COMMAND, WAIT_S, invoke, running  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")
NAMES = ["root", "root.c1", "root.c1.d1"]


@pytest.fixture(params=["kept.db", "kept"])
def store(request: pytest.FixtureRequest) -> str:
    place: str = request.param
    return place


@pytest.fixture
def sessions(store: str) -> Iterator[Sessions]:
    with open_store(store, create=True) as opened:
        yield opened


def grow(sessions: Sessions, root: str = "root", **options: Any) -> Tree:
    """A tree of three that has ended."""
    with Tree(sessions, *three_deep(), root=root, **options) as made:
        assert made.run() == "stop"
    return made


def grow_paused(sessions: Sessions, root: str = "root") -> Tree:
    with Tree(sessions, *paying(), root=root, tools=[pay]) as made:
        assert made.run() == "paused"
    return made


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# --- show --tree -------------------------------------------------------------------------------

WHOLE = """\
a0 · root · ended stop · 2 turns, 1 call · 33 tokens, $0.0033 (in all 165 tokens, $0.0165) · 0.0 s
  a1 · root.c1 · c1 · ended stop · 2 turns, 1 call · 77 tokens, $0.0077 (in all 132 tokens, $0.0132) · 0.0 s
    a2 · root.c1.d1 · d1 · ended stop · 1 turn, 0 calls · 55 tokens, $0.0055 · 0.0 s
3 sessions · 5 turns, 2 calls · 165 tokens, $0.0165
by agent: a0 33 tokens, $0.0033 · a1 77 tokens, $0.0077 · a2 55 tokens, $0.0055
"""
PAUSED = """\
a0 · root · paused · 1 turn, 0 calls · 11 tokens, $0.0011 (in all 99 tokens, $0.0099) · 0.0 s
  ? waits for a person: c1/d1/p1 pay of root.c1 (a0 > a1)
  a1 · root.c1 · c1 · paused · 1 turn, 0 calls · 33 tokens, $0.0033 (in all 88 tokens, $0.0088) · 0.0 s
    ? waits for a person: d1/p1 pay of root.c1.d1 (a0 > a1 > a2)
    a2 · root.c1.d1 · d1 · paused · 1 turn, 0 calls · 55 tokens, $0.0055 · 0.0 s
      ? waits for a person: p1 pay
"""


def test_a_tree_as_people_see_it(sessions: Sessions, store: str) -> None:
    grow(sessions)
    assert invoke("show", "--tree", "root", "--store", store).stdout == WHOLE
    assert invoke("show", "--tree", "root.c1", "--store", store).stdout.startswith(
        "a1 · root.c1 · ended stop"
    )


def test_a_tree_that_waits(sessions: Sessions, store: str) -> None:
    grow_paused(sessions)
    assert invoke("show", "--tree", "root", "--store", store).stdout.startswith(PAUSED)


def test_a_tree_for_programs(sessions: Sessions, store: str) -> None:
    grow_paused(sessions)
    found = objects(invoke("show", "--tree", "root", "--json", "--store", store).stdout)
    assert [(node["depth"], node["session"], node["state"]) for node in found] == [
        (depth, name, "paused") for depth, name in enumerate(NAMES)
    ]
    assert found[0]["waits"][0]["id"] == "c1/d1/p1" and "children" not in found[0]
    assert [node.get("agrees") for node in found] == [None, True, True]


def test_a_killed_tree_says_what_is_not_accounted_yet(sessions: Sessions, store: str) -> None:
    with open_store("whole", create=True) as whole:
        made = grow(whole)
        half = max(at for at, (name, _) in enumerate(made.order) if name == "root.c1.d1")
        copy_prefix(made.order, whole, sessions, half)
    shown = invoke("show", "--tree", "root", "--store", store).stdout.splitlines()
    assert "root · lost · 1 turn" in shown[0]
    assert shown[1] == "  ? waits for root.c1 (a1)"
    assert any(
        "the log above does not have its end" in line and line.startswith("! root.c1") for line in shown
    )
    assert invoke("verify", "--tree", "root", "--store", store).stdout.endswith(
        "tree of root: ok, 3 sessions\n"
    )


def test_names_are_shown_safely(sessions: Sessions, store: str) -> None:
    names = ["lei\x1b[2Jter\n", "日本語" * 40, "\x9b1m\x07"]
    with Tree(sessions, *paying(), names=names, tools=[pay]) as made:
        made.run()
    shown = invoke("show", "--tree", "root", "--store", store).stdout
    assert shown.startswith("lei␛[2Jter · root · paused")
    assert not set(shown) & {"\x1b", "\x9b", "\x07"}
    assert max(len(line) for line in shown.splitlines()) < 200


def test_deep_trees_are_not_indented_without_end(sessions: Sessions, store: str) -> None:
    for level in range(40):
        with sessions.create(f"s{level}") as log:
            log.append(AgentStart(seq=1, session=f"s{level}", agent="x"))
            log.append(ChildStarted(f"s{level + 1}", seq=2))
    shown = invoke("show", "--tree", "s0", "--store", store, status=1).stdout.splitlines()
    deepest = next(line for line in shown if "s39 · lost" in line)
    assert deepest == f"{' ' * 48}(39) x · s39 · lost · 0 turns, 0 calls · 0 tokens · 0.0 s"
    assert any("s40 · missing" in line for line in shown)


def test_show_says_that_there_is_a_tree(sessions: Sessions, store: str) -> None:
    grow(sessions)
    last = [invoke("show", name, "--store", store).stdout.splitlines()[-1] for name in NAMES]
    assert last == ["1 nested session: show --tree root", *["nested in root: show --tree root"] * 2]
    assert "1 nested session: show --tree root.c1\n" in invoke("show", "root.c1", "--store", store).stdout


def test_a_file_of_its_own_has_no_tree() -> None:
    with JsonlSessions("kept") as sessions:
        grow(sessions)
    for command in ("show", "verify", "replay"):
        done = invoke(command, "--tree", "./kept/root.jsonl", status=2)
        assert "tree: this is a file, and those below it are in no store" in done.stderr
    assert invoke("show", "./kept/root.jsonl").stdout.endswith("1 nested session\n")
    assert "give --tree or --as-written" in invoke("show", "--tree", "--as-written", status=2).stderr


# --- ls, and which one is meant ----------------------------------------------------------------


def test_ls_leaves_nested_sessions_to_their_trees(sessions: Sessions, store: str) -> None:
    grow(sessions)
    sessions.fork("root.c1", to="mine")
    shown = invoke("ls", "--store", store).stdout.splitlines()
    assert [line.split()[0] for line in shown[1:-1]] == ["mine", "root"]
    assert shown[-1] == "2 nested sessions are not listed: show --tree SESSION, ls --all"
    everything = invoke("ls", "--all", "--store", store).stdout.splitlines()
    assert [line.split()[0] for line in everything[1:]] == ["mine", *NAMES]
    assert [line.rpartition("  ")[2] for line in everything[3:]] == ["in root", "in root.c1"]


def test_ls_for_programs(sessions: Sessions, store: str) -> None:
    grow(sessions)
    grow(sessions, "other")
    assert [info["session"] for info in objects(invoke("ls", "--json", "--store", store).stdout)] == [
        "other",
        "root",
    ]
    assert len(objects(invoke("ls", "--json", "-n", "1", "--store", store).stdout)) == 1
    found = objects(invoke("ls", "--json", "--all", "--store", store).stdout)
    assert [info.get("nested_in", "") for info in found] == ["", "other", "other.c1", "", "root", "root.c1"]


def test_the_newest_and_the_beginning_of_an_id_mean_no_nested_session(sessions: Sessions, store: str) -> None:
    grow(sessions)
    sessions.annotate("root.c1", title="touched")
    assert invoke("show", "--tree", "--store", store).stdout == WHOLE
    assert invoke("show", "--tree", "ro", "--store", store).stdout == WHOLE
    assert "more than one begins like that" in invoke("show", "root.", "--store", store, status=2).stderr


def test_a_store_with_nothing_but_nested_sessions(sessions: Sessions, store: str) -> None:
    grow(sessions)
    sessions.delete("root")
    assert invoke("show", "--store", store).stdout.startswith("a1 · ")
    shown = invoke("ls", "--store", store).stdout
    assert shown == "2 nested sessions are not listed: show --tree SESSION, ls --all\n"


# --- verify and replay -------------------------------------------------------------------------


def test_verify_goes_over_the_tree(sessions: Sessions, store: str) -> None:
    grow(sessions)
    grow(sessions, "other")
    lines = invoke("verify", "--tree", "root", "--store", store).stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [*NAMES, "tree of root"]
    assert lines[-1] == "tree of root: ok, 3 sessions"
    found = objects(invoke("verify", "--tree", "root", "--json", "--store", store).stdout)
    assert [report["session"] for report in found[:-1]] == NAMES
    assert found[-1] == {"tree": "root", "sessions": 3, "ok": True, "failed": [], "problems": []}


def test_verify_tells_what_is_missing_and_damaged(tmp_path: Path) -> None:
    with JsonlSessions(tmp_path / "kept") as sessions:
        grow(sessions)
    (tmp_path / "kept" / "root.c1.d1.jsonl").unlink()
    done = invoke("verify", "--tree", "root", "--store", "kept", status=1)
    assert "root.c1.d1: missing: log: there is no such session" in done.stdout
    assert done.stdout.endswith("tree of root: not ok, 2 sessions, 1 that do not fit\n")
    path = tmp_path / "kept" / "root.c1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"turns":2', b'"turns":3'))
    done = invoke("verify", "--tree", "root", "--store", "kept", status=1)
    assert "root.c1: changed" in done.stdout and "1 not whole" in done.stdout
    assert "root.c1 · c1 · damaged" in invoke("show", "--tree", "root", "--store", "kept", status=1).stdout


def test_verify_tells_what_is_not_accounted_once(sessions: Sessions, store: str) -> None:
    used = Usage(output_tokens=5)
    with sessions.create("a") as log:
        log.append(AgentStart(seq=1, session="a"))
        log.append(ChildStarted("b", seq=2))
        for seq in (3, 4):
            log.append(ChildEnded("b", usage=used, seq=seq))
    with sessions.create("b") as log:
        log.append(AgentStart(seq=1, session="b"))
        log.append(ModelResponse(seq=2, usage=used))
    done = invoke("verify", "--tree", "a", "--store", store, status=1)
    expected = "b: overaccounted: it has used 5 tokens, the log above accounts for 10 tokens"
    assert expected in done.stdout
    assert (
        objects(invoke("verify", "--tree", "a", "--json", "--store", store, status=1).stdout)[-1]["ok"]
        is False
    )


def test_verify_of_a_tree_needs_a_name() -> None:
    for args in (["--tree"], ["--tree", "s", "--head", "1:x"]):
        assert "verify: --tree is for a session that is named" in invoke("verify", *args, status=2).stderr


def test_replay_goes_over_the_tree(sessions: Sessions, store: str) -> None:
    with Tree(sessions, ["alone"], root="alone") as made:
        made.run()
    done = invoke("replay", "--tree", "alone", "--store", store)
    assert done.stdout.endswith("facts came out as they were recorded\ntree of alone: ok, 1 session\n")
    (one, verdict) = objects(invoke("replay", "--tree", "alone", "--json", "--store", store).stdout)
    assert (one["facts"], verdict["ok"]) == (one["recorded"], True)
    grow(sessions)
    assert "tree of root: ok, 3 sessions\n" in invoke("replay", "--tree", "root", "--store", store).stdout
    sessions.delete("root.c1.d1")
    done = invoke("replay", "--tree", "root", "--store", store, status=1)
    assert "root.c1.d1: missing" in done.stdout and "tree of root: not ok, 2 sessions" in done.stdout
    assert "without --live-tools and -m" in invoke("replay", "--tree", "--live-tools", status=2).stderr


# --- delete ------------------------------------------------------------------------------------


def test_delete_takes_the_tree(sessions: Sessions, store: str) -> None:
    grow(sessions)
    grow(sessions, "other")
    done = invoke("delete", "root", "--yes", "--store", store, status=2)
    assert "delete: root has nested sessions, 2 in all: give --tree" in done.stderr
    assert "give --yes" in invoke("delete", "root", "--tree", "--store", store, status=2).stderr
    assert len(sessions.list()) == 6
    done = invoke("delete", "root", "--tree", "--yes", "--json", "--store", store)
    assert [each["session"] for each in objects(done.stdout)] == NAMES[::-1]
    assert {info.session.partition(".")[0] for info in sessions.list()} == {"other"}


@pytest.mark.parametrize(("typed", "status", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 3)])
def test_delete_of_a_tree_asks(
    tmp_path: Path, sessions: Sessions, store: str, typed: bytes, status: int, left: int
) -> None:
    grow(sessions)
    ours, theirs = pty.openpty()
    with running([*COMMAND, "delete", "root", "--tree", "--store", store], tmp_path, stdin=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == status
    os.close(ours)
    assert b"delete session root and 2 below it? [y/n]" in err
    assert len(sessions.list()) == left


def test_delete_of_what_has_nothing_below(sessions: Sessions, store: str) -> None:
    grow(sessions)
    for name in NAMES[::-1]:
        assert invoke("delete", name, "--yes", "--store", store).stdout == f"{name}\n"
    assert sessions.list() == []


def test_forks_of_a_tree_are_kept_unless_they_go_too(sessions: Sessions, store: str) -> None:
    grow(sessions)
    sessions.fork("root.c1", to="mine")
    grow(sessions, "mine.x")
    done = invoke("delete", "root", "--tree", "--yes", "--store", store, status=2)
    assert "forks share the facts" in done.stderr and "forks=['mine']" in done.stderr
    assert len(sessions.list()) == 7
    done = invoke("delete", "root", "--tree", "--forks", "--yes", "--store", store)
    assert sorted(done.stdout.split()) == sorted([*NAMES, "mine"])
    assert len(sessions.list()) == 3


def test_a_tree_in_use_is_not_deleted(sessions: Sessions, store: str) -> None:
    grow(sessions)
    with sessions.open("root.c1") as log:
        log.append(AgentStart(seq=log.seq + 1, session="root.c1"))
        assert (
            "another writer" in invoke("delete", "root", "--tree", "--yes", "--store", store, status=2).stderr
        )
    assert len(sessions.list()) == 3


# --- going on ----------------------------------------------------------------------------------


def test_a_nested_session_is_gone_on_with_at_the_top(sessions: Sessions, store: str) -> None:
    grow_paused(sessions)
    for args in (
        ["resume", "root.c1.d1", "--allow"],
        ["run", "more", "--session", "root.c1.d1", "-m", "local/x"],
    ):
        done = invoke(*args, "--store", store, status=2)
        assert "this session is nested in root" in done.stderr and "--nested" in done.stderr
    forced = invoke("resume", "root.c1.d1", "no such call", "--deny", "--nested", "--store", store, status=2)
    assert "nested in" not in forced.stderr
    assert sessions.info("root.c1.d1").facts == len(list(sessions.facts("root.c1.d1")))


def test_a_fork_of_a_nested_session_is_gone_on_with_by_itself(sessions: Sessions, store: str) -> None:
    grow_paused(sessions)
    sessions.fork("root.c1.d1", to="mine")
    assert "nested in" not in invoke("resume", "mine", "x", "--deny", "--store", store, status=2).stderr


def test_random_ids_are_cut_short(sessions: Sessions, store: str) -> None:
    root = "0123456789abcdef" * 2
    grow(sessions, root)
    shown = invoke("show", "--tree", "01234567", "--store", store).stdout
    assert shown.startswith(f"a0 · {short(root)} · ended") and f"{root}.c1 · c1" in shown


def test_a_decision_at_the_top_shows_below(sessions: Sessions, store: str) -> None:
    with Tree(sessions, *paying(), tools=[pay]) as made:
        made.run()
        made.decide(Verdict.allow())
    shown = invoke("show", "--tree", "root", "--store", store).stdout
    assert "waits" not in shown and "by agent: a0 33 tokens" in shown
