"""A summary without a model."""

from typing import Any

import pytest
from msgspec import Struct

from unspool.context.engine import Engine
from unspool.context.extract import ExtractiveSummary
from unspool.context.marks import mark_of
from unspool.kernel import AgentMessage, BaseMessage, Message, ToolCall, user_message
from unspool.kernel.conformance_context import check_context
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Scope
from .test_summary import LONG, loop, roles, summed, talk
from .working import count, done, work_of

pytestmark = pytest.mark.anyio


async def test_it_says_what_was_done_in_a_line_each() -> None:
    test = ToolCall(id="t", name="bash", args={"command": "pytest tests/test_a.py"})
    edit = ToolCall(id="e", name="edit_file", args={"path": "src/a.py", "text": "x" * 900})
    view = [
        user_message("Mend the bug of ABC-12. It is in src/a.py."),
        assistant_message("I look at the tests first. Then I mend it.", test),
        tool_message(test, "src/a.py:3 fails in 4f2a9c1e. " + LONG * 3, is_error=True),
        assistant_message("", edit),
        tool_message(edit, "ok"),
        assistant_message("", edit),
        tool_message(edit, "ok"),
        assistant_message("ABC-12 is done, 4f2a9c1e mended."),
        user_message("Now the docs."),
        *loop(2),
        user_message("Thanks."),
    ]
    scope = Scope()
    after = await done(ExtractiveSummary(keep=10), work_of(view, target=4000, scope=scope))
    assert scope.asked == []
    assert roles(after) == "Su"
    mark = mark_of(summed(after))
    assert mark["by"] == "extract"
    assert mark["modified_files"] == ["src/a.py"]
    assert mark["requests"] == ["Mend the bug of ABC-12. It is in src/a.py.", "Now the docs."]
    text = mark["summary"]
    assert text.startswith(
        "## Steps, oldest first\n"
        "User: Mend the bug of ABC-12.\n"
        "Assistant: I look at the tests first.\n"
        'bash(command="pytest tests/test_a.py") → error: src/a.py:3 fails in 4f2a9c1e.\n'
    )
    assert text.count("edit_file(") == 1
    assert "(×2)\nAssistant: ABC-12 is done, 4f2a9c1e mended.\nUser: Now the docs.\n" in text
    assert text.endswith("## Names that came up again and again\nsrc/a.py\n4f2a9c1e\nABC-12")


async def test_work_on_the_current_request_is_told_apart() -> None:
    view = [*talk(2)[:-1], user_message("Read them."), *loop(9)]
    after = await done(ExtractiveSummary(keep=10), work_of(view, target=9000))
    assert roles(after) == "Suat"
    before, during = mark_of(summed(after))["summary"].split("## Work on the current request\n")
    assert "Answer 1." in before
    assert during.splitlines()[0] == 'read_file(path="0.py")'
    assert "Read them." not in before + during


async def test_it_is_bounded_and_carries_what_was_before() -> None:
    view: list[AgentMessage] = [user_message("Build it.")]
    sizes = []
    for number in range(20):
        view += [*loop(40, start=40 * number), assistant_message("So far."), user_message(f"Wish {number}.")]
        after = await done(ExtractiveSummary(), work_of(view, target=6000))
        assert after is not None
        view = after
        summary = summed(view)
        sizes.append(count(summary))
        assert summary.text.count("## Earlier") <= 1
        assert 'read_file(path="0.py")' in summary.text
        assert f'read_file(path="{40 * number + 30}.py")' in summary.text
    assert max(sizes) < 6000 // 3


async def test_the_same_messages_give_the_same_text() -> None:
    view = [*talk(5), *loop(30)]
    first, second = [await done(ExtractiveSummary(), work_of(view, target=3000)) for _ in range(2)]
    assert first == second


async def test_what_it_cannot_make_shorter_it_leaves() -> None:
    view = [user_message("a"), assistant_message("b"), user_message("c")]
    assert await done(ExtractiveSummary(keep=1), work_of(view, target=3000)) is None
    assert await done(ExtractiveSummary(), work_of(talk(1)[:1], target=3000)) is None


class Counting(BaseMessage, Struct, frozen=True):
    """Notes how often it is looked at."""

    said: str
    looks: list[str]

    def to_message(self) -> Message:
        self.looks.append(self.said)
        return user_message(self.said)


@pytest.mark.parametrize("notes", [100, 3000])
async def test_each_message_is_looked_at_a_few_times_however_many_there_are(notes: int) -> None:
    looks: list[str] = []
    view: list[AgentMessage] = [Counting(f"Note {number}. {LONG}", looks) for number in range(notes)]
    work = work_of([*view, user_message("And now?")], target=4000)
    looks.clear()
    assert await done(ExtractiveSummary(keep=10), work)
    assert len(looks) <= 20 * notes


@pytest.mark.parametrize("settings", [{}, {"keep": 200}, {"commits": False}])
@pytest.mark.parametrize("window", [1500, 8000])
async def test_conformance(settings: dict[str, Any], window: int) -> None:
    await check_context(
        lambda: Engine([ExtractiveSummary(**settings)], window=window, counter="estimate"), long=200
    )


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens=-5"):
        ExtractiveSummary(max_tokens=-5)
