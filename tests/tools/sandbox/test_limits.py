"""What a sandboxed command may use up."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.tools.sandbox import SandboxLimits

from .conftest import LIMIT_S, made, run_in

MB = 1 << 20


def test_sizes(root: Path) -> None:
    limits = SandboxLimits(file_bytes=4 * MB, memory_bytes=512 * MB, tmp_bytes=2 * MB)
    sandbox = made(root, limits=limits)
    assert run_in(sandbox, "head -c 9000000 /dev/zero > big", cwd=root).returncode != 0
    assert (root / "big").stat().st_size == 4 * MB
    for place in ("/tmp", "/dev/shm"):
        done = run_in(sandbox, f"head -c 3000000 /dev/zero > {place}/x", cwd=root)
        assert "No space left" in done.stderr
    assert "MemoryError" in run_in(sandbox, "import os\nx = bytearray(600 << 20)", cwd=root).stderr


def test_time(root: Path) -> None:
    done = run_in(made(root, limits=SandboxLimits(cpu_s=1)), "while :; do :; done", cwd=root)
    assert done.returncode in (137, 152), "128 and SIGKILL or SIGXCPU"


def test_a_lower_limit_of_the_host_stays(root: Path) -> None:
    limits = SandboxLimits(file_bytes=1 << 40, processes=1 << 30, memory_bytes=1 << 60, cpu_s=1 << 30)
    sandbox = made(root, limits=limits)
    argv = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *sandbox.wrap(["bash", "-c", "ulimit -f"])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.stdout == "100\n", done


def test_without_limits(root: Path) -> None:
    limits = SandboxLimits(processes=None, file_bytes=None)
    assert run_in(made(root, limits=limits), "ulimit -c; echo ok", cwd=root).stdout == "0\nok\n"


@pytest.fixture
def as_nobody() -> Iterator[tuple[Path, list[str]]]:
    """A directory of a user who is not root, and what runs a command as that user; Linux counts no processes of root."""
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv to become another user with")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    yield (
        folder,
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.getuid() == 0 else [],
    )
    shutil.rmtree(folder)


BOMB = """for (1..100) {
    $pid = fork;
    if (!defined $pid) { print "stopped: $!"; exit; }
    if (!$pid) { sleep 1000; exit; }
}"""


def test_a_fork_bomb_is_bounded(as_nobody: tuple[Path, list[str]]) -> None:
    root, become = as_nobody
    sandbox = made(root, limits=SandboxLimits(processes=30), python=False)
    if not os.path.exists("/usr/bin/perl"):
        pytest.skip("there is no perl, which says when it can't fork")
    argv = [*become, *sandbox.wrap(["perl", "-e", f"$| = 1; {BOMB}"])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=root)
    if done.returncode != 0 and become:
        pytest.skip(f"another user can't run the sandbox from here: {done.stderr[:200]}")
    assert done.stdout == "stopped: Resource temporarily unavailable"
