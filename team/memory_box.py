"""One box in memory: which letter is next, and to whom.

1. The letters of a sender are a line. A line with letters that wait is in ``_heads`` by the number of its first one;
   entries there that a line has moved on from are dropped when they come up.
2. A line is out to one reader at a time, see ``Mailbox``.
3. No step depends on how many letters the box has seen, only on how many it holds.

Read with: ``memory_mailbox.py`` (who waits, and for what).
"""

from bisect import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Literal

from .letters import DeadLetter, Delivery, Letter
from .mailbox import KEPT_IDS, BoxInfo


class _Entry:
    """A letter that is not acknowledged. ``until`` is when its lease is over; 0 while it waits."""

    __slots__ = ("attempt", "letter", "number", "until")

    def __init__(self, letter: Letter, number: int) -> None:
        self.letter = letter
        self.number = number
        self.attempt = 0
        self.until = 0.0


class _Line:
    """The letters of one sender: those that wait, how many are out, and to whom."""

    __slots__ = ("out", "reader", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Entry] = deque()
        self.out = 0
        self.reader = ""


class MemoryBox:
    """What lies in a box. No lease is over before ``next_expiry``; it was closed ``closings`` times."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.state: Literal["busy", "resting", "closed"] = "busy"
        self.out = 0
        self.next_expiry = inf
        self.closings = 0
        self._number = 0
        self._entries: dict[str, _Entry] = {}  # in the order of their numbers
        self._lines: dict[str, _Line] = {}
        self._heads: list[tuple[int, str]] = []
        self._seen: set[str] = set()
        self._seen_order: deque[str] = deque()

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= self.capacity

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def info(self) -> BoxInfo:
        return BoxInfo(
            name=self.name,
            state=self.state,
            waiting=len(self._entries) - self.out,
            out=self.out,
            capacity=self.capacity,
        )

    def knows(self, id: str) -> bool:
        """Whether a letter with that id was accepted."""
        return id in self._seen or id in self._entries

    def put(self, letter: Letter) -> None:
        """Take in a letter that is new; the box is busy then."""
        self._number = number = self._number + 1
        self._entries[letter.id] = entry = _Entry(letter, number)
        line = self._lines.get(letter.sender)
        if line is None:
            line = self._lines[letter.sender] = _Line()
        if not line.waiting:
            heappush(self._heads, (number, letter.sender))
        line.waiting.append(entry)
        self.state = "busy"
        self._seen.add(letter.id)
        self._seen_order.append(letter.id)
        if len(self._seen_order) > KEPT_IDS:
            self._seen.discard(self._seen_order.popleft())

    def take(self, reader: str, limit: int, until: float) -> list[Delivery]:
        """The next letters for a reader, which are out to it then."""
        taken: list[Delivery] = []
        heads, passed = self._heads, []
        while heads and len(taken) < limit:
            head = heappop(heads)
            number, sender = head
            line = self._lines.get(sender)
            if line is None or not line.waiting or line.waiting[0].number != number:
                continue
            if line.out and line.reader != reader:
                passed.append(head)
                continue
            self._take_from(line, taken, limit, until, heads[0][0] if heads else inf)
            line.reader = reader
            if line.waiting:
                heappush(heads, (line.waiting[0].number, sender))
        for head in passed:
            heappush(heads, head)
        if taken:
            self.state = "busy"
            self.out += len(taken)
            self.next_expiry = min(self.next_expiry, until)
        return taken

    def _take_from(self, line: _Line, taken: list[Delivery], limit: int, until: float, before: float) -> None:
        """Take from a line as long as no other has an earlier letter."""
        waiting = line.waiting
        while waiting and waiting[0].number <= before and len(taken) < limit:
            entry = waiting.popleft()
            entry.until = until
            entry.attempt += 1
            line.out += 1
            taken.append(Delivery(letter=entry.letter, number=entry.number, attempt=entry.attempt))

    def remove(self, ids: Iterable[str]) -> list[Letter]:
        """Take letters out of the box for good."""
        removed: list[Letter] = []
        for id in ids:
            entry = self._entries.pop(id, None)
            if entry is None:
                continue
            sender = entry.letter.sender
            line = self._lines[sender]
            if entry.until:
                line.out -= 1
                self.out -= 1
            else:
                line.waiting.remove(entry)
                if line.waiting:
                    heappush(self._heads, (line.waiting[0].number, sender))
            if not line.waiting and not line.out:
                del self._lines[sender]
            removed.append(entry.letter)
        if not self.out:
            self.next_expiry = inf
        return removed

    def put_back(self, ids: Sequence[str] | None, reader: str) -> bool:
        """Letters that are out to the reader wait again; whether there were any."""
        held = self._held(self._entries if ids is None else ids, reader)
        for entry in reversed(held):
            self._wait_again(entry)
        return bool(held)

    def renew(self, ids: Sequence[str], reader: str, until: float) -> None:
        """Letters that are out to the reader stay so until then."""
        for entry in self._held(ids, reader):
            entry.until = until
        self.next_expiry = min(self.next_expiry, until)

    def _held(self, ids: Iterable[str], reader: str) -> list[_Entry]:
        entries = (self._entries.get(id) for id in dict.fromkeys(ids))
        held = [entry for entry in entries if entry is not None and entry.until]
        return [entry for entry in held if self._lines[entry.letter.sender].reader == reader]

    def _wait_again(self, entry: _Entry) -> None:
        line = self._lines[entry.letter.sender]
        waiting = line.waiting
        if not waiting or entry.number < waiting[0].number:
            waiting.appendleft(entry)
            heappush(self._heads, (entry.number, entry.letter.sender))
        else:
            waiting.insert(bisect(waiting, entry.number, key=lambda other: other.number), entry)
        entry.until = 0.0
        line.out -= 1
        self.out -= 1

    def expire(self, now: float) -> bool:
        """Letters whose lease is over wait again; whether there were any."""
        if now < self.next_expiry:
            return False
        late, self.next_expiry = [], inf
        for entry in self._entries.values():
            if entry.until:
                if entry.until <= now:
                    late.append(entry)
                else:
                    self.next_expiry = min(self.next_expiry, entry.until)
        for entry in reversed(late):
            self._wait_again(entry)
        return bool(late)

    def clear(self, reason: str, at: float) -> list[DeadLetter]:
        """Everything in it, as dead letters."""
        dead = [DeadLetter(letter=entry.letter, reason=reason, at=at) for entry in self._entries.values()]
        self._entries.clear()
        self._lines.clear()
        self._heads.clear()
        self.out = 0
        self.next_expiry = inf
        return dead
