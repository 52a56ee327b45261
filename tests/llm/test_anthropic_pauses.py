"""Answers that the server pauses: asked on, and one answer to whoever reads it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from unspool.kernel import Agent, Limits, ModelRequest, Retry, generate, raw_tool, user_message
from unspool.kernel.errors import OverloadedError, PartialStreamError
from unspool.kernel.messages import Cost, Opaque, Text, Usage
from unspool.llm import AnthropicModel

from .anthropic_decoding import wire  # tests/llm/, not llm/
from .loopback import SSE_HEAD, Loopback, answer, chunked, hang_up  # tests/llm/, not llm/

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "http://h"}]}
CALL = {"type": "tool_use", "id": "t_1", "name": "look", "input": {}}


def said(stop: str, *blocks: str | dict[str, Any], usage: tuple[int, int] = (5, 2)) -> Sequence[bytes]:
    """A streamed answer of whole blocks, as the steps of a script."""
    start = {"role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": usage[0]}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        block = {"type": "text", "text": block} if isinstance(block, str) else block
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": usage[1]}}
    return SSE_HEAD, chunked(wire([*events, stopped, {"type": "message_stop"}])), chunked(b"")


def model(server: Loopback, **options: Any) -> AnthropicModel:
    return AnthropicModel("anthropic/m", base_url=server.url, api_key="k", **options)


GO = ModelRequest(messages=[user_message("go")])


@pytest.mark.anyio
async def test_the_server_is_asked_on_with_what_it_has_said(server: Loopback) -> None:
    server.script(*said("pause_turn", "Searching", SEARCH))
    server.script(*said("end_turn", FOUND, "Found", usage=(9, 3)))
    reply = await generate(model(server), GO)
    first, second = (exchange.json["messages"] for exchange in server.exchanges)
    paused = {"role": "assistant", "content": [{"type": "text", "text": "Searching"}, SEARCH]}
    assert second == [*first, paused]
    searched = (
        Opaque(provider="anthropic-messages", data=SEARCH),
        Opaque(provider="anthropic-messages", data=FOUND),
    )
    assert reply.content == (Text("Searching"), *searched, Text("Found"))
    assert (reply.stop_reason, reply.metadata) == ("stop", {"pauses": 1})
    assert reply.usage == Usage(input_tokens=14, output_tokens=5)


@pytest.mark.anyio
async def test_each_request_has_its_price(server: Loopback) -> None:
    def price(name: str, usage: Usage, ttl: str) -> Cost:
        return Cost(input=usage.input_tokens)

    priced = model(server, price=price)
    server.script(*said("pause_turn", SEARCH))
    server.script(*said("end_turn", FOUND, "Found", usage=(9, 3)))
    usage = (await generate(priced, GO)).usage
    assert usage is not None and usage.cost is not None and usage.cost.total == 14


@pytest.mark.anyio
async def test_a_pause_may_follow_a_pause_but_not_for_ever(server: Loopback) -> None:
    for part in "abc":
        server.script(*said("pause_turn", part))
    reply = await generate(model(server, max_pauses=2), GO)
    assert len(server.exchanges) == 3
    assert reply.content == (Text("a"), Text("b"), Text("c"))
    assert (reply.stop_reason, reply.metadata) == ("pause", {"finish_reason": "pause_turn", "pauses": 2})
    assert server.exchanges[2].json["messages"][-1]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.anyio
async def test_a_fault_on_the_way_is_that_of_the_call(server: Loopback) -> None:
    server.script(*said("pause_turn", SEARCH))
    server.script(answer(529, json.dumps({"error": {"type": "overloaded_error"}}).encode()))
    with pytest.raises(OverloadedError):
        await generate(model(server), GO)


@pytest.mark.anyio
async def test_what_was_said_before_a_cut_is_that_of_all_parts(server: Loopback) -> None:
    server.script(*said("pause_turn", "first, "))
    head, body, _ = said("end_turn", "second")
    server.script(head, body[: body.index(b"event: message_delta")], hang_up)
    with pytest.raises(PartialStreamError) as caught:
        await generate(model(server), GO)
    assert caught.value.text == "first, second"


@pytest.mark.anyio
async def test_code_goes_on_where_it_ran(server: Loopback) -> None:
    paused = {"content": [SEARCH], "stop_reason": "pause_turn", "container": {"id": "cont_1"}}
    rest = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
    for whole in (paused, rest):
        server.script(answer(200, json.dumps(whole).encode(), Content_Type="application/json"))
    reply = await generate(model(server), GO)
    assert server.exchanges[1].json["container"] == "cont_1"
    assert reply.metadata == {"container": {"id": "cont_1"}, "pauses": 1}


@pytest.mark.anyio
async def test_what_the_server_s_tools_used_is_summed(server: Loopback) -> None:
    for stop, searches in (("pause_turn", 3), ("end_turn", 2)):
        usage = {"output_tokens": 1, "server_tool_use": {"web_search_requests": searches}}
        whole = {"content": [SEARCH if stop == "pause_turn" else FOUND], "stop_reason": stop, "usage": usage}
        server.script(answer(200, json.dumps(whole).encode(), Content_Type="application/json"))
    reply = await generate(model(server), GO)
    assert reply.metadata["usage_details"] == {"server_tool_use": {"web_search_requests": 5}}


@pytest.mark.anyio
async def test_pauses_are_no_turns_of_a_run(server: Loopback) -> None:
    """A run of two turns: a call of the host's tool, and an answer that pauses."""
    look = raw_tool("look", "Looks.", {"type": "object"}, lambda args, ctx: "seen")
    agent = Agent(model(server), tools=[look], limits=Limits(turns=2), retry=Retry(attempts=0))
    server.script(*said("pause_turn", SEARCH))
    server.script(*said("tool_use", FOUND, CALL))
    server.script(*said("pause_turn", "Done"))
    server.script(*said("end_turn", "."))
    result = await agent.run("go")
    assert (result.text, result.end_reason) == ("Done.", "stop")
    roles = [message["role"] for message in server.exchanges[2].json["messages"]]
    assert roles == ["user", "assistant", "user"]


@pytest.mark.anyio
async def test_an_answer_in_one_piece_pauses_alike(server: Loopback) -> None:
    for stop, text in (("pause_turn", "a"), ("end_turn", "b")):
        whole = {
            "content": [{"type": "text", "text": text}],
            "stop_reason": stop,
            "usage": {"output_tokens": 1},
        }
        server.script(answer(200, json.dumps(whole).encode(), Content_Type="application/json"))
    reply = await generate(model(server, streaming=False), GO)
    assert (reply.text, reply.stop_reason, reply.usage) == ("ab", "stop", Usage(output_tokens=2))
