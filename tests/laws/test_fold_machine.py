"""The law Fold over everything that can be done with sessions, step by step, on both kinds of store.

After each step, for every session there is: what its agent says, the fold of what is stored, the fold of each
snapshot and what came after it, and what the log says, with a snapshot or without, are the same; what is stored
is numbered densely, whole, and written again as the same bytes; a fork is what its parent was.
"""

import itertools
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import Struct
from nests import Nesting

from unspool.kernel import (
    Agent,
    AgentBusyError,
    AgentState,
    BaseMessage,
    CallOptions,
    Codec,
    Compaction,
    CompactionStep,
    ContextSnapshot,
    ContextUsage,
    ContinueError,
    Edit,
    Event,
    Fact,
    FakeClock,
    FatalToolError,
    Hooks,
    Image,
    Limits,
    LogError,
    Message,
    ModelRequest,
    Projection,
    RateLimitError,
    Retry,
    Text,
    Thinking,
    ToolCall,
    ToolContext,
    ToolReference,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
    Verdict,
    apply,
    assistant_message,
    fold,
    user_message,
)
from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.messages import Cost, OpaqueMessage
from unspool.llm.scripted import Cut, Say, ScriptedModel, Wait, call
from unspool.trajectory import JsonlSessions, MemoryLog, SessionHandle, SqliteSessions
from unspool.trajectory.snapshots import make_snapshot, read_snapshot

HASH: Final = b"A" * 22
LONG: Final = 120  # facts of a session to which nothing more is done
CARRIED: Final = 6  # snapshots of each session that are folded on with


# --- what an agent is given --------------------------------------------------------------------


class Note(BaseMessage, Struct, frozen=True):
    """A message of the application: fields that JSON and MessagePack hold in different ways."""

    words: str
    data: bytes = b"\x00\xff"
    made: datetime = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    weights: dict[int, float] = {}
    shown: bool = True

    def to_message(self) -> Message | None:
        return user_message(self.words) if self.shown else None


NOTES: Final = (
    Note("a note"),
    Note("one that is not shown", shown=False),
    Note("weighed", weights={7: 0.1}),
)


class Scripted:
    """A tool that does as it is called."""

    def __init__(self, name: str, description: str = "") -> None:
        self.spec = ToolSpec(
            name=name,
            description=description,
            read_only=name == "peek" or None,
            concurrency_safe=name.startswith("safe") or None,
            interrupt="cancel" if name == "safe_slow" else "block",
            needs_approval=name.startswith("asks"),
            deferred=name == "hidden",
        )

    async def preview(self, args: Any, ctx: ToolContext, /) -> Any:
        return {"would": [self.spec.name, (1, 2.5)], "args": args}

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        match self.spec.name:
            case "slow" | "safe_slow":
                await ctx.clock.sleep(args.get("s", 2))
            case "fail":
                raise ValueError("no such thing")
            case "fatal":
                raise FatalToolError("the disk is gone", path="/dev/full")
            case "finder":
                return [Text("found"), ToolReference("hidden")]
            case "peek":
                image = Image(data="aGk=", mime_type="image/png")
                return ToolResult(content=[Text("seen"), image], details={"at": (1, 2.0, None), "n": 1 << 60})
        return f"{self.spec.name} is done"


NAMES: Final = (
    *("fatal", "ok", "fail", "slow", "safe_ok", "safe_slow", "peek"),
    *("asks", "gated", "hidden", "finder"),
)


CALLED: Final = (*NAMES, *NAMES, "nests", "safe_nests", "nests", "nowhere")[1:]


def gate(use: ToolUse) -> Verdict:
    if use.spec.name == "gated" and not use.approved:
        return Verdict.ask("dangerous")
    return Verdict.allow({"rewritten": [1, 2]} if use.args.get("s") == 1 else None)


