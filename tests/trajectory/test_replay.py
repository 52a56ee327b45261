"""Replaying with the host's code: the same code, the same facts; a change shows at the first fact it makes."""

import dataclasses
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hosts import Newest
from msgspec.structs import replace

from unspool.kernel import (
    Agent,
    AgentEnd,
    CallOptions,
    Codec,
    ContextProjected,
    Fact,
    FakeClock,
    Hooks,
    Limits,
    Message,
    MessageEnd,
    OverloadedError,
    QueueChanged,
    Retry,
    RetryEvent,
    StopVerdict,
    Text,
    Texts,
    ToolCall,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolUse,
    TurnStart,
    Verdict,
    raw_tool,
)
from unspool.kernel.config import AgentContext, LoopConfig, Settings
from unspool.kernel.errors import LogError
from unspool.kernel.loop import agent_loop
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory import JsonlLog, MemoryLog, replay, requests
from unspool.trajectory.replay import Replayed

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}}
WRONG = {"type": "object", "properties": {"place": {"type": "string"}, "why": {"type": "string"}}}


@dataclass
class House:
    """A host; a change of it is another value in one of its fields."""

    system: str = "You tidy up."
    description: str = "Look somewhere."
    schema: dict[str, Any] = field(default_factory=lambda: PLACE)
    found: Callable[[str, str], str] = lambda tool, place: f"{tool}: nothing in the {place}"
    limits: Limits = field(default_factory=Limits)
    options: CallOptions = field(default_factory=CallOptions)
    model: str = "scripted/model"
    texts: Texts = field(default_factory=Texts)
    retry: Retry = field(default_factory=lambda: Retry(attempts=2))
    gate: Callable[[ToolUse], Any] = lambda use: Verdict.allow()
    reminders: dict[int, str] = field(default_factory=lambda: {2: "hurry up"})
    guard: Callable[[int], StopVerdict] = lambda turns: StopVerdict()
    context: Any = None
    result: Callable[[ToolCall, Message], Any] = lambda made, plain: None
    without: str = ""

    def settings(self) -> Settings:
        """As a loop is given them."""

        async def look(args: Any, ctx: ToolContext) -> str:
            await ctx.clock.sleep(len(args["place"]))
            return self.found("look", args["place"])

        def sweep(args: Any, ctx: ToolContext) -> str:
            return self.found("sweep", args["place"])  # in a worker thread

        tools = [
            raw_tool("look", self.description, self.schema, look, read_only=True),
            raw_tool("sweep", "Sweep.", PLACE, sweep, concurrency_safe=True),
            raw_tool("burn", "Burn.", PLACE, sweep),
        ]
        hooks = Hooks(
            gate=self.gate,
            before_turn=lambda info: self.reminders.get(info.index),
            stop_guard=lambda info: self.guard(info.turns),
            tool_result_message=self.result,
        )
        config = LoopConfig(
            model=ScriptedModel(SCRIPT, name=self.model, clock=CLOCK),
            limits=self.limits,
            options=self.options,
            retry=self.retry,
            texts=self.texts,
            context=self.context,
            hooks=hooks,
            rand=lambda: 0.5,
            clock=CLOCK,
        )
        return Settings(
            config, AgentContext(tools=[t for t in tools if t.spec.name != self.without], system=self.system)
        )


CLOCK = FakeClock(1000.0)
CALLS = [
    [("look", "kitchen"), ("look", "attic"), ("sweep", "kitchen")],
    [("sweep", "attic"), ("look", "den")],
    [("burn", "letters"), ("look", "hall"), ("sweep", "hall"), ("sweep", "den")],
    [("look", "cellar")],
    [("sweep", "cellar"), ("burn", "leaves")],
]
IDS = [f"c{turn}{at}" for turn, calls in enumerate(CALLS) for at in range(len(calls))]


