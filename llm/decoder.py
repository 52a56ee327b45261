"""What the decoders of all formats have in common: an answer's bytes in, stream events out, without I/O.

``feed`` takes the body in any chunking and yields the events that it completes; ``close`` yields what
remains at the end, ``StreamEnd`` last. The body is a stream of server-sent events, or one JSON document from
a server that does not stream: the first byte that is not white space tells which.

A format says what one event means, what a whole document means, and when an answer is complete. An answer that
is not is cut: ``PartialStreamError`` with the text so far, and never a success.

Read with: ``sse.py``, ``http_model.py`` (the caller), ``openai_chat_stream.py`` (a format).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from unspool.kernel.errors import ModelError, PartialStreamError
from unspool.kernel.json_edge import encodable_json
from unspool.kernel.ports import StreamEvent

from .faults import error_of, fault_of_body
from .sse import EventTooLargeError, SseDecoder, SseEvent

T = TypeVar("T")
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024  # of a body: more is a runaway
MAX_BLOCKS: Final = 10_000  # of a reply: likewise
LARGE_BYTES: Final = 64 * 1024  # of a document or an event: what is in it is counted before it is decoded
MAX_VALUES: Final = {b"{[": 1_000_000, b",": 4_000_000}  # of all large ones, by the signs that they come with
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the last: nested too deep


class AnswerDecoder(ABC):
    """One answer. ``model`` names it in errors; ``secret`` is masked in them.

    ``seed`` goes into the ids made up for calls that come without one. After ``done`` nothing more
    needs to be read.
    """

    kind: ClassVar[str]  # what an answer should be, in the words of an error

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        self.done = False  # the end marker was seen
        self._model = model
        self._secret = secret
        self._seed = seed
        self._sse = SseDecoder()
        self._body: bytearray | None = None  # of an answer that is one JSON document
        self._room = MAX_ANSWER_BYTES  # what the answer may still take
        self._small_room = MAX_ANSWER_BYTES - LARGE_BYTES  # with less, an event may be a large one
        self._values = dict(MAX_VALUES)  # which large events may still hold
        self._sniffed = False
        self._pieces: list[str] = []  # the text, as it came

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the answer is known to be complete, so that losing the connection loses nothing."""

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """The events that ``data`` completes, as they are asked for.

        Raises:
            ModelError: the stream holds an error, by its own class.
            PartialStreamError: an event is not what the format allows.
            EventTooLargeError: an event, or the whole answer, is larger than any sensible one, or holds more.
        """
        room = self._room
        self._room = room - len(data)
        if not self._sniffed:
            self._sniff(data)
        if self._room < 0:
            return self._last_of(data[:room])
        if self._body is not None:
            self._body += data
            return iter(())
        events = self._sse.feed(data)
        if len(events) == 1 and len(events[0].data) <= LARGE_BYTES:  # most servers send one at a time
            return iter(self._event(events[0]))
        if self._room < self._small_room:
            return chain.from_iterable(map(self._counted_event, events))
        return chain.from_iterable(map(self._event, events))

    def _last_of(self, data: bytes) -> Iterator[StreamEvent]:
        """What there was room for."""
        if self._body is None:
            yield from chain.from_iterable(map(self._counted_event, self._sse.feed(data)))
        if not self.done:
            raise EventTooLargeError("provider: the answer is too large", max_bytes=MAX_ANSWER_BYTES)

    def close(self) -> Iterator[StreamEvent]:
        """The last events, ending with ``StreamEnd``; call it at the end of the body or when ``done``.

        Raises:
            ModelError: as ``feed``; or what came is no answer of this format at all.
            PartialStreamError: the answer was cut; ``text`` is what had come.
        """
        if self._body is not None:
            self._count_values(self._body)
            yield from self._document(bytes(self._body))
        elif not self.done:
            for event in self._sse.close():
                yield from self._last_event(event)
        if not self._is_complete():
            raise self._partial("the stream ended early")
        yield from self._end()

    # --- what a format says ---------------------------------------------------------------------

    @abstractmethod
    def _event(self, event: SseEvent) -> Iterable[StreamEvent]:
        """What one event of a stream means; a list costs less than a generator."""

    @abstractmethod
    def _whole(self, value: dict[str, Any]) -> Iterable[StreamEvent]:
        """What an answer means that is one JSON object; it sets ``done``."""

    @abstractmethod
    def _end(self) -> Iterator[StreamEvent]:
        """The last events of an answer that is complete."""

    def _is_complete(self) -> bool:
        return self.finished

    # --- what formats need ----------------------------------------------------------------------

    def _read(self, data: bytes, decode: Callable[[bytes], T], kind: type[T]) -> T:
        """The value in an event's data; bad UTF-8 and lone surrogates in it do no harm.

        Raises:
            PartialStreamError: it is not what the format allows.
        """
        try:
            return decode(data)
        except UNREADABLE:
            pass
        try:
            value, _ = encodable_json(json.loads(data.decode("utf-8", "replace"), strict=False))
            return msgspec.convert(value, kind)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            raise self._partial(f"an event of the stream is not {self.kind} chunk") from None

    def _partial(self, what: str) -> PartialStreamError:
        return PartialStreamError(f"provider: {what}", text=self.text, model=self._model)

    def _fault(self, error: Any) -> ModelError:
        """The error for what a provider says went wrong inside an answer."""
        fault = error_of(fault_of_body(error), model=self._model, secret=self._secret)
        if isinstance(fault, PartialStreamError):
            fault.text = self.text
        return fault

    def _not_an_answer(self) -> ModelError:
        return ModelError(f"provider: the answer is not {self.kind}", model=self._model)

    # --------------------------------------------------------------------------------------------

    def _sniff(self, data: bytes) -> None:
        start = data.lstrip(b" \t\r\n")[:1]  # of JSON: other white space is none
        self._sniffed = bool(start)
        if start in (b"{", b"["):
            self._body = bytearray()
        elif start == b"<":
            raise ModelError(
                f"provider: the answer is HTML, not {self.kind}: is the base URL right?", model=self._model
            )

    def _document(self, body: bytes) -> Iterator[StreamEvent]:
        try:
            value = json_of(body)
        except ValueError:
            raise self._partial("the answer ended early") from None
        while isinstance(value, list) and len(value) == 1:  # some wrap the object into an array
            value = value[0]
        if not isinstance(value, dict):
            raise self._not_an_answer()
        yield from self._whole(value)

    def _counted_event(self, event: SseEvent) -> Iterable[StreamEvent]:
        if not self.done:
            self._count_values(event.data)
        return self._event(event)

    def _count_values(self, data: bytes | bytearray) -> None:
        """Refuse an answer in which so many values are that they would take far more memory than their text.

        Raises:
            EventTooLargeError: its large parts hold more objects and arrays, or more values, than any sensible answer.
        """
        if len(data) <= LARGE_BYTES:
            return
        for signs, limit in MAX_VALUES.items():
            self._values[signs] -= sum(data.count(sign) for sign in signs)
            if self._values[signs] < 0:
                raise EventTooLargeError("provider: the answer holds too many values", max_values=limit)

    def _last_event(self, event: SseEvent) -> Iterator[StreamEvent]:
        """An event the body's end left open: cut data ends a finished answer without harm."""
        try:
            yield from self._counted_event(event)
        except PartialStreamError:
            if not self.finished:
                raise self._partial("the stream ended early") from None


def check_blocks(count: int) -> None:
    """Refuse a block after ``count`` others.

    Raises:
        EventTooLargeError: there are as many as a reply may have.
    """
    if count >= MAX_BLOCKS:
        raise EventTooLargeError("provider: the answer has too many blocks", max_blocks=MAX_BLOCKS)


def json_of(data: bytes) -> Any:
    """JSON, with bad UTF-8 and lone surrogates replaced.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        pass
    try:
        return encodable_json(json.loads(data.decode("utf-8", "replace"), strict=False))[0]
    except RecursionError:
        raise ValueError("nested too deep") from None


def json_or_text(data: bytes) -> Any:
    """JSON where it is some, and text where not."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")
