"""Real servers for tests: llama.cpp with a small model, llmock and aimock, and one that never answers.

``setup.sh`` fetches what they need; a test whose part is missing is skipped and says what to do.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .aimock import Aimock, running_aimock
from .llmock import Llmock, running_llmock
from .servers import CACHE, HERE, NotInstalledError, free_port

START_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class LlamaServer:
    """A running llama.cpp server; ``base_url`` ends in ``/v1``."""

    base_url: str
    process: "subprocess.Popen[bytes]"
    context_tokens: int = 4096

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """End the server at once, as a crash would; it is not started again."""
        self.process.kill()
        self.process.communicate()  # closes its pipes too

    def pause(self) -> None:
        """Stop the server where it is: connections stay open and silent."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        os.kill(self.pid, signal.SIGCONT)


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """One server for the session; a test that kills it takes ``own_llama_server``."""
    server = start_llama(tmp_path_factory.mktemp("llama"))
    yield server
    server.kill()


@pytest.fixture
def own_llama_server(tmp_path: Path) -> Iterator[LlamaServer]:
    """A server that the test may kill."""
    server = start_llama(tmp_path)
    yield server
    server.kill()


@pytest.fixture(scope="session")
def llmock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llmock]:
    """One llmock for the session; each run resets it."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_llmock(tmp_path_factory.mktemp("llmock")))
        except NotInstalledError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """One aimock for the session; each run has a test id of its own there."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_aimock(tmp_path_factory.mktemp("aimock")))
        except NotInstalledError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The base URL of a server that accepts connections, reads and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections: list[socket.socket] = []
        thread = threading.Thread(target=_swallow, args=(listener, connections), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


def start_llama(logs: Path) -> LlamaServer:
    """A server that answers; skips the test when ``setup.sh`` has not been run."""
    python, models = CACHE / "venv" / "bin" / "python", sorted(CACHE.glob("*.gguf"))
    if not python.exists():
        pytest.skip(f"no llama.cpp server in {CACHE}: run tests/real/setup.sh")
    if not models:
        pytest.skip(f"no *.gguf model in {CACHE}: run tests/real/setup.sh")
    port = free_port()
    command = [str(python), str(HERE / "serve.py"), str(port), str(models[0]), str(HERE / "chat.jinja")]
    with (logs / "llama.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    with process.stdout:
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        line = process.stdout.readline() if ready else b""
    if not line.startswith(b"listening"):
        process.kill()
        process.communicate()
        pytest.fail(f"llama.cpp did not start, see {log.name}")
    return LlamaServer(f"http://127.0.0.1:{port}/v1", process)


def _swallow(listener: socket.socket, connections: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connections.append(connection)
