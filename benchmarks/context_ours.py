"""Our context managers over a transcript: the view of each model call, and the calls of their summariser.

Read with: ``context.py``, ``context_tasks.py``, ``context_price.py``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from context_price import SideCall
from context_summary import MARK, extract, message_tokens, tokens
from context_tasks import Task, call_points

from unspool.context import Engine, MessageTokens
from unspool.kernel import (
    AgentMessage,
    CallOptions,
    ChatModel,
    Compaction,
    Message,
    ModelRequest,
    SystemBlock,
    ToolSpec,
)
from unspool.kernel.edits import edited
from unspool.kernel.messages import assistant_message
from unspool.kernel.transcript import Transcript
from unspool.llm.scripted import ScriptedModel


class Bytes:
    """The rule of the benchmark, so that all managers count alike."""

    name = "bytes"

    def count(self, text: str, /) -> int:
        return tokens(text)


class OwnRun(NamedTuple):
    """A transcript under a manager of ours."""

    views: list[list[AgentMessage]]
    side_calls: list[SideCall]
    rewrites: list[Compaction]
    warnings: list[str]


class _Scope:
    """Asks the summariser that all managers are measured with."""

    window = 0
    options = CallOptions()
    sent_as_shown = True
    instructions = ""

    def __init__(self, task: Task) -> None:
        self.model: ChatModel = ScriptedModel([], name="benchmark/model")
        self.system: tuple[SystemBlock, ...] = (SystemBlock(text=task.system),)
        self.tools: tuple[ToolSpec, ...] = task.tools
        self.asked: list[SideCall] = []
        self.warnings: list[str] = []

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        texts = [block.text for block in request.system] + [message.text for message in request.messages]
        said = extract([part for text in texts[1:] for part in text.split("\n\n")])
        self.asked.append(SideCall(sum([message_tokens(text) for text in texts]), tokens(said)))
        return assistant_message(f"<summary>{said.removeprefix(MARK).strip()}</summary>")

    def announce(self, reason: str, plan: str = "", /) -> None:
        """Nobody listens."""

    def warn(self, message: str, /, **details: Any) -> None:
        self.warnings.append(message)


async def run_own(make: Callable[[], Engine], task: Task) -> OwnRun:
    """The views of ``task`` under a fresh manager."""
    manager, scope = make(), _Scope(task)
    transcript: Transcript[AgentMessage] = Transcript()
    views: list[list[AgentMessage]] = []
    rewrites: list[Compaction] = []
    at = 0
    for point in call_points(task):
        transcript = transcript.extend(task.messages[at:point])
        at = point
        while True:
            made = await manager.project(transcript, scope)
            if made.compaction is None:
                break
            rewrites.append(made.compaction)
            if not made.compaction.commit:
                break
            transcript = Transcript(edited(transcript, made.compaction.edits))
        views.append(list(made.messages))
    return OwnRun(views, scope.asked, rewrites, scope.warnings)


def counted() -> Callable[[AgentMessage], int]:
    """What the engines count of a message; for comparing with the benchmark's rule."""
    return MessageTokens(Bytes(), "benchmark/model").message
