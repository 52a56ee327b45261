"""The parts of Responses answers that are read, as msgspec types.

Every field is optional, because in practice every field is missing somewhere; unknown fields are
skipped without being built. Items are kept as plain JSON: most of what is in them goes back as it came.

Read with: ``openai_responses_stream.py``, ``openai_responses_items.py``.
"""

from typing import Any

import msgspec
from msgspec import Struct


class Response(Struct, frozen=True, gc=False):
    """A whole answer, or how far it has come."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    incomplete_details: Any = None


class Event(Struct, frozen=True, gc=False):
    """One event of a stream; ``type`` says which of the fields it has."""

    type: str | None = None
    delta: Any = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item: Any = None
    part: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    annotation: Any = None
    response: Response | None = None
    error: Any = None


decode_event = msgspec.json.Decoder(Event).decode


def decode_loosely(data: bytes) -> Event:
    """An event with ids that are numbers, or indexes that are texts.

    Raises:
        msgspec.DecodeError: it is no event even so.
    """
    return msgspec.convert(loosened(msgspec.json.decode(data)), Event)


def loosened(value: Any) -> Any:
    """An event or a response in which ids are texts and indexes are numbers, where they can be."""
    if not isinstance(value, dict):
        return value
    value = dict(value)
    for key in ("id", "item_id"):
        if type(value.get(key)) is int:
            value[key] = str(value[key])
    for key in ("output_index", "content_index", "summary_index"):
        index = value.get(key)
        if isinstance(index, str) and index.isdecimal():
            value[key] = int(index[:9])
    if "response" in value:
        value["response"] = loosened(value["response"])
    return value
