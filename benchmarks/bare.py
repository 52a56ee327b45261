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

# The kernel's events besides the deltas. A turn: turn_start, context_projected, message_start,
# message_end, model_response, turn_end. A call: its start, dispatch and end, and the result's
# message_start and message_end. A run: agent_start, the prompt queued and taken, its message_start
# and message_end, agent_end. `kernel.py` refuses to measure when these are not the numbers.
PER_TURN = 6
PER_CALL = 5
PER_RUN = 6


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
    stream: Callable[[], AsyncGenerator[StreamEvent, None]], tool: BareTool
) -> AsyncGenerator[Note, None]:
    """Run until an answer has no calls."""
    messages: list[tuple[str, object]] = [("user", "go")]
    seq = 0
    calls: list[ToolCallDelta] = []
    while calls or len(messages) == 1:
        text: list[str] = []
        calls = []
        async for event in stream():
            seq += 1
            if type(event) is TextDelta:
                text.append(event.text)
                yield Note(seq, "text", event.text)
            elif type(event) is ToolCallDelta:
                calls.append(event)
                yield Note(seq, "call", event.args)
            elif type(event) is StreamEnd:
                break
        messages.append(("assistant", ("".join(text), calls)))
        tasks = [asyncio.create_task(_call(tool, call.args)) for call in calls]
        for call, task in zip(calls, tasks, strict=True):
            messages.append(("tool", (call.id, await task)))
        for _ in range(PER_TURN + PER_CALL * len(calls) + (0 if calls else PER_RUN)):
            seq += 1
            yield Note(seq, "event")


async def _call(tool: BareTool, args: str) -> str:
    return await tool(decode(args).x)
