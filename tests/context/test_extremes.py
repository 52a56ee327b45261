"""The default manager where nothing fits: the run goes on, or ends with one clear ``context_overflow``; never a loop."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from unspool.context import default
from unspool.kernel import Agent, AgentState, Limits, ModelRequest, Retry, RunResult, Usage, tool
from unspool.kernel.errors import BadRequestError, ContextOverflowError, OverloadedError
from unspool.kernel.events import ContextCompacted, ErrorEvent
from unspool.kernel.state import apply
from unspool.trajectory import MemoryLog, replay, requests

from .windowed import Windowed

pytestmark = pytest.mark.anyio
WINDOW = 8_000


@tool
def read_file(path: str, size: int = 400) -> str:
    """Read a file.

    Args:
        path: which
        size: in words
    """
    return "\n".join([f"line {n} of {path}: some content" for n in range(size // 7 + 1)])


class Ran:
    """A run of the default manager against a model with a window, and what is always true of it."""

    def __init__(self, model: Windowed, prompt: str = "Read the files.", **options: Any) -> None:
        self.model = model
        self.log = MemoryLog()
        window = 0 if model.context_window else options.pop("window", 0)
        self.agent = Agent(
            model,
            tools=[read_file],
            context=default(window=window, counter="estimate"),
            log=self.log,
            limits=Limits(turns=1000),
            retry=Retry(attempts=0),
            **options,
        )
        self.prompt = prompt

    async def run(self, prompt: str = "") -> RunResult[str]:
        with anyio.fail_after(60):
            result = await self.agent.run(prompt or self.prompt)
        rebuilt = list(requests(self.log.facts))
        assert all(each.exact for each in rebuilt)
        assert len(rebuilt) == len(self.model.sent) + len(self.model.summaries)
        again = await replay(self.log.facts)
        assert again.difference is None, again
        return result

    @property
    def rewrites(self) -> list[ContextCompacted]:
        return [fact for fact in self.log.facts if isinstance(fact, ContextCompacted)]

    @property
    def warnings(self) -> list[ErrorEvent]:
        return [fact for fact in self.log.facts if isinstance(fact, ErrorEvent) and not fact.fatal]

    @property
    def errors(self) -> list[str]:
        return [fact.kind for fact in self.log.facts if isinstance(fact, ErrorEvent) and fact.fatal]


def reads(count: int, *, size: int = 400, parallel: int = 1) -> Callable[[ModelRequest], Any]:
    """A model that reads ``count`` files, one reply after the other, and is done."""
    asked = [0]

    def answer(request: ModelRequest) -> Any:
        if asked[0] >= count:
            return "All read."
        ids = range(asked[0], min(count, asked[0] + parallel))
        asked[0] += parallel
        return [(f"c{n}", "read_file", {"path": f"{n}.txt", "size": size}) for n in ids]

    return answer


async def test_a_long_tool_loop_goes_on_and_on() -> None:
    ran = Ran(Windowed(WINDOW, reads(200)))
    result = await ran.run()
    assert (result.end_reason, result.text) == ("stop", "All read.")
    assert ran.model.refused == []
    assert 5 <= len(ran.rewrites) <= 80
    assert ran.errors == []
    assert all(request.messages[0].text == "Read the files." for request in ran.model.sent[:5])
    assert all(
        any(message.text == "Read the files." for message in request.messages) for request in ran.model.sent
    )


async def test_a_window_that_nobody_knows_is_found_out() -> None:
    ran = Ran(Windowed(WINDOW, reads(100), tells=False))
    result = await ran.run()
    assert result.end_reason == "stop"
    assert 1 <= len(ran.model.refused) <= 3


@pytest.mark.parametrize("size", [10_000, 200_000])
async def test_a_result_that_is_larger_than_the_window(size: int) -> None:
    ran = Ran(Windowed(WINDOW, reads(3, size=size)))
    assert (await ran.run()).end_reason == "stop"
    assert len(ran.model.refused) <= 1


async def test_parallel_results_that_do_not_fit_together() -> None:
    ran = Ran(Windowed(WINDOW, reads(10, size=20_000, parallel=5)))
    assert (await ran.run()).end_reason == "stop"
    last = [message for message in ran.model.sent[1].messages if message.role == "tool"]
    assert len(last) == 5
    assert all("left out" in message.text and "line 0 of" in message.text for message in last)


async def test_four_hundred_calls_in_one_reply() -> None:
    ran = Ran(Windowed(32_000, reads(400, parallel=400)))
    assert (await ran.run()).end_reason == "stop"
    assert len([message for message in ran.model.sent[1].messages if message.role == "tool"]) == 400


async def test_a_user_text_that_is_larger_than_the_window_is_refused_once_and_the_next_one_works() -> None:
    ran = Ran(Windowed(WINDOW, reads(2)))
    result = await ran.run("Consider this: " + "a long story " * 10_000)
    assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
    assert len(ran.model.sent) <= 2
    result = await ran.run("Never mind. Read the files.")
    assert result.end_reason == "stop"


async def test_a_window_smaller_than_system_prompt_and_tools() -> None:
    ran = Ran(Windowed(2_000, reads(2)), system="You are careful. " * 1_000)
    result = await ran.run()
    assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
    assert len(ran.model.sent) <= 2
    assert ran.errors == ["context_overflow"]


async def test_a_system_prompt_above_the_trigger_that_still_fits() -> None:
    """Nothing can be gained: it is tried a few times, and the run proceeds while requests fit."""
    ran = Ran(Windowed(WINDOW, reads(12, size=50)), system="You are careful. " * 1_100)
    result = await ran.run()
    assert result.end_reason == "stop"
    assert len(ran.rewrites) <= 4


SUMMARISERS: dict[str, Callable[[ModelRequest], Any]] = {
    "fails": lambda request: OverloadedError("provider: no capacity"),
    "refuses": lambda request: BadRequestError("no such thing"),
    "answers nothing": lambda request: "",
    "answers white space": lambda request: "  \n ",
    "answers too much": lambda request: "<summary>" + "much and more of it " * 30_000 + "</summary>",
    "overflows": lambda request: ContextOverflowError("prompt is too long"),
    "calls a tool": lambda request: [("s1", "read_file", {"path": "x"})],
}


def talks(count: int) -> Callable[[ModelRequest], Any]:
    return lambda request: "A long answer, with much in it that nobody needs. " * 60


@pytest.mark.parametrize("case", SUMMARISERS)
async def test_a_summariser_that_is_of_no_use(case: str) -> None:
    ran = Ran(Windowed(WINDOW, talks(60), summary=SUMMARISERS[case]))
    for number in range(60):
        assert (await ran.agent.run(f"Question {number}?")).end_reason == "stop"
    assert (await ran.run("The last one?")).end_reason == "stop"
    assert ran.model.refused == []
    assert any(step.strategy == "extract" for rewrite in ran.rewrites for step in rewrite.steps)
    assert len(ran.model.summaries) <= 30
    assert ran.warnings


USAGES: dict[str, Callable[[int], Usage]] = {
    "missing": lambda tokens: Usage(),
    "absurdly large": lambda tokens: Usage(input_tokens=10**12),
    "absurdly small": lambda tokens: Usage(input_tokens=1),
    "twice as much": lambda tokens: Usage(input_tokens=2 * tokens),
    "half as much": lambda tokens: Usage(input_tokens=tokens // 2),
    "cached": lambda tokens: Usage(cache_read_tokens=tokens - 1, input_tokens=1),
}


@pytest.mark.parametrize("case", USAGES)
async def test_usage_that_cannot_be_relied_on(case: str) -> None:
    ran = Ran(Windowed(WINDOW, reads(60), reports=USAGES[case]))
    assert (await ran.run()).end_reason == "stop"
    assert len(ran.rewrites) <= 40


async def test_a_person_wants_it_shorter() -> None:
    ran = Ran(Windowed(100_000, reads(10)))
    await ran.run()
    before = len(ran.agent.state.messages)
    assert await ran.agent.compact("Keep the names of the files.")
    assert len(ran.agent.state.messages) < before
    assert "Keep the names of the files." in str(ran.model.summaries[0].messages)
    assert (await ran.run("And now?")).end_reason == "stop"


async def test_every_message_is_in_the_view_or_covered() -> None:
    """Nothing disappears silently: what a request does not show, a recorded rewrite stands for."""
    ran = Ran(Windowed(WINDOW, reads(80)))
    await ran.run()
    state, covered = AgentState(), set[str]()
    for fact in ran.log.facts:
        before, state = set(state.ids), apply(state, fact)
        gone = before - set(state.ids)
        assert not gone or isinstance(fact, ContextCompacted), fact
        covered |= gone
    assert covered | set(state.ids) >= {f"m{number}" for number in range(1, 162)}
    assert len(ran.rewrites) > 3


async def test_what_stays_is_above_the_trigger_and_the_rest_is_made_to_fit_the_window() -> None:
    """System prompt and prompt leave less than the reserve; a large result is cut to what the window has left."""
    ran = Ran(Windowed(8_192, reads(1, size=20_000)), system="You are careful. " * 1_300)
    result = await ran.run()
    assert (result.end_reason, result.text) == ("stop", "All read.")
    assert ran.model.refused == []
