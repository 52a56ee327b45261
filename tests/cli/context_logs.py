"""Sessions of a scripted agent that reads files, recorded with a context manager of the caller's choice."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from unspool.kernel import (
    Agent,
    ContextManager,
    Limits,
    Message,
    ModelRequest,
    OverloadedError,
    Retry,
    StreamEvent,
    Tool,
    Usage,
    fold,
    raw_tool,
)
from unspool.llm.scripted import Entry, Say, ScriptedModel, call
from unspool.trajectory import JsonlLog, load

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
LIMITS = Limits(turns=1_000)


def commit_of(path: str) -> str:
    """What the file of this path says that it was last changed by."""
    return hashlib.sha1(path.encode()).hexdigest()[:10]


async def _read(args: Any, ctx: object) -> str:
    path = args["path"]
    lines = [f"{number}: the quick brown fox of {path} jumps over it" for number in range(40)]
    return "\n".join([f"changed in {commit_of(path)}", *lines])


READ = raw_tool("read_file", "Reads a file.", SCHEMA, _read)


def reads(count: int, *, files: int = 12, first: int = 0, reported: int = 0) -> list[Entry]:
    """A script: that many files are read, the same again and again, each named by its commit; then the work is done.

    ``reported`` are the tokens that each read is said to have added to the prompt.
    """
    script: list[Entry] = []
    for at in range(first, first + count):
        path = f"src/m{at % files}.py"
        said = f"Again {commit_of(path)}." if at >= files else f"Look at {path}."
        script.append(
            Say(
                [said, call(f"c{at}", "read_file", path=path)],
                usage=Usage(input_tokens=reported * (at + 1), output_tokens=20),
            )
        )
    return [*script, Say(["done"])]


class Worker(ScriptedModel):
    """A scripted model that also answers those who ask without tools: they want a summary. The first ``failing`` get none."""

    failing = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        playing = super().stream(request)
        if not request.tools:
            asked = "\n".join([message.text for message in request.messages])
            digest = hashlib.sha1(asked.encode()).hexdigest()
            answer: Entry = f"<summary>They read files, {digest}.</summary>"
            if self.failing:
                self.failing -= 1
                answer = OverloadedError("provider: no capacity")
            playing = ScriptedModel([answer]).stream(request)
        async for event in playing:
            yield event


Act = Callable[[Agent[str]], Awaitable[object]]


def prompt(text: str = "Read them.") -> Act:
    return lambda agent: agent.run(text)


def record(
    path: str | Path,
    manager: ContextManager | None,
    script: Sequence[Entry],
    *acts: Act,
    tools: Sequence[Tool] = (READ,),
    failing: int = 0,
) -> list[Sequence[Message]]:
    """Record a session, or go on with one, in a process of its own as it were; the requests for replies as they were sent."""
    model = Worker(script)
    model.failing = failing
    path = Path(path)

    async def main() -> None:
        state = fold(load(path)) if path.exists() else None
        log = JsonlLog(path)
        options: Any = {} if manager is None else {"context": manager}
        agent = Agent(
            model,
            tools=tools,
            system="You read.",
            log=log,
            state=state,
            limits=LIMITS,
            retry=Retry(attempts=0),
            **options,
        )
        for act in acts or (prompt(),):
            await act(agent)
        await log.aclose()

    anyio.run(main)
    return [request.messages for request in model.requests]
