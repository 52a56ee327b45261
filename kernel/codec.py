"""Facts to bytes and back: one JSON object a line, readable by people and by later versions.

Unknown kinds of facts come back as ``UnknownFact`` with their bytes, unknown content blocks as
``Opaque``, unknown fields stay in ``Record.raw``. Application messages are registered by kind;
one whose class is gone comes back as ``OpaqueMessage``.

Read with: ``events.py``, ``messages.py``.
"""

from functools import cached_property
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from .errors import CodecError
from .events import AppMessage, Fact, KnownFact, Signal, UnknownFact
from .json_edge import clean_json
from .messages import Content, Message, OpaqueMessage

T = TypeVar("T")
_BLOCK_TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(Content))
_FACT_TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(KnownFact))


class Record(NamedTuple):
    """A stored fact and the very bytes it was read from (without the line's end)."""

    fact: Fact
    raw: bytes


class _Header(msgspec.Struct):
    type: str
    seq: int = 0
    time: float = 0.0
    run_id: str = ""


_header = msgspec.json.Decoder(_Header).decode


class Codec:
    """Encodes and decodes facts; knows the application's message kinds."""

    def __init__(self) -> None:
        self._kinds: dict[str, type] = {}
        self._names: dict[type, str] = {}

    @cached_property
    def _encoder(self) -> msgspec.json.Encoder:
        return msgspec.json.Encoder(enc_hook=self._enc_hook)

    @cached_property
    def _decoder(self) -> "msgspec.json.Decoder[KnownFact]":
        """Made on first use: most codecs only write, and this takes longer than a short run."""
        return msgspec.json.Decoder(KnownFact, dec_hook=self._dec_hook)

    def register(self, kind: str, cls: type) -> None:
        """Let messages of class ``cls`` be stored as ``kind``.

        ``cls`` is an ``AgentMessage`` that msgspec can encode and decode (a msgspec struct, a
        dataclass, an attrs class). The kind is what logs hold: keep it when renaming the class.

        Its own data is the application's to clean: it is stored as it is, keys of model providers included,
        though patterns that a log is given (``redact=``) reach it. What ``to_message`` gives may hold no key.

        Raises:
            CodecError: the kind or the class is registered already.
        """
        if self._kinds.get(kind, cls) is not cls or self._names.get(cls, kind) != kind:
            raise CodecError("codec: registered already", kind=kind, cls=cls.__qualname__)
        self._kinds[kind] = cls
        self._names[cls] = kind

    def wrap(self, message: Any) -> AppMessage:
        """An application message as facts carry it.

        Raises:
            CodecError: its class is not registered.
        """
        if isinstance(message, OpaqueMessage):  # its lowered form is stored beside it
            return AppMessage(message.kind, OpaqueMessage(message.kind, message.data, None))
        kind = self._names.get(type(message))
        if kind is None:
            raise CodecError(
                "codec: message class is not registered, call Codec.register",
                cls=type(message).__qualname__,
            )
        return AppMessage(kind, message)

    def encode(self, fact: Fact | Signal) -> bytes:
        """One JSON object without a line end; an ``UnknownFact`` gives back its own bytes.

        Raises:
            CodecError: something in the event cannot be written as JSON.
        """
        if type(fact) is UnknownFact:
            return fact.raw
        try:
            return self._encoder.encode(fact)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CodecError(
                "codec: cannot be written as JSON", type=type(fact).__name__, reason=str(error)
            ) from error

    def knows(self, kind: str) -> bool:
        """Whether messages of that kind have a class here."""
        return kind in self._kinds

    def pack(self, value: Any) -> bytes:
        """A value made of structs, application messages among them, as MessagePack.

        Raises:
            CodecError: it cannot be written.
        """
        try:
            return msgspec.msgpack.encode(value, enc_hook=self._enc_hook)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CodecError("codec: cannot be written", reason=str(error)) from error

    def unpack(self, data: bytes, kind: type[T]) -> T:
        """What ``pack`` made bytes of.

        Raises:
            CodecError: it is no value of that kind.
        """
        try:
            return msgspec.msgpack.decode(data, type=kind, dec_hook=self._dec_hook)
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise CodecError("codec: cannot be read", reason=str(error)) from error

    def plain(self, value: dict[str, Any]) -> dict[str, Any]:
        """``value`` as it will come back from a log.

        Raises:
            CodecError: it cannot be written as JSON.
        """
        try:
            checked, _ = clean_json(value)  # no NaN, no lone surrogate
            plain: dict[str, Any] = msgspec.json.decode(self._encoder.encode(checked))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CodecError("codec: metadata cannot be written as JSON", reason=str(error)) from error
        return plain

    def decode(self, raw: bytes) -> Fact:
        """The fact in ``raw``.

        Raises:
            CodecError: not a JSON object with a type, or a known type that does not fit.
        """
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            return self._tolerate(raw, error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CodecError("codec: not a JSON record", reason=str(error)) from error

    def record(self, raw: bytes) -> Record:
        """``decode`` with the bytes kept beside the fact."""
        return Record(self.decode(raw), bytes(raw))

    def _tolerate(self, raw: bytes, error: msgspec.ValidationError) -> Fact:
        """A record of a later version: an unknown kind, or unknown blocks in a known one."""
        try:
            header = _header(raw)
        except msgspec.DecodeError as missing:
            raise CodecError("codec: not an event", reason=str(missing)) from missing
        if header.type not in _FACT_TAGS:
            return UnknownFact(
                seq=header.seq, time=header.time, run_id=header.run_id, type=header.type, raw=bytes(raw)
            )
        try:
            fact: Fact = msgspec.convert(
                _wrap_unknown_blocks(msgspec.json.decode(raw)), KnownFact, dec_hook=self._dec_hook
            )
        except msgspec.ValidationError:
            raise CodecError(
                "codec: record does not fit its type", type=header.type, seq=header.seq, reason=str(error)
            ) from error
        return fact

    def _enc_hook(self, value: Any) -> Any:
        if isinstance(value, AppMessage):
            message = value.value
            return {
                "kind": value.kind,
                "data": message.data if isinstance(message, OpaqueMessage) else message,
            }
        raise TypeError(f"a {type(value).__qualname__} has no JSON form")

    def _dec_hook(self, kind: type, value: Any) -> Any:
        if kind is not AppMessage:
            raise TypeError(f"cannot decode {kind!r}")
        name, data = value.get("kind"), value.get("data")
        if not isinstance(name, str):
            raise TypeError("an application message needs a kind")
        cls = self._kinds.get(name)
        if cls is None:
            return AppMessage(name, OpaqueMessage(name, data, None))
        return AppMessage(name, msgspec.convert(data, cls, str_keys=True))  # JSON has no other keys


def _wrap_unknown_blocks(value: Any) -> Any:
    """``value`` with every content block of an unknown type put into an opaque block."""
    match value:
        case dict():
            return {
                key: _wrap_blocks(inner)
                if key == "content" and isinstance(inner, list)
                else _wrap_unknown_blocks(inner)
                for key, inner in value.items()
            }
        case list():
            return [_wrap_unknown_blocks(inner) for inner in value]
        case _:
            return value


def _wrap_blocks(blocks: list[Any]) -> list[Any]:
    return [
        {"type": "opaque", "provider": "", "data": block}
        if isinstance(block, dict) and "type" in block and block["type"] not in _BLOCK_TAGS
        else block
        for block in blocks
    ]


def transcript_entry(message: Message | None, app: AppMessage | None) -> Any:
    """What the transcript holds for a stored message: the application's own form first."""
    if app is None:
        return message
    if isinstance(app.value, OpaqueMessage) and message is not None:
        return OpaqueMessage(app.kind, app.value.data, message)
    return app.value


def event_schema() -> dict[str, Any]:
    """The JSON Schema of the event union, as ``docs/events.schema.json`` holds it."""
    (schema,), components = msgspec.json.schema_components(
        [KnownFact | Signal], ref_template="#/$defs/{name}", schema_hook=_schema_hook
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": components}


def _schema_hook(kind: type) -> dict[str, Any]:
    if kind is AppMessage:
        return {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "data": {}},
            "required": ["kind"],
        }
    raise TypeError(f"no schema for {kind!r}")
