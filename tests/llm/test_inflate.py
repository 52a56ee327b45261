"""Compressed answers: what is read, what is refused, and how much of it at once."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from unspool.kernel.errors import ModelError, PartialStreamError
from unspool.llm.inflate import PIECE_BYTES, Inflater

TEXT = b"".join(b'data: {"n":%d}\n\n' % number for number in range(50_000))


def raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def members(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(b"") + gzip.compress(data[half:])


def flushed(data: bytes) -> bytes:
    """As servers compress a stream: each event is sent at once."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    pieces = [
        packer.compress(data[at : at + 5000]) + packer.flush(zlib.Z_SYNC_FLUSH)
        for at in range(0, len(data), 5000)
    ]
    return b"".join([*pieces, packer.flush()])


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "its old name, in capitals": (" X-GZIP ", gzip.compress),
    "gzip, flushed often": ("gzip", flushed),
    "gzip in members": ("gzip", members),
    "gzip with zeros behind it": ("gzip", lambda data: gzip.compress(data) + bytes(512)),
    "gzip with something behind it that has its first byte": (
        "gzip",
        lambda data: gzip.compress(data) + b"\0\x1f\0",
    ),
    "deflate as the standard has it": ("deflate", zlib.compress),
    "deflate as some servers have it": ("deflate", raw),
    "identity beside it": ("identity, gzip", gzip.compress),
    "identity": ("identity", bytes),
    "nothing": ("", bytes),
}


def inflated(coding: str, chunks: list[bytes]) -> bytes:
    inflater = Inflater(coding)
    pieces = [piece for chunk in chunks for piece in inflater.pieces(chunk)]
    inflater.close()
    return b"".join(pieces)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 24])
@pytest.mark.parametrize("name", PACKED)
def test_any_chunking_same_bytes(name: str, size: int) -> None:
    coding, pack = PACKED[name]
    text = TEXT if size > 7 else TEXT[:5000]
    assert inflated(coding, cut(pack(text), size)) == text


@pytest.mark.parametrize(
    "name", [name for name, (coding, _) in PACKED.items() if coding not in ("", "identity")]
)
def test_a_body_that_is_cut_is_partial(name: str) -> None:
    coding, pack = PACKED[name]
    packed = pack(TEXT[:5000]).rstrip(b"\0\x1f")
    for end in {1, 2, len(packed) // 2, len(packed) - 1}:
        with pytest.raises(PartialStreamError, match="ended early"):
            inflated(coding, [packed[:end]])


@pytest.mark.parametrize("coding", ["gzip", "deflate", ""])
def test_an_empty_body_is_whole(coding: str) -> None:
    assert inflated(coding, [b""]) == b""


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, br", "gzip, gzip", "x" * 1000])
def test_what_was_not_asked_for_is_refused(coding: str) -> None:
    with pytest.raises(ModelError, match="not asked for") as caught:
        Inflater(coding)
    assert not caught.value.retryable
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_is_not_compressed_is_partial(coding: str) -> None:
    with pytest.raises(PartialStreamError, match="cannot be decompressed"):
        inflated(coding, [TEXT])


@pytest.mark.parametrize("level", [1, 9])
def test_a_bomb_comes_in_small_pieces(level: int) -> None:
    packed = gzip.compress(bytes(1 << 26), level)
    inflater, total = Inflater("gzip"), 0
    tracemalloc.start()
    for piece in inflater.pieces(packed):
        assert len(piece) <= PIECE_BYTES
        total += len(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 1 << 26
    assert peak < 2 * len(packed) + 4 * PIECE_BYTES


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_nothing_is_held_back(size: int) -> None:
    """What a flush completes comes with its chunk, wherever the pieces end."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    chunk = packer.compress(b"a" * size) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert b"".join(Inflater("gzip").pieces(chunk)) == b"a" * size
