"""What an agent that takes over sees of the conversation before."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.subagent.handoff_scenes import Desk, go, transfer

from unspool.kernel import (
    Compaction,
    ErrorEvent,
    Hooks,
    Message,
    Projection,
    Text,
    Thinking,
    assistant_message,
    tool_message,
    user_message,
    validate_message_sequence,
)
from unspool.llm.scripted import call
from unspool.subagent.handoff_filters import (
    as_history,
    keep_all,
    last,
    only_user_and_answers,
    without_tools,
)

__all__ = ["go"]
LOOK = call("c1", "look", at="1")
BEFORE = (
    user_message("hi"),
    assistant_message("hello"),
    user_message("check 1"),
    Message(role="assistant", content=(Thinking(text="hm"), Text("I look."), LOOK), stop_reason="tool_use"),
    tool_message(LOOK, "saw 1"),
    Message(role="assistant", content=(Thinking(text="so"), Text("It is 1.")), stop_reason="stop"),
    user_message("refund"),
    assistant_message("", LOOK),
    tool_message(LOOK, "saw 1 again"),
)


def told(messages: Sequence[Message]) -> list[str]:
    return [f"{each.role}: {each.text or [call.name for call in each.tool_calls]}" for each in messages]


FILTERS: list[tuple[str, Any, list[str]]] = [
    ("keep_all", keep_all, told(BEFORE)),
    (
        "without_tools",
        without_tools,
        [
            "user: hi",
            "assistant: hello",
            "user: check 1",
            "assistant: I look.",
            "assistant: It is 1.",
            "user: refund",
        ],
    ),
    (
        "only_user_and_answers",
        only_user_and_answers,
        ["user: hi", "assistant: hello", "user: check 1", "assistant: It is 1.", "user: refund"],
    ),
    ("last(0)", last(0), ["user: refund"]),
    ("last(1): a result without its call", last(1), ["user: refund"]),
    ("last(2)", last(2), ["user: refund", "assistant: ['look']", "tool: saw 1 again"]),
    (
        "last(5)",
        last(5),
        ["assistant: It is 1.", "user: refund", "assistant: ['look']", "tool: saw 1 again"],
    ),
    ("last(99)", last(99), told(BEFORE)),
    (
        "as_history",
        as_history,
        [
            "user: The conversation so far, before you took it over:\n<history>\n"
            + "user: hi\nassistant: hello\nuser: check 1\nassistant: I look. [called look]\n"
            + "assistant: It is 1.\nassistant: [called look]\n</history>",
            "user: refund",
        ],
    ),
]


@pytest.mark.parametrize(("_", "shows", "expected"), FILTERS, ids=[name for name, *_ in FILTERS])
def test_a_filter_gives(_: str, shows: Any, expected: list[str]) -> None:
    shown = shows(BEFORE)
    assert told(shown) == expected
    assert not validate_message_sequence(shown)
    assert told(shows(shown))[-1] == expected[-1]
    assert list(shows(())) == []


def test_what_is_not_changed_stays_the_same_message() -> None:
    shown = without_tools(BEFORE)
    assert [any(each is message for message in BEFORE) for each in shown] == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]


def test_a_filter_of_fewer_than_no_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        last(-1)


OPENING: list[Any] = [
    [call("a", "look", at="1")],
    [
        "One moment.",
        call("b", "look", at="2"),
        transfer("c", "billing", message="7"),
        call("d", "look", at="3"),
    ],
]
TAKEN_OVER = [
    ("user", "refund"),
    ("assistant", "One moment."),
    ("tool", "billing has the conversation now."),
]


def test_the_handing_over_follows_what_the_filter_leaves(go: Any) -> None:
    desk = Desk([*OPENING, [call("e", "look", at="4")], "paid back", "bye"], input_filter=without_tools)

    async def main() -> None:
        await desk.agent.run("refund")
        await desk.agent.run("thanks")

    go(main)
    assert desk.shown(2) == TAKEN_OVER
    assert [each.id for each in desk.model.requests[2].messages[1].tool_calls] == ["c"]
    since = [("assistant", "look"), ("tool", "billing saw 4")]
    assert desk.shown(3) == [*TAKEN_OVER, *since]
    assert desk.shown(4) == [*TAKEN_OVER, *since, ("assistant", "paid back"), ("user", "thanks")]
    for earlier, later in ((2, 3), (3, 4)):  # the prefix stays, to the very objects
        a, b = (desk.model.requests[each].messages for each in (earlier, later))
        assert all(x is y for x, y in zip(a, b, strict=False))
    assert len(desk.agent.state.messages) == 12, "the transcript holds everything"
    desk.check()


def test_the_root_sees_everything_again(go: Any) -> None:
    desk = Desk([*OPENING, [transfer("e", "triage")], "done"], input_filter=last(0))
    go(lambda: desk.agent.run("refund"))
    assert desk.shown(2) == TAKEN_OVER
    assert len(desk.model.requests[3].messages) == len(desk.agent.state.messages) - 1
    desk.check()


def test_each_agent_may_have_a_filter_of_its_own(go: Any) -> None:
    script = [
        *OPENING,
        [transfer("e", "triage")],
        [transfer("f", "tech")],
        "fixed",
    ]
    desk = Desk(script, input_filter={"tech": only_user_and_answers, "triage": last(0), "billing": keep_all})
    go(lambda: desk.agent.run("refund"))
    assert desk.asked == ["triage", "triage", "billing", "triage", "tech"]
    assert len(desk.model.requests[2].messages) == 7
    assert desk.shown(4) == [
        ("user", "refund"),
        ("assistant", "transfer_to_agent"),
        ("tool", "tech has the conversation now."),
    ]
    desk.check()


@pytest.mark.parametrize("slow", [False, True], ids=["plain", "async"])
def test_the_hosts_hook_sees_what_the_filter_leaves(go: Any, slow: bool) -> None:
    seen: list[int] = []

    def note(messages: Sequence[Message]) -> Sequence[Message]:
        seen.append(len(messages))
        return [*messages, user_message("(be brief)")]

    async def note_slowly(messages: Sequence[Message]) -> Sequence[Message]:
        return note(messages)

    hooks = Hooks(before_request=note_slowly if slow else note)
    desk = Desk([*OPENING, "paid back"], input_filter=without_tools, hooks=hooks)
    go(lambda: desk.agent.run("refund"))
    assert seen == [1, 3, 3]
    assert desk.shown(2) == [*TAKEN_OVER, ("user", "(be brief)")]
    desk.check()


class Short:
    """A context manager that shows a summary and the last messages."""

    async def project(self, view: Sequence[Any], scope: Any, /) -> Projection:
        if len(view) <= 7:
            return Projection(messages=view)
        return Projection(messages=[user_message("summary"), *view[-self.keep :]])

    async def compact(self, view: Sequence[Any], reason: str, scope: Any, /) -> Compaction:
        return Compaction(changed=False)

    def sync(self, view: Sequence[Any], /) -> None: ...

    def usage(self) -> None: ...

    def snapshot(self) -> None: ...

    def __init__(self, keep: int) -> None:
        self.keep = keep


@pytest.mark.parametrize(
    ("keep", "first"),
    [(9, ("user", "summary")), (2, ("user", "summary"))],
    ids=["the handoff is shown", "it is not"],
)
def test_a_context_manager_chooses_first(go: Any, keep: int, first: tuple[str, str]) -> None:
    def without_summary(messages: Sequence[Message]) -> Sequence[Message]:
        return [each for each in messages if each.text != "summary"]

    desk = Desk([*OPENING, "paid back", "bye"], input_filter=without_summary, context=Short(keep))

    async def main() -> None:
        await desk.agent.run("refund")
        await desk.agent.run("thanks")

    go(main)
    shown = desk.shown(3)
    if keep == 2:
        assert shown == [first, ("assistant", "paid back"), ("user", "thanks")]
    else:
        assert first not in shown
        assert shown[-1] == ("user", "thanks")
    desk.check()


def _raises(messages: Sequence[Message]) -> Sequence[Message]:
    raise RuntimeError("no")


NONSENSE: list[tuple[str, Callable[[Sequence[Message]], Any], str]] = [
    ("raises", _raises, "no"),
    ("nothing", lambda messages: [], "the user's newest message is missing"),
    ("None", lambda messages: None, "NoneType"),
    ("no messages", lambda messages: ["x"], "expected messages, got a str"),
    (
        "a result without its call",
        lambda messages: [m for m in messages if m.role != "assistant"],
        "do not pair up",
    ),
    (
        "a call without its result",
        lambda messages: [m for m in messages if m.role != "tool"],
        "do not pair up",
    ),
]


@pytest.mark.parametrize(("_", "wrong", "said"), NONSENSE, ids=[name for name, *_ in NONSENSE])
def test_a_filter_that_fails_ends_the_run_and_shows_nothing(go: Any, _: str, wrong: Any, said: str) -> None:
    desk = Desk([*OPENING, "paid back"], input_filter=wrong)
    result = go(lambda: desk.agent.run("refund"))
    (error,) = [fact for fact in desk.log.facts if isinstance(fact, ErrorEvent)]
    assert (result.end_reason, error.kind, desk.asked) == ("error", "hook", ["triage", "triage"])
    assert said in str(error.details) + error.message
    assert desk.agent.state.agent == "billing"
    mended = Desk(["paid back"], desk.log.facts, input_filter=without_tools)
    assert go(lambda: mended.agent.continue_()).text == "paid back"
    assert mended.shown(0) == TAKEN_OVER
    mended.check()


def test_a_filter_may_rewrite_what_the_user_said(go: Any) -> None:
    def redacted(messages: Sequence[Message]) -> Sequence[Message]:
        return [replace(each, content=(Text("***"),)) for each in messages if each.role == "user"]

    desk = Desk([*OPENING, "paid back", "bye"], input_filter=redacted)

    async def main() -> None:
        await desk.agent.run("refund")
        await desk.agent.run("thanks")

    go(main)
    assert desk.shown(2)[0] == ("user", "***")
    assert desk.model.requests[2].messages[0] is desk.model.requests[3].messages[0]
    desk.check()
