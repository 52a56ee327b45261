"""The team that is killed: a lead and a member, each in a process of its own, that send each other letters.

Models answer by the letters that they are shown, not by how often they were asked.

Read with: ``killmatrix_host.py`` (who runs them), ``killmatrix_checks.py``.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Final

from msgspec.json import encode

from unspool.kernel.messages import Usage
from unspool.kernel.ports import (
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.subagent.definition import AgentDefinition

from .letters import Letter
from .roster import LEAD

OTHER: Final = "ann"
PROMPT: Final = Letter(id="host/1", sender="host", to=LEAD, text="begin")
TASKS: Final = ("task 1", "task 2", "task 3")  # the third one follows the reports on the others
REPORTS: Final = tuple(f"report on {task}" for task in TASKS)
DONE: Final = "all is done"


class _Sender(ABC):
    """Sends texts in order: those that are due and that it has not sent yet."""

    supports_tools = True

    def __init__(self, name: str, to: str) -> None:
        self.name = f"killmatrix/{name}"
        self._to = to

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """See ``ChatModel.stream``."""
        users = "\n".join(message.text for message in request.messages if message.role == "user")
        sent = {call.id for message in request.messages for call in message.tool_calls}
        due = [(f"c{text[-1]}", text) for text in self._due(users)]
        calls = [(id, text) for id, text in due if id not in sent]
        yield TextDelta("" if calls else self._answer(users))
        for index, (id, text) in enumerate(calls, 1):
            yield ToolCallDelta(index, id, "send_message", encode({"to": self._to, "text": text}).decode())
            yield ToolCallEnd(index)
        yield StreamEnd(stop_reason="tool_use" if calls else "stop", usage=Usage(input_tokens=len(users)))

    @abstractmethod
    def _due(self, users: str) -> list[str]:
        """What it sends by now, given all that it was told."""

    @abstractmethod
    def _answer(self, users: str) -> str:
        """What it says when all of that is sent."""


class _Lead(_Sender):
    def _due(self, users: str) -> list[str]:
        return [*TASKS] if all(report in users for report in REPORTS[:2]) else [*TASKS[:2]]

    def _answer(self, users: str) -> str:
        return DONE if all(report in users for report in REPORTS) else "more is to come"


class _Reporter(_Sender):
    def _due(self, users: str) -> list[str]:
        return [report for task, report in zip(TASKS, REPORTS, strict=True) if task in users]

    def _answer(self, users: str) -> str:
        return "reported"


def planned_members() -> list[AgentDefinition]:
    """The members of the team."""
    return [
        AgentDefinition(name=LEAD, model=_Lead(LEAD, OTHER)),
        AgentDefinition(name=OTHER, model=_Reporter(OTHER, LEAD)),
    ]
