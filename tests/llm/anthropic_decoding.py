"""Runs an answer of Anthropic Messages through its decoder in any chunking, and back into a request."""

import json
from functools import partial
from typing import Any

from unspool.kernel.messages import Message
from unspool.kernel.ports import ModelRequest
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.anthropic_request import encode_request
from unspool.llm.anthropic_stream import AnthropicDecoder

from . import decoding  # tests/llm/, not llm/

decode = partial(decoding.decode, make=AnthropicDecoder)


OPENING = {"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]}


def wire(events: list[Any], *, names: bool = True) -> bytes:
    """A stream of server-sent events, named or not; text as it is."""
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if names and isinstance(event, dict) else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def sent(request: ModelRequest, dialect: AnthropicDialect | None = None, model: str = "m-1") -> Any:
    """The JSON of a request, without the word that opens a conversation which begins with a reply."""
    body = json.loads(encode_request(request, f"p/{model}", dialect or AnthropicDialect()))
    body["messages"] = body["messages"][body["messages"][:1] == [OPENING] :]
    return body


def replayed(*messages: Message) -> list[dict[str, Any]]:
    """All content blocks of a request with these messages."""
    wire_messages = sent(ModelRequest(messages=messages))["messages"]
    return [block for message in wire_messages for block in message["content"]]