def _answer(turn: int) -> list[Any]:
    calls = [call(f"c{turn}{at}", name, place=place) for at, (name, place) in enumerate(CALLS[turn])]
    return [f"turn {turn}", *calls]


SCRIPT: list[Any] = [
    _answer(0),
    _answer(1),
    [*_answer(2), call("c2x", "nowhere")],
    OverloadedError("busy"),
    _answer(3),
    Say(["half of it"], stop_reason="length"),
    _answer(4),
    "done",
]


async def record(house: House | None = None) -> list[Fact]:
    """A session of seven turns, with parallel calls, a retry and a recovery."""
    config, context = (house or House()).settings()
    log = MemoryLog(session="session")
    async with agent_loop("tidy up", context, dataclasses.replace(config, log=log)) as run:
        await run.result()
    return log.facts


@pytest.fixture(scope="module")
def facts() -> list[Fact]:
    facts = anyio.run(record)
    assert isinstance(facts[-1], AgentEnd) and facts[-1].reason == "stop" and facts[-1].turns == 7
    return facts


def run(backend: str, facts: Sequence[Fact], house: House | None = None, **options: Any) -> Replayed:
    async def main() -> Replayed:
        with anyio.fail_after(20):
            settings = house.settings() if house is not None else None
            return await replay(facts, settings, **options)

    return anyio.run(main, backend=backend)


def first(facts: Sequence[Fact], kind: type[Fact], fits: Callable[[Any], bool] = lambda fact: True) -> Any:
    return next(fact for fact in facts if isinstance(fact, kind) and fits(fact))


# --- the same code ----------------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("tools", ["recorded", "live"])
def test_the_same_code_makes_the_same_facts(backend: str, tools: Any, facts: list[Fact]) -> None:
    result = run(backend, facts, House(), tools=tools)
    assert result.same, str(result.difference)
    assert result.facts == result.recorded == len(facts)


@BACKENDS
def test_the_same_model_too(backend: str, facts: list[Fact]) -> None:
    model = ScriptedModel(SCRIPT, name="scripted/model")
    result = run(backend, facts, House(), tools="live", model=model)
    assert result.same, str(result.difference)


@BACKENDS
def test_a_model_alone_needs_no_code_of_the_host(backend: str, facts: list[Fact]) -> None:
    assert run(backend, facts, model=ScriptedModel(SCRIPT)).same


def test_an_agent_gives_its_settings() -> None:
    async def main() -> None:
        log = MemoryLog()
        agent = Agent(ScriptedModel(["hello", "again"]), system="be brief", log=log)
        await agent.run("hi")
        agent.steer("one thing more")
        await agent.run("and?")
        assert (await replay(log, agent.settings)).same
        agent.configure(system="be long")
        result = await replay(log, agent.settings)
        assert result.difference is not None and result.difference.seq == 1
        assert len(log.facts) == result.recorded  # nothing was added to it

    anyio.run(main)


def test_live_tools_need_settings(facts: list[Fact]) -> None:
    with pytest.raises(ValueError, match="live tools need settings"):
        anyio.run(lambda: replay(facts, tools="live"))


# --- other code -------------------------------------------------------------------------------------


@dataclass
class Mutation:
    """A change of the host, and where it shows: at which fact, which came in its place, in which fields."""

    house: House
    at: Fact
    fields: tuple[str, ...]
    came: str = ""  # the kind of fact that came instead, where it is another
    options: dict[str, Any] = field(default_factory=dict)


Mutate = Callable[[random.Random, list[Fact]], Mutation]
MUTATIONS: dict[str, Mutate] = {}


def mutation(make: Mutate) -> Mutate:
    MUTATIONS[make.__name__] = make
    return make


@mutation
def another_system_prompt(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(system=f"You tidy up {rng.random()}."), facts[0], ("system", "blobs"))


@mutation
def another_description(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(description=f"Look {rng.random()}."), facts[0], ("tools", "blobs"))


