"""Answers that the server stores: the next request refers to them and holds only what is new."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from unspool.kernel import Agent, Message, ModelRequest, Retry, generate, raw_tool, user_message
from unspool.kernel.errors import BadRequestError
from unspool.kernel.messages import Text
from unspool.kernel.transcript import Transcript
from unspool.llm import OpenAIResponsesModel
from unspool.llm.openai_responses_request import ResponsesDialect

from .loopback import Loopback, answer  # tests/llm/, not llm/

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}", "id": "fc_1"}


def said(id: str, *items: str | dict[str, Any]) -> bytes:
    """A whole answer of messages and other items."""
    output = [
        {"type": "message", "content": [{"type": "output_text", "text": item}]}
        if isinstance(item, str)
        else item
        for item in items
    ]
    body = {"id": id, "status": "completed", "output": output}
    return answer(200, json.dumps(body).encode(), Content_Type="application/json")


def model(server: Loopback, **options: Any) -> OpenAIResponsesModel:
    dialect = ResponsesDialect(chained=True, **options)
    return OpenAIResponsesModel("openai/m", base_url=server.url, dialect=dialect)


async def ask(server: Loopback, messages: Sequence[Message]) -> tuple[Any, Message]:
    """What was sent for these messages, and the reply."""
    server.script(said("resp_next", "yes"))
    reply = await generate(model(server), ModelRequest(messages=messages))
    return server.exchanges[-1].json, reply


@pytest.fixture
async def first(server: Loopback) -> list[Message]:
    """A conversation of one question and its stored answer."""
    server.script(said("resp_1", "Hello."))
    opening = [user_message("hi")]
    return [*opening, await generate(model(server), ModelRequest(messages=opening))]


USER = {"role": "user", "content": "and?"}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [list, Transcript])
async def test_only_what_is_new_is_sent(server: Loopback, first: list[Message], kind: Any) -> None:
    body, reply = await ask(server, kind([*first, user_message("and?")]))
    assert (body["previous_response_id"], body["store"], len(body["input"])) == ("resp_1", True, 1)
    assert body["input"][0]["role"] == "user"
    body, _ = await ask(server, kind([*first, user_message("and?"), reply, user_message("so?")]))
    assert (body["previous_response_id"], len(body["input"])) == ("resp_next", 1)


@pytest.mark.anyio
async def test_what_does_not_follow_is_sent_whole(server: Loopback, first: list[Message]) -> None:
    hi, reply = first
    other = Message(
        role="assistant", content=reply.content, origin="openai-responses:openai/x", metadata=reply.metadata
    )
    edited = replace(reply, content=(Text("Good day."),))
    unknown = Message(role="assistant", content=reply.content, origin=reply.origin)
    more = user_message("and?")
    for name, messages in {
        "the opening was edited": [user_message("hello"), reply, more],
        "the opening is gone": [reply, more],
        "another model's": [hi, other, more],
        "a reply that was not stored": [hi, unknown, more],
        "nothing is new": [hi, reply],
        "the answer was edited": [hi, edited, more],
    }.items():
        body, _ = await ask(server, messages)
        assert "previous_response_id" not in body, name
        assert len(body["input"]) == len(messages), name


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (
            400,
            {
                "code": "previous_response_not_found",
                "message": "Previous response with id 'resp_1' not found.",
            },
        ),
        (400, {"code": "invalid_request_error", "message": "Invalid `previous_response_id`."}),
        (404, {"message": "Previous response with id 'resp_1' not found."}),
    ],
)
async def test_a_lost_answer_is_no_fault(
    server: Loopback, first: list[Message], status: int, error: dict[str, Any]
) -> None:
    server.script(answer(status, json.dumps({"error": error}).encode()))
    with pytest.warns(UserWarning, match="sent whole instead"):
        body, reply = await ask(server, [*first, user_message("and?")])
    assert reply.text == "yes" and len(body["input"]) == 3 and "previous_response_id" not in body


@pytest.mark.anyio
async def test_other_refusals_stay_what_they_are(server: Loopback, first: list[Message]) -> None:
    server.script(answer(400, b'{"error": {"message": "bad temperature"}}'))
    with pytest.raises(BadRequestError, match="bad temperature"):
        await generate(model(server), ModelRequest(messages=[*first, user_message("and?")]))


@pytest.mark.anyio
async def test_a_run_with_calls_sends_each_item_once(server: Loopback) -> None:
    look = raw_tool("look", "Looks.", {"type": "object"}, lambda args, ctx: "seen")
    agent = Agent(model(server), tools=[look], retry=Retry(attempts=0))
    server.script(said("resp_1", CALL))
    server.script(said("resp_2", "Done."))
    server.script(said("resp_3", "You are welcome."))
    assert (await agent.run("go")).text == "Done."
    assert (await agent.run("thanks")).text == "You are welcome."
    sent = [
        (body.get("previous_response_id"), [item.get("type") or item["role"] for item in body["input"]])
        for body in (exchange.json for exchange in server.exchanges)
    ]
    assert sent == [(None, ["user"]), ("resp_1", ["function_call_output"]), ("resp_2", ["user"])]
