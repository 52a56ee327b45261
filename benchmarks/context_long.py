"""The default context manager over a very long session: work per projection, memory, and whether it can be rebuilt.

    python benchmarks/context_long.py [--turns 5000] [--window 32000] [--quick] [--trio]

One agent reads files for ``--turns`` turns in a small window, its log on disk. Memory (traced, after a collection) is
looked at every tenth of the way; then every request is made again from the log and must have the fingerprint that was
recorded. Besides, one projection after 10 messages is held against one after 10,000, between rewrites. Exits with 1
when a target is missed.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio

from unspool.context import Engine, default
from unspool.kernel import (
    Agent,
    AgentMessage,
    CallOptions,
    ChatModel,
    ContextCompacted,
    ContextProjected,
    Event,
    Limits,
    Message,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    SystemBlock,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolSpec,
    TurnEnd,
    Usage,
    tool,
    user_message,
)
from unspool.kernel.messages import assistant_message, tool_message
from unspool.kernel.transcript import Transcript
from unspool.trajectory import JsonlSessions, request_at, requests

_GROWTH = 300  # bytes a turn, in the second half: a session keeps the ids of all its calls, and nothing else
_RATIO = 1.3  # of a projection after 10,000 messages to one after 10
_ENTRIES = 12  # words around which a file is written


class Reader:
    """A model that reads one file after the other; it has no history of its own."""

    name = "benchmark/reader"
    supports_tools = True

    def __init__(self, turns: int, window: int) -> None:
        self.context_window = window
        self._turns = turns
        self.calls = 0
        self.peak = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if not request.tools:
            yield TextDelta("<summary>Files were read, one after the other; nothing was found yet.</summary>")
            yield StreamEnd(stop_reason="stop", usage=Usage(input_tokens=1_000, output_tokens=20))
            return
        self.calls += 1
        self.peak = max(self.peak, len(request.messages))
        if self.calls >= self._turns:
            yield TextDelta("Done.")
            yield StreamEnd(stop_reason="stop")
            return
        yield ToolCallDelta(0, f"call_{self.calls}", "read_file", f'{{"path": "src/module_{self.calls}.py"}}')
        yield ToolCallEnd(0)
        yield StreamEnd(stop_reason="tool_use")


@tool(read_only=True)
def read_file(path: str) -> str:
    """Read a file."""
    return "\n".join([f"{n}: value_{n} = compute({path!r}, {n}) + {n * 37}" for n in range(4 * _ENTRIES)])


async def long_session(turns: int, window: int, folder: Path) -> dict[str, Any]:
    """Run it, look at the memory on the way, and make all requests again from the log."""
    model, seen = Reader(turns, window), list[float]()
    manager = default(counter="estimate")
    step = max(1, turns // 10)

    def look(event: Event) -> None:
        if isinstance(event, TurnEnd) and model.calls % step == 0:
            gc.collect()
            seen.append(tracemalloc.get_traced_memory()[0] / 1e6)

    with JsonlSessions(folder) as store, store.create("long") as log:
        agent = Agent(model, tools=[read_file], context=manager, log=log, limits=Limits(turns=turns + 10))
        agent.subscribe(look)
        tracemalloc.start()
        started = time.perf_counter()
        result = await agent.run("Read all files and say what is wrong.")
        took_s = time.perf_counter() - started
        tracemalloc.stop()
        facts = [fact async for fact in log.read()]
        rebuilt = list(requests(facts))
        middle = request_at(facts, len(rebuilt) // 2)
    rewrites = [fact for fact in facts if isinstance(fact, ContextCompacted)]
    return {
        "turns": model.calls,
        "end": result.end_reason,
        "window": window,
        "most messages in a request": model.peak,
        "rewrites": len(rewrites),
        "most tokens of a request": max(
            [fact.tokens or 0 for fact in facts if isinstance(fact, ContextProjected)]
        ),
        "memory on the way, MB": [round(each, 2) for each in seen],
        "log, MB": round(_size(folder) / 1e6, 1),
        "ms a turn": round(1e3 * took_s / turns, 2),
        "requests": len(rebuilt),
        "exact": sum([each.exact for each in rebuilt]) + middle.exact - 1,
    }


def _size(folder: Path) -> int:
    return sum([path.stat().st_size for path in folder.rglob("*") if path.is_file()])


class Quiet:
    """A scope in which nothing is asked."""

    window = 10**9
    system = (SystemBlock(text="You are careful."),)
    tools: tuple[ToolSpec, ...] = (read_file.spec,)
    options = CallOptions()
    sent_as_shown = True
    instructions = ""
    model: ChatModel = Reader(1, 10**9)

    async def call_model(self, request: ModelRequest, purpose: str, /, *, model: Any = None) -> Message:
        raise RuntimeError("nothing is to be asked here")

    def announce(self, reason: str, plan: str = "", /) -> None:
        raise RuntimeError("nothing is to be rewritten here")

    def warn(self, message: str, /, **details: Any) -> None:
        raise RuntimeError(message)


async def projection(length: int, laps: int) -> tuple[float, int]:
    """µs of one projection of a turn more after ``length`` messages, and messages counted for it."""
    manager: Engine = default(counter="estimate")
    transcript: Transcript[AgentMessage] = Transcript([user_message("Read.")])
    for number in range(length // 2):
        transcript = transcript.extend(_turn(number))
    scope = Quiet()
    await manager.project(transcript, scope)
    counted, best = manager.counted, float("inf")
    for lap in range(laps):
        transcript = transcript.extend(_turn(10**6 + lap))
        started = time.perf_counter()
        await manager.project(transcript, scope)
        best = min(best, time.perf_counter() - started)
    return best * 1e6, (manager.counted - counted) // laps


def _turn(number: int) -> list[AgentMessage]:
    call = ToolCall(id=f"c{number}", name="read_file", args={"path": f"{number % 100}.py"})
    return [assistant_message("Next.", call), tool_message(call, f"line {number % 100}\n" * 30)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=5_000)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trio", action="store_true")
    options = parser.parse_args()
    turns, laps = (300, 3) if options.quick else (options.turns, 200)
    short, long = asyncio.run(projection(10, laps)), asyncio.run(projection(10_000, laps))
    print(
        f"projection after 10 messages {short[0]:.1f} µs, after 10,000 {long[0]:.1f} µs: {long[0] / short[0]:.2f}"
    )
    print(f"messages counted in it: {short[1]} and {long[1]}")
    with tempfile.TemporaryDirectory() as folder:
        backend = "trio" if options.trio else "asyncio"
        found = anyio.run(long_session, turns, options.window, Path(folder), backend=backend)
    for name, value in found.items():
        print(f"{name}: {value}")
    memory = found["memory on the way, MB"]
    half = len(memory) // 2
    growth = 1e6 * (memory[-1] - memory[half]) * len(memory) / (turns * max(1, len(memory) - 1 - half))
    print(f"memory grows by {growth:.0f} bytes a turn")
    flat = options.quick or growth <= _GROWTH
    fits = found["most tokens of a request"] <= options.window and found["exact"] == found["requests"]
    same = options.quick or (long[0] <= _RATIO * short[0] and long[1] == short[1])
    missed = [name for name, good in (("memory", flat), ("requests", fits), ("work", same)) if not good]
    print(f"missed: {', '.join(missed)}" if missed else "all targets met")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
