"""Parts of a generateContent answer that become blocks of their own, and what is kept beside a block.

The kernel's blocks have no place for some of what a part may say. The signature of a text or an image, and the
other fields of any part (``partMetadata``, or one that does not exist yet), follow its block as an ``Opaque``;
``gemini_contents.py`` joins them to it again.

Read with: ``gemini_stream.py`` (the caller), ``gemini_contents.py``.
"""

from typing import Any, Final

from unspool.kernel.messages import Image, Opaque

from .gemini_wire import FIELDS_OF_PART, FORMAT

OF_WORDS: Final = frozenset({"text", "thought", "thoughtSignature"})  # the fields of a text


def other_fields(part: dict[str, Any]) -> dict[str, Any]:
    """What a part says besides what a text does; null is nothing."""
    return {key: value for key, value in part.items() if key not in OF_WORDS and value is not None}


def image_of(fields: dict[str, Any]) -> Image | None:
    """The image that the fields of a part say, as data or as a file; it is taken out of them."""
    for key, content in (("inlineData", "data"), ("fileData", "fileUri")):
        value = fields.get(key)
        if not isinstance(value, dict):
            continue
        mime, found = value.get("mimeType"), value.get(content)
        if isinstance(mime, str) and mime.startswith("image/") and isinstance(found, str):
            del fields[key]
            is_data = content == "data"
            return Image(data=found, mime_type=mime) if is_data else Image(url=found, mime_type=mime)
    return None


def signature_block(signature: str, *, alone: bool = False) -> Opaque:
    """The signature of the block before, or of a part that is nothing else."""
    data = {"text": "", "thoughtSignature": signature} if alone else {"thoughtSignature": signature}
    return Opaque(provider=FORMAT, data=data)


def fields_block(fields: dict[str, Any]) -> Opaque:
    """Other fields of the block before."""
    return Opaque(provider=FORMAT, data={**fields, "type": FIELDS_OF_PART})
