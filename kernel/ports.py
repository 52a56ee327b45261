"""What the kernel asks of the outside, as small protocols and the values that cross them.

Implementations live elsewhere: models in ``llm/``, tools in ``tools/``, context managers in
``context/``, logs in ``trajectory/``. Optional abilities are protocols of their own, resolved once
when the thing is registered, never probed in mid-run.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from msgspec import Struct, field

from .events import CompactionStep, Fact
from .messages import AgentMessage, Content, ContextItem, Message, StopReason, Usage
from .redaction import holds_key

JSON: TypeAlias = Mapping[str, Any]
"""A JSON object."""

# --- models ------------------------------------------------------------------------------------


class SystemBlock(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A part of the system prompt; ``cache`` marks the end of a cacheable prefix (a TTL or '')."""

    text: str
    cache: str | None = None


class ToolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model and a host are told about a tool; plain data.

    ``schema`` is a JSON Schema of the arguments. The traits are MCP's hints with conservative
    defaults: unset is not read-only and is destructive. None on ``concurrency_safe`` follows
    ``read_only``. ``interrupt``: whether a steering message waits (block) or cancels the call.
    ``title`` names the tool for people, ``activity`` says what a call is doing.
    """

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    title: str = ""
    activity: str = ""
    read_only: bool | None = None
    concurrency_safe: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    interrupt: Literal["block", "cancel"] = "block"
    strict: bool | None = None
    deferred: bool = False
    needs_approval: bool = False
    timeout_s: float | None = None
    max_result_bytes: int | None = None
    meta: dict[str, Any] = {}


ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model is to think."""
LEVELS: Final[tuple[ThinkingLevel, ...]] = get_args(ThinkingLevel)


class CallOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model is asked. None leaves a choice to the provider.

    ``thinking`` is a level, of which a model gets the nearest that it has; ``thinking_budget`` in tokens, for models that
    count them. ``drop_reasoning`` leaves the reasoning of earlier replies out, where a provider does without.
    ``tool_choice``: auto, none, required, or a tool's name. ``response_format``: a provider-neutral JSON object. ``context_management``
    is one too: what the provider is to do itself when the context grows, ``{"compact_at": 150_000}``; ``clear_results`` is for
    old results of tools. ``extra`` is merged into the provider's request body. Options are recorded, just as they are sent: they hold no
    secrets, and keys go to the model.

    Raises:
        ValueError: there is no such thinking level, or an option holds a key of a model provider or a secret that
            is hidden.
    """

    thinking: ThinkingLevel | None = None
    thinking_budget: int | None = None
    drop_reasoning: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | None = None
    response_format: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    cache_key: str | None = None
    cache_last: str | None = None
    session_id: str | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.thinking is not None and self.thinking not in LEVELS:
            raise ValueError(
                f"options: no such thinking level: {self.thinking!r}, there are {', '.join(LEVELS)}"
            )
        said = (self.extra, self.stop, self.response_format, self.context_management, self.tool_choice)
        if holds_key((*said, self.cache_key, self.session_id)):
            raise ValueError("options: they are recorded and hold no secrets, give keys to the model")


class ModelRequest(Struct, frozen=True, kw_only=True, gc=False):
    """One call of a model: lowered, repaired messages and how to answer them.

    ``messages`` is immutable and shares its prefix with the previous request of the run.
    """

    messages: Sequence[Message]
    system: tuple[SystemBlock, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    options: CallOptions = field(default_factory=CallOptions)


class TextDelta(Struct, frozen=True, gc=False):
    """New characters of text block ``index``."""

    text: str
    index: int = 0


class ThinkingDelta(Struct, frozen=True, gc=False):
    """New characters of reasoning block ``index``; a signature or redacted data as they come."""

    text: str = ""
    index: int = 0
    signature: str | None = None
    redacted: str | None = None


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of call ``index``: its id and name once, ``args`` as new characters."""

    index: int
    id: str = ""
    name: str = ""
    args: str = ""
    thought_signature: str | None = None


class ToolCallEnd(Struct, frozen=True, gc=False):
    """Call ``index`` is complete; one that never gets this is never run."""

    index: int


class BlockEvent(Struct, frozen=True, gc=False):
    """A whole block at position ``index`` (an image, a provider-opaque block)."""

    block: Content
    index: int


class StreamEnd(Struct, frozen=True, gc=False, kw_only=True):
    """The terminal event; a stream without it is a partial stream.

    ``model`` is what the server calls the model that answered, ``origin`` becomes ``Message.origin``.
    """

    stop_reason: StopReason
    usage: Usage = Usage()
    model: str = ""
    response_id: str = ""
    metadata: dict[str, Any] = {}
    origin: str = ""


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | ToolCallEnd | BlockEvent | StreamEnd
"""What a model's stream gives."""


class ChatModel(Protocol):
    """A chat model. ``generate(model, request)`` folds the stream where one wants only the reply.

    ``stream`` raises ``ModelError`` subclasses; anything else is taken for a bug of the adapter and
    ends the run. Block indexes order the blocks of the reply.
    """

    @property
    def name(self) -> str:
        """``provider/model``."""
        ...

    @property
    def supports_tools(self) -> bool: ...

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]: ...


