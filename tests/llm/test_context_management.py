"""What a provider is asked to do to the context itself, what it answers, and how that goes back to it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from unspool.kernel import Agent, ModelRequest, generate, user_message
from unspool.kernel.errors import BadRequestError
from unspool.kernel.messages import Cost, Message, Opaque, Text, Thinking, Usage
from unspool.kernel.ports import CallOptions
from unspool.llm import (
    AnthropicModel,
    GeminiModel,
    HttpModel,
    LeftOutWarning,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.anthropic_request import betas_of, encode_request

from .loopback import Loopback, answer  # tests/llm/, which ruff takes for llm/

COMPACT, CLEAR = "compact-2026-01-12", "context-management-2025-06-27"
ANTHROPIC: dict[str, tuple[CallOptions, list[dict[str, Any]], list[str]]] = {
    "nothing": (CallOptions(), [], []),
    "a compaction": (
        CallOptions(context_management={"compact_at": 60_000}),
        [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 60_000}}],
        [COMPACT],
    ),
    "results cleared, as the provider likes": (
        CallOptions(context_management={"clear_results": {}}),
        [{"type": "clear_tool_uses_20250919"}],
        [CLEAR],
    ),
    "both": (
        CallOptions(
            context_management={
                "compact_at": 150_000,
                "clear_results": {"at": 90_000, "keep": 4, "at_least": 5_000, "exclude": ["memory"]},
            }
        ),
        [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 90_000},
                "keep": {"type": "tool_uses", "value": 4},
                "clear_at_least": {"type": "input_tokens", "value": 5_000},
                "exclude_tools": ["memory"],
            },
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 150_000}},
        ],
        [CLEAR, COMPACT],
    ),
    "in the wire's own words": (
        CallOptions(
            extra={"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
        ),
        [{"type": "clear_thinking_20251015", "keep": "all"}],
        [CLEAR],
    ),
    "extra wins": (
        CallOptions(context_management={"compact_at": 1}, extra={"context_management": None}),
        [],
        [],
    ),
}


@pytest.mark.parametrize("name", ANTHROPIC)
def test_anthropic_is_asked_with_the_beta_that_it_wants(name: str) -> None:
    options, edits, betas = ANTHROPIC[name]
    request = ModelRequest(messages=[user_message("hi")], options=options)
    body = json.loads(encode_request(request, "anthropic/claude-opus-4-6", AnthropicDialect()))
    assert body.get("context_management") == ({"edits": edits} if edits else None)
    assert betas_of(request, "claude-opus-4-6", AnthropicDialect()) == betas


def models(url: str) -> dict[str, HttpModel]:
    return {
        "anthropic": AnthropicModel("anthropic/m", base_url=url, api_key="k"),
        "responses": OpenAIResponsesModel("openai/m", base_url=url, api_key="k"),
        "chat": OpenAIChatModel("chat/m", base_url=url, api_key="k"),
        "gemini": GeminiModel("gemini/m", base_url=url, api_key="k"),
    }


UNKNOWN = [
    ("responses", {"clear_results": {"at": 1}}, ["clear_results"]),
    ("chat", {"clear_results": {"at": 1}, "compact_at": 9}, ["compact_at", "clear_results"]),
    ("gemini", {"compact_at": 9}, ["compact_at"]),
]


@pytest.mark.parametrize(("model", "asked", "left_out"), UNKNOWN)
def test_what_a_format_cannot_ask_for_is_left_out_with_a_warning(
    model: str, asked: dict[str, Any], left_out: list[str]
) -> None:
    request = ModelRequest(messages=[user_message("hi")], options=CallOptions(context_management=asked))
    with pytest.warns(LeftOutWarning) as caught:
        body = models("http://h")[model]._body(request)
    assert [str(each.message).partition(" ")[0] for each in caught] == left_out
    assert b"context_management" not in body


@pytest.mark.parametrize("model", models("http://h"))
@pytest.mark.parametrize(
    "asked", [{"compact": 1}, {"compact_at": "much"}, {"compact_at": -1}, {"clear_results": {"keeps": 1}}]
)
def test_what_is_not_of_the_form_is_refused(model: str, asked: dict[str, Any]) -> None:
    request = ModelRequest(messages=[user_message("hi")], options=CallOptions(context_management=asked))
    with pytest.raises(BadRequestError, match="context_management: "):
        models("http://h")[model]._body(request)


# --- a compaction comes, and goes back

SUMMARY = {"type": "compaction", "content": "They said hi."}
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}


def anthropic_answer(*blocks: dict[str, Any], **more: Any) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": 2, **more.pop("usage", {})}
    said = {
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": "end_turn",
        "usage": usage,
        **more,
    }
    return answer(200, json.dumps(said).encode())


def responses_answer(*items: dict[str, Any]) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": 2}
    said = {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": items,
        "usage": usage,
    }
    return answer(200, json.dumps(said).encode())


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


TURNS: dict[str, tuple[list[bytes], Any, str, Callable[[Any], Any], dict[str, Any]]] = {
    "anthropic": (
        [
            anthropic_answer(SUMMARY, {"type": "text", "text": "hello"}),
            anthropic_answer({"type": "text", "text": "bye"}),
        ],
        {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]},
        COMPACT,
        lambda body: body["messages"][1]["content"][0],
        SUMMARY,
    ),
    "responses": (
        [responses_answer(message("hello"), SEALED), responses_answer(message("bye"))],
        [{"type": "compaction", "compact_threshold": 50_000}],
        "",
        lambda body: body["input"][2],
        SEALED,
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", TURNS)
async def test_a_compaction_goes_back_as_it_came(name: str, server: Loopback) -> None:
    answers, field, beta, sent_back, block = TURNS[name]
    for each in answers:
        server.script(each)
    model = models(server.url)[name]
    agent = Agent(model=model, options=CallOptions(context_management={"compact_at": 50_000}))
    await agent.run("hi")
    await agent.run("and now?")
    first, second = server.exchanges
    assert first.json["context_management"] == second.json["context_management"] == field
    assert all(f"anthropic-beta: {beta}" in each.head for each in (first, second)) if beta else True
    assert sent_back(second.json) == block


@pytest.mark.anyio
async def test_what_was_cleared_is_in_the_metadata(server: Loopback) -> None:
    applied = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8}]}
    server.script(anthropic_answer({"type": "text", "text": "hello"}, context_management=applied))
    reply = await generate(models(server.url)["anthropic"], ModelRequest(messages=[user_message("hi")]))
    assert reply.metadata == {"context_management": applied}


@pytest.mark.anyio
async def test_a_compaction_has_its_price(server: Loopback) -> None:
    """The usage of the reply is that of the answer alone, which says how full the window is now."""
    calls = [
        {"type": "compaction", "input_tokens": 900, "output_tokens": 80},
        {"type": "message", "input_tokens": 5, "output_tokens": 2},
    ]
    server.script(anthropic_answer(SUMMARY, {"type": "text", "text": "hello"}, usage={"iterations": calls}))

    def price(name: str, usage: Usage, ttl: str) -> Cost:
        return Cost(input=usage.input_tokens, output=usage.output_tokens)

    model = AnthropicModel("anthropic/m", base_url=server.url, api_key="k", price=price)
    reply = await generate(model, ModelRequest(messages=[user_message("hi")]))
    assert reply.usage == Usage(input_tokens=5, output_tokens=2, cost=Cost(input=905, output=82))


def test_a_compaction_does_not_go_with_reasoning_that_is_left_out() -> None:
    opaque = Opaque(provider="openai-responses", data=SEALED)
    reply = Message(
        role="assistant",
        content=(Thinking(text="hm"), opaque, Text("hello")),
        origin="openai-responses:openai/m",
    )
    request = ModelRequest(messages=[user_message("hi"), reply], options=CallOptions(drop_reasoning=True))
    body = json.loads(models("http://h")["responses"]._body(request))
    assert body["input"][1] == SEALED
