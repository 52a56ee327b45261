"""What the request at hand shows, kept from one request to the next at the cost of what changes.

Read with: ``metrics.py`` (the caller), ``items.py``.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from unspool.kernel.events import CompactionStep
from unspool.kernel.messages import AgentMessage, ContextDemand, ContextItem

from .items import ContextReader
from .marks import kind_of, mark_of
from .prefix import shared

_CONTENT: Final = "full"  # the representation in which an item is there to be used


class Dropped(Struct, frozen=True, kw_only=True):
    """A message that request ``call`` no longer shows as the one before did, and the step that did it."""

    call: int
    id: str
    role: str
    items: tuple[ContextItem, ...]
    by: str


class Change(NamedTuple):
    """A view against the one before: which messages came, which went."""

    view: Sequence[AgentMessage]
    added: list[AgentMessage]
    removed: list[AgentMessage]


class _Stretch(NamedTuple):
    """A message that was shown from one request up to another, and the tokens it took in each."""

    message: AgentMessage
    tokens: int
    first: int
    last: int


class Shown:
    """The messages shown, their items and ids."""

    def __init__(self, tokens: Callable[[AgentMessage], int], reader: ContextReader) -> None:
        self.reader = reader
        self._tokens = tokens
        self._view: Sequence[AgentMessage] = ()
        self._since: dict[int, tuple[AgentMessage, int]] = {}  # of messages with items
        self._items: Counter[tuple[str, str]] = Counter()  # kind and identity of what is there in full
        self._ids: Counter[str] = Counter()
        self._inventory: Counter[str] = Counter()
        self._stretches: list[_Stretch] = []
        self._needed: dict[tuple[str, str], int] = {}  # kind and identity → the last request that needed it

    @property
    def inventory(self) -> dict[str, int]:
        """How many items are shown in each representation."""
        return {key: count for key, count in sorted(self._inventory.items()) if count}

    def change(self, view: Sequence[AgentMessage]) -> Change:
        """What ``view`` shows that is not shown yet, and the other way round; messages are known by identity."""
        kept, identical = shared(self._view, view)
        old, new = self._view[kept:], view[kept:]
        if not identical:  # made anew, and the same: those at hand stand for them
            view = [*self._view[:kept], *new]
        if not old:
            return Change(view, list(new), [])
        stay, were = {id(each) for each in new}, {id(each) for each in old}
        return Change(
            view,
            [each for each in new if id(each) not in were],
            [each for each in old if id(each) not in stay],
        )

    def take(self, change: Change, call: int, steps: Sequence[CompactionStep]) -> tuple[Dropped, ...]:
        """Show another view from request ``call`` on; what it no longer shows."""
        for message in change.removed:
            self._remove(message, call)
        for message in change.added:
            self._add(message, call)
        self._view = change.view
        return self._dropped(change, call, steps) if change.removed else ()

    def has(self, demand: ContextDemand) -> bool:
        """Whether what is demanded is there."""
        if demand.kind == "id":
            return self._ids[demand.identity] > 0
        return self._items[demand.kind, demand.identity] > 0

    def need(self, demand: ContextDemand, call: int) -> None:
        """Note that the reply to request ``call`` needed something."""
        self._needed[demand.kind, demand.identity] = call

    def tokens_of_items(self, calls: int) -> tuple[int, int]:
        """Tokens of the messages with items in all requests, and of those that were needed then or later."""
        shown = [
            _Stretch(message, self._tokens(message), first, calls) for message, first in self._since.values()
        ]
        total = needed = 0
        for message, tokens, first, last in (*self._stretches, *shown):
            total += tokens * (last - first + 1)
            needed += tokens * max(0, min(last, self._last_need(message)) - first + 1)
        return total, needed

    def _last_need(self, message: AgentMessage) -> int:
        keys = [(item.kind, item.identity) for item in self.reader.items(message)]
        keys += [("id", id) for id in self.reader.ids(message)]
        return max([self._needed.get(key, 0) for key in keys], default=0)

    def _add(self, message: AgentMessage, call: int) -> None:
        items = self.reader.items(message)
        if items:
            self._since[id(message)] = (message, call)
        self._count(message, items, 1)

    def _remove(self, message: AgentMessage, call: int) -> None:
        items = self.reader.items(message)
        since = self._since.pop(id(message), None)  # None: without items, or shown twice and counted
        if since is not None:
            self._stretches.append(_Stretch(message, self._tokens(message), since[1], call - 1))
        self._count(message, items, -1)

    def _count(self, message: AgentMessage, items: Sequence[ContextItem], by: int) -> None:
        for item in items:
            self._inventory[item.representation] += by
            if item.representation == _CONTENT:
                self._items[item.kind, item.identity] += by
        for id in self.reader.ids(message):
            self._ids[id] += by

    def _dropped(self, change: Change, call: int, steps: Sequence[CompactionStep]) -> tuple[Dropped, ...]:
        named = {str(mark_of(each).get("of", "")): kind_of(each) for each in change.added if kind_of(each)}
        strategies = list(dict.fromkeys([step.strategy for step in steps]))
        made: list[Dropped] = []
        for message in change.removed:
            id = str(getattr(message, "id", ""))
            kind = named.get(id) if id else None
            by = strategies[0] if len(strategies) == 1 else (kind or ", ".join(strategies))
            made.append(Dropped(call=call, id=id, role=message.role, items=self.reader.items(message), by=by))
        return tuple(made)
