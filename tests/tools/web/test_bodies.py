"""Bytes of a response: packed, cut at any place, in any charset, in bounded memory."""

import gzip
import tracemalloc
import zlib

import pytest

from unspool.kernel.errors import ToolError
from unspool.tools.web.bodies import Unpacker, decoded

PLAIN = b"some text, " * 500
_RAW = zlib.compressobj(wbits=-15)
PACKED = {
    "": PLAIN,
    "identity": PLAIN,
    "gzip": gzip.compress(PLAIN),
    "x-gzip": gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
    "deflate": zlib.compress(PLAIN),
    "Deflate": _RAW.compress(PLAIN) + _RAW.flush(),
}


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("encoding", PACKED)
def test_any_chunking_gives_the_same_bytes(encoding: str, size: int) -> None:
    unpacker = Unpacker(encoding, 1 << 20)
    data = PACKED[encoding]
    assert all(unpacker.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert (bytes(unpacker.data), unpacker.is_cut) == (PLAIN, False)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_other_packings_are_refused(encoding: str) -> None:
    with pytest.raises(ToolError, match="not known"):
        Unpacker(encoding, 100)


def test_damaged_data_is_told() -> None:
    with pytest.raises(ToolError, match="damaged"):
        Unpacker("gzip", 100).feed(b"this is no gzip")


@pytest.mark.parametrize(
    ("encoding", "data"), [("gzip", gzip.compress(b"x" * 99)), ("deflate", zlib.compress(b"x"))]
)
def test_data_that_ends_too_early_is_told(encoding: str, data: bytes) -> None:
    for size in range(1, len(data)):
        unpacker = Unpacker(encoding, 100)
        assert unpacker.feed(data[:size])
        with pytest.raises(ToolError, match="it ends too early"):
            unpacker.finish()
    for whole in (data, b""):
        unpacker = Unpacker(encoding, 100)
        assert unpacker.feed(whole)
        unpacker.finish()


def test_a_bomb_costs_no_memory() -> None:
    bomb = gzip.compress(bytes(64 << 20), 1)
    unpacker = Unpacker("gzip", 1 << 20)
    tracemalloc.start()
    try:
        assert not unpacker.feed(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(unpacker.data), unpacker.is_cut) == (1 << 20, True)
    assert peak < 8 << 20


CHARSETS = {  # bytes, charset of the header, whether it is HTML: text and charset
    "utf-8 by default": ("ä€".encode(), "", False, "ä€", "utf-8"),
    "header": ("ä".encode("iso-8859-15"), "ISO-8859-15", False, "ä", "iso8859-15"),
    "latin-1 is windows-1252": (b"\x80", "iso-8859-1", False, "€", "cp1252"),
    "quotes": ("я".encode("koi8-r"), '"koi8-r"', False, "я", "koi8-r"),
    "bom over header": (b"\xef\xbb\xbf" + "ä".encode(), "latin-1", False, "ä", "utf-8"),
    "utf-16 bom": (b"\xff\xfe" + "ä".encode("utf-16-le"), "", False, "ä", "utf-16-le"),
    "meta": (b'<meta charset="shift_jis">' + "日".encode("shift_jis"), "", True, "日", "shift_jis"),
    "meta only in html": (b"<meta charset=koi8-r>\xc1", "", False, "\ufffd", "utf-8"),
    "xml declaration": (b'<?xml version="1.0" encoding="koi8-r"?>\xc1', "", False, "а", "koi8-r"),
    "unknown": ("ä".encode(), "x-nonsense", False, "ä", "utf-8"),
    "not of text": (b"6869", "hex", False, "6869", "utf-8"),
    "utf-7 is none of the web": (b"+ADw-script", "utf-7", False, "+ADw-script", "utf-8"),
    "broken": (b"a\xff", "utf-8", False, "a\ufffd", "utf-8"),
}


@pytest.mark.parametrize("case", CHARSETS)
def test_charsets(case: str) -> None:
    data, header, is_html, text, charset = CHARSETS[case]
    got, name = decoded(data, header, is_html=is_html)
    assert (got[-len(text) :], name) == (text, charset)
