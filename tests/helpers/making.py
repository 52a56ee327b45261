"""Agents for tests: a scripted model, a fake clock, a log in memory."""

from collections.abc import Callable
from typing import Any

from unspool.kernel import Agent, Event, FakeClock, Retry, ToolContext, fold, raw_tool
from unspool.kernel.trace import line
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory.memory import MemoryLog

VALUE = {"type": "object", "properties": {"s": {"type": "number"}}}


class Made:
    """An agent with what a test looks at: its model's requests, its log, what its listener heard."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.clock = FakeClock()
        self.model = ScriptedModel(script, clock=self.clock)
        self.log = MemoryLog()
        self.heard: list[Event] = []
        self.unheard = 0  # facts recorded before anybody could listen
        options = {"retry": Retry(attempts=0), "clock": self.clock, "log": self.log, **options}
        self.agent: Agent[Any] = Agent(self.model, **options)
        self.unheard = len(self.log.facts)
        self.agent.subscribe(self.heard.append)

    @property
    def texts(self) -> list[str]:
        return [f"{message.role}: {message.text}" for message in self.agent.state.messages]

    @property
    def lines(self) -> list[str]:
        return [line(event) for event in self.heard]

    def check(self) -> None:
        """The state is the fold of the log, and the listener heard all of it, in order."""
        assert fold(self.log.facts) == self.agent.state
        assert [event for event in self.heard if not hasattr(event, "sub")] == self.log.facts[self.unheard :]


def at(made: Made, start: str, act: Callable[[], Any]) -> None:
    """Do something at the first event whose line begins so."""
    done: list[Any] = []

    def listener(event: Event) -> None:
        if not done and line(event).startswith(start):
            done.append(None)
            act()

    made.agent.subscribe(listener)


async def _wait(args: Any, ctx: ToolContext) -> object:
    await ctx.clock.sleep(args.get("s", 1))
    return "waited"


wait = raw_tool("wait", "Waits.", VALUE, _wait)
