"""A recorded trajectory, projected again by context managers, without a model call.

Each manager has the conversation as it was written, with what it commits itself in place of what the recorded manager
did. At each recorded model call it is asked for a view, as the kernel asks; what the reply was stays as it was.

Read with: ``context_recording.py``, ``context_scope.py``, ``unspool.kernel.request`` (what is done here in small).
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from unspool.context.metrics import RunMetrics
from unspool.kernel.edits import rewritten
from unspool.kernel.errors import LogError, describe
from unspool.kernel.events import CompactionStep
from unspool.kernel.lowering import Lowering, same_prefix
from unspool.kernel.messages import AgentMessage, Message, Usage
from unspool.kernel.ports import Compaction, ContextManager, Projection
from unspool.kernel.projection import seed_of
from unspool.kernel.transcript import Transcript

from .context_recording import Point, Recording
from .context_scope import ReplayScope

_MAX_COMMITS = 4  # as the kernel has it


class Rewritten(NamedTuple):
    """A rewrite that a manager made: whether it became the transcript, and its steps."""

    committed: bool
    steps: Sequence[CompactionStep]


class Made(NamedTuple):
    """A request made at a recorded call, and what was done to the view for it.

    ``tokens`` are the manager's count, ``asked`` the fingerprints of what it asked models for.
    """

    view: Sequence[AgentMessage] | None
    messages: Sequence[Message]
    fingerprint: str
    tokens: int | None
    asked: Sequence[str]
    rewrites: Sequence[Rewritten]


class Asked(NamedTuple):
    """Summaries that a manager asked for, whose answer was recorded or made up; what they cost; what else went wrong."""

    recorded: int
    extracted: int
    usage: Usage
    failures: Sequence[str]


class Ledger:
    """What became of the requests of one manager. Calls are numbered from 1."""

    def __init__(self, name: str, recording: Recording, window: int) -> None:
        self.name = name
        self.window = window
        self.rewrites: list[int] = []  # the call for which each was made
        self.committed = 0
        self.overflows: list[int] = []
        self._recording = recording
        self._meter = recording.meter()

    @property
    def metrics(self) -> RunMetrics:
        return self._meter.result()

    def take(self, point: Point, made: Made, *, overflowed: bool = False) -> int:
        """Note a request; its tokens. It overflows where it does not fit the window, or is known to have."""
        steps = [step for rewrite in made.rewrites for step in rewrite.steps]
        call = self._meter.see(self._recording.call(point, made.messages, made.view, steps))
        self.rewrites += [call.n for _ in made.rewrites]
        self.committed += sum([rewrite.committed for rewrite in made.rewrites])
        if overflowed or 0 < self.window < call.tokens:
            self.overflows.append(call.n)
        return call.tokens


class Follower:
    """One manager over its own transcript.

    ``exact``: it is the recorded one, and the usage in the log is of its requests.
    """

    def __init__(self, manager: ContextManager, scope: ReplayScope, *, exact: bool) -> None:
        self.manager = manager
        self.scope = scope
        self.transcript: Transcript[AgentMessage] = Transcript()
        self.failures: list[str] = []
        self.tokens = 0  # of its last request
        self._exact = exact
        self._lowering = Lowering()
        self._view: Transcript[AgentMessage] = Transcript()
        self._rewrites: list[Rewritten] = []  # since the last request
        self._count = 0

    @property
    def asked(self) -> Asked:
        scope = self.scope
        return Asked(scope.recorded, scope.extracted, scope.usage, self.failures)

    # --- what is written

    def say(self, message: AgentMessage) -> None:
        """Take in the next message of the conversation."""
        if not self._exact and isinstance(message, Message) and message.usage is not None:
            message = replace(message, usage=self._usage(message.usage))
        self.transcript = self.transcript.append(message)

    def _usage(self, reported: Usage) -> Usage | None:
        """What would have been reported of this manager's request."""
        if not reported.context_tokens:
            return None
        return Usage(input_tokens=self.tokens, output_tokens=reported.output_tokens)

    def restart(self, messages: Transcript[AgentMessage]) -> None:
        """The host has put other messages in the place of the conversation."""
        self.transcript = messages
        self.manager.sync(messages)

    def end_reply(self, heard: Sequence[AgentMessage]) -> None:
        """Of the last reply only this was heard."""
        self.transcript = Transcript([*self.transcript[:-1], *heard])

    # --- what is asked

    async def compact(self, reason: str, instructions: str) -> None:
        """Ask for a smaller view, as the kernel does after an overflow and for people."""
        self.scope.instructions = instructions
        try:
            rewrite = await self.manager.compact(self.transcript, reason, self.scope)
            if rewrite.changed:
                self._take(rewrite)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (as in the kernel: the conversation stays as it is)
            self.failures.append(describe(error))
        finally:
            self.scope.instructions = ""

    async def project(self, point: Point) -> Made:
        """The request that this manager makes at a recorded call."""
        projection = await self.choose()
        given, fact = projection.messages, point.fact
        view = given if isinstance(given, Transcript) else self._as_view(given)
        seed = seed_of(fact.system, fact.tools, fact.options)
        messages, fingerprint = self._lowering.extend(view, seed)
        if not messages:
            self.failures.append("the view is empty")
            view = self.transcript
            messages, fingerprint = self._lowering.extend(view, seed)
        self._view = view
        rewrites, self._rewrites = self._rewrites, []
        asked, self.scope.asked = self.scope.asked, []
        return Made(view, messages, fingerprint, projection.tokens, asked, rewrites)

    async def choose(self) -> Projection:
        """Ask the manager, and again for each transcript that it has committed; all where it fails."""
        try:
            for _ in range(_MAX_COMMITS):
                chosen = await self.manager.project(self.transcript, self.scope)
                rewrite = chosen.compaction
                if rewrite is None or not rewrite.changed:
                    return chosen
                self._take(rewrite)
                if not rewrite.commit:
                    return chosen
            self.failures.append("it rewrites the transcript again and again")
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (as in the kernel: the whole transcript is sent)
            self.failures.append(describe(error))
        return Projection(messages=self.transcript)

    def _as_view(self, given: Sequence[AgentMessage]) -> Transcript[AgentMessage]:
        kept = same_prefix(self._view, given)
        return self._view.prefix(kept).extend(given[kept:])

    def _take(self, rewrite: Compaction) -> None:
        """Note a rewrite, and make it the transcript where it is to be committed."""
        edits = [
            replace(edit, messages=[self._numbered(message) for message in edit.messages])
            for edit in rewrite.edits
        ]
        left = rewritten(self.transcript, replace(rewrite, edits=edits))
        self._rewrites.append(Rewritten(rewrite.commit, rewrite.steps))
        if rewrite.commit:
            self.transcript = Transcript(left)

    def _numbered(self, message: AgentMessage) -> AgentMessage:
        self._count += 1
        return replace(message, id=f"r{self._count}") if isinstance(message, Message) else message
