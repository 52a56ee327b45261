"""What the model sees before each call, recorded as a change to what it saw before.

The context manager chooses the view; the kernel lowers it, repairs it and chains the fingerprint.
Between rewrites each view extends the last one, and the fact holds only what was appended.

Read with: ``lowering.py``, ``ports.py`` (``ContextManager``), ``state.py`` (``Projected``).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from .events import ContextProjected, Stored
from .lowering import Lowering, digest, fingerprint_of, hash_of
from .messages import AgentMessage, Message
from .ports import (
    CallOptions,
    Compaction,
    ContextScope,
    ContextSnapshot,
    ContextUsage,
    ModelRequest,
    Projection,
    SystemBlock,
    ToolSpec,
)
from .recorder import Recorder
from .sequence import collect_context_items
from .state import AgentState
from .transcript import Transcript


class PassThrough:
    """The reference context manager: the model sees the whole transcript."""

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        return Projection(messages=view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        return Compaction(changed=False)

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """Nothing to remember."""

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> ContextSnapshot | None:
        return None


def seed_of(system: str, tools: str, options: str) -> bytes:
    """Where the fingerprint chain begins: the hashes of system prompt, tools and options."""
    return digest(f"{system}|{tools}|{options}".encode())


NO_BLOBS: dict[str, Any] = {}


class RequestConfig:
    """System prompt, tools and options of the requests to come, with their hashes."""

    def __init__(
        self,
        system: tuple[SystemBlock, ...],
        tools: tuple[ToolSpec, ...],
        options: CallOptions,
        toolbox: tuple[ToolSpec, ...] = (),
    ) -> None:
        self.system = system
        self.tools = tools
        self.options = options
        self.toolbox = toolbox  # all tools, where some are not offered
        self.system_hash = hash_of(system) if system else ""
        self.tools_hash = hash_of(tools) if tools else ""
        self.options_hash = hash_of(options)
        self.toolbox_hash = hash_of(toolbox) if toolbox else ""
        self.seed = seed_of(self.system_hash, self.tools_hash, self.options_hash)

    def blobs(self, known: dict[str, Any]) -> dict[str, Any]:
        """The contents, by hash, that are not ``known`` yet, as plain JSON."""
        if (
            self.options_hash in known
            and (not self.tools_hash or self.tools_hash in known)
            and (not self.system_hash or self.system_hash in known)
            and (not self.toolbox_hash or self.toolbox_hash in known)
        ):
            return NO_BLOBS
        parts = {
            self.toolbox_hash: self.toolbox,
            self.system_hash: self.system,
            self.tools_hash: self.tools,
            self.options_hash: self.options,
        }
        return {
            key: msgspec.json.decode(msgspec.json.encode(value))
            for key, value in parts.items()
            if key and key not in known
        }


class Projector:
    """Makes the requests of one session and remembers the last view."""

    def __init__(self) -> None:
        self.lowering = Lowering()
        self._plain: Lowering | None = None  # of views before the host rewrites them
        self._seq = 0  # the fact of the last projection made here
        self._view: Transcript[AgentMessage] = Transcript()
        self._next = self._view  # of the fact that is not recorded yet
        self._basis: Transcript[AgentMessage] = Transcript()  # the conversation when the last was recorded
        self._ids: dict[int, str] = {}
        self._known: Transcript[AgentMessage] = Transcript()

    def project(
        self, recorder: Recorder, config: RequestConfig, projection: Projection
    ) -> tuple[ModelRequest, ContextProjected]:
        """The request for a view, and the fact that announces it (not yet recorded)."""
        view = self.as_view(projection.messages)
        base, keep, append = self._delta(recorder, view)
        messages, fingerprint = self.lowering.extend(view, config.seed)
        fact = ContextProjected(
            base=base,
            keep=keep,
            append=append,
            tools=config.tools_hash,
            options=config.options_hash,
            system=config.system_hash,
            messages=len(messages),
            tokens=None if projection.tokens is None else int(projection.tokens),
            items=tuple(collect_context_items(view.since(keep))),
            fingerprint=fingerprint,
            blobs=config.blobs(recorder.state.blobs),
        )
        request = ModelRequest(
            messages=messages, system=config.system, tools=config.tools, options=config.options
        )
        self._next = view
        return request, fact

    def check(self, recorder: Recorder, view: Transcript[AgentMessage]) -> None:
        """See that what only this view has can be recorded.

        Raises:
            CodecError: a message is of a class that is not registered.
        """
        if view is not recorder.state.messages:
            self._delta(recorder, view)

    def aside(self, recorder: Recorder, request: ModelRequest, purpose: str) -> ContextProjected:
        """The fact that announces a call which a context strategy makes for a ``purpose`` of its own.

        It leaves the projection as it is. The messages are sent as the strategy gave them.
        """
        config = RequestConfig(request.system, request.tools, request.options)
        messages, state = Transcript[AgentMessage](request.messages), recorder.state
        whole, last = self._references(recorder, messages, 0), state.projection
        keep = shared_prefix(last.view, whole) if last is not None else 0
        return ContextProjected(
            base=last.seq if last is not None else 0,
            keep=keep,
            append=whole[keep:],
            tools=config.tools_hash,
            options=config.options_hash,
            system=config.system_hash,
            messages=len(messages),
            fingerprint=fingerprint_of(request.messages, config.seed),
            blobs=config.blobs(state.blobs),
            purpose=purpose,
        )

    def recorded(self, recorder: Recorder, fact: ContextProjected) -> None:
        """Remember that ``fact`` is now the base of the next projection."""
        self._seq, self._view, self._basis = fact.seq, self._next, recorder.state.messages

    def _delta(
        self, recorder: Recorder, view: Transcript[AgentMessage]
    ) -> tuple[int, int, tuple[str | Stored, ...]]:
        """The change against the last recorded projection: base, length kept, references appended."""
        last = recorder.state.projection
        if last is None:
            return 0, 0, self._references(recorder, view, 0)
        if last.seq == self._seq and recorder.state.messages.extends(self._basis):
            keep = self._kept(view)
            return last.seq, keep, self._references(recorder, view, keep)
        whole = self._references(recorder, view, 0)  # begun elsewhere, or messages have other ids now
        keep = shared_prefix(last.view, whole)
        return last.seq, keep, whole[keep:]

    def draft(self, view: Transcript[AgentMessage], config: RequestConfig) -> ModelRequest:
        """The request as it would be sent; nothing is remembered of it."""
        return ModelRequest(
            messages=self.sent(view), system=config.system, tools=config.tools, options=config.options
        )

    def sent(self, view: Transcript[AgentMessage]) -> Transcript[Message]:
        """The lowered, repaired messages of a view as a model is sent them."""
        return self.lowering.extend(view, b"")[0]

    def lower(self, view: Transcript[AgentMessage]) -> Transcript[Message]:
        """The lowered, repaired messages of a view that the host may rewrite."""
        if self._plain is None:
            self._plain = Lowering()
        return self._plain.extend(view, b"")[0]

    def as_view(self, given: Sequence[AgentMessage]) -> Transcript[AgentMessage]:
        """``given`` as a transcript, sharing with the last view what it has in common with it."""
        if isinstance(given, Transcript):
            return given
        kept = shared_prefix(self._view, given)
        return self._view.prefix(kept).extend(given[kept:])

    def _kept(self, view: Transcript[AgentMessage]) -> int:
        """How many messages ``view`` shares with the last view from its beginning."""
        return len(self._view) if view.extends(self._view) else shared_prefix(self._view, view)

    def _references(
        self, recorder: Recorder, view: Transcript[AgentMessage], start: int
    ) -> tuple[str | Stored, ...]:
        """Ids for what the transcript holds, whole messages for what only this view has."""
        state = recorder.state
        if view is state.messages:
            return tuple(state.ids.since(start))
        ids = self._transcript_ids(state)
        return tuple([ids.get(id(message)) or recorder.store(message) for message in view.since(start)])

    def _transcript_ids(self, state: AgentState) -> dict[int, str]:
        known = self._known
        if not state.messages.extends(known):
            self._ids.clear()
            known = Transcript()
        start = len(known)
        for message, message_id in zip(state.messages.since(start), state.ids.since(start), strict=True):
            self._ids[id(message)] = message_id
        self._known = state.messages
        return self._ids


def shared_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """How many items two sequences have in common from their beginning.

    Equal is not enough: a model that was sent 1 has not been sent 1.0.
    """
    count = 0
    for left, right in zip(a, b, strict=False):
        if left is not right and not (left == right and _written(left) == _written(right)):
            break
        count += 1
    return count


def _written(item: object) -> object:
    return item if isinstance(item, str) else hash_of(_plain(item))


def _plain(item: Any) -> object:
    """What the model sees of a message of a view or of its reference."""
    if isinstance(item, Stored):
        return item.message
    return item.to_message()
