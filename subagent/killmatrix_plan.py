"""The tree that is killed: a root, two children side by side, one of them with a child of its own, and a chain.

Models answer by how many replies the conversation has, so that a session which was killed and gone on with comes to
the same as one that was not. Each reply costs another amount, so that what is counted twice or not at all shows.

Read with: ``killmatrix_host.py`` (who uses the agents), ``unspool.trajectory.killmatrix_plan`` (the tools).
"""

from collections.abc import AsyncGenerator
from typing import Any, Final

from msgspec.json import encode

from unspool.kernel.hooks import Verdict
from unspool.kernel.messages import Usage
from unspool.kernel.ports import (
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
)

from .definition import AgentDefinition

ROOT: Final = "root"
PROMPT: Final = "begin"
TOOLS: Final = ("deploy", "look", "note", "pay", "send")  # that have an effect outside, or ask a person
_NESTED: Final = "subagent"

Planned = tuple[str, str, dict[str, Any]]  # id, tool and arguments of a call


def _have(id: str, **args: Any) -> Planned:
    return id, _NESTED, args


def _use(id: str, tool: str) -> Planned:
    return id, tool, {}


def _each(*agents: str) -> list[dict[str, str]]:
    return [{"agent": agent, "task": f"do part {number}"} for number, agent in enumerate(agents, 1)]


PLAN: Final[dict[str, list[list[Planned]]]] = {
    ROOT: [
        [_use("r1", "note"), _have("r2", tasks=_each("left", "right"))],
        [_use("r3", "pay"), _have("r4", agent="left", task="go on")],
        [_have("r5", chain=_each("scribe", "scribe"))],
        [],
    ],
    "left": [  # one conversation: its fourth reply is to the second call
        [_use("l1", "pay"), _use("l2", "note")],
        [_have("l3", agent="deep", task="dig")],
        [],
        [_use("l4", "send")],
        [],
    ],
    "right": [[_use("p1", "deploy")], [_use("p2", "pay")], []],
    "deep": [[_use("d1", "deploy")], [_use("d2", "note"), _use("d3", "look"), _use("d4", "pay")], []],
    "scribe": [[_use("s1", "note")], []],
}
DECISIONS: Final = {
    "p1": Verdict.allow({"to": "staging"}, by="a person"),
    "d1": Verdict.deny("not today", by="a person"),
}


def decision_on(call_id: str) -> Verdict:
    """What the person says of a call that waits; the root names it by the calls that lead to it."""
    return DECISIONS[call_id.rpartition("/")[2]]


class PlannedReplies:
    """The model of one agent of the tree."""

    supports_tools = True

    def __init__(self, agent: str) -> None:
        self.name = f"killmatrix/{agent}"
        self._agent = agent

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """See ``ChatModel.stream``."""
        number = sum(message.role == "assistant" for message in request.messages)
        calls = PLAN[self._agent][number]
        yield TextDelta(f"{self._agent}, reply {number + 1}")
        for index, (id, tool, args) in enumerate(calls, 1):
            yield ToolCallDelta(index, id, tool, encode(args).decode())
            yield ToolCallEnd(index)
        cost = 100 * (1 + [*PLAN].index(self._agent)) + 10 * number
        yield StreamEnd(
            stop_reason="tool_use" if calls else "stop", usage=Usage(input_tokens=cost, output_tokens=number)
        )


def planned_agents() -> list[AgentDefinition]:
    """The agents below the root."""
    return [
        AgentDefinition(
            name=name,
            model=PlannedReplies(name),
            tools=[*TOOLS, _NESTED],
            context="isolated" if name == "left" else "none",
        )
        for name in PLAN
        if name != ROOT
    ]
