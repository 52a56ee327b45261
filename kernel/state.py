"""The state of a session as a fold of its facts.

``apply(state, fact)`` is pure and costs what is new in the fact; ``fold`` is ``apply`` over many.
Nothing else changes state. Values are immutable, so that any thread may read the newest one.

Read with: ``events.py`` (what happened), ``steps.py`` (what comes next).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from .call_states import NO_CALLS, CallState, CallStates, call_states
from .codec import transcript_entry
from .errors import LogError, describe
from .events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildStarted,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    ErrorEvent,
    Fact,
    Handoff,
    Lineage,
    MessageEnd,
    ModelResponse,
    QueueChanged,
    SessionChanged,
    Stored,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    TurnEnd,
    TurnStart,
)
from .limits import Limits
from .messages import AgentMessage, Content, Message, ToolCall, ToolReference, Usage
from .sequence import without_blanks
from .transcript import Seen, Transcript

SKIPPED_OUTCOMES: Final = frozenset({"denied", "skipped", "cancelled", "disabled", "interrupted"})
FAILED_OUTCOMES: Final = frozenset({"error", "invalid", "unknown_tool", "unknown"})


class Turn(Struct, frozen=True, gc=False):
    """The open turn: its reply, if it is in, and the calls of that reply in order."""

    index: int
    reply_id: str = ""
    calls: CallStates = NO_CALLS


class Queued(Struct, frozen=True, gc=False):
    """A message in a queue."""

    id: str
    lane: str
    message: AgentMessage


class Projected(Struct, frozen=True, gc=False):
    """The newest projection: the fact that made it, its view, its fingerprint."""

    seq: int
    view: Transcript[str | Stored]
    fingerprint: str


class OpenChild(Struct, frozen=True, gc=False, kw_only=True):
    """A nested session that runs, or ran when the process ended: see ``ChildStarted``."""

    agent: str
    call_id: str
    used: Usage
    mode: str = ""


class AgentState(Struct, frozen=True, kw_only=True, gc=False):
    """Everything a session knows.

    ``ids`` are the ids of ``messages``, one each. The fields of the run (from ``run_id`` on) are those
    of the newest one; ``active`` says whether it is under way. ``tail`` is the role of the last message that counts for what comes next.
    ``agent`` is the name of the agent that has the conversation, ``usage`` that of this session's own calls, ``child_usage``
    that of the nested sessions that ended, ``children`` those that have not, by their ids; ``child_count`` counts them all.
    """

    seq: int = 0
    session: str = ""
    agent: str = ""
    lineage: Lineage | None = None
    title: str = ""
    metadata: dict[str, Any] = {}
    messages: Transcript[AgentMessage] = field(default_factory=lambda: Transcript[AgentMessage]())
    ids: Transcript[str] = field(default_factory=lambda: Transcript[str]())
    message_count: int = 0
    usage: Usage = Usage()
    child_usage: Usage = Usage()
    children: dict[str, OpenChild] = {}
    child_count: int = 0
    prompts: tuple[Queued, ...] = ()
    steering: tuple[Queued, ...] = ()
    follow_ups: tuple[Queued, ...] = ()
    taken: tuple[Queued, ...] = ()
    queue_count: int = 0
    model: str = ""
    tools: str = ""
    options: str = ""
    system: str = ""
    limits: Limits = Limits()
    window: int = 0
    context: dict[str, Any] = {}
    active_tools: tuple[str, ...] = ()  # deferred tools that a result has referred to
    blobs: dict[str, Any] = {}
    projection: Projected | None = None
    seen_calls: Seen = field(default_factory=Seen)
    tail: str = ""
    runs: int = 0
    run_id: str = ""
    active: bool = False
    cause: str = ""
    turn: Turn | None = None
    turn_index: int = 0
    turns: int = 0
    dispatches: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_skips: int = 0
    errors_by_tool: dict[str, int] = {}
    recoveries: int = 0
    cut: bool = False
    failed: str = ""
    terminal: bool = False
    run_usage: Usage = Usage()
    run_child_usage: Usage = Usage()
    last_error: ErrorEvent | None = None
    end_reason: str = ""

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the open turn whose end is not recorded."""
        turn = self.turn
        if turn is None:
            return ()
        return tuple([c.call for c in turn.calls.uncommitted if c.stage not in ("ended", "committed")])

    @property
    def waiting_calls(self) -> tuple[CallState, ...]:
        """Calls that wait for a person: of the open turn, and of nested sessions under their own ids."""
        turn = self.turn
        return tuple([each for c in turn.calls.uncommitted for each in c.waiting]) if turn else ()

    @property
    def total_usage(self) -> Usage:
        """What the session has used, nested sessions that ended included."""
        return self.usage + self.child_usage

    @property
    def total_run_usage(self) -> Usage:
        """What the newest run has used, nested sessions that ended in it included."""
        return self.run_usage + self.run_child_usage


