"""Checks about context in runs of an agent: what is recorded, overflows, and what a session that is taken up knows.

The model has a window and refuses what is larger; each request that it was sent is rebuilt from the log, and each
run is replayed.

Read with: ``tests/context/test_extremes.py``, ``docs/deviations.md`` (which check is shown where).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from tests.context.test_extremes import WINDOW, Ran, read_file, reads, talks
from tests.context.test_summary_runs import agent_of, steps
from tests.context.windowed import Windowed

from unspool.context import Engine, Rewrite, SummaryCheckpoint, TrimText, Work, default
from unspool.context.marks import is_summary, kind_of
from unspool.kernel import (
    Agent,
    CallOptions,
    Edit,
    Fact,
    Limits,
    ModelRequest,
    Retry,
    Usage,
    Verdict,
    fold,
    tool,
    user_message,
)
from unspool.kernel.errors import BadRequestError
from unspool.kernel.events import (
    AgentStart,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    ModelResponse,
    RetryEvent,
)
from unspool.kernel.messages import assistant_message
from unspool.trajectory import MemoryLog, requests

pytestmark = pytest.mark.anyio
PAGE = "a line of text, and then one more of it. " * 60


def kinds(facts: Sequence[Fact]) -> list[str]:
    """What happened to the context, one letter each: a(nnounced), c(ompacted), p(rojected), m(odel's reply); calls for
    a summary in capitals."""
    told = []
    for fact in facts:
        match fact:
            case ContextCompacting():
                told.append("a")
            case ContextCompacted():
                told.append("c")
            case ContextProjected():
                told.append("P" if fact.purpose else "p")
            case ModelResponse():
                told.append("m" if fact.purpose == "reply" else "M")
            case _:
                pass
    return told


T = TypeVar("T")


def all_of(facts: Sequence[Fact], kind: type[T]) -> list[T]:
    return [fact for fact in facts if isinstance(fact, kind)]


# --- what is recorded


async def test_each_call_has_one_projection_and_each_rewrite_one_fact() -> (
    None
):  # T451, A.11.1, A.11.2, D.8.1, I-P
    ran = Ran(Windowed(WINDOW, reads(60)))
    await ran.run()
    told = "".join(kinds(ran.log.facts))
    for turn in told.split("m")[:-1]:
        assert turn.replace("PM", "") in ("p", "acp")  # within one run, before the call that is sent it
    assert "acp" in told.replace("PM", "")
    for fact in ran.rewrites:
        assert (fact.reason, fact.committed) == ("threshold", True)
        assert fact.tokens_before is not None and fact.tokens_after is not None
        assert fact.tokens_after < fact.tokens_before
        assert fact.steps and fact.steps[-1].tokens_after == fact.tokens_after
        assert fact.replaced is not None
        assert fact.messages_after <= fact.messages_before
    facts = all_of(ran.log.facts, ContextProjected)
    assert all(fact.tokens for fact in facts if not fact.purpose)
    summaries = [fact for fact in all_of(ran.log.facts, ModelResponse) if fact.purpose == "compaction"]
    assert len(summaries) == len(ran.model.summaries)
    assert all(fact.reply is not None and fact.usage.input_tokens for fact in summaries)


async def test_the_log_says_which_manager_it_was() -> None:
    ran = Ran(Windowed(WINDOW, reads(2)))
    await ran.run()
    [start] = all_of(ran.log.facts, AgentStart)
    assert start.context["manager"] == "default"
    assert [each["strategy"] for each in start.context["strategies"]][-1] == "squeeze"
    ran.agent.configure(context=Engine([TrimText(keep=9)], window=WINDOW))
    await ran.agent.run("And now?")
    described = [fact.context for fact in all_of(ran.log.facts, ConfigChanged) if fact.context]
    described += [fact.context for fact in all_of(ran.log.facts, AgentStart)[1:] if fact.context]
    assert described[-1]["strategies"][0]["keep"] == 9


async def test_the_first_request_has_what_was_trimmed_for_it() -> None:  # T2, T63
    log = MemoryLog()
    model = Windowed(WINDOW, talks(1))
    agent = Agent(
        model,
        tools=[read_file],
        log=log,
        messages=[assistant_message("a" * 800 + PAGE), user_message("recent")],
        context=Engine([TrimText(keep=1, threshold=100, head=20, tail=10)], window=600, counter="estimate"),
    )
    await agent.run("Go on.")
    first = model.sent[0].messages[0]
    assert (first.text[:20], kind_of(first)) == ("a" * 20, "trimmed")
    assert agent.state.messages[0].text == first.text
    assert fold(log.facts).messages[0].text == first.text


async def test_each_request_extends_the_one_before_but_for_rewrites() -> None:
    ran = Ran(Windowed(WINDOW, reads(80)))
    await ran.run()
    sent = [list(request.messages) for request in ran.model.sent]
    breaks = [after[: len(before)] != before for before, after in pairwise(sent)]
    assert breaks.count(True) == len(ran.rewrites)
    assert len(ran.rewrites) < len(sent) / 2


async def test_a_summary_may_share_the_prefix_of_the_run() -> None:  # T33, T82, T87, D.6.1
    log = MemoryLog()
    agent = agent_of([*steps(40), "Built."], log, share_prefix=True)
    agent.configure(options=CallOptions(thinking="medium", cache_last="ephemeral"))
    assert (await agent.run("Build the parser.")).end_reason == "stop"
    made = list(requests(log.facts))
    asked = [(before, each) for before, each in pairwise(made) if each.purpose == "compaction"]
    assert asked
    for before, each in asked:
        assert (each.request.system, each.request.tools) == (before.request.system, before.request.tools)
        options = each.request.options
        assert (options.thinking, options.cache_last) == ("medium", "ephemeral")
        shared = list(before.request.messages)
        assert list(each.request.messages)[: len(shared)] == shared
        assert each.request.messages[-1].text.startswith("Stop working on the task now")


# --- overflows


async def test_an_overflow_is_mended_once_and_is_no_retry() -> None:  # T437, A.11.3, D.7.5, D.7.7
    ran = Ran(Windowed(WINDOW, reads(60), tells=False))
    assert (await ran.run()).end_reason == "stop"
    assert all_of(ran.log.facts, RetryEvent) == []
    [announced, *_] = [fact for fact in all_of(ran.log.facts, ContextCompacting) if fact.reason == "overflow"]
    assert "too long" in announced.plan
    [mended, *_] = [fact for fact in ran.rewrites if fact.reason == "overflow"]
    assert (mended.tokens_after or 0) < (mended.tokens_before or 0)
    refused = [number for number, each in enumerate(ran.model.sent) if ran.model.tokens(each) > WINDOW]
    for number in refused:
        assert ran.model.tokens(ran.model.sent[number + 1]) <= WINDOW


async def test_what_cannot_be_made_smaller_is_not_sent_again() -> None:  # T437, T371, D.7.5, I-11
    ran = Ran(Windowed(WINDOW, reads(2), tells=False))
    result = await ran.run("Consider this: " + "a long story " * 10_000)
    assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
    assert len(ran.model.sent) == 1
    assert [fact.fatal for fact in all_of(ran.log.facts, ErrorEvent)][-1]
    [compacted] = [fact for fact in ran.rewrites if fact.reason == "overflow"]
    assert (compacted.committed, compacted.steps) == (False, ())


async def test_at_most_one_recovery_for_a_request() -> None:  # I-11, T371
    """A server that refuses everything: after one attempt to mend it the run ends, and says why."""
    model = Windowed(0, talks(1), tells=False)
    agent = Agent(
        model, tools=[read_file], context=default(window=50_000, counter="estimate"), log=(log := MemoryLog())
    )
    for number in range(20):
        agent.set_messages([*agent.state.messages, user_message(f"{number} {PAGE}"), assistant_message(PAGE)])
    result = await agent.run("And now?")
    assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
    assert len(model.sent) == 2
    assert [fact.reason for fact in all_of(log.facts, ContextCompacting)] == ["overflow"]


async def test_a_prefix_that_was_refused_is_not_sent_again_with_a_question() -> None:  # D.6.1
    work = reads(120)

    def answer(request: ModelRequest) -> Any:
        here = request.messages[-1].text.startswith("Stop working on the task now")
        return "<summary>They read files.</summary>" if here else work(request)

    model, log = Windowed(WINDOW, answer, tells=False), MemoryLog()
    manager = default(counter="estimate", summary=SummaryCheckpoint(share_prefix=True))
    agent = Agent(model, tools=[read_file], log=log, limits=Limits(turns=500), context=manager)
    assert (await agent.run("Read.")).end_reason == "stop"
    told = [(fact.purpose, fact.error_kind) for fact in all_of(log.facts, ModelResponse)]
    assert ("compaction", "") in told
    assert told.count(("reply", "context_overflow")) == len(model.refused) > 0


async def test_an_overflow_that_nobody_reports() -> None:  # E.2.2
    """The server counts twice what was counted here, and answers whatever it is sent."""
    model = Windowed(10**6, reads(60), reports=lambda tokens: Usage(input_tokens=2 * tokens))
    agent = Agent(
        model,
        tools=[read_file],
        limits=Limits(turns=99),
        context=default(window=WINDOW, counter="estimate"),
        messages=[
            user_message("Go."),
            assistant_message(PAGE * 4),
            user_message("On."),
            assistant_message("Well."),
        ],
    )
    assert (await agent.run("Read.")).end_reason == "stop"
    assert all(2 * model.tokens(request) <= WINDOW for request in model.sent[1:])


class Fails:
    """Raises."""

    name = "fails"
    commits = True

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        raise ZeroDivisionError("no strategy")


async def test_where_all_strategies_fail_the_whole_view_is_sent() -> None:  # T473, I-11, D.3.3
    model, log = Windowed(WINDOW, reads(9)), MemoryLog()
    agent = Agent(
        model, tools=[read_file], log=log, context=Engine([Fails()], window=2_000, counter="estimate")
    )
    assert (await agent.run("Read.")).end_reason == "stop"
    assert [len(request.messages) for request in model.sent] == list(range(1, 20, 2))
    warnings = [fact for fact in all_of(log.facts, ErrorEvent) if fact.kind == "context_strategy"]
    assert "strategy fails failed" in warnings[0].message and not warnings[0].fatal
    assert all_of(log.facts, ContextCompacted) == []


class Alternates:
    """Puts another message in the place of the first with every request."""

    name = "alternates"
    commits = True

    def __init__(self) -> None:
        self.asked = 0

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        self.asked += 1
        text = "x" * max(1, 4_000 - 100 * self.asked)
        return Rewrite(edits=[Edit(start=0, stop=1, messages=(user_message(text),))])


async def test_no_strategy_can_loop() -> None:
    model, strategy = Windowed(WINDOW, talks(1)), Alternates()
    agent = Agent(
        model,
        tools=[read_file],
        context=Engine([strategy], window=1_000, counter="estimate"),
        messages=[user_message("y" * 9_000), assistant_message("Well.")],
    )
    for number in range(8):
        assert (await agent.run(f"Question {number}?")).end_reason == "stop"
    assert strategy.asked <= 5 * 8
    assert len(model.sent) == 8


# --- sessions


async def test_what_is_queued_is_answered_once_after_a_compaction() -> None:  # T370, D.7.6
    ran = Ran(Windowed(WINDOW, talks(1)), follow_up_mode="one")
    for number in range(12):
        ran.agent.follow_up(f"And {number}?")
    assert (await ran.run("First?")).end_reason == "stop"
    assert ran.rewrites
    answered = [request.messages[-1].text for request in ran.model.sent]
    assert answered == ["First?", *[f"And {number}?" for number in range(12)]]


@pytest.mark.parametrize(
    ("usage", "rewrites"),
    [(0, 0), (1, 0), (4, 1)],
)
async def test_after_a_failed_run_it_is_judged_by_the_last_good_report(  # T373, T374, D.7.2, D.7.4
    usage: int, rewrites: int
) -> None:
    """``usage`` is how many times more than was counted the server reports; the failed call reports nothing."""
    answers: Iterator[str | Exception] = iter(["Yes. " * 40, BadRequestError("no"), "Yes."])
    model = Windowed(
        10**6,
        lambda request: next(answers),
        reports=lambda tokens: Usage(input_tokens=usage * tokens),
    )
    agent = Agent(
        model,
        tools=[read_file],
        context=default(window=WINDOW, counter="estimate"),
        log=(log := MemoryLog()),
        retry=Retry(attempts=0),
        messages=[
            message for _ in range(3) for message in (user_message("Q " * 90), assistant_message(PAGE))
        ],
    )
    assert (await agent.run("One?")).end_reason == "stop"
    assert (await agent.run("Two?")).end_reason == "error"
    assert (await agent.run("Three?")).end_reason == "stop"
    assert len(all_of(log.facts, ContextCompacted)) == rewrites


async def test_a_session_begins_with_its_latest_summary() -> None:  # T359–T362, T364, T365
    log = MemoryLog()
    agent = agent_of([*steps(8), "First done."], log)
    await agent.run("Build the parser.")
    assert len(fold(log.facts).messages) == 2 + 2 * 8  # no compaction yet
    agent = agent_of([*steps(60, 8), "All done."], log2 := MemoryLog(), keep=800)
    agent.set_messages(fold(log.facts).messages)
    await agent.run("Go on.")
    rewrites = all_of(log2.facts, ContextCompacted)[1:]
    assert len(rewrites) >= 2 and all(fact.tokens_before for fact in rewrites)
    state = fold(log2.facts)
    assert list(state.messages) == list(agent.state.messages)
    assert [is_summary(message) for message in state.messages] == [True] + [False] * (len(state.messages) - 1)
    assert state.ids[0] not in [f"m{number}" for number in range(100)]  # the newest summary
    taken_up = Agent(
        Windowed(WINDOW, talks(1)), state=state, context=default(window=WINDOW, counter="estimate")
    )
    request = await taken_up.build_request()
    assert list(request.messages) == list(state.messages)


async def test_a_switch_of_models_is_one_call() -> None:
    large, small = Windowed(100_000, talks(1)), Windowed(WINDOW, talks(1))
    small.name = "test/small"
    agent = Agent(
        large, context=default(counter="estimate"), log=(log := MemoryLog()), limits=Limits(turns=99)
    )
    for number in range(20):
        await agent.run(f"Question {number}?")
    assert all_of(log.facts, ContextCompacted) == []
    agent.configure(model=small)
    assert (await agent.run("And now?")).end_reason == "stop"
    assert (small.refused, len(small.sent)) == ([], 1)
    usage = agent.context_usage
    assert usage is not None and usage.window == WINDOW


@tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def test_calls_that_wait_for_a_person_stay_through_a_compaction() -> None:
    answers: Iterator[Any] = iter([PAGE, PAGE, PAGE, [("k1", "delete", {"path": "a"})], "Done."])
    model = Windowed(WINDOW, lambda request: next(answers))
    agent = Agent(model, tools=[delete], context=default(counter="estimate"))
    for number in range(3):
        await agent.run(f"Question {number}?")
    assert (await agent.run("Delete it.")).end_reason == "paused"
    assert await agent.compact()
    result = await agent.resume({"k1": Verdict.allow()})
    assert (result.end_reason, result.text) == ("stop", "Done.")
    said = [(message.role, message.text) for message in model.sent[-1].messages]
    assert said[-3:] == [("user", "Delete it."), ("assistant", ""), ("tool", "a is gone")]


async def test_nothing_to_compact() -> None:
    model, log = Windowed(WINDOW, talks(1)), MemoryLog()
    agent = Agent(
        model, tools=[read_file], system="Be brief. " * 3_000, log=log, context=default(counter="estimate")
    )
    assert await agent.compact() is False
    [warning] = all_of(log.facts, ErrorEvent)
    assert "tokens of system prompt and tools" in warning.message
    assert (model.sent, model.summaries) == ([], [])
