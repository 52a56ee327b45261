"""The benchmarks run and find what they must find; how fast is not a test's business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *args: str, may_miss: bool = False) -> str:
    """What a benchmark prints; one that ``may_miss`` a target exits with 1 then, and is content."""
    command = [sys.executable, "-P", str(BENCHMARKS / script), *args]
    env_path = {"PYTHONPATH": str(BENCHMARKS), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env_path)
    assert not done.stderr
    assert done.returncode == 0 or (may_miss and done.returncode == 1)
    return done.stdout


def test_counts_do_not_depend_on_the_length_of_the_history() -> None:
    result = json.loads(run("kernel.py", "--quick", "--json"))
    at_10, at_100 = result["counters per turn"]["10"], result["counters per turn"]["100"]
    assert at_10 == at_100
    assert (at_10["events"], at_10["facts"], at_10["messages lowered"]) == (12, 9, 2)
    assert at_10["bytes of facts"] > 0
    assert all({"ours", "bare"} <= row.keys() for row in result["rows"].values())
    assert {"name", "figure", "bound", "passed"} == set(result["targets"][0])


@pytest.mark.parametrize("backend", [[], ["--trio"]])
def test_nothing_stays_behind(backend: list[str]) -> None:
    told = run("soak.py", "--agents", "30", "--turns", "5", "--rounds", "2", *backend)
    assert told.rstrip().endswith("PASS"), told


def test_logs_are_measured_beside_the_bare_operations(tmp_path: Path) -> None:
    told = run("trajectory.py", "--quick", "--json", "--folder", str(tmp_path), may_miss=True)
    result = json.loads(told)
    assert all({"ours", "bare"} == row.keys() for row in result["rows"].values())
    assert all(fork["size"] <= 1024 for fork in result["forks"].values())
    for stored in result["stored"].values():
        assert stored["unique"] < stored["jsonl"] and stored["unique"] < stored["sqlite"]
    assert 300 < result["mean bytes of a line"] < 500
    assert {"name", "figure", "bound", "passed"} == set(result["targets"][0])
    assert not list(tmp_path.iterdir())


def test_the_model_layer_is_measured_beside_a_bare_client(tmp_path: Path) -> None:
    result = json.loads(run("llm.py", "--quick", "--json", "--sdks", str(tmp_path), may_miss=True))
    formats = {"openai-chat", "openai-responses", "anthropic-messages", "gemini"}
    for format in formats:
        assert len([name for name in result["rows"] if format in name]) == 5
    assert all({"ours", "bare"} == row.keys() for row in result["rows"].values())
    assert result["without an SDK"].keys() == formats
    assert all(str(tmp_path) in reason for reason in result["without an SDK"].values())
    assert {"name", "figure", "bound", "least", "passed"} == set(result["targets"][0])
    assert len(result["targets"]) == 2 + 1 + len(formats)


def test_tools_are_measured_beside_programs_and_bare_operations() -> None:
    result = json.loads(run("tools.py", "--quick", "--json"))
    rows = result["rows"]
    assert {name.partition(",")[0] for name in rows} >= {"read_file", "edit_file"}
    assert all(row["ours"] > 0 and row["bare"] > 0 for row in rows.values())
    assert all("alone" in row for name, row in rows.items() if name.startswith("grep"))
    assert result["files"] > 20


def test_letters_are_measured_alone_and_with_agents_that_read_them() -> None:
    result = json.loads(run("team.py", "--quick", "--json"))
    assert len(result["rows"]) == 4
    for row in result["rows"].values():
        assert row["ours"] > 0 and row["bare"] > 0 and row["p99"] >= row["p50"] > 0
    assert {"letters a second", "spawn of a member, ms"} < set(result["figures"])


def test_agents_that_are_called_are_measured_beside_the_same_by_themselves() -> None:
    rows = json.loads(run("subagents.py", "--quick", "--json"))["rows"]
    assert len(rows) == 11
    assert all({"ours", "bare"} == row.keys() and row["bare"] > 0 for row in rows.values())
