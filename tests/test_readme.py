"""README is true: its Python runs, its first commands are those that are checked, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


PYTHON = blocks("python")


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_python_runs_as_written(tmp_path: Path, number: int) -> None:
    script = tmp_path / "readme.py"
    script.write_text(PYTHON[number], encoding="utf-8")
    command = [sys.executable, "-P", "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_there_is_python_to_run() -> None:
    assert PYTHON


def test_quick_start_begins_with_the_demo_and_the_tests() -> None:
    quick_start = README.partition("## Quick start\n")[2]
    assert quick_start.count("```sh") >= 2
    first, second = blocks("sh")[:2]
    assert first.startswith("python3 -m venv .venv && ") and first.endswith(" .venv/bin/unspool demo\n")
    assert second == ".venv/bin/pytest\n"


@pytest.mark.parametrize("number", [1, 2])
def test_first_commands_are_those_that_ci_runs(number: int) -> None:
    """The script takes them from README: with its own function, and both are run."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    function = re.search(r"^readme_block\(\) \{\n.*?^\}$", script, re.MULTILINE | re.DOTALL)
    assert function is not None
    assert f'"$(readme_block {number} README.md)"' in script
    code = f"{function[0]}\nreadme_block {number} README.md"
    done = subprocess.run(["bash", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == blocks("sh")[number - 1]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_paths_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paths = re.findall(r"\]\(([^)#:]+)\)", prose)
    paths += re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", prose)
    made = (".venv/", ".cache/", ".unspool/", "openai/", "src/unspool/kernel/loop.py", "name/")
    missing = [path for path in paths if not path.startswith(made) and not (ROOT / path).exists()]
    assert not missing
