"""What an item of a Responses answer holds beside what our blocks have room for, and where it is kept.

An answer is a list of items, and the same model is sent them back as they came. Where they are:

====================  =================  =================================================================
item                  block              the rest of the item
====================  =================  =================================================================
``reasoning``         one ``Thinking``   in ``signature``
``function_call``     one ``ToolCall``   in ``thought_signature``
``custom_tool_call``  one ``ToolCall``   in ``thought_signature``; its input, any text, is ``args_text``
``message``           a ``Text`` for     in an ``Opaque`` right after them, of the type ``message_fields``
                      each text part
any other             one ``Opaque``     nothing: ``data`` is the item
====================  =================  =================================================================

The rest is an item in which a text that is in the block is only a number, how many characters it has: an id,
encrypted reasoning, a phase, annotations. Beside it stands the id of the reasoning that the item came
after (``Kept.reasoning``): a provider refuses the id of an item whose reasoning it is not given too.

Read with: ``openai_responses_items.py`` (writes it), ``openai_responses_input.py`` (reads it).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from unspool.kernel.messages import Content, Opaque

FORMAT: Final = "openai-responses"
FIELDS: Final = "message_fields"
TEXT_TYPES: Final = frozenset({"output_text", "text"})
GAP: Final = "\n\n"  # between the texts of one reasoning item
JsonItem: TypeAlias = dict[str, Any]


class Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rest of an item, and the id of the reasoning it came after."""

    item: JsonItem = {}
    reasoning: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


def kept_reasoning(item: JsonItem, shown: str) -> str:
    """The signature of a reasoning item whose texts under the key ``shown`` are in the block."""
    rest = {key: value for key, value in item.items() if key != "type"}
    if isinstance(rest.get(shown), list):
        rest[shown] = [_measured(part) for part in rest[shown]]
    return _encode(Kept(item=rest)).decode()


def kept_call(item: JsonItem, reasoning: str) -> str | None:
    """The signature of a call; None where there is nothing to keep."""
    known = ("call_id", "name", "arguments", "input")
    rest = {key: value for key, value in item.items() if key not in known and value is not None}
    if rest.get("type") == "function_call":
        del rest["type"]
    return _encode(Kept(item=rest, reasoning=reasoning)).decode() if rest else None


def kept_message(item: JsonItem, reasoning: str) -> Opaque | None:
    """The block that follows the texts of a message; None where there is nothing to keep."""
    rest = {key: value for key, value in item.items() if key not in ("type", "role") and value is not None}
    parts = rest.pop("content", None) or []
    if not rest and not any(isinstance(part, dict) and _says_more(part) for part in parts):
        return None
    rest["content"] = [_measured(part) for part in parts]
    data = {"type": FIELDS, "item": rest}
    return Opaque(provider=FORMAT, data=data | ({"reasoning": reasoning} if reasoning else {}))


def is_fields(block: Content) -> bool:
    """Whether a block is the rest of the message whose texts stand before it."""
    return (
        type(block) is Opaque
        and block.provider == FORMAT
        and isinstance(block.data, dict)
        and block.data.get("type") == FIELDS
    )


def fields_of(block: Opaque) -> Kept | None:
    """What such a block holds; None where it was changed beyond use."""
    item, reasoning = block.data.get("item"), block.data.get("reasoning", "")
    usable = isinstance(item, dict) and isinstance(reasoning, str)
    return Kept(item=item, reasoning=reasoning) if usable else None


def kept_of(signature: str | None) -> Kept | None:
    """What a signature holds; None for one that is not of this format."""
    if not signature:
        return None
    try:
        return _decode(signature)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def filled(parts: Any, text: str, gap: str = "") -> list[Any] | None:
    """Parts with their texts again, cut out of ``text``; None where they are not what is missing.

    >>> filled([{"text": 2}, {"text": 1}], "ab-c", "-")
    [{'text': 'ab'}, {'text': 'c'}]
    """
    if not isinstance(parts, list):
        return None
    lengths = [part["text"] if _is_measured(part) else 0 for part in parts]
    texts = list(_cut(text, lengths, gap))
    if [len(each) for each in texts] != lengths or gap.join([each for each in texts if each]) != text:
        return None
    return [
        {**part, "text": each} if _is_measured(part) else part
        for part, each in zip(parts, texts, strict=True)
    ]


def _cut(text: str, lengths: Sequence[int], gap: str) -> Iterator[str]:
    at = 0
    for length in lengths:
        start = at + len(gap) if at and length else at
        yield text[start : start + length]
        at = start + length


def _measured(part: Any) -> Any:
    text = part.get("text") if isinstance(part, dict) else None
    return {**part, "text": len(text)} if isinstance(text, str) else part


def _is_measured(part: Any) -> bool:
    return isinstance(part, dict) and type(part.get("text")) is int and part["text"] >= 0


def _says_more(part: JsonItem) -> bool:
    """Whether a part holds more than its text."""
    kind = part.get("type")
    return not (isinstance(kind, str) and kind in TEXT_TYPES) or any(
        value for key, value in part.items() if key not in ("type", "text")
    )
