"""Puts the items of a Responses answer together from the events that servers send.

The format says: an item is announced (``added``), its texts come in pieces (``delta``) and once more whole
(``done``), then the item comes whole, and the last event holds all items again. Servers leave out any of
these, and indexes or ids. The rules:

1. An event belongs to the item of its id, else to the one at its index (some gateways give an item another
   id in each event), else to the last of its kind that is not done. Else it begins an item.
2. What comes whole adds what the pieces lack. Text that differs from the pieces is not taken: they are out.
   Arguments that differ are passed on and make the call invalid: half of it is never run.
3. The items of the last event are matched by id, call id, place, and kind, each to one item.
4. Blocks are in the order of the items: an item's blocks have the indexes from ``STRIDE`` times its place on.

Read with: ``openai_responses_stream.py`` (the caller), ``openai_responses_kept.py``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import Opaque
from unspool.kernel.ports import BlockEvent, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

from .openai_responses_kept import (
    FORMAT,
    GAP,
    TEXT_TYPES,
    JsonItem,
    kept_call,
    kept_message,
    kept_reasoning,
)
from .sse import EventTooLargeError
from .wire_ids import made_up_id

MESSAGE: Final = "message"
REASONING: Final = "reasoning"
CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}  # and where their arguments are
STRIDE: Final = 1000
MAX_ITEMS: Final = 10_000  # of an answer: more is a runaway
_MAX_PLACE: Final = 1_000_000
_LAST: Final = STRIDE - 1  # of a message's blocks: what it holds beside its texts


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
        return _id(self.best, "call_id")

    @property
    def name(self) -> str:
        return _word(self.best, "name")

    @property
    def best(self) -> JsonItem:
        """The item as whole as it came."""
        return self.announced if self.data is None else self.data

    def text(self, slot: str) -> str:
        """All texts of one kind."""
        keys = sorted([key for key in self.slots if key[0] == slot])
        return "".join([piece for key in keys for piece in self.slots[key]])


class ItemAssembler:
    """Events in, deltas out. ``items`` is in the order of the answer only after ``finish``."""

    __slots__ = ("_by_id", "_by_place", "_next", "_undone", "items")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_place: dict[int, Item] = {}
        self._next = 0  # the place after all others
        # Items by kind, as they began, and again those without an id; the last of each is seldom done.
        self._undone: dict[tuple[str, bool], list[Item]] = {}

    def find(self, kind: str, id: str | None, place: int | None) -> Item:
        """The item an event is about; see rule 1."""
        if id and (item := self._by_id.get(id)) is not None and item.kind == kind:
            return item
        item = self._by_place.get(place) if place is not None else None
        if item is not None and item.kind == kind and (item.data is None or not id):
            return item
        if item is not None or place is None:
            undone = self._undone.get((kind, bool(id)), [])
            while undone and undone[-1].data is not None:
                undone.pop()
            if undone:
                return undone[-1]
        return self._open(kind, id or "", place)

    def announce(self, data: JsonItem, place: int | None) -> Iterator[StreamEvent]:
        """An item begins."""
        id, kind = _id(data), _kind(data)
        item = self._by_id.get(id) if id else None
        if item is None or item.kind != kind:
            item = self._open(kind, id, place)
        item.announced = data
        yield from _named(item)

    def add(self, item: Item, slot: str, index: int, text: str) -> Sequence[StreamEvent]:
        """New characters of one of an item's texts."""
        if not text:
            return ()
        pieces = item.slots.get((slot, index))
        if pieces is None:
            pieces = item.slots[slot, index] = []
        pieces.append(text)
        if slot == "text":
            return (TextDelta(text, item.block + min(index, _LAST - 1)),)
        if slot in ("content", "summary"):
            if item.shown and item.shown != slot:
                return ()
            follows = len(pieces) == 1 and item.shown
            item.shown = slot
            return (ThinkingDelta((GAP if follows else "") + text, item.block),)
        return () if slot == "refusal" else (ToolCallDelta(item.block, args=text),)

    def complete(self, item: Item, slot: str, index: int, whole: str) -> Iterator[StreamEvent]:
        """What the pieces of a text lack, now that the whole of it came; see rule 2."""
        known = "".join(item.slots.get((slot, index), ()))
        if whole.startswith(known):
            if rest := whole[len(known) :]:
                yield from self.add(item, slot, index, rest)
        elif slot in ("arguments", "input") and not _same_json(known, whole):
            yield from self.add(item, slot, index, whole)

    def take(self, data: JsonItem, place: int | None) -> Iterator[StreamEvent]:
        """An item came whole."""
        kind, id = _kind(data), _id(data)
        item = self.find(kind, id, place)
        if item.data is not None and not (id and item.id == id):
            item = self._open(kind, id, place)
        yield from self._fill(item, data)

    def take_all(self, output: list[Any]) -> Iterator[StreamEvent]:
        """All items came once more; see rule 3."""
        whole = [data for data in output if isinstance(data, dict)]
        ids = {id for data in whole if (id := _id(data))}
        left = sorted(self.items, key=_block)
        for place, data in enumerate(whole):
            item = _match(data, place, left, ids)
            if item is None:
                item = self._open(_kind(data), _id(data), place)
            else:
                left.remove(item)
            yield from self._fill(item, data)

    def finish(self, seed: str) -> Iterator[StreamEvent]:
        """The last deltas: what only the announcements said, and what is kept beside the blocks.

        ``seed`` tells this answer from others, so that made-up ids differ between answers.
        """
        self.items.sort(key=_block)
        reasoning = ""
        for item in self.items:
            if item.data is None:
                yield from self._fill(item, item.announced or {"type": item.kind})
            data = _whole(item)
            if item.kind == REASONING:
                reasoning = _id(data)
                yield ThinkingDelta("", item.block, signature=kept_reasoning(data, item.shown or "summary"))
            elif item.kind == MESSAGE:
                if (fields := kept_message(data, reasoning)) is not None:
                    yield BlockEvent(fields, item.block + _LAST)
            elif item.kind in CALLS:
                id = "" if item.call_id else item.id or made_up_id(f"{seed}/{item.block}")
                kept = kept_call(data, reasoning)
                if id or kept is not None:
                    yield ToolCallDelta(item.block, id=id, thought_signature=kept)

    def _open(self, kind: str, id: str, place: int | None) -> Item:
        if len(self.items) == MAX_ITEMS:
            raise EventTooLargeError("provider: the answer has too many items", max_items=MAX_ITEMS)
        if place is None or not 0 <= place < _MAX_PLACE or place in self._by_place:
            place = self._next
        self._next = max(self._next, place + 1)
        item = Item(kind, id, place * STRIDE)
        self.items.append(item)
        self._by_place[place] = item
        self._undone.setdefault((kind, False), []).append(item)
        if not id:
            self._undone.setdefault((kind, True), []).append(item)
        if id:
            self._by_id[id] = item
        return item

    def _fill(self, item: Item, data: JsonItem) -> Iterator[StreamEvent]:
        if data == item.data:
            return
        known = item.data or {}
        item.data = known | {
            key: value for key, value in data.items() if key not in known or value not in (None, "", [])
        }
        if item.kind == MESSAGE:
            parts = _parts(data, "content")
            for slot, key in (("text", "text"), ("refusal", "refusal")):
                texts = [_word(part, key) if _slot(part) == slot else "" for part in parts]
                yield from self._complete_all(item, slot, texts)
        elif item.kind == REASONING:
            for slot in ("content", "summary"):
                texts = [_word(part, "text") for part in _parts(data, slot)]
                yield from self._complete_all(item, slot, texts)
        elif item.kind in CALLS:
            yield from _named(item)
            slot = CALLS[item.kind]
            yield from self.complete(item, slot, 0, as_text(data.get(slot)))
        elif "block" not in item.said:
            item.said.add("block")
            yield BlockEvent(Opaque(provider=FORMAT, data=data), item.block)

    def _complete_all(self, item: Item, slot: str, texts: list[str]) -> Iterator[StreamEvent]:
        if item.text(slot) == "".join(texts):  # all there, though perhaps under other indexes
            return
        for index, text in enumerate(texts):
            yield from self.complete(item, slot, index, text)


