"""Puts the items of a Responses answer together from the events that servers send.

The format says: an item is announced (``added``), its texts come in pieces (``delta``) and once more whole
(``done``), then the item comes whole, and the last event holds all items again. Servers leave out any of
these, and indexes or ids. The rules:

1. An event belongs to the item of its id, else to the one at its index (some gateways give an item another
   id in each event), else to the last of its kind that is not done. Else it begins an item.
2. What comes whole adds what the pieces lack. Text that differs from the pieces is not taken: they are out.
   Arguments that differ are passed on and make the call invalid: half of it is never run.
3. The items of the last event are matched to those of the stream (``openai_responses_matching.py``).
4. Blocks are in the order of the items: an item's blocks have the indexes from ``STRIDE`` times its place on.

Read with: ``openai_responses_stream.py`` (the caller), ``openai_responses_kept.py``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import Opaque
from unspool.kernel.ports import BlockEvent, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

from .decoder import check_blocks
from .openai_responses_item import (
    CALLS,
    MESSAGE,
    REASONING,
    STRIDE,
    Item,
    block_of,
    id_of,
    kind_of,
    parts_of,
    slot_of,
    whole_of,
    word_of,
)
from .openai_responses_kept import FORMAT, GAP, JsonItem, kept_call, kept_message, kept_reasoning
from .openai_responses_matching import UnmatchedItems
from .wire_ids import made_up_id

_MAX_PLACE: Final = 1_000_000
_LAST: Final = STRIDE - 1  # of a message's blocks: what it holds beside its texts


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
        id, kind = id_of(data), kind_of(data)
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
        kind, id = kind_of(data), id_of(data)
        item = self.find(kind, id, place)
        if item.data is not None and not (id and item.id == id):
            item = self._open(kind, id, place)
        yield from self._fill(item, data)

    def take_all(self, output: list[Any]) -> Iterator[StreamEvent]:
        """All items came once more; see rule 3."""
        whole = [data for data in output if isinstance(data, dict)]
        unmatched = UnmatchedItems(self.items, {id for data in whole if (id := id_of(data))})
        for place, data in enumerate(whole):
            item = unmatched.take(data, place) or self._open(kind_of(data), id_of(data), place)
            yield from self._fill(item, data)

    def finish(self, seed: str) -> Iterator[StreamEvent]:
        """The last deltas: what only the announcements said, and what is kept beside the blocks.

        ``seed`` tells this answer from others, so that made-up ids differ between answers.
        """
        self.items.sort(key=block_of)
        reasoning = ""
        for item in self.items:
            if item.data is None:
                yield from self._fill(item, item.announced or {"type": item.kind})
            data = whole_of(item)
            if item.kind == REASONING:
                reasoning = id_of(data)
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
        check_blocks(len(self.items))
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
            parts = parts_of(data, "content")
            for slot, key in (("text", "text"), ("refusal", "refusal")):
                texts = [word_of(part, key) if slot_of(part) == slot else "" for part in parts]
                yield from self._complete_all(item, slot, texts)
        elif item.kind == REASONING:
            for slot in ("content", "summary"):
                texts = [word_of(part, "text") for part in parts_of(data, slot)]
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


def _same_json(a: str, b: str) -> bool:
    try:
        return bool(msgspec.json.decode(a) == msgspec.json.decode(b))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
