"""Where a conversation is cut, and what stays whatever its age."""

from collections.abc import Callable

import pytest

from unspool.context.keeping import KeepTokens, KeepTurns, token_cut, turn_cut
from unspool.context.marks import mark_of
from unspool.kernel import AgentMessage, Message, Text, ToolCall, user_message
from unspool.kernel.messages import assistant_message, tool_message

from .working import count, done, turn, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]


def called(n: int) -> View:
    """Two calls side by side."""
    calls = [ToolCall(id=f"{n}{which}", name="f") for which in "xy"]
    return [assistant_message("", *calls), *[tool_message(call, f"r{call.id}") for call in calls]]


LETTERS: dict[str, Callable[[int], View]] = {
    "u": lambda n: [user_message(f"u{n} " + "word " * 20)],
    "a": lambda n: [assistant_message(f"a{n}")],
    "c": lambda n: turn(n, "f", f"r{n}"),
    "C": called,
    "x": lambda n: [assistant_message(f"x{n}", stop_reason="error")],
    "s": lambda n: [Message(role="system", content=(Text(f"s{n}"),))],
}


def view_of(letters: str) -> View:
    """u(ser), a(nswer), c(all with its result), C: two calls, x: a reply that failed, s(ystem)."""
    return [message for n, letter in enumerate(letters) for message in LETTERS[letter](n)]


def shown(view: View | None) -> str:
    """The same letters, t for results and - for what was left out."""
    names = {"user": "u", "tool": "t", "system": "s"}
    return "".join(
        [
            "-"
            if mark_of(message)
            else names.get(
                message.role, "c" if message.has_tool_calls else "x" if "x" in message.text else "a"
            )
            for message in view or ()
        ]
    )


@pytest.mark.parametrize(
    ("letters", "turns", "cut"),
    [
        ("uaua", 1, 2),
        ("uaua", 2, 0),
        ("uaua", 9, 0),
        ("uauau", 1, 2),  # what was not answered yet is no turn
        ("uuaua", 1, 3),
        ("uaxua", 1, 2),  # a reply that failed is none
        ("ucca", 1, 5),
        ("ucca", 2, 3),
        ("uCCC", 2, 4),
        ("ucc", 1, 3),
        ("u", 1, 0),
    ],
)
def test_turns(letters: str, turns: int, cut: int) -> None:
    assert turn_cut(view_of(letters), turns) == cut


@pytest.mark.parametrize(
    ("tokens", "cut"),
    [(80, 0), (79, 1), (50, 1), (49, 3), (35, 3), (30, 3), (29, 4)],
)
def test_tokens(tokens: int, cut: int) -> None:
    """A result is never the first."""
    view = view_of("ucu")
    assert [count(each) for each in view] == [30, 15, 5, 30]
    assert token_cut(view, count, tokens) == cut


CASES: dict[str, tuple[str, int, str]] = {
    "nothing to leave out": ("uaua", 2, ""),
    "all before": ("uauaua", 1, "-ua"),
    "system messages stay": ("suasuaua", 1, "s-sua"),
    "calls go with their results": ("uCuCua", 1, "-ua"),
    "the newest user message stays": ("ucccc", 2, "-uctct"),
    "and is the last that a user says": ("uaucccc", 2, "-uctct"),
    "the turn under way stays": ("uauaC", 1, "-uctt"),
    "not for the sake of a few words": ("aaaua", 1, ""),
}


@pytest.mark.parametrize(("letters", "turns", "left"), CASES.values(), ids=CASES)
async def test_what_is_left(letters: str, turns: int, left: str) -> None:
    after = await done(KeepTurns(turns), work_of(view_of(letters)))
    assert shown(after) == left
    if after is not None:
        assert await done(KeepTurns(turns), work_of(after)) is None


async def test_without_a_note() -> None:
    assert shown(await done(KeepTurns(1, note=False), work_of(view_of("uauaua")))) == "ua"


async def test_the_note_counts_on() -> None:
    view = view_of("uauaua")
    once = await done(KeepTurns(1), work_of(view))
    assert once is not None and once[0].role == "user"
    assert once[0].text == "[4 earlier messages of this conversation left out here]"
    assert mark_of(once[0]) == {"kind": "dropped", "of": "", "messages": 4}
    twice = await done(KeepTurns(1), work_of([*once, *view_of("uaua")]))
    assert shown(twice) == "-ua" and twice is not None and mark_of(twice[0])["messages"] == 8


async def test_a_note_is_not_what_a_user_said() -> None:
    """Cut again and again in one long turn, the task stays and one note goes before it."""
    view: View = view_of("u")
    for n in range(1, 30):
        view += turn(n, "f", f"r{n} " + "word " * 20)
        view = await done(KeepTurns(3), work_of(view)) or view
    assert shown(view) == "-uctctct" and view[1].text.startswith("u0")
    assert mark_of(view[0])["messages"] == 2 * (29 - 3)


async def test_a_call_whose_result_came_late_stays() -> None:
    call = ToolCall(id="late", name="f")
    view = [
        *view_of("ua"),
        assistant_message("", call),
        *view_of("uaua"),
        tool_message(call, "here"),
        *view_of("ua"),
    ]
    after = await done(KeepTurns(2), work_of(view))
    assert shown(after) == "-cuatua"


async def test_newest_tokens() -> None:
    view = view_of("ua" * 50)
    after = await done(KeepTokens(200), work_of(view))
    assert after is not None and sum(map(count, after[1:])) <= 200
    assert len(after) > 5 and mark_of(after[0])["messages"] == 101 - len(after)


async def test_as_many_tokens_as_there_is_room_for() -> None:
    work = work_of(view_of("ua" * 50), target=300)
    after = await done(KeepTokens(0), work)
    assert after is not None and sum(map(count, after[1:])) <= 300 - work.budget.overhead


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="at least one"):
        KeepTurns(0)
    with pytest.raises(ValueError, match="less than no token"):
        KeepTokens(-1)
