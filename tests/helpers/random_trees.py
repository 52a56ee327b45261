"""Random trees of agents below agents, played through the real tool ``subagent``.

A ``TreeScenario`` is plain data: what each agent's model answers, what the outside does and when, where the process
dies. A ``Process`` plays it from the logs that the one before it left. The model is one for all agents and knows
nothing: the task names the plan, the conversation says how far it is.

Read with: ``test_tree_laws.py`` (what must hold).
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import strategies as st
from scenarios import settle

from unspool import Agent, Limits, Retry, Usage, Verdict
from unspool.kernel import (
    AuthError,
    ChildEvent,
    ContextProjected,
    Event,
    Fact,
    FakeClock,
    Message,
    MessageEnd,
    ModelRequest,
    RateLimitError,
    StreamEvent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecDispatch,
    raw_tool,
    validate_message_sequence,
)
from unspool.llm.scripted import Cut, Say, ScriptedModel, Wait
from unspool.subagent import AgentDefinition, TreeLimits, tree
from unspool.subagent.subagents import Subagents
from unspool.trajectory import MemoryLog

ROOT = "root"
MAX_AGENTS = 50
PLAIN_TOOLS = ("ok", "asks", "slow", "stubborn", "fail", "crash", "nowhere")
Order = list[tuple[str, Fact]]


# --- what a scenario says -----------------------------------------------------------------------


@dataclass(frozen=True)
class Deed:
    """A tool call. ``tool``: one of ``PLAIN_TOOLS``, or single, tasks, chain with the agents ``below``."""

    tool: str
    below: tuple["Plan", ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a model says at one time. ``error``: once (and then it answers), auth, bug, cut."""

    deeds: tuple[Deed, ...] = ()
    wait: int = 0
    error: str = ""


@dataclass(frozen=True)
class Plan:
    """An agent. ``agent``: plain, keeper (one conversation with its caller), forked."""

    replies: tuple[Reply, ...] = ()
    agent: str = "plain"


@dataclass(frozen=True)
class Act:
    """The outside does ``what`` at the ``at``-th event of a phase, or ``at`` seconds after its beginning.

    ``what``: abort, abort_keep, steer, follow_up, steer_child, stop_child, leave, cancel.
    """

    what: str
    at: int
    timed: bool = False


@dataclass(frozen=True)
class Phase:
    """What happens until the root's run ends or pauses, and what comes then.

    ``answer`` is what a person says to calls that wait: allow, deny, first (only that one is allowed), prompt
    (a message comes instead). ``then``: here, elsewhere (another process goes on), or a kill that leaves so many
    percent of the facts.
    """

    acts: tuple[Act, ...] = ()
    answer: str = "allow"
    then: str | int = "here"


@dataclass(frozen=True)
class TreeScenario:
    root: Plan
    phases: tuple[Phase, ...] = ()
    concurrency: int = 3
    depth: int = 4
    descendants: int = 50
    tokens: int | None = None
    slow: bool = False  # the consumer lets others run before it asks for the next event


@st.composite
def _plans(draw: st.DrawFn, depth: int, room: list[int]) -> Plan:
    room[0] -= 1
    replies = [
        draw(_replies(depth, room)) for _ in range(draw(st.integers(1, 3) if depth else st.integers(0, 2)))
    ]
    return Plan(tuple(replies), draw(st.sampled_from(["plain", "plain", "keeper", "forked"])))


@st.composite
def _replies(draw: st.DrawFn, depth: int, room: list[int]) -> Reply:
    deeds = []
    for _ in range(draw(st.integers(1 if depth else 0, 2))):
        nested = depth > 0 and room[0] > 0 and draw(st.sampled_from([True, True, False]))
        mode = draw(st.sampled_from(["single", "tasks", "chain"] if nested else PLAIN_TOOLS))
        below: list[Plan] = []
        for _ in range(draw(st.integers(1, 3)) if mode in ("tasks", "chain") else int(nested)):
            if room[0] > 0 or not below:
                below.append(draw(_plans(depth - 1, room)))
        deeds.append(Deed(mode, tuple(below)))
    errors = [*[""] * 16, "once", "auth", "bug", "cut"]
    return Reply(tuple(deeds), draw(st.sampled_from([0, 0, 1, 4])), draw(st.sampled_from(errors)))


