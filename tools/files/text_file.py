"""The bytes of a text file as text, and back again without a change to what was not edited.

UTF-8 with or without a byte order mark, and UTF-16 and UTF-32 with one, are text. Bytes that are not UTF-8 (Latin-1
for instance) become lone surrogates (``surrogateescape``), which turn into the same bytes again.
Pure functions. Read with: ``workspace.py``.
"""

import codecs
import re
from typing import Final, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import looks_binary

_BOMS: Final = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE: Final = tuple(mark for mark, encoding in _BOMS if encoding != "utf-8")
_BOM_CHAR: Final = "\ufeff"
_SAMPLE: Final = 8192
_NEWLINE: Final = re.compile(r"\r\n|\n|\r")


class NotTextError(ToolError):
    """The file is not text, or not such that it could be written back exactly."""


class TextFile(NamedTuple):
    """Text as it is in a file: without its byte order mark, with its own newlines."""

    text: str = ""
    encoding: str = "utf-8"
    bom: bytes = b""

    @property
    def newline(self) -> str:
        r"""The first newline of the text: ``\n``, ``\r\n`` or ``\r``; ``\n`` where there is none."""
        found = _NEWLINE.search(self.text)
        return found[0] if found else "\n"

    @property
    def is_utf8(self) -> bool:
        """Whether it is UTF-8 throughout."""
        return self.encoding == "utf-8" and not _has_surrogates(self.text)

    def encode(self, text: str) -> bytes:
        """``text`` in the encoding of this file, with its byte order mark.

        A mark that ``text`` itself begins with is not doubled. Bytes that were not UTF-8 become themselves again.

        Raises:
            ToolError: ``text`` holds half a surrogate pair, or could not be read again as text.
        """
        if self.bom:
            text = text.removeprefix(_BOM_CHAR)
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        if "\0" in text or looks_binary(text[:_SAMPLE].encode(errors="replace")[:_SAMPLE]):
            raise ToolError(
                "the text can't be stored: it has a NUL, or many control characters, and would be taken for binary"
            )
        try:
            return self.bom + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            code = f"U+{ord(text[error.start]):04X}"
            raise ToolError(f"the text can't be stored: {code} is half a surrogate pair") from error


def is_wide(start: bytes) -> bool:
    """Whether a file that begins so has a mark of UTF-16 or UTF-32."""
    return start.startswith(_WIDE)


def decode(data: bytes) -> TextFile:
    """``data`` as text.

    Raises:
        NotTextError: it is binary, or has a mark of UTF-16 or UTF-32 and is not valid.
    """
    bom, encoding = next(((b, e) for b, e in _BOMS if data.startswith(b)), (b"", "utf-8"))
    body = data[len(bom) :]
    if encoding == "utf-8":
        if b"\0" in body or looks_binary(body[:_SAMPLE]):
            raise NotTextError("is a binary file, not text")
        return TextFile(body.decode("utf-8", "surrogateescape"), encoding, bom)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        raise NotTextError(f"begins like {encoding[:-3].upper()} text and is not valid") from error
    if "\0" in text:
        raise NotTextError("is a binary file, not text")
    return TextFile(text, encoding, bom)


def in_newlines_of(old: str, new: str) -> str:
    r"""``new`` with the newlines of ``old``, if those are all ``\r\n`` and those of ``new`` all ``\n``."""
    crlf = old.count("\r\n")
    if not crlf or old.count("\n") != crlf or old.count("\r") != crlf or "\r" in new:
        return new
    return new.replace("\n", "\r\n")


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
