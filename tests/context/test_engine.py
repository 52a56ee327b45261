"""The engine with strategies of a few lines each: when they are asked, what is done with what they give."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from unspool.context.economy import Prices
from unspool.context.engine import Engine
from unspool.context.marks import marked
from unspool.context.work import Rewrite, Work
from unspool.kernel import AgentMessage, Edit, Message, ModelRequest, Usage, user_message
from unspool.kernel.messages import ToolCall, assistant_message, tool_message
from unspool.llm.scripted import ScriptedModel

from .scoping import Conversation, Scope

FREE = Prices(cached=0.0)  # what is read from the cache costs nothing: a rewrite never pays by itself


class ByWords:
    """A token a word."""

    name = "words"

    def count(self, text: str, /) -> int:
        return len(text.split())


class Shorten:
    """Old results become one word, the oldest first, until the target is reached."""

    name = "shorten"

    def __init__(self, *, commits: bool = True) -> None:
        self.commits = commits
        self.asked: list[Work] = []

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        self.asked.append(work)
        edits: list[Edit] = []
        excess = work.budget.excess
        for at, message in enumerate(work.view[: work.tail]):
            if message.role != "tool" or not isinstance(message, Message) or len(message.text) < 50:
                continue
            short = marked(message, assistant_message("cleared").content, "cleared")
            edits.append(Edit(start=at, stop=at + 1, messages=(short,)))
            excess -= work.tokens(message) - work.tokens(short)
            if excess <= 0:
                break
        return Rewrite(edits=edits, note=f"{len(edits)} results") if edits else None


class Summarise(Shorten):
    """All before the tail but the newest user message becomes what the model says."""

    name = "sum_up"
    last_resort = True
    forced = True

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        self.asked.append(work)
        if work.newest_user < 0 or work.tail < 4:
            return None
        said = await work.call_model(request("sum up"))
        stop = work.newest_user if work.newest_user == len(work.view) - 1 else work.tail
        kept = [work.view[work.newest_user]] if work.newest_user < stop else []
        summary = marked(user_message(said.text), user_message(said.text).content, "summary")
        return Rewrite(edits=[Edit(start=0, stop=stop, messages=(summary, *kept))])


class Gives(Shorten):
    """What a function of the view says."""

    def __init__(self, name: str, give: Callable[[Work], Sequence[Edit]], *, commits: bool = True) -> None:
        super().__init__(commits=commits)
        self.name = name
        self._give = give

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        self.asked.append(work)
        return Rewrite(edits=self._give(work))


def request(text: str) -> ModelRequest:
    return ModelRequest(messages=(user_message(text),))


def fails(work: Work) -> Sequence[Edit]:
    raise ValueError("no idea")


def calls(number: int, words: int = 100) -> list[AgentMessage]:
    """A reply with a call, and its result."""
    call = ToolCall(id=f"c{number}", name="read_file", args={"path": f"{number}.txt"})
    return [assistant_message(f"Look {number}.", call), tool_message(call, f"word{number} " * words)]


def engine(*strategies: Any, window: int = 1000, **settings: Any) -> Engine:
    return Engine(
        strategies, window=window, counter=ByWords(), **{"reserve": 100, "prices": FREE, **settings}
    )


def conversation(manager: Engine, *, pairs: int = 0, scope: Scope | None = None) -> Conversation:
    it = Conversation(manager, scope)
    it.say(user_message("Please do it."))
    for number in range(pairs):
        it.say(*calls(number))
    return it


async def sizes(it: Conversation, pairs: range) -> list[int]:
    """Tokens of each request while calls go on."""
    seen = []
    for number in pairs:
        it.say(*calls(number))
        seen.append((await it.project()).tokens or 0)
    return seen


pytestmark = pytest.mark.anyio


async def test_a_view_that_fits_is_shown_as_it_is() -> None:
    shorten = Shorten()
    it = conversation(engine(shorten), pairs=3)
    made = await it.project()
    assert made.messages is it.transcript
    assert (shorten.asked, it.scope.announced) == ([], [])


@pytest.mark.parametrize("commits", [True, False])
async def test_a_rewrite_gets_far_below_the_trigger_and_then_the_prefix_stays(commits: bool) -> None:
    it = conversation(engine(Shorten(commits=commits)))
    last: list[AgentMessage] = []
    broken = 0
    for number in range(25):
        it.say(*calls(number))
        made = await it.project()
        assert (made.tokens or 0) <= 900
        shown = list(made.messages)
        broken += shown[: len(last)] != last
        last = shown
        assert (await it.project()).messages == made.messages
    assert broken == len(it.rewrites)
    assert 3 <= broken <= 8
    assert all(rewrite.commit == commits for rewrite in it.rewrites)
    assert all((rewrite.tokens_after or 0) <= 600 for rewrite in it.rewrites[:3])
    assert len(it.transcript) == len(it.written)
    assert (list(it.transcript) == it.written) is not commits
    assert {reason for reason, _ in it.scope.announced} == {"threshold"}


async def test_a_commit_that_is_not_made_is_remembered() -> None:
    it = conversation(engine(Shorten()), pairs=12)
    made = await it.manager.project(it.transcript, it.scope)
    assert made.compaction is not None and made.compaction.commit
    for number in range(12, 15):
        it.say(*calls(number))
        again = await it.manager.project(it.transcript, it.scope)
        assert again.compaction is None
        assert list(again.messages)[: len(made.messages)] == list(made.messages)


async def test_what_costs_much_is_only_asked_for_while_the_cheap_does_not_do() -> None:
    summarise = Summarise()
    it = conversation(engine(Shorten(), summarise), pairs=9)
    await it.project()
    assert (len(it.rewrites), summarise.asked) == (1, [])
    it.say(*[user_message(f"And {number}, " + "more " * 99) for number in range(8)])
    await it.project()
    assert [step.strategy for step in it.rewrites[-1].steps] == ["shorten", "sum_up"]
    assert it.scope.asked[0][1] == "compaction"


async def test_a_strategy_that_fails_is_left_out_for_a_while() -> None:
    broken = Gives("broken", fails)
    it = conversation(engine(broken, max_failures=2), pairs=12)
    asked = []
    for _ in range(8):
        before = len(broken.asked)
        made = await it.project()
        assert made.messages is it.transcript
        asked.append(len(broken.asked) - before)
    assert asked == [1, 1, 0, 1, 0, 0, 1, 0]
    failures = [text for text, _ in it.scope.warnings if "failed" in text]
    assert "strategy broken failed: " in failures[0]
    assert "no idea" in failures[0]
    assert "is left out for a while" in failures[1]


async def test_after_a_failure_the_next_one_is_asked() -> None:
    it = conversation(engine(Gives("broken", fails), Shorten()), pairs=12)
    await it.project()
    assert [step.strategy for step in it.rewrites[0].steps] == ["shorten"]


ILLEGAL: dict[str, tuple[Callable[[Work], Sequence[Edit]], str]] = {
    "all": (lambda work: [Edit(start=0, stop=len(work.view))], "leaves nothing"),
    "user": (lambda work: [Edit(start=0, stop=3)], "newest user message"),
    "call": (lambda work: [Edit(start=1, stop=2)], "results from their calls"),
    "result": (lambda work: [Edit(start=2, stop=3)], "calls from their results"),
    "tail": (lambda work: [Edit(start=work.tail, stop=len(work.view))], "turn under way"),
    "beyond": (lambda work: [Edit(start=3, stop=99)], "fit 25 messages"),
    "twice": (lambda work: [Edit(start=3, stop=7), Edit(start=5, stop=9)], "in order"),
}


@pytest.mark.parametrize("case", ILLEGAL)
async def test_a_rewrite_that_breaks_a_rule_is_not_applied(case: str) -> None:
    give, why = ILLEGAL[case]
    it = conversation(engine(Gives("rude", give), Shorten()), pairs=12)
    await it.project()
    assert why in it.scope.warnings[0][0]
    assert [step.strategy for step in it.rewrites[0].steps] == ["shorten"]


async def test_a_rewrite_that_saves_nothing_is_not_applied() -> None:
    same = Gives("same", lambda work: [Edit(start=1, stop=2, messages=(work.view[1],))])
    longer = Gives("longer", lambda work: [Edit(start=3, stop=3, messages=(user_message("more"),))])
    it = conversation(engine(same, longer), pairs=12)
    assert (await it.project()).messages is it.transcript
    assert it.rewrites == []
    assert len(it.scope.warnings) == 1
    assert "nothing more can be made smaller" in it.scope.warnings[0][0]


async def test_when_nothing_helps_it_is_tried_less_and_less_until_somebody_says_something() -> None:
    nothing = Gives("nothing", lambda work: [])
    it = conversation(engine(nothing, window=100_000), pairs=900)
    await it.project()
    for number in range(900, 1200):
        it.say(*calls(number))
        await it.project()
    assert len(nothing.asked) == 4  # at 99.9 %, then 5 %, 10 % and 20 % of the window later
    assert len(it.scope.warnings) == 1
    it.say(user_message("What now?"))
    await it.project()
    assert len(nothing.asked) == 5


async def test_system_prompt_and_tools_that_leave_no_room() -> None:
    scope = Scope(system="be good " * 480)
    shorten = Shorten()
    it = conversation(engine(shorten), scope=scope)
    for number in range(30):
        it.say(*calls(number, words=30))
        assert (await it.project()).messages
    assert len(shorten.asked) <= 6
    assert len(scope.warnings) <= 2
    assert len(it.rewrites) <= 6


async def test_reported_usage_corrects_what_was_counted() -> None:
    it = conversation(engine(Shorten()), pairs=2)
    made = await it.project()
    assert made.tokens is not None
    call = ToolCall(id="x", name="read_file", args={})
    reply = assistant_message("Look.", call, usage=Usage(input_tokens=3 * made.tokens))
    it.say(reply, tool_message(call, "nothing"))
    later = await it.project()
    assert 3 * made.tokens < (later.tokens or 0) < 3.5 * made.tokens


@pytest.mark.parametrize("reported", [0, 10**9, 1])
async def test_absurd_usage_is_not_believed(reported: int) -> None:
    it = conversation(engine(Shorten()), pairs=2)
    made = await it.project()
    it.say(assistant_message("Hm.", usage=Usage(input_tokens=reported)), user_message("Go on."))
    later = await it.project()
    assert (made.tokens or 0) < (later.tokens or 0) < (made.tokens or 0) + 30
    assert it.rewrites == []


async def test_usage_from_before_a_rewrite_does_not_trigger_another() -> None:
    """What a reply reports belongs to the view that it answered."""
    it = conversation(engine(Shorten()), pairs=8)
    made = await it.project()
    it.say(
        assistant_message("One more. " * 20, usage=Usage(input_tokens=made.tokens or 0)), user_message("Yes.")
    )
    await it.project()
    assert len(it.rewrites) == 1
    for _ in range(3):
        await it.project()
    assert len(it.rewrites) == 1


async def test_an_overflow_says_that_the_window_is_smaller() -> None:
    it = conversation(engine(Shorten(), window=100_000), pairs=9)
    made = await it.project()
    rewrite = await it.compact("overflow")
    assert rewrite.changed and rewrite.reason == "overflow"
    assert (rewrite.tokens_after or 0) <= (made.tokens or 0) // 2
    seen = await sizes(it, range(9, 30))
    assert max(seen) < (made.tokens or 0)
    assert it.scope.announced[0][0] == "threshold"  # the overflow was announced by whoever saw it


async def test_an_overflow_that_nothing_can_be_done_about() -> None:
    it = conversation(engine(Shorten()), pairs=1)
    await it.project()
    assert (await it.compact("overflow")).changed is False


async def test_a_person_gets_the_compaction_that_was_asked_for() -> None:
    summarise, shorten = Summarise(), Shorten()
    it = conversation(engine(shorten, summarise), pairs=3)
    it.say(assistant_message("Done."), user_message("Thanks."))
    rewrite = await it.compact("manual")
    assert [step.strategy for step in rewrite.steps] == ["sum_up"]
    assert shorten.asked == []
    assert rewrite.reason == "manual"
    assert [message.role for message in it.transcript] == ["user", "user"]


async def test_another_model_has_another_window() -> None:
    it = conversation(engine(Shorten(), window=0), pairs=20)
    it.scope.window = 100_000
    await it.project()
    assert it.rewrites == []
    it.scope.window = 1000
    it.scope.model = ScriptedModel([], name="other/small")
    await it.project()
    assert len(it.rewrites) == 1
    usage = it.manager.usage()
    assert usage is not None and usage.window == 1000


async def test_a_transcript_that_was_replaced() -> None:
    it = conversation(engine(Shorten(commits=False)), pairs=12)
    await it.project()
    other = Conversation(it.manager)
    it.manager.sync(other.transcript)
    assert it.manager.usage() is None
    other.say(user_message("Something else."))
    assert list((await other.project()).messages) == list(other.transcript)


async def test_limits_of_turns() -> None:
    def newest(work: Work) -> Sequence[Edit]:
        return [Edit(start=1, stop=len(work.view) - 6)]

    it = conversation(engine(Gives("newest", newest, commits=False), window=10**6, max_turns=6))
    shown = []
    for number in range(12):
        it.say(*calls(number))
        shown.append(sum(message.role == "assistant" for message in (await it.project()).messages))
    assert shown == [1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 3, 4]
    assert {rewrite.reason for rewrite in it.rewrites} == {"turns"}


async def test_limits_of_tokens_are_of_the_messages() -> None:
    scope = Scope(system="word " * 5000)
    it = conversation(engine(Shorten(), window=10**6, max_tokens=900), scope=scope)
    seen = await sizes(it, range(25))
    assert max(seen) < 6000
    assert 3 <= len(it.rewrites) <= 8


@pytest.mark.parametrize(("cached", "least", "most"), [(0.0, 0, 0), (0.02, 1, 6), (0.1, 7, 14), (0.5, 8, 25)])
async def test_the_dearer_the_cache_the_sooner_is_rewritten_what_still_fits(
    cached: float, least: int, most: int
) -> None:
    manager = engine(Shorten(), window=40_000, prices=Prices(cached=cached))
    it = conversation(manager)
    await sizes(it, range(800))
    assert least <= sum(rewrite.reason == "cost" for rewrite in it.rewrites) <= most
    assert all((rewrite.tokens_before or 0) > 9_900 for rewrite in it.rewrites)


async def test_the_work_of_a_projection_does_not_depend_on_the_length() -> None:
    counted = {}
    for pairs in (10, 5000):
        manager = engine(Shorten(), window=10**9)
        it = conversation(manager, pairs=pairs)
        await it.project()
        before = manager.counted
        it.say(*calls(99_999))
        await it.project()
        counted[pairs] = manager.counted - before
    assert counted == {10: 2, 5000: 2}


async def test_what_is_told() -> None:
    it = conversation(engine(Shorten(), window=1000, name="mine", settings={"x": 1}), pairs=12)
    assert it.manager.usage() is None
    assert it.manager.snapshot() is None
    await it.project()
    usage, snapshot = it.manager.usage(), it.manager.snapshot()
    assert usage is not None and snapshot is not None
    assert (usage.window, snapshot.usage) == (1000, usage)
    assert usage.percent == pytest.approx(usage.tokens / 10)
    assert (snapshot.messages, snapshot.projected, snapshot.scope) == (25, 25, "committed")
    assert snapshot.kinds["cleared"] >= 7
    assert [step.strategy for step in snapshot.last] == ["shorten"]
    assert snapshot.counter == "words"
    described = dict(it.manager.describe())  # type: ignore[attr-defined]
    assert described["strategies"] == [{"strategy": "shorten", "commits": True}]
    assert (described["manager"], described["x"], described["window"]) == ("mine", 1, 1000)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"target": 0}, "target"),
        ({"target": 1.5}, "target"),
        ({"window": -1}, "window"),
        ({"reserve": -1}, "reserve"),
        ({"window": 1000, "reserve": 1000}, "reserve"),
        ({"max_turns": -1}, "max_turns"),
        ({"max_failures": 0}, "max_failures"),
    ],
)
async def test_settings_that_make_no_sense(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Engine([], **settings)


async def test_two_strategies_of_one_name() -> None:
    with pytest.raises(ValueError, match="two strategies"):
        Engine([Shorten(), Shorten()])


class Rude(Gives):
    """Gives something that no rewrite is, or changes what it was given."""

    def __init__(self, give: Callable[[Work], Any]) -> None:
        super().__init__("rude", lambda work: [])
        self._any = give

    async def rewrite(self, work: Work, /) -> Any:
        return self._any(work)


def changes_the_view(work: Work) -> Any:
    del work.view[-1]  # type: ignore[attr-defined]


RUDE: dict[str, tuple[Callable[[Work], Any], str]] = {
    "a list": (lambda work: [Edit(start=1, stop=3)], "gave list"),
    "a note that is no text": (lambda work: Rewrite(edits=[], note=5), "note is int"),  # type: ignore[arg-type]
    "an edit that is none": (lambda work: Rewrite(edits=[(1, 2)]), "edit is tuple"),  # type: ignore[list-item]
    "a message that is none": (
        lambda work: Rewrite(edits=[Edit(start=1, stop=3, messages=("x",))]),  # type: ignore[arg-type]
        "puts str",
    ),
    "the view changed": (changes_the_view, "tuple"),
}


@pytest.mark.parametrize("case", RUDE)
async def test_what_is_no_rewrite_is_said_and_not_made(case: str) -> None:
    give, why = RUDE[case]
    it = conversation(engine(Rude(give), Shorten()), pairs=12)
    await it.project()
    assert why in it.scope.warnings[0][0]
    assert [step.strategy for step in it.rewrites[0].steps] == ["shorten"]
    assert it.transcript[0].text == "Please do it."


@pytest.mark.parametrize("given", [Shorten, object(), "shorten", None])
async def test_what_is_no_strategy(given: Any) -> None:
    with pytest.raises(TypeError, match="no strategy"):
        Engine([given])


async def test_a_counter_that_cannot_count() -> None:
    class Negative(ByWords):
        def count(self, text: str, /) -> int:
            return -1

    it = conversation(Engine([], counter=Negative()), pairs=1)
    with pytest.raises(ValueError, match="no number of tokens"):
        await it.project()


async def test_usage_after_a_compaction_is_that_of_what_is_left() -> None:
    it = conversation(engine(Shorten()), pairs=5)
    await it.project()
    rewrite = await it.compact("manual")
    usage = it.manager.usage()
    assert rewrite.changed and usage is not None and usage.tokens == rewrite.tokens_after


async def test_a_renewed_engine_is_set_the_same_and_remembers_nothing() -> None:
    it = conversation(engine(Shorten(), window=1000), pairs=12)
    await it.project()
    manager = it.manager
    assert isinstance(manager, Engine)
    again = manager.renewed()
    assert again.describe() == manager.describe()
    assert (again.usage(), again.counted) == (None, 0)