ACTS = ("abort", "abort_keep", "steer", "follow_up", "steer_child", "stop_child", "leave", "cancel")
_acts = st.builds(Act, st.sampled_from(ACTS), st.integers(0, 120), st.just(False)) | st.builds(
    Act, st.sampled_from(ACTS[:-2]), st.integers(0, 9), st.just(True)
)
_phases = st.builds(
    Phase,
    st.lists(_acts, max_size=2).map(tuple),
    st.sampled_from(["allow", "allow", "deny", "first", "prompt"]),
    st.sampled_from(["here", "elsewhere"]) | st.integers(0, 100),
)


@st.composite
def trees(draw: st.DrawFn) -> TreeScenario:
    """Any scenario."""
    return TreeScenario(
        draw(_plans(draw(st.sampled_from([2, 3, 4, 1])), [MAX_AGENTS])),
        tuple(draw(st.lists(_phases, max_size=4))),
        concurrency=draw(st.integers(1, 3)),
        depth=draw(st.sampled_from([4, 4, 4, 2, 1])),
        descendants=draw(st.sampled_from([50, 50, 50, 6, 2])),
        tokens=draw(st.sampled_from([None, None, None, None, 40, 150])),
        slow=draw(st.booleans()),
    )


# --- how it is played ---------------------------------------------------------------------------


class Clock(FakeClock):
    """A fake clock that gives a tree time to settle: an event from far below passes through every level."""

    SETTLE = 250

    async def stop(self) -> None:
        """Return once it does nothing any more; timers that are left are an error."""
        while self._driver is not None and not self._driver.done:
            assert self._cancelled >= {number for _, number, _ in self._timers}, "a timer is left"
            await anyio.lowlevel.checkpoint()


@dataclass
class Session:
    """What is watched of one session. ``kept`` is how many facts it began with in this process."""

    log: MemoryLog
    kept: int
    asked: int  # what the consumer at the top has asked beyond, by number
    requests: list[ModelRequest] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)


class Logs(dict[str, MemoryLog]):
    """The logs of the children; each new one is told."""

    def __init__(self, tell: Callable[[MemoryLog], None]) -> None:
        super().__init__()
        self._tell = tell

    def setdefault(self, session: str, log: MemoryLog) -> MemoryLog:
        if session not in self:
            self._tell(log)
            self[session] = log
        return self[session]


