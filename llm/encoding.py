"""The messages of a request as JSON, of which only what is new is encoded.

The messages of a run's next request begin with those of the last one. A format cuts them into *pieces*: as many
messages as must be looked at together (results of tools that share one wire message, say), and what they are on
the wire. The pieces of the last request are kept beside the messages, and are used again as far as both are the
same; the last one is made anew, because it may have grown.

Read with: ``unspool.kernel.transcript`` (``recall``), ``openai_chat_request.py`` (a format).
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.kernel.json_edge import encodable_json
from unspool.kernel.messages import Message
from unspool.kernel.transcript import Transcript

Part: TypeAlias = dict[str, Any]
"""A message on the wire, or a part of one."""
Piece: TypeAlias = tuple[int, list[Part]]
"""How many messages, and what they are on the wire; nothing where they are not sent."""
Cut: TypeAlias = Callable[[Sequence[Message]], Iterator[Piece]]
"""Cuts messages into pieces. A piece depends on its own messages alone."""

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """``value`` as JSON; halves of characters in it (lone surrogates), which no server takes, become U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(encodable_json(value)[0])


class _Kept(NamedTuple):
    """Encoded pieces, and at which message each ends."""

    pieces: list[bytes]
    ends: list[int]


def encode_messages(
    messages: Sequence[Message],
    cut: Cut,
    key: Hashable,
    mark: Callable[[list[Part]], bool] | None = None,
    before: Sequence[Part] = (),
) -> msgspec.Raw:
    """The JSON array of what ``messages`` are on the wire.

    ``key`` stands for everything besides the messages that ``cut`` goes by. ``mark`` changes a piece that is to
    bear the mark of the last message and says whether it did; it is asked from the last piece on, and what it
    changes is not kept. ``before`` is what comes first.
    """
    kept = _brought_up(messages, cut, key)
    pieces = kept.pieces
    if mark is not None:
        pieces = list(pieces)
        for index in range(len(pieces) - 1, -1, -1):
            start = kept.ends[index - 1] if index else 0
            parts = [part for _, some in cut(messages[start : kept.ends[index]]) for part in some]
            if mark(parts):
                pieces[index] = _joined(parts)
                break
    return msgspec.Raw(b"[" + b",".join(filter(None, [_joined(before), *pieces])) + b"]")


def _brought_up(messages: Sequence[Message], cut: Cut, key: Hashable) -> _Kept:
    known, last = messages.recall(key) if isinstance(messages, Transcript) else (0, None)
    same = bisect_left(last.ends, known) if last is not None else 0  # the last piece may have grown
    kept = _Kept([], []) if last is None else _Kept(last.pieces[:same], last.ends[:same])
    end = kept.ends[-1] if same else 0
    for count, parts in cut(messages[end:]):
        end += count
        kept.pieces.append(_joined(parts))
        kept.ends.append(end)
    if isinstance(messages, Transcript):
        messages.remember(key, kept)
    return kept


def _joined(parts: Sequence[Part]) -> bytes:
    return encode(parts)[1:-1]
