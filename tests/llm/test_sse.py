"""Bytes in, events out: the table, every split of every row, the caps."""

import pytest

from unspool.kernel.errors import PartialStreamError
from unspool.llm.sse import EventTooLargeError, SseDecoder, SseEvent

ROWS: dict[str, tuple[bytes, list[tuple[bytes, str]]]] = {
    "nothing": (b"", []),
    "one event": (b"data: a\n\n", [(b"a", "")]),
    "no space after the colon": (b"data:a\n\n", [(b"a", "")]),
    "only one space is taken": (b"data:  a\n\n", [(b" a", "")]),
    "two events": (b"data: a\n\ndata: b\n\n", [(b"a", ""), (b"b", "")]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"a", ""), (b"b", "")]),
    "cr": (b"data: a\r\rdata: b\r\r", [(b"a", ""), (b"b", "")]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\rdata: c\r\r\n", [(b"a", ""), (b"b", ""), (b"c", "")]),
    "several data lines": (b"data: a\ndata: b\ndata:\n\n", [(b"a\nb\n", "")]),
    "a name": (b"event: error\ndata: a\n\ndata: b\n\n", [(b"a", "error"), (b"b", "")]),
    "a name without data": (b"event: error\nid: 1\n\n", [(b"", "error")]),
    "comments": (b": hello\n\ndata: a\n: between\ndata: b\n\n:\n\n", [(b"a\nb", "")]),
    "an id and comments": (b"id: 1\ndata: a\n\n: ping\n\n: ping\n\n", [(b"a", "")]),
    "unknown fields": (b"retry: 3000\n\nfoo: bar\n\nfoo\n\ndata: a\n\n", [(b"a", "")]),
    "empty data": (b"data\n\ndata:\n\ndata: \n\n", [(b"", "")] * 3),
    "a name that only begins like data": (b"database: x\ndata: a\n\n", [(b"a", "")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [(b"a", "")]),
    "byte order mark later": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"a", "")]),
    "unicode line ends are text": (
        "data: a\u2028b\u2029c\x85d\x0be\n\n".encode(),
        [("a\u2028b\u2029c\x85d\x0be".encode(), "")],
    ),
    "characters of two, three and four bytes": ("data: é€😀\n\n".encode(), [("é€😀".encode(), "")]),
    "open at the end": (b"data: a\n\ndata: b", [(b"a", ""), (b"b", "")]),
    "open at the end, line ended": (b"data: a\n\ndata: b\n", [(b"a", ""), (b"b", "")]),
    "open at the end, after a cr": (b"data: a\r", [(b"a", "")]),
    "open inside a character": (b"data: \xe2\x82", [(b"\xe2\x82", "")]),
    "a comment open at the end": (b"data: a\n\n: b", [(b"a", "")]),
}


def events(chunks: list[bytes], decoder: SseDecoder | None = None) -> list[SseEvent]:
    decoder = decoder or SseDecoder()
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    return found + list(decoder.close())


@pytest.mark.parametrize("name", ROWS)
def test_table(name: str) -> None:
    body, expected = ROWS[name]
    assert [(event.data, event.name) for event in events([body])] == expected


@pytest.mark.parametrize("name", ROWS)
def test_any_chunking_same_events(name: str) -> None:
    body = ROWS[name][0]
    whole = events([body])
    assert events([body[i : i + 1] for i in range(len(body))]) == whole
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            assert events([body[:first], body[first:second], b"", body[second:]]) == whole


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n"])
def test_an_event_is_given_as_soon_as_it_ends(end: bytes) -> None:
    assert list(SseDecoder().feed(b"data: a" + end)) == [SseEvent(b"a")]


def test_closing_twice_gives_nothing_twice() -> None:
    decoder = SseDecoder()
    assert list(decoder.feed(b"data: a")) == []
    assert (list(decoder.close()), list(decoder.close())) == ([SseEvent(b"a")], [])


TOO_LARGE: dict[str, list[bytes]] = {
    "a line that never ends": [b"data: ", *[b"x" * 10] * 20],
    "one chunk": [b"data: " + b"x" * 200 + b"\n\n"],
    "data lines that never end": [b"data: xxxxxxxxx\n"] * 20,
    "a comment that never ends": [b":", *[b"x" * 10] * 20],
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_large(name: str) -> None:
    with pytest.raises(EventTooLargeError) as caught:
        events(TOO_LARGE[name], SseDecoder(max_bytes=100))
    assert isinstance(caught.value, PartialStreamError) and not caught.value.retryable
    assert caught.value.details == {"max_bytes": 100}


def test_the_cap_is_for_one_event() -> None:
    body = (b"data: " + b"x" * 90 + b"\n\n") * 50
    assert len(events([body[i : i + 7] for i in range(0, len(body), 7)], SseDecoder(max_bytes=100))) == 50


def test_a_line_in_many_pieces_is_joined_once() -> None:
    """Three megabytes in one line: quadratic joining would take seconds of copying."""
    decoder = SseDecoder()
    body = b"data: " + b"x" * 3_000_000 + b"\n\n"
    found = [event for i in range(0, len(body), 1024) for event in decoder.feed(body[i : i + 1024])]
    assert [len(event.data) for event in found] == [3_000_000]


@pytest.mark.parametrize(
    "large", [b"data: " + b"x" * 50, b"data: " + b"x" * 50 + b"\n\n", b"event: " + b"x" * 50 + b"\n"]
)
def test_what_came_before_an_event_that_is_too_large_is_given(large: bytes) -> None:
    decoder = SseDecoder(max_bytes=40)
    assert list(decoder.feed(b"data: a\n\ndata: b\n\n" + large)) == [SseEvent(b"a"), SseEvent(b"b")]
    for _ in range(2):
        with pytest.raises(EventTooLargeError):
            decoder.feed(b"data: c\n\n")
    with pytest.raises(EventTooLargeError):
        decoder.close()