class Process:
    """One process: it begins with what the logs of the one before hold, and notes what it stores, in order."""

    def __init__(self, scenario: TreeScenario, kept: Order, *, killed: bool) -> None:
        tree._trees.clear()  # of processes before
        self.scenario, self.killed = scenario, killed
        self.order: Order = list(kept)
        self.drained = True  # whether every phase so far was seen to its end
        self.violations: list[str] = []  # an assertion in a model or a tool would be its outcome
        self.sessions: dict[str, Session] = {}
        self.session_of: dict[int, str] = {}  # which session does which plan
        self.ran = {fact.idempotency_key for _, fact in kept if isinstance(fact, ToolExecDispatch)}
        self.failed: set[tuple[int, int]] = set()
        self.asking = 0  # model calls of children under way
        self.sent = 0
        self.scripts = Scripts(scenario.root)
        self.clock = Clock(max((fact.time for _, fact in kept), default=0.0))
        self.model = TreeModel(self)
        self.subagents = Subagents(
            [
                AgentDefinition(name="plain"),
                AgentDefinition(name="keeper", context="isolated"),
                AgentDefinition(name="forked", context="fork"),
            ],
            tree=TreeLimits(
                depth=scenario.depth, descendants=scenario.descendants, concurrency=scenario.concurrency
            ),
        )
        logs = Logs(self._watch)
        by_session: dict[str, list[Fact]] = {ROOT: []}
        for session, fact in kept:
            by_session.setdefault(session, []).append(fact)
            self._note_plan(session, fact)
        self.log = MemoryLog(by_session.pop(ROOT), session=ROOT)
        self._watch(self.log)
        for session, facts in by_session.items():
            logs.setdefault(session, MemoryLog(facts, session=session))
        self.subagents.logs._logs = logs
        self.agent: Agent[str] = Agent(
            self.model,
            name=ROOT,
            tools=[*[self._tool(name) for name in PLAIN_TOOLS[:-1]], self.subagents.tool],
            log=self.log,
            state=self.log.state(),
            clock=self.clock,
            limits=Limits(tokens=scenario.tokens, turns=12),
            retry=Retry(attempts=1, idle_s=60, call_s=200),
            rand=lambda: 0.5,
        )

    def demand(self, holds: bool, violation: str) -> None:
        if not holds:
            self.violations.append(violation)

    def _watch(self, log: MemoryLog) -> None:
        self.sessions[log.session] = Session(log, len(log.facts), log.seq)
        append = log.append

        def noted(fact: Fact) -> None:
            append(fact)
            self.order.append((log.session, fact))
            self._note_plan(log.session, fact)

        log.append = noted  # type: ignore[method-assign]  # the log of one scenario

    def _note_plan(self, session: str, fact: Fact) -> None:
        if isinstance(fact, MessageEnd) and fact.run_id and (number := _plan_in(fact.message)) is not None:
            self.session_of[number] = session

    def _tool(self, name: str) -> Any:
        async def run(args: Mapping[str, Any], ctx: ToolContext) -> object:
            session = self.sessions[ctx.session]
            announced = [
                fact.seq
                for fact in session.log.facts
                if isinstance(fact, ToolExecDispatch) and fact.call_id == ctx.call_id
            ]
            self.demand(announced[-1] <= session.asked, f"{name} ran before that was seen")
            self.demand(ctx.idempotency_key not in self.ran, f"{name} ran twice")
            self.ran.add(ctx.idempotency_key)
            match name:
                case "fail":
                    raise ToolError("no such thing")
                case "crash":
                    raise ZeroDivisionError("oops")
                case "slow":
                    ctx.progress("working", percent=10)
                    await self.clock.sleep(3)
                case "stubborn":
                    with anyio.CancelScope(shield=True):
                        await self.clock.sleep(2)
            return f"{name} is done"

        return raw_tool(
            name, "Does a thing.", {}, run, needs_approval=name == "asks", concurrency_safe=name != "ok"
        )

    # --- phases ----------------------------------------------------------------------------------

    async def phase(self, phase: Phase, *, last: bool) -> bool:
        """Go on until the root's run ends or pauses; False where there is nothing to go on with."""
        stream = self._stream(phase, last=last)
        if stream is None:
            return False
        timers = [
            self.clock.call_later(act.at, partial(self._act, act.what)) for act in phase.acts if act.timed
        ]
        ended = False
        with anyio.CancelScope() as scope:
            async with stream as events:
                count = 0
                async for event in events:
                    self._see(event)
                    count += 1
                    here = [act.what for act in phase.acts if not act.timed and act.at == count]
                    if "leave" in here:
                        break
                    if "cancel" in here:
                        scope.cancel()
                    for what in here:
                        self._act(what)
                    if self.scenario.slow:
                        await settle()
                    self._asked(event)
                else:
                    ended = True
        for cancel in timers:
            cancel()
        self.drained = self.drained and ended
        return True

    def _stream(self, phase: Phase, *, last: bool) -> Any:
        agent, state = self.agent, self.agent.state
        waiting = [each.call.id for each in state.waiting_calls]
        if waiting and phase.answer != "prompt":
            if phase.answer == "first" and not last:
                waiting = waiting[:1]
            verdict = Verdict.deny("no") if phase.answer == "deny" else Verdict.allow()
            return agent.stream(decisions=dict.fromkeys(waiting, verdict))
        if not state.messages and not state.prompts:
            return agent.stream("plan 0")
        if agent.can_continue and phase.answer != "prompt":
            return agent.stream()
        return None if last else agent.stream("and now?")

    def _act(self, what: str) -> None:
        running = self.subagents.running()
        self.sent += 1
        match what:
            case "abort" | "abort_keep":
                self.agent.abort(keep=what == "abort_keep")
            case "steer":
                self.agent.steer(f"message {self.sent}")
            case "follow_up":
                self.agent.follow_up(f"message {self.sent}")
            case "steer_child" if running:
                self.subagents.steer(running[self.sent % len(running)].session, f"message {self.sent}")
            case "stop_child" if running:
                self.subagents.stop(running[self.sent % len(running)].session)

    def _see(self, event: Event) -> None:
        session, inner = innermost(event)
        self.sessions[session].seen.append(inner)

    def _asked(self, event: Event) -> None:
        session, inner = innermost(event)
        self.sessions[session].asked = max(self.sessions[session].asked, inner.seq)


