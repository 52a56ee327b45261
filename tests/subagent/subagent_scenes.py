"""Agents below agents for tests: scripted models, one for each agent, logs that can be cut, both event loops."""

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from scenarios import settle, tasks_living

from unspool import Agent, RunResult, Usage
from unspool.kernel import (
    ChildEnded,
    ChildStarted,
    Event,
    Fact,
    FakeClock,
    Message,
    ToolCall,
    ToolExecEnd,
    fold,
)
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition
from unspool.subagent.subagents import Subagents
from unspool.trajectory import MemoryLog

Main = Callable[[], Awaitable[Any]]


@pytest.fixture(params=["asyncio", "trio"])
def go(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs to the end on one event loop, and sees that nothing of it is left."""

    async def checked(main: Main) -> Any:
        living = tasks_living()
        with anyio.fail_after(20):
            result = await main()
        await settle()
        assert tasks_living() == living, "a task is left"
        return result

    return lambda main: anyio.run(checked, main, backend=request.param)


def said(text: str = "", tokens: int = 1, *calls: ToolCall) -> Say:
    """An answer that costs ten times as much as it says."""
    return Say([text, *calls], usage=Usage(input_tokens=10 * tokens, output_tokens=tokens))


def sub(id: str = "c1", agent: str = "writer", task: str = "write", **more: Any) -> ToolCall:
    """A call of one agent."""
    return call(id, "subagent", agent=agent, task=task, **more)


def several(mode: str, *steps: tuple[str, str], id: str = "c1") -> ToolCall:
    """A call of several."""
    return call(id, "subagent", **{mode: [{"agent": agent, "task": task} for agent, task in steps]})


class Clock(FakeClock):
    """A fake clock that gives a tree time to settle: an event from far below passes through every level."""

    SETTLE = 400


class Scene:
    """A root agent and the agents that it can call, each with the answers of its model."""

    def __init__(
        self,
        script: Sequence[Any],
        scripts: Mapping[str, Sequence[Any]] | None = None,
        *,
        agents: Iterable[AgentDefinition] = (),
        tools: Iterable[Any] = (),
        log: MemoryLog | None = None,
        options: Mapping[str, Any] | None = None,
        clock: FakeClock | None = None,
        **shared: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.models = {name: ScriptedModel(each, clock=self.clock) for name, each in (scripts or {}).items()}
        self.model = ScriptedModel(script, clock=self.clock)
        given = {agent.name: agent for agent in agents}
        self.definitions = {
            name: given.get(name) or AgentDefinition(name=name, model=model)
            for name, model in self.models.items()
        } | {name: each for name, each in given.items() if name not in self.models}
        for name, each in given.items():
            if name in self.models and each.model is None and each.context != "fork":
                self.definitions[name] = _with_model(each, self.models[name])
        self.subagents = Subagents(self.definitions.values(), **shared)
        self.log = log or MemoryLog()
        self.events: list[Event] = []
        self.tools = [*tools, self.subagents.tool]
        self.options = dict(options or {})
        self.agent = self.make()

    def make(self, **options: Any) -> Agent[str]:
        """The root agent, from its log."""
        agent = Agent(
            self.model,
            name="root",
            tools=self.tools,
            log=self.log,
            clock=self.clock,
            rand=lambda: 1.0,
            **{**self.options, **options},
        )
        agent.subscribe(self.events.append)
        return agent

    @property
    def logs(self) -> dict[str, MemoryLog]:
        """The logs of the children, in the order in which they began."""
        return self.subagents.logs._logs

    def facts(self, child: int = -1) -> list[Fact]:
        """The facts of one child, by its place in that order."""
        return list(self.logs.values())[child].facts

    def ends(self, facts: Iterable[Fact] | None = None) -> list[ToolExecEnd]:
        """The ends of the root's calls, or of those in ``facts``."""
        return [
            fact for fact in (self.log.facts if facts is None else facts) if isinstance(fact, ToolExecEnd)
        ]

    @property
    def spent(self) -> Usage:
        """The sum of all model calls in all logs."""
        every = [self.log, *self.logs.values()]
        return sum((fold(log.facts).usage for log in every), Usage())

    def pairs(self, facts: Iterable[Fact] | None = None) -> list[tuple[str, str]]:
        """The beginnings and ends of children, by agent."""
        found = []
        for fact in self.log.facts if facts is None else facts:
            if isinstance(fact, ChildStarted):
                found.append(("started", fact.agent))
            elif isinstance(fact, ChildEnded):
                found.append((fact.end_reason, fact.agent))
        return found


def _with_model(agent: AgentDefinition, model: ScriptedModel) -> AgentDefinition:
    return dataclasses.replace(agent, model=model)


def text_of(end: ToolExecEnd) -> str:
    """What the model reads of a result."""
    return "".join([getattr(block, "text", "") for block in end.content])


def texts_of(messages: Iterable[Message]) -> list[str]:
    """The texts of a request."""
    return [message.text for message in messages]


def ran(result: RunResult[Any]) -> tuple[str, str]:
    """How a run ended, and its text."""
    return result.end_reason, result.text
