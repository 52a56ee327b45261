"""Going on with a session whose process died at a place where that was found to go wrong."""

import anyio
import pytest

from unspool.kernel import Agent, AgentEnd, AgentStart, Fact, Hooks, StopInfo, StopVerdict, TurnEnd, fold
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import MemoryLog


class Guard:
    """A stop guard that objects once to an answer that is not good enough."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, info: StopInfo) -> StopVerdict:
        text = info.reply.text if info.reply is not None else ""
        self.asked.append(text)
        return StopVerdict("go_on", "more, please") if text == "half an answer" else StopVerdict()


def agent(script: list[str], facts: list[Fact]) -> tuple[Agent[str], MemoryLog, Guard]:
    log, guard = MemoryLog(facts), Guard()
    return Agent(ScriptedModel(script), log=log, hooks=Hooks(stop_guard=guard)), log, guard


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_run_that_died_right_before_its_end_is_ended(backend: str) -> None:
    """The last turn was complete, so there seemed to be nothing to go on from: the guard was never asked,
    and the log had no end."""

    async def crash() -> list[Fact]:
        made, log, _ = agent(["half an answer", "the rest"], [])
        await made.run("go")
        died = next(index for index, fact in enumerate(log.facts) if isinstance(fact, TurnEnd))
        return log.facts[: died + 1]

    async def go_on(facts: list[Fact]) -> None:
        made, log, guard = agent(["the rest"], facts)
        assert made.can_continue
        result = await made.continue_()
        assert (result.text, result.end_reason) == ("the rest", "stop")
        assert guard.asked == ["half an answer", "the rest"]
        assert isinstance(log.facts[-1], AgentEnd) and fold(log.facts) == made.state
        assert not made.can_continue

    anyio.run(go_on, anyio.run(crash, backend=backend), backend=backend)


def test_a_run_that_died_before_its_prompt_was_stored_waits_for_one() -> None:
    async def go_on() -> None:
        made, _, guard = agent(["hello"], [AgentStart(session="s", seq=1, run_id="r1")])
        assert not made.can_continue
        assert (await made.run("go")).text == "hello"
        assert guard.asked == ["hello"]

    anyio.run(go_on)
