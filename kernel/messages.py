"""What a transcript holds and what a model is sent.

``Message`` is the wire-neutral message: frozen, made of tagged content blocks, cheap to store.
``AgentMessage`` is the protocol the transcript is made of; ``Message`` satisfies it, and
applications implement it for richer messages that lower themselves at the model-call boundary.

Invariants: messages are never changed after they are made; ``metadata`` belongs to the host,
never reaches the model and always reaches the log.

Read with: ``sequence.py`` (pairing rules), ``lowering.py``, ``codec.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .json_edge import (
    clean_json,
    clean_text,
    decode_arguments,
    encodable,
    encodable_json,
    encode_text,
    escapes_hide_key,
)

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]

# Stop reasons of an assistant message. A string on the wire, so that a newer log stays readable.
FAILED_STOP_REASONS = frozenset({"error", "safety", "aborted"})  # stay in the log, not replayed
StopReason: TypeAlias = str
"""``stop``, ``length``, ``tool_use``, ``error``, ``safety``, ``pause``, ``aborted`` or ``interrupted``.

``pause``: the server stopped with tools of its own under way, and would go on if it were asked again."""


class Text(Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class Thinking(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type", tag="thinking"
):
    """A model's reasoning. ``signature`` and ``redacted`` are opaque and replayed as they came."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


class ToolCall(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call"
):
    """A call the model asks for.

    ``args`` is always a JSON object. When the text the model sent does not parse, ``args`` is
    ``{}``, ``args_invalid`` is set and ``args_parse_error`` says why. ``args_text`` holds the text
    whenever it is not simply the compact encoding of ``args``; ``arguments_text`` gives what is
    replayed. ``completed`` is False for a call that the stream did not finish: it is never run.
    """

    id: str
    name: str
    args: dict[str, Any] = {}
    args_text: str | None = None
    args_invalid: bool = False
    args_parse_error: str | None = None
    thought_signature: str | None = None
    completed: bool = True

    @property
    def arguments_text(self) -> str:
        """The arguments as the model sent them (``{}`` where that was not JSON)."""
        if self.args_invalid or self.args_text is None:
            return encode_text(self.args)
        return self.args_text


