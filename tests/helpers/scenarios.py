"""Random runs, and the laws that must hold in each of them.

A ``Scenario`` is plain data: what the model answers, which hooks raise, what the outside does at
which event. ``play`` runs it on one backend under a fake clock and checks every law at every event.
"""

import asyncio
import dataclasses
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from unspool.kernel import (
    Abort,
    AgentContext,
    AgentEnd,
    AgentStart,
    AgentState,
    ApprovalInfo,
    CallOptions,
    Codec,
    ContextProjected,
    Event,
    Fact,
    FakeClock,
    FatalToolError,
    Hooks,
    Inbox,
    Limits,
    LoopConfig,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    ModelCallInfo,
    ModelRequest,
    ModelResponse,
    RateLimitError,
    Refused,
    ReplyInfo,
    Retry,
    StopInfo,
    StopVerdict,
    Stored,
    StreamEvent,
    Text,
    Texts,
    ToolContext,
    ToolError,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolReference,
    ToolSpec,
    ToolUse,
    TurnInfo,
    Verdict,
    agent_loop,
    agent_loop_continue,
    apply,
    assistant_message,
    fold,
    repair_message_sequence,
    to_messages,
    user_message,
    validate_message_sequence,
)
from unspool.kernel.lowering import Lowering, hash_of
from unspool.kernel.projection import seed_of
from unspool.kernel.stream import EventStream
from unspool.kernel.transcript import Transcript
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import MemoryLog, requests


@dataclass(frozen=True)
class Action:
    """The outside does ``what`` at the ``at``-th event, or ``at`` seconds after the start."""

    at: int
    what: str  # steer, follow_up, abort, abort_silent, leave, cancel, pause
    timed: bool = False


@dataclass(frozen=True)
class Scenario:
    script: tuple[Any, ...]
    actions: tuple[Action, ...] = ()
    raising: str = ""  # the hook that raises
    guard: tuple[str, ...] = ()  # the guard's decisions, one for each time it is asked
    turns: int = 6
    tool_calls: int | None = None
    concurrency: int = 3
    attempts: int = 2
    slow: bool = False  # the consumer lets others run before it asks for the next event
    gate: tuple[str, ...] | None = None  # the gate's decisions, one for each time it is asked
    approve: str = ""  # what the host does about calls that wait: nothing, allow, deny, pause, raise
    decision: str = "allow"  # what a person decides on a paused run
    model_hooks: tuple[str, ...] = ()  # what is done to model calls: options, answer, rewrite
    one_by_one: bool = False
    step_limit: bool = False
    keep: bool = False  # an abort keeps the text of an unfinished answer
    result_messages: bool = False
    tokens: int | None = None
    plain: bool = False  # hooks are plain functions that take no time, where they can be


class Watch:
    """What the consumer has asked beyond: an announced effect may start only after that."""

    def __init__(self) -> None:
        self.asked_seq = 0
        self.log = MemoryLog()
        self.executions: dict[str, int] = {}
        self.violations: list[str] = []  # an assertion in a model or a tool would be its outcome

    def demand(self, holds: bool, violation: str) -> None:
        if not holds:
            self.violations.append(violation)

    def check_model(self) -> None:
        announced = [fact.seq for fact in self.log.facts if isinstance(fact, ContextProjected)]
        self.demand(announced[-1] <= self.asked_seq, "the model was asked before that was seen")

    def check_tool(self, call_id: str) -> None:
        announced = [
            fact.seq
            for fact in self.log.facts
            if isinstance(fact, ToolExecDispatch) and fact.call_id == call_id
        ]
        self.demand(announced[0] <= self.asked_seq, "a tool ran before that was seen")
        self.executions[call_id] = self.executions.get(call_id, 0) + 1
        self.demand(self.executions[call_id] == 1, "a call ran twice")


