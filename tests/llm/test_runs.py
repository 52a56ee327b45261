"""A run over each of the four formats: one owner of retries, waits that the server asks for, limits of time."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from wires import ANTHROPIC, CALL, CHAT, FORMATS, RESPONSES, Format, sse

from unspool.kernel import Agent, Event, Retry, RetryEvent, RunResult, raw_tool
from unspool.kernel.events import ModelResponse
from unspool.kernel.ports import Tool
from unspool.llm.http import close_connections

from .loopback import (  # tests/llm/, not llm/
    SSE_HEAD,
    Exchange,
    Loopback,
    Step,
    answer,
    chunked,
    wait_until_gone,
)

ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
QUICK = Retry(attempts=2, base_s=0.001)
# what a server says before it goes silent, or goes on and on
BEGINNINGS: dict[str, bytes] = {
    "openai-chat": sse({"choices": [{"index": 0, "delta": {"content": "He"}}]}),
    "openai-responses": sse({"type": "response.output_text.delta", "output_index": 0, "delta": "He"}),
    "anthropic-messages": sse(
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "He"}},
    ),
    "gemini": sse({"candidates": [{"content": {"parts": [{"text": "He"}]}}]}),
}


def stream(body: bytes) -> tuple[Step, ...]:
    return SSE_HEAD, chunked(body), chunked(b"")


def noting(ran: list[Any]) -> Tool:
    def execute(args: Any, ctx: object) -> str:
        ran.append(dict(args))
        return "ok"

    return raw_tool("f", "Does f.", {"type": "object"}, execute)


def play(
    model: Any, *tools: Tool, retry: Retry = QUICK, backend: str = "asyncio"
) -> tuple[RunResult[str], list[Event]]:
    """A run, and its events."""
    events: list[Event] = []

    async def main() -> RunResult[str]:
        agent = Agent(model, tools=tools, retry=retry)
        agent.subscribe(events.append)
        try:
            return await agent.run("go")
        finally:
            await close_connections()

    return anyio.run(main, backend=backend), events


def retries(events: list[Event]) -> list[RetryEvent]:
    return [event for event in events if isinstance(event, RetryEvent)]


@ALL
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_its_result_and_an_answer_of_nothing(server: Loopback, format: Format, backend: str) -> None:
    ran: list[Any] = []
    server.script(*stream(format.answer("", CALL)))
    server.script(*stream(format.answer("")))  # the model has nothing to add, which is no fault
    result, _ = play(format.at(server.url), noting(ran), backend=backend)
    assert (result.end_reason, result.text, ran) == ("stop", "", [{"x": 1}])
    assert len(server.exchanges) == 2
    assert getattr(result.messages[-1], "origin", "") == f"{format.name}:p/{format.model}"


@ALL
def test_a_server_that_is_full_is_asked_again_when_it_says(server: Loopback, format: Format) -> None:
    said = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}).encode()
    server.script(answer(529, said, Retry_After="0.02"))
    server.script(*stream(format.answer("ok")))
    result, events = play(format.at(server.url))
    assert result.text == "ok"
    assert [(event.delay_s, event.error_kind) for event in retries(events)] == [(0.02, "overloaded")]


@ALL
def test_nobody_but_the_kernel_asks_again(server: Loopback, format: Format) -> None:
    for _ in range(3):
        server.script(answer(503, b"{}"))
    result, events = play(format.at(server.url))
    assert (result.end_reason, result.error_kind) == ("error", "overloaded")
    assert len(server.exchanges) == 3
    assert [event.attempt for event in retries(events)] == [1, 2]
    calls = [event for event in events if isinstance(event, ModelResponse)]
    assert [call.error_kind for call in calls] == ["overloaded"] * 3  # each is on record


@ALL
@pytest.mark.parametrize(
    "status, kind", [(401, "auth"), (402, "quota"), (400, "bad_request"), (413, "context_overflow")]
)
def test_what_asking_again_cannot_help(server: Loopback, format: Format, status: int, kind: str) -> None:
    server.script(answer(status, b'{"error":{"message":"no"}}'))
    result, events = play(format.at(server.url))
    assert (result.error_kind, retries(events), len(server.exchanges)) == (kind, [], 1)


@ALL
def test_a_server_that_goes_silent(server: Loopback, format: Format) -> None:
    server.script(SSE_HEAD, chunked(BEGINNINGS[format.name]), wait_until_gone)
    result, _ = play(format.at(server.url), retry=Retry(attempts=0, idle_s=0.1))
    assert result.error_kind == "stream_idle"
    assert server.exchanges[0].gone.wait(10)  # the connection does not outlive the call


@pytest.mark.parametrize("format", [CHAT, RESPONSES, ANTHROPIC], ids=lambda each: each.name)
def test_an_answer_that_is_over_though_its_body_stays_open(server: Loopback, format: Format) -> None:
    server.script(SSE_HEAD, chunked(format.answer("Hello")), wait_until_gone)
    result, _ = play(format.at(server.url), retry=Retry(attempts=0, idle_s=20.0))
    assert (result.end_reason, result.text) == ("stop", "Hello")
    assert server.exchanges[0].gone.wait(10)


def _on_and_on(exchange: Exchange) -> None:
    """Pieces without end, each long before silence would be noticed."""
    with pytest.raises(OSError):  # whatever a closed connection raises
        for piece in _pieces():
            exchange.connection.sendall(piece)
            exchange.gone.wait(0.01)
    exchange.gone.set()


def _pieces() -> Iterator[bytes]:
    while True:
        yield chunked(b": still here\n\n")


@ALL
def test_a_call_as_a_whole_is_bounded_too(server: Loopback, format: Format) -> None:
    server.script(SSE_HEAD, chunked(BEGINNINGS[format.name]), _on_and_on)
    result, _ = play(format.at(server.url), retry=Retry(attempts=0, idle_s=20.0, call_s=0.2))
    assert result.error_kind == "timeout"
    assert server.exchanges[0].gone.wait(10)


@ALL
def test_an_abort_in_the_answer_and_then_another_question(server: Loopback, format: Format) -> None:
    server.script(SSE_HEAD, chunked(BEGINNINGS[format.name]), wait_until_gone)
    server.script(*stream(format.answer("fine")))

    async def main() -> tuple[str, str]:
        agent = Agent(format.at(server.url))
        try:
            async with agent.stream("go") as events:
                async for event in events:
                    if type(event).__name__ == "MessageUpdate":
                        agent.abort(marker=False)
                first = await events.result()
            return first.end_reason, (await agent.run("again")).text
        finally:
            await close_connections()

    assert anyio.run(main) == ("aborted", "fine")
    assert server.exchanges[0].gone.wait(10)


@ALL
def test_the_same_ids_in_every_answer(server: Loopback, format: Format) -> None:
    """Some servers count calls anew in each answer; one request must not hold an id twice."""
    ran: list[Any] = []
    for body in (format.answer("", CALL), format.answer("", CALL), format.answer("done")):
        server.script(*stream(body))
    result, _ = play(format.at(server.url), noting(ran))
    calls = [call for message in result.messages for call in getattr(message, "tool_calls", ())]
    assert len(ran) == 2 and len({call.id for call in calls}) == 2
    results = [getattr(message, "tool_call_id", "") for message in result.messages]
    assert [id for id in results if id] == [call.id for call in calls]


FAULTS: dict[str, dict[str, bytes]] = {
    "rate_limit": {
        "openai-chat": sse({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}),
        "openai-responses": sse({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}),
        "anthropic-messages": sse({"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}),
        "gemini": sse({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"}}),
    },
    "quota": {
        "openai-chat": sse({"error": {"message": "no", "code": "insufficient_quota"}}),
        "openai-responses": sse(
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "insufficient_quota", "message": "no"}},
            }
        ),
        "anthropic-messages": sse({"type": "error", "error": {"type": "billing_error", "message": "no"}}),
        "gemini": sse({"error": {"code": 403, "details": [{"reason": "BILLING_DISABLED"}], "message": "no"}}),
    },
    "overloaded": {
        "openai-chat": sse({"error": {"message": "no", "type": "server_error"}}),
        "openai-responses": sse(
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "no"}},
            }
        ),
        "anthropic-messages": sse({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
        "gemini": sse({"error": {"code": 503, "status": "UNAVAILABLE", "message": "no"}}),
    },
    "context_overflow": {
        "openai-chat": sse({"error": {"message": "no", "code": "context_length_exceeded"}}),
        "openai-responses": sse({"type": "error", "code": "context_length_exceeded", "message": "no"}),
        "anthropic-messages": sse(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
        ),
        "gemini": sse(
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (9) exceeds the maximum number of tokens",
                }
            }
        ),
    },
}


@ALL
@pytest.mark.parametrize("kind", FAULTS)
def test_errors_inside_an_answer_with_status_200(server: Loopback, format: Format, kind: str) -> None:
    beginning = BEGINNINGS[format.name]
    assert format.error(beginning + FAULTS[kind][format.name]).error_kind == kind
    server.script(*stream(beginning + FAULTS[kind][format.name]))
    result, _ = play(format.at(server.url), retry=Retry(attempts=0))
    assert (result.end_reason, result.error_kind) == ("error", kind)


@ALL
def test_a_limited_key_rests_and_another_goes_on(server: Loopback, format: Format) -> None:
    server.script(answer(429, b'{"error":{"message":"slow down"}}', Retry_After="30"))
    server.script(*stream(format.answer("ok")))
    result, events = play(format.at(server.url, api_key=["key-1", "key-2"]))
    assert result.text == "ok"
    assert [event.delay_s < 1 for event in retries(events)] == [True]  # nobody waits for the one that rests
    used = ["key-1" if "key-1" in exchange.head else "key-2" for exchange in server.exchanges]
    assert used == ["key-1", "key-2"]


@ALL
def test_a_function_gives_the_key(server: Loopback, format: Format) -> None:
    async def token() -> str:
        return "token-7"

    server.script(*stream(format.answer("ok")))
    assert play(format.at(server.url, api_key=token))[0].text == "ok"
    assert "token-7" in server.exchanges[0].head and b"token-7" not in server.exchanges[0].body
