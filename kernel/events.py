"""Everything that can happen in a session, as one tagged union.

A *fact* is durable and folds into the state; the facts make up the log. A *signal* is for
watching and need not be stored. Tags are written out, because they are what stored logs hold.

Every event has ``seq`` and ``run_id``. Facts number a session densely from 1; a signal carries
the ``seq`` of the last fact and ``sub`` (1, 2, … since it). ``time`` is seconds since the epoch.
A fact recorded while no run is active has an empty ``run_id``.

Read with: ``state.py`` (what each fact does), ``docs/design.md`` (the table).
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .limits import Limits
from .messages import Content, ContextItem, Message, ToolCall, Usage


class AppMessage:
    """An application message inside a fact: its registered kind and the message itself."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind = kind
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AppMessage) and (self.kind, self.value) == (other.kind, other.value)

    __hash__ = None  # type: ignore[assignment]  # the message may be unhashable

    def __repr__(self) -> str:
        return f"AppMessage({self.kind!r}, {self.value!r})"


class Stored(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A message as facts carry it: ``message`` is what the model would see (None: nothing),
    ``app`` the application's own form where it has one."""

    message: Message | None = None
    app: AppMessage | None = None


# --- facts -------------------------------------------------------------------------------------


class _Fact(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """The header all facts share."""

    seq: int = 0
    time: float = 0.0
    run_id: str = ""


class Lineage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Whose child a nested session is: the session of its ``parent``, the call there that runs it, and the names of
    the agents above it, from the root down. ``root`` is the session at the top."""

    parent: str
    call_id: str = ""
    path: tuple[str, ...] = ()
    root: str = ""


class AgentStart(_Fact, frozen=True, tag="agent_start"):
    """A run begins. ``cause``: prompt, continue, resume, inject.

    ``previous_run`` is the run of this session that it follows; a session that was forked to ask again, or
    to ask something else, follows the run before the one that it replaces.
    ``tools``, ``options`` and ``system`` are hashes; ``blobs`` holds the contents that this
    session has not stored yet. ``toolbox`` is the hash of all tools where some are not offered (yet).
    ``history`` are the messages the session begins with. ``context`` is what the context manager says of itself,
    ``window`` how many tokens the model says it takes, input and output together (0: it does not say).
    ``lineage`` says whose child this session is, where it is one.
    """

    session: str = ""
    agent: str = ""
    cause: str = "prompt"
    previous_run: str = ""
    limits: Limits = Limits()
    model: str = ""
    tools: str = ""
    options: str = ""
    system: str = ""
    toolbox: str = ""
    blobs: dict[str, Any] = {}
    history: tuple[Stored, ...] = ()
    context: dict[str, Any] = {}
    window: int = 0
    lineage: Lineage | None = None


class TurnStart(_Fact, frozen=True, tag="turn_start"):
    """A turn (one reply and its calls) begins; ``index`` counts from 1 within the run."""

    index: int


class TurnEnd(_Fact, frozen=True, tag="turn_end"):
    """The turn is complete: its reply and all results are in, or the run ends in it."""

    index: int


class MessageEnd(_Fact, frozen=True, tag="message_end"):
    """A message is committed to the transcript.

    A plain tool result only names its call (role ``tool``, ``tool_call_id``, no content): the
    content is in that call's ``tool_exec_end``; the transcript holds the whole message.
    ``message`` is None for an application message that the model never sees. ``queue_id`` names
    the queued message this one was; ``cause`` says why the kernel or a hook wrote it
    (length_recovery, stop_guard, before_turn, step_limit, abort), or that it was imported.
    """

    id: str
    message: Message | None = None
    app: AppMessage | None = None
    queue_id: str = ""
    cause: str = ""


class ContextProjected(_Fact, frozen=True, tag="context_projected"):
    """What the next model call sees, as a change to the projection at fact ``base``.

    The view is the first ``keep`` messages of the base view and then ``append``: message ids, or
    whole messages that exist in this view only. ``fingerprint`` chains over the lowered and
    repaired request. ``tokens`` is the context manager's count, None where it counts none.
    ``items`` are the context items of the appended messages. ``blobs`` holds contents of hashes that
    this session has not stored yet (a hook may give options for one call). ``purpose`` is empty for a
    reply; a call that a context strategy makes for another purpose leaves the projection as it is.
    """

    base: int = 0
    keep: int = 0
    append: tuple[str | Stored, ...] = ()
    tools: str = ""
    options: str = ""
    system: str = ""
    messages: int = 0
    tokens: int | None = None
    items: tuple[ContextItem, ...] = ()
    fingerprint: str = ""
    blobs: dict[str, Any] = {}
    purpose: str = ""


class ContextCompacting(_Fact, frozen=True, tag="context_compacting"):
    """A context strategy is about to rewrite, or to call a model for it.

    What comes of it is in the next ``context_compacted``; where nothing could be made smaller, or the run ended, there
    is none before the next ``context_projected`` or ``agent_end``.
    """

    reason: str
    plan: str = ""


class Replaced(Struct, frozen=True, gc=False, kw_only=True):
    """A range of committed messages, by the ids of its first and last."""

    first: str
    last: str


class CompactionStep(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What one strategy did in a rewrite: to how many messages, and the tokens of the view around it."""

    strategy: str
    messages: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    note: str = ""


class ContextCompacted(_Fact, frozen=True, tag="context_compacted"):
    """What a rewrite did. Where ``committed``, ``messages`` stand for ``replaced`` from now on: ids of those
    that stay, whole messages for what is new.

    ``reason``: threshold, cost, turns, overflow, manual, reset, set_messages, interrupted. ``covered`` are the messages that the
    model no longer sees as they were, where that is not committed.
    """

    committed: bool = False
    reason: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages_before: int = 0
    messages_after: int = 0
    messages: tuple[str | Stored, ...] = ()
    replaced: Replaced | None = None
    covered: tuple[Replaced, ...] = ()
    steps: tuple[CompactionStep, ...] = ()


class ModelResponse(_Fact, frozen=True, tag="model_response"):
    """A model call ended, whatever came of it; the only event whose usage folds into totals.

    ``error_kind`` is empty for a reply. ``attempt`` counts from 1 within the turn. ``purpose``:
    reply, compaction, …; ``source``: model, hook. ``reply`` is what a call for another purpose answered:
    it is not part of the transcript.
    """

    model: str = ""
    usage: Usage = Usage()
    stop_reason: str = ""
    error_kind: str = ""
    attempt: int = 1
    first_token_s: float | None = None
    total_s: float = 0.0
    purpose: str = "reply"
    source: str = "model"
    response_id: str = ""
    message_id: str = ""
    reply: Message | None = None


class RetryEvent(_Fact, frozen=True, tag="retry"):
    """The call failed and is tried again after ``delay_s``; ``attempt`` of ``limit`` retries."""

    attempt: int
    limit: int
    delay_s: float
    error_kind: str
    message: str = ""


class Ruling(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a gate said of a call besides yes, no or ask: who or what decided, why, and what it looked at.

    Yes is on the call's dispatch, no on its end, ask on ``approval_requested``.
    """

    by: str = ""
    reason: str = ""
    details: dict[str, Any] = {}


class ToolExecStart(_Fact, frozen=True, tag="tool_exec_start"):
    """A call's turn has come; ``args`` are those the model asked for."""

    call_id: str
    tool: str
    label: str = ""
    args: dict[str, Any] = {}


class NestedCall(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A call of a nested session that waits for a person.

    ``id`` is how the session above names it: the id of its own call, a slash, and the id further down. ``session``
    and ``agent`` (names from the root down) say where it waits; the others are as in ``ApprovalRequested``.
    """

    id: str
    call: ToolCall
    session: str = ""
    agent: tuple[str, ...] = ()
    reason: str = ""
    details: dict[str, Any] = {}
    preview: dict[str, Any] | None = None


class ApprovalRequested(_Fact, frozen=True, tag="approval_requested"):
    """These calls wait for a person.

    ``reason`` is a gate's. ``previews`` say, by call id, what tools that can tell are going to do. Where there are
    ``nested`` calls, it is those that a person decides on, and ``call_ids`` is the call that runs their session:
    it has stopped, and runs again once they are decided.
    """

    call_ids: tuple[str, ...]
    reason: str = ""
    previews: dict[str, dict[str, Any]] = {}
    ruling: Ruling | None = None
    nested: tuple[NestedCall, ...] = ()


class ApprovalDecided(_Fact, frozen=True, tag="approval_decided"):
    """A person decided on a call: ``approved``, by whom, with which arguments if changed, and what was said.

    ``call_id`` may be that of a nested call.
    """

    call_id: str
    approved: bool
    by: str = ""
    reason: str = ""
    args: dict[str, Any] | None = None
    details: dict[str, Any] = {}


class ToolExecDispatch(_Fact, frozen=True, tag="tool_exec_dispatch"):
    """The call runs as soon as this is durable. ``args`` only where they differ from the start's.

    A call whose nested session waited for a person is dispatched again, with the same key, when it goes on.
    """

    call_id: str
    idempotency_key: str = ""
    args: dict[str, Any] | None = None
    ruling: Ruling | None = None


class ToolExecEnd(_Fact, frozen=True, tag="tool_exec_end"):
    """The one end of a call.

    ``outcome``: ok, error, invalid, unknown_tool, denied, skipped, cancelled, disabled,
    interrupted, unknown. ``details`` are for hosts, never for the model. ``abandoned`` says that
    the tool did not stop when it was cancelled; ``terminal`` that the run may stop after it.
    """

    call_id: str
    tool: str = ""
    outcome: str = "ok"
    content: tuple[Content, ...] = ()
    details: dict[str, Any] = {}
    duration_s: float = 0.0
    abandoned: bool = False
    terminal: bool = False
    ruling: Ruling | None = None


class QueueChanged(_Fact, frozen=True, tag="queue_changed"):
    """Messages entered or left a queue.

    ``lane``: prompt, steering, follow_up. ``action``: queued (with the message), taken, cleared.
    ``waiting``: the run was waiting for a model, a tool or a hook when this came, not for its consumer.
    """

    lane: str
    action: str
    ids: tuple[str, ...]
    message: Message | None = None
    app: AppMessage | None = None
    waiting: bool = False


class ConfigChanged(_Fact, frozen=True, tag="config_changed"):
    """The run goes on under another configuration; only what changed is given.

    ``window``, ``toolbox`` and ``context`` are as in ``agent_start``; ``toolbox`` is empty where all tools are
    offered now. ``active_tools`` are the deferred tools in use; a fork begins with those of its parent.
    """

    model: str | None = None
    tools: str | None = None
    options: str | None = None
    system: str | None = None
    limits: Limits | None = None
    window: int | None = None
    active_tools: tuple[str, ...] | None = None
    blobs: dict[str, Any] = {}
    toolbox: str | None = None
    context: dict[str, Any] | None = None


class SessionChanged(_Fact, frozen=True, tag="session_changed"):
    """What people call the session, and what hosts note about it; None leaves it as it is."""

    title: str | None = None
    metadata: dict[str, Any] | None = None


class Handoff(_Fact, frozen=True, tag="handoff"):
    """Another agent takes over the conversation."""

    target: str
    source: str = ""
    call_id: str = ""


class ChildStarted(_Fact, frozen=True, tag="child_started"):
    """A nested session begins a run, or goes on with one; it has its own numbering and log.

    ``mode``: single, parallel, chain, background, or a host's own. ``used`` is what that session, those below it
    included, has used before.
    """

    child: str
    agent: str = ""
    call_id: str = ""
    mode: str = ""
    used: Usage = Usage()


class ChildEnded(_Fact, frozen=True, tag="child_ended"):
    """The run of a nested session ended; ``end_reason`` is that of its ``agent_end``.

    ``usage`` is what that session, those below it included, has used since its ``child_started``: it is accounted
    here once, and in none of this session's own ``model_response``.
    """

    child: str
    agent: str = ""
    call_id: str = ""
    end_reason: str = ""
    usage: Usage = Usage()


class ErrorEvent(_Fact, frozen=True, tag="error"):
    """Something failed; ``kind`` is a stable label (see ``errors.py``). A ``fatal`` one ends the run."""

    kind: str
    message: str = ""
    fatal: bool = True
    details: dict[str, Any] = {}


class Cut(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """When a run was cut short from outside: after fact ``seq``.

    ``how``: abort, or left (the consumer closed the stream or was cancelled). ``waiting``: the run was waiting
    for a model, a tool or a hook, not for its consumer.
    """

    seq: int
    how: Literal["abort", "left"] = "abort"
    waiting: bool = False


class AgentEnd(_Fact, frozen=True, tag="agent_end"):
    """The one end of a run.

    ``reason``: stop, max_turns, max_tool_calls, budget, aborted, error, paused, stop_guard.
    ``usage`` is the run's own, ``child_usage`` that of nested sessions which ended in it. ``cut`` says when it was
    cut short, where it was.
    """

    reason: str
    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_skips: int = 0
    usage: Usage = Usage()
    pending: tuple[str, ...] = ()
    cut: Cut | None = None
    child_usage: Usage = Usage()


class UnknownFact(Struct, frozen=True, kw_only=True):
    """A fact of a kind this version does not know. It keeps its bytes and changes no state."""

    seq: int = 0
    time: float = 0.0
    run_id: str = ""
    type: str
    raw: bytes


# --- signals -----------------------------------------------------------------------------------


class _Signal(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """The header all signals share."""

    seq: int = 0
    sub: int = 0
    run_id: str = ""


class MessageStart(_Signal, frozen=True, tag="message_start"):
    """A message begins: it will be committed or discarded under this ``id``."""

    role: str
    id: str


class MessageUpdate(_Signal, frozen=True, tag="message_update"):
    """New characters of the reply. ``kind``: text, thinking, tool_call. ``index``: which block.

    Deltas are as they came, and a key of a model provider that is split over two of them is in them; what is
    committed is clean.
    """

    delta: str
    kind: str = "text"
    index: int = 0


class MessageDiscarded(_Signal, frozen=True, tag="message_discarded"):
    """A message that began is not committed. ``reason``: the error kind, or aborted."""

    id: str
    reason: str = ""


class ToolExecUpdate(_Signal, frozen=True, tag="tool_exec_update"):
    """Preview or progress of a call; only the newest need be kept.

    ``kind``: preview, progress. ``topic`` says what the progress is about: summary, tool_start,
    tool_end, tool_delta, tool_error, thinking, turn_counter, retry, context.
    """

    call_id: str
    kind: str = "progress"
    topic: str = ""
    summary: str = ""
    payload: dict[str, Any] = {}


class ChildEvent(_Signal, frozen=True, tag="child_event"):
    """An event of a nested session, wrapped; ``event`` is one of this union."""

    child: str
    event: Any
    call_id: str = ""


Fact: TypeAlias = (
    AgentStart
    | TurnStart
    | TurnEnd
    | MessageEnd
    | ContextProjected
    | ContextCompacting
    | ContextCompacted
    | ModelResponse
    | RetryEvent
    | ToolExecStart
    | ApprovalRequested
    | ApprovalDecided
    | ToolExecDispatch
    | ToolExecEnd
    | QueueChanged
    | ConfigChanged
    | SessionChanged
    | Handoff
    | ChildStarted
    | ChildEnded
    | ErrorEvent
    | AgentEnd
    | UnknownFact
)
"""What is durable: the union of all facts, and of facts of kinds this version does not know."""
KnownFact: TypeAlias = (
    AgentStart
    | TurnStart
    | TurnEnd
    | MessageEnd
    | ContextProjected
    | ContextCompacting
    | ContextCompacted
    | ModelResponse
    | RetryEvent
    | ToolExecStart
    | ApprovalRequested
    | ApprovalDecided
    | ToolExecDispatch
    | ToolExecEnd
    | QueueChanged
    | ConfigChanged
    | SessionChanged
    | Handoff
    | ChildStarted
    | ChildEnded
    | ErrorEvent
    | AgentEnd
)
Signal: TypeAlias = MessageStart | MessageUpdate | MessageDiscarded | ToolExecUpdate | ChildEvent
"""What is only for watching."""
Event: TypeAlias = Fact | Signal
"""Everything that a run yields."""