class Image(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type", tag="image"):
    """An image: base64 ``data`` with its ``mime_type``, or a ``url``."""

    data: str | None = None
    url: str | None = None
    mime_type: str = ""


class Document(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type", tag="document"
):
    """A document (a PDF, a recording, …): base64 ``data`` with its ``mime_type``, or a ``url``."""

    data: str | None = None
    url: str | None = None
    mime_type: str = ""
    name: str = ""


class ToolReference(Struct, frozen=True, gc=False, tag_field="type", tag="tool_reference"):
    """Names a deferred tool that a result makes available."""

    tool_name: str


class Opaque(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type", tag="opaque"):
    """A block only ``provider`` understands, kept verbatim and replayed to it alone."""

    provider: str
    data: Any


Content: TypeAlias = Text | Thinking | ToolCall | Image | Document | ToolReference | Opaque
"""A block of a message."""


class Cost(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Money for one call or a sum of calls, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        return self.input + self.output + self.cache_read + self.cache_write


class Usage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens of one model call, or a sum of calls.

    ``input_tokens`` are the uncached ones; the whole prompt is ``context_tokens``.
    ``reasoning_tokens`` are contained in ``output_tokens``.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Cost | None = None

    @property
    def context_tokens(self) -> int:
        """All prompt tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.context_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=_add_cost(self.cost, other.cost),
        )

    def __sub__(self, earlier: "Usage") -> "Usage":
        """What came since an ``earlier`` sum."""
        return Usage(
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cache_read_tokens=self.cache_read_tokens - earlier.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - earlier.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens - earlier.reasoning_tokens,
            cost=_subtract_cost(self.cost, earlier.cost),
        )


NO_USAGE = Usage()


def _add_cost(a: Cost | None, b: Cost | None) -> Cost | None:
    if a is None or b is None:
        return a or b
    return Cost(
        input=a.input + b.input,
        output=a.output + b.output,
        cache_read=a.cache_read + b.cache_read,
        cache_write=a.cache_write + b.cache_write,
    )


def _subtract_cost(a: Cost | None, b: Cost | None) -> Cost | None:
    if a is None or b is None:
        return a
    return Cost(
        input=a.input - b.input,
        output=a.output - b.output,
        cache_read=a.cache_read - b.cache_read,
        cache_write=a.cache_write - b.cache_write,
    )


class Reduced(NamedTuple):
    """A message made smaller, and the fraction of its full form that this still is."""

    message: "AgentMessage"
    actual: float


@runtime_checkable
class AgentMessage(Protocol):
    """What a transcript holds. ``Message`` is one; applications implement others.

    An application message is a msgspec struct registered with ``Codec.register`` so that it
    survives the log and comes back as itself.
    """

    @property
    def role(self) -> str: ...
    @property
    def timestamp(self) -> float: ...
    @property
    def text(self) -> str: ...
    @property
    def thinking(self) -> str: ...
    @property
    def has_tool_calls(self) -> bool: ...
    @property
    def priority(self) -> int:
        """Higher is kept longer when context gets scarce; 0 is ordinary."""
        ...

    def raw(self) -> "AgentMessage":
        """The message in full, whatever reduced form this is."""
        ...

    def compact(self, expect: float) -> Reduced:
        """The message at about ``expect`` (0 to 1) of its full size; 1 is ``raw()``."""
        ...

    def to_message(self) -> "Message | None":
        """What the model is sent; None leaves the message out."""
        ...


class _LoweredText:
    """The text of what a message lowers to; a field of that name in the class wins."""

    def __get__(self, message: Any, owner: type | None = None) -> str:
        lowered = message.to_message() if message is not None else None
        return lowered.text if lowered is not None else ""


class BaseMessage:
    """What application messages have in common: inherit it, and write ``to_message``.

    It goes before ``msgspec.Struct``, or under a dataclass. Fields of the class win over what is here.
    """

    __slots__ = ()
    role: Any = "user"
    timestamp: Any = 0.0
    text: Any = _LoweredText()
    thinking: Any = ""
    has_tool_calls: Any = False
    priority: Any = 0

    def raw(self) -> "AgentMessage":
        """The message itself: it has one form."""
        return cast("AgentMessage", self)

    def compact(self, expect: float) -> Reduced:
        """The message itself."""
        return Reduced(cast("AgentMessage", self), 1.0)

    def to_message(self) -> "Message | None":
        """What the model is sent; None leaves the message out."""
        raise NotImplementedError(f"{type(self).__name__}: write to_message, it gives what the model is sent")


class Message(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One message in neutral form.

    ``id`` is given by the kernel when it commits. ``timestamp`` is seconds since the epoch.
    ``tool_call_id``, ``tool_name`` and ``is_error`` belong to the role ``tool``. ``origin`` says what made a
    reply, as ``<wire format>:<model>``: what is opaque in it goes back to that alone.
    """

    role: Role
    content: tuple[Content, ...] = ()
    id: str = ""
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False
    metadata: dict[str, Any] = {}
    timestamp: float = 0.0
    origin: str = ""

    @property
    def text(self) -> str:
        """All text blocks, joined without a separator."""
        return "".join([block.text for block in self.content if type(block) is Text])

    @property
    def thinking(self) -> str:
        """All thinking blocks, joined without a separator."""
        return "".join([block.text for block in self.content if type(block) is Thinking])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.content if type(block) is ToolCall])

    @property
    def has_tool_calls(self) -> bool:
        return any(type(block) is ToolCall for block in self.content)

    @property
    def priority(self) -> int:
        return 0

    def raw(self) -> "Message":
        return self

    def compact(self, expect: float) -> Reduced:
        """The message itself: a plain message has one form."""
        return Reduced(self, 1.0)

    def to_message(self) -> "Message | None":
        """The message itself; failed assistant messages are not replayed."""
        return None if self.failed else self

    @property
    def failed(self) -> bool:
        """Whether this is a reply that failed or was aborted, kept for the record only."""
        return self.role == "assistant" and self.stop_reason in FAILED_STOP_REASONS


class OpaqueMessage:
    """An application message whose class is not registered here.

    It keeps the stored form, so that it round-trips, and the lowered form that was stored beside
    it, so that requests can still be rebuilt.
    """

    __slots__ = ("data", "kind", "lowered")

    def __init__(self, kind: str, data: Any, lowered: Message | None) -> None:
        self.kind = kind
        self.data = data
        self.lowered = lowered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueMessage) and (self.kind, self.data, self.lowered) == (
            other.kind,
            other.data,
            other.lowered,
        )

    __hash__ = None  # type: ignore[assignment]  # holds JSON data, which has no hash

    def __repr__(self) -> str:
        return f"OpaqueMessage(kind={self.kind!r})"

    @property
    def role(self) -> str:
        return self.lowered.role if self.lowered else "custom"

    @property
    def timestamp(self) -> float:
        return self.lowered.timestamp if self.lowered else 0.0

    @property
    def text(self) -> str:
        return self.lowered.text if self.lowered else ""

    @property
    def thinking(self) -> str:
        return self.lowered.thinking if self.lowered else ""

    @property
    def has_tool_calls(self) -> bool:
        return self.lowered.has_tool_calls if self.lowered else False

    @property
    def priority(self) -> int:
        return 0

    def raw(self) -> "OpaqueMessage":
        return self

    def compact(self, expect: float) -> Reduced:
        return Reduced(self, 1.0)

    def to_message(self) -> Message | None:
        return self.lowered