def fold(facts: Iterable[Fact], state: AgentState | None = None) -> AgentState:
    """The state after ``facts``, starting from ``state`` or from nothing.

    Raises:
        LogError: as ``apply``.
    """
    state = AgentState() if state is None else state
    for fact in facts:
        state = apply(state, fact)
    return state


def apply(state: AgentState, fact: Fact) -> AgentState:
    """The state after one more fact. Kinds without a rule only move ``seq``.

    Raises:
        LogError: the fact cannot follow: it names what is not there, a queue, a message, a place.
    """
    rule = _RULES.get(type(fact))
    if rule is None:
        return replace(state, seq=fact.seq)
    try:
        return rule(state, fact)
    except (LookupError, ValueError) as error:
        tag = type(fact).__struct_config__.tag
        raise LogError(
            "log: a fact that cannot follow those before it",
            kind="impossible",
            seq=fact.seq,
            type=tag,
            reason=describe(error),
        ) from error


def _agent_start(state: AgentState, fact: AgentStart) -> AgentState:
    messages, ids, tail, seen = state.messages, state.ids, state.tail, state.seen_calls
    active = state.active_tools
    for number, stored in enumerate(fact.history, state.message_count + 1):
        messages = messages.append(_numbered(stored, number))
        seen, active = _noted(seen, active, stored.message)
        ids = ids.append(f"m{number}")
        tail = _tail(tail, stored.message)
    return replace(
        state,
        seq=fact.seq,
        session=fact.session or state.session,
        agent=fact.agent,
        lineage=fact.lineage,
        messages=messages,
        ids=ids,
        message_count=state.message_count + len(fact.history),
        model=fact.model,
        tools=fact.tools,
        options=fact.options,
        system=fact.system,
        context=fact.context,
        window=fact.window,
        limits=fact.limits,
        blobs={**state.blobs, **fact.blobs} if fact.blobs else state.blobs,
        tail=tail,
        seen_calls=seen,
        active_tools=active,
        runs=state.runs + 1,
        run_id=fact.run_id,
        active=True,
        cause=fact.cause,
        turn_index=state.turn.index if state.turn is not None else 0,
        turns=0,
        dispatches=0,
        tool_calls=0,
        tool_errors=0,
        tool_skips=0,
        errors_by_tool={},
        recoveries=0,
        cut=False,
        failed="",
        terminal=False,
        run_usage=Usage(),
        run_child_usage=Usage(),
        last_error=None,
        end_reason="",
    )


def _activated(active: tuple[str, ...], content: tuple[Content, ...]) -> tuple[str, ...]:
    """The deferred tools in use, with those that ``content`` refers to."""
    found = [block.tool_name for block in content if type(block) is ToolReference]
    return active if not found else tuple(dict.fromkeys((*active, *found)))


def _noted(seen: Seen, active: tuple[str, ...], message: Message | None) -> tuple[Seen, tuple[str, ...]]:
    """The call ids and the deferred tools known, with those of a message that no run has made."""
    if message is None:
        return seen, active
    for call in message.tool_calls:
        seen = seen.add(call.id)
    return seen, _activated(active, message.content)


def _numbered(stored: Stored, number: int) -> AgentMessage:
    """What the transcript holds for a stored message that gets its id here."""
    message = None if stored.message is None else replace(stored.message, id=f"m{number}")
    entry: AgentMessage = transcript_entry(message, stored.app)
    return entry


def _turn_start(state: AgentState, fact: TurnStart) -> AgentState:
    return replace(
        state, seq=fact.seq, turn=Turn(fact.index), turn_index=fact.index, terminal=False, failed=""
    )


def _turn_end(state: AgentState, fact: TurnEnd) -> AgentState:
    return replace(state, seq=fact.seq, turn=None)


