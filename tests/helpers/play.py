"""Plays a script through the loop and gives what came of it, readable as a trace.

A test says what the model answers and what happens outside at which event or second; the clock is a
fake one. After each run the facts must fold into the state, and every pair must be balanced.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace
from scenarios import check_balance, settle, tasks_living

from unspool.kernel import (
    Abort,
    AgentContext,
    AgentEnd,
    AgentMessage,
    AgentState,
    CallOptions,
    ChatModel,
    Codec,
    ContextManager,
    Decisions,
    ErrorEvent,
    Event,
    Fact,
    FakeClock,
    Hooks,
    Inbox,
    Limits,
    LogError,
    LoopConfig,
    Message,
    MessageEnd,
    ModelRequest,
    Retry,
    RetryEvent,
    RunResult,
    Tool,
    ToolContext,
    ToolExecEnd,
    agent_loop,
    agent_loop_continue,
    fold,
)
from unspool.kernel.clock import SystemClock
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.trace import line, trace
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import MemoryLog, requests

VALUE = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}


class EncodedLog(MemoryLog):
    """A log that keeps facts as their JSON, and refuses what has none; ``refuse_at`` refuses one more."""

    def __init__(self, refuse_at: int = 0, error: Exception | None = None) -> None:
        super().__init__()
        self.refuse_at = refuse_at
        self.error = error or OSError("session disk full")
        self.codec = Codec()

    def append(self, fact: Fact, /) -> None:
        if fact.seq == self.refuse_at:
            raise self.error
        self.codec.encode(fact)
        super().append(fact)


@dataclass
class Outside:
    """What can reach a run from outside."""

    inbox: Inbox
    abort: Abort
    clock: Any

    def steer(self, message: str | AgentMessage) -> None:
        self.inbox.steer(message)

    def follow_up(self, message: str | AgentMessage) -> None:
        self.inbox.follow_up(message)

    def stop(self, *, marker: bool = True, reason: str = "") -> None:
        self.abort.fire(marker=marker, reason=reason)


Act = Callable[[Outside], None]


@dataclass
class Played:
    """What came of a run."""

    events: list[Event]
    facts: list[Fact]
    state: AgentState
    requests: list[ModelRequest]
    now: float
    error: LogError | None = None
    result: RunResult[str] | None = None

    @property
    def trace(self) -> str:
        """All events, one a line."""
        return trace(self.events)

    @property
    def brief(self) -> list[str]:
        """The facts about replies, tools, retries, errors and the end, one line each."""
        kinds = (ToolExecEnd, RetryEvent, ErrorEvent, AgentEnd)
        return [
            line(fact)
            for fact in self.facts
            if isinstance(fact, kinds) or (isinstance(fact, MessageEnd) and role_of(fact) != "tool")
        ]

    @property
    def end(self) -> AgentEnd:
        last = self.events[-1]
        assert isinstance(last, AgentEnd)
        return last

    @property
    def texts(self) -> list[str]:
        """The transcript: role and text."""
        return [f"{message.role}: {message.text}" for message in self.state.messages]

    def sent(self, request: int = -1) -> list[str]:
        """What the model was sent with its ``request``-th call: role and text or calls."""
        return [shown(message) for message in self.requests[request].messages]

    def outcomes(self) -> dict[str, str]:
        """How each call ended."""
        return {fact.call_id: fact.outcome for fact in self.facts if isinstance(fact, ToolExecEnd)}

    def results(self) -> dict[str, str]:
        """What the model was told of each call."""
        return {
            message.tool_call_id: message.text
            for message in self.state.messages
            if isinstance(message, Message) and message.role == "tool"
        }

    def all_of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Player:
    """Runs scripts on one backend: ``play("hello")``."""

    backend: str

    def __call__(
        self,
        *script: Any,
        prompt: Any = "go",
        tools: Sequence[Tool] = (),
        on: Mapping[str, Act] | None = None,
        at: Mapping[float, Act] | None = None,
        away: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> Played:
        """Play ``script``; ``on`` acts at the first event whose line begins so, ``at`` at a second.

        ``away`` says how many seconds the consumer stays away after such an event.

        ``prompt=None`` continues, with ``decisions`` where calls wait. Further settings are those of ``_play``.
        """
        return anyio.run(
            partial(self._play, script, prompt, tools, on or {}, at or {}, away or {}, **settings),
            backend=self.backend,
        )

    async def _play(
        self,
        script: Sequence[Any],
        prompt: Any,
        tools: Sequence[Tool],
        on: Mapping[str, Act],
        at: Mapping[float, Act],
        away: Mapping[str, float],
        *,
        model: ChatModel | None = None,
        messages: Sequence[AgentMessage] = (),
        state: AgentState | None = None,
        decisions: Decisions | None = None,
        system: str = "",
        limits: Limits | None = None,
        retry: Retry | None = None,
        hooks: Hooks | None = None,
        options: CallOptions | None = None,
        context: ContextManager | None = None,
        codec: Codec | None = None,
        inbox: Inbox | None = None,
        abort: Abort | None = None,
        log: MemoryLog | None = None,
        rand: Callable[[], float] = lambda: 1.0,
        real_time: bool = False,
        **config: Any,
    ) -> Played:
        clock: Any = SystemClock() if real_time else FakeClock()
        outside = Outside(inbox or Inbox(), abort or Abort(), clock)
        scripted = ScriptedModel(script, clock=clock)
        log = log if log is not None else EncodedLog()
        known = len(log.facts)  # of earlier runs of the session
        loop_config = LoopConfig(
            model=model or scripted,
            limits=limits or Limits(),
            retry=retry or Retry(),
            hooks=hooks or Hooks(),
            options=options or CallOptions(),
            context=context,
            codec=codec or Codec(),
            inbox=outside.inbox,
            abort=outside.abort,
            log=log,
            clock=clock,
            rand=rand,
            **config,
        )
        given = AgentContext(messages=messages, tools=tools, system=system, state=state)
        living = tasks_living()
        timers = [clock.call_later(seconds, partial(act, outside)) for seconds, act in at.items()]
        run = (
            agent_loop_continue(given, loop_config, decisions)
            if prompt is None
            else agent_loop(prompt, given, loop_config)
        )
        played = Played([], log.facts, AgentState(), getattr(model or scripted, "requests", []), 0.0)
        waiting, absences = dict(on), dict(away)
        with anyio.move_on_after(5) as hang:
            try:
                async for event in run:
                    played.events.append(event)
                    shown_as = line(event)
                    for start in [start for start in waiting if shown_as.startswith(start)]:
                        waiting.pop(start)(outside)
                    for start in [start for start in absences if shown_as.startswith(start)]:
                        await clock.sleep(absences.pop(start))
                played.result = await run.result()
            except LogError as error:
                played.error = error
            finally:
                await run.aclose()
        assert not hang.cancelled_caught, f"the run hangs after {played.trace}"
        for cancel in timers:
            cancel()
        played.state, played.now = run.state, clock.monotonic()
        await settle()
        assert tasks_living() == living, "a task outlived the run"
        assert fold(log.facts[known:], state) == run.state
        if played.error is None:
            paused = run.state.end_reason == "paused"  # its calls are still to be ended
            if state is None and not paused:  # a session that goes on may end what was begun before
                check_balance(played.events)
            if state is None and not known and isinstance(model or scripted, ScriptedModel):
                check_rebuilt(log.facts, played.requests)
            codec_of = loop_config.codec
            for event in played.events:
                codec_of.encode(event)
        return played


def check_rebuilt(facts: list[Fact], sent: list[ModelRequest]) -> None:
    """From the facts alone the requests are those that the model was really sent."""
    rebuilt = [request for request in requests(facts) if request.response is not None]
    assert [request.exact for request in rebuilt] == [True] * len(sent)
    assert [request.request for request in rebuilt] == sent


# --- tools -------------------------------------------------------------------------------------


async def _echo(args: Any, ctx: ToolContext) -> object:
    return args["value"]


def echo(name: str = "echo", **traits: Any) -> RawTool:
    """A tool that answers with its argument ``value``."""
    return raw_tool(name, "Says it again.", VALUE, _echo, **traits)


def gives(result: object, name: str = "tool", **traits: Any) -> RawTool:
    """A tool that gives ``result``, or raises it."""

    async def run(args: Any, ctx: ToolContext) -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    return raw_tool(name, "Gives a thing.", {}, run, **traits)


@dataclass
class Spans:
    """Tools that take a while, and the spans of time in which they ran."""

    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    most: int = 0
    running: int = 0

    def tool(self, name: str, **traits: Any) -> RawTool:
        """A tool that takes ``s`` seconds and gives its call's id."""

        async def run(args: Any, ctx: ToolContext) -> object:
            self.began[ctx.call_id] = ctx.clock.monotonic()
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await ctx.clock.sleep(args.get("s", 1))
            finally:
                self.running -= 1
                self.ended[ctx.call_id] = ctx.clock.monotonic()
            return ctx.call_id

        return raw_tool(name, "Takes a while.", {}, run, **traits)


# --- traces ------------------------------------------------------------------------------------


def lines(text: str) -> str:
    """A golden trace as it is compared: without indentation and blank lines."""
    return "\n".join(" ".join(row.split()) for row in text.splitlines() if row.strip())


def role_of(fact: MessageEnd) -> str:
    return fact.message.role if fact.message else "custom"


def shown(message: Message) -> str:
    """Role, text and calls of a message."""
    calls = " ".join(f"{call.name}#{call.id}" for call in message.tool_calls)
    name = f"tool {message.tool_call_id}" if message.role == "tool" else message.role
    return " ".join(f"{name}: {message.text} {calls}".split())


def without_ids(message: Message) -> Message:
    """A message as it was before it was committed, to compare with."""
    return replace(message, id="", timestamp=0.0)
