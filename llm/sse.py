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
_LF, _CR = 0x0A, 0x0D  # as numbers: looking for one is up to eight times as fast as for bytes


class EventTooLargeError(PartialStreamError):
    """One event, or one line of it, is larger than the decoder accepts; asking again does not help."""

    retryable = False


class SseEvent(Struct, frozen=True, gc=False):
    """One event; ``data`` are its data lines joined with LF, ``name`` is empty where none was given."""

    data: bytes
    name: str = ""


class SseDecoder:
    """Bytes in, events out, whatever the chunking; ``close`` gives what the end left open.

    Events that came before a fault are given first: then the next call raises it.
    """

    __slots__ = ("_after_cr", "_between", "_data", "_first", "_line", "_max_bytes", "_name", "_room")

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()  # the line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._name = ""
        # What the event may still take: its data lines count, and each line alone. Negative: it is too large.
        self._room = max_bytes
        self._between = False  # the last chunk ended with an event
        self._first = True  # no line has ended yet: it may begin with a byte order mark
        self._after_cr = False  # the last chunk ended in CR: an LF at the start of the next belongs to it

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that end in ``chunk``.

        Raises:
            EventTooLargeError: an event, or a line, has more than ``max_bytes`` bytes.
        """
        if (  # one event by itself: what most servers send at once
            self._between
            and chunk[:6] == b"data: "
            and chunk.find(_LF) == len(chunk) - 2 <= self._max_bytes
            and chunk[-1] == _LF
            and _CR not in chunk
        ):
            return [SseEvent(chunk[6:-2])]
        if self._room < 0:
            raise self._too_large()
        if self._after_cr or _CR in chunk:
            chunk = self._unify(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._line:
                lines[0] = bytes(self._line) + lines[0]
                self._line.clear()
            if self._first:
                self._first = False
                lines[0] = lines[0].removeprefix(_BOM)
        data, room, max_bytes = self._data, self._room, self._max_bytes
        events: list[SseEvent] = []
        for line in lines:
            if line[:6] == b"data: ":  # what nearly every line is
                room -= len(line)
                data.append(line[6:])
            elif line:
                room = self._field(line, room)
            elif room < 0:
                break
            elif self._name or len(data) != 1:
                if data or self._name:
                    events.append(SseEvent(b"\n".join(data), self._name))
                    data.clear()
                    self._name = ""
                room = max_bytes
            else:
                events.append(SseEvent(data.pop()))
                room = max_bytes
        if rest and room >= 0:
            self._line += rest
            if len(self._line) > room:
                room = -1
        self._room = room
        self._between = not (self._line or data or self._name or self._after_cr or self._first or room < 0)
        if room < 0 and not events:
            raise self._too_large()
        return events

    def close(self) -> list[SseEvent]:
        """The event that the body's end left open, if any."""
        self._after_cr = False
        return self.feed(b"\n\n" if self._line else b"\n")

    def _unify(self, chunk: bytes) -> bytes:
        """``chunk`` with LF line ends only; a CR at its end counts at once."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._after_cr = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _field(self, line: bytes, room: int) -> int:
        """Take in a line that is not empty; what room it leaves. Comments and unknown fields have no effect."""
        if len(line) > room:
            return -1
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            return room - len(line)
        if name == b"event":
            self._name = value.decode("utf-8", "replace")
        return room

    def _too_large(self) -> EventTooLargeError:
        return EventTooLargeError("provider: an event of the stream is too large", max_bytes=self._max_bytes)
