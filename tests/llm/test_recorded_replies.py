"""Recorded answers go back as they came. That they mean what they should is the matter of ``tests/conformance``."""

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.messages import Message, Opaque, tool_message
from unspool.kernel.ports import ModelRequest
from unspool.llm.openai_responses_request import ResponsesDialect, encode_request

from . import anthropic_decoding, gemini_decoding  # tests/llm/, not llm/
from .decoding import NO_SHARED, decode_responses, load, shared  # tests/llm/, not llm/

_ROOT = shared("corpus")
pytestmark = pytest.mark.skipif(_ROOT is None, reason=NO_SHARED)


def files(pattern: str) -> pytest.MarkDecorator:
    found = sorted(_ROOT.glob(f"*/{pattern}")) if _ROOT else []
    return pytest.mark.parametrize("path", found, ids=lambda path: path.stem)


def answer_of(path: Path) -> tuple[bytes, int, dict[str, str]]:
    response = load(path)["response"]
    return response["body"].encode(), response["status"], response["headers"]


@files("*.openai-responses.*.json")
def test_the_same_model_is_sent_its_items_again(path: Path) -> None:
    body, status, headers = answer_of(path)
    outcome = decode_responses(body, 0, status, headers)
    if outcome.error is not None or outcome.reply.failed:
        return
    reply = outcome.reply
    messages = [reply, *[tool_message(call, "done") for call in reply.tool_calls]]
    request = ModelRequest(messages=messages)
    sent = json.loads(encode_request(request, "p/m", ResponsesDialect(store=True)))["input"]
    items = [plain(item) for item in items_of(body)]
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    for item in items:
        if item["type"] == "function_call" and not reply_args_valid(reply, item["call_id"]):
            item["arguments"] = "{}"
    assert [plain(item) for item in sent[: len(items)]] == items
    assert [item["type"] for item in sent[len(items) :]] == [
        f"{item['type']}_output" for item in items if item["type"] in ("function_call", "custom_tool_call")
    ]


def reply_args_valid(reply: Message, id: str) -> bool:
    return not next(call for call in reply.tool_calls if call.id == id).args_invalid


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """An item without what is the same when it is left out, and without messages of no text."""
    return {"type": "message"} | {key: value for key, value in item.items() if value is not None}


def items_of(body: bytes) -> list[dict[str, Any]]:
    """The items of an answer, as its last event has them, or as they came one by one."""
    if body.lstrip().startswith(b"{"):
        return list(json.loads(body)["output"])
    rows = [line[5:].strip() for line in body.decode().splitlines() if line.startswith("data:")]
    events = [json.loads(row) for row in rows if row.startswith("{")]
    last = [event["response"] for event in events if event.get("response")][-1]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    items: list[dict[str, Any]] = last["output"] or done
    return items


@files("*.anthropic-messages.n.*.json")
def test_what_came_whole_goes_back_as_it_came(path: Path) -> None:
    """All but what the format does not take (empty text), and what says nothing (direct callers, nulls)."""
    body, status, headers = answer_of(path)
    outcome = anthropic_decoding.decode(body, 0, status, headers)
    if outcome.error is not None:
        return
    sent = json.loads(body)["content"]
    assert [telling(block) for block in anthropic_decoding.replayed(outcome.reply)] == [
        telling(block) for block in sent
    ]


def telling(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the kernel's without the fields that say nothing; any other as it is."""
    if block["type"] not in ("text", "tool_use", "thinking"):
        return block
    kept = {key: value for key, value in block.items() if value and value != {"type": "direct"}}
    return {**kept, "text": block["text"].rstrip()} if block["type"] == "text" else kept


@files("*.gemini.*.json")
def test_every_signature_is_kept(path: Path) -> None:
    body, status, headers = answer_of(path)
    if status != 200:
        return
    sent = body.count(b'"thoughtSignature"') - body.count(b'"thoughtSignature": ""')
    reply = gemini_decoding.decode(body, 0, status, headers).reply
    kept = [call.thought_signature for call in reply.tool_calls if call.thought_signature]
    apart = [
        block for block in reply.content if isinstance(block, Opaque) and "thoughtSignature" in block.data
    ]
    assert len(kept) + len(apart) == sent