class WatchedModel(ScriptedModel):
    """A scripted model that checks each request it is sent."""

    def __init__(self, script: tuple[Any, ...], clock: FakeClock, watch: Watch) -> None:
        super().__init__([*script, *["the end"] * 40], clock=clock)
        self.watch = watch

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        self.watch.check_model()
        messages = list(request.messages)
        self.watch.demand(validate_message_sequence(messages) == [], "a request with unpaired calls")
        empty = [message for message in messages if not message.content and message.role != "tool"]
        self.watch.demand(bool(messages) and not empty, "a request with an empty message")
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


@dataclass
class WatchedTool:
    """A tool of one kind of behaviour."""

    name: str
    watch: Watch
    clock: FakeClock
    safe: bool = False
    interrupt: Any = "block"
    timeout_s: float | None = None
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = ToolSpec(
            name=self.name,
            concurrency_safe=self.safe,
            interrupt=self.interrupt,
            timeout_s=self.timeout_s,
            needs_approval=self.name == "asks",
            deferred=self.name == "hidden",
        )

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        self.watch.check_tool(ctx.call_id)
        match self.name:
            case "fail":
                raise ToolError("no such thing")
            case "crash":
                raise ZeroDivisionError("oops")
            case "fatal":
                raise FatalToolError("the disk is gone")
            case "slow" | "safe_slow" | "interruptible" | "late":
                ctx.progress("working", percent=10)
                await self.clock.sleep(args.get("s", 3))
                ctx.progress("nearly done")
            case "stubborn":
                with anyio.CancelScope(shield=True):
                    await self.clock.sleep(2)
            case "odd":
                return {"nan": float("nan")}
            case "finder":
                return [Text("found"), ToolReference("hidden")]
        return f"{self.name} is done"


class CheckedTool(WatchedTool):
    """One that looks at its arguments first and shows what it would do."""

    async def validate(self, args: Any, ctx: ToolContext, /) -> Refused | None:
        await self.clock.sleep(1)
        return Refused("not today", code=7) if args.get("s") == 7 else None

    async def preview(self, args: Any, ctx: ToolContext, /) -> Any:
        if args.get("s") == 1:
            raise ValueError("cannot be shown")
        return {"shown": args}


def tools(watch: Watch, clock: FakeClock) -> list[WatchedTool]:
    plain = [WatchedTool(name, watch, clock) for name in ("ok", "fail", "crash", "fatal", "slow", "odd")]
    return [
        *plain,
        *[WatchedTool(name, watch, clock) for name in ("asks", "hidden", "finder")],
        CheckedTool("checked", watch, clock),
        WatchedTool("stubborn", watch, clock),
        WatchedTool("safe_ok", watch, clock, safe=True),
        WatchedTool("safe_slow", watch, clock, safe=True),
        WatchedTool("interruptible", watch, clock, interrupt="cancel"),
        WatchedTool("late", watch, clock, timeout_s=1),
    ]


def hooks(scenario: Scenario, clock: FakeClock) -> Hooks:
    decisions = list(scenario.guard)

    async def before_turn(info: TurnInfo) -> list[str]:
        if scenario.raising == "before_turn":
            raise RuntimeError("before_turn is broken")
        return ["a reminder"] if info.index == 2 else []

    async def after_turn(info: TurnInfo) -> None:
        if scenario.raising == "after_turn":
            raise RuntimeError("after_turn is broken")

    async def stop_guard(info: StopInfo) -> StopVerdict:
        if scenario.raising == "stop_guard":
            raise RuntimeError("stop_guard is broken")
        if not scenario.plain:
            await clock.sleep(1)
        decision: Any = decisions.pop(0) if decisions else "stop"
        return StopVerdict(decision, "keep going" if decision == "go_on" else "")

    def stop_after_tool(end: ToolExecEnd) -> bool:
        if scenario.raising == "stop_after_tool":
            raise RuntimeError("stop_after_tool is broken")
        return end.tool == "safe_ok"

    async def before_stop(info: StopInfo) -> None:
        if scenario.raising == "before_stop":
            raise RuntimeError("before_stop is broken")
        await clock.sleep(2)

    def after_model_call(info: ReplyInfo) -> None:
        if scenario.raising == "after_model_call":
            raise RuntimeError("after_model_call is broken")

    made = Hooks(
        before_turn=before_turn,
        after_turn=after_turn,
        after_model_call=after_model_call,
        stop_guard=stop_guard,
        before_stop=before_stop,
        stop_after_tool=stop_after_tool,
        **decisions_of(scenario, clock),
        **model_hooks(scenario, clock),
    )
    if not scenario.plain:
        return made
    names = ("before_turn", "after_turn", "stop_guard", "approve", "before_model_call")
    plain: dict[str, Any] = {name: plainly(getattr(made, name)) for name in names}
    return dataclasses.replace(made, **plain)


