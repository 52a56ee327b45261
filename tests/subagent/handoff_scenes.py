"""Agents that hand over, and models that answer by who is asked, for the tests of handoffs."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import anyio
import pytest

from unspool import tool
from unspool.kernel import (
    AgentStart,
    ConfigChanged,
    ContextProjected,
    Fact,
    FakeClock,
    Handoff,
    Message,
    ModelRequest,
    StreamEvent,
    ToolCall,
    fold,
)
from unspool.kernel.state import AgentState, apply
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.subagent import AgentDefinition
from unspool.subagent.handoffs import HandoffAgent
from unspool.trajectory import MemoryLog, requests

Brain = Callable[[str, Sequence[Message]], Entry]
SYSTEM = {"triage": "You triage.", "billing": "You bill.", "tech": "You fix."}


class Answering(ScriptedModel):
    """Answers by the name of the agent that is asked and what it is shown."""

    def __init__(self, brain: Brain, **options: Any) -> None:
        super().__init__(**options)
        self._brain = brain

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        self.add(self._brain(asked(request), request.messages))
        return super().stream(request)


def asked(request: ModelRequest) -> str:
    """Whose system prompt a request has."""
    return next(name for name, text in SYSTEM.items() if request.system[0].text == text)


def transfer(id: str, agent: str, **args: Any) -> ToolCall:
    return call(id, "transfer_to_agent", agent=agent, **args)


def look(agent: str) -> Any:
    """A tool that all agents have, and each its own."""

    async def look(at: str) -> str:  # not in a thread: that would take real time
        return f"{agent} saw {at}"

    return tool(look, description="Look.")


def team(**changes: dict[str, Any]) -> list[AgentDefinition]:
    """Triage, which hands over to billing and tech; each can look."""
    agents: dict[str, dict[str, Any]] = {
        "triage": {"handoffs": ("tech", "billing")},
        "billing": {"description": "Invoices and refunds."},
        "tech": {},
    }
    return [
        AgentDefinition(
            **{"name": name, "system": SYSTEM[name], "tools": [look(name)], **given, **changes.get(name, {})}
        )
        for name, given in agents.items()
    ]


class Desk:
    """A conversation with the team, its log and what its models were asked."""

    def __init__(self, script: Sequence[Entry] | Brain, facts: Sequence[Fact] = (), **options: Any) -> None:
        agents = options.pop("agents", None) or team()
        self.log = MemoryLog(facts, session="s")
        self.model = Answering(script) if callable(script) else ScriptedModel(script)
        self.told: list[Handoff] = []
        given: dict[str, Any] = {
            "root": "triage",
            "model": self.model,
            "log": self.log,
            "clock": FakeClock(),
            "on_handoff": self.told.append,
            **options,
        }
        self.agent: HandoffAgent[Any] = HandoffAgent(agents, **given)

    @property
    def handoffs(self) -> list[tuple[str, str, str]]:
        return [(f.source, f.target, f.call_id) for f in self.log.facts if isinstance(f, Handoff)]

    @property
    def asked(self) -> list[str]:
        return [asked(request) for request in self.model.requests]

    def shown(self, number: int) -> list[tuple[str, str]]:
        """What request ``number`` showed: role, and text or the tools called."""
        return [
            (each.role, each.text or ",".join(call.name for call in each.tool_calls))
            for each in self.model.requests[number].messages
        ]

    def results(self) -> dict[str, str]:
        """What each call came to, by its id."""
        return {
            m.tool_call_id: m.text
            for m in self.agent.state.messages
            if isinstance(m, Message) and m.role == "tool"
        }

    def check(self) -> None:
        """Each request was made for the agent that had the conversation, and can be made again from the log."""
        state = AgentState()
        for fact in self.log.facts:
            state = apply(state, fact)
            if isinstance(fact, ContextProjected):
                assert state.blobs[fact.system][0]["text"] == SYSTEM[state.agent], fact.seq
        assert state == fold(self.log.facts)
        assert all(each.exact for each in requests(self.log.facts))


@pytest.fixture(params=["asyncio", "trio"])
def go(request: pytest.FixtureRequest) -> Any:
    async def bounded(main: Any) -> Any:
        with anyio.fail_after(10):
            return await main()

    return lambda main: anyio.run(bounded, main, backend=request.param)


__all__ = ["AgentStart", "ConfigChanged", "Desk", "go", "look", "team", "transfer"]
