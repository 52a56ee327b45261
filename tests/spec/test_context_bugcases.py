"""Faults of compaction that were reported against other libraries: what comes of each here.

Inputs are written here in the shape of each case; data of the shared cases is used where it is present.

Read with: ``test_bugcases.py`` (other areas), ``tests/context/test_extremes.py``.
"""

import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.context.test_extremes import WINDOW, Ran, read_file, reads, talks
from tests.context.test_summary_runs import PAGE
from tests.context.windowed import Windowed

from unspool.context import Engine, ExtractiveSummary, SummaryCheckpoint, default
from unspool.context.marks import is_summary, mark_of, marked
from unspool.kernel import (
    Agent,
    AgentMessage,
    Codec,
    Fact,
    Limits,
    Message,
    ModelRequest,
    Retry,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    Usage,
    fold,
    user_message,
)
from unspool.kernel.errors import AuthError, ContextOverflowError, OverloadedError
from unspool.kernel.events import ContextCompacted, ContextCompacting, ErrorEvent, ModelResponse
from unspool.kernel.messages import assistant_message, tool_message
from unspool.llm.scripted import Entry, Say, ScriptedModel
from unspool.trajectory import MemoryLog, requests

pytestmark = pytest.mark.anyio
_SHARED = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).parents[3] / "shared")


class Sums(Windowed):
    """Answers requests for a summary as a script says."""

    def __init__(self, window: int, answer: Callable[[ModelRequest], Any], *summaries: Entry) -> None:
        super().__init__(window, answer)
        self.script = ScriptedModel(summaries)

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if request.tools or not self.sent:
            return super().stream(request)
        self.summaries.append(request)
        return self.script.stream(request)


def only_summaries(window: int = WINDOW, **settings: Any) -> Engine:
    """A manager that can do nothing but ask the model."""
    return Engine([SummaryCheckpoint(**settings)], window=window, counter="estimate")


def agent_of(model: Windowed, log: MemoryLog, **options: Any) -> Agent[str]:
    options = {"context": default(counter="estimate"), **options}
    return Agent(
        model, tools=[read_file], log=log, limits=Limits(turns=500), retry=Retry(attempts=0), **options
    )


def rewrites(log: MemoryLog) -> list[ContextCompacted]:
    return [
        fact for fact in log.facts if isinstance(fact, ContextCompacted) and fact.reason != "set_messages"
    ]


def causes(log: MemoryLog) -> list[str]:
    """What strategies failed of."""
    failed = [fact for fact in log.facts if isinstance(fact, ErrorEvent) and fact.kind == "context_strategy"]
    return [str(fact.details["error_kind"]) for fact in failed if "error_kind" in fact.details]


def texts(request: ModelRequest) -> str:
    return "\n".join([message.text for message in request.messages])


async def test_the_system_prompt_survives() -> None:  # B100
    model = Sums(WINDOW, talks(1), *["<summary>They talked.</summary>"] * 9)
    agent = agent_of(model, log := MemoryLog(), system="Never push to main.", context=only_summaries())
    agent.set_messages([Message(role="system", content=(Text("Speak plainly."),))])
    for number in range(3):
        await agent.run(f"u{number}")
    assert await agent.compact()
    await agent.run("u3")
    assert await agent.compact()
    await agent.run("u4")
    assert len(model.summaries) == 2
    for request in model.sent:
        assert [block.text for block in request.system] == ["Never push to main."]
        assert request.messages[0].text == "Speak plainly."
    for request in [*model.sent, *model.summaries]:
        assert "Never push to main." not in texts(request)
    assert all(each.exact for each in requests(log.facts))


@pytest.mark.parametrize("summary", ["<summary>They worked.</summary>", OverloadedError("502")], ids=type)
async def test_a_long_requirement_is_never_left_out(summary: Entry) -> None:  # B101
    spec = "SPEC-4412: it must never be sent twice. " + "It must never be sent twice. " * 300
    model = Sums(WINDOW, talks(1), *[summary] * 99)
    agent = agent_of(model, MemoryLog())
    await agent.run(spec)
    for number in range(25):
        await agent.run(f"step {number}")
    assert model.summaries
    assert all("SPEC-4412" in texts(request) for request in model.sent)
    asked = [request for request in model.summaries if "SPEC-4412" in texts(request)]
    assert asked and all(len(texts(request)) < 4 * WINDOW for request in asked)


