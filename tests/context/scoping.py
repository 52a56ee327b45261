"""A scope whose model answers from a script, and a kernel in small that commits what a manager wants committed."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from unspool.kernel import (
    AgentMessage,
    CallOptions,
    ChatModel,
    Compaction,
    ContextManager,
    Message,
    ModelRequest,
    Projection,
    SystemBlock,
    ToolSpec,
)
from unspool.kernel.edits import edited
from unspool.kernel.messages import assistant_message
from unspool.kernel.transcript import Transcript
from unspool.llm.scripted import ScriptedModel

Answer = str | Message | Exception


class Scope:
    """What a manager is given; ``said`` keeps what it announced and warned of."""

    def __init__(
        self,
        *answers: Answer,
        window: int = 0,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        options: CallOptions | None = None,
        instructions: str = "",
        model: ChatModel | None = None,
    ) -> None:
        self.answers = list(answers)
        self.window = window
        self.system: tuple[SystemBlock, ...] = (SystemBlock(text=system),) if system else ()
        self.tools = tuple(tools)
        self.options = options or CallOptions()
        self.sent_as_shown = True
        self.instructions = instructions
        self.model: ChatModel = model or ScriptedModel([])
        self.asked: list[tuple[ModelRequest, str]] = []
        self.announced: list[tuple[str, str]] = []
        self.warnings: list[tuple[str, dict[str, Any]]] = []

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        self.asked.append((request, purpose))
        answer = self.answers.pop(0) if self.answers else "<summary>They worked.</summary>"
        if isinstance(answer, Exception):
            raise answer
        return assistant_message(answer) if isinstance(answer, str) else answer

    def announce(self, reason: str, plan: str = "", /) -> None:
        self.announced.append((reason, plan))

    def warn(self, message: str, /, **details: Any) -> None:
        self.warnings.append((message, details))


class Conversation:
    """A transcript and its manager, as a run has them: messages get ids, rewrites are committed."""

    def __init__(self, manager: ContextManager, scope: Scope | None = None) -> None:
        self.manager = manager
        self.scope = scope or Scope()
        self.transcript: Transcript[AgentMessage] = Transcript()
        self.written: list[AgentMessage] = []  # all messages that were said
        self.rewrites: list[Compaction] = []
        self._count = 0

    def say(self, *messages: AgentMessage) -> None:
        """Commit messages."""
        for message in messages:
            numbered = self._numbered(message)
            self.written.append(numbered)
            self.transcript = self.transcript.append(numbered)

    async def project(self) -> Projection:
        """What the model is sent."""
        for _ in range(4):
            made = await self.manager.project(self.transcript, self.scope)
            if made.compaction is None:
                return made
            self._take(made.compaction)
            if not made.compaction.commit:
                return made
        raise AssertionError("one rewrite after the other")

    async def compact(self, reason: str) -> Compaction:
        """A rewrite that is asked for."""
        made = await self.manager.compact(self.transcript, reason, self.scope)
        self._take(made)
        return made

    def _take(self, rewrite: Compaction) -> None:
        if rewrite.changed:
            self.rewrites.append(rewrite)
        if not (rewrite.changed and rewrite.commit):
            return
        edits = [
            replace(edit, messages=[self._numbered(message) for message in edit.messages])
            for edit in rewrite.edits
        ]
        self.transcript = Transcript(edited(self.transcript, edits))

    def _numbered(self, message: AgentMessage) -> AgentMessage:
        self._count += 1
        if not isinstance(message, Message):
            return message
        return replace(message, id=f"m{self._count}")
