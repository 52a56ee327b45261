"""One item of a Responses answer as far as it has come, and what the JSON of items says.

Read with: ``openai_responses_items.py`` (the caller), ``openai_responses_kept.py``.
"""

from typing import Any, Final

import msgspec

from .openai_responses_kept import TEXT_TYPES, JsonItem

MESSAGE: Final = "message"
REASONING: Final = "reasoning"
CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}  # and where their arguments are
STRIDE: Final = 1000
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Item:
    """One item as far as it has come; ``block`` is the index of its first block."""

    __slots__ = ("annotations", "announced", "block", "data", "id", "kind", "said", "shown", "slots")

    def __init__(self, kind: str, id: str, block: int) -> None:
        self.kind = kind
        self.id = id
        self.block = block
        self.announced: JsonItem = {}
        self.data: JsonItem | None = None  # the whole item, once it came
        self.slots: dict[tuple[str, int], list[str]] = {}  # the pieces of each text
        self.shown = ""  # which of a reasoning item's texts are its thinking: the first that come
        self.annotations: list[tuple[int, Any]] = []
        self.said: set[str] = set()  # id and name of a call, each once; or the block

    @property
    def call_id(self) -> str:
        return id_of(self.best, "call_id")

    @property
    def name(self) -> str:
        return word_of(self.best, "name")

    @property
    def best(self) -> JsonItem:
        """The item as whole as it came."""
        return self.announced if self.data is None else self.data

    def text(self, slot: str) -> str:
        """All texts of one kind."""
        keys = sorted([key for key in self.slots if key[0] == slot])
        return "".join([piece for key in keys for piece in self.slots[key]])


def whole_of(item: Item) -> JsonItem:
    """The item as the provider wants it back: what only came in pieces or events is put into it."""
    data = dict(item.best)
    if item.id:
        data.setdefault("id", item.id)
    if item.kind == REASONING:
        for slot, kind in (("content", "reasoning_text"), ("summary", "summary_text")):
            if not data.get(slot) and (texts := _texts(item, slot)):
                data[slot] = [{"type": kind, "text": text} for _, text in texts]
        data.setdefault("summary", [])
    elif item.kind == MESSAGE:
        parts = parts_of(data, "content") or [
            {"type": "output_text", "text": text} for _, text in _texts(item, "text")
        ]
        data["content"] = _annotated(parts, item.annotations)
    return data


def _annotated(parts: list[JsonItem], annotations: list[tuple[int, Any]]) -> list[JsonItem]:
    """Parts with the annotations that came for them in events, each once."""
    parts = list(parts)
    known: dict[int, set[bytes]] = {}
    for index, annotation in annotations:
        if index >= len(parts):
            continue
        if index not in known:
            given = parts[index].get("annotations")
            given = list(given) if isinstance(given, list) else []
            parts[index] = {**parts[index], "annotations": given}
            known[index] = {_encode(each) for each in given}
        if (code := _encode(annotation)) not in known[index]:
            known[index].add(code)
            parts[index]["annotations"].append(annotation)
    return parts


def _texts(item: Item, slot: str) -> list[tuple[int, str]]:
    return sorted([(key[1], "".join(pieces)) for key, pieces in item.slots.items() if key[0] == slot])


def parts_of(data: JsonItem, key: str) -> list[JsonItem]:
    """The parts under a key; a plain string is one."""
    value = data.get(key)
    if isinstance(value, str):
        return [{"type": "output_text", "text": value}] if value else []
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def slot_of(part: JsonItem) -> str:
    """Of which of a message's texts a part is; '' for none."""
    kind = word_of(part, "type")
    return "text" if kind in TEXT_TYPES else "refusal" if kind == "refusal" else ""


def kind_of(data: JsonItem) -> str:
    """What an item is; a message may not say it."""
    return word_of(data, "type") or (MESSAGE if "content" in data else "unknown")


def id_of(data: JsonItem, key: str = "id") -> str:
    """An id, which some servers give as a number."""
    value = data.get(key)
    return str(value) if type(value) is int else word_of(data, key)


def word_of(data: JsonItem, key: str) -> str:
    """A text, or an empty one where there is something else."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def block_of(item: Item) -> int:
    """By which items are in the order of the answer."""
    return item.block