def _tail(tail: str, message: Message | None) -> str:
    """The role that decides what comes next, after ``message``; what is not replayed is passed over."""
    if message is None or message.failed or message.role == "system":
        return tail
    if message.role == "user" and without_blanks(message) is None:
        return tail
    return message.role


def _message_end(state: AgentState, fact: MessageEnd) -> AgentState:
    message = fact.message
    if message is not None and not fact.queue_id and not fact.cause:
        if message.role == "assistant" and fact.app is None:
            return _reply(state, fact, message)
        if message.role == "tool":
            return _tool_result(state, fact, message)
    taken, seen, active = state.taken, state.seen_calls, state.active_tools
    if fact.queue_id:
        taken = _without(taken, fact.queue_id)
    if fact.cause:
        seen, active = _noted(seen, active, message)
    return replace(
        state,
        seq=fact.seq,
        seen_calls=seen,
        active_tools=active,
        messages=state.messages.append(transcript_entry(message, fact.app)),
        ids=state.ids.append(fact.id),
        message_count=state.message_count + 1,
        taken=taken,
        tail=_tail(state.tail, message),
        cut=False,
        recoveries=state.recoveries + (fact.cause == "length_recovery"),
        terminal=False,
    )


def _without(queue: tuple[Queued, ...], id: str) -> tuple[Queued, ...]:
    if queue and queue[0].id == id:  # messages are delivered in order
        return queue[1:]
    return tuple([queued for queued in queue if queued.id != id])


def _reply(state: AgentState, fact: MessageEnd, message: Message) -> AgentState:
    turn, seen, tail = state.turn, state.seen_calls, _tail(state.tail, message)
    messages, ids = state.messages.append(message), state.ids.append(fact.id)
    if turn is None or turn.reply_id:
        return replace(
            state,
            seq=fact.seq,
            messages=messages,
            ids=ids,
            message_count=state.message_count + 1,
            tail=tail,
        )
    failed = message.failed
    calls = () if failed else message.tool_calls
    for call in calls:
        seen = seen.add(call.id)
    return replace(
        state,
        seq=fact.seq,
        messages=messages,
        ids=ids,
        message_count=state.message_count + 1,
        turn=Turn(turn.index, fact.id, call_states([CallState(call) for call in calls])),
        turns=state.turns + 1,
        seen_calls=seen,
        tail=tail,
        cut=message.stop_reason == "length" and not calls,
        failed=message.stop_reason or "" if failed else "",
    )


def _tool_result(state: AgentState, fact: MessageEnd, message: Message) -> AgentState:
    turn = state.turn
    call = turn.calls.get(message.tool_call_id) if turn else None
    whole: AgentMessage = transcript_entry(message, fact.app)
    if call is not None and whole is message and not message.content:
        whole = replace(message, content=call.content)
    return replace(
        state,
        seq=fact.seq,
        messages=state.messages.append(whole),
        ids=state.ids.append(fact.id),
        message_count=state.message_count + 1,
        turn=_with_call(turn, message.tool_call_id, stage="committed"),
        tail="tool",
    )


def _with_call(turn: Turn | None, call_id: str, **changes: Any) -> Turn | None:
    """The turn with one call changed; unchanged where it has no such call."""
    if turn is None:
        return None
    calls = turn.calls.change(call_id, **changes)
    return turn if calls is turn.calls else Turn(turn.index, turn.reply_id, calls)


def _context_projected(state: AgentState, fact: ContextProjected) -> AgentState:
    if fact.purpose:
        blobs = {**state.blobs, **fact.blobs} if fact.blobs else state.blobs
        return replace(state, seq=fact.seq, blobs=blobs)
    base = state.projection
    if base is None or base.seq != fact.base:
        view: Transcript[str | Stored] = Transcript(fact.append)
    else:
        view = base.view.prefix(fact.keep).extend(fact.append)
    projection = Projected(fact.seq, view, fact.fingerprint)
    if fact.blobs:
        return replace(state, seq=fact.seq, projection=projection, blobs={**state.blobs, **fact.blobs})
    return replace(state, seq=fact.seq, projection=projection)


