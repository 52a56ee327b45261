"""The number of tokens of a text by a byte pair encoding, in Python.

Making tiktoken's own tokenizer holds the interpreter for 0.2 s, which stops every event loop of the process. Here a
text is split by the encoding's pattern into pieces, most of which are one token, and the others are merged. That
takes 0.6 to 0.9 ms per 1,000 tokens, about three times as long as tiktoken.

Read with: ``encodings.py`` (where the ranks come from), ``estimate.py`` (without any).
"""

import importlib
from typing import Any, Final, NamedTuple

from unspool.kernel.json_edge import encodable

from .text_sample import text_sample

LIMIT: Final = 16_000  # characters of a text that are looked at
LONG_PIECE: Final = 256  # bytes; a longer piece is counted by parts
MERGES: Final = 2_000  # about as many tokens that are no piece of their own are found for one text
_TURNS: Final = (
    17  # the pieces of a text are taken in as many, each spread over the whole; prime, to miss patterns
)
_PART: Final = 64  # bytes
_KEPT_PIECES: Final = 50_000
_KEPT_PIECE: Final = 64  # characters
_NO_RANK: Final = 1 << 60


class Ranks(NamedTuple):
    """An encoding: the pattern that splits a text into pieces, and the rank of each token's bytes."""

    pattern: str
    ranks: dict[bytes, int]


class Encoding:
    """Counts as tiktoken's ``encode_ordinary`` does: what looks like a special token is text.

    May be used from any thread.
    """

    def __init__(self, name: str, ranks: Ranks) -> None:
        self.name = name
        engine: Any = importlib.import_module("regex")  # not with this file: an estimate does without
        self._split = engine.compile(ranks.pattern).findall
        self._pieces = _Pieces(ranks.ranks)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``: exact up to 16,000 characters of ordinary text.

        Of a longer text 40 parts, evenly placed, stand for the whole, within about 1 %. Of a text in which hardly a
        piece is a token (random letters) some pieces stand for the others; of a piece of more than 256 bytes without
        a break, four parts. So a count takes at most about 5 ms for ordinary text, and 15 ms whatever the text.
        """
        if not text:
            return 0
        sample = text_sample(text, LIMIT)
        pieces: list[str] = self._split(sample)
        tokens = self._count(pieces, len(sample))
        return tokens if sample is text else max(1, round(tokens * len(text) / len(sample)))

    def _count(self, pieces: list[str], size: int) -> int:
        tokens = counted = characters = 0
        for turn in range(_TURNS):
            some = pieces[turn::_TURNS]
            tokens += sum(map(self._pieces.__getitem__, some))
            counted += len(some)
            characters += len("".join(some))
            if tokens - counted > MERGES:  # the same whatever is remembered already
                return round(tokens * size / characters)
        return tokens


class _Pieces(dict[str, int]):
    """The tokens of pieces, for as many as are kept."""

    def __init__(self, ranks: dict[bytes, int]) -> None:
        super().__init__()
        self._ranks = ranks

    def __missing__(self, piece: str) -> int:
        data = encodable(piece).encode()
        if data in self._ranks:
            tokens = 1
        elif len(data) <= LONG_PIECE:
            tokens = merged(data, self._ranks)
        else:
            tokens = self._by_parts(data)
        if len(piece) <= _KEPT_PIECE:
            if len(self) >= _KEPT_PIECES:
                self.clear()
            self[piece] = tokens
        return tokens

    def _by_parts(self, data: bytes) -> int:
        parts = LONG_PIECE // _PART
        starts = [(len(data) - _PART) * part // (parts - 1) for part in range(parts)]
        tokens = sum([merged(data[start : start + _PART], self._ranks) for start in starts])
        return round(tokens * len(data) / LONG_PIECE)


def merged(data: bytes, ranks: dict[bytes, int]) -> int:
    """The tokens of one piece: neighbours whose join has the lowest rank are joined, until none has a rank."""
    ends = list(range(len(data) + 1))  # where the parts end
    rank_of = ranks.get
    joins = [rank_of(data[at : at + 2], _NO_RANK) for at in range(len(data) - 1)]
    while joins:
        lowest = min(joins)
        if lowest == _NO_RANK:
            break
        at = joins.index(lowest)
        del ends[at + 1], joins[at]
        if at < len(joins):
            joins[at] = rank_of(data[ends[at] : ends[at + 2]], _NO_RANK)
        if at:
            joins[at - 1] = rank_of(data[ends[at - 1] : ends[at + 1]], _NO_RANK)
    return len(ends) - 1