def innermost(event: Event) -> tuple[str, Event]:
    """The session that an event of the root's stream is of, and the event there."""
    session = ROOT
    while isinstance(event, ChildEvent):
        session, event = event.child, event.event
    return session, event


class Scripts:
    """The plans of a tree by their numbers, the root's is 0; what each says at each time."""

    def __init__(self, root: Plan) -> None:
        self.plans: list[list[tuple[Reply, list[ToolCall]]]] = []
        self._add(root)

    def _add(self, plan: Plan) -> int:
        number = len(self.plans)
        script: list[tuple[Reply, list[ToolCall]]] = []
        self.plans.append(script)
        for reply in plan.replies:
            script.append((reply, [self._call(f"c{n}", deed) for n, deed in enumerate(reply.deeds, 1)]))
        return number

    def _call(self, id: str, deed: Deed) -> ToolCall:
        if not deed.below:
            return ToolCall(id=id, name=deed.tool, args={})
        steps = [{"agent": plan.agent, "task": f"plan {self._add(plan)}"} for plan in deed.below]
        return ToolCall(
            id=id, name="subagent", args=dict(steps[0]) if deed.tool == "single" else {deed.tool: steps}
        )

    def said(self, number: int, place: int) -> tuple[Reply, list[ToolCall]]:
        script = self.plans[number]
        return script[place] if place < len(script) else (Reply(), [])


class TreeModel(ScriptedModel):
    """The model of every agent. It checks each request it is sent."""

    def __init__(self, process: Process) -> None:
        super().__init__(clock=process.clock)
        self._process = process

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        process = self._process
        messages = list(request.messages)
        number, place = _position(messages)
        name = process.session_of[number]
        session = process.sessions[name]
        session.requests.append(request)
        announced = [fact.seq for fact in session.log.facts if isinstance(fact, ContextProjected)]
        process.demand(announced[-1] <= session.asked, f"the model was asked before that was seen ({name})")
        process.demand(validate_message_sequence(messages) == [], f"unpaired calls ({name})")
        nested = name != ROOT
        process.asking += nested
        process.demand(process.asking <= process.scenario.concurrency, "more at once than there are slots")
        try:
            answer = ScriptedModel([self._answer(number, place)], clock=process.clock)
            async with aclosing(answer.stream(request)) as events:
                async for event in events:
                    yield event
        finally:
            process.asking -= nested

    def _answer(self, number: int, place: int) -> Say:
        reply, calls = self._process.scripts.said(number, place)
        text = f"{number}.{place}"
        usage = Usage(input_tokens=10 + number, output_tokens=1 + place)
        failed = (number, place) in self._process.failed
        self._process.failed.add((number, place))
        match reply.error:
            case "once" if not failed:
                return Say([text, RateLimitError("slow down")])
            case "auth":
                return Say([AuthError("no key")])
            case "bug":
                return Say([ZeroDivisionError("oops")])
            case "cut":
                return Say([text, Cut()], usage=usage)
        return Say([text, *([Wait(reply.wait)] if reply.wait else []), *calls], usage=usage)


def _position(messages: list[Message]) -> tuple[int, int]:
    """Which plan a conversation is on, and how many replies it has."""
    for index in range(len(messages) - 1, -1, -1):
        if (number := _plan_in(messages[index])) is not None:
            return number, sum(message.role == "assistant" for message in messages[index:])
    raise AssertionError("no plan")


def _plan_in(message: Any) -> int | None:
    if getattr(message, "role", "") == "user":
        for line in message.text.splitlines():
            if line.startswith("plan "):
                return int(line[5:])
    return None


def calls_below(plan: Plan) -> Iterator[Plan]:
    """All plans of a tree, the one given first."""
    yield plan
    for reply in plan.replies:
        for deed in reply.deeds:
            for below in deed.below:
                yield from calls_below(below)
