"""Servers as processes of their own: where they are installed, how they start and end.

Read with: ``setup.sh`` (installs them), ``conftest.py`` (the fixtures).
"""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("UNSPOOL_REAL_CACHE") or HERE.parents[1] / ".cache" / "real")
START_TIMEOUT_S = 90.0
_POLL_S = 0.05
# Runs a program until it ends, or until standard input does: it does when we are killed, whatever kills us.
_LEASH = 'exec 3<&0; "$@" 3<&- & server=$!; { cat <&3 >&2; kill -9 $server; } 2>/dev/null & wait $server'


class NotInstalledError(Exception):
    """A server is not there; the message says where it was looked for and what installs it."""


def installed(path: Path) -> Path:
    """The path itself.

    Raises:
        NotInstalledError: there is nothing.
    """
    if not path.exists():
        raise NotInstalledError(f"no {path}: run tests/real/setup.sh")
    return path


@contextmanager
def serve(command: Sequence[str | Path], port: int, log: Path) -> Iterator[str]:
    """The root URL of a server that runs as ``command`` and listens on ``port``, until the block ends."""
    leashed = ["sh", "-c", _LEASH, "sh", *map(str, command)]
    with log.open("wb") as output:
        process = subprocess.Popen(leashed, stdin=subprocess.PIPE, stdout=output, stderr=output)
    assert process.stdin is not None
    try:
        _wait_until_open(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def call(url: str, body: object = None, *, method: str = "") -> Any:
    """The JSON that a server's control interface answers; a ``body`` makes it a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"content-type": "application/json"}, method=method or ("GET" if data is None else "POST")
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def _wait_until_open(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(_POLL_S)
        else:
            return
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")
