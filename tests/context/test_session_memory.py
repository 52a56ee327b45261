"""The application's own notes in the place of older turns."""

from collections.abc import Awaitable, Callable

import pytest

from unspool.context.engine import Engine
from unspool.context.marks import mark_of, marked
from unspool.context.session_memory import SessionMemory
from unspool.kernel import Message, Text, user_message
from unspool.kernel.conformance_context import check_context

from .scoping import Conversation, Scope
from .test_summary import loop, roles, summed, talk
from .working import done, work_of

pytestmark = pytest.mark.anyio

NOTES = "They build a parser; tests are in tests/."


async def notes_later() -> str:
    return NOTES


@pytest.mark.parametrize("seed", [lambda: NOTES, notes_later])
async def test_notes_take_the_place_of_older_turns(seed: Callable[[], str | Awaitable[str]]) -> None:
    after = await done(SessionMemory(seed, keep=10), work_of(talk(3), target=2000))
    assert roles(after) == "Su"
    mark = mark_of(summed(after))
    assert (mark["by"], mark["summary"], mark["covered"]) == ("memory", NOTES, 6)
    assert mark["requests"] == ["Request 0.", "Request 1.", "Request 2."]


@pytest.mark.parametrize("seed", ["", "  \n"])
async def test_without_notes_nothing_is_done(seed: str) -> None:
    work = work_of(talk(3), target=2000)
    assert await done(SessionMemory(lambda: seed, keep=10), work) is None


async def test_notes_that_cannot_be_had_are_told_and_nothing_is_done() -> None:
    def fails() -> str:
        raise OSError("no such file")

    scope = Scope()
    assert await done(SessionMemory(fails, keep=10), work_of(talk(3), target=2000, scope=scope)) is None
    [(warning, details)] = scope.warnings
    assert "no such file" in warning
    assert details["strategy"] == "session_memory"


@pytest.mark.parametrize(
    ("max_chars", "longest", "left_out"),
    [(1000, 1100, True), (-1, 30_000, False), (40_000, 30_000, False)],
)
async def test_long_notes_are_cut_at_the_end_of_a_line(max_chars: int, longest: int, left_out: bool) -> None:
    notes = "A line of notes that says it.\n" * 1000
    view = talk(60)
    after = await done(SessionMemory(lambda: notes, keep=10, max_chars=max_chars), work_of(view, target=4000))
    text = mark_of(summed(after))["summary"]
    assert len(text) <= longest
    assert ("[… the session memory is longer: 29,0" in text) is left_out
    assert "says it.\n[…" in text or not left_out


async def test_an_earlier_summary_stays_and_is_not_repeated() -> None:
    written = marked(Message(role="user"), [Text("…")], "summary", summary="By a model.", by="model")
    view = [written, *talk(2)]
    for number in range(3):
        after = await done(SessionMemory(f"Notes {number}.".strip, keep=10), work_of(view, target=2000))
        text = mark_of(summed(after))["summary"]
        assert text == f"Notes {number}.\n\n## From earlier summaries\nBy a model."
        assert after is not None
        view = [*after, *talk(2)]


async def test_a_turn_is_not_cut_through() -> None:
    view = [*talk(2), *loop(9)]
    after = await done(SessionMemory(lambda: NOTES, keep=10), work_of(view, target=2000))
    assert roles(after) == "Su" + "at" * 9


async def test_a_turn_whose_start_is_before_a_late_result_stays_with_the_call() -> None:
    (call, result), *later = loop(1), *talk(1)
    view = [*talk(2), call, user_message("Meanwhile?"), result, *later, *loop(9)]
    after = await done(SessionMemory(lambda: NOTES, keep=10), work_of(view, target=2000))
    assert roles(after) == "Su" + "at" * 9
    view = [*talk(2), call, user_message("Meanwhile?"), *loop(9, start=1), result]
    after = await done(SessionMemory(lambda: NOTES, keep=10), work_of(view, target=9000))
    assert roles(after) == "Suau" + "at" * 9 + "t"


async def test_where_all_would_stay_nothing_is_put_before_it() -> None:
    view = [user_message("Read them."), *loop(9)]
    assert await done(SessionMemory(lambda: NOTES, keep=10), work_of(view, target=2000)) is None
    assert await done(SessionMemory(lambda: NOTES), work_of(talk(2), target=2000)) is None


async def test_it_does_nothing_while_all_fits_and_can_be_asked_for() -> None:
    conversation = Conversation(
        Engine([SessionMemory(lambda: NOTES, keep=10)], counter="estimate"), Scope(window=8000)
    )
    conversation.say(*talk(3))
    await conversation.project()
    assert conversation.rewrites == []
    assert (await conversation.compact("manual")).changed
    assert NOTES in summed(conversation.transcript).text


@pytest.mark.parametrize("keep", [200, 2000])
async def test_conformance(keep: int) -> None:
    await check_context(
        lambda: Engine([SessionMemory(lambda: NOTES, keep=keep)], window=4000, counter="estimate"), long=200
    )
