"""A sandbox on a directory, something outside of it that must stay as it is, and commands run to their end."""

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.tools.sandbox import Sandbox, SandboxUnavailableError

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LIMIT_S = 30


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "a röot"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A home directory, say."""
    path = tmp_path / "outside"
    (path / ".ssh").mkdir(parents=True)
    (path / ".ssh" / "id").write_text("canary")
    return path


@pytest.fixture
def sandbox(root: Path) -> Sandbox:
    return made(root)


@pytest.fixture
def run(sandbox: Sandbox, root: Path) -> Run:
    return lambda script, **options: run_in(sandbox, script, cwd=root, **options)


def made(*roots: Path, **options: Any) -> Sandbox:
    try:
        return Sandbox(roots, **options)
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")


def run_in(sandbox: Sandbox, script: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a script of bash, or of Python where it begins with ``import``."""
    program = [sys.executable, "-c"] if script.startswith("import ") else ["bash", "-c"]
    given = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LIMIT_S}
    return subprocess.run(sandbox.wrap([*program, script]), check=False, **{**given, **options})


def wait_for_end(reader: int) -> bytes:
    """All that comes from a pipe until nobody has its other end any more."""
    data = b""
    while True:
        assert select.select([reader], [], [], LIMIT_S)[0], "somebody still holds the pipe"
        piece = os.read(reader, 1 << 16)
        if not piece:
            os.close(reader)
            return data
        data += piece