class Squeezing:
    """A context manager: a summary in the place of all but the newest when it is too much, and views that
    begin with something else than the conversation does."""

    def __init__(self) -> None:
        self.held = 0

    async def project(self, view: Sequence[Any], scope: Any, /) -> Projection:
        if len(view) % 7 == 6:
            await scope.call_model(ModelRequest(messages=[user_message("sum up")]), "compaction")
        if len(view) % 11 == 10 and view[-1].role == "user" and view[-1].text != "kept short":
            scope.announce("threshold", "every third")
            scope.warn("not all of it", third=3)
            edits = [
                Edit(start=0, stop=1, messages=[user_message("what was first")]),
                Edit(start=len(view) - 1, stop=len(view), messages=[user_message("kept short")]),
            ]
            steps = (CompactionStep(strategy="third", messages=2, tokens_before=3, tokens_after=2),)
            rewrite = Compaction(
                changed=True, commit=len(view) % 2 == 0, edits=edits, reason="threshold", steps=steps
            )
            return Projection(messages=view, compaction=rewrite)
        if len(view) < 9:
            return Projection(messages=view, tokens=len(view))
        before: Any = user_message("what was before")
        for message in view:
            if isinstance(message, Note):
                before = Note("what was before", data=b"in this view alone")
            elif isinstance(message, OpaqueMessage):
                before = OpaqueMessage(message.kind, message.data, message.lowered)
        return Projection(messages=[before, *view[-5:]], tokens=7)

    async def compact(self, view: Sequence[Any], reason: str, scope: Any, /) -> Compaction:
        known = [at for at, message in enumerate(view[:-1]) if isinstance(message, Message)]
        if not known:
            return Compaction(changed=False)
        summary: list[Any] = [
            user_message("a summary"),
            *[note for note in view if isinstance(note, Note)][:1],
        ]
        edits = [Edit(start=known[0], stop=known[-1] + 1, messages=summary)]
        return Compaction(changed=True, commit=True, edits=edits, tokens_before=9, tokens_after=2)

    def sync(self, view: Sequence[Any], /) -> None:
        self.held = len(view)

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> ContextSnapshot | None:
        return None


@st.composite
def calls(draw: st.DrawFn) -> list[ToolCall]:
    names = draw(st.lists(st.sampled_from(CALLED), min_size=1, max_size=4))
    ids = draw(st.lists(st.sampled_from(["c1", "c2", "c3", ""]), min_size=len(names), max_size=len(names)))
    ways = st.sampled_from([0, 1, 7, 3, 5, 6, 8])
    return [call(id, name, s=draw(ways)) for id, name in zip(ids, names, strict=True)]


USAGE: Final = Usage(input_tokens=5, output_tokens=2, cost=Cost(input=0.1, output=0.2))
ANSWERS: Final[st.SearchStrategy[Any]] = st.one_of(
    st.sampled_from(["fine", "two words"]),
    *[st.builds(lambda found: Say(["let me see", *found], usage=USAGE), calls())] * 6,
    st.builds(lambda found: [Thinking(text="hm", signature="sig"), Wait(1), *found], calls()),
    st.sampled_from(
        [
            "",
            ["half", Cut()],
            ["half", Wait(20), "more"],
            [Wait(60)],
            Say(["cut"], stop_reason="length", usage=USAGE),
            Say(["no"], stop_reason="safety"),
            [ToolCall(id="c1", name="ok", args_text='{"s"', args_invalid=True, args_parse_error="cut")],
        ]
    ),
    st.sampled_from([RateLimitError, ContextOverflowError]).map(lambda kind: kind("not now")),
)
SCRIPTS: Final = st.lists(ANSWERS, min_size=1, max_size=5)
WHICH: Final = st.integers(0, 11)


class Mortal:
    """A log in a process that dies: what comes after ``left`` more facts is not stored."""

    def __init__(self, log: SessionHandle, left: int) -> None:
        self.log = log
        self.left = left
        self.session = log.session

    def state(self, codec: Codec | None = None, /) -> AgentState:
        return self.log.state(codec)

    def append(self, fact: Fact, /) -> None:
        if self.left <= 0:
            raise LogError("log: the process has died")
        self.left -= 1
        self.log.append(fact)

    async def flush(self) -> None:
        await self.log.flush()

    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Fact]:
        return self.log.read(start, stop)

    def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        return self.log.tail(start)

    async def aclose(self) -> None:
        await self.log.aclose()


# --- the sessions ------------------------------------------------------------------------------


