"""Models and tools that cost next to nothing, so that what is measured is the loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from unspool.kernel import ModelRequest, StreamEnd, StreamEvent, TextDelta, ToolCallDelta, ToolCallEnd, tool

Play = Callable[[], AsyncGenerator[StreamEvent, None]]
ANSWER: list[StreamEvent] = [TextDelta("done"), StreamEnd(stop_reason="stop")]


class FakeModel:
    """A ``ChatModel`` over a function that gives the next answer; it never looks at the request."""

    name = "fake/model"
    supports_tools = True

    def __init__(self, play: Play) -> None:
        self._play = play

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        return self._play()


def tool_turns(turns: int, calls: int = 1, delay_s: float = 0.0, stamps: list[float] | None = None) -> Play:
    """``turns`` answers with ``calls`` calls each, then text; ``stamps`` gets the CPU time of each."""
    end = StreamEnd(stop_reason="tool_use")
    done = 0

    async def play() -> AsyncGenerator[StreamEvent, None]:
        nonlocal done
        done += 1
        if stamps is not None:
            stamps.append(time.process_time())
        if delay_s:
            await asyncio.sleep(delay_s)
        if done > turns:
            for event in ANSWER:
                yield event
            return
        for index in range(calls):
            yield ToolCallDelta(index, f"c{done:05}_{index}", "noop", '{"x":1}')
            yield ToolCallEnd(index)
        yield end

    return play


def deltas(count: int, *, awaiting: bool) -> Play:
    """One answer of ``count`` text deltas, at once or each after the event loop went round."""
    delta, end = TextDelta("token "), StreamEnd(stop_reason="stop")

    async def play() -> AsyncGenerator[StreamEvent, None]:
        for _ in range(count):
            if awaiting:
                await asyncio.sleep(0)
            yield delta
        yield end

    return play


async def noop_body(x: int) -> str:
    return "ok"


async def sleep_body(x: int) -> str:
    await asyncio.sleep(0.010)
    return "ok"


noop = tool(name="noop", concurrency_safe=True)(noop_body)
sleeper = tool(name="noop", concurrency_safe=True)(sleep_body)
