"""What of a reply may go back to the model that is asked now: whoever else made it, its opaque parts stay out.

A reply says in ``origin`` which format and model made it. Thinking of another one cannot be sent as thinking,
since its signature is nothing to this provider: it becomes text between tags, or is left out
(``CallOptions.drop_reasoning``). A block that only its provider understands is left out, with a warning.

Read with: ``unspool.kernel.messages`` (``Thinking``, ``Opaque``), the ``*_request.py`` files (the callers).
"""

import warnings
from typing import Any, Final

from unspool.kernel.messages import Document, Image, Message, Opaque, Text, Thinking

_KEPT: Final = ("message_fields", "reasoning_details")
_SOURCES: Final = ("citations", "annotations")
_OPEN: Final = "<thinking>\n"
_CLOSE: Final = "\n</thinking>"


class ModelWarning(UserWarning):
    """A model was asked otherwise than was wished, or than before, because that could not be done."""


class LeftOutWarning(ModelWarning):
    """Something of the conversation was not sent, because this provider does not understand it."""


def origin_of(format: str, model: str) -> str:
    """What ``Message.origin`` says of the replies of a model."""
    return f"{format}:{model}"


def is_of_format(message: Message, format: str) -> bool:
    """Whether a reply was made in this format, or by hand, which is taken at its word."""
    return not message.origin or message.origin.startswith(f"{format}:")


def is_of_provider(message: Message, format: str, name: str) -> bool:
    """Whether a reply was made by a model of the same provider in this format, or by hand."""
    provider = name.partition("/")[0]
    return not message.origin or message.origin.startswith(f"{format}:{provider}/")


def is_of_model(message: Message, format: str, model: str) -> bool:
    """Whether a reply was made by this very model, or by hand."""
    return not message.origin or message.origin == origin_of(format, model)


def thinking_as_text(block: Thinking, *, drop: bool) -> Text | None:
    """Thinking that cannot go back as what it is; None where nothing is left of it."""
    return None if drop or not block.text.strip() else Text(f"{_OPEN}{block.text.strip()}{_CLOSE}")


def warn_left_out(block: Opaque | Image | Document, format: str) -> None:
    """Say that a block of another provider is not sent, or a file in a reply where those have none; not of one that
    only kept what its provider wants back."""
    if type(block) is Opaque:
        if is_bookkeeping(block.data):
            return
        kind = block.data.get("type", "block") if isinstance(block.data, dict) else "block"
        what = f"a {kind!r} of {block.provider or 'an unknown provider'}"
    else:
        what = f"the {type(block).__name__.lower()} in a reply"
    warnings.warn(f"{what} is not sent in {format}", LeftOutWarning, stacklevel=2)


def is_bookkeeping(data: Any) -> bool:
    """Whether a block beside another one holds nothing that people or other models could read: ids, signatures.

    Sources (``citations``, ``annotations``) are something to read, and so are the words of reasoning.
    """
    if not isinstance(data, dict):
        return False
    kind = data.get("type")
    named = isinstance(kind, str) and (kind.startswith("fields_of_") or kind in _KEPT)
    signed = not data.keys() - {"text", "thoughtSignature"} and not data.get("text")
    return (named or signed) and not _has_words(data.get("reasoning_details")) and not _has_sources(data)


def _has_words(details: Any) -> bool:
    dicts = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return any(detail.get("text") or detail.get("summary") for detail in dicts)


def _has_sources(value: Any) -> bool:
    """Without recursion: a reply may be nested as deep as JSON can be read."""
    left = [value]
    while left:
        match left.pop():
            case dict() as each:
                if any(each.get(key) for key in _SOURCES):
                    return True
                left += each.values()
            case list() as each:
                left += each
    return False
