"""What a context manager is given when a recorded request is projected again: nobody is asked.

Read with: ``context_projecting.py`` (the caller), ``unspool.kernel.ports`` (``ContextScope``).
"""

from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from unspool.context.gist import gist
from unspool.kernel.cleaning import clean_request
from unspool.kernel.lowering import fingerprint_of
from unspool.kernel.messages import Message, Usage, assistant_message
from unspool.kernel.ports import CallOptions, ChatModel, ModelRequest, StreamEvent, SystemBlock, ToolSpec
from unspool.kernel.projection import RequestConfig
from unspool.trajectory import RecordedRequest
from unspool.trajectory.replay_parts import RecordedError, RecordedOverflow

from .context_recording import Answer, Recording

_EXTRACT_CHARS: Final = 4_000


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is not asked."""

    name: str
    context_window: int
    supports_tools: bool = True

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        raise AssertionError("a projection asks no model but through its scope")


class ReplayScope:
    """The scope of one manager; ``model``, ``system``, ``tools`` and ``options`` are set to what was recorded.

    A call for a summary gets the answer that was recorded for the very same request, where there was one, else an extract
    of what it asks about.
    """

    def __init__(self, recording: Recording, window: int) -> None:
        self.window = window
        self.model: ChatModel = NamedModel("", window)
        self.system: tuple[SystemBlock, ...] = ()
        self.tools: tuple[ToolSpec, ...] = ()
        self.options = CallOptions()
        self.sent_as_shown = True
        self.instructions = ""
        self.recorded = 0  # summaries that had been recorded
        self.extracted = 0  # and those that were made up
        self.usage = Usage()  # of both
        self.asked: list[str] = []  # fingerprints of the requests for them; whoever reads them takes them
        self.warnings = 0
        self._recording = recording
        self._given: Counter[str] = Counter()  # by fingerprint

    def take(self, model: str, request: RecordedRequest) -> None:
        """Be the scope of a recorded request."""
        if model != self.model.name:
            self.model = NamedModel(model, self.window)
        self.system, self.tools = request.request.system, request.request.tools
        self.options = request.request.options

    def add(self, before: "ReplayScope") -> None:
        """Go on from what another scope was asked."""
        self.recorded, self.extracted = before.recorded, before.extracted
        self.usage, self.warnings = before.usage, before.warnings
        self._given, self.asked = before._given.copy(), before.asked.copy()

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        """The recorded answer, or an extract.

        Raises:
            ModelError: that was recorded.
        """
        request = clean_request(request)
        answer = self._recorded(request)
        if answer is None:
            self.extracted += 1
            return self._priced(request, _extract(request))
        self.recorded += 1
        if answer.reply is None:
            overflow = answer.error_kind == RecordedOverflow.error_kind
            raise (RecordedOverflow if overflow else RecordedError)(answer.error_kind, answer.error_kind, {})
        return self._priced(request, answer.reply)

    def announce(self, reason: str, plan: str = "", /) -> None:
        """Nobody listens."""

    def warn(self, message: str, /, **details: object) -> None:
        """Count it."""
        self.warnings += 1

    def _recorded(self, request: ModelRequest) -> Answer | None:
        """What this very request was answered, the first time and the next; the last answer from then on."""
        seed = RequestConfig(request.system, request.tools, request.options).seed
        fingerprint = fingerprint_of(request.messages, seed)
        self.asked.append(fingerprint)
        answers = self._recording.answers.get(fingerprint)
        if not answers:
            return None
        self._given[fingerprint] += 1
        return answers[min(self._given[fingerprint], len(answers)) - 1]

    def _priced(self, request: ModelRequest, reply: Message) -> Message:
        recording = self._recording
        tokens = sum(map(recording.tokens, request.messages))
        tokens += sum([recording.text_tokens(block.text) for block in request.system])
        self.usage += Usage(input_tokens=tokens, output_tokens=recording.tokens(reply))
        return reply


def _extract(request: ModelRequest) -> Message:
    """What stands in for a summary: the first line and the names in what is to be summed up."""
    text = "\n".join([message.text for message in request.messages])
    return assistant_message(f"<summary>\n{gist(text, _EXTRACT_CHARS)}\n</summary>")
