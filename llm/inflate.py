"""Compressed answers in pieces of bounded size: a kilobyte of gzip may stand for a megabyte.

httpx would give each chunk of the network as a whole, in any coding that is installed and as many layers as the
server names. Only gzip is asked for; deflate is read too, in both forms that go by the name.

Read with: ``http.py`` (the caller), ``tests/llm/test_inflate.py``.
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

from unspool.kernel.errors import ModelError, PartialStreamError

ASKED_FOR: Final = "gzip"
PIECE_BYTES: Final = 64 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_READ: Final = frozenset({"gzip", "x-gzip", "deflate"})
_MAGIC: Final = 0x1F  # a gzip member begins with it


class Inflater:
    """Chunks in, pieces of at most ``PIECE_BYTES`` out; ``close`` says whether all of it came.

    ``coding`` is the answer's ``content-encoding``. Members of gzip that follow each other are one answer (RFC
    1952, section 2.2); anything else behind the compressed data is dropped.

    Raises:
        ModelError: it is compressed in a way that was not asked for.
    """

    def __init__(self, coding: str) -> None:
        codings = [
            name for part in coding.split(",") if (name := part.strip().lower()) not in ("", "identity")
        ]
        if codings and (len(codings) > 1 or codings[0] not in _READ):
            raise ModelError("provider: the answer is compressed in a way not asked for", coding=coding[:40])
        self._coding = codings[0] if codings else ""
        self._head = b""  # of deflate: its first bytes say which of the two it is
        self._inflate: Any = None  # what reads the member under way
        self._over = False  # what follows is no member

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """What ``chunk`` completes.

        Raises:
            PartialStreamError: it is not what the coding allows.
        """
        if not self._coding:
            yield chunk
            return
        if self._inflate is None:
            chunk = self._begin(chunk)
        inflate: Any = self._inflate
        more = False  # there may be output left of what is already taken in
        while chunk or more:
            if inflate.eof:
                self._over = self._over or self._coding == "deflate" or chunk[0] != _MAGIC
                if self._over:
                    return
                inflate = self._inflate = zlib.decompressobj(_GZIP)
            try:
                piece = inflate.decompress(chunk, PIECE_BYTES)
            except zlib.error as error:
                raise PartialStreamError(f"provider: the answer cannot be decompressed: {error}") from None
            if piece:
                yield piece
            chunk = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            more = len(piece) == PIECE_BYTES and not inflate.eof

    def close(self) -> None:
        """Call it at the end of the body.

        Raises:
            PartialStreamError: more was to come.
        """
        if self._head or (self._inflate is not None and not self._inflate.eof):
            raise PartialStreamError("provider: the compressed answer ended early")

    def _begin(self, chunk: bytes) -> bytes:
        """Choose what reads the data; what is to be read now."""
        if self._coding != "deflate":
            self._inflate = zlib.decompressobj(_GZIP) if chunk else None
            return chunk
        self._head += chunk
        if len(self._head) < 2:
            return b""
        head, self._head = self._head, b""
        is_zlib = head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head[:2], "big") % 31 == 0  # RFC 1950
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        return head
