"""The beginning and the end of a stream of bytes, in bounded memory."""

from collections import deque

from unspool.tools.text import size_text


class HeadTail:
    """Keeps the first ``head`` and the last ``tail`` bytes of what it is fed, at least."""

    def __init__(self, head: int, tail: int) -> None:
        self.size = 0
        self._head_limit, self._tail_limit = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        data = data[room:] if room else data
        if not data:
            return
        self._tail.append(data[-self._tail_limit :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def cut(self) -> int:
        """How many bytes in the middle are not shown."""
        return max(self.size - len(self._head) - self._tail_limit, 0)

    def text(self) -> str:
        """What is kept, as UTF-8 with U+FFFD for what is not; a line in the middle says what is left out."""
        head = bytes(self._head)
        tail = b"".join(self._tail)
        if not self.cut:
            return (head + tail).decode(errors="replace")
        note = f"\n[{size_text(self.cut)} of output left out here]\n"
        return head.decode(errors="replace") + note + tail[-self._tail_limit :].decode(errors="replace")
