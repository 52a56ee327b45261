"""A server on this machine that answers each request with the next of some bodies, the last one for ever."""

import contextlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_EVENT_STREAM = {"content-type": "text/event-stream"}


@dataclass(frozen=True)
class Answer:
    """One answer. ``open`` leaves the connection open after the body, until the client hangs up."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: _EVENT_STREAM)
    open: bool = False


class ReplayServer:
    """The server; use it in a ``with``. ``requests`` are the bodies it was sent, parsed."""

    def __init__(self, answers: Sequence[Answer] = ()) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []
        replay = self

        class Handler(_Handler):
            server_of_answers = replay

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next_answer(self, request: Any) -> Answer:
        self.requests.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_of_answers: ReplayServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = self.server_of_answers.next_answer(json.loads(body) if body else None)
        self.close_connection = True
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if not answer.open:
            self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(answer.body)
            self.wfile.flush()
            while answer.open and self.connection.recv(4096):
                pass

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in ``requests``."""
