"""Members for tests: agents with scripted models, logs in memory, a fake clock."""

from typing import Any

from unspool.kernel import Agent, FakeClock, Message, Retry, fold
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory.memory import MemoryLog


class Scripts:
    """Makes agents by name, and knows what their models were asked and what their logs hold."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.models: dict[str, ScriptedModel] = {}
        self.logs: dict[str, MemoryLog] = {}
        self.agents: dict[str, Agent[Any]] = {}

    def agent(self, name: str, *script: Any, **options: Any) -> Agent[Any]:
        self.models[name] = model = ScriptedModel(script, clock=self.clock)
        self.logs[name] = log = MemoryLog(session=name)
        options = {"retry": Retry(attempts=0), **options}
        self.agents[name] = agent = Agent(model, name=name, clock=self.clock, log=log, **options)
        return agent

    def asked(self, name: str) -> list[list[str]]:
        """The texts of the user messages in each request of a member's model."""
        return [_said(request.messages) for request in self.models[name].requests]

    def read(self, name: str) -> list[str]:
        """The user messages in a member's conversation."""
        return _said(self.agents[name].export_messages())

    def check(self) -> None:
        """Every state is the fold of its log."""
        for name, agent in self.agents.items():
            assert fold(self.logs[name].facts) == agent.state


def _said(messages: Any) -> list[str]:
    return [each.text for each in messages if isinstance(each, Message) and each.role == "user"]


def tag(sender: str, text: str, id: str, *, kind: str = "") -> str:
    """A letter as a model reads it."""
    marks = f'from="{sender}" id="{id}"' + (f' kind="{kind}"' if kind else "")
    return f"<message {marks}>\n{text}\n</message>"