# --- tools -------------------------------------------------------------------------------------


class ToolResult(Struct, frozen=True, kw_only=True):
    """A result with more to it than text.

    ``content`` goes to the model, ``details`` to the host only. ``is_error`` tells the model that
    the call failed without raising.
    """

    content: "str | Sequence[Content] | JSON"
    details: dict[str, Any] = {}
    is_error: bool = False


class Clock(Protocol):
    """Time, so that tests own it."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    async def sleep(self, seconds: float, /) -> None: ...

    def call_later(self, seconds: float, fn: Callable[[], None], /) -> Callable[[], None]:
        """Call ``fn`` on the event loop after ``seconds``; returns what cancels that."""
        ...


class Decision(Protocol):
    """What a person said with a yes: a ``Verdict`` of ``hooks.py``, of which it is the part that a tool reads."""

    @property
    def by(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def details(self) -> JSON: ...


class ToolContext(Protocol):
    """What a running call knows; a parameter of this type is injected and not in the schema."""

    @property
    def call_id(self) -> str: ...
    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this very call, and for no other."""
        ...

    @property
    def agent(self) -> tuple[str, ...]:
        """Names from the root agent down to this one."""
        ...

    @property
    def session(self) -> str:
        """The id of the session that the call belongs to."""
        ...

    @property
    def decision(self) -> "Decision | None":
        """What the person said who let the call pass, where one was asked."""
        ...

    @property
    def run_context(self) -> JSON: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def cancelled(self) -> bool:
        """Whether the call should stop; synchronous tools poll it."""
        ...

    def progress(self, summary: str = "", /, *, topic: str = "summary", **payload: Any) -> None:
        """Show progress; works from any thread, keeps the newest, ignored unless the call runs.

        ``topic``: summary, tool_start, tool_end, tool_delta, tool_error, thinking, turn_counter, retry,
        context, as ``ToolExecUpdate`` has them; others are passed on.
        """
        ...


class Tool(Protocol):
    """Something a model can call."""

    @property
    def spec(self) -> ToolSpec: ...

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        """The result: text, JSON, content blocks or a ``ToolResult``.

        Any exception becomes an error result that the model sees; ``FatalToolError`` ends the run.
        """
        ...


