"""The calls of a reply, made fit to run: each once, each with an id of its own.

Providers reuse ids in later turns, leave them out, or send a finished call twice; the log, the
results and the next request need ids that name one call of the session.

Read with: ``model_call.py`` (the caller).
"""

from typing import NamedTuple

from msgspec.structs import replace

from .json_edge import canonical_bytes
from .messages import Content, Message, ToolCall
from .transcript import Seen


class Settled(NamedTuple):
    """A reply with its calls settled; of those that came twice, each time one was left out, the one kept."""

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
    duplicates: list[int] = []  # where the one that is kept stands
    known: dict[tuple[object, ...], int] = {}
    for call in calls:
        content = _content_of(call)
        if call.id and content in known:
            duplicates.append(known[content])
        else:
            known.setdefault(content, len(kept))
            kept.append(call)
    ids = _FreeIds(seen)
    settled: list[ToolCall] = []
    for position, call in enumerate(kept):
        id = ids.take(call.id or f"call_{reply.id}_{position}")
        settled.append(call if id == call.id else replace(call, id=id))
    if not duplicates and all(a is b for a, b in zip(calls, settled, strict=True)):
        return Settled(reply, ())
    twice = tuple([settled[position] for position in duplicates])
    return Settled(_with_calls(reply, tuple(settled), tuple(kept)), twice)


def _content_of(call: ToolCall) -> tuple[object, ...]:
    """What two calls have in common when one is a replay of the other."""
    return call.id, call.name, canonical_bytes(call.args), call.args_text


class _FreeIds:
    """Ids that no call of the session has; each is given once."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last one tried for each id that is wanted again

    def take(self, wanted: str) -> str:
        id, number = wanted, self._numbers.get(wanted, 1)
        while id in self._used or id in self._seen:
            number += 1
            id = f"{wanted}~{number}"
        self._numbers[wanted] = number
        self._used.add(id)
        return id


def _with_calls(
    reply: Message, settled: tuple[ToolCall, ...], originals: tuple[ToolCall, ...] = ()
) -> Message:
    """The reply with ``originals`` replaced by ``settled``, one each, and all other calls left out."""
    content: list[Content] = []
    pairs = zip(originals, settled, strict=True)
    original, new = next(pairs, (None, None))
    for block in reply.content:
        if type(block) is not ToolCall:
            content.append(block)
        elif block is original and new is not None:
            content.append(new)
            original, new = next(pairs, (None, None))
    return replace(reply, content=tuple(content))
