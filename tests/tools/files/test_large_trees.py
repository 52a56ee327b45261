"""``grep`` and ``glob`` over the standard library find what ripgrep and ``find`` find.

``UNSPOOL_LONG=1`` does the same over everything that is installed.
"""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.tools import Root
from unspool.tools.files import glob, grep, hit_list
from unspool.tools.files.glob import glob_tool
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.ripgrep import find_ripgrep
from unspool.tools.files.sweep import IGNORED

RIPGREP = find_ripgrep()
FIND = shutil.which("find")
STDLIB = Path(sysconfig.get_path("stdlib"))
INSTALLED = Path(sysconfig.get_path("purelib"))
LONG_RUN = os.environ.get("UNSPOOL_LONG") == "1"
long = pytest.mark.skipif(not LONG_RUN, reason="UNSPOOL_LONG=1 searches all that is installed")
TREES = [
    *(STDLIB / name for name in ("asyncio", "email", "encodings", "idlelib", "lib2to3", "test", "unittest")),
    pytest.param(INSTALLED, marks=long),
]
LIKE_OURS = [
    *(
        "--no-config",
        "--hidden",
        "--null",
        "--with-filename",
        "--line-number",
        "--no-heading",
        "--color=never",
    ),
    *(
        "--no-ignore-dot",
        "--no-ignore-exclude",
        "--no-ignore-global",
        "--no-ignore-parent",
        "--no-require-git",
    ),
    *("--crlf", "--max-filesize=8M", "--sort=path", *(f"--glob=!{name}/" for name in sorted(IGNORED))),
]

GREPS: dict[str, dict[str, Any]] = {
    "plain": {"pattern": "timeout"},
    "nothing": {"pattern": "there is no such line"},
    "a class": {"pattern": r"class \w+Error\("},
    "anchored": {"pattern": "^import (os|sys)$"},
    "borders": {"pattern": r"\bself\._\w+\b"},
    "any case": {"pattern": "RUNTIMEerror", "ignore_case": True},
    "literal": {"pattern": "[0](*", "literal": True},
    "by extension": {"pattern": "def test", "glob": "*.py"},
    "by name": {"pattern": "def test", "glob": "test_[a-c]*.py"},
}


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "MAX_MATCHES", 1 << 40)
    for name in ("MAX_OUTPUT", "MAX_LINE"):
        monkeypatch.setattr(hit_list, name, 1 << 40)
    monkeypatch.setattr(glob, "MAX_HITS", 1 << 40)


@pytest.fixture
def tree(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    if not path.is_dir():
        pytest.skip(f"{path.name} is not part of this Python")
    return path


@pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")
@pytest.mark.usefixtures("unlimited", "waits_for_ripgrep")
@pytest.mark.parametrize("tree", TREES, indirect=True, ids=lambda path: path.name)
@pytest.mark.parametrize("args", GREPS.values(), ids=GREPS)
def test_grep(
    tree: Path, call_now: Callable[..., str], monkeypatch: pytest.MonkeyPatch, args: dict[str, Any]
) -> None:
    outputs = set()
    for program in (RIPGREP, None):
        monkeypatch.setattr(grep, "find_ripgrep", lambda program=program: program)
        outputs.add(call_now(grep_tool(Root(tree)), limit=1 << 40, **args))
    assert len(outputs) == 1  # the same with it and without, notes included
    lines = [line for line in outputs.pop().split("\n") if not line.startswith(("[", "no line", "no file"))]
    assert lines == by_ripgrep(tree, **args)


def by_ripgrep(
    tree: Path, pattern: str, glob: str = "", literal: bool = False, ignore_case: bool = False
) -> list[str]:
    flags = [*(["--fixed-strings"] if literal else []), *(["--ignore-case"] if ignore_case else [])]
    chosen = [f"--glob={glob}"] if glob else []
    command = [str(RIPGREP), *LIKE_OURS, *flags, *chosen, f"--regexp={pattern}", "--", "./"]
    found = subprocess.run(command, cwd=tree, capture_output=True, check=False).stdout
    lines = []
    for line in found.split(b"\n")[:-1]:
        name, _, rest = line.removeprefix(b"./").partition(b"\0")
        text = rest.removesuffix(b"\r").decode("utf-8", "replace")
        lines.append(f"{os.fsdecode(name)}:{text}")
    return lines


GLOBS = {
    "*.py": ["-type", "f", "-name", "*.py"],
    "*": ["(", "-type", "f", "-o", "-type", "l", ")"],
    "test_*": ["-type", "f", "-name", "test_*"],
    "*/*.txt": ["-type", "f", "-path", "./*/*.txt", "-not", "-path", "./*/*/*"],
    "data/": ["-type", "d", "-name", "data"],
}


@pytest.mark.skipif(FIND is None, reason="find is not installed")
@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("tree", TREES, indirect=True, ids=lambda path: path.name)
@pytest.mark.parametrize("pattern", GLOBS)
def test_glob(
    tree: Path, call_now: Callable[..., str], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.tools.text.MAX_OUTPUT", 1 << 40)
    output = call_now(glob_tool(Root(tree)), pattern=pattern)
    skipped = [part for name in sorted(IGNORED) for part in ("-name", name, "-o")][:-1]
    command = [str(FIND), ".", "-mindepth", "1", "(", "-type", "d", "(", *skipped, ")", ")", "-prune", "-o"]
    command += [*GLOBS[pattern], "-printf", r"%T@ %P\0"]
    found = subprocess.run(command, cwd=tree, capture_output=True, check=True).stdout
    dated = [os.fsdecode(line).partition(" ") for line in found.split(b"\0")[:-1]]
    newest_first = [path for _, path in sorted((-float(when), path) for when, _, path in dated)]
    assert [line for line in output.split("\n") if not line.startswith("[")] == newest_first
