"""The session that is killed: thirty turns, planned, with everything in them that a crash could spoil.

The model answers by what it is shown, not by how often it was asked: so a session that was killed and
gone on with comes to the same as one that was not.

Read with: ``killmatrix_host.py`` (who uses the agent), ``killmatrix_checks.py`` (what "the same" is).
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec.json import encode

from unspool.kernel.errors import ContextOverflowError, RateLimitError
from unspool.kernel.hooks import Verdict
from unspool.kernel.messages import AgentMessage, Message, Usage, user_message
from unspool.kernel.ports import (
    Compaction,
    ContextScope,
    ContextSnapshot,
    ContextUsage,
    Edit,
    ModelRequest,
    Projection,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolSpec,
)

_USUAL: Final[tuple[tuple[str, ...], ...]] = (
    ("set",),
    ("note", "send"),
    ("pay",),
    ("look",),
    ("note",),
)
_SPECIAL: Final[dict[int, tuple[str, ...]]] = {
    5: ("note", "look", "send"),
    8: ("pay", "set", "pay"),  # the first of them is steered, the others are skipped
    12: ("send",),
    18: ("watch", "send"),  # the second one's message interrupts the first
    20: ("deploy", "deploy", "look"),  # a person lets one of them run
    22: ("big",),
    24: (),  # an answer: what is to follow up comes now
    27: ("fail", "pay"),
    30: (),  # the last answer
}
TURNS: Final = 30
_OVERFLOW, _KEPT, _STUMBLE = 15, 10, 17  # turns: too long to ask, the first that stays, asked twice

SPECS: Final = {
    spec.name: spec
    for spec in (
        ToolSpec(name="look", read_only=True),
        ToolSpec(name="big", read_only=True),
        ToolSpec(name="note", idempotent=True, concurrency_safe=True),
        ToolSpec(name="set", idempotent=True),
        ToolSpec(name="send", concurrency_safe=True),
        ToolSpec(name="watch", concurrency_safe=True, interrupt="cancel"),
        ToolSpec(name="pay"),
        ToolSpec(name="fail"),
        ToolSpec(name="deploy", needs_approval=True),
    )
}


class Said(NamedTuple):
    """Something that the user says while call ``during`` runs; the first thing begins the session."""

    lane: Literal["prompt", "steering", "follow_up"]
    text: str
    during: str = ""


SAID: Final = (
    Said("prompt", "begin"),
    Said("steering", "keep to the left", "t5c"),
    Said("steering", "no more of that", "t8a"),
    Said("follow_up", "then the rest", "t12a"),
    Said("steering", "leave the watch", "t18b"),
)
DECISIONS: Final = {
    "t20a": Verdict.allow({"to": "staging"}, by="a person"),
    "t20b": Verdict.deny("not today", by="a person"),
}


def planned_calls(turn: int) -> list[tuple[str, str]]:
    """Id and tool of each call that the model makes in a turn."""
    names = _SPECIAL.get(turn, _USUAL[turn % len(_USUAL)])
    return [(f"t{turn}{letter}", name) for letter, name in zip("abcd", names, strict=False)]


class PlannedModel:
    """Answers by the turn marks, user messages and results that it is shown."""

    name = "killmatrix/planned"
    supports_tools = True

    def __init__(self) -> None:
        self._stumbled = False

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """See ``ChatModel.stream``."""
        first = request.messages[0].text
        if first.startswith("summarise"):
            yield TextDelta(first.replace("summarise", "summary of"))
            yield StreamEnd(stop_reason="stop", usage=Usage(input_tokens=5, output_tokens=2))
            return
        turn = _turn_after(request.messages)
        if turn == _OVERFLOW and not first.startswith("summary"):
            raise ContextOverflowError("too long")
        if turn == _STUMBLE and not self._stumbled:
            self._stumbled = True
            raise RateLimitError("slow down")
        calls = planned_calls(turn)
        users = sum(message.role == "user" for message in request.messages)
        results = sum(message.role == "tool" for message in request.messages)
        yield TextDelta(f"turn {turn}: {users} from you, {results} results")
        for index, (id, name) in enumerate(calls, 1):
            yield ToolCallDelta(index, id, name, encode({"turn": turn}).decode())
            yield ToolCallEnd(index)
        yield StreamEnd(stop_reason="tool_use" if calls else "stop", usage=Usage(input_tokens=len(first)))


def _turn_after(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if message.role == "assistant":
            return int(message.text.split(":")[0].removeprefix("turn ")) + 1
    return 1


class Summaries:
    """A context manager that commits a summary of all turns before one when there is an overflow."""

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        return Projection(messages=view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        old: list[Message] = []
        for message in view:
            if message.text.startswith(f"turn {_KEPT}:") or not isinstance(message, Message):
                break
            old.append(message)
        asked = ModelRequest(messages=(user_message(f"summarise {len(old)} messages"),))
        summary = user_message((await scope.call_model(asked, "compaction")).text)
        return Compaction(
            changed=True, commit=True, edits=[Edit(start=0, stop=len(old), messages=(summary,))]
        )

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """Nothing to remember."""

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> ContextSnapshot | None:
        return None