NO_TEXT: dict[str, Entry] = {
    "reasoning alone": Say([Thinking(text="hmm")], stop_reason="length"),
    "white space": "   ",
    "a call": [ToolCall(id="s1", name="read_file", args={"path": "x"})],
}


@pytest.mark.parametrize("case", NO_TEXT)
async def test_an_answer_without_text_is_no_summary(case: str) -> None:  # B102
    model = Sums(WINDOW, talks(1), *[NO_TEXT[case]] * 99)
    agent = agent_of(model, log := MemoryLog(), context=only_summaries())
    ends = []
    for number in range(20):
        ends.append(await agent.run(f"Question {number}?"))
    assert rewrites(log) == [fact for fact in rewrites(log) if not fact.steps]  # none that took anything away
    assert set(causes(log)) == {"summary"}
    fits = [end.end_reason == "stop" for end in ends]
    assert fits[:9] == [True] * 9  # it goes on as long as it fits
    assert fits == sorted(fits, reverse=True)
    assert {end.error_kind for end in ends if end.end_reason == "error"} <= {"context_overflow"}
    assert not all(fits)
    assert len(model.summaries) <= 2 * len(model.sent)
    assert [m.text for m in agent.state.messages if m.role == "user"] == [f"Question {n}?" for n in range(20)]


S1 = marked(
    Message(role="user"),
    [Text("<context-summary>\nS1\n</context-summary>")],
    "summary",
    summary="S1",
    requests=["build the parser"],
)
LONG_RESULT = tool_message(ToolCall(id="c1", name="read_file"), "r " * 4_000)


@pytest.mark.parametrize(
    "before",
    [
        [S1, assistant_message("", ToolCall(id="c1", name="read_file", args={})), LONG_RESULT],
        [user_message("build the parser"), assistant_message(PAGE), assistant_message(PAGE)],
    ],
    ids=["a summary is the only user message", "the request is there"],
)
async def test_a_second_summary_does_not_take_the_first_for_a_request(
    before: list[AgentMessage],
) -> None:  # B103
    answers = [f"<summary>Record {number}.</summary>" for number in range(9)]
    model = Sums(WINDOW, reads(3, size=700), "<summary>Record.</summary>", *answers)
    model.sent.append(ModelRequest(messages=()))  # what is asked first is a summary
    agent = agent_of(model, MemoryLog(), context=only_summaries(), system="s", messages=before)
    sizes = []
    for number in range(6):
        agent.set_messages(
            [
                *agent.state.messages,
                assistant_message("", ToolCall(id=f"n{number}", name="read_file", args={})),
                tool_message(ToolCall(id=f"n{number}", name="read_file", args={}), PAGE * 4),
                assistant_message(PAGE),
            ]
        )
        assert await agent.compact()
        sizes.append(sum(len(message.text) for message in agent.state.messages))
    view = "\n".join([message.text for message in agent.state.messages])
    assert view.count("build the parser") == 1
    assert view.count("<context-summary>") == 1
    assert all("context-summary" not in texts(request) for request in model.summaries)
    assert max(sizes[1:]) - min(sizes[1:]) < 100
    assert sum(is_summary(message) for message in agent.state.messages) == 1


async def test_a_summary_is_the_users_and_not_the_last_word() -> None:  # B104
    model = Sums(WINDOW, talks(1), "<summary>Must fetch ticket 12</summary>")
    agent = agent_of(model, MemoryLog(), context=only_summaries(keep=1), system="s")
    await agent.run("long task")
    await agent.run("and more")
    assert await agent.compact()
    await agent.run("now do it")
    summary, request, answer, pending = model.sent[-1].messages
    assert [each.role for each in (summary, request, answer)] == ["user", "user", "assistant"]
    assert (request.text, pending.role, pending.text) == ("and more", "user", "now do it")
    assert "Must fetch ticket 12" in summary.text
    assert "a record of earlier work" in summary.text and "not complete" in summary.text
    assert "do not repeat" not in summary.text.lower()