def as_text(value: Any) -> str:
    """Argument text of a value that some servers send as an object."""
    return value if isinstance(value, str) else "" if value is None else encode_text(value)


def _named(item: Item) -> Iterator[StreamEvent]:
    """Id and name of a call, each once."""
    if item.kind not in CALLS:
        return
    id = "" if "id" in item.said else item.call_id
    name = "" if "name" in item.said else item.name
    if id or name:
        item.said |= {word for word, value in (("id", id), ("name", name)) if value}
        yield ToolCallDelta(item.block, id=id, name=name)


def _match(data: JsonItem, place: int, left: list[Item], ids: set[str]) -> Item | None:
    """The item of the stream that an item of the last event is."""
    kind, id, call_id = _kind(data), _id(data), _id(data, "call_id")
    alike = [item for item in left if item.kind == kind]
    for item in alike:
        if id and (item.id == id or _id(item.best) == id):
            return item
    for item in alike:
        if call_id and item.call_id == call_id:
            return item
    others = [item for item in alike if item.id not in ids and not (call_id and item.call_id)]
    at_place = [item for item in others if item.block == place * STRIDE]
    return next(iter(at_place or others), None)


def _whole(item: Item) -> JsonItem:
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
        parts = _parts(data, "content") or [
            {"type": "output_text", "text": text} for _, text in _texts(item, "text")
        ]
        for index, annotation in item.annotations:
            if index < len(parts) and annotation not in (known := parts[index].get("annotations") or []):
                parts[index] = {**parts[index], "annotations": [*known, annotation]}
        data["content"] = parts
    return data


def _texts(item: Item, slot: str) -> list[tuple[int, str]]:
    return sorted([(key[1], "".join(pieces)) for key, pieces in item.slots.items() if key[0] == slot])


def _parts(data: JsonItem, key: str) -> list[JsonItem]:
    """The parts under a key; a plain string is one."""
    value = data.get(key)
    if isinstance(value, str):
        return [{"type": "output_text", "text": value}] if value else []
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _slot(part: JsonItem) -> str:
    kind = part.get("type")
    return "text" if kind in TEXT_TYPES else "refusal" if kind == "refusal" else ""


def _kind(data: JsonItem) -> str:
    return _word(data, "type") or (MESSAGE if "content" in data else "unknown")


def _id(data: JsonItem, key: str = "id") -> str:
    """An id, which some servers give as a number."""
    value = data.get(key)
    return str(value) if type(value) is int else _word(data, key)


def _word(data: JsonItem, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _block(item: Item) -> int:
    return item.block


def _same_json(a: str, b: str) -> bool:
    try:
        return bool(msgspec.json.decode(a) == msgspec.json.decode(b))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
