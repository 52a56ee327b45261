"""What holds of context managers in runs, whichever it is, and what users of other libraries complain about.

Read with: ``tests/laws/test_context_laws.py`` (random histories), ``docs/deviations.md`` (which complaint is shown where).
"""

from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tests.context.test_extremes import WINDOW, Ran, read_file, reads, talks
from tests.context.windowed import Windowed

from unspool.context import Engine, SummaryCheckpoint, default, keep_tokens, keep_turns, none
from unspool.context.marks import is_summary, mark_of
from unspool.kernel import (
    Agent,
    AgentMessage,
    AgentState,
    Limits,
    Message,
    ModelRequest,
    StreamEvent,
    TextDelta,
    Thinking,
    ToolCall,
    Usage,
    fold,
    user_message,
)
from unspool.kernel.events import ContextCompacted, ModelResponse
from unspool.kernel.messages import tool_message
from unspool.kernel.state import apply
from unspool.trajectory import MemoryLog, requests

pytestmark = pytest.mark.anyio

MANAGERS: dict[str, Callable[[], Engine]] = {
    "default": lambda: default(counter="estimate"),
    "a shared prefix": lambda: default(counter="estimate", summary=SummaryCheckpoint(share_prefix=True)),
    "summaries that are remembered": lambda: Engine([SummaryCheckpoint(commits=False)], counter="estimate"),
    "keep_turns": lambda: keep_turns(5, counter="estimate"),
    "keep_tokens": lambda: keep_tokens(2_000, counter="estimate"),
    "none": lambda: none(counter="estimate"),
}


class Sums(Windowed):
    """Tells requests for a summary by what they ask for."""

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if request.messages[-1].text.startswith("Stop working on the task now"):
            return _said("<summary>They read files.</summary>")
        return super().stream(request)


async def _said(text: str) -> AsyncGenerator[StreamEvent, None]:
    model = Windowed(10**9, lambda request: text)
    async for event in model.stream(ModelRequest(messages=(user_message("Well?"),))):
        yield event


def agent_of(model: Windowed, log: MemoryLog, manager: Engine, **options: Any) -> Agent[str]:
    limits = Limits(turns=500)
    return Agent(
        model, tools=[read_file], system="Be brief.", log=log, limits=limits, context=manager, **options
    )


@pytest.mark.parametrize("name", MANAGERS)
async def test_a_long_run(name: str) -> None:
    """Requests are such as providers take (the model checks), and each extends the last one but for what is recorded."""
    window = 100_000 if name == "none" else WINDOW
    model, log = Sums(window, reads(60)), MemoryLog()
    agent = agent_of(model, log, MANAGERS[name]())
    result = await agent.run("Read the files.")
    assert (result.text, model.refused) == ("All read.", [])
    rewrites = [fact for fact in log.facts if isinstance(fact, ContextCompacted)]
    sent = [list(request.messages) for request in model.sent]
    assert len(sent) == 61
    breaks = sum(after[: len(before)] != before for before, after in pairwise(sent))
    assert breaks == len(rewrites)
    assert (breaks == 0) is (name == "none")
    for fact in rewrites:
        assert fact.tokens_before is not None and fact.tokens_after is not None
        assert fact.tokens_after < fact.tokens_before
        assert fact.committed or fact.covered
    for request in model.sent:
        assert [block.text for block in request.system] == ["Be brief."]
        assert [message.text for message in request.messages].count("Read the files.") == 1
        assert request.messages[-1].role in ("user", "tool")
    assert all(each.exact for each in requests(log.facts))


@pytest.mark.parametrize("name", MANAGERS)
async def test_what_is_not_shown_is_covered_by_a_record(name: str) -> None:
    window = 100_000 if name == "none" else WINDOW
    model, log = Sums(window, reads(40)), MemoryLog()
    agent = agent_of(model, log, MANAGERS[name]())
    await agent.run("Read the files.")
    state, covered = AgentState(), set[str]()
    for fact in log.facts:
        ids = list(state.ids)
        state = apply(state, fact)
        if isinstance(fact, ContextCompacted):
            covered |= set(ids) - set(state.ids)
            for part in fact.covered:
                covered |= set(ids[ids.index(part.first) : ids.index(part.last) + 1])
    sent = model.sent[-1].messages
    missing = [id for id, each in zip(state.ids, state.messages, strict=True) if each not in sent]
    assert missing[-1] == state.ids[-1]  # the last answer
    assert set(missing[:-1]) <= covered
    assert bool(covered) is (name != "none")


async def test_what_summaries_cost_is_in_the_totals() -> None:
    ran = Ran(Windowed(WINDOW, reads(60)))
    await ran.run()
    told = [fact for fact in ran.log.facts if isinstance(fact, ModelResponse)]
    assert {fact.purpose for fact in told} == {"reply", "compaction"}
    assert ran.agent.usage == sum([fact.usage for fact in told], Usage())