@pytest.mark.parametrize(("words", "overhead", "end"), [(7_750, 29_000, "stop"), (8_500, 31_800, "error")])
async def test_system_prompt_and_tools_above_the_trigger(words: int, overhead: int, end: str) -> None:  # B105
    """Nothing is tried again and again: what gains nothing pauses with one warning, and what fits is sent."""
    model = Windowed(32_000, reads(100, size=20))
    manager = default(reserve=4_800, counter="estimate")
    agent = agent_of(model, log := MemoryLog(), context=manager, system="You are careful. " * words)
    result = await agent.run("Read the files.")
    system = ModelRequest(messages=(), system=model.sent[0].system)
    assert model.tokens(system) == pytest.approx(overhead, abs=200)
    told = [fact.message for fact in log.facts if isinstance(fact, ErrorEvent) and not fact.fatal]
    assert len([text for text in told if "nothing more can be made smaller" in text]) == 1
    assert "tokens of system prompt and tools" in told[0]
    made = [fact for fact in rewrites(log) if fact.steps]
    assert all((fact.tokens_before or 0) - (fact.tokens_after or 0) > 500 for fact in made)
    assert len(model.summaries) <= len(made) + 1 <= 5
    assert (result.end_reason, result.error_kind) == (end, "context_overflow" if end == "error" else "")
    assert len(model.refused) == (end == "error")
    if end == "stop":
        assert len(model.sent) == 101


async def test_usage_from_before_a_compaction_does_not_trigger_another() -> None:  # B106
    model = Windowed(10_000, talks(1), reports=lambda tokens: Usage(input_tokens=9_500))
    view: list[AgentMessage] = [user_message("Go."), assistant_message("x " * 4_000), user_message("On.")]
    agent = agent_of(model, log := MemoryLog(), messages=view)
    await agent.run("And?")
    await agent.build_request()
    count = len(rewrites(log))
    for _ in range(3):  # before any new answer
        await agent.build_request()
    assert count == len(rewrites(log)) == 1


def of_case(id: str) -> list[AgentMessage]:
    """The messages of a shared case."""
    file = _SHARED / "bugcases" / "data" / f"{id}.messages.json"
    if not file.is_file():
        pytest.skip("the shared cases are not here (UNSPOOL_SHARED)")
    return [
        Message(
            role=row["role"],
            content=(
                *([Text(row["content"])] if row["content"] else []),
                *[ToolCall(**call) for call in row.get("tool_calls", ())],
            ),
            tool_call_id=row.get("tool_call_id", ""),
        )
        for row in json.loads(file.read_bytes())
    ]


def dumped(*sizes: int) -> list[AgentMessage]:
    calls = [ToolCall(id=f"d{number}", name="dump", args={}) for number in range(len(sizes))]
    results = [tool_message(call, "9" * size) for call, size in zip(calls, sizes, strict=True)]
    return [user_message("dump it"), assistant_message("", *calls), *results]


LARGE: dict[str, Callable[[], list[AgentMessage]]] = {
    "the case": lambda: of_case("B108"),
    "one result": lambda: dumped(400_000),
    "five side by side": lambda: dumped(*[100_000] * 5),
}


@pytest.mark.parametrize("case", LARGE)
async def test_a_result_larger_than_the_window(case: str) -> None:  # B108
    given = LARGE[case]()
    model = Windowed(32_000, talks(1))
    agent = agent_of(model, log := MemoryLog(), messages=given)
    result = await agent.continue_()
    assert (result.end_reason, model.refused) == ("stop", [])
    shown = [message for message in model.sent[0].messages if message.role == "tool"]
    assert len(shown) == sum(message.role == "tool" for message in given)
    for message in shown:
        assert message.text.startswith("9") and message.text.endswith("9")
        assert "characters left out" in message.text
        assert "call dump for a smaller part to see more" in message.text
    sizes = [len(message.text) for message in shown]
    assert max(sizes) - min(sizes) < 100  # the room is shared
    stored = b"".join([Codec().encode(fact) for fact in log.facts])
    assert b"9" * 100_000 in stored  # the log has all of it


