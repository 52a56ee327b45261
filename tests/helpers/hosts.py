"""Hosts that take part in their runs, each in another way: what a replay must do without, or with.

``HOSTS[name]()`` makes one: the options of its agent, what its model answers, what is done with it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from nests import Nesting

from unspool.kernel import (
    Agent,
    AgentMessage,
    ApprovalInfo,
    BaseMessage,
    CallOptions,
    Codec,
    Compaction,
    ContextUsage,
    Edit,
    Fact,
    FakeClock,
    Hooks,
    Limits,
    Message,
    ModelCallInfo,
    ModelRequest,
    Projection,
    RateLimitError,
    Refused,
    Retry,
    StopInfo,
    StopVerdict,
    SystemBlock,
    Text,
    Texts,
    Thinking,
    ToolContext,
    ToolError,
    ToolReference,
    ToolResult,
    ToolUse,
    TurnInfo,
    Usage,
    Verdict,
    assistant_message,
    raw_tool,
    tool,
    user_message,
)
from unspool.kernel.errors import ContextOverflowError, OverloadedError
from unspool.llm.scripted import Say, ScriptedModel, Unfinished, call
from unspool.trajectory.memory import MemoryLog


async def prompt(agent: Agent[Any]) -> None:
    """What is done with most of them."""
    await agent.run("go")


@dataclass
class Host:
    """The code of a host, and what its model answers."""

    script: Sequence[Any]
    options: dict[str, Any] = field(default_factory=dict)
    act: Callable[[Agent[Any]], Awaitable[object]] = prompt

    def agent(self, log: Any = None, **changes: Any) -> Agent[Any]:
        clock = FakeClock(1000.0)
        self.model = ScriptedModel(self.script, clock=clock)
        given = {"retry": Retry(attempts=2), "clock": clock, "rand": lambda: 0.5, "log": log}
        return Agent(self.model, **{**given, **self.options, **changes})

    async def session(self, **changes: Any) -> tuple[Agent[Any], list[Fact]]:
        """What was done, with the facts of it."""
        log = MemoryLog(session="session")
        agent = self.agent(log, **changes)
        await self.act(agent)
        return agent, log.facts


# --- tools -----------------------------------------------------------------------------------------


@tool(read_only=True)
async def look(place: str, ctx: ToolContext) -> str:
    """Look somewhere."""
    await ctx.clock.sleep(len(place))
    return f"nothing in the {place}"


@tool
def write(text: str) -> str:
    """Write something, in a worker thread."""
    return f"wrote {text}"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(
    title="careful",
    activity=lambda args: f"doing {args.get('n')}",
    concurrency_safe=lambda args: args.get("n", 0) < 3,
    needs_approval=lambda args: args.get("n", 0) > 7,
    idempotent=lambda args: True,
)
async def vary(n: int, ctx: ToolContext) -> str:
    """Has traits that depend on its arguments."""
    await ctx.clock.sleep(n)
    return f"did {n}"


def _validate(args: Any, ctx: ToolContext) -> Refused | None:
    return Refused("not there", code=3) if args.get("path") == "/" else None


@tool(validate=_validate, preview=lambda args, ctx: {"diff": args})
async def edit(path: str) -> ToolResult:
    """Edit a file."""
    return ToolResult(content=[Text(f"edited {path}")], details={"lines": 1})


@tool
async def fail(hard: bool = False) -> str:
    """Fail."""
    raise ToolError("there is no such thing", hard=hard)


async def _find(args: Any, ctx: ToolContext) -> object:
    return [Text("found"), ToolReference("secret")]


find = raw_tool("find", "Find tools.", {"type": "object"}, _find)
secret = raw_tool("secret", "Hidden.", {"type": "object"}, lambda args, ctx: "hush", deferred=True)
TOOLS = [look, write, pay, vary, edit, fail, find, secret]


# --- context managers ------------------------------------------------------------------------------


class Newest:
    """Shows the newest exchange, and counts."""

    def __init__(self, keep: int = 3) -> None:
        self.keep = keep

    async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Projection:
        start = max(0, len(view) - self.keep)
        while start and view[start].role == "tool":
            start -= 1
        return Projection(messages=list(view)[start:], tokens=10 * (len(view) - start))

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: Any, /) -> Compaction:
        return Compaction(changed=False)

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """Nothing to remember."""

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> None:
        return None


class Summaries(Newest):
    """Has a model say what was said before, and shows that and the rest; an overflow is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.said = 0
        self.summary: Message | None = None

    async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Projection:
        messages = list(view)
        cut = max((at for at, each in enumerate(messages) if each.role == "user"), default=0)
        if cut > 2 and self.said != cut:
            self.summary, self.said = await self._ask(messages[:cut], scope), cut
        head = [self.summary] if self.summary is not None and cut else []
        return Projection(messages=[*head, *messages[cut if head else 0 :]])

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: Any, /) -> Compaction:
        first = next(at for at, each in enumerate(view) if isinstance(each, Message))
        summary = await self._ask(view[first : first + 1], scope)
        edits = [Edit(start=first, stop=first + 1, messages=[summary])]
        return Compaction(changed=True, commit=True, edits=edits, tokens_before=9)

    async def _ask(self, messages: Sequence[AgentMessage], scope: Any) -> Message:
        request = ModelRequest(
            messages=[*[each for each in messages if isinstance(each, Message)], user_message("Sum up.")],
            system=(SystemBlock(text="You sum up."),),
            options=CallOptions(temperature=1),
        )
        reply = await scope.call_model(request, "compaction")
        return user_message(f"Before: {reply.text}")