def _context_compacted(state: AgentState, fact: ContextCompacted) -> AgentState:
    if not fact.committed or fact.replaced is None:
        return replace(state, seq=fact.seq)
    held, ids = state.messages.since(0), state.ids.since(0)
    first, last = ids.index(fact.replaced.first), ids.index(fact.replaced.last)
    kept = dict(zip(ids[first : last + 1], held[first : last + 1], strict=True))
    new: list[AgentMessage] = []
    new_ids: list[str] = []
    seen, active, count = state.seen_calls, state.active_tools, state.message_count
    for each in fact.messages:
        if isinstance(each, str):
            new.append(kept[each])
            new_ids.append(each)
            continue
        count += 1
        seen, active = _noted(seen, active, each.message)
        new.append(_numbered(each, count))
        new_ids.append(f"m{count}")
    messages = [*held[:first], *new, *held[last + 1 :]]
    tail = ""
    for message in messages:
        tail = _tail(tail, message.to_message())
    return replace(
        state,
        seq=fact.seq,
        tail=tail,
        seen_calls=seen,
        active_tools=active,
        messages=Transcript(messages),
        ids=Transcript([*ids[:first], *new_ids, *ids[last + 1 :]]),
        message_count=count,
    )


def _model_response(state: AgentState, fact: ModelResponse) -> AgentState:
    return replace(
        state, seq=fact.seq, usage=state.usage + fact.usage, run_usage=state.run_usage + fact.usage
    )


def _tool_exec_start(state: AgentState, fact: ToolExecStart) -> AgentState:
    return replace(
        state, seq=fact.seq, turn=_with_call(state.turn, fact.call_id, stage="started", announced=True)
    )


def _tool_exec_dispatch(state: AgentState, fact: ToolExecDispatch) -> AgentState:
    call = state.turn.calls.get(fact.call_id) if state.turn else None
    if call is not None and call.stage in ("waiting", "ended", "committed"):
        raise ValueError(f"call {fact.call_id} is not to run: it is {call.stage}")
    goes_on = call is not None and call.stage == "answered"
    return replace(
        state,
        seq=fact.seq,
        turn=_with_call(
            state.turn, fact.call_id, stage="dispatched", args=fact.args, key=fact.idempotency_key
        ),
        dispatches=state.dispatches + (not goes_on),
    )


def _tool_exec_end(state: AgentState, fact: ToolExecEnd) -> AgentState:
    outcome = fact.outcome
    errors = state.errors_by_tool
    if outcome == "ok":
        if fact.tool in errors:
            errors = {name: count for name, count in errors.items() if name != fact.tool}
    elif outcome in FAILED_OUTCOMES:
        errors = {**errors, fact.tool: errors.get(fact.tool, 0) + 1}
    return replace(
        state,
        seq=fact.seq,
        turn=_with_call(state.turn, fact.call_id, stage="ended", outcome=outcome, content=fact.content),
        tool_calls=state.tool_calls + 1,
        tool_errors=state.tool_errors + (outcome in FAILED_OUTCOMES),
        tool_skips=state.tool_skips + (outcome in SKIPPED_OUTCOMES),
        errors_by_tool=errors,
        terminal=state.terminal or (fact.terminal and outcome == "ok"),
        active_tools=_activated(state.active_tools, fact.content) if outcome == "ok" else state.active_tools,
    )


def _approval_requested(state: AgentState, fact: ApprovalRequested) -> AgentState:
    turn = state.turn
    if fact.nested:
        (call_id,) = fact.call_ids
        turn = _with_call(turn, call_id, stage="waiting", nested=fact.nested, answers=())
        return replace(state, seq=fact.seq, turn=turn)
    for call_id in fact.call_ids:
        preview = fact.previews.get(call_id)
        details = fact.ruling.details if fact.ruling is not None else {}
        turn = _with_call(
            turn, call_id, stage="waiting", reason=fact.reason, details=details, preview=preview
        )
    return replace(state, seq=fact.seq, turn=turn)


def _approval_decided(state: AgentState, fact: ApprovalDecided) -> AgentState:
    if (above := _call_above(state.turn, fact.call_id)) is not None:
        answers = (*above.answers, fact)
        stage = "answered" if len(answers) == len(above.nested) else "waiting"
        return replace(
            state, seq=fact.seq, turn=_with_call(state.turn, above.call.id, stage=stage, answers=answers)
        )
    changes: dict[str, Any] = {
        "stage": "requested",
        "approved": fact.approved,
        "declined": not fact.approved,
        "reason": fact.reason,
        "by": fact.by,
        "details": fact.details,
        "args": fact.args,
    }
    if fact.args is not None:
        changes["preview"] = None  # it was of other arguments
    return replace(state, seq=fact.seq, turn=_with_call(state.turn, fact.call_id, **changes))


