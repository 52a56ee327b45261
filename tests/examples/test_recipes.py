"""Each recipe runs as it is written, offline, and prints what stands under it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
RECIPES = {
    section.partition("\n")[0]: re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", section, re.MULTILINE | re.DOTALL
    )
    for section in TEXT.split("\n## ")[1:]
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_prints_what_stands_under_it(name: str, tmp_path: Path) -> None:
    assert RECIPES[name], "a recipe has a program"
    for number, (program, expected) in enumerate(RECIPES[name]):
        script = tmp_path / f"recipe{number}.py"
        script.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-P", "-W", "error", str(script)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == expected


def test_links_lead_somewhere() -> None:
    titles = {f"#{re.sub('[^a-z ]', '', name.lower()).replace(' ', '-')}" for name in RECIPES}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert target in titles if target.startswith("#") else (DOCUMENT.parent / target).exists(), target