class ContextItem(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something a message puts in front of the model: a file, a result, a summary."""

    kind: str
    identity: str
    representation: str = "full"
    reason: str = ""
    ref: str = ""


class ContextDemand(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something a message shows the model to have needed: a path read again, an id quoted."""

    kind: str
    identity: str
    signal: str = ""


@runtime_checkable
class ProvidesItems(Protocol):
    """An ``AgentMessage`` that can say what it puts before the model."""

    def context_items(self) -> Sequence[ContextItem]: ...


@runtime_checkable
class ProvidesDemands(Protocol):
    """An ``AgentMessage`` that can say what it shows to have been needed."""

    def context_demands(self) -> Sequence[ContextDemand]: ...


_VERBATIM: Mapping[type, tuple[str, ...]] = {  # opaque or binary: replayed as it came
    Thinking: ("signature", "redacted"),
    ToolCall: ("thought_signature",),
    Image: ("data",),
    Document: ("data",),
    Opaque: ("data",),
}


def clean_block(block: Content) -> tuple[Content, int]:
    """A block as strict JSON can hold it, and the lone surrogates replaced in it.

    Keys of model providers are taken out, but not of what is opaque or binary: signatures, redacted thinking,
    ``data``, and URLs that hold the data themselves.

    Raises:
        TypeError, ValueError: it holds something that JSON does not have.
    """
    if type(block) is Text:
        text = clean_text(block.text)
        return (block, 0) if text == block.text else (Text(text), 1)
    plain = msgspec.to_builtins(block)
    names = _VERBATIM.get(type(block), ())
    if type(plain.get("url")) is str and plain["url"].startswith("data:"):
        names = (*names, "url")
    verbatim, replaced = encodable_json({name: plain.pop(name) for name in names if name in plain})
    plain, more = clean_json(plain)
    plain, replaced = {**plain, **verbatim}, replaced + more
    if type(block) is ToolCall and escapes_hide_key(block.args_text or ""):
        plain["args_text"] = None
    try:
        cleaned: Content = msgspec.convert(plain, Content)
    except msgspec.ValidationError as error:
        raise TypeError(f"a {type(block).__name__} block is not valid: {error}") from error
    return (block if cleaned == block else cleaned), replaced


def clean_message(message: Message) -> Message:
    """``message`` with its content as a log can hold it; lone surrogates become U+FFFD.

    Raises:
        TypeError, ValueError: there is no such role, or a block holds what JSON does not have.
    """
    if message.role not in ("user", "assistant", "system", "tool"):
        raise ValueError(f"no such role: {message.role!r}")
    content = tuple([clean_block(block)[0] for block in message.content])
    same = type(message.content) is tuple and all(
        a is b for a, b in zip(content, message.content, strict=True)
    )
    return message if same else replace(message, content=content)


def has_content(message: AgentMessage) -> bool:
    """Whether a message says anything: more than white space. Application messages always do."""
    if type(message) is not Message:
        return True
    return any(type(block) is not Text or bool(block.text.strip()) for block in message.content)


def user_message(text: str, *, metadata: Mapping[str, Any] | None = None) -> Message:
    """A user message of one text block."""
    return Message(role="user", content=(Text(clean_text(text)),), metadata=dict(metadata or {}))


def assistant_message(
    text: str = "", *calls: ToolCall, stop_reason: StopReason | None = None, usage: Usage | None = None
) -> Message:
    """An assistant message of at most one text block and any calls."""
    content: tuple[Content, ...] = ((Text(clean_text(text)),) if text else ()) + calls
    reason = stop_reason or ("tool_use" if calls else "stop")
    return Message(role="assistant", content=content, stop_reason=reason, usage=usage)


def tool_message(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    """The result of ``call`` as one text block."""
    return Message(
        role="tool",
        content=(Text(clean_text(text)),),
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=is_error,
    )


def make_call(
    id: str,
    name: str,
    args_text: str = "",
    *,
    completed: bool = True,
    thought_signature: str | None = None,
) -> ToolCall:
    """A call from the text a model sent as its arguments; parse errors are kept, not raised.

    A text whose escapes hide a key of a model provider is not kept: ``args`` are without it.
    """
    text = clean_text(args_text)
    args, error, _, strict = decode_arguments(text)
    verbatim = text if error is not None or (strict and text != encode_text(args)) else None
    if error is not None and escapes_hide_key(text):
        verbatim = None
    return ToolCall(
        id=clean_text(id),
        name=clean_text(name),
        args=args,
        args_text=verbatim or None,
        args_invalid=error is not None,
        args_parse_error=error,
        thought_signature=None if thought_signature is None else encodable(thought_signature),
        completed=completed,
    )


JsonObject: TypeAlias = Mapping[str, Any]
