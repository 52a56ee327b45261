"""Which items of the stream the items of the last event are, that holds all of them once more.

They are matched by id, call id, place, and kind, each to one item. Of those alike the first is taken.

Read with: ``openai_responses_items.py`` (the caller).
"""

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from .openai_responses_item import STRIDE, Item, block_of, id_of, kind_of
from .openai_responses_kept import JsonItem

_Key: TypeAlias = tuple[str, str | bool]


class UnmatchedItems:
    """Items of the stream that were not matched yet; ``ids`` are all those of the last event."""

    __slots__ = ("_by_block", "_by_call_id", "_by_id", "_ids", "_others", "_taken")

    def __init__(self, items: Iterable[Item], ids: set[str]) -> None:
        self._ids = ids
        self._taken: set[int] = set()  # their blocks
        self._by_block: dict[int, Item] = {}
        self._by_id: dict[_Key, deque[Item]] = {}
        self._by_call_id: dict[_Key, deque[Item]] = {}
        self._others: dict[_Key, deque[Item]] = {}  # without such an id, by kind; and those without a call id
        for item in sorted(items, key=block_of):
            self._by_block[item.block] = item
            for id in {item.id, id_of(item.best)}:
                self._by_id.setdefault((item.kind, id), deque()).append(item)
            self._by_call_id.setdefault((item.kind, item.call_id), deque()).append(item)
            for called in (True, False):
                if self._is_other(item, called):
                    self._others.setdefault((item.kind, called), deque()).append(item)

    def take(self, data: JsonItem, place: int) -> Item | None:
        """The item that ``data``, at ``place`` in the last event, is; it is not given again."""
        kind, id, call_id = kind_of(data), id_of(data), id_of(data, "call_id")
        item = self._first(self._by_id.get((kind, id))) if id else None
        if item is None and call_id:
            item = self._first(self._by_call_id.get((kind, call_id)))
        if item is None:
            item = self._at(place, kind, bool(call_id)) or self._first(
                self._others.get((kind, bool(call_id)))
            )
        if item is not None:
            self._taken.add(item.block)
        return item

    def _is_other(self, item: Item, called: bool) -> bool:
        """Whether neither an id says which item it is, nor a call id, should the one that is looked for have one."""
        return item.id not in self._ids and not (called and item.call_id)

    def _at(self, place: int, kind: str, called: bool) -> Item | None:
        item = self._by_block.get(place * STRIDE)
        if item is None or item.block in self._taken or item.kind != kind:
            return None
        return item if self._is_other(item, called) else None

    def _first(self, items: deque[Item] | None) -> Item | None:
        while items and items[0].block in self._taken:
            items.popleft()
        return items[0] if items else None
