"""The calls of a reply, made fit to run: each once, each with an id of its own.

Providers reuse ids in later turns, leave them out, or send a finished call twice; the log, the
results and the next request need ids that name one call of the session.

Read with: ``model_call.py`` (the caller).
"""

from typing import NamedTuple

from msgspec.structs import replace

from .messages import Content, Message, ToolCall
from .transcript import Seen


class Settled(NamedTuple):
    """A reply with its calls settled, and the calls that were left out as exact duplicates."""

    reply: Message
    duplicates: tuple[ToolCall, ...]


def settle_calls(reply: Message, seen: Seen) -> Settled:
    """Settle the calls of ``reply``; ``seen`` are the call ids this session has used.

    A call with the id, name and arguments of an earlier one in the same reply is a replay and
    goes. Any other clash of ids gets a new id, the same on every run. When the output limit cut
    the reply before any call was complete, the unfinished calls go: there is nothing to answer.
    """
    calls = reply.tool_calls
    if not calls:
        return Settled(reply, ())
    if len(calls) == 1 and calls[0].id and calls[0].completed and calls[0].id not in seen:
        return Settled(reply, ())
    if reply.stop_reason == "length" and not any(call.completed for call in calls):
        return Settled(_with_calls(reply, ()), ())
    kept: list[ToolCall] = []
    duplicates: list[ToolCall] = []
    for call in calls:
        replayed = bool(call.id) and any(_same(call, other) for other in kept)
        (duplicates if replayed else kept).append(call)
    used: set[str] = set()
    settled: list[ToolCall] = []
    for position, call in enumerate(kept):
        id = _free_id(call.id or f"call_{reply.id}_{position}", seen, used)
        used.add(id)
        settled.append(call if id == call.id else replace(call, id=id))
    if not duplicates and all(a is b for a, b in zip(calls, settled, strict=True)):
        return Settled(reply, ())
    return Settled(_with_calls(reply, tuple(settled), tuple(kept)), tuple(duplicates))


def _same(a: ToolCall, b: ToolCall) -> bool:
    return a.id == b.id and a.name == b.name and a.args == b.args and a.args_text == b.args_text


def _free_id(wanted: str, seen: Seen, used: set[str]) -> str:
    id, number = wanted, 2
    while id in used or id in seen:
        id, number = f"{wanted}~{number}", number + 1
    return id


def _with_calls(
    reply: Message, settled: tuple[ToolCall, ...], originals: tuple[ToolCall, ...] = ()
) -> Message:
    """The reply with ``originals`` replaced by ``settled``, one each, and all other calls left out."""
    content: list[Content] = []
    left = list(zip(originals, settled, strict=True))
    for block in reply.content:
        if type(block) is not ToolCall:
            content.append(block)
        elif left and block is left[0][0]:
            content.append(left.pop(0)[1])
    return replace(reply, content=tuple(content))
