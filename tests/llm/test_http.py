"""Requests over real sockets: what is sent, how it ends, what is left behind."""

import asyncio
import gc
import gzip
import logging
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from unspool.kernel import redaction
from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ModelError,
    NetworkError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import Message, user_message
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent, TextDelta
from unspool.kernel.redaction import redact
from unspool.kernel.reply import generate
from unspool.llm import OpenAIChatModel
from unspool.llm.http import close_connections

from .loopback import (  # tests/llm/, which ruff takes for llm/
    SSE_HEAD,
    Loopback,
    Step,
    answer,
    chunked,
    hang_up,
    reset,
    wait_for_go,
    wait_until_gone,
)

KEY = "sk-secret-0123456789"
REQUEST = ModelRequest(messages=(user_message("hi"),))


def event(json: str) -> bytes:
    return b"data: " + json.encode() + b"\n\n"


def text(content: str) -> bytes:
    return event(f'{{"id":"r1","model":"m-1","choices":[{{"index":0,"delta":{{"content":"{content}"}}}}]}}')


STOP = event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
DONE = b"data: [DONE]\n\n"
GOOD: tuple[Step, ...] = (
    SSE_HEAD,
    chunked(text("o")),
    chunked(text("k") + STOP),
    chunked(DONE),
    chunked(b""),
)


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]:
    """Runs an async function on each backend; nothing may be left for the garbage collector."""

    def runner(main: Callable[[], Awaitable[Any]]) -> Any:
        result = anyio.run(main, backend=request.param)
        gc.collect()
        return result

    return runner


Run = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


def model(server: Loopback, key: str | None = KEY) -> OpenAIChatModel:
    return OpenAIChatModel("test/org/m-1", base_url=server.url + "/v1", api_key=key)


def fail(run: Run, server: Loopback, *script: Step) -> ModelError:
    """The error that an answer leads to; it must not hold the key anywhere."""
    server.script(*script)

    async def main() -> ModelError:
        with pytest.raises(ModelError) as caught:
            await generate(model(server), REQUEST)
        return caught.value

    error: ModelError = run(main)
    seen: BaseException | None = error
    while seen is not None:
        assert KEY not in str(seen) + repr(seen) + repr(vars(seen))
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return error


