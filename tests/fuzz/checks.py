"""What must hold whatever a server sends. Each check raises AssertionError, or what should never get out.

Read with: ``test_fuzz.py`` (few inputs, always the same), ``__main__.py`` (as many as there is time for).
"""

import contextlib
import itertools
import math
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from unspool.kernel.errors import ModelError
from unspool.kernel.json_edge import decode_arguments
from unspool.kernel.messages import Message
from unspool.kernel.ports import StreamEnd, StreamEvent
from unspool.kernel.reply import ReplyBuilder
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.faults import error_of, fault_of_response
from unspool.llm.inflate import PIECE_BYTES, Inflater
from unspool.llm.retry_after import parse_retry_after
from unspool.llm.sse import SseDecoder, SseEvent

SECRET: Final = "sk-proj-abcdefghijklmnop"
_ERROR_CHARS: Final = 4_000  # of an error's text: messages are cut, keys are masked
_MEMORY: Final = (
    40  # bytes that an answer may take for each that came: the shortest pieces are mostly overhead
)
_SHORT_S: Final = 0.3  # what takes less says nothing about how it grows
_NOW: Final = 1_700_000_000.0
T = TypeVar("T")
Outcome = tuple[list[T], ModelError | None]


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    """``body`` in pieces that end at ``places``."""
    edges = sorted({min(place, len(body)) for place in places} | {0, len(body)})
    return [body[start:end] for start, end in itertools.pairwise(edges)]


def check_answer(decoder: type[AnswerDecoder], body: bytes, places: Sequence[int]) -> None:
    """Events that fold to a reply which can be stored, or a ModelError; alike in any chunking."""
    events, error = whole = _answer(decoder, [body])
    assert len(events) <= len(body) + 8
    assert [type(event) is StreamEnd for event in events].count(True) == (error is None)
    assert error is not None or type(events[-1]) is StreamEnd
    reply = _reply(events)
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Message) == reply
    _check_error(error)
    _check_same(whole, _answer(decoder, cut(body, places)))


def check_cut(decoder: type[AnswerDecoder], body: bytes, place: int) -> None:
    """A part of a good answer is an error, or else all of what it says."""
    whole, error = _answer(decoder, [body])
    part, cut_error = _answer(decoder, [body[:place]])
    if error is None and cut_error is None:
        assert _reply(part).content == _reply(whole).content


def check_said(
    decoder: type[AnswerDecoder], body: bytes, places: Sequence[int], text: str, calls: list[Any]
) -> None:
    """An answer says what it was made of; ``calls`` are pairs of name and arguments."""
    check_answer(decoder, body, places)
    events, error = _answer(decoder, [body])
    if error is not None:
        raise error
    reply = _reply(events)
    assert reply.text == text
    assert [(call.name, call.args, call.completed) for call in reply.tool_calls] == [
        (*c, True) for c in calls
    ]


def check_endless(decoder: type[AnswerDecoder], events: Iterator[bytes], max_bytes: int) -> None:
    """A server that never stops is left, in time and memory that go by ``max_bytes`` alone."""
    answer = decoder(model="p/m", seed="1")
    answer._room = max_bytes  # the cap of every answer, lower
    given = 0
    tracemalloc.start()
    try:
        with contextlib.suppress(ModelError):
            for event in events:
                given += sum(1 for _ in answer.feed(event))
                if answer.done:
                    break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.done or answer._room < max_bytes
    assert peak < _MEMORY * max_bytes + 1_000_000
    assert given <= max_bytes


def check_linear(decoder: type[AnswerDecoder], events: Callable[[], Iterator[bytes]], max_bytes: int) -> None:
    """Four times as much of a stream takes about four times as long."""
    short, long = (_seconds(decoder, events(), size) for size in (max_bytes, 4 * max_bytes))
    assert long < _SHORT_S or long < 10 * short, (short, long)


def check_arguments(text: str) -> None:
    """Arguments or the reason why not, and strict JSON either way."""
    given = decode_arguments(text)
    assert given.error is None or (given.error and given.args == {})
    assert msgspec.json.decode(msgspec.json.encode(given.args)) == given.args


def check_inflate(coding: str, body: bytes, places: Sequence[int]) -> None:
    """The same bytes in any chunking, in pieces of bounded size."""
    whole, error = _inflated(coding, [body])
    pieces, same = _inflated(coding, cut(body, places))
    assert type(error) is type(same)
    assert whole == pieces or (error is not None and pieces.startswith(whole))


def check_sse(body: bytes, places: Sequence[int], max_bytes: int = 64) -> None:
    """The same events, and the same fault, in any chunking."""
    whole = _sse([body], max_bytes)
    for event in whole[0]:
        assert len(event.data) <= max_bytes
    _check_same(whole, _sse(cut(body, places), max_bytes))


def check_fault(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """An error of ours, with a delay that can be waited for."""
    fault = fault_of_response(status, headers, body, _NOW)
    _check_error(error_of(fault, model="p/m", secret=SECRET))


def check_retry_after(value: str) -> None:
    """A delay or none."""
    _check_delay(parse_retry_after(value, _NOW))


def _answer(decoder: type[AnswerDecoder], chunks: list[bytes]) -> Outcome[StreamEvent]:
    answer = decoder(model="p/m", secret=SECRET, seed="1")

    def events() -> Iterable[StreamEvent]:
        for chunk in chunks:
            yield from answer.feed(chunk)
            if answer.done:
                break
        yield from answer.close()

    return _outcome(events)


def _seconds(decoder: type[AnswerDecoder], events: Iterator[bytes], max_bytes: int) -> float:
    answer = decoder(model="p/m", seed="1")
    start, given = time.process_time(), 0
    with contextlib.suppress(ModelError):
        while given < max_bytes and not answer.done:
            event = next(events)
            given += len(event)
            for _ in answer.feed(event):
                pass
        for _ in answer.close():
            pass
    return time.process_time() - start


def _reply(events: list[StreamEvent]) -> Message:
    builder = ReplyBuilder()
    for event in events:
        builder.add(event)
    return builder.message()


def _inflated(coding: str, chunks: list[bytes]) -> tuple[bytes, ModelError | None]:
    inflater, found = Inflater(coding), bytearray()
    try:
        for chunk in chunks:
            for piece in inflater.pieces(chunk):
                assert len(piece) <= PIECE_BYTES
                found += piece
        inflater.close()
    except ModelError as error:
        return bytes(found), error
    return bytes(found), None


def _sse(chunks: list[bytes], max_bytes: int) -> Outcome[SseEvent]:
    decoder = SseDecoder(max_bytes=max_bytes)

    def events() -> Iterable[SseEvent]:
        for chunk in chunks:
            yield from decoder.feed(chunk)
        yield from decoder.close()

    return _outcome(events)


def _outcome(events: Callable[[], Iterable[T]]) -> Outcome[T]:
    found: list[T] = []
    try:
        found.extend(events())
    except ModelError as error:
        return found, error
    return found, None


def _check_same(whole: Outcome[Any], pieces: Outcome[Any]) -> None:
    assert whole[0] == pieces[0]
    assert type(whole[1]) is type(pieces[1]) and str(whole[1]) == str(pieces[1])
    assert vars(whole[1] or object) == vars(pieces[1] or object)


def _check_error(error: ModelError | None) -> None:
    if error is None:
        return
    assert SECRET not in str(error)
    assert len(str(error)) <= _ERROR_CHARS
    _check_delay(error.retry_after_s)


def _check_delay(delay: float | None) -> None:
    assert delay is None or (math.isfinite(delay) and delay >= 0)
