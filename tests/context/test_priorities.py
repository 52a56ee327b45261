"""Which application messages are asked to make themselves smaller, and how far."""

from collections.abc import Callable

import pytest
from msgspec import Struct

from unspool.context.priorities import ReduceByPriority
from unspool.kernel import (
    AgentMessage,
    BaseMessage,
    Message,
    Reduced,
    ToolCall,
    assistant_message,
    user_message,
)

from .histories import Note
from .scoping import Scope
from .working import count, done, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]


def note(priority: int = 0, *, least: float = 0.0, share: float = 1.0) -> Note:
    """4,000 characters, 1,004 tokens."""
    return Note("n" * 4000, priority=priority, least=least, share=share)


END = [assistant_message("done"), user_message("next")]

# The share of its full size at which each message is after a rewrite that is to save so many tokens.
CASES: dict[str, tuple[View, int, list[float]]] = {
    "nothing to save": ([note(), note()], 0, [1, 1]),
    "as far as needed": ([note(), note()], 502, [0.5, 1]),
    "the oldest first": ([note(), note()], 904, [0.1, 1]),
    "then the next": ([note(), note()], 1402, [0.1, 0.5]),
    "lowest first": ([note(1), note(0)], 502, [1, 0.5]),
    "higher ones when those have given all": ([note(2), note(0), note(1)], 1402, [1, 0.1, 0.5]),
    "which may be less than was asked for": ([note(1), note(0, least=0.4)], 1000, [0.61, 0.4]),
    "further, where one is reduced": ([note(share=0.5), note()], 200, [0.3, 1]),
    "no further than to a tenth": ([note(share=0.1), note()], 500, [0.1, 0.5]),
}


@pytest.mark.parametrize(("view", "excess", "shares"), CASES.values(), ids=CASES)
async def test_how_far(view: View, excess: int, shares: list[float]) -> None:
    view = [*view, *END]
    total = sum(map(count, view))
    after = await done(ReduceByPriority(), work_of(view, target=total - excess))
    assert [each.share for each in after or view if isinstance(each, Note)] == pytest.approx(shares, abs=0.01)
    for old, new in zip(view, after or view, strict=True):
        assert new.raw() == old.raw()


async def test_what_is_said_of_it() -> None:
    rewrite = await ReduceByPriority().rewrite(work_of([note(), note(least=0.4), *END]))
    assert rewrite is not None and rewrite.note == "2 messages, at 10% to 40% of their full size"


async def test_who_is_not_asked() -> None:
    """Plain messages, the newest that a user said, the turn under way, what the model is not sent."""
    plain = user_message("p" * 4000)
    unsaid = Note("n" * 4000, said=False)
    assert await done(ReduceByPriority(), work_of([plain, unsaid, note()])) is None


class Odd(BaseMessage, Struct, frozen=True):
    """A message whose smaller form is whatever a test wants."""

    smaller: Callable[[], AgentMessage]
    text: str = "o" * 4000

    def compact(self, expect: float) -> Reduced:
        return Reduced(self.smaller(), expect)

    def to_message(self) -> Message | None:
        return user_message(self.text)


@pytest.mark.parametrize(
    "smaller",
    [
        lambda: Odd(list, "o" * 5000),  # type: ignore[arg-type]  # never asked
        lambda: Note("", said=False),
        lambda: Message(role="user"),
        lambda: Note("a", role="custom"),
        lambda: assistant_message("", ToolCall(id="c", name="f")),
    ],
    ids=["larger", "nothing", "blank", "another role", "a call"],
)
async def test_forms_that_cannot_stand_there(smaller: Callable[[], AgentMessage]) -> None:
    assert await done(ReduceByPriority(), work_of([Odd(smaller), *END])) is None


async def test_a_plain_message_is_a_form() -> None:
    view: View = [Odd(lambda: user_message("short")), *END]
    after = await done(ReduceByPriority(), work_of(view))
    assert after is not None and after[0].text == "short"


async def test_a_class_that_cannot_be_reduced_does_not_keep_the_others_from_it() -> None:
    class Broken(Note, frozen=True):
        def compact(self, expect: float) -> Reduced:
            raise RuntimeError("no")

    scope, long = Scope(), "n" * 4000
    view: View = [Broken(long), Note(long), *END]
    after = await done(ReduceByPriority(), work_of(view, target=10, scope=scope))
    assert after is not None and len(after[1].text) < len(long)
    assert "Broken" in scope.warnings[0][0]