class Remembers(Newest):
    """Shows the newest exchange and says, without a commit, what it no longer shows."""

    def __init__(self, keep: int = 3) -> None:
        super().__init__(keep)
        self.hidden = 0

    async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Projection:
        made = await super().project(view, scope)
        hidden, rewrite = len(view) - len(made.messages), None
        if hidden > self.hidden:
            self.hidden = hidden
            rewrite = Compaction(changed=True, edits=[Edit(start=0, stop=hidden)], reason="threshold")
        return Projection(messages=made.messages, tokens=made.tokens, compaction=rewrite)


# --- an application's messages ---------------------------------------------------------------------


class Reading(msgspec.Struct, BaseMessage, frozen=True):
    """What a sensor said."""

    celsius: float

    @property
    def role(self) -> str:
        return "user"

    @property
    def text(self) -> str:
        return f"{self.celsius} degrees"

    def to_message(self) -> Message:
        return user_message(f"[sensor] {self.text}")


def codec() -> Codec:
    known = Codec()
    known.register("reading", Reading)
    return known


# --- the hosts ---------------------------------------------------------------------------------------


def parallel() -> Host:
    calls = [
        call("c1", "look", place="kitchen"),
        call("c2", "look", place="attic"),
        call("c3", "write", text="x"),
    ]
    wrong = [call("c4", "look", where="?"), call("c5", "nowhere"), call("c6", "fail")]
    return Host([["let me see", *calls], wrong, [call("c7", "look", place="hall")], "done"], {"tools": TOOLS})


def gated() -> Host:
    async def gate(use: ToolUse) -> Verdict:
        match use.call.name:
            case "write":
                return Verdict.allow({"text": f"<{use.args['text']}>"})
            case "fail":
                return Verdict.deny("that fails anyway", by="rule", details={"n": 1})
            case "look" if use.args["place"] == "safe":
                return Verdict.ask("who wants to know?", by="rule")
        return Verdict.allow(by="mode", reason="harmless", details={"tool": use.call.name})

    def approve(info: ApprovalInfo) -> dict[str, Verdict]:
        decided = {each.id: Verdict.allow(by="eve") for each in info.calls if each.name != "edit"}
        return {
            **decided,
            **{each.id: Verdict.allow({"amount": 1}) for each in info.calls if each.name == "pay"},
        }

    script = [
        [call("c1", "write", text="a"), call("c2", "fail"), call("c3", "look", place="safe")],
        [call("c4", "pay", amount=9), call("c5", "pay", amount=8), call("c6", "edit", path="x")],
        [call("c7", "edit", path="/"), call("c8", "look", place="hall")],
        "done",
    ]
    return Host(script, {"tools": TOOLS, "hooks": Hooks(gate=gate, approve=approve)})


def paused() -> Host:
    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        agent.decide({"c1": Verdict.allow({"amount": 1}, by="eve")})
        await agent.resume({"c2": Verdict.deny("too much")})
        await agent.run("and now?")

    script = [[call("c1", "pay", amount=5), call("c2", "pay", amount=500)], "one is paid", "nothing"]
    return Host(script, {"tools": TOOLS}, act)


