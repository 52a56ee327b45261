"""What killed processes left beside the files they were writing, and who removes it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.kernel.ports import ToolContext
from unspool.tools.files import leftovers
from unspool.tools.files.leftovers import beside_name, remove_leftovers
from unspool.tools.files.workspace import Workspace

HEX = "0123456789abcdef"


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(autouse=True)
def nothing_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_looked_at", set())


@pytest.fixture
def fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def left(root: Path, name: str, age_s: float = 3600) -> Path:
    path = root / name
    path.write_text("half")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_only_what_a_dead_process_left_long_ago_is_removed(root: Path, fd: int, dead: int) -> None:
    gone = left(root, f".unspool-{dead}-{HEX}.tmp")
    kept = [
        left(root, f".unspool-{dead}-{HEX[::-1]}.tmp", age_s=10),  # of a machine that shares the directory?
        left(root, beside_name()),
        left(root, f".unspool-{os.getppid()}-{HEX}.tmp"),
        left(root, f".unspool-1-{HEX}.tmp"),
        left(root, f".unspool-9999999999-{HEX}.tmp"),  # no number of a process
        left(root, f".unspool-0{dead}-{HEX}.tmp"),
        left(root, f".unspool--{dead}-{HEX}.tmp"),
        left(root, f".unspool-{dead}-{HEX[1:]}.tmp"),
        left(root, f".unspool-{dead}-{HEX}.tmp.txt"),
        left(root, f"x.unspool-{dead}-{HEX}.tmp"),
    ]
    outside = left(root.parent, "outside")
    link = root / f".unspool-{dead}-{'0' * 16}.tmp"
    link.symlink_to("../outside")
    os.utime(link, (0, 0), follow_symlinks=False)
    folder = root / f".unspool-{dead}-{'1' * 16}.tmp"
    folder.mkdir()
    os.utime(folder, (0, 0))
    remove_leftovers(fd)
    assert not gone.exists()
    assert [path for path in (*kept, outside, link, folder) if not path.exists()] == []


def test_a_directory_is_looked_at_once(
    root: Path, fd: int, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_leftovers(fd)
    later = left(root, f".unspool-{dead}-{HEX}.tmp")
    remove_leftovers(fd)
    assert later.exists()
    monkeypatch.setattr(leftovers, "_MAX_KNOWN", 1)
    other = os.open(root.parent, os.O_RDONLY)
    remove_leftovers(other)  # forgets the first
    os.close(other)
    remove_leftovers(fd)
    assert not later.exists()


KILLED = """
import os, signal, sys
from unspool.tools.files.saving import save
fd = os.open(sys.argv[1], os.O_RDONLY)
save(fd, "f", b"new", os.stat("f", dir_fd=fd), lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_process_that_is_killed(root: Path, ctx: ToolContext) -> None:
    (root / "f").write_text("old")
    command = [sys.executable, "-P", "-c", KILLED, str(root)]
    paths = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (root / "f").read_text() == "old"
    [name] = [name for name in os.listdir(root) if name != "f"]
    workspace = Workspace(root, read_before_write=False)
    os.utime(root / name, (0, 0))
    with workspace.changing("f", ctx) as change:
        change.write("new")
    assert ((root / "f").read_text(), os.listdir(root)) == ("new", ["f"])


def test_names_are_of_this_process() -> None:
    assert beside_name().startswith(f".unspool-{os.getpid()}-")
    assert beside_name() != beside_name()
