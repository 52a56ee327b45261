"""Which content of which file an agent has read: parts that add up, and what is forgotten."""

import pytest

from unspool.tools.files import read_state
from unspool.tools.files.read_state import Contents, Lines, ReadState, Stamp

A, B = ("s", ("a",)), ("s", ("b",))
OLD, NEW = "0" * 64, "1" * 64

# readings of a file of ten lines, as (content, lines), and whether only a part is known at the end
PARTS: dict[str, tuple[list[tuple[str, Lines | None]], bool]] = {
    "the first half": ([(OLD, (1, 5))], True),
    "both halves": ([(OLD, (1, 5)), (OLD, (6, 10))], False),
    "both halves, the last first": ([(OLD, (6, 10)), (OLD, (1, 5))], False),
    "overlapping": ([(OLD, (1, 7)), (OLD, (3, 10))], False),
    "one within another": ([(OLD, (1, 10)), (OLD, (3, 4))], False),
    "a gap": ([(OLD, (1, 4)), (OLD, (6, 10))], True),
    "a gap, filled": ([(OLD, (1, 4)), (OLD, (6, 10)), (OLD, (5, 5))], False),
    "halves of two contents": ([(OLD, (1, 5)), (NEW, (6, 10))], True),
    "unknown lines": ([(OLD, None)], True),
    "unknown lines, then all": ([(OLD, None), (OLD, (1, 10))], False),
}


@pytest.mark.parametrize(("readings", "partial"), PARTS.values(), ids=PARTS)
def test_parts_add_up(readings: list[tuple[str, Lines | None]], partial: bool) -> None:
    state = ReadState()
    for content, lines in readings:
        state.add(A, "f", content, partial=True, lines=lines, total=10)
    stamp = state.get(A, "f")
    assert stamp is not None
    assert (stamp.sha256, stamp.partial) == (readings[-1][0], partial)


def test_a_part_takes_nothing_from_what_was_read_whole() -> None:
    state = ReadState()
    state.add(A, "f", OLD)
    state.add(A, "f", OLD, partial=True, lines=(1, 2), total=10)
    assert state.get(A, "f") == Stamp(OLD)
    state.add(A, "f", NEW, partial=True, lines=(1, 2), total=10)
    assert state.get(A, "f") == Stamp(NEW, True, ((1, 2),))


def test_each_reader_for_itself() -> None:
    state = ReadState()
    state.add(A, "f", OLD)
    assert state.get(B, "f") is None
    state.add(B, "f", NEW)
    state.drop(B, "f")
    state.drop(B, "g")
    state.drop(("other", ()), "f")
    assert (state.get(A, "f"), state.get(B, "f")) == (Stamp(OLD), None)


def test_old_readings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_state, "MAX_FILES", 2)
    monkeypatch.setattr(read_state, "MAX_READERS", 2)
    state = ReadState()
    for path in ("1", "2", "1", "3"):
        state.add(A, path, OLD)
    assert [path for path in "123" if state.get(A, path)] == ["1", "3"]
    state.add(B, "1", OLD)
    state.add(A, "1", OLD)
    state.add(("s", ("c",)), "1", OLD)
    assert state.get(A, "1") and state.get(B, "1") is None


def test_contents_that_were_read_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_state, "MAX_KEPT", 4)
    monkeypatch.setattr(read_state, "MAX_ALL_KEPT", 10)
    contents = Contents()
    for name, data in (("a", b"aaaa"), ("b", b"bbbb"), ("large", b"12345"), ("a", b"aaaa"), ("c", b"cccc")):
        contents.keep(name, data)
    kept = {name: contents.get(name) for name in ("a", "b", "c", "large")}
    assert kept == {"a": b"aaaa", "b": None, "c": b"cccc", "large": None}
