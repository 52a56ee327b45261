"""``unspool replay``: a session of the past, run again."""

import json
from pathlib import Path

import pytest

from .driving import invoke, unspool  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def note() -> Path:
    """A file that the demo reads; it has been run."""
    note = Path("note.txt")
    note.write_text("hello world\n")
    assert unspool("demo", cwd=Path.cwd()).returncode == 0
    return note


def test_a_session_comes_out_as_it_was_recorded(note: Path) -> None:
    note.unlink()  # nothing is looked at
    assert "facts came out as they were recorded" in invoke("replay").stdout


def test_tools_that_really_run_show_what_has_changed(note: Path) -> None:
    assert "all" in invoke("replay", "--live-tools").stdout
    note.write_text("other world\n")
    told = invoke("replay", "--live-tools", status=1).stdout
    assert "tool_exec_end differs" in told
    assert "hello world" in told and "other world" in told


def test_json_is_one_object(note: Path) -> None:
    note.write_text("another world\n")
    result = json.loads(invoke("replay", "--json", "--live-tools", status=1).stdout)
    assert result["difference"]["what"] == "changed"
    assert [field["path"] for field in result["difference"]["fields"]] == ["content[0].text"]
    assert json.loads(invoke("replay", "--json").stdout)["facts"] == result["recorded"]


def test_a_file_is_replayed_too(note: Path) -> None:
    assert unspool("demo", "--log", "run.jsonl", cwd=Path.cwd()).returncode == 0
    assert invoke("replay", "run.jsonl").stdout.startswith("run.jsonl: all ")


def test_what_is_not_there_is_one_line() -> None:
    invoke("replay", "nothing", status=2)
