"""Images and documents: of which media type they are, where their data is, and what stands for one that is not sent.

A kind that a provider does not take is refused, and with it every later request of the conversation. So a format
sends a line that says what is missing, with a ``LeftOutWarning``.

Read with: ``anthropic_parts.py``, ``openai_chat_messages.py``, ``openai_responses_input.py``, ``gemini_files.py``.
"""

import base64
import re
import warnings
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from unspool.kernel.json_edge import encodable
from unspool.kernel.messages import Document, Image

from .origins import LeftOutWarning

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # of all but Gemini
PDF: Final = "application/pdf"
_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.IGNORECASE)
_OTHER_NAMES: Final = {  # which are refused
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
}


class Source(NamedTuple):
    """A file: base64 ``data``, or a ``url``. ``kind`` is empty where nothing says it."""

    kind: str
    data: str = ""
    url: str = ""


def source_of(block: Image | Document) -> Source | None:
    """Where a file is; a URL that holds it counts as data. None where there is none.

    >>> source_of(Image(url="data:image/jpg;base64,aGk=")), source_of(Image(data="aGk=", mime_type="Image/PNG; q=1"))
    (Source(kind='image/jpeg', data='aGk=', url=''), Source(kind='image/png', data='aGk=', url=''))
    """
    kind, url = media_type(block.mime_type), block.url or ""
    if block.data:
        return Source(kind, block.data)
    if found := _DATA_URL.match(url):
        data, kind = url[found.end() :], media_type(found.group(1)) or kind
        if found.group(2).rpartition(";")[2].strip().lower() == "base64":
            return Source(kind, data)
        return Source(kind or "text/plain", base64.b64encode(unquote_to_bytes(encodable(data))).decode())
    if type(block) is Image and not kind.startswith("image/"):  # some stores know no kinds
        kind = ""
    return Source(kind, url=url) if url else None


def image_source(block: Image, format: str) -> Source | str | None:
    """An image of a kind that is taken; the line for another; None where there is none."""
    source = source_of(block)
    if source is None:
        return None
    kind = source.kind or ("" if source.url else "image/png")
    if kind and kind not in IMAGES:
        return left_out(block, f"{kind} at {source.url}" if source.url else kind, format)
    return source._replace(kind=kind)


def left_out(block: Image | Document, what: str, format: str) -> str:
    """The line that stands for a file; ``what`` is its kind, and where it is. It is warned of that."""
    kind = type(block).__name__.lower()
    warnings.warn(
        f"the {kind} {what} is not sent in {format}: it is refused there", LeftOutWarning, stacklevel=2
    )
    name = (block.name if type(block) is Document else "") or kind
    return f"{name}: {what}, which cannot be shown here"


def media_type(text: str) -> str:
    """A media type without its parameters, under the name that providers know."""
    kind = text.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def decoded(data: str) -> bytes | None:
    """The bytes of base64 data; None where it is none."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError:
        return None


def text_in(content: bytes | None) -> str | None:
    """The text that bytes are; None where they are none."""
    try:
        text = None if content is None else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if text is None or "\0" in text else text
