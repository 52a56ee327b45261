"""Recorded exchanges, and what the decoders make of them in any chunking."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from unspool.kernel.errors import ModelError
from unspool.kernel.messages import Message
from unspool.kernel.reply import ReplyBuilder
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.faults import error_of, fault_of_response

from .formats import MODEL

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC).timestamp()  # when all answers came, for dates in headers
_LONGEST_CUT: Final = 97
_BREAKS: Final = 20


@dataclass(frozen=True)
class Exchange:
    """One HTTP answer, and in ``expected`` what it means; ``notes`` say where an SDK comes to something else."""

    id: str
    format: str
    stream: bool
    status: int
    headers: dict[str, str]
    body: bytes
    expected: dict[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a caller gets: a reply, and the error that ended it, if any."""

    reply: Message
    error: ModelError | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.reply == other.reply and _same(self.error, other.error)

    __hash__ = None  # type: ignore[assignment]


def exchanges(root: Path) -> Iterator[Exchange]:
    """All exchanges in the files below ``root``, in the order of their names.

    Raises:
        ValueError: a file is not JSON.
    """
    for path in sorted(root.rglob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict) and isinstance(response := value.get("response"), dict):
            yield Exchange(
                id=value.get("id") or path.stem,
                format=value["api"],
                stream=bool(value.get("stream")),
                status=response["status"],
                headers={key.lower(): text for key, text in (response.get("headers") or {}).items()},
                body=(response.get("body") or "").encode(),
                expected=value["expected"],
                notes=tuple(value.get("oracle_notes") or ()),
            )


def decode(
    decoder: type[AnswerDecoder],
    chunks: Iterable[bytes],
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Outcome:
    """What becomes of an answer that arrives in ``chunks``.

    Only a ``ModelError`` is an outcome: whatever else a decoder raises is its fault, and gets out.
    """
    builder, error = ReplyBuilder(), None
    try:
        if status >= 300:
            body = b"".join(chunks)
            raise error_of(fault_of_response(status, headers or {}, body, NOW), model=MODEL)
        reader = decoder(model=MODEL, seed="1")
        for chunk in chunks:
            for event in reader.feed(chunk):
                builder.add(event)
            if reader.done:
                break
        for event in reader.close():
            builder.add(event)
    except ModelError as raised:
        error = raised
    return Outcome(builder.message(), error)


def cuts(body: bytes, seed: str) -> dict[str, list[bytes]]:
    """The body in other chunkings, by what they are called: at random places, and byte by byte."""
    pick, places = random.Random(seed), [0]
    while places[-1] < len(body):
        places.append(min(len(body), places[-1] + pick.randint(1, _LONGEST_CUT)))
    return {"cut at random": cut(body, places[1:-1]), "byte by byte": cut(body, range(1, len(body)))}


def beginnings(body: bytes, seed: str) -> list[bytes]:
    """The body as far as it had come when the connection broke, at some places."""
    pick = random.Random(seed)
    return [body[: pick.randrange(len(body))] for _ in range(_BREAKS)] if body else []


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    """The body in chunks that end at these places."""
    ends = [*places, len(body)]
    return [body[start:end] for start, end in zip([0, *places], ends, strict=True)]


def _same(a: ModelError | None, b: ModelError | None) -> bool:
    return repr(a) == repr(b) and (a is None or b is None or vars(a) == vars(b))
