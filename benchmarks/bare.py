"""The bare loop: what an agent loop cannot do without, written by hand for asyncio.

It streams the same deltas, starts a task for each tool call, decodes the arguments with pydantic,
appends the messages and yields as many msgspec structs as the kernel yields events. It has no log,
no state, no timeouts, no retries, no abort, no schema errors, no ordering of results.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from msgspec import Struct
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from unspool.kernel import StreamEnd, StreamEvent, TextDelta, ToolCallDelta


class Note(Struct, frozen=True, gc=False):
    """A struct that stands for one event."""

    seq: int
    kind: str
    text: str = ""


@dataclass
class Args:
    x: int


decode = TypeAdapter(Args).validate_json
BareTool = Callable[[int], Awaitable[str]]


async def bare_loop(
    stream: Callable[[], AsyncGenerator[StreamEvent, None]], tool: BareTool, events_per_turn: int
) -> AsyncGenerator[Note, None]:
    """Run until an answer has no calls; ``events_per_turn`` structs for each turn with calls."""
    messages: list[tuple[str, object]] = [("user", "go")]
    seq = 0
    while True:
        text: list[str] = []
        calls: list[ToolCallDelta] = []
        sent = 0
        async for event in stream():
            if type(event) is TextDelta:
                text.append(event.text)
            elif type(event) is ToolCallDelta:
                calls.append(event)
            elif type(event) is StreamEnd:
                break
            else:
                continue
            seq, sent = seq + 1, sent + 1
            yield Note(seq, "delta", event.text if type(event) is TextDelta else "")
        messages.append(("assistant", ("".join(text), calls)))
        if not calls:
            yield Note(seq + 1, "end", "".join(text))
            return
        tasks = [asyncio.create_task(_call(tool, call.args)) for call in calls]
        for call, task in zip(calls, tasks, strict=True):
            messages.append(("tool", (call.id, await task)))
        for _ in range(max(0, events_per_turn - sent)):
            seq += 1
            yield Note(seq, "event")


async def _call(tool: BareTool, args: str) -> str:
    return await tool(decode(args).x)
