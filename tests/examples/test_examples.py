"""Every example runs, offline, from anywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-W", "error", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_hello_prints_the_whole_run(tmp_path: Path) -> None:
    (hello,) = [path for path in EXAMPLES if path.stem == "hello"]
    done = subprocess.run([sys.executable, "-P", str(hello)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "event 1: AgentStart"
    assert "calls: word_count {'text': 'to be or not'}" in lines
    assert "result: ok (Text(text='4'),)" in lines
    assert lines[-2:] == ["event 19: AgentEnd", "stop: Four words."]