def plainly(hook: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """An async hook that waits for nothing, as a plain function."""
    if hook is None:
        return None

    def call(info: Any) -> Any:
        try:
            hook(info).send(None)
        except StopIteration as answer:
            return answer.value
        raise AssertionError("it waits for something")

    return call


def decisions_of(scenario: Scenario, clock: FakeClock) -> dict[str, Any]:
    """Gate, approval and middlewares."""
    verdicts = list(scenario.gate or ())

    async def gate(use: ToolUse) -> Any:
        match verdicts.pop(0) if verdicts else "allow":
            case "rewrite":
                return Verdict.allow({"s": 0}, by="rule", details={"s": 0})
            case "deny":
                return Verdict.deny("not allowed", by="rule")
            case "ask":
                return Verdict.ask("dangerous", details={"why": "x"})
            case "raise":
                raise RuntimeError("the gate is broken")
            case "slow":
                await clock.sleep(4)
            case "nonsense":
                return "yes"
            case "nothing":
                return None
        return Verdict.allow()

    async def approve(info: ApprovalInfo) -> Verdict | None:
        if not scenario.plain:
            await clock.sleep(3)
        if scenario.approve == "raise":
            raise RuntimeError("approve is broken")
        return {"allow": Verdict.allow({"s": 1}, details={"grant": "once"}), "deny": Verdict.deny()}.get(
            scenario.approve
        )

    async def middleware(use: ToolUse, call_next: Any) -> object:
        return await call_next()

    def result_message(call: Any, message: Any) -> Any:
        if scenario.raising == "result_message":
            raise RuntimeError("result_message is broken")
        return replace(message, metadata={"seen": True})

    return {
        "gate": gate if scenario.gate is not None else None,
        "approve": approve if scenario.approve else None,
        "middlewares": [middleware] if scenario.gate else [],
        "tool_result_message": result_message if scenario.result_messages else None,
    }


def model_hooks(scenario: Scenario, clock: FakeClock) -> dict[str, Any]:
    """What is done to model calls."""
    done = scenario.model_hooks

    async def before_model_call(info: ModelCallInfo) -> Any:
        if not scenario.plain:
            await clock.sleep(1)
        if scenario.raising == "before_model_call":
            raise RuntimeError("before_model_call is broken")
        if "options" in done and info.state.turns % 2:
            return CallOptions(temperature=0.5)
        if "answer" in done and info.state.turns == 1:
            return assistant_message("in place of the model")
        return None

    def before_request(messages: Any) -> Any:
        if scenario.raising == "before_request":
            raise RuntimeError("before_request is broken")
        return [*messages[-3:], user_message("be quick")]

    return {
        "before_model_call": before_model_call if done else None,
        "before_request": before_request if "rewrite" in done else None,
    }


@dataclass
class Played:
    """A finished scenario."""

    facts: list[Fact]
    events: list[Event]
    state: AgentState
    drained: bool
    requests: list[ModelRequest]


async def play(scenario: Scenario) -> Played:
    """Run the scenario and check the laws at every event and at the end."""
    living = tasks_living()
    clock, watch, abort, inbox = FakeClock(1000.0), Watch(), Abort(), Inbox()
    model = WatchedModel(scenario.script, clock, watch)
    config = LoopConfig(
        model=model,
        limits=Limits(
            turns=scenario.turns,
            tool_calls=scenario.tool_calls,
            concurrency=scenario.concurrency,
            tokens=scenario.tokens,
        ),
        texts=Texts(step_limit="no steps left" if scenario.step_limit else ""),
        steering_mode="one" if scenario.one_by_one else "all",
        retry=Retry(attempts=scenario.attempts, idle_s=10, call_s=100),
        hooks=hooks(scenario, clock),
        inbox=inbox,
        abort=abort,
        log=watch.log,
        clock=clock,
        rand=lambda: 0.5,
    )
    context = AgentContext(tools=tools(watch, clock), system="be brief")
    run = agent_loop("go", context, config)
    events: list[Event] = []
    drained = False
    outside = Outside(abort, inbox, scenario.keep)
    timers = [
        clock.call_later(action.at, partial(outside.act, action.what))
        for action in scenario.actions
        if action.timed and action.what not in ("leave", "cancel", "pause")
    ]
    with anyio.move_on_after(30) as hang, anyio.CancelScope() as scope:
        drained = await consume(run, scenario, watch, events, outside, scope.cancel)
        while drained and run.state.end_reason == "paused":  # a person comes, in another process perhaps
            verdict = Verdict.allow() if scenario.decision == "allow" else Verdict.deny("no")
            waiting = run.state.waiting_calls
            context = dataclasses.replace(context, state=run.state)
            run = agent_loop_continue(context, config, verdict if waiting else None)
            drained = False  # until it is again: this one may be cancelled
            drained = await consume(run, scenario, watch, events, outside, scope.cancel)
    assert not hang.cancelled_caught, "the run hangs"
    for cancel_timer in timers:
        cancel_timer()
    await run.aclose()
    await settle()
    assert tasks_living() == living, "a task outlived the run"
    assert watch.violations == []
    answered = sum(isinstance(fact, ModelResponse) for fact in watch.log.facts)
    given = sum(isinstance(fact, ModelResponse) and fact.source == "hook" for fact in watch.log.facts)
    projected = sum(isinstance(fact, ContextProjected) for fact in watch.log.facts)
    assert len(model.requests) <= answered - given <= projected, "a model call without its response"
    paused = run.state.end_reason == "paused"  # the consumer left before anybody could decide
    check_log(watch.log.facts, paused=paused)
    if drained:
        check_balance(events)
        assert [e for e in events if isinstance(e, Fact)] == [f for f in watch.log.facts if f.run_id]
    check_state(watch.log.facts, run.state)
    check_requests(watch.log.facts)
    rebuilt = [request for request in requests(watch.log.facts) if request.response is not None]
    assert [request.request for request in rebuilt] == model.requests and all(r.exact for r in rebuilt)
    check_nothing_lost(run.state, inbox, outside.sent)
    return Played(watch.log.facts, events, run.state, drained, model.requests)


class Outside:
    """What reaches the run from outside, each message with a text of its own."""

    def __init__(self, abort: Abort, inbox: Inbox, keep: bool) -> None:
        self.keep = keep
        self.abort = abort
        self.inbox = inbox
        self.sent: list[str] = []

    def act(self, what: str) -> None:
        match what:
            case "steer":
                self.sent.append(f"steering {len(self.sent)}")
                self.inbox.steer(self.sent[-1])
            case "follow_up":
                self.sent.append(f"follow-up {len(self.sent)}")
                self.inbox.follow_up(self.sent[-1])
            case "abort":
                self.abort.fire(reason="enough", keep=self.keep)
            case "abort_silent":
                self.abort.fire(marker=False)


async def consume(
    run: EventStream,
    scenario: Scenario,
    watch: Watch,
    events: list[Event],
    outside: Outside,
    cancel: Callable[[], None],
) -> bool:
    """Take events, doing what the scenario says at each; whether the end was reached."""
    folded = run.state
    last = (folded.seq, sys.maxsize)
    async for event in run:
        events.append(event)
        at = (event.seq, getattr(event, "sub", 0))
        assert at > last, "events out of order"
        last = at
        folded = fold(watch.log.facts[folded.seq :], folded)
        assert folded == run.state, "the state is not the fold of the facts"
        for action in scenario.actions:
            if action.timed or action.at != len(events):
                continue
            match action.what:
                case "leave":
                    return False
                case "cancel":
                    cancel()
                case "pause":
                    await anyio.lowlevel.checkpoint()
                case what:
                    outside.act(what)
        if scenario.slow:
            await settle()
        watch.asked_seq = event.seq
    return True


def check_log(facts: list[Fact], *, paused: bool) -> None:
    """Dense numbers, and every pair of the log balanced."""
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    if not facts:
        return
    starts = sum(isinstance(fact, AgentStart) for fact in facts)
    assert sum(isinstance(fact, AgentEnd) for fact in facts) == starts >= 1
    check_balance(facts, paused=paused)
    last = [fact for fact in facts if fact.run_id][-1]
    assert type(last).__name__ == "AgentEnd", "something was recorded after the end"


def check_balance(events: list[Any], *, paused: bool = False) -> None:
    """Each start has its one end, in that order; calls of a paused run are still open."""
    open_messages: set[str] = set()
    open_calls: set[str] = set()
    ended: set[str] = set()
    turn_open = False
    for event in events:
        match event:
            case MessageStart():
                assert event.id not in open_messages
                open_messages.add(event.id)
            case MessageDiscarded():
                open_messages.remove(event.id)
            case MessageEnd():
                open_messages.discard(event.id)
            case ToolExecStart():
                assert event.call_id not in open_calls | ended
                open_calls.add(event.call_id)
            case ToolExecDispatch():
                assert event.call_id in open_calls
            case ToolExecEnd():
                open_calls.remove(event.call_id)
                ended.add(event.call_id)
            case _:
                name = type(event).__name__
                if name == "TurnStart":
                    assert not turn_open
                    turn_open = True
                elif name == "TurnEnd":
                    assert turn_open
                    turn_open = False
    assert not open_messages and (paused or not (open_calls or turn_open))


def check_state(facts: list[Fact], state: AgentState) -> None:
    """The fold of the facts is the state, also after a trip through the codec."""
    codec = Codec()
    assert fold(facts) == state
    assert fold(codec.decode(codec.encode(fact)) for fact in facts) == state
    assert not state.taken and (state.turn is None or state.end_reason == "paused")
    if state.turn is None:
        assert repair_message_sequence(to_messages(state.messages)) == to_messages(state.messages)


def check_requests(facts: list[Fact]) -> None:
    """Every request can be rebuilt from the log alone, with the fingerprint recorded for it."""
    state = AgentState()
    for fact in facts:
        state = apply(state, fact)
        if not isinstance(fact, ContextProjected):
            continue
        assert state.projection is not None
        by_id = dict(zip(state.ids, state.messages, strict=True))
        view = [by_id[ref] if isinstance(ref, str) else entry(ref) for ref in state.projection.view]
        for key in filter(None, (fact.system, fact.tools, fact.options)):
            assert hash_of(state.blobs[key]) == key
        seed = seed_of(fact.system, fact.tools, fact.options)
        _, fingerprint = Lowering().extend(Transcript(view), seed)
        assert fingerprint == fact.fingerprint


def entry(ref: Stored) -> Any:
    return ref.message


def check_nothing_lost(state: AgentState, inbox: Inbox, sent: list[str]) -> None:
    """Each message that was sent is in the transcript or still queued, exactly once."""
    queued = [q.message.text for q in (*state.prompts, *state.steering, *state.follow_ups)]
    held = [m.text for m in state.messages if m.role == "user"] + queued
    if state.seq:
        assert held.count("go") == 1, "the prompt was lost or doubled"
    found = [text for text in sent if held.count(text) == 1]
    assert len(found) + inbox.waiting == len(sent), "a message was lost or doubled"


async def settle() -> None:
    """Let tasks that were told to end do so."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def tasks_living() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return int(sys.modules["trio"].lowlevel.current_statistics().tasks_living)


RETRYABLE = RateLimitError("slow down")
