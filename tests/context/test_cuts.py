"""Where a view is cut: each row draws one, ``u`` a user message, ``a`` a reply, ``c`` a reply with a call, ``r`` its result,
``s`` a summary, ``y`` a system message, ``n`` an application's note."""

from collections.abc import Sequence

import pytest
from msgspec import Struct

from unspool.context.cuts import Cut, edits_for, find_cut, kept_tokens, span_of
from unspool.context.marks import marked
from unspool.context.rules import broken_rule
from unspool.kernel import AgentMessage, BaseMessage, Message, Text, ToolCall, user_message
from unspool.kernel.edits import edited
from unspool.kernel.messages import assistant_message, tool_message

from .working import work_of


class Note(BaseMessage, Struct, frozen=True):
    said: str

    def to_message(self) -> Message:
        return user_message(self.said)


def drawn(letters: str) -> list[AgentMessage]:
    """The view; calls are named by their place, a result answers the newest call that has none."""
    view: list[AgentMessage] = []
    waiting: list[ToolCall] = []
    for at, letter in enumerate(letters):
        match letter:
            case "u":
                view.append(user_message(f"user {at}"))
            case "a":
                view.append(assistant_message(f"reply {at}"))
            case "c":
                waiting.append(ToolCall(id=f"c{at}", name="read_file", args={"path": f"{at}.txt"}))
                view.append(assistant_message("", waiting[-1]))
            case "r":
                view.append(tool_message(waiting.pop(), f"result {at}"))
            case "s":
                view.append(marked(Message(role="user"), [Text(f"summary {at}")], "summary"))
            case "y":
                view.append(Message(role="system", content=(Text(f"system {at}"),)))
            case _:
                view.append(Note(f"note {at}"))
    return view


def one(message: AgentMessage) -> int:
    return 1


@pytest.mark.parametrize(
    ("letters", "keep", "cut"),
    [
        ("ucru", 2, Cut(3)),
        ("ucru", 1, Cut(3)),
        ("uaua", 1, Cut(3, turn_start=2)),
        ("uaua", 2, Cut(2)),
        ("uaua", 3, Cut(1, turn_start=0)),
        ("uaua", 4, None),  # all of it fits
        ("", 4, None),
        ("u", 0, None),
        ("cr", 1, None),  # no cut is legal
        ("ucrcrcr", 2, Cut(5, turn_start=0)),  # before a reply with calls
        ("ucrcrcr", 3, Cut(5, turn_start=0)),
        ("uccrrcr", 5, Cut(5, turn_start=0)),  # results that come late
        ("uccrrcr", 2, Cut(5, turn_start=0)),
        ("uacrnu", 2, Cut(4)),  # an application's message
        ("sacr", 2, Cut(2)),  # a summary is no request
    ],
)
def test_cut(letters: str, keep: int, cut: Cut | None) -> None:
    assert find_cut(drawn(letters), keep, one) == cut


def test_a_turn_of_many_calls_can_be_cut_anywhere_between_pairs() -> None:
    view = drawn("u" + "cr" * 400)
    for keep in range(2, 800, 7):
        cut = find_cut(view, keep, one)
        assert cut is not None
        assert cut.turn_start == 0
        assert view[cut.stop].has_tool_calls
        assert 0 <= keep - (len(view) - cut.stop) < 2


@pytest.mark.parametrize(
    ("letters", "keep", "after"),
    [
        ("uauau", 1, "Su"),
        ("yuauau", 1, "ySu"),  # system messages stay where they are
        ("yuayuau", 1, "yySu"),
        ("ucrcrcr", 2, "Sucr"),  # the newest user message stays, behind the summary
        ("yucrcrcr", 2, "ySucr"),
        ("uaucrcrcr", 2, "Sucr"),
        ("suacrcr", 2, "Sucr"),
        ("sucrcrcr", 2, "Sucr"),
        ("sucr", 2, None),  # nothing but a summary would go
        ("ysucr", 0, None),
        ("u", 0, None),
        ("uau", 0, "Su"),
        ("ucr", 0, None),  # the turn under way
    ],
)
def test_what_a_span_becomes(letters: str, keep: int, after: str | None) -> None:
    view = drawn(letters)
    work = work_of(view, tokens=lambda message: 10)
    span = span_of(work, max(1, 10 * keep))
    if after is None:
        assert span is None
        return
    assert span is not None
    summary = marked(Message(role="user"), [Text("new")], "summary")
    new = edited(view, edits_for(span, [summary]))
    assert not broken_rule(view, new, tail=work.tail, newest=work.newest_user)
    names = {id(message): letter for message, letter in zip(view, letters, strict=True)}
    assert "".join([names.get(id(message), "S") for message in new]) == after


@pytest.mark.parametrize(
    ("keep", "target", "overhead", "reason", "kept"),
    [
        (0, 40_000, 0, "threshold", 10_000),
        (0, 400_000, 0, "threshold", 20_000),
        (0, 6_000, 0, "threshold", 2_000),
        (0, 3_000, 0, "threshold", 1_500),  # never more than half of the target
        (0, 30_000, 27_000, "threshold", 1_500),  # of what system prompt and tools leave of it
        (700, 40_000, 0, "threshold", 700),
        (0, 40_000, 0, "manual", 1_000),  # somebody wants a compaction: of a short conversation too
        (700, 40_000, 0, "manual", 700),
    ],
)
def test_tokens_that_stay(keep: int, target: int, overhead: int, reason: str, kept: int) -> None:
    view: Sequence[AgentMessage] = drawn("uaua")
    work = work_of(view, tokens=lambda message: 1000, target=target, overhead=overhead, reason=reason)
    assert kept_tokens(keep, work) == kept
