"""Sending only what is new: ``previous_response_id`` stands for what the server has stored.

A reply's metadata says which response it is and what the conversation was up to it (``chain``). The next request
refers to it where that is still the same on the wire, and is sent whole where it is not: after a compaction, an
edit, another model. The server bills what it reads all the same; what is saved is the
way there.

Read with: ``openai_responses.py`` (the caller), ``ResponsesDialect.chained``.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from unspool.kernel.errors import BadRequestError
from unspool.kernel.messages import Message
from unspool.kernel.ports import ModelRequest, StreamEnd
from unspool.kernel.transcript import Transcript

from .encoding import Cut, Part, encode_messages
from .openai_responses_kept import FORMAT
from .origins import is_of_model

CHAIN: Final = "chain"
_LOST: Final = re.compile(r"previous[ _]response", re.IGNORECASE)


class Link(NamedTuple):
    """The stored response that a request goes on from, and the items that are new."""

    response_id: str
    items: list[Part]


def link_of(messages: Sequence[Message], name: str, cut: Cut, key: Any) -> Link | None:
    """What ``messages`` go on from; None where they must be sent whole."""
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    if last < 0 or not is_of_model(messages[last], FORMAT, name):
        return None
    chain = messages[last].metadata.get(CHAIN)
    if not isinstance(chain, dict):
        return None
    if chain.get("upto") != digest_of(_before(messages, last), messages[last], cut, key):
        return None
    said = [part for _, parts in cut([messages[last]]) for part in parts]
    items = [part for _, parts in cut(messages[last:]) for part in parts][len(said) :]
    return Link(str(chain.get("id", "")), items) if items else None


def digest_of(messages: Sequence[Message], reply: Message, cut: Cut, key: Any) -> str:
    """A digest of what messages and their reply are on the wire."""
    digest = blake2b(encode_messages(messages, cut, key), digest_size=16)
    digest.update(encode_messages([reply], cut, key))
    return digest.hexdigest()


def linked(end: StreamEnd, upto: str) -> StreamEnd:
    """The end of a reply that can be gone on from."""
    return replace(end, metadata={**end.metadata, CHAIN: {"id": end.response_id, "upto": upto}})


def unlinked(request: ModelRequest) -> ModelRequest:
    """The request with no reply that could be gone on from."""
    messages = [
        replace(message, metadata={key: value for key, value in message.metadata.items() if key != CHAIN})
        if CHAIN in message.metadata
        else message
        for message in request.messages
    ]
    return replace(request, messages=messages)


def is_lost(error: BadRequestError) -> bool:
    """Whether a server refused a request because it does not have the response that it refers to.

    Codes differ (``previous_response_not_found``, ``invalid_request_error``), all say what it is about.
    """
    return _LOST.search(str(error)) is not None


def _before(messages: Sequence[Message], index: int) -> Sequence[Message]:
    return messages.prefix(index) if isinstance(messages, Transcript) else messages[:index]