@mutation
def another_schema(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(schema=WRONG), facts[0], ("tools", "blobs"))


@mutation
def a_tool_that_is_gone(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(without=rng.choice(["look", "sweep", "burn"])), facts[0], ("tools", "blobs"))


@mutation
def other_limits(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(limits=Limits(turns=rng.randint(10, 90))), facts[0], ("limits.turns",))


@mutation
def other_options(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(options=CallOptions(temperature=rng.random())), facts[0], ("options", "blobs"))


@mutation
def a_model_of_another_name(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(model=f"other/{rng.random()}"), facts[0], ("model",))


@mutation
def another_result(rng: random.Random, facts: list[Fact]) -> Mutation:
    id = rng.choice(IDS)
    tool, place = CALLS[int(id[1])][int(id[2])]
    end = first(facts, ToolExecEnd, lambda fact: fact.call_id == id)

    def found(name: str, where: str) -> str:
        same = House.found(name, where)
        return f"{same} but dust" if (name, where) == (_name(tool), place) else same

    # burn and sweep are one function, but no place is given to both
    return Mutation(House(found=found), end, ("content[0].text",), options={"tools": "live"})


def _name(tool: str) -> str:
    return "sweep" if tool == "burn" else tool


def _dispatched(rng: random.Random, facts: list[Fact]) -> tuple[str, Fact]:
    id = rng.choice(IDS)
    return id, first(facts, ToolExecDispatch, lambda fact: fact.call_id == id)


@mutation
def a_gate_that_denies(rng: random.Random, facts: list[Fact]) -> Mutation:
    id, at = _dispatched(rng, facts)
    house = House(gate=lambda use: Verdict.deny("no") if use.call.id == id else Verdict.allow())
    return Mutation(house, at, ("type", "outcome", "content"), "tool_exec_end")


@mutation
def a_gate_that_rewrites(rng: random.Random, facts: list[Fact]) -> Mutation:
    id, at = _dispatched(rng, facts)
    house = House(gate=lambda use: Verdict.allow({"place": "roof"} if use.call.id == id else None))
    return Mutation(house, at, ("args",))


@mutation
def a_gate_that_asks(rng: random.Random, facts: list[Fact]) -> Mutation:
    id, at = _dispatched(rng, facts)
    house = House(gate=lambda use: Verdict.ask("really?") if use.call.id == id else Verdict.allow())
    return Mutation(house, at, ("type", "reason"), "approval_requested")


@mutation
def a_gate_that_raises(rng: random.Random, facts: list[Fact]) -> Mutation:
    id, at = _dispatched(rng, facts)

    def gate(use: ToolUse) -> Verdict:
        if use.call.id == id:
            raise RuntimeError("the gate is broken")
        return Verdict.allow()

    return Mutation(House(gate=gate), at, ("type", "outcome"), "tool_exec_end")


@mutation
def another_reminder(rng: random.Random, facts: list[Fact]) -> Mutation:
    at = first(facts, MessageEnd, lambda fact: fact.cause == "before_turn")
    return Mutation(House(reminders={2: f"no hurry {rng.random()}"}), at, ("message.content[0].text",))


@mutation
def a_new_reminder(rng: random.Random, facts: list[Fact]) -> Mutation:
    turn = rng.choice([3, 4, 5])
    started = first(facts, TurnStart, lambda fact: fact.index == turn)
    at = first(facts[started.seq :], ContextProjected)
    return Mutation(House(reminders={2: "hurry up", turn: "rest"}), at, ("type", "message"), "message_end")


@mutation
def a_reminder_that_raises(rng: random.Random, facts: list[Fact]) -> Mutation:
    at = first(facts, MessageEnd, lambda fact: fact.cause == "before_turn")
    house = House(reminders={2: 3})  # type: ignore[dict-item]  # no message
    return Mutation(house, at, ("type", "kind"), "error")


