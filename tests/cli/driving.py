"""Drives the real command in processes of its own, and a server that speaks chat/completions."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from threading import Event, Semaphore, Thread
from typing import IO, Any, TypeAlias, cast

from typer.testing import CliRunner, Result

from unspool import AgentEnd, Fact, fold
from unspool.cli.app import app
from unspool.trajectory import SqliteSessions, load

Stream: TypeAlias = "int | IO[bytes] | None"

COMMAND = [sys.executable, "-P", "-m", "unspool.cli"]
WAIT_S = 30.0  # no test waits this long unless something is broken


def environment(**more: str) -> dict[str, str]:
    """That of the tests, without anybody's keys, models and sessions."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_BASE_URL")) and not name.startswith("UNSPOOL_")
    }
    return {**kept, **more}


def unspool(*args: str, cwd: Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """The finished command."""
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env=environment(**env),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=False,
    )


def invoke(*args: str, status: int = 0, stdin: str = "") -> Result:
    """The command in this process, where that is enough; its exit status is checked."""
    done = CliRunner().invoke(app, [*args], input=stdin)
    assert done.exit_code == status, (done.output, done.exception)
    if status == 2:
        assert done.stderr.startswith("unspool: ") and done.stderr.count("\n") == 1
    return done


@contextmanager
def running(
    command: list[str], cwd: Path, *, stdin: Stream = None, stdout: Stream = PIPE, stderr: Stream = PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """A command under way; it is killed when the test is over."""
    process = subprocess.Popen(command, cwd=cwd, env=environment(), stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(path: Path) -> tuple[list[Fact], str]:
    """The facts of a log, and the reason of its one end, which comes last."""
    return check_end(load(path))


def stored(folder: Path) -> tuple[str, list[Fact]]:
    """Id and facts of the one session of a folder's default store."""
    with SqliteSessions(folder / ".unspool" / "sessions.db", create=False) as sessions:
        (info,) = sessions.list()
        return info.session, list(sessions.facts(info.session))


def check_end(facts: list[Fact]) -> tuple[list[Fact], str]:
    """The facts of one run, and the reason of its one end, which comes last."""
    ends = [fact for fact in facts if isinstance(fact, AgentEnd)]
    assert len(ends) == 1 and facts[-1] is ends[0]
    assert not fold(facts).active
    return facts, ends[0].reason


class ChatServer(ThreadingHTTPServer):
    """Answers each request with the next of ``answers``: text, tool calls, an error's status; None is silence."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[str | int | list[tuple[str, Mapping[str, Any]]] | None] = []
        self.asked = Semaphore(0)  # released with each request
        self.leaving = Event()
        self.requests: list[Any] = []
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast(ChatServer, self.server)
        server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        server.asked.release()
        answer = server.answers.pop(0)
        if answer is None:
            server.leaving.wait(WAIT_S)
            return
        if isinstance(answer, int):
            self.send_error(answer)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for chunk in _chunks(answer):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def _chunks(answer: str | list[tuple[str, Mapping[str, Any]]]) -> Iterator[Any]:
    if isinstance(answer, str):
        for word in answer.split(" "):
            yield _chunk({"content": word + " "})
        yield _chunk({}, "stop")
    else:
        for index, (name, args) in enumerate(answer):
            function = {"name": name, "arguments": json.dumps(args)}
            yield _chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]})
        yield _chunk({}, "tool_calls")
    yield {"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 34}}


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> Any:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
