"""Real servers for tests: llama.cpp with a small model, and one that never answers.

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

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("UNSPOOL_REAL_CACHE") or HERE.parents[1] / ".cache" / "real")
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
        self.process.wait()

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
    port = _free_port()
    command = [str(python), str(HERE / "serve.py"), str(port), str(models[0]), str(HERE / "chat.jinja")]
    with (logs / "llama.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    with process.stdout:
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        line = process.stdout.readline() if ready else b""
    if not line.startswith(b"listening"):
        process.kill()
        process.wait()
        pytest.fail(f"llama.cpp did not start, see {log.name}")
    return LlamaServer(f"http://127.0.0.1:{port}/v1", process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _swallow(listener: socket.socket, connections: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connections.append(connection)
