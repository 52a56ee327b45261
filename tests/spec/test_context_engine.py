"""Checks about the context engine: its levels, what it counts, when strategies are asked, what is committed.

Read with: ``tests/context/test_engine.py``, ``docs/deviations.md`` (which check is shown where).
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.context.scoping import Conversation, Scope
from tests.context.test_engine import (
    FREE,
    ByWords,
    Gives,
    Shorten,
    Summarise,
    calls,
    conversation,
    engine,
    fails,
)

from unspool.context import Engine, TrimText, Work, default, none
from unspool.context.marks import kind_of, mark_of
from unspool.context.snapshot import usage_of
from unspool.context.window import budget_for, reserve_for
from unspool.kernel import AgentMessage, CallOptions, Edit, Message, Text, ToolCall, Usage, user_message
from unspool.kernel.errors import AgentBusyError
from unspool.kernel.messages import assistant_message, tool_message

pytestmark = pytest.mark.anyio


# --- D.1: levels and settings


@pytest.mark.parametrize(
    ("window", "given", "answer", "reserve"),
    [
        (8_000, 0, 0, 4_000),  # the least, 4,096, but never more than half
        (16_000, 0, 0, 4_096),
        (32_000, 0, 0, 4_160),
        (128_000, 0, 0, 16_384),
        (200_000, 0, 0, 16_384),
        (128_000, 1_000, 0, 1_000),
        (128_000, 0, 20_000, 20_000),  # providers count the answer that is asked for in
        (128_000, 1_000, 500_000, 64_000),
        (0, 0, 0, 0),
    ],
)
def test_levels_of_a_window(window: int, given: int, answer: int, reserve: int) -> None:  # D.1.3, T77, T78
    assert reserve_for(window, CallOptions(max_tokens=answer or None), given) == reserve
    budget = budget_for(1, window, reserve, target=0.5)
    assert (budget.trigger, budget.target) == (window - reserve, (window - reserve) // 2)


def test_what_was_refused_is_not_tried_again() -> None:  # A.11.3
    budget = budget_for(1, 128_000, 16_384, target=0.5, ceiling=50_000)
    assert (budget.trigger, budget.ceiling) == (47_500, 50_000)


@pytest.mark.parametrize(
    ("tokens", "window", "percent"), [(50, 200, 25.0), (300, 200, 150.0), (50, 0, 0.0), (0, 200, 0.0)]
)
def test_percent(tokens: int, window: int, percent: float) -> None:  # D.2.4
    assert usage_of(tokens, window).percent == percent


def test_the_default_asks_what_is_cheap_and_harmless_first() -> None:  # D.1.2
    assert [each["strategy"] for each in default().describe()["strategies"]] == [
        "provider_compaction",
        "collapse_duplicates",
        "clear_tool_results",
        "light_trim",
        "priority",
        "summary",
        "extract",
        "squeeze",
    ]


async def test_an_engine_that_is_given_two_conversations_mixes_nothing() -> None:  # D.1.6, I-29
    shared = engine(Shorten(commits=False))
    one, other = conversation(shared, pairs=12), Conversation(shared)
    other.say(user_message("Something else."), *calls(77))
    for _ in range(3):
        assert list((await other.project()).messages) == list(other.transcript)
        shown = list((await one.project()).messages)
        assert [message.role for message in shown] == [message.role for message in one.transcript]
        assert any(kind_of(message) for message in shown)


async def test_two_conversations_at_once_are_told_apart() -> None:  # I-29
    """While a strategy waits for a model, another conversation comes: what was made is not applied to either."""
    shared = engine(Summarise(), window=1000)
    other = Conversation(shared)
    other.say(user_message("Something else."), *calls(77))

    class Interrupted(Scope):
        async def call_model(self, *args: Any, **options: Any) -> Message:
            await other.project()
            return assistant_message("They worked.")

    one = conversation(shared, pairs=12, scope=Interrupted())
    with pytest.raises(AgentBusyError, match="give each its own"):
        await one.project()
    assert list(one.transcript) == one.written
    assert list((await other.project()).messages) == other.written


async def test_a_new_conversation_begins_with_nothing(  # D.1.4, D.1.5, T67, T72
) -> None:
    it = conversation(engine())
    await it.project()
    snapshot = it.manager.snapshot()
    assert snapshot is not None
    assert (snapshot.scope, snapshot.last, snapshot.usage) == ("baseline", (), snapshot.baseline)
    it.manager.sync(it.transcript)
    assert (it.manager.snapshot(), it.manager.usage()) == (None, None)


# --- D.2: what is counted


def test_all_of_the_usage_counts() -> None:  # T352
    usage = Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=200, cache_write_tokens=100)
    assert (usage.total_tokens, usage.context_tokens) == (1800, 1300)
    assert Usage().total_tokens == 0


async def plainly(it: Conversation) -> int:
    """Tokens of the next request for an engine that no usage was reported to."""
    other = Conversation(engine(window=10**6))
    other.say(*it.written)
    return (await other.project()).tokens or 0


@pytest.mark.parametrize(
    ("replies", "factor"),
    [
        ([(2.0, "stop")], 2),
        ([(3.0, "stop"), (2.0, "stop")], 2),  # the newest request tells
        ([(2.0, "stop"), (0, "aborted")], 2),  # one without usage says nothing
        ([(2.0, "stop"), (0, "stop")], 2),
        ([(2.0, "stop"), (9.0, "stop")], 2),  # nor does one that cannot be
        ([], 1),
    ],
)
async def test_the_newest_report_tells_how_far_counts_are_off(  # D.2.3, T90, T353
    replies: list[tuple[float, str]], factor: float
) -> None:
    """``replies`` report a multiple of what was counted, and end for a reason."""
    it = conversation(engine(window=10**6), pairs=4)
    for times, stop in replies:
        await it.project()
        usage = Usage(input_tokens=round(times * await plainly(it))) if times else None
        it.say(assistant_message("Well.", stop_reason=stop, usage=usage), user_message("Go on."))
    made = await it.project()
    assert made.tokens == pytest.approx(factor * await plainly(it), abs=1)


async def test_system_prompt_tools_and_the_last_answer_count() -> None:  # I-9
    it = conversation(engine(window=10**6), scope=Scope(system="be good " * 500))
    made = await it.project()
    assert (made.tokens or 0) > 1000
    it.say(assistant_message("word " * 700, usage=Usage(input_tokens=made.tokens or 0)), user_message("Hm."))
    assert (await it.project()).tokens == pytest.approx((made.tokens or 0) + 700, abs=20)


@pytest.mark.parametrize(
    ("tokens", "manager", "rewrites"),
    [
        (95_000, engine(Shorten(), window=100_000, reserve=10_000), 1),
        (89_000, engine(Shorten(), window=100_000, reserve=10_000), 0),
        (95_000, none(window=100_000, counter=ByWords()), 0),
    ],
)
async def test_when_it_is_due(tokens: int, manager: Engine, rewrites: int) -> None:  # T354, D.7.1
    it = conversation(manager)
    for number in range(tokens // 1000):
        it.say(*calls(number, words=983))  # about 1,000 with the call and what is around
    it.manager.sync(it.transcript)
    made = await it.project()
    assert (made.tokens or 0) < tokens + 2_000
    assert len(it.rewrites) == rewrites


# --- D.3: a projection


class Letters:
    """A token a letter."""

    name = "letters"

    def count(self, text: str, /) -> int:
        return len(text)


LONG = "a" * 800
TRIMMED = f"{'a' * 20}\n[… 770 characters left out …]\n{'a' * 10}"


@pytest.mark.parametrize("commits", [False, True])
async def test_trimmed_remembered_or_committed(commits: bool) -> None:  # T2, T62–T64, T67, D.1.5, D.3.4
    trim = TrimText(keep=1, threshold=100, head=20, tail=10, commits=commits)
    manager = Engine([trim], window=1024, reserve=512, counter=Letters())
    it = Conversation(manager)
    it.say(assistant_message(LONG), user_message("recent"))
    made = await it.project()
    assert [message.text for message in made.messages] == [TRIMMED, "recent"]
    assert it.written[0].text == LONG
    assert (it.transcript[0].text == TRIMMED) is commits
    [rewrite] = it.rewrites
    assert (rewrite.changed, rewrite.commit) == (True, commits)
    [step] = rewrite.steps
    assert (step.strategy, step.tokens_before) == ("light_trim", rewrite.tokens_before)
    assert step.tokens_after == made.tokens == rewrite.tokens_after
    assert step.tokens_after < step.tokens_before
    usage, snapshot = manager.usage(), manager.snapshot()
    assert usage is not None and snapshot is not None and snapshot.baseline is not None
    assert usage.tokens == made.tokens
    assert snapshot.baseline.tokens == (made.tokens if commits else step.tokens_before)
    assert (snapshot.scope, snapshot.kinds) == ("committed" if commits else "projected", {"trimmed": 1})
    assert snapshot.last == rewrite.steps


async def test_nothing_given_is_changed() -> None:  # T71
    call = ToolCall(id="c1", name="grep", args={})
    asked = Message(role="assistant", content=(Text("word " * 99), call), metadata={"source": "x"})
    result = Message(role="tool", content=(Text("word " * 999),), tool_call_id="c1", metadata={"existing": 1})
    it = Conversation(default(window=1000, counter=ByWords()))
    it.say(user_message("Go."), asked, result, assistant_message("Done."), user_message("More."))
    given = list(it.written)
    made = await it.project()
    assert any(kind_of(message) for message in made.messages)
    assert [message.text for message in given] == ["Go.", "word " * 99, "word " * 999, "Done.", "More."]
    assert (given[1].metadata, given[2].metadata) == ({"source": "x"}, {"existing": 1})  # type: ignore[attr-defined]  # messages
    stays = [message for message in made.messages if message.role == "tool"]
    assert all(message.metadata["existing"] == 1 for message in stays)  # type: ignore[attr-defined]  # messages


async def test_strategies_are_asked_in_order_until_it_fits() -> None:  # D.3.2
    def cut(work: Work) -> list[Edit]:
        return [Edit(start=1, stop=9)]

    first, last = Gives("first", cut), Gives("last", cut)
    order = [first, Gives("second", cut), Gives("third", cut), last]
    it = conversation(engine(*order, window=1000, target=0.6), pairs=12)
    await it.project()
    assert [step.strategy for step in it.rewrites[0].steps] == ["first", "second"]
    assert [len(each.asked) for each in order] == [1, 1, 0, 0]
    befores = [step.tokens_before for step in it.rewrites[0].steps]
    assert befores == [work.budget.tokens for work in (first.asked[0], order[1].asked[0])]


async def test_one_that_commits_commits_the_whole_view() -> None:  # D.3.5, T63
    remembered = Gives("remembered", lambda work: [Edit(start=1, stop=5)], commits=False)
    committed = Gives("committed", lambda work: [Edit(start=1, stop=9)], commits=True)
    it = conversation(engine(remembered, committed), pairs=12)
    made = await it.project()
    assert it.rewrites[0].commit
    assert list(made.messages) == list(it.transcript)
    assert len(it.transcript) == len(it.written) - 12


async def test_what_a_rewrite_saved_is_the_difference_of_the_views() -> None:  # T94, D.3.6
    it = conversation(engine(Shorten(), window=51_000), pairs=12, scope=Scope(system="word " * 50_000))
    made = await it.project()
    [rewrite] = it.rewrites
    other = Conversation(engine(window=10**6))
    other.say(*it.written)
    before = (await other.project()).tokens or 0
    other.manager.sync(it.transcript)
    other.transcript = it.transcript
    after = (await other.project()).tokens or 0
    assert (rewrite.tokens_before or 0) - (made.tokens or 0) == before - after


async def test_a_success_begins_to_count_failures_anew() -> None:  # D.3.3, T74–T76
    fate = iter([True, True, False, True, True, True])

    def sometimes(work: Work) -> Sequence[Edit]:
        return fails(work) if next(fate) else [Edit(start=1, stop=3)]

    moody = Gives("moody", sometimes, commits=False)
    it = conversation(engine(moody, max_failures=3, target=1.0), pairs=12)
    asked = []
    for number in range(12, 20):
        before = len(moody.asked)
        assert (await it.project()).messages
        asked.append(len(moody.asked) - before)
        it.say(*calls(number))
    assert asked[:6] == [1, 1, 1, 1, 1, 1]  # two failures, a success, then three more
    assert asked[6] == 0
    assert [text for text, _ in it.scope.warnings if "left out for a while" in text]


async def test_a_rewrite_is_announced_before_the_model_is_called_even_where_it_fails() -> (
    None
):  # D.3.7, T79, T80
    class Asks(Shorten):
        async def rewrite(self, work: Work, /) -> Any:
            await work.call_model(None)  # type: ignore[arg-type]  # nobody looks at it
            raise ValueError("no idea")

    it = conversation(engine(Asks()), pairs=12)
    await it.project()
    assert (it.scope.announced, it.rewrites) == ([("threshold", "shorten")], [])
    assert "strategy shorten failed" in it.scope.warnings[0][0]
    quiet = conversation(engine(Gives("broken", fails)), pairs=12)
    await quiet.project()
    assert quiet.scope.announced == []  # nothing was begun


# --- D.4: a compaction that is asked for


async def test_a_compaction_that_does_nothing_leaves_everything() -> None:  # D.4.1, D.4.3
    it = conversation(engine(Gives("nothing", lambda work: [])), pairs=2)
    for reason in ("manual", "overflow"):
        made = await it.compact(reason)
        assert (made.changed, made.commit, list(made.edits)) == (False, False, [])
    assert list(it.transcript) == it.written


async def test_after_an_overflow_all_are_asked_whatever_was_counted() -> None:  # D.4.3, A.11.3
    it = conversation(engine(Shorten(), window=10**6, prices=FREE), pairs=6)
    await it.project()
    made = await it.compact("overflow")
    assert (made.changed, made.commit) == (True, True)
    assert (made.tokens_after or 0) < (made.tokens_before or 0)
    assert [kind_of(message) for message in it.transcript].count("cleared") == len(made.edits)


async def test_what_was_trimmed_says_so_to_programs_too() -> None:  # I-13, D.5.2
    it = Conversation(Engine([TrimText(keep=1)], window=9_000, reserve=500, counter=Letters()))
    view: list[AgentMessage] = [
        user_message("u" * 5_000),
        assistant_message("", ToolCall(id="c", name="f", args={})),
        tool_message(ToolCall(id="c", name="f", args={}), "r" * 6_000),
        assistant_message("Done."),
        user_message("And?"),
    ]
    it.say(*view)
    made = await it.project()
    assert made.messages[0].text == "u" * 5_000  # what people say is never cut
    assert mark_of(made.messages[2])["characters"] == 6_000
    assert (await it.project()).compaction is None  # and it is not done again
    assert len(it.rewrites) == 1
