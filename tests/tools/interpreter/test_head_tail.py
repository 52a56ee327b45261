"""The beginning and the end of a stream, whatever pieces it comes in."""

from hypothesis import given
from hypothesis import strategies as st

from unspool.tools.interpreter.head_tail import HeadTail


@given(st.lists(st.binary(max_size=20)), st.integers(1, 15), st.integers(1, 15))
def test_any_pieces_give_the_same(pieces: list[bytes], head: int, tail: int) -> None:
    data = b"".join(pieces)
    kept, whole = HeadTail(head, tail), HeadTail(head, tail)
    for piece in pieces:
        kept.feed(piece)
    whole.feed(data)
    assert kept.size == len(data)
    assert kept.text() == whole.text()
    if len(data) <= head + tail:
        assert (kept.cut, kept.text()) == (0, data.decode(errors="replace"))
    else:
        assert kept.cut == len(data) - head - tail
        assert kept.text().startswith(data[:head].decode(errors="replace") + "\n[")
        assert kept.text().endswith("here]\n" + data[-tail:].decode(errors="replace"))


def test_memory_is_bounded() -> None:
    kept = HeadTail(1000, 1000)
    for size in (1, 7, 5000, 100_000):
        for _ in range(1000):
            kept.feed(b"x" * size)
            assert sum(map(len, kept._tail)) <= 2 * 1000
