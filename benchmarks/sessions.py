"""Sessions to store: real runs of the kernel, with a model that says little and a tool that says much.

A turn is a reply of some 200 characters with one call, and its result: nine facts. Every fifty turns an
answer ends the run and the user asks again.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from unspool.kernel import (
    Agent,
    AgentStart,
    EventLog,
    Fact,
    Limits,
    MessageEnd,
    ModelRequest,
    QueueChanged,
    StreamEnd,
    StreamEvent,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolExecEnd,
    Usage,
    tool,
)
from unspool.trajectory.memory import MemoryLog

_TEXT = (
    "the parser reads a header and then each record in turn so that a torn line is found early when someone "
    "asks why nothing was stored we look at offsets sizes and names of files; def return if not None: self"
)
_WORDS = _TEXT.split()
_RUN = 50  # turns
_SYSTEM = "You look at the files of a project and answer questions about them. " * 40


def prose(rand: Random, size: int) -> str:
    """``size`` characters of words and line ends: all different, unlike one word repeated."""
    words, length = [], 0
    while length < size:
        words.append("\n" if rand.random() < 0.1 else rand.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


class _Model:
    """Asks for one call a turn, and ends the run every fifty turns and after the last."""

    name = "fake/model"
    supports_tools = True

    def __init__(self, turns: int, rand: Random) -> None:
        self.left = turns
        self._rand = rand
        self._in_run = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        rand = self._rand
        yield TextDelta(prose(rand, 200))
        usage = Usage(input_tokens=rand.randrange(9000), output_tokens=rand.randrange(300))
        if not self.left or self._in_run == _RUN:
            self._in_run = 0
            yield StreamEnd(stop_reason="stop", usage=usage)
            return
        self.left -= 1
        self._in_run += 1
        path = f"src/{rand.choice(_WORDS)}_{rand.randrange(50)}.py"
        args = msgspec.json.encode({"path": path, "first": rand.randrange(900)}).decode()
        yield ToolCallDelta(0, f"call_{rand.getrandbits(96):024x}", "look", args)
        yield ToolCallEnd(0)
        yield StreamEnd(stop_reason="tool_use", usage=usage)


def _looker(result: Callable[[], str]) -> Tool:
    @tool(name="look", concurrency_safe=True)
    async def look(path: str, first: int = 0) -> str:
        """Look at a file, from line ``first`` on."""
        return result()

    return look


async def run_session(turns: int, result_bytes: int, log: EventLog | None, *, files: int = 0) -> None:
    """A session of ``turns`` turns, each with a result of ``result_bytes``: all different, or one of ``files``."""
    rand = Random(1)
    known = [prose(rand, result_bytes) for _ in range(files)]
    model = _Model(turns, rand)
    look = _looker(lambda: rand.choice(known) if known else prose(rand, result_bytes))
    limits = Limits(turns=2 * _RUN, result_bytes=1 << 20)
    agent = Agent(model, tools=[look], system=_SYSTEM, log=log, limits=limits)
    while model.left:
        async for _ in agent.stream(prose(rand, 80)):
            pass


def facts_of_session(turns: int, result_bytes: int) -> list[Fact]:
    """The facts of such a session."""
    log = MemoryLog(session="measured")
    asyncio.run(run_session(turns, result_bytes, log))
    return log.facts


def numbered(facts: Iterable[Fact], after: int) -> int:
    """Number ``facts`` anew, to follow fact ``after``; the last number."""
    for fact in facts:
        after += 1
        force_setattr(fact, "seq", after)
    return after


def unique_bytes(facts: Iterable[Fact]) -> int:
    """Bytes of what was said, each content once: texts, results, arguments, tools, system prompt."""
    said: set[bytes] = set()
    for fact in facts:
        match fact:
            case MessageEnd() | QueueChanged():
                said.update(map(_said, fact.message.content if fact.message else ()))
            case ToolExecEnd():
                said.update(map(_said, fact.content))
            case AgentStart():
                said.update(map(msgspec.json.encode, fact.blobs.values()))
            case _:
                pass
    return sum(map(len, said))


def _said(block: Any) -> bytes:
    match block:
        case Text():
            return block.text.encode()
        case ToolCall():
            return msgspec.json.encode(block.args)
        case _:
            return msgspec.json.encode(block)


def size_of(path: str) -> int:
    """Bytes of a file, or of all files of a folder."""
    if os.path.isdir(path):
        return sum(size_of(entry.path) for entry in os.scandir(path))
    return os.path.getsize(path) if os.path.exists(path) else 0
