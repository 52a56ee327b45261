"""What a session waits for, in words: a person, messages in its queues, calls that a crash left open.

Read with: ``resume.py``, ``unspool.kernel.state``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from unspool.kernel.call_states import CallState
from unspool.kernel.json_edge import encode_text
from unspool.kernel.state import AgentState

from .view import cut_line, show_arguments


def waiting_lines(state: AgentState) -> Iterator[str]:
    """Everything that is open, the calls that wait for approval with what they are going to do."""
    if state.active:
        yield "interrupted: the last run has no end"
    for call in state.turn.calls.uncommitted if state.turn else ():
        if call.stage == "waiting":
            yield from approval_lines(call)
        elif call.stage not in ("ended", "committed"):
            what = "may have run" if call.stage == "dispatched" else "has not run"
            yield f"{what}: {call.call.id} {call.call.name}({show_arguments(_args(call))})"
    for queued in (*state.taken, *state.prompts, *state.steering, *state.follow_ups):
        yield cut_line(f"queued: {' '.join(queued.message.text.split())}")


def approval_lines(call: CallState) -> Iterator[str]:
    """A call that waits for approval, nothing of it cut off: its arguments, why it was held, its preview."""
    yield f"waits for approval: {call.call.id} {call.call.name}" + (
        f" ({call.reason})" if call.reason else ""
    )
    args = _args(call)
    yield from _fields(args)
    more = {key: value for key, value in (call.preview or {}).items() if args.get(key) != value}
    if more:
        yield "  preview:"
        yield from [f"  {line}" for line in _fields(more)]


def approval_object(call: CallState) -> dict[str, Any]:
    """The same for programs."""
    return {
        "call_id": call.call.id,
        "tool": call.call.name,
        "args": _args(call),
        "reason": call.reason,
        "preview": call.preview,
    }


def _fields(values: Mapping[str, Any]) -> Iterator[str]:
    """A name and a value on each line; a text of several lines as it is."""
    for key, value in values.items():
        if isinstance(value, str) and "\n" in value:
            yield f"  {key}:"
            yield from [f"    | {line}" for line in value.split("\n")]
        else:
            yield f"  {key}: {encode_text(value)}"


def _args(call: CallState) -> dict[str, Any]:
    return call.call.args if call.args is None else call.args