class ValidationIssue(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One thing wrong with a call's arguments.

    ``path`` leads to the place (``$.files[0].name``). ``message`` says it in words a model can act on,
    ``hint`` what to do. ``expected`` are the JSON types or the values (as JSON) that were possible,
    ``received`` the JSON type that came instead.
    """

    kind: Literal["missing", "type", "value", "unknown"]
    path: str
    message: str
    expected: tuple[str, ...] = ()
    received: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """The issue as one line."""
        return f"{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class Refused(Struct, frozen=True, gc=False):
    """Why a tool's ``validate`` refuses arguments that fit the schema; ``code`` is for programs."""

    message: str
    code: str | int | None = None


@runtime_checkable
class DecidesTraits(Protocol):
    """A tool some of whose traits depend on the arguments."""

    def spec_for(self, args: JSON, /) -> ToolSpec:
        """The spec as it holds for ``args``, which may not be valid. Where this raises, ``spec`` holds."""
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A tool that checks its arguments itself instead of by ``spec.schema``."""

    def check_arguments(self, args: JSON, /) -> Sequence[ValidationIssue]:
        """What is wrong; empty when the arguments are fine."""
        ...


@runtime_checkable
class Validates(Protocol):
    """A tool that looks at arguments which fit the schema: does the file exist, was it read before.

    It has no effects: the consumer has not seen the call's dispatch yet, and a person may still refuse it.
    """

    async def validate(self, args: JSON, ctx: ToolContext, /) -> Refused | None: ...


@runtime_checkable
class Previews(Protocol):
    """A tool that can show what it is going to do, a diff for instance, without doing it."""

    async def preview(self, args: JSON, ctx: ToolContext, /) -> JSON:
        """What is shown to the host and to the gate; a JSON object."""
        ...


# --- context -----------------------------------------------------------------------------------


class ContextScope(Protocol):
    """The request that a context manager works for, and whom it may ask."""

    @property
    def model(self) -> ChatModel:
        """The model that is asked next; a summary that it is asked for may share its cached prefix."""
        ...

    @property
    def window(self) -> int:
        """How many tokens that model takes, input and output together; 0 when nobody knows."""
        ...

    @property
    def system(self) -> tuple[SystemBlock, ...]: ...
    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...
    @property
    def options(self) -> CallOptions: ...
    @property
    def sent_as_shown(self) -> bool:
        """Whether the model is sent what is projected: a hook of the host may rewrite it. Usage says nothing then."""
        ...

    @property
    def instructions(self) -> str:
        """What a person who asked for a compaction wants of it."""
        ...

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        """Ask the model of the run, or another; recorded and priced, never part of the transcript.

        ``purpose`` says what for (compaction, …).

        Raises:
            ModelError: as the model raises it, or it took longer than ``Retry.call_s``.
        """
        ...

    def announce(self, reason: str, plan: str = "", /) -> None:
        """Say that a rewrite begins, before a model is called for it or anything is changed."""
        ...

    def warn(self, message: str, /, **details: Any) -> None:
        """Say what went wrong and how the manager goes on without it."""
        ...


@runtime_checkable
class HasWindow(Protocol):
    """A model that knows how many tokens it takes, input and output together; 0 when it does not."""

    @property
    def context_window(self) -> int: ...


def window_of(model: ChatModel) -> int:
    """How many tokens a model takes, input and output together; 0 where it does not say."""
    return model.context_window if isinstance(model, HasWindow) else 0


class Edit(Struct, frozen=True, kw_only=True, gc=False):
    """``messages`` stand for those of a view from index ``start`` up to, and without, ``stop``."""

    start: int
    stop: int
    messages: Sequence[AgentMessage] = ()


class Compaction(Struct, frozen=True, kw_only=True):
    """A rewrite of a view: in order, what stands for what.

    ``changed`` is False when nothing could be made smaller. Where ``commit`` is set, the transcript becomes
    the view with ``edits`` made; otherwise the manager remembers them itself, and ``edits`` only say what
    was done; ``shown`` is how many messages are then shown, None where it is made for a projection, which says so.
    ``reason`` and ``steps`` (the strategies that did something) are for the record.
    """

    changed: bool
    commit: bool = False
    edits: Sequence[Edit] = ()
    shown: int | None = None
    reason: str = ""
    steps: tuple[CompactionStep, ...] = ()
    tokens_before: int | None = None
    tokens_after: int | None = None


class Projection(Struct, frozen=True, kw_only=True, gc=False):
    """What the model shall see of the transcript, and what that costs.

    ``compaction`` is a rewrite that was made for it. Where that is to be committed, it is, and the manager
    is asked again for the transcript that it becomes.
    """

    messages: Sequence[AgentMessage]
    tokens: int | None = None
    compaction: Compaction | None = None


class ContextUsage(Struct, frozen=True, kw_only=True):
    """How full the window is; ``percent`` of ``window``, 0 when that is unknown."""

    tokens: int
    window: int = 0
    percent: float = 0.0


class ContextSnapshot(Struct, frozen=True, kw_only=True):
    """What a context manager shows, and what it last did, for hosts to show.

    ``usage`` is of the request as projected, ``baseline`` of one with the whole transcript; ``messages`` and ``projected``
    count the messages of each. ``scope`` says where the view comes from: baseline (as it is), projected (remembered),
    committed. ``kinds`` counts the rewritten messages shown, by what was done to them (summary, cleared, …),
    ``results`` the tool results. ``counter`` is what counts the tokens, ``last`` the steps of the last rewrite.
    """

    usage: ContextUsage | None = None
    baseline: ContextUsage | None = None
    messages: int = 0
    projected: int = 0
    items: tuple[ContextItem, ...] = ()
    scope: str = "baseline"
    kinds: dict[str, int] = {}
    results: int = 0
    counter: str = ""
    last: tuple[CompactionStep, ...] = ()


@runtime_checkable
class Describes(Protocol):
    """A context manager that can say, as a JSON object, what it is and how it is set; that is recorded."""

    def describe(self) -> JSON: ...


@runtime_checkable
class Renews(Protocol):
    """A context manager that can make another of its kind, set the same, that remembers nothing."""

    def renewed(self) -> "ContextManager": ...


class ContextManager(Protocol):
    """Decides what a model sees. One per conversation.

    A projection is transient unless it is committed. ``compact`` is asked for a smaller view after an
    overflow (``overflow``) and by people (``manual``). ``sync`` says that the transcript was replaced.
    """

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection: ...
    async def compact(
        self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /
    ) -> Compaction: ...
    def sync(self, view: Sequence[AgentMessage], /) -> None: ...
    def usage(self) -> ContextUsage | None: ...
    def snapshot(self) -> ContextSnapshot | None: ...


# --- storage -----------------------------------------------------------------------------------


class EventLog(Protocol):
    """Where the facts of one session are kept, in order.

    ``append`` is synchronous, at most a page-cache write, and may be called from any thread; it
    raises ``LogError`` and stores nothing, or stores the whole fact. ``flush`` is the durability
    barrier, awaited before an announced effect starts.
    """

    def append(self, fact: Fact, /) -> None: ...
    async def flush(self) -> None:
        """Return when everything appended is durable. An abort waits for it: bound your own I/O."""
        ...

    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Fact]:
        """Facts with ``start < seq``, and ``seq <= stop`` where given."""
        ...

    def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """Like ``read``, then waiting for more until closed."""
        ...

    async def aclose(self) -> None: ...


class BlobStore(Protocol):
    """Large contents, stored once by hash: SHA-256 in hexadecimal, as ``sha256sum`` prints it.

    Both are synchronous, at most a local file, and may be called from any thread.
    """

    def put(self, data: bytes, /) -> str:
        """Store ``data``, and say its hash. Storing it again changes nothing."""
        ...

    def get(self, digest: str, /) -> bytes:
        """What is stored under a hash.

        Raises:
            LogError: it is missing, or is not what was stored.
        """
        ...
