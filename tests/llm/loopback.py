"""A loopback HTTP server whose answers are scripts.

The server speaks just enough HTTP/1.1 for a client to be tested: each connection that sends a
request gets the next script, a list of bytes to send and of things to do between them. Real
sockets, real threads, no sleeping: what must happen later waits for an event.
"""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = bytes | Callable[["Exchange"], None]
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WAIT_S = 20.0  # no test waits this long unless something is broken


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body; of no data, the end of it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(status: int, body: bytes, **headers: str) -> bytes:
    """A whole answer; underscores in header names stand for hyphens."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class HangUp(OSError):
    """Raised by a step to end the connection."""


def hang_up(exchange: "Exchange") -> None:
    """Close the connection."""
    raise HangUp


def reset(exchange: "Exchange") -> None:
    """Drop the connection with an RST instead of an orderly end."""
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise HangUp


@dataclass
class Exchange:
    """One request as the server saw it."""

    connection: socket.socket
    head: str = ""
    body: bytes = b""
    gone: threading.Event = field(default_factory=threading.Event)  # the client closed the connection
    go: threading.Event = field(default_factory=threading.Event)  # for scripts that wait for the test

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def wait_for_go(exchange: Exchange) -> None:
    assert exchange.go.wait(WAIT_S)


def wait_until_gone(exchange: Exchange) -> None:
    """Wait until the client hangs up."""
    with contextlib.suppress(OSError):
        while exchange.connection.recv(4096):
            pass
    exchange.gone.set()


class Loopback:
    """The server. ``connections`` counts accepted connections, ``exchanges`` are the requests."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._scripts: list[Sequence[Step]] = []
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def script(self, *steps: Step) -> None:
        """What the next request gets."""
        self._scripts.append(steps)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for exchange in self.exchanges:
            exchange.go.set()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT_S)

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                self._open.add(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            stream = connection.makefile("rb")
            with stream:
                while exchange := self._request(connection, stream):
                    self.exchanges.append(exchange)
                    for step in self._scripts.pop(0):
                        if callable(step):
                            step(exchange)
                        else:
                            connection.sendall(step)
        self._open.discard(connection)

    @staticmethod
    def _request(connection: socket.socket, stream: Any) -> Exchange | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return None
            head += line
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = stream.read(int(lengths[0].partition(b":")[2]) if lengths else 0)
        return Exchange(connection, head.decode("latin-1"), body)
