"""Trees of agents below agents whose logs are sessions of a store, and the same trees killed anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import anyio

from unspool import Agent, Fact, Usage, Verdict
from unspool.kernel import (
    ChildEnded,
    ChildStarted,
    FakeClock,
    ModelResponse,
    NestedCall,
    Suspended,
    ToolCall,
    ToolContext,
    ToolResult,
    nest_of,
    raw_tool,
    tool,
)
from unspool.kernel.messages import Cost
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.trajectory import SessionHandle, Sessions

TASK = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}


class Tree:
    """Each level has a model, the tools it is given and, but for the last, ``delegate``. Closes its logs."""

    def __init__(
        self, sessions: Sessions, *models: Any, root: str = "root", names: Sequence[str] = (), tools: Sequence[Any] = ()
    ) -> None:  # fmt: skip
        self.sessions = sessions
        self.clock = FakeClock()
        self.models = [
            ScriptedModel(script, clock=self.clock, name=f"local/m{level}")
            for level, script in enumerate(models)
        ]
        self.names = names or [f"a{level}" for level in range(len(models))]
        self.tools = tuple(tools)
        self.logs: dict[str, SessionHandle] = {}
        self.order: list[tuple[str, int]] = []  # in which order the facts came, by session and number
        self.mode = ""
        self.agent = self.make(0, root)

    def make(self, level: int, session: str, **options: Any) -> Agent[str]:
        tools = (*self.tools, self.delegate(level + 1)) if level + 1 < len(self.models) else self.tools
        if session not in self.logs:
            known = session in [info.session for info in self.sessions.list()]
            self.logs[session] = self.sessions.open(session) if known else self.sessions.create(session)
        agent: Agent[str] = Agent(
            self.models[level],
            name=self.names[level],
            tools=tools,
            log=self.logs[session],
            clock=self.clock,
            rand=lambda: 1.0,
            **options,
        )
        agent.subscribe(
            lambda event: self.order.append((session, event.seq)) if isinstance(event, Fact) else None
        )
        return agent

    def delegate(self, level: int) -> Any:
        async def run(args: Mapping[str, Any], ctx: ToolContext) -> object:
            nest = nest_of(ctx)
            child = f"{ctx.session}.{ctx.call_id}"
            agent = self.make(level, child, lineage=nest.lineage)
            open_ = nest.state.children.get(child)
            before = open_.used if open_ else agent.total_usage
            await nest.record(ChildStarted(child, self.names[level], ctx.call_id, self.mode, used=before))
            nest.on_stop(lambda: agent.abort(keep=True))
            waiting = {each.call.id for each in agent.state.waiting_calls}
            answers = {id: verdict for id, verdict in nest.decisions.items() if id in waiting}
            if answers:
                stream = agent.stream(decisions=answers)
            else:
                stream = agent.stream() if agent.state.seq else agent.stream(args["task"])
            try:
                async with stream:
                    async for event in stream:
                        await nest.tell(child, event)
                    result = await stream.result()
            finally:
                used = agent.total_usage - before
                end = agent.state.end_reason
                await nest.record(ChildEnded(child, call_id=ctx.call_id, end_reason=end, usage=used))
            if result.end_reason == "paused":
                raise Suspended(
                    [
                        NestedCall(id=each.call.id, call=each.call, session=child, agent=tuple(self.names[: level + 1]))
                        for each in agent.state.waiting_calls
                    ]
                )  # fmt: skip
            return ToolResult(content=result.text)

        return raw_tool("delegate", "Delegate.", TASK, run, idempotent=True, concurrency_safe=True)

    def close(self) -> None:
        for log in self.logs.values():
            log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, prompt: str = "begin") -> str:
        """Run it from the top; why it ended."""
        return self.agent.run_sync(prompt).end_reason

    def decide(self, verdict: Verdict) -> str:
        return anyio.run(self.agent.resume, verdict).end_reason

    def run_until(self, abort_s: float) -> str:
        """The same, aborted after that time of its clock."""

        async def main() -> str:
            self.clock.call_later(abort_s, lambda: self.agent.abort(keep=True))
            return (await self.agent.run("begin")).end_reason

        return anyio.run(main)


def said(text: str, tokens: int = 1, *calls: ToolCall) -> Say:
    cost = Cost(input=tokens * 0.001, output=tokens * 0.0001)
    return Say([text, *calls], usage=Usage(input_tokens=10 * tokens, output_tokens=tokens, cost=cost))


def down(id: str = "c1", task: str = "go on") -> ToolCall:
    return call(id, "delegate", task=task)


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def three_deep() -> list[Any]:
    """Scripts of an agent that has one below it, which has one below it: 1 + 2, 3 + 4 and 5 tokens said."""
    return [
        [said("", 1, down()), said("done", 2)],
        [said("", 3, down("d1")), said("half", 4)],
        [said("deep", 5)],
    ]


def paying() -> list[Any]:
    """The same, but that the one at the bottom pays, which a person decides on."""
    return [*three_deep()[:2], [said("", 5, call("p1", "pay", amount=7)), said("it is paid", 6)]]


def copy_prefix(order: Sequence[tuple[str, int]], source: Sessions, target: Sessions, cut: int) -> None:
    """The first ``cut`` facts of a tree, in the order in which they came: what a kill leaves."""
    facts = {session: list(source.facts(session)) for session, _ in order}
    logs: dict[str, SessionHandle] = {}
    for session, seq in order[:cut]:
        if session not in logs:
            logs[session] = target.create(session)
        logs[session].append(facts[session][seq - 1])
    for log in logs.values():
        log.close()


def used_in_all(sessions: Sessions) -> Usage:
    """The sum of all model calls of all logs."""
    found = [fact for info in sessions.list() for fact in sessions.facts(info.session)]
    return sum([fact.usage for fact in found if isinstance(fact, ModelResponse)], Usage())
