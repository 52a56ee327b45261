"""What must hold of a session that was killed and gone on with, each as a list of what is wrong.

Read with: ``killmatrix_processes.py`` (who asks), ``killmatrix_plan.py``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from unspool.kernel.events import (
    AgentStart,
    Fact,
    MessageEnd,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
)
from unspool.kernel.sequence import to_messages, validate_message_sequence
from unspool.kernel.state import AgentState
from unspool.kernel.texts import DEFAULT_TEXTS

from .head import Head
from .killmatrix_plan import SAID, SPECS
from .verify import Report

_STEERED: Final = {said.during[:-1] for said in SAID if said.lane == "steering"}  # turns


class Ending(msgspec.Struct, frozen=True):
    """What a session came to. ``rows`` are its messages as a model sees them; the result of a call that
    nobody knows the outcome of is not compared, so ``unknown`` are the ids of those calls."""

    reason: str
    active: bool
    text: str
    users: list[str]
    rows: list[list[object]]
    unknown: list[str]


def ending_of(state: AgentState, facts: Sequence[Fact]) -> Ending:
    """What a session came to, from its state and its facts."""
    said = [fact.message for fact in facts if isinstance(fact, MessageEnd) and fact.message is not None]
    ends = [fact for fact in facts if isinstance(fact, ToolExecEnd)]
    rows: list[list[object]] = [
        [m.role, m.text, [[c.id, c.name, c.args] for c in m.tool_calls], m.tool_call_id, m.is_error]
        for m in to_messages(state.messages)
    ]
    return Ending(
        reason=state.end_reason,
        active=state.active,
        text=state.messages[-1].text if state.messages else "",
        users=[message.text for message in said if message.role == "user"],
        rows=rows,
        unknown=[end.call_id for end in ends if end.outcome == "unknown"],
    )


def check_ending(ending: Ending, expected: Ending) -> Iterator[str]:
    """It ends as a session that was not killed does."""
    for name in ("reason", "active", "text", "users"):
        ours, theirs = getattr(ending, name), getattr(expected, name)
        if ours != theirs:
            yield f"{name} is {ours!r}, not {theirs!r}"
    unknown = {*ending.unknown, *expected.unknown}
    for number, (row, wanted) in enumerate(zip(ending.rows, expected.rows, strict=False), 1):
        if row != wanted and not (
            row[0] == wanted[0] == "tool" and row[3] == wanted[3] and row[3] in unknown
        ):
            yield f"message {number} is {row!r}, not {wanted!r}"
            return
    if len(ending.rows) != len(expected.rows):
        yield f"there are {len(ending.rows)} messages, not {len(expected.rows)}"


def check_acknowledged(told: Sequence[Head], stored: Sequence[Head]) -> Iterator[str]:
    """Each acknowledged fact is there as it was, and was acknowledged once: a hash stands for the bytes of
    its record and of all before it."""
    hashes = dict(stored)
    for seq, hashed in told:
        if hashes.get(seq) != hashed:
            yield f"acknowledged fact {seq} is {'another' if seq in hashes else 'gone'}"
    for seq, times in Counter(head.seq for head in told).items():
        if times > 1:
            yield f"fact {seq} was acknowledged {times} times"
    if [head.seq for head in stored] != list(range(1, len(stored) + 1)):
        yield "the facts are not numbered 1, 2, …"


def check_report(report: Report | None, *, torn: bool) -> Iterator[str]:
    """``verify`` finds nothing, but for the torn tail that there is."""
    kinds = [damage.kind for damage in report.damage] if report is not None else []
    if kinds != (["torn"] if torn else []):
        yield f"verify finds {kinds}" + (", not the torn tail" if torn else "")


def check_effects(effects: Sequence[tuple[str, str]], facts: Sequence[Fact]) -> Iterator[str]:
    """No effect comes twice unless that does no harm, none without its dispatch; and what is said to have
    run has run."""
    tools = {fact.call_id: fact.tool for fact in facts if isinstance(fact, ToolExecStart)}
    keys: dict[str, set[str]] = {}
    for fact in facts:
        if isinstance(fact, ToolExecDispatch):
            keys.setdefault(fact.call_id, set()).add(fact.idempotency_key)
    dispatched = {(tools[call_id], key) for call_id, found in keys.items() for key in found}
    for (tool, key), times in Counter(effects).items():
        if times > 1 and not may_repeat(tool):
            yield f"{tool} ran {times} times as {key}"
        if (tool, key) not in dispatched:
            yield f"{tool} ran as {key}, of which the log knows nothing"
    for call_id, found in keys.items():
        if len(found) > 1:
            yield f"call {call_id} was dispatched with other keys: {sorted(found)}"
    for fact in facts:
        if not isinstance(fact, ToolExecEnd) or fact.tool not in SPECS:
            continue
        if fact.outcome in ("ok", "error", "interrupted"):
            ran = {(fact.tool, key) for key in keys.get(fact.call_id, ())}
            if not ran & set(effects):
                yield f"call {fact.call_id} is said to have run, and did not"


def may_repeat(tool: str) -> bool:
    """Whether it does no harm when a call of this tool runs again; one that is not planned takes care of itself."""
    spec = SPECS.get(tool)
    return spec is None or spec.read_only or bool(spec.idempotent)


def check_doubts(facts: Sequence[Fact], messages: Sequence[MessageEnd]) -> Iterator[str]:
    """A call that ran when its process died is told as unknown, or was run again where that does no harm;
    and no other call is unknown."""
    first: dict[str, str] = {}
    results = {m.message.tool_call_id: m.message for m in messages if m.message and m.message.role == "tool"}
    for fact in facts:
        if isinstance(fact, ToolExecDispatch):
            first.setdefault(fact.call_id, fact.run_id)
        if not isinstance(fact, ToolExecEnd):
            continue
        doubt = fact.call_id in first and first[fact.call_id] != fact.run_id
        repeats = may_repeat(fact.tool) and fact.call_id[:-1] not in _STEERED
        if doubt and fact.outcome != "unknown" and not may_repeat(fact.tool):
            yield f"call {fact.call_id} was in doubt, and is told as {fact.outcome}"
        if doubt and fact.outcome == "unknown" and repeats:
            yield f"call {fact.call_id} does no harm when it runs again, and did not"
        if fact.outcome == "unknown":
            text = "".join(getattr(block, "text", "") for block in fact.content)
            result = results.get(fact.call_id)
            if not doubt:
                yield f"call {fact.call_id} was not in doubt, and is told as unknown"
            if text != DEFAULT_TEXTS.unknown_outcome or result is None or not result.is_error:
                yield f"the model is not told that the outcome of call {fact.call_id} is unknown"


def check_transcript(state: AgentState, facts: Sequence[Fact]) -> Iterator[str]:
    """Calls and results pair up, everything comes once, nothing is left open."""
    for issue in validate_message_sequence(to_messages(state.messages)):
        yield f"the transcript is not valid: {issue}"
    messages = [fact for fact in facts if isinstance(fact, MessageEnd)]
    results = [m.message.tool_call_id for m in messages if m.message and m.message.role == "tool"]
    for what, ids in (
        ("start", [fact.call_id for fact in facts if isinstance(fact, ToolExecStart)]),
        ("end", [fact.call_id for fact in facts if isinstance(fact, ToolExecEnd)]),
        ("result", results),
        ("message", [message.id for message in messages]),
        ("taking", [message.queue_id for message in messages if message.queue_id]),
        ("run", [fact.run_id for fact in facts if isinstance(fact, AgentStart)]),
    ):
        twice = [id for id, times in Counter(ids).items() if times > 1]
        if twice:
            yield f"there is a second {what} of {', '.join(twice)}"
    yield from check_doubts(facts, messages)
    queued = (*state.prompts, *state.steering, *state.follow_ups, *state.taken)
    if state.turn is not None or state.pending_calls or queued:
        yield "something is left open"