def _call_above(turn: Turn | None, nested_id: str) -> CallState | None:
    """The call of the turn that waits for this nested one; None where the id is that of a call which itself waits."""
    own = turn.calls.get(nested_id) if turn is not None else None
    if turn is None or (own is not None and own.stage == "waiting" and not own.nested):
        return None
    waiting = (call for call in turn.calls.uncommitted if call.nested and call.stage == "waiting")
    return next((call for call in waiting if nested_id in call.undecided), None)


def _queue_changed(state: AgentState, fact: QueueChanged) -> AgentState:
    lane = _LANES[fact.lane]
    queue: tuple[Queued, ...] = getattr(state, lane)
    if fact.action == "queued":
        queued = Queued(fact.ids[0], fact.lane, transcript_entry(fact.message, fact.app))
        return replace(state, seq=fact.seq, queue_count=state.queue_count + 1, **{lane: (*queue, queued)})
    gone = set(fact.ids)
    left = {lane: tuple([queued for queued in queue if queued.id not in gone])}
    if fact.action == "taken":
        left["taken"] = state.taken + tuple([queued for queued in queue if queued.id in gone])
    elif state.taken:
        left["taken"] = tuple([queued for queued in state.taken if queued.id not in gone])
    return replace(state, seq=fact.seq, **left)


def _config_changed(state: AgentState, fact: ConfigChanged) -> AgentState:
    names = ("model", "tools", "options", "system", "limits", "window", "active_tools", "context")
    changes = {name: value for name in names if (value := getattr(fact, name)) is not None}
    return replace(state, seq=fact.seq, blobs={**state.blobs, **fact.blobs}, **changes)


def _session_changed(state: AgentState, fact: SessionChanged) -> AgentState:
    title = state.title if fact.title is None else fact.title
    metadata = state.metadata if fact.metadata is None else fact.metadata
    return replace(state, seq=fact.seq, title=title, metadata=metadata)


def _handoff(state: AgentState, fact: Handoff) -> AgentState:
    return replace(state, seq=fact.seq, agent=fact.target)


def _child_started(state: AgentState, fact: ChildStarted) -> AgentState:
    child = OpenChild(agent=fact.agent, call_id=fact.call_id, used=fact.used, mode=fact.mode)
    new = fact.child not in state.children
    return replace(
        state,
        seq=fact.seq,
        children={**state.children, fact.child: child},
        child_count=state.child_count + new,
    )


def _child_ended(state: AgentState, fact: ChildEnded) -> AgentState:
    return replace(
        state,
        seq=fact.seq,
        children={id: child for id, child in state.children.items() if id != fact.child},
        child_usage=state.child_usage + fact.usage,
        run_child_usage=state.run_child_usage + fact.usage if fact.run_id else state.run_child_usage,
    )


def _error(state: AgentState, fact: ErrorEvent) -> AgentState:
    return replace(state, seq=fact.seq, last_error=fact, failed=fact.kind if fact.fatal else state.failed)


def _agent_end(state: AgentState, fact: AgentEnd) -> AgentState:
    return replace(state, seq=fact.seq, active=False, end_reason=fact.reason)


_LANES: Final = {"prompt": "prompts", "steering": "steering", "follow_up": "follow_ups"}
_RULES: Final[dict[type, Callable[[AgentState, Any], AgentState]]] = {
    AgentStart: _agent_start,
    TurnStart: _turn_start,
    TurnEnd: _turn_end,
    MessageEnd: _message_end,
    ContextProjected: _context_projected,
    ContextCompacted: _context_compacted,
    ModelResponse: _model_response,
    ToolExecStart: _tool_exec_start,
    ToolExecDispatch: _tool_exec_dispatch,
    ToolExecEnd: _tool_exec_end,
    ApprovalRequested: _approval_requested,
    ApprovalDecided: _approval_decided,
    QueueChanged: _queue_changed,
    ConfigChanged: _config_changed,
    SessionChanged: _session_changed,
    Handoff: _handoff,
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
    ErrorEvent: _error,
    AgentEnd: _agent_end,
}