async def test_killed_anywhere_the_session_goes_on() -> None:
    """Whatever the log ends with, a call without its result or half a compaction, the next request is in order."""
    ran = Ran(Windowed(WINDOW, reads(25)))
    await ran.run()
    assert ran.rewrites
    for stop in range(3, len(ran.log.facts), 9):
        state = fold(ran.log.facts[:stop])
        model = Windowed(WINDOW, reads(2))
        agent = agent_of(model, MemoryLog(), default(counter="estimate"), state=state)
        if agent.can_continue:
            assert (await agent.continue_()).end_reason == "stop", stop
        result = await agent.run("Go on.")
        assert (result.end_reason, model.refused) == ("stop", []), stop
        said = [message.text for message in model.sent[-1].messages]
        assert any("Read the files." in text for text in said) or not state.messages, stop


async def test_a_loop_of_reasoning_that_spans_the_view_has_a_cut() -> None:
    view: list[AgentMessage] = [user_message("Think and read.")]
    for number in range(40):
        call = ToolCall(id=f"c{number}", name="read_file", args={"path": f"{number}.txt"})
        thought = Thinking(text=f"Thought {number}. " + "hm " * 300, signature="c2ln")
        view += [
            Message(role="assistant", content=(thought, call), stop_reason="tool_use"),
            tool_message(call, "ok"),
        ]
    model, log = Windowed(WINDOW, reads(1)), MemoryLog()
    agent = agent_of(model, log, default(counter="estimate"), messages=view)
    model.sent.append(ModelRequest(messages=()))  # what is asked first is a summary
    assert (await agent.continue_()).end_reason == "stop"
    assert model.refused == []
    made = [fact for fact in log.facts if isinstance(fact, ContextCompacted) and fact.steps]
    assert made and made[-1].messages_after < made[-1].messages_before


async def test_what_was_shortened_stays_so_after_a_restart() -> None:
    ran = Ran(Windowed(WINDOW, reads(2, size=40_000)))
    assert (await ran.run()).end_reason == "stop"
    refused = len(ran.model.refused)
    model = Windowed(WINDOW, talks(1))
    agent = agent_of(model, MemoryLog(), default(counter="estimate"), state=fold(ran.log.facts))
    assert (await agent.run("And?")).end_reason == "stop"
    assert (refused, model.refused) == (0, [])
    results = [message.text for message in model.sent[0].messages if message.role == "tool"]
    assert results and all("characters" in text and len(text) < 20_000 for text in results)


async def test_the_task_survives_many_compactions() -> None:
    ran = Ran(Windowed(WINDOW, talks(1)))
    await ran.run("TASK-1: write the parser, and never push to main.")
    for number in range(120):
        await ran.agent.run(f"Wish {number}.")
        assert "TASK-1: write the parser, and never push to main." in "".join(
            [message.text for message in ran.model.sent[-1].messages]
        )
    summaries = sum([step.strategy == "summary" for fact in ran.rewrites for step in fact.steps])
    assert summaries >= 5
    [summary] = [message for message in ran.agent.state.messages if is_summary(message)]
    assert mark_of(summary)["requests"][0].startswith("TASK-1")


class Hangs(Windowed):
    """Never ends its summaries."""

    def __init__(self) -> None:
        super().__init__(WINDOW, talks(1))
        self.began = anyio.Event()

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        return super().stream(request) if request.tools else self._hang()

    async def _hang(self) -> AsyncGenerator[StreamEvent, None]:
        yield TextDelta("<summary>They ")
        self.began.set()
        await anyio.sleep_forever()


async def test_nothing_is_taken_away_before_there_is_a_summary() -> None:
    model, log = Hangs(), MemoryLog()
    agent = agent_of(model, log, Engine([SummaryCheckpoint()], counter="estimate"))
    for number in range(4):
        await agent.run(f"Question {number}?")
    held = list(agent.state.messages)
    async with anyio.create_task_group() as group, agent:
        agent.prompt("And " * 2_000)
        with anyio.fail_after(5):
            await model.began.wait()
            agent.abort(marker=False)
            await agent.wait_idle()
        group.cancel_scope.cancel()
    assert not [fact for fact in log.facts if isinstance(fact, ContextCompacted)]
    assert list(agent.state.messages)[: len(held)] == held
    assert [fact.purpose for fact in log.facts if isinstance(fact, ModelResponse)] == ["reply"] * 4
    ran = Ran(Windowed(WINDOW, reads(60)))
    await ran.run()
    for at, fact in enumerate(ran.log.facts):
        if isinstance(fact, ContextCompacted) and any(step.strategy == "summary" for step in fact.steps):
            before = [each for each in ran.log.facts[:at] if isinstance(each, ModelResponse)][-1]
            assert (before.purpose, before.error_kind) == ("compaction", "")
