"""Runs an answer's bytes through the decoder in any chunking, and finds the shared test material."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unspool.kernel.errors import ModelError
from unspool.kernel.messages import Message
from unspool.kernel.ports import StreamEvent
from unspool.kernel.reply import ReplyBuilder
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.faults import error_of, fault_of_response
from unspool.llm.openai_chat_stream import ChatDecoder
from unspool.llm.openai_responses_stream import ResponsesDecoder


@dataclass
class Outcome:
    """What a caller gets: events that fold to a reply, and the error that ended them, if any."""

    reply: Message
    error: ModelError | None
    events: list[StreamEvent]


def decode(
    body: bytes,
    size: int = 0,
    status: int = 200,
    headers: dict[str, str] | None = None,
    make: Callable[..., AnswerDecoder] = ChatDecoder,
) -> Outcome:
    """The outcome of an answer that arrives in chunks of ``size`` bytes; 0 means at once."""
    builder, events = ReplyBuilder(), []
    error: ModelError | None = None
    try:
        for event in _events(body, size, status, headers or {}, make(model="p/m")):
            builder.add(event)
            events.append(event)
    except ModelError as raised:
        error = raised
    return Outcome(builder.message(), error, events)


decode_responses = partial(decode, make=ResponsesDecoder)


def same(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes are the same but for how text was cut into deltas."""
    return (
        a.reply == b.reply
        and repr(a.error) == repr(b.error)
        and vars(a.error or object) == vars(b.error or object)
    )


def _events(
    body: bytes, size: int, status: int, headers: dict[str, str], decoder: AnswerDecoder
) -> Iterator[StreamEvent]:
    if status >= 300:
        raise error_of(fault_of_response(status, headers, body, 0.0), model="p/m")
    for start in range(0, len(body), size or len(body) or 1):
        yield from decoder.feed(body[start : start + (size or len(body))])
        if decoder.done:
            break
    yield from decoder.close()


def shared(*parts: str) -> Path | None:
    """A path in the shared test material, or None where there is none."""
    root = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    path = root.joinpath(*parts)
    return path if path.exists() else None


NO_SHARED = "no shared test material beside the repository: set UNSPOOL_SHARED"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
