"""What a log says of its model calls: the requests, what answered them, what the replies showed to have needed.

Read with: ``context_projecting.py``, ``unspool.trajectory.rebuild``, ``unspool.context.metrics``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from unspool.context.correction import HIGHEST, LOWEST
from unspool.context.demands import Demands
from unspool.context.items import ContextReader
from unspool.context.meter import RunMeter
from unspool.context.metrics import Call
from unspool.context.tokens import MessageTokens, TextCounter
from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.events import (
    AgentStart,
    CompactionStep,
    ContextCompacted,
    ContextProjected,
    Fact,
    ModelResponse,
)
from unspool.kernel.messages import AgentMessage, ContextDemand, Message
from unspool.trajectory import RecordedRequest, Written, requests, transcript

BY_HOSTS: Final = frozenset({"set_messages", "reset", "interrupted"})  # reasons that are no manager's


class Answer(NamedTuple):
    """What a call for a purpose of a manager's own came to."""

    reply: Message | None
    error_kind: str


class Point(Struct, frozen=True, kw_only=True):
    """A model call of the log. ``output_tokens`` are 0 where nothing answered it.

    ``asked`` are the fingerprints of what the manager asked models for, since the call before.
    """

    fact: ContextProjected
    request: RecordedRequest
    demands: tuple[ContextDemand, ...]
    output_tokens: int
    label: str
    asked: tuple[str, ...]

    @property
    def answered(self) -> bool:
        return self.request.response is not None and not self.request.response.error_kind

    @property
    def overflowed(self) -> bool:
        response = self.request.response
        return response is not None and response.error_kind == ContextOverflowError.error_kind


class CountOnce:
    """A counter of texts that remembers: several managers count the same texts."""

    def __init__(self, counter: TextCounter) -> None:
        self.name = counter.name
        self._count = counter.count
        self._known: dict[str, int] = {}

    def count(self, text: str, /) -> int:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._count(text)
        return known


class Recording:
    """The model calls of a log, in order, and how its tokens are counted.

    ``factor`` is what providers reported for a counted token, over all calls; 1 where they reported nothing.
    """

    def __init__(self, facts: Sequence[Fact], counter: TextCounter) -> None:
        self.facts = facts
        self.reader = ContextReader()
        self.counter = CountOnce(counter)
        self._counted = MessageTokens(
            self.counter, next((f.model for f in facts if type(f) is AgentStart), "")
        )
        self.answers: dict[str, list[Answer]] = {}  # by the fingerprint of the request, in order
        self.asides: list[RecordedRequest] = []
        self.points: dict[int, Point] = {}
        self.factor = 1.0
        self._read()
        self.factor = self._factor()

    def tokens(self, message: AgentMessage) -> int:
        """The tokens of a message."""
        return round(self.factor * self._counted.message(message))

    def text_tokens(self, text: str) -> int:
        """The tokens of a text."""
        return round(self.factor * self.counter.count(text))

    def overhead(self, point: Point) -> int:
        """The tokens of a request's system prompt and tools."""
        request = point.request.request
        return round(self.factor * self._counted.overhead(request.system, request.tools))

    def call(
        self,
        point: Point,
        messages: Sequence[Message],
        view: Sequence[AgentMessage] | None,
        steps: Sequence[CompactionStep],
    ) -> Call:
        """A request that was made in the place of a recorded one, for metrics."""
        fact = point.fact
        return Call(
            messages=messages,
            view=view,
            system=fact.system,
            tools=fact.tools,
            options=fact.options,
            overhead=self.overhead(point),
            steps=steps,
            demands=point.demands,
            label=point.label,
        )

    def meter(self) -> RunMeter:
        """Metrics by these counts."""
        return RunMeter(self.tokens, self.reader)

    def _read(self) -> None:
        written = transcript(self.facts)
        demands = self._demands(written)
        announced = {fact.seq: fact for fact in self.facts if type(fact) is ContextProjected}
        runs = dict.fromkeys([fact.run_id for fact in self.facts if type(fact) is AgentStart])
        labels = {run: f"run {number}" for number, run in enumerate(runs, 1)}
        replies = {each.id: each.message for each in written}
        asked: list[str] = []
        for request in requests(self.facts):
            response = request.response
            if request.purpose != "reply":
                self.asides.append(request)
                asked.append(request.fingerprint)
                if response is not None:
                    answer = Answer(response.reply, response.error_kind)
                    self.answers.setdefault(request.fingerprint, []).append(answer)
                continue
            self.points[request.seq] = Point(
                fact=announced[request.seq],
                request=request,
                demands=tuple(demands.get(request.seq, ())),
                output_tokens=self._output_tokens(response, replies),
                label=labels.get(request.run_id, ""),
                asked=tuple(asked),
            )
            asked.clear()

    def _output_tokens(self, response: ModelResponse | None, replies: Mapping[str, AgentMessage]) -> int:
        """Tokens of an answer, as reported or counted; 0 where there was none."""
        if response is None or response.error_kind:
            return 0
        reply = replies.get(response.message_id)
        counted = self._counted.message(reply) if reply is not None else 0
        return response.usage.output_tokens or counted

    def _demands(self, written: Sequence[Written]) -> dict[int, list[ContextDemand]]:
        """What was needed, by the call whose reply, or what was written after it, showed it."""
        seen, at, call = Demands(self.reader), 0, 0
        found: dict[int, list[ContextDemand]] = {}
        for fact in self.facts:
            if type(fact) is ContextProjected and not fact.purpose:
                call = fact.seq
            while at < len(written) and written[at].seq <= fact.seq:
                needed = seen.see(written[at].message)
                if needed and call:
                    found.setdefault(call, []).extend(needed)
                at += 1
        return found

    def _factor(self) -> float:
        meter, counted, reported = self.meter(), 0, 0
        for point in self.points.values():
            tokens = meter.see(self.call(point, point.request.request.messages, None, ())).tokens
            response = point.request.response
            if response is not None and response.usage.context_tokens:
                counted += tokens
                reported += response.usage.context_tokens
        factor = reported / counted if counted else 1.0
        return factor if LOWEST <= factor <= HIGHEST else 1.0


def is_managers(fact: Fact) -> bool:
    """Whether a fact says that a context manager made a view smaller."""
    if type(fact) is not ContextCompacted or fact.reason in BY_HOSTS:
        return False
    return fact.committed or bool(fact.covered or fact.steps)
