"""The pairing rules of a message list: each call has its one result, directly after it.

Pure functions over lists of lowered messages; nothing here changes what it is given.

Read with: ``lowering.py`` (the incremental form), ``messages.py``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from .errors import MessageSequenceError
from .messages import (
    AgentMessage,
    ContextDemand,
    ContextItem,
    Message,
    ProvidesDemands,
    ProvidesItems,
    Text,
    Thinking,
    ToolCall,
    tool_message,
)

NO_RESULT = "No result was recorded for this call: whether it had any effect is unknown."


@dataclass(frozen=True, slots=True)
class SequenceIssue:
    """One violation: where (index of the message), which kind, which call."""

    kind: Literal["missing_tool_result", "orphan_tool_result", "duplicate_tool_result"]
    index: int
    call_id: str


def to_messages(messages: Iterable[AgentMessage]) -> list[Message]:
    """The messages as a model would be sent them: lowered, blank ones left out, pairs not repaired."""
    lowered = (message.to_message() for message in messages)
    return [kept for message in lowered if message is not None and (kept := without_blanks(message))]


def without_blanks(message: Message) -> Message | None:
    """``message`` without blocks that providers refuse; None when nothing is left.

    Left out are text blocks of white space only, and thinking without text, signature and data.
    A tool result stays even when it is empty: its call needs it.
    """
    kept = tuple([block for block in message.content if not _blank(block)])
    if not kept and message.role != "tool":
        return None
    return message if len(kept) == len(message.content) else replace(message, content=kept)


def _blank(block: object) -> bool:
    if type(block) is Text:
        return not block.text or block.text.isspace()
    if type(block) is Thinking:
        return not block.text and block.signature is None and block.redacted is None
    return False


def validate_message_sequence(messages: Sequence[Message]) -> list[SequenceIssue]:
    """What is wrong with the pairing of calls and results; empty when nothing is."""
    issues: list[SequenceIssue] = []
    open_calls: dict[str, int] = {}
    answered: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "tool":
            call_id = message.tool_call_id
            if call_id in open_calls:
                del open_calls[call_id]
                answered.add(call_id)
            else:
                kind: Literal["duplicate_tool_result", "orphan_tool_result"] = (
                    "duplicate_tool_result" if call_id in answered else "orphan_tool_result"
                )
                issues.append(SequenceIssue(kind, index, call_id))
            continue
        issues += [SequenceIssue("missing_tool_result", at, call_id) for call_id, at in open_calls.items()]
        open_calls = {call.id: index for call in message.tool_calls}
        answered = set()
    issues += [SequenceIssue("missing_tool_result", at, call_id) for call_id, at in open_calls.items()]
    return issues


def assert_message_sequence(messages: Sequence[Message]) -> None:
    """Refuse a list whose calls and results do not pair up.

    Raises:
        MessageSequenceError: lists every issue.
    """
    issues = validate_message_sequence(messages)
    if issues:
        listed = "; ".join(f"message {issue.index}: {issue.kind} {issue.call_id!r}" for issue in issues)
        raise MessageSequenceError(f"messages: calls and results do not pair up: {listed}")


def repair_message_sequence(messages: Sequence[Message]) -> list[Message]:
    """The list with exactly one result for each call, in call order, directly after it.

    Displaced results move to their call, later duplicates and orphans go, missing results are
    made up as errors that say so. Everything else keeps its order.
    """
    results = _results_by_owner(messages)
    repaired: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        repaired.append(message)
        for position, call in enumerate(message.tool_calls):
            found = results.get((index, position))
            repaired.append(found if found is not None else missing_result(call))
    return repaired


def missing_result(call: ToolCall) -> Message:
    """What stands in for a result that is nowhere."""
    return tool_message(call, NO_RESULT, is_error=True)


def _results_by_owner(messages: Sequence[Message]) -> dict[tuple[int, int], Message]:
    """The first result for each call, keyed by the caller's index and the call's position.

    A result belongs to the newest reply with a call of its id that has none yet, so that ids used
    again in a later turn do not hide each other; within a reply to the first such call.
    """
    owners: dict[str, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], Message] = {}
    for index, message in enumerate(messages):
        if message.role == "tool":
            waiting = owners.get(message.tool_call_id)
            if waiting:
                found[waiting.pop()] = message
            continue
        calls = message.tool_calls
        for position in reversed(range(len(calls))):
            owners.setdefault(calls[position].id, []).append((index, position))
    return found


def collect_context_items(messages: Iterable[AgentMessage]) -> list[ContextItem]:
    """The items of all messages that name any, in order, as they are."""
    return [
        item
        for message in messages
        if type(message) is not Message and isinstance(message, ProvidesItems)
        for item in message.context_items()
    ]


def collect_context_demands(messages: Iterable[AgentMessage]) -> list[ContextDemand]:
    """The demands of all messages that name any, in order, as they are."""
    return [
        demand
        for message in messages
        if type(message) is not Message and isinstance(message, ProvidesDemands)
        for demand in message.context_demands()
    ]
