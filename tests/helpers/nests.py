"""A tool that runs a session of its own inside its call, in one of many ways: for laws over random runs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from unspool.kernel import (
    Agent,
    ChildEnded,
    ChildStarted,
    Clock,
    Handoff,
    Nest,
    NestedCall,
    RateLimitError,
    Retry,
    Suspended,
    ToolContext,
    ToolResult,
    ToolSpec,
    Usage,
    Verdict,
    nest_of,
    raw_tool,
)
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory.memory import MemoryLog

USAGE = Usage(input_tokens=3, output_tokens=1)
WAYS = 9


def scripts(way: int) -> list[Any]:
    """What the model below answers first."""
    ways: list[list[Any]] = [
        [Say(["said below"], usage=USAGE)],
        [Say([call("p1", "asks", n=1)], usage=USAGE), "paid"],
        [Say(["half of it", Wait(3), " and the rest"], usage=USAGE)],
        [[call("p1", "asks", n=1), call("p2", "asks", n=2)], [call("p3", "asks")], "all paid"],
        [RateLimitError("slow down")],
        [[call("d1", "nests", s=1)], "said far below"],
        ["never said"],
        ["never said"],
        ["never said"],
    ]
    return ways[way]


class Nesting:
    """Runs a nested session as its argument ``s`` says: to its end, into a wait for a person, an error or another
    session below; it may also fall over, hand the conversation on, or go on in the background.

    ``logs`` are those of all nested sessions, ``background`` what goes on: each is to be called to end it.
    """

    def __init__(self, logs: dict[str, MemoryLog], name: str = "nests", depth: int = 2) -> None:
        self.spec = ToolSpec(name=name, idempotent=True, concurrency_safe=name.startswith("safe"))
        self.logs = logs
        self.depth = depth
        self.background: list[Callable[[], Awaitable[None]]] = []

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext, /) -> object:
        nest, child, way = nest_of(ctx), f"{ctx.session}.{ctx.call_id}", args.get("s", 0) % WAYS
        log = self.logs.setdefault(child, MemoryLog(session=child))
        agent = self._agent(log, nest, ctx.clock, [] if log.facts else scripts(way))
        before = agent.total_usage
        await nest.record(ChildStarted(child, "below", ctx.call_id, "single" if way % 2 else "", before))
        if way == 6:
            raise RuntimeError("it fell over")
        if way == 7:
            await nest.record(Handoff("below", source="above", call_id=ctx.call_id))
        if way == 8:
            self.background.append(lambda: _end(nest, child, ctx.call_id))
            return "it goes on"
        nest.on_stop(lambda: agent.abort(keep=True))
        try:
            await self._run(agent, nest, child)
        finally:
            usage = agent.total_usage - before
            await nest.record(ChildEnded(child, "below", ctx.call_id, agent.state.end_reason, usage))
        waiting = agent.state.waiting_calls
        if waiting and agent.state.end_reason == "paused":
            details = {"depth": self.depth}
            raise Suspended(
                [
                    NestedCall(
                        id=each.call.id, call=each.call, session=child, reason="to pay", details=details
                    )
                    for each in waiting
                ]
            )
        messages = agent.state.messages
        return ToolResult(
            content=messages[-1].text if messages else "", details={"end": agent.state.end_reason}
        )

    def _agent(self, log: MemoryLog, nest: Nest, clock: Clock, script: list[Any]) -> Agent[str]:
        tools: list[Any] = [raw_tool("asks", "Asks.", {}, lambda args, ctx: "paid", needs_approval=True)]
        if self.depth > 1:
            tools.append(Nesting(self.logs, depth=self.depth - 1))
        model = ScriptedModel([*script, *["the end below"] * 9], clock=clock)
        return Agent(
            model,
            name="below",
            tools=tools,
            log=log,
            clock=clock,
            lineage=nest.lineage,
            retry=Retry(attempts=0),
            rand=lambda: 0.5,
        )

    async def _run(self, agent: Agent[str], nest: Nest, child: str) -> None:
        state = agent.state
        waiting = {each.call.id for each in state.waiting_calls}
        given: dict[str, Verdict] = {id: said for id, said in nest.decisions.items() if id in waiting}
        if state.seq and not (state.turn or state.active):
            return  # it had ended, and only the session above does not know
        stream = agent.stream(decisions=given) if given else agent.stream(*([] if state.seq else ["begin"]))
        async with stream:
            async for event in stream:
                await nest.tell(child, event)


async def _end(nest: Nest, child: str, call_id: str) -> None:
    await nest.record(ChildEnded(child, "below", call_id, "stop", USAGE))