@mutation
def a_guard_that_goes_on(rng: random.Random, facts: list[Fact]) -> Mutation:
    house = House(guard=lambda turns: StopVerdict("go_on", f"more {rng.random()}"))
    return Mutation(house, facts[-1], ("type", "cause"), "message_end")


@mutation
def a_guard_that_fails(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(
        House(guard=lambda turns: StopVerdict("fail", "never")), facts[-1], ("type", "kind"), "error"
    )


@mutation
def other_texts(rng: random.Random, facts: list[Fact]) -> Mutation:
    end = first(facts, ToolExecEnd, lambda fact: fact.outcome == "unknown_tool")
    return Mutation(House(texts=Texts(unknown_tool="what is {name}?")), end, ("content[0].text",))


@mutation
def other_words_to_go_on(rng: random.Random, facts: list[Fact]) -> Mutation:
    at = first(facts, MessageEnd, lambda fact: fact.cause == "length_recovery")
    return Mutation(House(texts=Texts(go_on="more")), at, ("message.content[0].text",))


@mutation
def more_retries(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(retry=Retry(attempts=rng.randint(3, 9))), first(facts, RetryEvent), ("limit",))


@mutation
def no_retries(rng: random.Random, facts: list[Fact]) -> Mutation:
    return Mutation(House(retry=Retry(attempts=0)), first(facts, RetryEvent), ("type", "kind"), "error")


@mutation
def a_context_manager_that_keeps_less(rng: random.Random, facts: list[Fact]) -> Mutation:
    keep = rng.randint(2, 6)
    at = first(facts, ContextProjected, lambda fact: fact.keep + len(fact.append) > keep)
    return Mutation(House(context=Shorter(keep)), at, ("fingerprint", "messages"))


@mutation
def results_with_more_to_them(rng: random.Random, facts: list[Fact]) -> Mutation:
    id = rng.choice(IDS)
    at = first(facts, MessageEnd, lambda fact: fact.message.tool_call_id == id)

    def result(made: ToolCall, plain: Message) -> Message | None:
        return msgspec.structs.replace(plain, metadata={"n": 1}) if made.id == id else None

    return Mutation(House(result=result), at, ("message.metadata",))


@mutation
def another_model(rng: random.Random, facts: list[Fact]) -> Mutation:
    at = rng.choice([0, 1, 2, 4, 7])
    script = [*SCRIPT]
    replies = [fact for fact in facts if isinstance(fact, MessageEnd) and _is_reply(fact)]
    script[at] = f"something else {rng.random()}"
    reply = replies[at - (at > 3)]
    return Mutation(
        House(), reply, ("message.content",), options={"model": ScriptedModel(script, clock=CLOCK)}
    )


def _is_reply(fact: MessageEnd) -> bool:
    return fact.message is not None and fact.message.role == "assistant"


class Shorter(Newest):
    """Shows the newest messages as they are; counts nothing."""

    async def project(self, view: Any, scope: Any, /) -> Any:
        shown = await super().project(view, scope)
        return msgspec.structs.replace(
            shown, tokens=None, messages=view if len(view) <= self.keep else shown.messages
        )


@BACKENDS
@pytest.mark.parametrize("seed", range(50))
def test_a_change_shows_at_the_first_fact_that_it_makes(backend: str, seed: int, facts: list[Fact]) -> None:
    names = list(MUTATIONS)
    made = MUTATIONS[names[seed % len(names)]](random.Random(seed), facts)
    result = run(backend, facts, made.house, **made.options)
    assert located(result) == (made.at.seq, "changed", *_kinds(made))
    fields = {diff.path for diff in found(result).fields}
    for wanted in made.fields:
        assert any(path == wanted or path.startswith((f"{wanted}.", f"{wanted}[")) for path in fields), fields


def _kinds(made: Mutation) -> tuple[str, str]:
    kind = str(type(made.at).__struct_config__.tag)
    return kind, made.came or kind


def found(result: Replayed) -> Any:
    assert result.difference is not None, "nothing differs"
    return result.difference


def located(result: Replayed) -> tuple[int, str, str, str]:
    difference = found(result)
    assert result.facts == difference.seq - 1
    return difference.seq, difference.what, difference.recorded, difference.replayed


# --- how it is said ---------------------------------------------------------------------------------


def test_a_difference_reads_well(facts: list[Fact]) -> None:
    denied = House(
        gate=lambda use: Verdict.deny("not in this house") if use.call.name == "burn" else Verdict.allow()
    )
    assert str(run("asyncio", facts, denied).difference) == (
        "fact 41: tool_exec_dispatch was recorded, tool_exec_end came\n"
        '  type: "tool_exec_dispatch" → "tool_exec_end"\n'
        '  idempotency_key: "session:c20" → "(absent)"\n'
        '  tool: "(absent)" → "burn"\n'
        '  outcome: "(absent)" → "denied"\n'
        '  content: "(absent)" → [{"type":"text","text":"not executed: denied: not in this house"}]'
    )
    assert str(run("asyncio", facts, House(reminders={2: "no hurry"})).difference) == (
        'fact 23: message_end differs\n  message.content[0].text: "hurry up" → "no hurry"'
    )


def test_long_values_are_cut_where_they_are_shown(facts: list[Fact]) -> None:
    text = str(run("asyncio", facts, House(reminders={2: "x" * 9000})).difference)
    assert len(text) < 500 and text.endswith("…")


# --- a log that was changed -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_changed_record_shows_where_it_is_or_where_it_counts(seed: int, facts: list[Fact]) -> None:
    """A prompt shows where it is delivered, what comes out of something else where it stands."""
    rng = random.Random(seed)
    texts = [fact for fact in facts if isinstance(fact, MessageEnd) and fact.message and fact.message.content]
    at = rng.choice([first(facts, QueueChanged), *texts])
    assert at.message is not None
    message = replace(at.message, content=(Text(f"changed {seed}"),))
    changed = [*facts[: at.seq - 1], replace(at, message=message), *facts[at.seq :]]
    difference = found(run("asyncio", changed))
    assert difference.seq >= at.seq
    if isinstance(at, QueueChanged):
        delivered = first(facts, MessageEnd, lambda fact: fact.queue_id == at.ids[0])
        assert (difference.seq, difference.fields[0].path) == (delivered.seq, "message.content[0].text")


def test_a_fact_that_is_missing_is_damage(facts: list[Fact]) -> None:
    for damaged in ([*facts[:5], *facts[6:]], facts[3:], [facts[0], facts[0]]):
        with pytest.raises(LogError, match="a fact is missing"):
            anyio.run(replay, damaged)


def test_a_file_that_is_damaged_is_not_replayed(facts: list[Fact], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with JsonlLog(path) as log:
        for fact in facts:
            log.append(fact)
    path.write_bytes(path.read_bytes().replace(b"tidy up", b"mess up", 1))
    for read in (lambda: anyio.run(replay, path), lambda: list(requests(path))):
        with pytest.raises(LogError):
            read()
    with pytest.raises(LogError):
        anyio.run(replay, tmp_path / "none.jsonl")


def test_facts_of_later_versions_are_passed_over(facts: list[Fact]) -> None:
    codec, made = Codec(), list[Fact]()
    for fact in facts:
        if fact.seq in (5, 30):
            raw = msgspec.json.encode({"type": "later", "seq": len(made) + 1, "time": 1000.0, "run_id": "r1"})
            made.append(codec.decode(raw))
        shift = len(made) + 1 - fact.seq
        moved = replace(fact, seq=fact.seq + shift)
        if isinstance(fact, ContextProjected) and fact.base:
            moved = replace(moved, base=fact.base + (1 if fact.base < 30 else 2))
        made.append(moved)
    assert run("asyncio", made).same
    assert all(request.exact for request in requests(made))


def test_a_redacted_log_says_what_it_cannot_tell(facts: list[Fact], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with JsonlLog(path, redact=["attic"]) as log:
        for fact in facts:
            log.append(fact)
    difference = found(anyio.run(replay, path))
    assert (difference.recorded, [diff.path for diff in difference.fields]) == (
        "context_projected",
        ["fingerprint"],
    )
    assert [request.exact for request in requests(path)] == [True, *[False] * 7]
    with_code = found(anyio.run(replay, path, House().settings()))
    assert with_code.seq == difference.seq


# --- code that does not do as it should -------------------------------------------------------------


async def _for_ever(*_: Any) -> Any:
    await anyio.sleep_forever()


@BACKENDS
def test_a_hook_that_hangs_is_said_to_be_missing_something(backend: str, facts: list[Fact]) -> None:
    result = run(backend, facts, House(gate=_for_ever), patience_s=0.05)
    assert located(result) == (10, "missing", "tool_exec_dispatch", "")
    assert str(result.difference) == (
        "fact 10: tool_exec_dispatch was recorded, the replay waits for something that the log does not tell"
    )


@BACKENDS
def test_a_tool_that_hangs(backend: str, facts: list[Fact]) -> None:
    def settings() -> Settings:
        config, context = House().settings()
        hangs = raw_tool("look", "Look somewhere.", PLACE, _for_ever, read_only=True)
        return Settings(config, dataclasses.replace(context, tools=[hangs, *context.tools[1:]]))

    async def main() -> Replayed:
        return await replay(facts, settings(), tools="live", patience_s=0.05)

    difference = found(anyio.run(main, backend=backend))
    assert (difference.what, difference.recorded) == ("missing", "tool_exec_end")


@BACKENDS
def test_a_model_that_hangs(backend: str, facts: list[Fact]) -> None:
    model = ScriptedModel([["well", Wait(float("inf"))]])
    difference = found(run(backend, facts, House(), model=model, patience_s=0.05))
    assert (difference.what, difference.recorded) == ("missing", "message_end")


@BACKENDS
def test_a_model_that_fails_or_says_too_little(backend: str, facts: list[Fact]) -> None:
    for script, came in (([RuntimeError("no")], "model_response"), ([], "model_response")):
        difference = found(run(backend, facts, House(), model=ScriptedModel(script)))
        assert (difference.what, difference.recorded, difference.replayed) == ("changed", "message_end", came)


def _raise(*_: Any) -> Any:
    raise RuntimeError("broken")


class Broken(Newest):
    async def project(self, view: Any, scope: Any, /) -> Any:
        raise RuntimeError("broken")


@BACKENDS
@pytest.mark.parametrize(
    "house",
    [
        House(gate=_raise),
        House(guard=_raise),
        House(result=_raise),
        House(context=Broken()),
        House(found=_raise),
    ],
)
def test_code_that_raises_is_a_difference(backend: str, house: House, facts: list[Fact]) -> None:
    for tools in ("recorded", "live"):
        if house.found is not _raise or tools == "live":
            assert found(run(backend, facts, house, tools=tools)).what == "changed"


def test_tools_that_cannot_be_used_together(facts: list[Fact]) -> None:
    config, context = House().settings()
    twice = dataclasses.replace(context, tools=[*context.tools, *context.tools])
    difference = found(anyio.run(replay, facts, Settings(config, twice)))
    assert (difference.seq, difference.what) == (1, "failed")
    assert "two tools have one name" in difference.message


@BACKENDS
def test_a_slow_thread_is_waited_for(backend: str, facts: list[Fact]) -> None:
    """However soon everything else waits: a thread takes real time."""
    looked = threading.Event()

    def found(tool: str, place: str) -> str:
        looked.wait(0.02)
        return House.found(tool, place)

    assert run(backend, facts, House(found=found), tools="live").same
