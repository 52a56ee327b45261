"""Random conversations with an ``Agent``: many runs, and what happens between and within them.

A conversation is a list of ``Deed``. ``converse`` does them one after the other, as far as the agent lets it,
and gives the facts. A deed that makes no sense where the agent stands is passed over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from nests import WAYS, Nesting

from unspool.kernel import (
    Agent,
    AgentBusyError,
    CallOptions,
    Codec,
    ContinueError,
    Event,
    Fact,
    FakeClock,
    Hooks,
    Limits,
    Message,
    RateLimitError,
    Retry,
    SessionChanged,
    Text,
    ToolContext,
    ToolReference,
    ToolSpec,
    ToolUse,
    Verdict,
    assistant_message,
    fold,
    user_message,
)
from unspool.llm.scripted import ScriptedModel, Wait, call
from unspool.trajectory.memory import MemoryLog


@dataclass(frozen=True)
class Deed:
    """What is done, and a number that says which way."""

    what: str
    n: int = 0


DEEDS = (
    *("run", "run", "run", "continue", "inject", "resume", "resume", "decide", "build_request"),
    *("nest", "nest", "safe_nest", "background"),
    *("steer", "follow_up", "clear", "set_messages", "reset", "title", "unknown"),
    *("model", "plain_model", "system", "tools", "options", "limits", "modes"),
    *("abort_in", "configure_in", "steer_in", "clear_in", "leave_in", "crash", "crash", "fork"),
)


class Scripted:
    """A tool that does as it is called."""

    def __init__(self, name: str, description: str = "") -> None:
        self.spec = ToolSpec(
            name=name,
            description=description,
            concurrency_safe=name.startswith("safe"),
            interrupt="cancel" if name == "safe_slow" else "block",
            needs_approval=name == "asks",
            deferred=name == "hidden",
        )

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        match self.spec.name:
            case "slow" | "safe_slow":
                await ctx.clock.sleep(args.get("s", 2))
            case "fail":
                raise ValueError("no such thing")
            case "finder":
                return [Text("found"), ToolReference("hidden")]
        return f"{self.spec.name} is done"


NAMES = ("ok", "fail", "slow", "safe_ok", "safe_slow", "asks", "hidden", "finder", "gated")


def replies(run: int) -> list[list[Any]]:
    """What a model may answer in one run; call ids are used again in the next."""
    return [
        ["fine"],
        [["let me see", call("c1", "ok")], "done"],
        [[call("c1", "safe_slow", s=2), call("c2", "safe_ok"), call("c3", "slow", s=1)], "done"],
        [[call("c1", "asks"), call("c2", "ok"), call("c3", "asks", path="x")], "done"],
        [[call("c1", "finder")], [call("c2", "hidden")], "found and used"],
        [[call("c1", "gated"), call("c2", "fail"), call("c3", "nowhere")], [call(f"d{run}", "ok")], "done"],
        [RateLimitError("slow down"), "at last"],
        [["half of it", Wait(5), " and the rest"], "what else?"],
        [["a thought", Wait(float("inf"))]],
        [[call("c1", "nests", s=run), call("c2", "safe_ok"), call("c3", "nests", s=run + 1)], "done"],
        [[call("c1", "safe_nests", s=2), call("c2", "safe_nests", s=run), call("c3", "safe_slow")], "done"],
    ]


def gate(use: ToolUse) -> Verdict:
    if use.spec.name == "gated":
        return Verdict.ask("dangerous", by="gate", details={"approved": use.approved})
    return Verdict.allow()


class Conversation:
    """An agent, and what is done with it."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.below: dict[str, MemoryLog] = {}  # the logs of nested sessions
        self.nesting = [Nesting(self.below), Nesting(self.below, "safe_nests")]
        self.settings: dict[str, Any] = {
            "tools": [*[Scripted(name) for name in NAMES], *self.nesting],
            "system": "be brief",
            "limits": Limits(turns=5),
        }
        self.count = 0
        self.log = MemoryLog(session="first")
        self.agent = self.begin([])
        self.acts: list[tuple[int, Callable[[], Any]]] = []
        self.heard = 0

    def begin(self, facts: Sequence[Fact]) -> Agent[str]:
        """An agent in what stands for a process of its own."""
        self.log = MemoryLog(facts, session=self.log.session)
        for tool in self.nesting:
            tool.background.clear()
        self.model = ScriptedModel([], clock=self.clock)
        self.settings.setdefault("model", self.model)
        agent = Agent(
            self.model,
            log=self.log,
            state=fold(facts),
            clock=self.clock,
            hooks=Hooks(gate=gate),
            retry=Retry(attempts=1),
            rand=lambda: 0.5,
            **{key: value for key, value in self.settings.items() if key != "model"},
        )
        agent.subscribe(self.hear)
        return agent

    def hear(self, event: Event) -> None:
        self.heard += 1
        for act in [act for at, act in self.acts if at == self.heard]:
            act()

    async def do(self, deed: Deed) -> None:
        try:
            await self._do(deed)
        except (ContinueError, AgentBusyError, ValueError):
            return  # not now

    async def _do(self, deed: Deed) -> None:
        agent, n = self.agent, deed.n
        match deed.what:
            case "run" | "inject":
                await self.run(n, deed.what)
            case "nest" | "safe_nest":
                ways = [n % WAYS] if deed.what == "nest" else [n % WAYS, n // 2]
                calls = [call(f"n{at}", f"{deed.what}s", s=way) for at, way in enumerate(ways)]
                self.play([["let me see", *calls, call("c9", "safe_ok")], "done"])
                await agent.run("go below")
            case "background":
                for end in [end for tool in self.nesting for end in tool.background[:1]]:
                    await end()
            case "continue":
                self.script(n)
                await agent.continue_()
            case "resume":
                self.script(0)
                await agent.resume(
                    (Verdict.allow(by="eve"), Verdict.deny("no"), Verdict.allow({"s": 1}))[n % 3]
                )
            case "decide":
                waiting = agent.state.waiting_calls
                if waiting:
                    verdict = Verdict.allow({"s": n}) if n % 2 else Verdict.deny("no")
                    agent.decide({waiting[n % len(waiting)].call.id: verdict})
            case "build_request":
                await agent.build_request()
            case "steer":
                agent.steer(f"idle steering {n}")
            case "follow_up":
                agent.follow_up(f"idle follow-up {n}")
            case "clear":
                agent.clear_queue()
            case "set_messages":
                agent.set_messages([[], [user_message("from before")], exchange(), orphan()][n % 4])
            case "reset":
                await agent.reset()
            case "title" | "unknown":
                self.annotate(deed)
            case "abort_in" | "configure_in" | "steer_in" | "clear_in" | "leave_in":
                await self.interfere(deed)
            case "crash" | "fork":
                self.cut(deed)
            case _:
                self.configure(deed)

    def script(self, n: int) -> None:
        self.count += 1
        options = replies(self.count)
        self.play(options[n % len(options)])

    def play(self, script: Sequence[Any]) -> None:
        self.model = ScriptedModel(
            [*script, *["the end"] * 9],
            clock=self.clock,
            name=self.model.name,
            supports_tools=self.model.supports_tools,
        )
        self.agent.configure(model=self.model)

    async def run(self, n: int, what: str = "run") -> None:
        self.script(n)
        if what == "inject":
            async with self.agent as agent:
                agent.inject(f"injected {n}")
                await agent.wait_idle()
        else:
            await self.agent.run([f"prompt {n}", "and more"][: 1 + n % 2])

    async def interfere(self, deed: Deed) -> None:
        """Do something within a run, at its n-th event or so many seconds after its start."""
        agent, n = self.agent, deed.n

        def act() -> None:
            match deed.what:
                case "abort_in":
                    agent.abort(marker=n % 2 == 0, reason="enough", keep=n % 3 == 0)
                case "steer_in":
                    agent.steer(f"now {n}")
                    agent.follow_up(f"later {n}")
                case "clear_in":
                    agent.steer(f"no {n}")
                    agent.clear_queue()
                case _:
                    self.configure(Deed(("model", "system", "tools", "options", "limits")[n % 5], n))

        self.script(n)
        if deed.what == "leave_in":
            left = n
            async with agent.stream("leave me") as stream:
                async for _ in stream:
                    left -= 1
                    if left <= 0:
                        return
            return
        self.heard = 0
        if n % 2:
            cancel = self.clock.call_later(n % 4, act)
        else:
            self.acts = [(n, act)]
            cancel = self.acts.clear
        try:
            await agent.run(f"prompt with {deed.what}")
        finally:
            cancel()

    def configure(self, deed: Deed) -> None:
        n = deed.n
        match deed.what:
            case "model" | "plain_model":
                takes_tools = deed.what == "model"
                name = f"other/{n % 3}" if takes_tools else f"plain/{n % 2}"
                self.model = ScriptedModel(
                    ["from another"] * 9, clock=self.clock, name=name, supports_tools=takes_tools
                )
                changes: dict[str, Any] = {"model": self.model}
            case "system":
                changes = {"system": f"be {n % 3}"}
            case "tools":
                names = NAMES[: 2 + n % 8]
                kept = self.nesting if n % 8 else []
                changes = {"tools": [*[Scripted(name, f"version {n % 2}") for name in names], *kept]}
            case "options":
                changes = {"options": CallOptions(temperature=n % 3)}
            case "limits":
                changes = {
                    "limits": Limits(turns=1 + n % 6, tool_calls=(None, 2)[n % 2], concurrency=1 + n % 3)
                }
            case _:
                changes = {"steering_mode": ("all", "one")[n % 2], "follow_up_mode": ("one", "all")[n % 2]}
        self.agent.configure(**changes)
        self.settings.update(changes)

    def annotate(self, deed: Deed) -> None:
        """Somebody else notes something while the agent is idle; it goes on in another process."""
        seq, now = len(self.log.facts) + 1, self.clock.time()
        if deed.what == "title":
            self.log.append(SessionChanged(seq=seq, time=now, title=f"title {deed.n}"))
        else:  # by a later version
            raw = msgspec.json.encode({"type": "later", "seq": seq, "time": now, "n": deed.n})
            self.log.append(Codec().decode(raw))
        self.agent = self.begin(self.log.facts)

    def cut(self, deed: Deed) -> None:
        """The process dies, and another goes on; or the session is forked at some fact."""
        facts = self.log.facts
        if not facts:
            return
        if deed.what == "fork":
            self.log.session = f"fork {deed.n}"
            end = 1 + (deed.n * 7) % len(facts)
        else:
            end = max(1, len(facts) - deed.n)
        self.agent = self.begin(facts[:end])


def exchange() -> list[Message]:
    return [user_message("a question"), assistant_message("an answer"), user_message("another")]


def orphan() -> list[Message]:
    """A call without its result, and one with."""
    reply = Message(role="assistant", content=(call("x1", "ok"), call("x2", "ok")))
    result = Message(role="tool", tool_call_id="x1", tool_name="ok", content=(Text("ok"),))
    return [user_message("do"), reply, result]


async def converse(deeds: Sequence[Deed]) -> list[Fact]:
    """Have the conversation; its facts."""
    conversation = Conversation()
    for deed in deeds:
        await conversation.do(deed)
    return conversation.log.facts