async def test_a_user_text_larger_than_the_window() -> None:  # B108
    ran = Ran(Windowed(32_000, reads(2)))
    result = await ran.run("A story: " + "it went on and on " * 20_000)
    assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
    assert len(ran.model.sent) <= 2
    [warning] = [fact for fact in ran.warnings if "nothing more can be made smaller" in fact.message]
    assert "tokens in the user message m1" in warning.message  # which one it is
    assert (await ran.run("Never mind. Read.")).end_reason == "stop"


async def test_a_summary_of_more_than_its_model_takes() -> None:  # B110
    view = [m for n in range(45) for m in (user_message(f"Wish {n}."), assistant_message(f"{n} {PAGE}"))]
    model = Windowed(8_000, talks(1))
    agent = agent_of(model, MemoryLog(), messages=view, context=only_summaries(8_000))
    asked = ModelRequest(messages=[m for m in view if isinstance(m, Message)])
    assert model.tokens(asked) > 9_000
    model.sent.append(asked)  # what is asked first is a summary
    result = await agent.run("And now?")
    assert (result.end_reason, model.refused) == ("stop", [])
    assert model.summaries
    for request in model.summaries:
        assert model.tokens(request) + (request.options.max_tokens or 0) <= 8_000
    assert all(f"Wish {n}." in "".join(map(texts, model.summaries)) for n in range(40))


def until_compacting(facts: Sequence[Fact]) -> list[Fact]:
    """The log of a process that died in the middle of a compaction."""
    at = next(n for n, fact in enumerate(facts) if isinstance(fact, ContextCompacting))
    return list(facts[: at + 1])


async def test_a_compaction_that_was_begun_and_never_ended() -> None:  # B111
    model = Sums(100_000, talks(1), *["<summary>They talked.</summary>"] * 9)
    agent = agent_of(model, first := MemoryLog(), context=only_summaries(100_000))
    await agent.run("a")
    await agent.run("b")
    await agent.compact()
    cut = until_compacting(first.facts)
    state = fold(cut)
    model = Sums(100_000, talks(1), *["<summary>They talked.</summary>"] * 9)
    agent = agent_of(model, second := MemoryLog(), context=only_summaries(100_000), state=state)
    assert (await agent.run("c")).end_reason == "stop"
    assert [message.text for message in model.sent[0].messages if message.role == "user"] == ["a", "b", "c"]
    assert await agent.compact()  # it may begin again
    assert rewrites(second) and is_summary(agent.state.messages[0])


FAILURES: dict[str, tuple[Exception, str]] = {
    "502": (OverloadedError("502"), "overloaded"),
    "401": (AuthError("401"), "auth"),
    "overflow": (ContextOverflowError("too long"), "context_overflow"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_summariser_that_fails_is_reported_as_what_it_is(case: str) -> None:  # B114
    error, kind = FAILURES[case]
    model = Sums(WINDOW, talks(1), *[error] * 99)
    agent = agent_of(model, log := MemoryLog(), context=only_summaries())
    for number in range(3):
        await agent.run(f"Question {number}?")
    assert await agent.compact() is False
    assert set(causes(log)) == {kind}
    told = [fact for fact in log.facts if isinstance(fact, ModelResponse) and fact.purpose == "compaction"]
    assert told and {fact.error_kind for fact in told} == {kind}
    assert (await agent.run("Go on.")).end_reason == "stop"
    assert not [fact for fact in log.facts if isinstance(fact, ErrorEvent) and fact.fatal]


async def test_a_failing_summariser_is_replaced_and_left_alone_for_a_while() -> None:  # B114, I-30
    manager = Engine([SummaryCheckpoint(), ExtractiveSummary()], window=WINDOW, counter="estimate")
    model = Sums(WINDOW, talks(1), *[OverloadedError("502")] * 999)
    agent = agent_of(model, log := MemoryLog(), context=manager)
    for number in range(120):
        assert (await agent.run(f"Question {number}?")).end_reason == "stop"
    made = rewrites(log)
    assert {step.strategy for fact in made for step in fact.steps} == {"extract"}
    assert len(model.summaries) < len(made)
    assert mark_of(agent.state.messages[0])["by"] == "extract"
