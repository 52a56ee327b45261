"""What is taken for a command that only reads is really run: it changes nothing, and shows nothing that is kept from it.

Options of each program at random, known or not, with files that turn against those who take them for something else.
``UNSPOOL_FUZZ`` is how many are run.
"""

import os
import random
import shutil
import string
import subprocess
from pathlib import Path

import pytest

from unspool.tools.permissions import Permissions, Request
from unspool.tools.permissions.read_only import MOSTLY_READ, ONLY_READ

RUNS = int(os.environ.get("UNSPOOL_FUZZ", "150"))
_WAIT = {"sleep", "wait", "seq", "tail", "yes"}  # they may go on for ever
_GIT = [
    "log",
    "diff",
    "show",
    "grep",
    "status",
    "blame",
    "cat-file",
    "ls-files",
    "branch",
    "tag",
    "stash list",
    "config",
]
PROGRAMS = sorted((ONLY_READ | set(MOSTLY_READ)) - _WAIT) + [f"git {name}" for name in _GIT]
LONG = [
    "output", "compress-program", "files0-from", "from-file", "exec", "pre", "in-place", "file", "set", "compile", "ext-diff",
    "textconv", "no-index", "open-files-in-pager", "recursive", "directories", "to-file", "sandbox", "include", "env", "all",
]  # fmt: skip
FILES = {
    "a.txt": "a\n",
    "b.txt": "b\n",
    "src/main.py": "x\n",
    ".env": "CANARY\n",
    "script": 'BEGIN{system("touch ran")}\n',
    "run.sh": "touch ran\n",
    "list": "../outside\n.env\n",
    "p.jq": "env\n",
}
VALUES = [
    "a.txt",
    "b.txt",
    "list",
    "@list",
    "script",
    "../outside",
    ".env",
    "run.sh",
    "new",
    "p.jq",
    "HEAD",
    "x",
    "1",
    ".",
    "src",
    "recurse",
]


def commands() -> list[str]:
    pick = random.Random(RUNS)  # a table, not a secret
    letters = string.ascii_letters + string.digits
    made = []
    for _ in range(20 * RUNS):
        program, value, other = pick.choice(PROGRAMS), pick.choice(VALUES), pick.choice(VALUES)
        short, long = f"-{pick.choice(letters)}", f"--{pick.choice(LONG)}"
        forms = [
            f"{short} {value} {other}",
            f"{short}{value} {other}",
            f"{value} {other} {short}",
            f"{long}={value} {other}",
        ]
        made.append(f"{program} {pick.choice(forms)}")
    return made


def state(work: Path) -> dict[str, bytes]:
    files = (path for path in sorted(work.rglob("*")) if path.is_file() and path.name != "index")
    return {str(path): path.read_bytes() for path in files}  # git brings its index up to date


@pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("git") is None, reason="there is no bash, or no git"
)
def test_what_only_reads_changes_nothing_and_shows_nothing_hidden(tmp_path: Path) -> None:
    work = tmp_path / "w"
    (work / "src").mkdir(parents=True)
    (tmp_path / "outside").write_text("CANARY\n")
    for name, text in FILES.items():
        (work / name).write_text(text)
    (work / "run.sh").chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KEPT": "CANARY", "LC_ALL": "C"}
    start = "git init -q . && git add a.txt && git -c user.name=a -c user.email=a@b.c commit -qm x"
    subprocess.run(["bash", "-c", start], cwd=work, env=env, check=True)
    before, ran = state(work), 0
    engine = Permissions(work)
    for command in commands():
        if ran == RUNS:
            break
        if engine.decide(Request(tool="bash", capability="exec", command=command)).answer != "allow":
            continue
        ran += 1
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", command],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        )
        assert b"CANARY" not in done.stdout, command
        assert state(work) == before, command
    assert ran == RUNS
