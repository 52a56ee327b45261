"""What a reply makes of events that cannot be kept as they came."""

from typing import Any

import pytest

from unspool.kernel.messages import Message, Opaque, Thinking
from unspool.kernel.ports import BlockEvent, StreamEvent, ThinkingDelta
from unspool.kernel.reply import ReplyBuilder

KEY = "sk-ant-api03-AbCdEfGh0123456789AbCdEfGh0123456789"


def reply(*events: StreamEvent) -> Message:
    builder = ReplyBuilder()
    for event in events:
        builder.add(event)
    return builder.message()


def test_thinking_that_held_a_key_is_not_signed_any_more() -> None:
    """The signature was for other words: with it, every later request would be refused."""
    signed = reply(ThinkingDelta(f"the key is {KEY}"), ThinkingDelta(signature="sig"))
    assert signed.content == (Thinking(text="the key is [redacted key]"),)
    assert reply(ThinkingDelta("hm"), ThinkingDelta(signature="sig")).content == (
        Thinking(text="hm", signature="sig"),
    )


@pytest.mark.parametrize("depth", [400, 600, 5000])
def test_a_block_that_is_nested_too_deep_to_be_stored(depth: int) -> None:
    data: Any = {}
    for _ in range(depth):
        data = {"a": data}
    (block,) = reply(BlockEvent(Opaque(provider="p", data=data), 0)).content
    assert isinstance(block, Opaque)
    assert (block.provider == "p") == (depth == 400)
