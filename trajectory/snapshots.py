"""States of a session, kept so that it can be taken up without reading all of it.

A snapshot is a cache: it names the record that it was made after by number and hash, and is passed over when
the log has another record there, when this version keeps other fields, when application messages in it have
no class here, or when it is damaged. Deleting it changes nothing but the time that loading takes.

Read with: ``jsonl.py`` and ``sqlite.py`` (who keep them), ``unspool.kernel.state``.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from unspool.kernel.codec import Codec, transcript_entry
from unspool.kernel.errors import CodecError
from unspool.kernel.events import AppMessage, Fact, Stored
from unspool.kernel.messages import AgentMessage, Message, OpaqueMessage
from unspool.kernel.state import AgentState, Projected, Queued, apply, fold
from unspool.kernel.transcript import Seen, Transcript

from .blobs import digest_of


class _Queued(Struct, frozen=True):
    id: str
    lane: str
    message: Stored


class _Projected(Struct, frozen=True):
    seq: int
    view: list[str | Stored]
    fingerprint: str


_QUEUES: Final = ("prompts", "steering", "follow_ups", "taken")
_KINDS: Final[dict[str, Any]] = {
    "messages": list[Stored],
    "ids": list[str],
    "projection": _Projected | None,
    "seen_calls": list[str],
    **{name: list[_Queued] for name in _QUEUES},
}
_State = msgspec.defstruct(
    "_State",
    [(field.name, _KINDS.get(field.name, field.type)) for field in msgspec.structs.fields(AgentState)],
)
_SHAPE: Final = digest_of(
    repr([(field.name, str(field.type)) for field in msgspec.structs.fields(_State)]).encode()
)
"""Changes with the fields of the state: a snapshot of another version is passed over."""


class _Snapshot(Struct, frozen=True):
    """A state and the record that it was made after; ``kinds`` are those of its application messages."""

    shape: str
    seq: int
    hash: str
    kinds: list[str]
    sum: str
    state: bytes


class Snapshot(Struct, frozen=True):
    """A snapshot that was read: the state, and the hash of the record it was made after."""

    state: AgentState
    hash: bytes


def make_snapshot(state: AgentState, hashed: bytes, codec: Codec) -> bytes:
    """The snapshot of a state, made after the record with that hash."""
    kinds: set[str] = set()
    queues = {
        name: [_Queued(queued.id, queued.lane, _stored(queued.message, codec, kinds)) for queued in queue]
        for name in _QUEUES
        if (queue := getattr(state, name)) is not None
    }
    projection = state.projection
    if projection is not None:
        kinds.update(_kinds_of(projection.view))
    plain = {
        **{name: getattr(state, name) for name in AgentState.__struct_fields__},
        **queues,
        "messages": [_stored(message, codec, kinds) for message in state.messages],
        "ids": list(state.ids),
        "projection": projection
        and _Projected(projection.seq, projection.view.since(0), projection.fingerprint),
        "seen_calls": list(state.seen_calls),
    }
    body = codec.pack(plain)
    return msgspec.msgpack.encode(
        _Snapshot(_SHAPE, state.seq, hashed.decode(), sorted(kinds), digest_of(body), body)
    )


def _kinds_of(view: Iterable[str | Stored]) -> Iterator[str]:
    """The kinds of application messages that are in a view alone, where their class is known here."""
    for each in view:
        if (
            isinstance(each, Stored)
            and each.app is not None
            and not isinstance(each.app.value, OpaqueMessage)
        ):
            yield each.app.kind


def _stored(message: AgentMessage, codec: Codec, kinds: set[str]) -> Stored:
    if type(message) is Message:
        return Stored(message=message)
    if isinstance(message, OpaqueMessage):
        return Stored(message=message.lowered, app=AppMessage(message.kind, message))
    wrapped = codec.wrap(message)
    kinds.add(wrapped.kind)
    return Stored(app=wrapped)


def read_snapshot(data: bytes, codec: Codec, where: str) -> Snapshot | None:
    """A state from its snapshot; None where that is of no use here.

    A damaged one is warned of.
    """
    try:
        snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
        if snapshot.shape != _SHAPE or not all(map(codec.knows, snapshot.kinds)):
            return None
        if digest_of(snapshot.state) != snapshot.sum:
            raise ValueError("its checksum does not fit")
        plain: Any = codec.unpack(snapshot.state, _State)
    except (msgspec.MsgspecError, ValueError, CodecError) as error:
        warnings.warn(f"log: a snapshot is damaged and is passed over ({where}: {error})", stacklevel=4)
        return None
    return Snapshot(_restored(plain), snapshot.hash.encode())


def state_after(
    data: bytes | None,
    records: Callable[[], Iterator[tuple[int, bytes, Callable[[], Fact]]]],
    codec: Codec,
    where: str,
) -> AgentState:
    """The state of a session whose snapshot is ``data``, if there is one.

    ``records`` gives number, hash and, on demand, the fact of each record. Those up to the snapshot are not
    decoded; where it does not belong to them, all are.
    """
    snapshot = read_snapshot(data, codec, where) if data is not None else None
    if snapshot is not None:
        state, known = snapshot.state, False
        for seq, hashed, fact in records():
            if seq == snapshot.state.seq:
                known = hashed == snapshot.hash
            elif seq > snapshot.state.seq:
                if not known:
                    break
                state = apply(state, fact())
        if known:
            return state
    return fold(fact() for _, _, fact in records())


def _restored(plain: Any) -> AgentState:
    seen = Seen()
    for call_id in plain.seen_calls:
        seen = seen.add(call_id)
    projection = plain.projection
    values = {name: getattr(plain, name) for name in AgentState.__struct_fields__}
    queues = {
        name: tuple([Queued(each.id, each.lane, _entry(each.message)) for each in values[name]])
        for name in _QUEUES
    }
    return AgentState(
        **{
            **values,
            **queues,
            "messages": Transcript([_entry(stored) for stored in plain.messages]),
            "ids": Transcript(plain.ids),
            "projection": projection
            and Projected(projection.seq, Transcript(projection.view), projection.fingerprint),
            "seen_calls": seen,
        }
    )


def _entry(stored: Stored) -> AgentMessage:
    message: AgentMessage = transcript_entry(stored.message, stored.app)
    return message