@contextmanager
def quiet() -> Iterator[None]:
    """A byte may be changed where that only makes the snapshot another one's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Held:
    """A session, what has been seen of it, and the agent and log that have it open."""

    def __init__(self, name: str, parent: str = "") -> None:
        self.name = name
        self.parent = parent
        self.log: Any = None
        self.clock = FakeClock()
        self.agent: Agent[str] | None = None
        self.forget()

    def forget(self) -> None:
        """Look at everything again."""
        self.facts: list[Fact] = []
        self.states = [AgentState()]
        self.carried: list[AgentState] = []

    def close(self) -> None:
        self.agent = None
        if self.log is not None:
            self.log.close()
            self.log = None


class SessionsMachine(RuleBasedStateMachine):
    """Sessions in one place, each with an agent, and what may be done with them."""

    @staticmethod
    def opened(folder: Path, codec: Codec) -> Any:
        """The place, opened; made where it is not there."""
        raise NotImplementedError

    @initialize(backend=st.sampled_from(["asyncio", "asyncio", "trio"]), squeezed=st.booleans())
    def begin(self, backend: str, squeezed: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="unspool-"))
        self.backend = backend
        self.names = itertools.count(1)
        below: dict[str, MemoryLog] = {}  # the logs of nested sessions
        self.nesting = [Nesting(below), Nesting(below, "safe_nests")]
        self.settings: dict[str, Any] = {
            "tools": [*[Scripted(name) for name in NAMES], *self.nesting],
            "limits": Limits(turns=5),
        }
        self.knows = True
        self.squeezed = squeezed
        self.held: dict[str, Held] = {}
        self.touched: set[str] = set()  # by the step just done
        self.codec = self.new_codec()
        self.place = self.opened(self.folder, self.codec)
        self.begun("first")

    def new_codec(self) -> Codec:
        codec = Codec()
        if self.knows:
            codec.register("test_note", Note)
        return codec

    def teardown(self) -> None:
        for held in getattr(self, "held", {}).values():
            self.check(held)
            held.close()
        if hasattr(self, "place"):
            self.place.close()
            shutil.rmtree(self.folder)

    def one(self, which: int) -> Held:
        """One of the sessions, to do something with; a new one where all are long."""
        short = [held for held in self.held.values() if len(held.facts) < LONG]
        held = short[which % len(short)] if short else self.begun(f"more-{next(self.names)}")
        self.touched.add(held.name)
        return held

    def begun(self, name: str) -> Held:
        """A new session."""
        self.place.create(name, title=f"the {name}", metadata={"of": [1, None]}).close()
        self.held[name] = held = Held(name)
        self.look(held)
        return held

    def agent(self, held: Held, wrap: Callable[[Any], Any] = lambda log: log) -> Agent[str]:
        """The agent of a session, made where there is none."""
        if held.agent is None:
            held.log = held.log or self.place.open(held.name)
            held.clock = FakeClock(1000.0 * next(self.names))
            held.agent = Agent(
                ScriptedModel([], clock=held.clock),
                log=wrap(held.log),
                codec=self.codec,
                clock=held.clock,
                hooks=Hooks(gate=gate),
                retry=Retry(attempts=1, idle_s=10),
                rand=lambda: 0.5,
                context=Squeezing() if self.squeezed else None,
                **self.settings,
            )
        return held.agent

    def note(self, which: int) -> Any:
        """A message: an application's, where this process knows it, or a plain one."""
        if self.knows and which % 3 == 0:
            return NOTES[which // 3 % len(NOTES)]
        return user_message(f"message {which}", metadata={"n": which, "of": {"x": 1.5}})

    def play(self, held: Held, script: Sequence[Any], main: Callable[[Agent[str]], Any]) -> None:
        """Do something that runs the agent; what it refuses in its state is not done."""
        agent = self.agent(held)
        agent.configure(model=ScriptedModel([*script, *["the end"] * 30], clock=held.clock))

        async def play() -> None:
            with anyio.fail_after(20):
                try:
                    await main(agent)
                except (ContinueError, AgentBusyError, ValueError):
                    return

        anyio.run(play, backend=self.backend)

    # --- runs --------------------------------------------------------------------------------

    @rule(which=WHICH, script=SCRIPTS, prompt=WHICH, many=st.booleans(), more=st.lists(SCRIPTS, max_size=3))
    def run(self, which: int, script: list[Any], prompt: int, many: bool, more: list[list[Any]]) -> None:
        held = self.one(which)
        prompts = [self.note(prompt), "and more"] if many else [self.note(prompt)]
        self.play(held, script, lambda agent: agent.run(prompts))
        for again in more:
            self.play(held, again, lambda agent: agent.run("and now?"))

    @rule(which=WHICH, script=SCRIPTS)
    def go_on(self, which: int, script: list[Any]) -> None:
        self.play(self.one(which), script, lambda agent: agent.continue_())

    @rule(
        which=WHICH,
        script=st.lists(calls(), min_size=1, max_size=3),
        at=st.integers(1, 25),
        act=st.sampled_from(["steer", "follow_up", "abort", "abort_keep", "configure", "clear", "leave"]),
    )
    def interfere(self, which: int, script: list[Any], at: int, act: str) -> None:
        """Do something within a run, at its n-th event."""
        heard = itertools.count(1)
        held = self.one(which)

        async def main(agent: Agent[str]) -> None:
            def hear(event: Event) -> None:
                if next(heard) == at:
                    self.act(agent, act, at)

            end = agent.subscribe(hear)
            try:
                async with agent.stream(f"prompt with {act}") as events:
                    async for _ in events:
                        if act == "leave" and next(heard) > 2 * at:
                            return
            finally:
                end()

        self.play(held, [*script, ["slowly", Wait(1), "now"]], main)

    def act(self, agent: Agent[str], act: str, n: int) -> None:
        match act:
            case "steer":
                agent.steer(self.note(n))
            case "follow_up":
                agent.follow_up(self.note(n))
            case "abort" | "abort_keep":
                agent.abort(marker=n % 2 == 0, reason="enough" * (n % 3), keep=act == "abort_keep")
            case "configure":
                agent.configure(system=f"be {n}", limits=Limits(turns=1 + n % 4))
            case "clear":
                agent.steer("not that")
                agent.clear_queue()

    @rule(which=WHICH, script=SCRIPTS, how=st.sampled_from(["allow", "deny", "edit", "leave"]))
    def resume(self, which: int, script: list[Any], how: str) -> None:
        held = self.paused(which)
        verdict = {
            "allow": Verdict.allow(by="eve"),
            "deny": Verdict.deny("no"),
            "leave": Verdict.allow(),
        }.get(how, Verdict.allow({"s": 1, "x": (1, [2.5])}))
        waiting = self.agent(held).state.waiting_calls
        decisions = {waiting[-1].call.id: verdict} if how == "leave" and waiting else verdict
        self.play(held, script, lambda agent: agent.resume(decisions))

    @rule(which=WHICH, n=st.integers(0, 7))
    def decide(self, which: int, n: int) -> None:
        agent = self.agent(self.paused(which))
        waiting = agent.state.waiting_calls
        if waiting:
            verdict = Verdict.allow({"s": n}) if n % 2 else Verdict.deny("no", by="eve")
            agent.decide({waiting[n % len(waiting)].call.id: verdict})

    def paused(self, which: int) -> Held:
        """A session whose calls wait, if there is one."""
        waiting = [held for held in self.held.values() if held.states[-1].waiting_calls]
        held = waiting[which % len(waiting)] if waiting else self.one(which)
        self.touched.add(held.name)
        return held

    # --- between runs --------------------------------------------------------------------------

    @rule(
        which=WHICH, n=WHICH, what=st.sampled_from(["steer", "follow_up", "clear", "set", "reset", "request"])
    )
    def between_runs(self, which: int, n: int, what: str) -> None:
        held = self.one(which)

        async def main(agent: Agent[str]) -> None:
            match what:
                case "steer":
                    agent.steer(self.note(n))
                case "follow_up":
                    agent.follow_up(self.note(n))
                case "clear":
                    agent.clear_queue(steering=n % 2 == 0)
                case "set":
                    agent.set_messages(self.conversation(n))
                case "reset":
                    await agent.reset()
                case "request":
                    await agent.build_request()

        self.play(held, [], main)

    @rule(which=WHICH)
    def end_in_the_background(self, which: int) -> None:
        """What nested sessions do after their calls have ended."""
        held = self.one(which)

        async def main(agent: Agent[str]) -> None:
            for end in [end for tool in self.nesting for end in tool.background]:
                with suppress(LogError):  # its log is closed by now
                    await end()

        self.play(held, [], main)
        self.touched |= set(self.held)
        for tool in self.nesting:
            tool.background.clear()

    def conversation(self, n: int) -> list[Any]:
        reply = Message(role="assistant", content=(call("x1", "ok"), call("x2", "finder")))
        result = Message(role="tool", tool_call_id="x2", content=(Text("found"), ToolReference("hidden")))
        exchange = [user_message("a question"), assistant_message("an answer"), self.note(n)]
        return [[], [*exchange, reply, result], exchange][n % 3]

    @rule(which=WHICH, n=st.integers(0, 4))
    def configure(self, which: int, n: int) -> None:
        changes: dict[str, Any] = (
            {"system": f"be {n}"},
            {"tools": [*[Scripted(name, "another") for name in NAMES[n - 1 :]], *self.nesting[n % 2 :]]},
            {"options": CallOptions(temperature=0.5, stop=("END",))},
            {"limits": Limits(turns=2 + n, tool_calls=9, tool_errors=1)},
            {"steering_mode": "one", "follow_up_mode": "one"},
        )[n]
        self.agent(self.one(which)).configure(**changes)
        self.settings |= changes

    # --- the place -----------------------------------------------------------------------------

    @rule(which=WHICH, n=st.integers(0, 2))
    def annotate(self, which: int, n: int) -> None:
        held = self.one(which)
        held.close()
        noted: dict[str, Any] = ({"title": "named"}, {"metadata": {"n": [n]}}, {"title": "", "metadata": {}})[
            n
        ]
        self.place.annotate(held.name, **noted)
        assert self.place.info(held.name).title == noted.get("title", held.states[-1].title)

    @rule(knows=st.booleans())
    def another_process(self, knows: bool) -> None:
        """Everything is closed and opened again; there the class of application messages may be gone."""
        for held in self.held.values():
            held.close()
            if knows != self.knows:
                held.forget()
        self.place.close()
        self.knows = knows
        self.codec = self.new_codec()
        self.place = self.opened(self.folder, self.codec)

    @rule(which=WHICH, script=SCRIPTS, left=st.integers(0, 40), then=SCRIPTS)
    def crash(self, which: int, script: list[Any], left: int, then: list[Any]) -> None:
        held = self.one(which)
        held.close()
        self.agent(held, lambda log: Mortal(log, left))

        async def main(agent: Agent[str]) -> None:
            try:
                await agent.run("until it dies")
            except LogError:
                return

        self.play(held, script, main)
        self.look(held)
        self.same(held)
        held.close()
        if left % 2:
            self.play(held, then, lambda agent: agent.continue_())

    @precondition(lambda self: len(self.held) < 4)
    @rule(which=WHICH, at=st.integers(0, 400))
    def fork(self, which: int, at: int) -> None:
        held = self.one(which)
        at %= len(held.facts) + 1
        name = self.place.fork(held.name, at, to=f"fork-{next(self.names)}")
        self.held[name] = Held(name, held.name)
        facts = list(self.place.facts(name))
        assert facts == held.facts[:at]
        assert fold(facts) == held.states[at]

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        parents = {held.parent for held in self.held.values()}
        leaves = [held for held in self.held.values() if held.parent and held.name not in parents]
        if leaves:
            held = leaves[which % len(leaves)]
            held.close()
            assert self.place.delete(held.name) == [held.name]
            del self.held[held.name]

    # --- snapshots -----------------------------------------------------------------------------

    @rule(which=WHICH, kept=st.booleans())
    def snapshot(self, which: int, kept: bool) -> None:
        held = self.one(which)
        self.agent(held)
        held.log.snapshot()
        if not kept:
            self.same(held)
            self.put_snapshot(held, None)

    @rule(which=WHICH, cut=st.integers(0, 400), garbled=st.booleans())
    def damage_the_snapshot(self, which: int, cut: int, garbled: bool) -> None:
        held = self.one(which)
        self.agent(held)
        whole = make_snapshot(held.states[-1], held.log.head.hash.encode(), self.codec)
        cut %= len(whole)
        damaged = whole[:cut] + (bytes([whole[cut] ^ 0x41]) + whole[cut + 1 :] if garbled else b"")
        self.put_snapshot(held, damaged)
        with pytest.warns(UserWarning, match="passed over") if not garbled else quiet():
            assert held.log.state(self.codec) == held.states[-1]
        self.put_snapshot(held, None)

    @rule(which=WHICH, other=WHICH, back=st.integers(0, 30))
    def foreign_snapshot(self, which: int, other: int, back: int) -> None:
        """One of another session, or of the facts so far after a record that is not there."""
        held, theirs = self.one(which), self.one(other)
        self.agent(held)
        self.agent(theirs)
        state = theirs.states[max(0, len(theirs.states) - 1 - back)]
        hashed = HASH if back else theirs.log.head.hash.encode()
        self.put_snapshot(held, make_snapshot(state, hashed, self.codec))

    def put_snapshot(self, held: Held, data: bytes | None) -> None:
        raise NotImplementedError

    # --- the law -------------------------------------------------------------------------------

    @invariant()
    def the_law_holds(self) -> None:
        for held in getattr(self, "held", {}).values():
            if held.name in self.touched or not held.facts:
                self.check(held)
            else:  # nothing that is done to one changes another
                assert self.place.info(held.name).facts == len(held.facts)
                assert held.agent is None or held.agent.state == held.states[-1]
        self.touched = set()

    def check(self, held: Held) -> None:
        """All of the law for one session."""
        self.look(held)
        self.same(held)
        report = self.place.verify(held.name)
        assert report.ok, report.damage

    def look(self, held: Held) -> None:
        """Look at what is new in the log of a session."""
        records = list(self.place.records(held.name))
        new = records[len(held.facts) :]
        assert [record.fact.seq for record in records] == list(range(1, len(records) + 1))
        assert [record.fact for record in records[: len(held.facts)]] == held.facts
        for record in new:
            assert self.codec.encode(record.fact) == record.raw
            state = apply(held.states[-1], record.fact)
            held.carried = [apply(carried, record.fact) for carried in held.carried]
            copy = read_snapshot(make_snapshot(state, HASH, self.codec), self.codec, held.name)
            assert copy is not None and copy.state == state
            held.states.append(state)
            if len(held.carried) < CARRIED or state.seq % 5 == 0:
                held.carried = [*held.carried[1 - CARRIED :], copy.state]
            held.facts.append(record.fact)
        assert all(carried == held.states[-1] for carried in held.carried)

    def same(self, held: Held) -> None:
        """What the agent and the log say is what the facts fold to."""
        state = held.states[-1]
        if held.agent is not None:
            assert held.agent.state == state
        if held.log is not None:
            assert held.log.state(self.codec) == state


# --- on both kinds of store --------------------------------------------------------------------


class JsonlMachine(SessionsMachine):
    @staticmethod
    def opened(folder: Path, codec: Codec) -> JsonlSessions:
        return JsonlSessions(folder, codec)

    def put_snapshot(self, held: Held, data: bytes | None) -> None:
        path = self.folder / f"{held.name}.jsonl.snapshot"
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)


class SqliteMachine(SessionsMachine):
    @staticmethod
    def opened(folder: Path, codec: Codec) -> SqliteSessions:
        return SqliteSessions(folder / "sessions.db", codec)

    def put_snapshot(self, held: Held, data: bytes | None) -> None:
        with closing(sqlite3.connect(self.folder / "sessions.db", isolation_level=None)) as database:
            ((row,),) = database.execute("SELECT id FROM sessions WHERE name = ?", (held.name,))
            database.execute("DELETE FROM snapshots WHERE id = ?", (row,))
            if data is not None:
                database.execute("INSERT INTO snapshots VALUES (?, ?)", (row, data))


STEPS: Final = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("machine", [JsonlMachine, SqliteMachine])
def test_state_is_the_fold_of_the_facts_whatever_is_done(machine: type[SessionsMachine]) -> None:
    run_state_machine_as_test(machine, settings=STEPS)