def middlewares() -> Host:
    async def outer(use: ToolUse, call_next: Any) -> object:
        return ToolResult(content=f"outer({await call_next()})", details={"seen": use.call.id})

    async def inner(use: ToolUse, call_next: Any) -> object:
        if use.call.name == "write":
            return "not written at all"
        return f"inner({await call_next()})"

    script = [[call("c1", "look", place="hall"), call("c2", "write", text="x")], "done"]
    return Host(script, {"tools": TOOLS, "hooks": Hooks(middlewares=[outer, inner])})


def turns() -> Host:
    def before_turn(info: TurnInfo) -> Sequence[str]:
        return ["remember the milk", "and the bread"] if info.index == 2 else []

    def stop_guard(info: StopInfo) -> StopVerdict:
        if info.turns < 3:
            return StopVerdict("go_on", "are you sure?")
        return StopVerdict("stop")

    def result(made: Any, plain: Message) -> Message:
        return msgspec.structs.replace(plain, metadata={"call": made.id})

    hooks = Hooks(
        before_turn=before_turn,
        stop_guard=stop_guard,
        after_turn=lambda info: None,
        after_model_call=lambda info: None,
        before_stop=lambda info: None,
        stop_after_tool=lambda end: end.tool == "edit",
        tool_result_message=result,
    )

    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        await agent.run("again")

    script = [[call("c1", "look", place="hall")], "yes", "quite", [call("c2", "edit", path="x")], "sure"]
    return Host([*script, *["yes"] * 5], {"tools": TOOLS, "hooks": hooks}, act)


def typed() -> Host:
    return Host(["Rome, I think", '{"name": 3}', "[1, 2]"], {"tools": TOOLS, "output": list[int]})


def requests() -> Host:
    def before_model_call(info: ModelCallInfo) -> Any:
        match info.state.turns:
            case 1:
                return CallOptions(temperature=1)
            case 3:
                return assistant_message("in place of the model")
        return None

    def before_request(messages: Sequence[Message]) -> Sequence[Message]:
        return [*messages[-4:], user_message("be quick")] if len(messages) > 4 else messages

    hooks = Hooks(before_model_call=before_model_call, before_request=before_request)
    script = [[call(f"c{n}", "look", place="x" * n)] for n in range(1, 4)]
    return Host(
        [*script, "not asked"], {"tools": TOOLS, "hooks": hooks, "options": CallOptions(max_tokens=9)}
    )


async def three_prompts(agent: Agent[Any]) -> None:
    for text in ("first", "second", "third"):
        await agent.run(text)


def newest() -> Host:
    script = ["one", [call("c1", "look", place="hall")], "two", [call("c2", "look", place="den")], "three"]
    return Host(script, {"tools": TOOLS, "context": Newest()}, three_prompts)


def summaries() -> Host:
    script = ["one", "two", "a summary", [call("c1", "look", place="hall")], "three", "another summary", "x"]
    return Host(script, {"tools": TOOLS, "context": Summaries()}, three_prompts)


def remembered() -> Host:
    def before_model_call(info: ModelCallInfo) -> Message | None:
        second = (info.state.runs, info.state.turn_index) == (2, 2)
        return assistant_message("a hook's answer") if second else None

    def before_request(messages: Sequence[Message]) -> Sequence[Message]:
        return [user_message("be quick"), *messages] if len(messages) > 2 else messages

    hooks = Hooks(before_model_call=before_model_call, before_request=before_request)
    script: list[list[Any]] = [["one"], [call("c1", "look", place="hall")], ["two"]]
    said = [Say(each, usage=Usage(input_tokens=9, output_tokens=3)) for each in script]
    return Host(said, {"tools": TOOLS, "context": Remembers(), "hooks": hooks}, three_prompts)


def overflow() -> Host:
    script = ["one", ContextOverflowError("too long"), "a summary", "two", "summary", "three", "four", "five"]
    return Host(script, {"context": Summaries()}, three_prompts)


def overflow_that_stays() -> Host:
    too_long = ContextOverflowError("too long")
    return Host(
        [too_long, "a summary", too_long, "one", "two", "three"], {"context": Summaries()}, three_prompts
    )


def overflow_left_alone() -> Host:
    return Host([ContextOverflowError("too long")])


