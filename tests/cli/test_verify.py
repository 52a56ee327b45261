"""``unspool verify``: what is whole, what is damaged, what can be repaired."""

import json
import os
import re
import sqlite3
from pathlib import Path

import pytest

from unspool import AgentEnd, AgentStart, TurnEnd, TurnStart
from unspool.cli.places import open_store
from unspool.trajectory import JsonlLog, SessionHandle, load

from .driving import COMMAND, WAIT_S, invoke, running  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")


def fill(log: SessionHandle) -> str:
    """Four facts; the head."""
    log.append(AgentStart(model="m", seq=1))
    log.append(TurnStart(1, seq=2))
    log.append(TurnEnd(1, seq=3))
    log.append(AgentEnd("stop", seq=4))
    return str(log.head)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with JsonlLog(tmp_path / "log") as log:
        fill(log)
    return tmp_path / "log"


def test_a_whole_log_has_a_head(file: Path) -> None:
    with JsonlLog(file) as log:
        head = str(log.head)
    assert invoke("verify", "log").stdout == f"log: ok, 4 records, head {head}\n"
    found = json.loads(invoke("verify", "log", "--json").stdout)
    assert (found["records"], found["head"], found["path"]) == (4, head, "log") and "damage" not in found
    assert invoke("verify", "log", "--head", head).stdout.startswith("log: ok")


def test_a_log_without_its_end_is_found_out_by_a_head_that_was_kept(file: Path) -> None:
    with JsonlLog(file) as log:
        head = str(log.head)
    file.write_bytes(b"".join(file.read_bytes().splitlines(True)[:-1]))
    assert invoke("verify", "log").stdout.startswith("log: ok, 3 records")
    done = invoke("verify", "log", "--head", head, status=1)
    assert done.stdout.startswith("log: shortened, fact 3: ") and done.stderr == ""


def test_each_damage_is_a_line(file: Path) -> None:
    lines = file.read_bytes().splitlines(True)
    changed = lines[2].replace(b'"index":1', b'"index":2')
    file.write_bytes(b"".join([lines[0], lines[1], changed, lines[4], b'{"type":"tu']))
    offset = len(lines[0] + lines[1])
    done = invoke("verify", "log", status=1)
    first, second, third = done.stdout.splitlines()
    assert first == f"log: changed, fact 2, line 3, offset {offset}: the record is not what was written"
    assert second.startswith("log: missing, fact 3, line 4, ") and third.startswith("log: torn, line 5, ")
    found = json.loads(invoke("verify", "log", "--json", status=1).stdout)
    assert {damage["kind"] for damage in found["damage"]} == {"changed", "missing", "torn"}
    assert invoke("verify", "log", "--repair", status=1).stdout == done.stdout  # more than torn: left alone


@pytest.mark.parametrize("as_json", [False, True])
def test_a_torn_tail_is_cut_off_when_told_to(file: Path, as_json: bool) -> None:
    whole, option = file.read_bytes(), ["--json"] if as_json else []
    file.write_bytes(whole + b'{"type":"turn')
    assert "torn" in invoke("verify", "log", *option, status=1).stdout
    assert file.read_bytes() != whole
    done = invoke("verify", "log", "--repair", *option)
    if as_json:
        assert json.loads(done.stdout)["cut"] == 13
    else:
        assert done.stdout.startswith(
            "log: a torn last line was cut off, 13 bytes\nlog: ok, 4 records, head 4:"
        )
    assert file.read_bytes() == whole and len(load(file)) == 4


def test_a_log_that_is_being_written_is_not_repaired(file: Path) -> None:
    with JsonlLog(file):
        with open(file, "ab") as more:
            more.write(b'{"type":"turn')
        assert "another writer" in invoke("verify", "log", "--repair", status=2).stderr


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["none"], "session: there is no such session or file"),
        (["./none"], "log: cannot be read"),
        (["log", "--head", "5"], "log: a head is <number>:<hash> (given='5')"),
        (["--head", "4:" + "A" * 22], "verify: --head is for one session"),
    ],
)
def test_what_cannot_be_verified(file: Path, args: list[str], reason: str) -> None:
    assert reason in invoke("verify", *args, status=2).stderr


def test_what_is_no_log_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("words\n")
    assert "not_a_log" in invoke("verify", "text", status=1).stdout


@pytest.mark.parametrize("store", ["kept", "kept.db"])
def test_without_a_name_all_sessions_are_verified(store: str) -> None:
    with open_store(store, create=True) as sessions:
        heads = {}
        for name in ("a", "b"):
            with sessions.create(name) as log:
                heads[name] = fill(log)
        sessions.fork("a", 2, to="c")
    done = invoke("verify", "--store", store)
    assert {line.split(":")[0] for line in done.stdout.splitlines()} == {"a", "b", "c"}
    assert done.stdout.count(": ok, ") == 3 and f"b: ok, 4 records, head {heads['b']}\n" in done.stdout
    found = [json.loads(line) for line in invoke("verify", "--json", "--store", store).stdout.splitlines()]
    assert {report["session"] for report in found} == {"a", "b", "c"}
    assert invoke("verify", "a", "--head", heads["a"], "--store", store).stdout.startswith("a: ok")
    assert "shortened" in invoke("verify", "b", "--head", "9:" + "A" * 22, "--store", store, status=1).stdout


def test_a_damaged_session_does_not_hide_the_others(tmp_path: Path) -> None:
    with open_store("kept.db", create=True) as sessions:
        for name in ("a", "b"):
            with sessions.create(name) as log:
                fill(log)
    database = sqlite3.connect(tmp_path / "kept.db")
    with database:
        database.execute("DELETE FROM records WHERE id >> 40 = 1 AND id & 255 = 2")
    database.close()
    done = invoke("verify", "--store", "kept.db", status=1)
    assert re.search(r"^a: missing, fact 2.*: the record is gone$", done.stdout, re.MULTILINE)
    assert "b: ok, 4 records" in done.stdout


def test_everything_is_said_in_a_process_too(tmp_path: Path, file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)
    with running([*COMMAND, "verify", "log", "--repair", "--json"], tmp_path) as process:
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) in ((0, b""), (1, b""))
    assert json.loads(out)["path"] == "log"
