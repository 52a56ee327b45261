"""The bytes of a response: unpacked and decoded in bounded memory. Pure functions."""

import codecs
import re
import zlib

from unspool.kernel.errors import ToolError

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_:.-]{1,40})[\"']", re.IGNORECASE)
_PRESCAN = 1024  # bytes of HTML that may say its charset (WHATWG HTML, 13.2.3.2)
_LATIN = {
    "ascii",
    "us-ascii",
    "iso-8859-1",
    "latin-1",
    "latin1",
}  # the web means windows-1252 (WHATWG Encoding)
_NOT_CHARSETS = {"idna", "punycode", "undefined", "utf-7", "unicode-escape", "raw-unicode-escape"}


class Unpacker:
    """A body as it comes over the wire, made what it stands for; never more than ``limit`` bytes are kept.

    Raises:
        ToolError: ``encoding``, the ``Content-Encoding``, is none that is known.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        self._packed = encoding.strip().lower() not in ("", "identity")
        if self._packed and encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
            raise ToolError(f"the server packs its answer in a way that is not known: {encoding[:40]!r}")
        self._limit = limit
        self._header = b""  # the first two bytes, which say what follows
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its header
        self.data = bytearray()
        self.is_cut = False

    def feed(self, raw: bytes) -> bool:
        """Take the next bytes; whether more are wanted."""
        try:
            data = self._unpacked(raw) if self._packed else raw
        except zlib.error:
            raise ToolError("the server's answer is damaged: it can't be unpacked") from None
        room = self._limit - len(self.data)
        self.is_cut = self.is_cut or len(data) > room
        self.data += data[:room]
        return not self.is_cut

    def finish(self) -> None:
        """No more comes.

        Raises:
            ToolError: there should be more.
        """
        if self._packed and self._header and not self._inflate.eof:
            raise ToolError("the server's answer is damaged: it ends too early")

    def _unpacked(self, raw: bytes) -> bytes:
        wanted = self._limit - len(self.data) + 1  # one more tells that there is more
        before, self._header = self._header, (self._header + raw)[:2]
        try:
            data = self._inflate.decompress(raw, wanted)
        except zlib.error:
            if len(before) == 2:
                raise
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers mean this by deflate
            data = self._inflate.decompress(before + raw, wanted)
        while self._inflate.eof and self._inflate.unused_data and len(data) < wanted:
            rest = self._inflate.unused_data  # gzip may have several parts
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
            data += self._inflate.decompress(rest, wanted - len(data))
        return data


def decoded(data: bytes, charset: str, *, is_html: bool = False) -> tuple[str, str]:
    """The text, and the charset it was read in: that of the BOM, the header, the document, else UTF-8.

    What is not text in that charset becomes U+FFFD.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(name, errors="replace"), name
    in_document = _META.search(data[:_PRESCAN]) if is_html else _XML.search(data[:_PRESCAN])
    for label in (charset, in_document[1].decode() if in_document else ""):
        name = _known(label)
        if name:
            return data.decode(name, errors="replace"), name
    return data.decode(errors="replace"), "utf-8"


def _known(label: str) -> str:
    """Python's name of a charset, ``""`` where it has none."""
    label = label.strip().strip("\"'").lower()
    if label in _LATIN:
        return "cp1252"
    try:
        name = codecs.lookup(label).name if label else ""
        "".encode(name or "utf-8")  # refuses codecs that are not of text
    except (LookupError, ValueError):
        return ""
    return "" if name.replace("_", "-") in _NOT_CHARSETS else name