def retries() -> Host:
    limit = RateLimitError("slow down", retry_after_s=50.0)
    return Host(
        [limit, OverloadedError("busy"), "at last", OverloadedError("busy"), "again"], {}, three_prompts
    )


def other_words() -> Host:
    texts = Texts(
        go_on="weiter",
        unknown_tool="kein {name}, nur {known}",
        invalid="falsch: {problems}",
        denied="verboten{reason}",
        step_limit="Schluss",
        not_json="kein JSON: {problem}",
        skipped="ausgelassen",
        limit_reached="genug",
        cut_off="abgeschnitten",
        disabled="{name} ist aus",
        undecided="niemand",
    )

    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        await agent.resume({"c5": Verdict.deny("no")})

    script = [
        Say(["half"], stop_reason="length"),
        [call("c1", "nowhere"), call("c2", "look", where=1), call("c3", "fail"), call("c4", "fail")],
        Say([Unfinished("c9", "look", '{"pl'), call("c5", "pay", amount=1), call("c6", "pay", amount=2)]),
        [call("c7", "look", place="x")],
        [call("c8", "look", place="y")],
    ]
    limits = Limits(turns=4, tool_errors=1)
    return Host(script, {"tools": TOOLS, "texts": texts, "limits": limits}, act)


def traits() -> Host:
    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        await agent.resume(Verdict.allow())

    script = [
        [call("c1", "vary", n=1), call("c2", "vary", n=2), call("c3", "vary", n=5), call("c4", "vary", n=2)],
        [call("c5", "vary", n=1), call("c6", "vary", n=8), call("c7", "vary", n=6)],
        "done",
    ]
    return Host(script, {"tools": TOOLS}, act)


def own_messages() -> Host:
    async def act(agent: Agent[Any]) -> None:
        await agent.run([Reading(1.5), "what now?"])
        agent.steer(Reading(2.5))
        await agent.run("and now?")

    hooks = Hooks(before_turn=lambda info: [Reading(9.0)] if info.index == 1 else [])
    return Host(["cold", "warm"], {"codec": codec(), "hooks": hooks}, act)


def deferred() -> Host:
    script = [[call("c1", "find")], [call("c2", "secret")], "used"]
    return Host(
        script, {"tools": TOOLS, "system": [SystemBlock(text="a"), SystemBlock(text="b", cache="1h")]}
    )


def thoughts() -> Host:
    thinking = Thinking(text="hm", signature="sig")
    script: list[Any] = [[thinking, "let me see", call("c1", "look", place="x")], "fine"]
    return Host(script, {"tools": TOOLS, "options": CallOptions(thinking="high", extra={"a": [1, 1.0]})})


def limited() -> Host:
    script = [[call("c1", "look", place="x"), call("c2", "look", place="yy"), call("c3", "write", text="x")]]
    return Host(
        [*script, "x"], {"tools": TOOLS, "limits": Limits(tool_calls=2, concurrency=2, result_bytes=5)}
    )


def nested() -> Host:
    async def act(agent: Agent[Any]) -> None:
        await agent.run("go")
        agent.decide({"c1/p2": Verdict.deny("too much")})
        while agent.state.waiting_calls:
            await agent.resume(Verdict.allow({"n": 7}, by="eve"))
        await agent.run("and now?")
        agent.steer("something else")
        await agent.continue_()

    below: dict[str, MemoryLog] = {}
    script = [
        [call("c1", "nests", s=3), call("c2", "safe_nests"), call("c3", "safe_nests", s=5)],
        [call("c4", "nests", s=7), call("c5", "look", place="den"), call("c6", "nests", s=6)],
        "done",
        [call("c7", "safe_nests", s=1), call("c8", "safe_nests", s=2), call("c9", "nests", s=8)],
        "done",
    ]
    texts = Texts(left_waiting="alleingelassen")
    return Host(
        script, {"tools": [*TOOLS, Nesting(below), Nesting(below, "safe_nests")], "texts": texts}, act
    )


HOSTS: dict[str, Callable[[], Host]] = {
    make.__name__: make
    for make in (
        parallel, gated, paused, middlewares, turns, typed, requests, newest, summaries, remembered, overflow,
        overflow_that_stays, overflow_left_alone, retries, other_words, traits, own_messages, deferred, thoughts,
        limited, nested,
    )
}  # fmt: skip
