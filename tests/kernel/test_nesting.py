"""What ties a nested session to the call that runs it, shown with the smallest tool that runs one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from scenarios import settle, tasks_living

from unspool import Agent, Limits, RunResult, Usage, Verdict, tool
from unspool.kernel import (
    AgentEnd,
    AgentStart,
    AgentState,
    ChildEnded,
    ChildEvent,
    ChildStarted,
    ContinueError,
    Event,
    Fact,
    FakeClock,
    Hooks,
    MessageEnd,
    Nest,
    NestedCall,
    Suspended,
    Text,
    ToolCall,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolResult,
    TurnEnd,
    fold,
    nest_of,
    raw_tool,
)
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory import MemoryLog, replay

Main = Callable[[], Awaitable[Any]]
TASK = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}


@pytest.fixture(params=["asyncio", "trio"])
def go(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    async def checked(main: Main) -> Any:
        living = tasks_living()
        with anyio.fail_after(10):
            result = await main()
        await settle()
        assert tasks_living() == living, "a task is left"
        return result

    return lambda main: anyio.run(checked, main, backend=request.param)


class Tree:
    """Agents below agents: each level has a model, the tools it is given and, but for the last, ``delegate``."""

    def __init__(self, *models: Any, tools: Sequence[Any] = (), **options: Any) -> None:
        self.clock = FakeClock()
        self.models = [ScriptedModel(script, clock=self.clock) for script in models]
        self.logs: dict[str, MemoryLog] = {}
        self.tools = tuple(tools)
        self.options = options
        self.agent = self.make(0, "root")

    def make(self, level: int, session: str, **options: Any) -> Agent[str]:
        tools = (*self.tools, self.delegate(level + 1)) if level + 1 < len(self.models) else self.tools
        log = self.logs.setdefault(session, MemoryLog(session=session))
        return Agent(
            self.models[level],
            name=f"a{level}",
            tools=tools,
            log=log,
            clock=self.clock,
            rand=lambda: 1.0,
            **{**self.options, **options},
        )

    def delegate(self, level: int) -> Any:
        async def run(args: Mapping[str, Any], ctx: ToolContext) -> object:
            nest = nest_of(ctx)
            child = f"{ctx.session}.{ctx.call_id}"
            agent = self.make(level, child, lineage=nest.lineage)
            before = agent.total_usage
            await nest.record(ChildStarted(child, agent.settings.config.agent, ctx.call_id, used=before))
            nest.on_stop(lambda: agent.abort(keep=True))
            stream = _stream(agent, args["task"], nest.decisions)
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
                waiting = agent.state.waiting_calls
                raise Suspended(
                    [NestedCall(id=each.call.id, call=each.call, session=child) for each in waiting]
                )
            return ToolResult(content=result.text, details={"end": result.end_reason})

        return raw_tool("delegate", "Delegate.", TASK, run, idempotent=True, concurrency_safe=True)

    def facts(self, session: str) -> list[Fact]:
        return self.logs[session].facts

    def calls_of_models(self) -> Usage:
        """The sum of all model calls in all logs."""
        return sum((fold(log.facts).usage for log in self.logs.values()), Usage())


def _stream(agent: Agent[str], task: str, decisions: Mapping[str, Verdict]) -> Any:
    state = agent.state
    waiting = {each.call.id for each in state.waiting_calls}
    if waiting & set(decisions):
        return agent.stream(decisions={id: verdict for id, verdict in decisions.items() if id in waiting})
    return agent.stream(task) if not state.seq else agent.stream()


def said(text: str, tokens: int = 1, *calls: ToolCall) -> Say:
    return Say([text, *calls], usage=Usage(input_tokens=10 * tokens, output_tokens=tokens))


def down(id: str = "c1", task: str = "go on") -> ToolCall:
    return call(id, "delegate", task=task)


def nested_events(events: Sequence[Event], *path: str) -> list[Event]:
    """The events of a session below, unwrapped as often as ``path`` is long."""
    for child in path:
        events = [event.event for event in events if isinstance(event, ChildEvent) and event.child == child]
    return list(events)


def test_a_nested_run_is_a_run_in_its_own_session(go: Any) -> None:
    tree = Tree(
        [said("", 1, down()), said("done", 2)], [said("", 3, down("d1")), said("half", 4)], [said("deep", 5)]
    )
    events: list[Event] = []
    tree.agent.subscribe(events.append)

    result: RunResult[str] = go(lambda: tree.agent.run("begin"))
    assert (result.text, result.end_reason) == ("done", "stop")
    assert [fold(tree.facts(name)).messages[-1].text for name in ("root.c1", "root.c1.d1")] == [
        "half",
        "deep",
    ]
    inner = [event for event in nested_events(events, "root.c1", "root.c1.d1")]
    assert [event for event in inner if isinstance(event, Fact)] == tree.facts("root.c1.d1")
    start = tree.facts("root.c1.d1")[0]
    assert isinstance(start, AgentStart)
    lineage = start.lineage
    assert lineage is not None
    assert (lineage.parent, lineage.root, lineage.path) == ("root.c1", "root", ("a0", "a1"))


def test_usage_rolls_up_once(go: Any) -> None:
    tree = Tree(
        [said("", 1, down()), said("done", 2)], [said("", 3, down("d1")), said("half", 4)], [said("deep", 5)]
    )
    result = go(lambda: tree.agent.run("begin"))
    assert result.usage.output_tokens == 3
    assert result.total_usage == tree.calls_of_models() == tree.agent.total_usage
    ends = [fact for fact in tree.facts("root") if isinstance(fact, AgentEnd)]
    assert [end.usage + end.child_usage for end in ends] == [tree.calls_of_models()]


def test_a_limit_counts_what_is_below(go: Any) -> None:
    tree = Tree([said("", 1, down()), "more"], [said("much", 100)], limits=Limits(tokens=500))
    result = go(lambda: tree.agent.run("begin"))
    assert (result.end_reason, len(tree.models[0].requests)) == ("budget", 1)


def test_lock_step_reaches_down(go: Any) -> None:
    """A nested tool runs only after the consumer at the top has seen its dispatch."""
    ran: list[str] = []

    @tool(read_only=True)
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    tree = Tree([[down()], "done"], [[call("l1", "look")], "looked"], tools=[look])

    async def main() -> list[bool]:
        found = []
        async with tree.agent.stream("begin") as stream:
            async for event in stream:
                inner = event.event if isinstance(event, ChildEvent) else None
                if isinstance(inner, ToolExecDispatch):
                    await settle()
                    found.append(bool(ran))
        return found

    assert go(main) == [False]
    assert ran == ["look"]


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


PAYING = ([said("", 1, down()), said("done", 2)], [said("", 3, down("d1")), said("half", 4)])


def test_a_call_far_below_waits_at_the_top(go: Any) -> None:
    tree = Tree(*PAYING, [[call("p1", "pay", amount=7)], "it is paid"], tools=[pay])

    async def main() -> tuple[RunResult[str], RunResult[str]]:
        paused = await tree.agent.run("begin")
        return paused, await tree.agent.resume({"c1/d1/p1": Verdict.allow({"amount": 8}, by="ann")})

    paused, result = go(main)
    assert (paused.end_reason, [(each.id, each.name) for each in paused.pending]) == (
        "paused",
        [("c1/d1/p1", "pay")],
    )
    assert (result.end_reason, result.text) == ("stop", "done")
    ended = [fact for fact in tree.facts("root.c1.d1") if isinstance(fact, ToolExecEnd)]
    assert [(end.call_id, end.outcome, end.content) for end in ended] == [("p1", "ok", (Text("paid 8"),))]
    dispatches = [fact for fact in tree.facts("root") if isinstance(fact, ToolExecDispatch)]
    assert [fact.idempotency_key for fact in dispatches] == ["root:c1"] * 2, "it went on, under the same key"
    assert result.total_usage + paused.total_usage == tree.agent.total_usage == tree.calls_of_models()


@pytest.mark.parametrize("decided", [Verdict.deny("too much"), {}])
def test_a_decision_against_it_reaches_the_call(go: Any, decided: Any) -> None:
    tree = Tree(*PAYING, [[call("p1", "pay", amount=7)], "not paid"], tools=[pay])

    async def main() -> RunResult[str]:
        await tree.agent.run("begin")
        return await tree.agent.resume(decided)

    assert go(main).end_reason == "stop"
    ended = [fact for fact in tree.facts("root.c1.d1") if isinstance(fact, ToolExecEnd)]
    assert [end.outcome for end in ended] == ["denied"]


def test_decisions_may_come_one_by_one_and_in_another_process(go: Any) -> None:
    two = [call("p1", "pay", amount=1), call("p2", "pay", amount=2)]
    tree = Tree(*PAYING, [two, "paid"], tools=[pay])

    async def main() -> RunResult[str]:
        paused = await tree.agent.run("begin")
        assert [each.id for each in paused.pending] == ["c1/d1/p1", "c1/d1/p2"]
        tree.agent.decide({"c1/d1/p2": Verdict.allow()})
        with pytest.raises(ValueError, match="no such call waits"):
            tree.agent.decide({"c1/d1/p2": Verdict.allow()})
        other = tree.make(0, "root")  # from the log
        assert [each.call.id for each in other.state.waiting_calls] == ["c1/d1/p1"]
        other.decide({"c1/d1/p1": Verdict.deny()})
        return await other.continue_()

    assert go(main).text == "done"
    ended = [fact for fact in tree.facts("root.c1.d1") if isinstance(fact, ToolExecEnd)]
    assert [(end.call_id, end.outcome) for end in ended] == [("p1", "denied"), ("p2", "ok")]


def test_a_host_decides_at_once(go: Any) -> None:
    seen: list[list[str]] = []

    def approve(info: Any) -> Verdict:
        seen.append([each.id for each in info.calls])
        return Verdict.allow()

    tree = Tree(*PAYING, [[call("p1", "pay", amount=7)], "paid"], tools=[pay])
    tree.agent.configure(hooks=Hooks(approve=approve))
    assert go(lambda: tree.agent.run("begin")).text == "done"
    assert seen == [["c1/d1/p1"]]


def test_siblings_go_on_while_one_waits(go: Any) -> None:
    @tool(read_only=True)
    async def look() -> str:
        """Look."""
        return "seen"

    tree = Tree(
        [[down("c1"), down("c2"), call("l1", "look")], "done"],
        [[call("p1", "pay", amount=7)], "other", "paid"],
        tools=[pay, look],
    )

    async def main() -> list[str]:
        paused = await tree.agent.run("begin")
        ended = [f.call_id for f in tree.facts("root") if isinstance(f, ToolExecEnd)]
        assert [each.id for each in paused.pending] in (["c1/p1"], ["c2/p1"])
        await tree.agent.resume(Verdict.allow())
        return ended

    assert len(go(main)) == 2, "the other nested session, and the tool beside it"
    ends = [(f.call_id, f.outcome) for f in tree.facts("root") if isinstance(f, ToolExecEnd)]
    assert sorted(ends) == [("c1", "ok"), ("c2", "ok"), ("l1", "ok")]


@pytest.mark.parametrize("how", ["steer", "abort"])
def test_a_waiting_tree_is_left(go: Any, how: str) -> None:
    tree = Tree([[down()], "never mind"], [[call("p1", "pay", amount=7)], "paid"], tools=[pay])

    async def main() -> AgentState:
        await tree.agent.run("begin")
        if how == "steer":
            tree.agent.steer("something else")
            await tree.agent.continue_()
        else:
            await tree.agent.reset()
        return tree.agent.state

    assert not go(main).waiting_calls
    ends = [(f.call_id, f.outcome) for f in tree.facts("root") if isinstance(f, ToolExecEnd)]
    assert ends == [("c1", "interrupted")]


def test_an_abort_reaches_the_deepest_and_keeps_what_was_said(go: Any) -> None:
    tree = Tree([[down()]], [[down("d1")]], [["half a sen", Wait(60)]])

    async def main() -> RunResult[str]:
        tree.clock.call_later(1, lambda: tree.agent.abort(keep=True))
        return await tree.agent.run("begin")

    result = go(main)
    assert result.end_reason == "aborted"
    for name in ("root", "root.c1", "root.c1.d1"):
        facts = tree.facts(name)
        assert [f.reason for f in facts if isinstance(f, AgentEnd)] == ["aborted"], name
        assert isinstance(facts[-1], AgentEnd)
    assert "half a sen" in [message.text for message in fold(tree.facts("root.c1.d1")).messages]
    pairs = [type(f).__name__ for f in tree.facts("root") if isinstance(f, ChildStarted | ChildEnded)]
    assert pairs == ["ChildStarted", "ChildEnded"]
    assert tree.clock.monotonic() < 2


def test_leaving_the_stream_ends_the_tree(go: Any) -> None:
    tree = Tree([[down()]], [[down("d1")]], [["half", Wait(60)]])

    async def main() -> None:
        async with tree.agent.stream("begin") as stream:
            async for event in stream:
                if nested_events([event], "root.c1", "root.c1.d1"):
                    break

    go(main)
    for name in ("root", "root.c1", "root.c1.d1"):
        assert isinstance(tree.facts(name)[-1], AgentEnd), name


def test_a_crash_anywhere_goes_on_where_it_stood(go: Any) -> None:
    """Whatever prefix of the two logs a crash leaves, the tree ends the same and pays once."""

    def new(told: int = 0, below: int = 0) -> Tree:
        script = [[call("p1", "buy", amount=7)], "bought"]
        return Tree([[down()], "done"][told:], script[below:], tools=[buy])

    bought: list[str] = []

    async def purchase(args: Mapping[str, Any], ctx: ToolContext) -> object:
        bought.append(ctx.idempotency_key)
        return "ok"

    amount = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    buy = raw_tool("buy", "Buy.", amount, purchase)
    whole = new()
    go(lambda: whole.agent.run("begin"))
    order = _order(whole)
    for cut in range(1, len(order)):
        kept = order[:cut]
        replied = [
            s for s, f in kept if isinstance(f, MessageEnd) and f.message and f.message.role == "assistant"
        ]
        again = new(replied.count("root"), replied.count("root.c1"))
        bought.clear()
        for session, fact in kept:
            again.logs.setdefault(session, MemoryLog(session=session)).append(fact)
        agent = again.make(0, "root")
        try:
            go(agent.continue_)
        except ContinueError:
            assert kept[-1][1] is order[-1][1] or not agent.state.messages
            continue
        ran = (
            [f for f in again.facts("root.c1") if isinstance(f, ToolExecDispatch)]
            if "root.c1" in again.logs
            else []
        )
        assert len(ran) <= 1 and len(bought) <= 1, cut


def _order(tree: Tree) -> list[tuple[str, Fact]]:
    """The facts of all logs in the order in which they were recorded: those of a call below come within it."""
    root, below = tree.facts("root"), tree.facts("root.c1")
    begun = next(index for index, fact in enumerate(root) if isinstance(fact, ChildStarted)) + 1
    return [
        *(("root", fact) for fact in root[:begun]),
        *(("root.c1", fact) for fact in below),
        *(("root", fact) for fact in root[begun:]),
    ]


def test_what_goes_on_in_the_background_is_told_and_recorded_after_the_run(go: Any) -> None:
    log, told, nests = MemoryLog(), list[Event](), list[Nest]()

    @tool
    async def begin(ctx: ToolContext) -> str:
        """Begin something that takes longer than this call."""
        nests.append(nest_of(ctx))
        await nests[0].record(ChildStarted("child", call_id=ctx.call_id, mode="background"))
        return "begun"

    agent = Agent(ScriptedModel([[call("b1", "begin")], "done"]), tools=[begin], log=log, clock=FakeClock())
    agent.subscribe(told.append)

    async def main() -> None:
        await agent.run("go")
        assert list(agent.state.children) == ["child"]
        await nests[0].tell("child", TurnEnd(1, seq=3))
        await nests[0].record(
            ChildEnded("child", call_id="b1", end_reason="stop", usage=Usage(output_tokens=5))
        )

    go(main)
    last = log.facts[-1]
    assert isinstance(last, ChildEnded)
    assert (last.run_id, agent.total_usage.output_tokens, agent.state.children) == ("", 5, {})
    assert [type(event).__name__ for event in told[-3:]] == ["AgentEnd", "ChildEvent", "ChildEnded"]


SCENES: dict[str, Callable[[Tree], Awaitable[Any]]] = {}


def scene(fn: Callable[[Tree], Awaitable[Any]]) -> Callable[[Tree], Awaitable[Any]]:
    SCENES[fn.__name__] = fn
    return fn


@scene
async def to_the_end(tree: Tree) -> None:
    await tree.agent.run("begin")
    await tree.agent.resume(Verdict.allow({"amount": 8}))


@scene
async def denied(tree: Tree) -> None:
    await tree.agent.run("begin")
    await tree.agent.resume({})


@scene
async def left(tree: Tree) -> None:
    await tree.agent.run("begin")
    tree.agent.steer("something else")
    await tree.agent.continue_()


@scene
async def aborted(tree: Tree) -> None:
    await tree.agent.run("begin")
    tree.agent.decide(
        dict.fromkeys([each.call.id for each in tree.agent.state.waiting_calls], Verdict.allow())
    )
    tree.agent.subscribe(lambda event: tree.agent.abort() if isinstance(event, ChildEvent) else None)
    await tree.agent.continue_()


@scene
async def decided_elsewhere(tree: Tree) -> None:
    await tree.agent.run("begin")
    await tree.make(0, "root").resume(Verdict.allow())


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("levels", [1, 2])
def test_every_session_of_a_tree_replays_by_itself(go: Any, name: str, levels: int) -> None:
    above = [[down(), call("l1", "pay", amount=1), down("c2")], "done", "done", "done"]
    between = [[down("d1")], "half", "half"]
    paying = [[call("p1", "pay", amount=7)], "paid", [call("p2", "pay", amount=9)], "paid", "paid", "paid"]
    tree = Tree(*[above, between, paying][-levels - 1 :], tools=[pay])

    async def main() -> dict[str, tuple[int, Any]]:
        await SCENES[name](tree)
        found = {}
        for session, log in list(tree.logs.items()):
            replayed = await replay(log)
            found[session] = (len(log.facts) - replayed.facts, replayed.difference)
        return found

    assert go(main) == dict.fromkeys(tree.logs, (0, None))