def test_a_streamed_reply(run: Run, server: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    server.script(*GOOD)
    caplog.set_level(logging.DEBUG)

    async def main() -> Message:
        return await generate(model(server), REQUEST)

    reply = run(main)
    assert (reply.text, reply.stop_reason) == ("ok", "stop")
    exchange = server.exchanges[0]
    assert exchange.head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"\r\nauthorization: bearer {KEY}\r\n" in exchange.head.lower()
    assert (exchange.json["model"], exchange.json["stream"]) == ("org/m-1", True)
    assert KEY not in caplog.text + repr(model(server))


def test_no_key_sends_no_authorization(run: Run, server: Loopback) -> None:
    server.script(*GOOD)

    async def main() -> Message:
        return await generate(model(server, key=None), REQUEST)

    assert run(main).text == "ok"
    assert "authorization" not in server.exchanges[0].head.lower()


def test_headers_win_however_they_are_written(run: Run, server: Loopback) -> None:
    server.script(*GOOD)
    own = {"Authorization": "Basic x", "ACCEPT": "text/plain", "Accept-Encoding": "identity", "X-Own": "1"}

    async def main() -> Message:
        url = server.url + "/v1"
        return await generate(OpenAIChatModel("test/m", base_url=url, api_key=KEY, headers=own), REQUEST)

    assert run(main).text == "ok"
    head = server.exchanges[0].head.lower().splitlines()
    for name, value in own.items():
        assert [line for line in head if line.startswith(f"{name.lower()}:")] == [f"{name}: {value}".lower()]


def test_events_come_as_they_arrive(run: Run, server: Loopback) -> None:
    """The second half is sent only after the first was seen: nothing may buffer."""
    server.script(SSE_HEAD, chunked(text("a")), wait_for_go, chunked(text("b") + STOP + DONE), chunked(b""))

    async def main() -> list[str]:
        seen = []
        async with aclosing(model(server).stream(REQUEST)) as stream:
            async for got in stream:
                if isinstance(got, TextDelta):
                    seen.append(got.text)
                    server.exchanges[0].go.set()
        return seen

    assert run(main) == ["a", "b"]


def test_the_connection_is_reused(run: Run, server: Loopback) -> None:
    for _ in range(3):
        server.script(*GOOD)

    async def main() -> None:
        for _ in range(2):
            assert (await generate(model(server), REQUEST)).text == "ok"
        assert server.connections == 1
        await close_connections()
        assert (await generate(model(server), REQUEST)).text == "ok"
        assert server.connections == 2

    run(main)


def test_closing_the_stream_closes_the_connection(run: Run, server: Loopback) -> None:
    server.script(SSE_HEAD, chunked(text("a")), wait_until_gone)

    async def main() -> StreamEvent:
        async with aclosing(model(server).stream(REQUEST)) as stream:
            first = await anext(stream)
        await anyio.to_thread.run_sync(server.exchanges[0].gone.wait, 20)
        return first

    assert run(main) == TextDelta("a", 1)
    assert server.exchanges[0].gone.is_set()


def test_cancelling_closes_the_connection(run: Run, server: Loopback) -> None:
    server.script(SSE_HEAD, chunked(text("a")), wait_until_gone)

    async def main() -> bool:
        async with aclosing(model(server).stream(REQUEST)) as stream:
            await anext(stream)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(anext, stream)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
        return await anyio.to_thread.run_sync(server.exchanges[0].gone.wait, 20)

    assert run(main)


def test_a_silent_server_can_be_left(run: Run, server: Loopback) -> None:
    server.script(wait_until_gone)

    async def main() -> bool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(generate, model(server), REQUEST)
                await anyio.wait_all_tasks_blocked()
                while not server.exchanges:  # the request is on its way through the kernel
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        return await anyio.to_thread.run_sync(server.exchanges[0].gone.wait, 20)

    assert run(main)


CUT: dict[str, tuple[tuple[Step, ...], str]] = {
    "orderly, too early": ((SSE_HEAD, chunked(text("par") + text("tial")), chunked(b"")), "partial"),
    "inside the chunked body": ((SSE_HEAD, chunked(text("partial"))), "partial"),
    "reset": ((SSE_HEAD, chunked(text("partial")), wait_for_go, reset), "partial"),
    "inside an event": (
        (SSE_HEAD, chunked(text("partial") + b'data: {"choices":[{"ind'), chunked(b"")),
        "partial",
    ),
    "no event at all": ((SSE_HEAD, chunked(b": hello\n\n"), chunked(b"")), ""),
}


@pytest.mark.parametrize("name", CUT)
def test_cut_answers_are_partial(run: Run, server: Loopback, name: str) -> None:
    script, expected = CUT[name]
    server.script(*script, hang_up)

    async def main() -> None:
        with pytest.raises(PartialStreamError) as caught:
            async with aclosing(model(server).stream(REQUEST)) as stream:
                async for _ in stream:
                    server.exchanges[0].go.set()
        assert (caught.value.text, caught.value.retryable) == (expected, True)

    run(main)


def test_a_connection_lost_after_the_finish_reason_loses_nothing(run: Run, server: Loopback) -> None:
    server.script(SSE_HEAD, chunked(text("ok") + STOP), hang_up)

    async def main() -> Message:
        return await generate(model(server), REQUEST)

    assert run(main).text == "ok"


def test_no_answer_is_a_network_error(run: Run, server: Loopback) -> None:
    error = fail(run, server, hang_up)
    assert isinstance(error, NetworkError) and error.retryable


def test_no_server_is_a_network_error(run: Run, server: Loopback) -> None:
    nobody = model(server)
    server.close()

    async def main() -> None:
        with pytest.raises(NetworkError):
            await generate(nobody, REQUEST)

    run(main)


def test_headers_without_a_body_are_a_network_error(run: Run, server: Loopback) -> None:
    error = fail(run, server, SSE_HEAD, hang_up)
    assert isinstance(error, NetworkError)


REFUSALS: dict[str, tuple[bytes, type[ModelError], float | None]] = {
    "wrong key, echoed": (
        answer(401, b'{"error":{"code":"invalid_api_key","message":"Incorrect API key: %s"}}' % KEY.encode()),
        AuthError,
        None,
    ),
    "rate limit": (answer(429, b'{"error":{"message":"slow down"}}', Retry_After="7"), RateLimitError, 7.0),
    "rate limit in ms": (
        answer(429, b"{}", Retry_After="2", Retry_After_Ms="1200"),
        RateLimitError,
        1.2,
    ),
    "quota": (answer(429, b'{"error":{"code":"insufficient_quota"}}'), QuotaError, None),
    "not found": (answer(404, b'{"error":{"message":"no such model"}}'), BadRequestError, None),
    "html": (answer(502, b"<html><title>Bad Gateway</title></html>"), OverloadedError, None),
    "redirect": (answer(302, b"", Location="http://127.0.0.1:1/"), BadRequestError, None),
    "broken off": (b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\n{", OverloadedError, None),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(run: Run, server: Loopback, name: str) -> None:
    script, cls, delay = REFUSALS[name]
    error = fail(run, server, script, hang_up)
    assert type(error) is cls
    assert error.retry_after_s == delay
    assert error.details["model"] == "test/org/m-1"


def test_a_server_that_does_not_stream(run: Run, server: Loopback) -> None:
    body = b'{"id":"r2","choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}'
    server.script(answer(200, body, Content_Type="application/json"))

    async def main() -> list[StreamEvent]:
        return [got async for got in model(server).stream(REQUEST)]

    assert run(main) == [
        TextDelta("ok", 1),
        StreamEnd(stop_reason="stop", response_id="r2", origin="openai-chat:test/org/m-1"),
    ]


@pytest.mark.parametrize("key", ["sk-a b", "sk-\nb", "schlüssel"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    with pytest.raises(AuthError) as caught:
        OpenAIChatModel("p/m", base_url="http://127.0.0.1", api_key=key)
    assert key not in repr(caught.value) + str(caught.value)


def test_a_key_with_white_space_around_it(run: Run, server: Loopback) -> None:
    server.script(*GOOD)

    async def main() -> Message:
        return await generate(model(server, key=f" {KEY}\n"), REQUEST)

    assert run(main).text == "ok"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/v1",
        "127.0.0.1:80/v1",
        "http://[::1/v1",
        "http://127.0.0.1:99999/v1",
        "http://xn--/v1",
        "",
    ],
)
def test_a_base_url_that_is_none(run: Run, url: str) -> None:
    async def main() -> None:
        with pytest.raises(BadRequestError):
            await generate(OpenAIChatModel("p/m", base_url=url), REQUEST)

    run(main)


def test_a_header_that_cannot_be_sent(run: Run, server: Loopback) -> None:
    named = OpenAIChatModel("p/m", base_url=server.url, headers={"x-title": "Größe"})

    async def main() -> None:
        with pytest.raises(BadRequestError, match="cannot be sent"):
            await generate(named, REQUEST)

    run(main)


def test_what_is_hidden_of_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", {})  # these are no secrets to other tests
    headers = {
        "Cookie": "session=abcdef0123456789abcdef; theme=light-and-long-enough",
        "X-Author": "https://github.com/example/project",
        "X-Api-Key": "zq-another-secret-1234",
    }
    OpenAIChatModel("p/m", base_url="http://h", headers=headers)
    assert "abcdef0123456789" not in redact("is abcdef0123456789abcdef right?")
    assert "zq-another" not in redact("is zq-another-secret-1234 right?")
    assert redact("see https://github.com/example/project") == "see https://github.com/example/project"
    with pytest.raises(TypeError, match="the header x-n is a int"):
        OpenAIChatModel("p/m", base_url="http://h", headers={"X-N": 5})  # type: ignore[dict-item]  # what is tested


def test_a_secret_in_a_header_of_the_host_is_in_no_error(run: Run, server: Loopback) -> None:
    body = b'{"error":{"message":"Bearer zq-header-secret-123456 is wrong"}}'
    server.script(answer(401, body))
    named = OpenAIChatModel(
        "p/m", base_url=server.url, headers={"Authorization": "Bearer zq-header-secret-123456"}
    )

    async def main() -> None:
        with pytest.raises(AuthError) as caught:
            await generate(named, REQUEST)
        assert "zq-header" not in f"{caught.value} {caught.value.details}"

    run(main)


LOST: dict[str, tuple[tuple[Step, ...], str]] = {
    "the connection, after the end": ((SSE_HEAD, chunked(text("a")), chunked(STOP), hang_up), "a"),
    "the connection, after the end mark": ((SSE_HEAD, chunked(text("a") + STOP + DONE), hang_up), "a"),
    "the frame, after the end mark": ((SSE_HEAD, chunked(text("a") + STOP + DONE), b"zz\r\n"), "a"),
    "a chunk that cannot be read, after the end": (
        (SSE_HEAD, chunked(text("a") + STOP), chunked(event("{")), chunked(b"")),
        "",
    ),
    "an error, after the end": (
        (SSE_HEAD, chunked(text("a") + STOP), chunked(event('{"x_groq":{"error":"cut"}}')), chunked(b"")),
        "",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_only_a_lost_connection_is_no_fault_after_the_end(run: Run, server: Loopback, name: str) -> None:
    script, said = LOST[name]
    server.script(*script)

    async def main() -> None:
        if said:
            assert (await generate(model(server), REQUEST)).text == said
            return
        with pytest.raises(ModelError) as caught:
            await generate(model(server), REQUEST)
        assert not isinstance(caught.value, PartialStreamError) or caught.value.text == "a"

    run(main)


def test_headers_of_the_host_win_however_they_are_spelt(run: Run, server: Loopback) -> None:
    server.script(*GOOD)
    named = OpenAIChatModel("p/m", base_url=server.url, api_key=KEY, headers={"Authorization": "Basic x"})

    async def main() -> None:
        await generate(named, REQUEST)

    run(main)
    assert "authorization: Basic x" in server.exchanges[0].head
    assert KEY not in server.exchanges[0].head


@pytest.mark.parametrize(
    ("variable", "proxy"), [("ALL_PROXY", "socks5://127.0.0.1:1"), ("HTTP_PROXY", "foo://h:1")]
)
def test_a_proxy_that_cannot_be_used(
    run: Run, server: Loopback, variable: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(BadRequestError, match="a proxy of the environment"):
                await generate(model(server), REQUEST)

    run(main)


def test_a_password_in_the_url_is_in_no_error(run: Run, server: Loopback) -> None:
    nobody = OpenAIChatModel("p/m", base_url=server.url.replace("//", "//user:hunter2@") + "?k=hunter3")
    server.close()

    async def main() -> None:
        with pytest.raises(NetworkError) as caught:
            await generate(nobody, REQUEST)
        assert "hunter" not in f"{caught.value!r} {caught.value.details}"

    run(main)


def test_a_broken_tls_record(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio passes on the error of its TLS library, which httpx does not know."""

    async def broken(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        raise ssl.SSLError(1, "bad record mac")

    monkeypatch.setattr(httpx.AsyncClient, "send", broken)

    async def main() -> None:
        with pytest.raises(NetworkError, match="bad record mac"):
            await generate(OpenAIChatModel("p/m", base_url="https://h"), REQUEST)

    run(main)


def test_nothing_is_left_running(run: Run, server: Loopback) -> None:
    server.script(*GOOD)
    before = threading.active_count()

    async def main() -> None:
        await generate(model(server), REQUEST)
        assert threading.active_count() <= before + 2

    run(main)


def test_a_cancelled_task_closes_the_connection(server: Loopback) -> None:
    """As the kernel cancels: a bare task, not a cancel scope."""
    server.script(SSE_HEAD, chunked(text("a")), wait_until_gone)

    async def main() -> None:
        seen = asyncio.Event()

        async def reader() -> None:
            async with aclosing(model(server).stream(REQUEST)) as stream:
                async for _ in stream:
                    seen.set()

        task = asyncio.create_task(reader())
        await seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.exchanges[0].gone.wait, 20)

    asyncio.run(main())


# --- compressed answers ----------------------------------------------------------------------------

GZIP_HEAD = SSE_HEAD.replace(b"Transfer", b"Content-Encoding: gzip\r\nTransfer")


def test_only_gzip_is_asked_for_and_each_event_of_it_comes_at_once(run: Run, server: Loopback) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first = packer.compress(text("a")) + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(text("b") + STOP + DONE) + packer.flush()
    server.script(GZIP_HEAD, chunked(first), wait_for_go, chunked(rest), chunked(b""))

    async def main() -> list[str]:
        seen = []
        async with aclosing(model(server).stream(REQUEST)) as stream:
            async for got in stream:
                if isinstance(got, TextDelta):
                    seen.append(got.text)
                    server.exchanges[0].go.set()
        return seen

    assert run(main) == ["a", "b"]
    assert "\r\naccept-encoding: gzip\r\n" in server.exchanges[0].head.lower()


def test_a_compressed_refusal_is_read(run: Run, server: Loopback) -> None:
    body = gzip.compress(b'{"error": {"message": "slow down"}}')
    error = fail(run, server, answer(429, body, Content_Encoding="gzip"))
    assert type(error) is RateLimitError and "slow down" in str(error)


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_a_refusal_in_another_coding_leaves_the_status(coding: str, run: Run, server: Loopback) -> None:
    assert type(fail(run, server, answer(429, b"\x0b\x02", Content_Encoding=coding))) is RateLimitError


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_an_answer_in_another_coding_is_an_error(coding: str, run: Run, server: Loopback) -> None:
    error = fail(run, server, answer(200, b"\x0b\x02", Content_Encoding=coding))
    assert type(error) is ModelError and f"not asked for (coding='{coding}')" in str(error)


def test_a_compressed_answer_that_is_cut_is_partial(run: Run, server: Loopback) -> None:
    packed = gzip.compress(text("a") * 500)
    error = fail(run, server, GZIP_HEAD, chunked(packed[:-9]), chunked(b""))
    assert type(error) is PartialStreamError and error.text.startswith("aaa")


def test_a_reply_that_is_whole_needs_no_end_of_the_compressed_data(run: Run, server: Loopback) -> None:
    packed = gzip.compress(text("ok") + STOP)
    server.script(GZIP_HEAD, chunked(packed[:-8]), chunked(b""))

    async def main() -> Message:
        return await generate(model(server), REQUEST)

    assert run(main).text == "ok"
