"""Server-sent events from bytes, without I/O.

Follows the event-stream format of the HTML standard (section 9.2.6) with two exceptions that real
servers ask for: an event that is still open at the end of the body is delivered by ``close``
(gateways leave out the last blank line), and an event that has a name but no data is delivered too
(an ``event: error`` without data is an error all the same).

Lines are split as bytes, so a character may be cut anywhere; only CR, LF and CRLF end a line.
``id`` and ``retry`` are ignored: a model call is asked again, never reconnected.

Read with: ``openai_chat_stream.py`` (a user), ``tests/llm/test_sse.py`` (the table).
"""

from msgspec import Struct

from unspool.kernel.errors import PartialStreamError

MAX_EVENT_BYTES = 16 * 1024 * 1024  # images and file contents arrive as one line; more is a runaway
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(PartialStreamError):
    """One event, or one line of it, is larger than the decoder accepts; asking again does not help."""

    retryable = False


class SseEvent(Struct, frozen=True, gc=False):
    """One event; ``data`` are its data lines joined with LF, ``name`` is empty where none was given."""

    data: bytes
    name: str = ""


class SseDecoder:
    """Bytes in, events out, whatever the chunking; ``close`` gives what the end left open."""

    __slots__ = ("_after_cr", "_data", "_first", "_max_bytes", "_name", "_pieces", "_size")

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []  # of the line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._name = ""
        self._size = 0  # bytes in _pieces and _data
        self._first = True  # no line has ended yet: it may begin with a byte order mark
        self._after_cr = False  # the last chunk ended in CR: an LF at the start of the next belongs to it

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that end in ``chunk``.

        Raises:
            EventTooLargeError: an event has more than ``max_bytes`` bytes.
        """
        if self._after_cr or b"\r" in chunk:
            chunk = self._unify(chunk)
        if b"\n" not in chunk:
            self._grow(len(chunk))
            self._pieces.append(chunk)
            return []
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._pieces:
            self._size -= sum(map(len, self._pieces))
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces.clear()
        events = self._lines(lines)
        if rest:
            self._grow(len(rest))
            self._pieces.append(rest)
        return events

    def close(self) -> list[SseEvent]:
        """The event that the body's end left open, if any."""
        if not (self._pieces or self._data or self._name):
            return []
        last = b"".join(self._pieces)
        self._pieces.clear()
        self._size -= len(last)
        return self._lines([last, b""] if last else [b""])

    def _unify(self, chunk: bytes) -> bytes:
        """``chunk`` with LF line ends only; a CR at its end counts at once."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._after_cr = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _lines(self, lines: list[bytes]) -> list[SseEvent]:
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if line[:6] == b"data: ":  # what nearly every line is
                data.append(line[6:])
                self._grow(len(line))
            elif line:
                self._field(line)
            elif data or self._name:
                events.append(SseEvent(data[0] if len(data) == 1 else b"\n".join(data), self._name))
                data.clear()
                self._name = ""
                self._size = 0
        return events

    def _field(self, line: bytes) -> None:
        """Take in a line that is not empty; comments and unknown fields have no effect."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._grow(len(line))
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._max_bytes:
            raise EventTooLargeError(
                "provider: an event of the stream is too large", max_bytes=self._max_bytes
            )
