"""Immutable sequences that grow in O(1) by sharing one append-only buffer.

A value is a buffer and a length. Appending to the newest value extends the shared buffer;
appending to an older one (a fork) copies once. Folding 30,000 facts with tuple copies takes
15 seconds, this way milliseconds.

Read with: ``state.py``, ``lowering.py``.
"""

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
_lock = Lock()  # held for the length check and the append only; forks may live in two threads


class _Buffer(list[T]):
    """The items, and what readers remember of them."""

    __slots__ = ("memo",)

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(items)
        self.memo: dict[Any, tuple[int, Any]] = {}  # and of how many items each was made

    def copied(self, length: int) -> "_Buffer[T]":
        """The first ``length`` items, and what is remembered, as far as it is of them."""
        new = _Buffer(self[:length])
        for key, (count, value) in list(self.memo.items()):
            new.memo[key] = (min(count, length), value)
        return new


class Transcript(Sequence[T], Generic[T]):
    """An immutable sequence; ``append`` and ``extend`` return a longer one."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer: _Buffer[T] = _Buffer(items)
        self._length = len(self._buffer)

    def append(self, item: T) -> "Transcript[T]":
        """This sequence and ``item``; O(1) unless a sibling already grew from here."""
        new: Transcript[T] = Transcript.__new__(Transcript)
        buffer, length = self._buffer, self._length
        with _lock:
            if len(buffer) != length:
                buffer = buffer.copied(length)
            buffer.append(item)
        new._buffer = buffer
        new._length = length + 1
        return new

    def extend(self, items: Iterable[T]) -> "Transcript[T]":
        """This sequence and all of ``items``; costs only what is new."""
        added = list(items)
        if not added:
            return self
        new: Transcript[T] = Transcript.__new__(Transcript)
        buffer, length = self._buffer, self._length
        with _lock:
            if len(buffer) != length:
                buffer = buffer.copied(length)
            buffer.extend(added)
        new._buffer = buffer
        new._length = length + len(added)
        return new

    def prefix(self, length: int) -> "Transcript[T]":
        """The first ``length`` items, sharing the buffer; O(1)."""
        new: Transcript[T] = Transcript.__new__(Transcript)
        new._buffer = self._buffer
        new._length = min(length, self._length)
        return new

    def since(self, start: int) -> list[T]:
        """The items from ``start`` on; costs only what it returns."""
        return self._buffer[start : self._length]

    def extends(self, other: "Transcript[T]") -> bool:
        """Whether ``other`` is known, without comparing items, to be a prefix of this."""
        return self._buffer is other._buffer and self._length >= other._length

    def remember(self, key: Any, value: Any) -> None:
        """Keep what a reader made of these items, for the longer sequences to come; it goes when the items do."""
        self._buffer.memo[key] = (self._length, value)

    def recall(self, key: Any) -> tuple[int, Any]:
        """What was kept under ``key``, and how many of these items it shares, first to last; (0, None) if nothing.

        It may have been made of more items, which this sequence does not have.
        """
        count, value = self._buffer.memo.get(key, (0, None))
        return min(count, self._length), value

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return self._buffer[start:stop:step] if step > 0 else [self[i] for i in range(start, stop, step)]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("transcript index out of range")
        return self._buffer[index]

    def __iter__(self) -> Iterator[T]:
        buffer = self._buffer
        for index in range(self._length):
            yield buffer[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self._length == other._length and (
            self._buffer is other._buffer or self.since(0) == other.since(0)
        )

    __hash__ = None  # type: ignore[assignment]  # items may be unhashable

    def __repr__(self) -> str:
        return f"Transcript({self.since(0)!r})"


class Seen:
    """An immutable set of strings that grows in O(1) by sharing one table (see ``Transcript``)."""

    __slots__ = ("_count", "_table")

    def __init__(self) -> None:
        self._table: dict[str, int] = {}
        self._count = 0

    def add(self, key: str) -> "Seen":
        if key in self:
            return self
        new = Seen.__new__(Seen)
        table, count = self._table, self._count
        with _lock:
            if len(table) != count:
                table = {k: n for k, n in table.items() if n < count}
            table[key] = count
        new._table = table
        new._count = count + 1
        return new

    def __contains__(self, key: str) -> bool:
        return self._table.get(key, self._count) < self._count

    def __iter__(self) -> Iterator[str]:
        """In the order in which they were added."""
        return iter([key for key, number in self._table.items() if number < self._count])

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen):
            return NotImplemented
        return self._count == other._count and (
            self._table is other._table
            or all(key in other for key, n in self._table.items() if n < self._count)
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        return f"Seen({[key for key in self._table if key in self]!r})"
