"""A web server on the loopback, whose pages a test writes, and the tool that may ask it."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from msgspec import Struct

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools.web import fetch_url_tool

Fetch = Callable[..., Awaitable[ToolResult]]


class Page(Struct):
    """An answer; ``wait`` is set by a test that wants the rest of the body to come."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}
    wait: threading.Event | None = None


class Server(ThreadingHTTPServer):
    """Answers with ``pages`` by path; keeps the requests it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, path: str, body: bytes | str, kind: str = "text/plain", **headers: str) -> str:
        data = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = Page(data, 200, {"Content-Type": kind, **named} if kind else named)
        return self.url + path

    def redirect(self, path: str, location: str, status: int = 302) -> str:
        self.pages[path] = Page(b"", status, {"Location": location})
        return self.url + path

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has read enough hangs up: not worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = cast(Server, self.server)
        server.requests.append((self.path, dict(self.headers)))
        page = server.pages.get(self.path.partition("?")[0], Page(b"no such page", 404))
        self.send_response(page.status)
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        half = len(page.body) // 2
        self.wfile.write(page.body[:half])
        self.wfile.flush()
        if page.wait is not None:
            page.wait.wait(20)
        self.wfile.write(page.body[half:])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def fetch(server: Server) -> Fetch:
    """Calls ``fetch_url``, which may ask the loopback; what the model would read."""
    return fetcher(allow_private=["127.0.0.1"])


def fetcher(**options: Any) -> Fetch:
    tool = fetch_url_tool(**options)

    async def run(url: str, **args: Any) -> ToolResult:
        given = {"url": url, **args}
        assert tool.check_arguments(given) == ()
        try:
            return cast(ToolResult, await tool.execute(given, cast(ToolContext, None)))
        except ToolError as error:
            return ToolResult(content=f"error: {error}", is_error=True)

    return run


def text_of(result: ToolResult) -> str:
    assert isinstance(result.content, str)
    return result.content
