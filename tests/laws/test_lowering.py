"""What is lowered bit by bit is what would be lowered at once: same messages, same fingerprint."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from unspool.kernel import BaseMessage, Message, Text, make_call
from unspool.kernel.lowering import Lowering
from unspool.kernel.transcript import Transcript


class App(BaseMessage, Struct, frozen=True):
    inner: Message | None

    def to_message(self) -> Message | None:
        return self.inner


IDS = st.sampled_from(["c1", "c2", "c3"])
TEXTS = st.sampled_from(["a", "b", "", " "]).map(Text)
STOPS = st.sampled_from(["stop", "tool_use", "error", "aborted", "interrupted"])


def reply(text: Text, ids: list[str], stop: str) -> Message:
    return Message(
        role="assistant", content=(text, *[make_call(id, "t", "{}") for id in ids]), stop_reason=stop
    )


MESSAGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda text: Message(role="user", content=(text,)), TEXTS),
    st.builds(reply, TEXTS, st.lists(IDS, max_size=3), STOPS),
    st.builds(lambda id, text: Message(role="tool", tool_call_id=id, content=(text,)), IDS, TEXTS),
    st.builds(lambda id, text: Message(role="tool", tool_call_id=id, content=(text,)), IDS, TEXTS),
    st.just(Message(role="system", content=(Text("s"),))),
    st.just(App(None)),
    st.builds(App, st.builds(reply, TEXTS, st.lists(IDS, max_size=2), STOPS)),
)
NEW = st.lists(MESSAGES, max_size=4)
CHANGES = st.one_of(
    st.tuples(st.just("grow"), st.just(0), NEW),
    st.tuples(st.just("cut"), st.integers(0, 9), NEW),
    st.tuples(st.just("replace"), st.integers(0, 9), NEW),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_any_series_of_views(changes: list[tuple[str, int, list[Any]]], which: list[bool]) -> None:
    lowering, views = Lowering(), {True: Transcript[Any](), False: Transcript[Any]()}
    for (how, place, new), view in zip(changes, which, strict=False):
        held = views[view]
        match how:
            case "grow":
                held = held.extend(new)
            case "cut":
                held = held.prefix(place).extend(new)
            case _:
                items = held.since(0)
                items[place : place + 2] = new
                held = Transcript(items)
        views[view] = held
        told, fingerprint = lowering.extend(held, b"seed")
        expected, at_once = Lowering().extend(held, b"seed")
        assert (told.since(0), fingerprint) == (expected.since(0), at_once)
