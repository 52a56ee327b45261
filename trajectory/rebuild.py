"""The requests of a past session, made again from its log alone.

A log holds no request: it holds, before each model call, what changed against the one before, and the
fingerprint of what was sent. ``requests`` puts them together again, each at the cost of what was new in it,
and checks the fingerprints.

Read with: ``unspool.kernel.projection`` (how the facts are made), ``written.py``.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from msgspec import DecodeError, Struct

from unspool.kernel.errors import LogError
from unspool.kernel.events import AgentEnd, AgentStart, ContextProjected, Fact, ModelResponse, Stored
from unspool.kernel.lowering import Lowering, fingerprint_of, hash_of
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.kernel.projection import seed_of
from unspool.kernel.state import AgentState, apply
from unspool.kernel.transcript import Transcript

from .sources import Source, facts_from
from .values import from_blob
from .written import AsSent, committed_by

T = TypeVar("T")


class RecordedRequest(Struct, kw_only=True):
    """Model call ``n`` of a session, from 1, and the request that was sent.

    ``exact`` says that it has the fingerprint that was recorded; where it has not, the log was redacted or
    comes from a kernel that lowers otherwise. ``purpose`` is ``reply``, or what a context strategy asked for.
    ``response`` is what came of it, None where the process died or the run was aborted before the call.
    """

    n: int
    seq: int
    run_id: str
    purpose: str
    model: str
    request: ModelRequest
    fingerprint: str
    exact: bool
    response: ModelResponse | None = None


def requests(source: Source) -> Iterator[RecordedRequest]:
    """The requests of all model calls of a session, in order.

    Raises:
        LogError: the log is damaged, or a request refers to something that the log does not hold.
    """
    rebuilder = _Rebuilder()
    waiting: deque[RecordedRequest] = deque()
    for fact in facts_from(source):
        request = rebuilder.see(fact)
        if request is not None:
            waiting.append(request)
        elif isinstance(fact, ModelResponse) and fact.source == "model":
            asked = next(
                (each for each in waiting if each.purpose == fact.purpose and not each.response), None
            )
            if asked is not None:
                asked.response = fact
        closed = isinstance(fact, AgentEnd | AgentStart)  # a run that has no end is over with the next
        while waiting and (closed or waiting[0].response is not None):
            yield waiting.popleft()
    yield from waiting


def request_at(source: Source, n: int) -> RecordedRequest:
    """The request of model call ``n``, from 1.

    Raises:
        LogError: there was no such call, or as ``requests``.
    """
    last = 0
    for request in requests(source):
        last = request.n
        if last == n:
            return request
    raise LogError("log: there was no such model call", kind="no_call", n=n, calls=last)


class _Rebuilder:
    """Follows a session and makes the request of each projection."""

    def __init__(self) -> None:
        self._state = AgentState()
        self._messages: dict[str, AgentMessage | AsSent] = {}
        self._lowering = Lowering()
        self._view: Transcript[Any] = Transcript()
        self._base = 0
        self._count = 0
        self._values: dict[tuple[str, type], Any] = {}
        self._changed: set[str] = set()  # hashes of contents that are others now

    def see(self, fact: Fact) -> RecordedRequest | None:
        """Take in a fact; the request that it announces."""
        before, self._state = self._state, apply(self._state, fact)
        for id, _, sent in committed_by(fact, before, self._state):
            self._messages[id] = sent
        if not isinstance(fact, ContextProjected):
            return None
        self._count += 1
        return self._aside(fact) if fact.purpose else self._reply(fact)

    def _reply(self, fact: ContextProjected) -> RecordedRequest:
        if fact.base == self._base:
            self._view = self._view.prefix(fact.keep).extend(self._resolved(fact, fact.append))
        else:  # a projection without a base, or with one that this session does not have
            self._view = Transcript(self._resolved(fact, fact.append))
        self._base = fact.seq
        seed = seed_of(fact.system, fact.tools, fact.options)
        messages, fingerprint = self._lowering.extend(cast("Transcript[AgentMessage]", self._view), seed)
        return self._recorded(fact, messages, fingerprint)

    def _aside(self, fact: ContextProjected) -> RecordedRequest:
        """A call of a strategy: its messages were sent as they are."""
        view = self._view.since(0)[: fact.keep] if fact.base == self._base else []
        lowered = [message.to_message() for message in [*view, *self._resolved(fact, fact.append)]]
        messages = [message for message in lowered if message is not None]
        seed = seed_of(fact.system, fact.tools, fact.options)
        return self._recorded(fact, Transcript(messages), fingerprint_of(messages, seed))

    def _recorded(
        self, fact: ContextProjected, messages: Transcript[Message], fingerprint: str
    ) -> RecordedRequest:
        return RecordedRequest(
            n=self._count,
            seq=fact.seq,
            run_id=fact.run_id,
            purpose=fact.purpose or "reply",
            model=self._state.model,
            request=ModelRequest(
                messages=messages,
                system=self._value(fact, fact.system, tuple[SystemBlock, ...]) or (),
                tools=self._value(fact, fact.tools, tuple[ToolSpec, ...]) or (),
                options=self._value(fact, fact.options, CallOptions) or CallOptions(),
            ),
            fingerprint=fact.fingerprint,
            exact=fingerprint == fact.fingerprint
            and self._changed.isdisjoint((fact.system, fact.tools, fact.options)),
        )

    def _resolved(
        self, fact: ContextProjected, references: tuple[str | Stored, ...]
    ) -> list[AgentMessage | AsSent]:
        return [self._message(fact, reference) for reference in references]

    def _message(self, fact: ContextProjected, reference: str | Stored) -> AgentMessage | AsSent:
        if isinstance(reference, Stored):
            if reference.app is not None:
                return AsSent(reference.message, reference.app.value)
            assert reference.message is not None  # what is no application's has a message
            return reference.message
        found = self._messages.get(reference)
        if found is None:
            raise LogError("log: a request refers to a message that is not there", seq=fact.seq, id=reference)
        return found

    def _value(self, fact: ContextProjected, key: str, kind: type[T]) -> T | None:
        """What is stored under a hash, as a value; None for no hash."""
        if not key:
            return None
        if (key, kind) not in self._values:
            if key not in self._state.blobs:
                raise LogError("log: a request refers to contents that are not there", seq=fact.seq, hash=key)
            try:
                self._values[key, kind] = from_blob(self._state.blobs[key], kind)
            except (DecodeError, ValueError) as error:
                what = "log: a request refers to contents that cannot be read"
                raise LogError(what, seq=fact.seq, hash=key, reason=str(error)) from error
            if hash_of(self._values[key, kind]) != key:
                self._changed.add(key)
        value: T = self._values[key, kind]
        return value
