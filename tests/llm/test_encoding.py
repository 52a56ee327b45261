"""Messages as JSON: only what is new is encoded, and what comes out is the same as if all were."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unspool.kernel.messages import Message, Role, Text, user_message
from unspool.kernel.transcript import Transcript
from unspool.llm.encoding import Part, Piece, encode_messages

MESSAGES = st.lists(
    st.builds(
        lambda role, text: Message(role=role, content=(Text(text),)),
        st.sampled_from(["user", "assistant", "tool"]),
        st.text(max_size=3),
    ),
    max_size=8,
)


def cut(messages: Sequence[Message], seen: list[int] | None = None) -> Iterator[Piece]:
    """Runs of the same role are one part; an empty text is not sent."""
    run: list[Message] = []
    for message in messages:
        if seen is not None:
            seen.append(1)
        if run and message.role != run[0].role:
            yield len(run), part(run)
            run = []
        run.append(message)
    if run:
        yield len(run), part(run)


def part(run: Sequence[Message]) -> list[Part]:
    text = "".join(message.text for message in run)
    return [{"role": run[0].role, "text": text}] if text else []


def encoded(messages: Sequence[Message], **options: Any) -> Any:
    return json.loads(bytes(encode_messages(messages, cut, "key", **options)))


def mark(parts: list[Part]) -> bool:
    if parts and parts[-1]["role"] != "tool":
        parts[-1] = {**parts[-1], "mark": True}
        return True
    return False


@given(first=MESSAGES, then=st.lists(MESSAGES, max_size=3))
def test_a_request_that_goes_on_is_the_same_as_one_from_nothing(
    first: list[Message], then: list[list[Message]]
) -> None:
    messages = Transcript(first)
    for more in then:
        encode_messages(messages, cut, "key")
        fork = messages.prefix(len(messages) // 2).extend(more)
        messages = messages.extend(more)
        for each in (messages, fork, messages.prefix(max(0, len(messages) - 1))):
            assert encoded(each) == encoded(list(each))
            assert encoded(each, mark=mark) == encoded(list(each), mark=mark)


def test_only_what_is_new_is_looked_at() -> None:
    messages = Transcript([Message(role=role, content=(Text("x"),)) for role in ("user", "assistant") * 500])
    encode_messages(messages, cut, "key")
    seen: list[int] = []
    encode_messages(messages.append(user_message("more")), partial(cut, seen=seen), "key")
    assert len(seen) == 2  # the last piece may have grown


def test_another_key_is_another_encoding() -> None:
    messages = Transcript([user_message("x")])
    assert encoded(messages) == [{"role": "user", "text": "x"}]
    other = encode_messages(messages, lambda some: iter([(len(some), [{"y": 1}])]), "other")
    assert json.loads(bytes(other)) == [{"y": 1}]
    assert encoded(messages) == [{"role": "user", "text": "x"}]


def test_the_mark_goes_on_the_last_piece_that_takes_it_and_is_not_kept() -> None:
    roles: tuple[Role, ...] = ("user", "assistant", "tool")
    messages = Transcript([Message(role=role, content=(Text(role),)) for role in roles])
    marked = [part.get("mark") for part in encoded(messages, mark=mark)]
    assert marked == [None, True, None]
    assert not any(part.get("mark") for part in encoded(messages))


def test_what_comes_before_is_first() -> None:
    assert encoded([user_message("x")], before=[{"system": 1}]) == [
        {"system": 1},
        {"role": "user", "text": "x"},
    ]
    assert encoded([], before=[{"system": 1}]) == [{"system": 1}]
    assert encoded([]) == []
