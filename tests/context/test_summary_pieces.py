"""A conversation that the model that sums up cannot take at once."""

from collections.abc import AsyncGenerator

import pytest

from unspool.context.estimate import Estimate
from unspool.context.summarizing import SummaryError
from unspool.context.summary import SummaryCheckpoint
from unspool.kernel import AgentMessage, ModelRequest, StreamEvent, ToolCall, user_message
from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Scope
from .working import done, work_of

pytestmark = pytest.mark.anyio

WORDS = "the quick brown fox jumps over the lazy dog and reads the file again "


def tokens(message: AgentMessage) -> int:
    return 4 + Estimate().count(message.text)


def size(request: ModelRequest) -> int:
    """Tokens of a request and the answer that it leaves room for."""
    texts = [*[block.text for block in request.system], *[message.text for message in request.messages]]
    return sum(map(Estimate().count, texts)) + (request.options.max_tokens or 0)


class Small:
    """Another model, with a window of its own."""

    name = "small/model"
    supports_tools = False

    def __init__(self, window: int) -> None:
        self.context_window = window

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        raise NotImplementedError("the scope answers")
        yield


def results(count: int, words: int) -> list[AgentMessage]:
    view: list[AgentMessage] = [user_message("Read them all.")]
    for number in range(count):
        call = ToolCall(id=f"c{number}", name="read_file", args={"path": f"{number}.txt"})
        view += [assistant_message("", call), tool_message(call, f"File {number}. " + WORDS * words)]
    return view


def talk(turns: int, words: int) -> list[AgentMessage]:
    view: list[AgentMessage] = []
    for number in range(turns):
        view += [user_message(f"Wish {number}. " + WORDS * words), assistant_message(f"Answer {number}.")]
    return [*view, user_message("And now?")]


async def test_results_are_shortened_before_anything_is_taken_apart() -> None:
    scope = Scope()
    work = work_of(results(30, 60), tokens=tokens, target=4000, scope=scope)  # 8,000 are the window
    await done(SummaryCheckpoint(keep=10), work)
    [(request, _)] = scope.asked
    assert size(request) <= 8000
    text = request.messages[0].text
    assert all(f"File {number}." in text for number in range(29))
    assert "characters of output left out" in text


@pytest.mark.parametrize("window", [2500, 4000, 8000])
async def test_every_request_leaves_room_for_its_answer(window: int) -> None:
    scope = Scope(*[f"<summary>Record {number}.</summary>" for number in range(8)])
    view = talk(60, 30)  # about 30,000 tokens of what a user said
    strategy = SummaryCheckpoint(keep=10, model=Small(window))
    after = await done(strategy, work_of(view, tokens=tokens, target=40_000, scope=scope))
    assert after is not None
    assert max(size(request) for request, _ in scope.asked) <= window
    texts = [request.messages[0].text for request, _ in scope.asked]
    assert 1 < len(texts) <= 8
    for number, text in enumerate(texts):
        assert f"part {number + 1} of {len(texts)}" in text
        assert number == 0 or f"<previous-summary>\nRecord {number - 1}.\n</previous-summary>" in text
    for number in range(60):  # what a user said is never left out
        assert sum([f"Wish {number}." in text for text in texts]) == 1
    assert f"Record {len(texts) - 1}." in after[0].text


async def test_a_requirement_that_is_too_long_is_shortened_and_told_from_output() -> None:
    scope = Scope()
    spec = user_message("SPEC-7731: must be idempotent. " + "must be idempotent. " * 4000)
    view = [spec, assistant_message("ok"), *results(2, 10), user_message("continue")]
    strategy = SummaryCheckpoint(keep=10, model=Small(4000))
    after = await done(strategy, work_of(view, tokens=tokens, target=40_000, scope=scope))
    asked = scope.asked[0][0].messages[0].text
    assert "SPEC-7731" in asked
    assert "characters of the user's message left out" in asked
    assert after is not None
    assert "SPEC-7731" in after[0].text


async def test_what_cannot_be_made_to_fit_is_refused() -> None:
    scope = Scope()
    strategy = SummaryCheckpoint(keep=10, model=Small(1200))
    with pytest.raises(SummaryError, match="too long for the model's window"):
        await done(strategy, work_of(talk(400, 30), tokens=tokens, target=400_000, scope=scope))
    assert scope.asked == []


async def test_after_an_overflow_it_is_tried_with_less_three_times() -> None:
    error = ContextOverflowError("too long")
    scope = Scope(error, error, error, "<summary>Done.</summary>")
    await done(
        SummaryCheckpoint(keep=10), work_of(results(90, 60), tokens=tokens, target=40_000, scope=scope)
    )
    sizes = [size(request) for request, _ in scope.asked]
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]
    assert len(sizes) <= 3 + 8
    scope = Scope(*[error] * 9)
    with pytest.raises(ContextOverflowError):
        await done(
            SummaryCheckpoint(keep=10), work_of(results(90, 60), tokens=tokens, target=40_000, scope=scope)
        )
    assert len(scope.asked) == 4


async def test_an_earlier_summary_that_is_too_long_loses_its_middle() -> None:
    scope = Scope(f"<summary>FIRST {WORDS * 300} LAST</summary>", "<summary>Both.</summary>")
    view = await done(
        SummaryCheckpoint(keep=10), work_of(talk(30, 60), tokens=tokens, target=40_000, scope=scope)
    )
    assert view is not None
    strategy = SummaryCheckpoint(keep=10, model=Small(3000))
    view += [assistant_message("Well. " + WORDS * 60), user_message("And?")]
    assert await done(strategy, work_of(view, tokens=tokens, target=40_000, scope=scope))
    request = scope.asked[-1][0]
    assert size(request) <= 3000
    earlier = request.messages[0].text.split("</previous-summary>")[0]
    assert "FIRST" in earlier
    assert "LAST" in earlier
    assert "characters of the earlier summary left out" in earlier
