"""What comes back from a log alone, in an agent of another process: nothing else is given but model and tools."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import replace

from unspool import (
    Agent,
    AgentBusyError,
    AgentEnd,
    AgentStart,
    Codec,
    ContinueError,
    Fact,
    Hooks,
    Limits,
    LogError,
    Message,
    MessageEnd,
    QueueChanged,
    Retry,
    StopVerdict,
    Text,
    ToolExecEnd,
    ToolExecStart,
    TurnStart,
    Usage,
    Verdict,
    agent_loop,
    assistant_message,
    fold,
    user_message,
)
from unspool.kernel import (
    AgentContext,
    BaseMessage,
    CallOptions,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    FakeClock,
    LoopConfig,
    PassThrough,
    SystemBlock,
    ToolExecDispatch,
    ToolReference,
    raw_tool,
)
from unspool.kernel.messages import Cost
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory import (
    JsonlSessions,
    MemoryLog,
    SqliteSessions,
    before_message,
    before_run,
    recorded_settings,
    requests,
    runs,
)

Go = Callable[[Any], Any]


class Note(BaseMessage, Struct, frozen=True):
    """A message of the application."""

    words: str
    data: bytes = b"\xff"
    numbers: dict[int, str] = {}

    def to_message(self) -> Message | None:
        return user_message(self.words)


class World:
    """A place for sessions; each ``agent`` is one in a process of its own, the one before it is gone."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.codec = self.new_codec()
        self.place = self.opened(folder)
        self.log: Any = None
        self.ran: list[tuple[str, str, dict[str, Any]]] = []  # tool, idempotency key, arguments

    @staticmethod
    def new_codec() -> Codec:
        codec = Codec()
        codec.register("test_note", Note)
        return codec

    def opened(self, folder: Path) -> Any:
        if self.store == "jsonl":
            return JsonlSessions(folder, self.codec)
        return SqliteSessions(folder / "sessions.db", self.codec)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        self.place.close()

    def agent(self, *script: Any, name: str = "s", **options: Any) -> Agent[Any]:
        """An agent that knows nothing but the log of session ``name``."""
        self.close()
        self.codec = self.new_codec()
        self.place = self.opened(self.folder)
        known = {info.session for info in self.place.list()}
        self.log = self.place.open(name) if name in known else self.place.create(name)
        self.clock = FakeClock()
        self.model = ScriptedModel(script, clock=self.clock)
        options = {"retry": Retry(attempts=0), "tools": self.tools(), **options}
        return Agent(self.model, log=self.log, codec=self.codec, clock=self.clock, **options)

    def died(self, last: Callable[[Fact], bool] | int, name: str = "s") -> None:
        """The session as it was when its process had stored that fact, and died."""
        facts = self.facts(name)
        stop = last if isinstance(last, int) else next(fact.seq for fact in facts if last(fact))
        self.close()
        self.folder /= "died"
        self.place = self.opened(self.folder)
        with self.place.create(name) as log:
            for fact in facts[:stop]:
                log.append(fact)

    def facts(self, name: str = "s") -> list[Fact]:
        return list(self.place.facts(name))

    def tools(self, **changed: Any) -> list[Any]:
        """Tools that note what they did."""
        traits: dict[str, dict[str, Any]] = {
            "look": {"read_only": True, "concurrency_safe": False},
            "set": {"idempotent": True},
            "write": {},
            "ask": {"needs_approval": True, "preview": self.preview},
            "find": {},
            "hidden": {"deferred": True},
            "fail": {},
        }
        traits |= changed
        return [
            raw_tool(name, f"Tool {name}.", {}, self.doing(name), **each) for name, each in traits.items()
        ]

    def doing(self, name: str) -> Callable[[Any, Any], object]:
        async def run(args: Any, ctx: Any) -> object:
            self.ran.append((name, ctx.idempotency_key, dict(args)))
            if name == "fail":
                raise ValueError("no")
            return [Text("found"), ToolReference("hidden")] if name == "find" else f"{name} is done"

        return run

    async def preview(self, args: Any, ctx: Any) -> Any:
        return {"would": ["ask", args]}


@pytest.fixture(params=["jsonl", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = World(request.param, tmp_path / "sessions")
    yield made
    made.close()


def texts(agent: Agent[Any]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in agent.state.messages]


def outcomes(facts: Sequence[Fact]) -> dict[str, str]:
    return {fact.call_id: fact.outcome for fact in facts if isinstance(fact, ToolExecEnd)}


# --- what the state holds ----------------------------------------------------------------------


def test_queues_in_every_lane(go: Go, world: World) -> None:
    agent = world.agent()
    agent.steer("first")
    agent.follow_up(Note("later"))
    agent.steer(Note("second"))
    agent.follow_up("last")
    before = agent.state

    agent = world.agent("heard", "and that", "the end", follow_up_mode="one")
    assert agent.state == before and agent.state.session == ""
    assert [queued.message.text for queued in agent.state.steering] == ["first", "second"]
    assert [type(queued.message).__name__ for queued in agent.state.follow_ups] == ["Note", "Message"]
    go(lambda: agent.run("now"))
    assert texts(agent) == [
        *("user: first", "user: second", "user: now", "assistant: heard"),
        *("user: later", "assistant: and that"),
        *("user: last", "assistant: the end"),
    ]
    again = world.agent()
    assert texts(again) == texts(agent) and not (again.state.steering or again.state.follow_ups)


@pytest.mark.parametrize("action", ["queued", "taken"])
def test_prompts_that_were_not_delivered(go: Go, world: World, action: str) -> None:
    go(lambda: world.agent("never").run(["one", Note("two")]))
    world.died(lambda fact: isinstance(fact, QueueChanged) and fact.action == action and fact.ids[-1] == "q2")
    agent = world.agent("both")
    state = agent.state
    assert (len(state.prompts), len(state.taken)) == ((2, 0) if action == "queued" else (0, 2))
    assert agent.can_continue
    go(agent.continue_)
    assert texts(agent) == ["user: one", "user: two", "assistant: both"]
    assert isinstance(agent.state.messages[1], Note)


def test_taken_and_half_delivered(go: Go, world: World) -> None:
    go(lambda: world.agent("never").run(["one", "two"]))
    world.died(lambda fact: isinstance(fact, MessageEnd))
    agent = world.agent("both")
    assert [queued.message.text for queued in agent.state.taken] == ["two"]
    go(lambda: agent.run("three"))
    assert texts(agent) == ["user: one", "user: two", "user: three", "assistant: both"]


def test_calls_that_wait_with_previews_and_edited_arguments(go: Go, world: World) -> None:
    calls = [call("c1", "ask", n=1), call("c2", "ask", n=2), call("c3", "look")]
    agent = world.agent(calls)
    assert go(lambda: agent.run("go")).end_reason == "paused"
    before = agent.state

    agent = world.agent()
    assert agent.state == before
    assert {c.call.id: c.preview for c in agent.state.waiting_calls} == {
        "c1": {"would": ["ask", {"n": 1}]},
        "c2": {"would": ["ask", {"n": 2}]},
    }
    agent.decide({"c2": Verdict.allow({"n": (3, {"x": None})}, by="ann")})
    before = agent.state

    agent = world.agent("done")
    assert agent.state == before
    (waiting,) = agent.state.waiting_calls
    assert waiting.call.id == "c1" and agent.state.turn is not None
    decided = agent.state.turn.calls.get("c2")
    assert decided is not None and (decided.args, decided.preview, decided.approved) == (
        {"n": [3, {"x": None}]},
        None,
        True,
    )
    result = go(lambda: agent.resume(Verdict.deny("too much")))
    assert result.text == "done"
    assert outcomes(world.facts()) == {"c1": "denied", "c2": "ok", "c3": "ok"}
    assert [(tool, args) for tool, _, args in world.ran] == [("ask", {"n": [3, {"x": None}]}), ("look", {})]


def test_deferred_tools_in_use(go: Go, world: World) -> None:
    go(lambda: world.agent([call("c1", "find")], "found").run("go"))
    agent = world.agent([call("c2", "hidden")], "used")
    assert agent.state.active_tools == ("hidden",)
    assert "hidden" in [spec.name for spec in agent.build_llm_tools()]
    go(lambda: agent.run("use it"))
    assert "hidden" in [spec.name for spec in world.model.requests[0].tools]
    assert not [fact for fact in facts_of_run(world.facts(), 2) if isinstance(fact, ConfigChanged)]


def facts_of_run(facts: Sequence[Fact], number: int) -> list[Fact]:
    """The facts of the run of that number, from 1."""
    return [fact for fact in facts if fact.run_id == f"r{number}"]


class Knowing(PassThrough):
    """A context manager that notes what it is told."""

    def __init__(self) -> None:
        self.synced: list[list[str]] = []

    def sync(self, view: Any, /) -> None:
        self.synced.append([message.text for message in view])


def test_the_context_manager_is_told_of_the_conversation_once(go: Go, world: World) -> None:
    new, old, given, forked = Knowing(), Knowing(), Knowing(), Knowing()
    agent = world.agent("hi", context=new)
    go(lambda: agent.run("hello"))
    assert new.synced == []  # there was nothing to know
    agent = world.agent("again", context=old)
    assert old.synced == [["hello", "hi"]]
    go(lambda: agent.run("and?"))
    assert len(old.synced) == 1
    agent = world.agent("again", context=given, messages=[user_message("another")])
    assert given.synced == [["another"]]
    agent.fork(context=forked)
    assert forked.synced == [["another"]]
    by_state = Knowing()
    Agent(ScriptedModel(), state=agent.state, context=by_state)
    assert by_state.synced == [["another"]]


class Opening(PassThrough):
    """Shows the model something before the conversation that is not in it."""

    async def project(self, view: Any, scope: Any, /) -> Any:
        shown = await super().project([Note("in this view alone"), *view], scope)
        return replace(shown, tokens=len(view) + 1)


def test_projections_go_on_from_the_last_one(go: Go, world: World) -> None:
    agent = world.agent("one", context=Opening())
    go(lambda: agent.run("a"))
    world.log.snapshot()
    before = agent.state.projection
    agent = world.agent("two", context=Opening())
    assert agent.state.projection == before is not None
    go(lambda: agent.run("b"))
    first, second = [fact for fact in world.facts() if isinstance(fact, ContextProjected)]
    assert (second.base, second.keep, second.append) == (first.seq, 2, ("m2", "m3"))
    assert [message.text for message in world.model.requests[0].messages] == [
        "in this view alone",
        "a",
        "one",
        "b",
    ]
    rebuilt = list(requests(world.facts()))
    assert [request.exact for request in rebuilt] == [True, True]
    assert rebuilt[1].request == world.model.requests[0]


def test_a_message_of_the_view_alone_whose_class_is_gone(go: Go, world: World) -> None:
    """A snapshot of it was taken for the session's: its bytes were not those that the log has."""
    agent = world.agent("one", context=Opening())
    go(lambda: agent.run("a"))
    world.log.snapshot()
    world.close()
    world.place = (
        JsonlSessions(world.folder)
        if world.store == "jsonl"
        else SqliteSessions(world.folder / "sessions.db")
    )
    world.log = world.place.open("s")
    assert world.log.state() == fold(world.facts())
    assert world.log.state(world.new_codec()) == agent.state


class Reminding(PassThrough):
    """Shows the model a message again that is no longer in the conversation."""

    def __init__(self, message: Any) -> None:
        self.message = message

    async def project(self, view: Any, scope: Any, /) -> Any:
        return await super().project([self.message, *view], scope)


def test_a_message_without_a_class_in_the_view_alone(go: Go, world: World) -> None:
    """The state held its lowered form twice, what the log gave back held it once."""
    go(lambda: world.agent("one").run(Note("remember this")))
    world.new_codec = Codec  # type: ignore[method-assign]  # from now on nobody knows the class
    opaque = world.agent().state.messages[0]
    agent = world.agent("two", context=Reminding(opaque), messages=[user_message("b")])
    go(agent.continue_)
    assert agent.state == fold(world.facts()) == world.log.state()
    assert [message.text for message in world.model.requests[0].messages] == ["remember this", "b"]
    assert all(request.exact for request in requests(world.facts()))


def test_messages_of_the_application(go: Go, world: World) -> None:
    """One with keys that are no text was stored, and the session could not be read any more."""
    note = Note("remember this", b"\x00", {1: "one"})
    agent = world.agent("one")
    go(lambda: agent.run(note))
    agent.steer(note)
    before = agent.state
    assert world.agent().state == before and world.agent().state.messages[0] == note
    world.log.snapshot()
    assert world.agent().state == before == fold(world.facts())


def test_usage_cost_title_and_metadata(go: Go, world: World) -> None:
    usage = Usage(input_tokens=5, output_tokens=2, cache_read_tokens=1, cost=Cost(input=0.25, output=0.5))
    go(lambda: world.agent(Say("one", usage=usage), Say("two", usage=usage)).run("a"))
    world.close()
    world.place = world.opened(world.folder)
    world.place.annotate("s", title="A talk", metadata={"of": [1, None]})
    agent = world.agent(Say("two", usage=usage))
    assert (agent.usage, agent.state.title, agent.state.metadata) == (usage, "A talk", {"of": [1, None]})
    assert go(lambda: agent.run("b")).usage == usage
    assert world.agent().usage == usage + usage
    assert world.place.info("s").title == world.agent().state.title == "A talk"


def test_counters_of_a_run_that_died_and_of_the_next(go: Go, world: World) -> None:
    """A run that goes on is a new one: limits and the breaker count it from its beginning, in the same process
    and in another."""
    limits = Limits(turns=4, tool_calls=5, tool_errors=2)
    fails = [[call("c1", "fail")], [call("c2", "fail")], [call("c3", "fail"), call("c4", "look")], "done"]
    go(lambda: world.agent(*fails, limits=limits).run("go"))
    assert outcomes(world.facts()) == {"c1": "error", "c2": "error", "c3": "disabled", "c4": "ok"}
    world.died(lambda fact: isinstance(fact, TurnStart) and fact.index == 3)
    agent = world.agent([call("c3", "fail")], [call("c4", "look")], "done", limits=limits)
    state = agent.state
    assert (state.turns, state.dispatches, state.tool_calls, state.tool_errors) == (2, 2, 2, 2)
    assert (state.errors_by_tool, state.active, state.limits) == ({"fail": 2}, True, limits)
    result = go(agent.continue_)
    assert (result.end_reason, agent.state.turns, agent.state.tool_calls) == ("stop", 3, 2)
    assert outcomes(world.facts()) == {"c1": "error", "c2": "error", "c3": "error", "c4": "ok"}


# --- settings ----------------------------------------------------------------------------------


def test_settings_are_made_again_from_the_log(go: Go, world: World) -> None:
    settings: dict[str, Any] = {
        "system": (SystemBlock(text="Be brief."), SystemBlock(text="Be kind.", cache="1h")),
        "options": CallOptions(temperature=1, stop=("END",), extra={"k": 1.0}),
        "limits": Limits(turns=7, cost=1),
    }
    go(lambda: world.agent("one", **settings).run("a"))
    kept = recorded_settings(world.log.state())
    assert kept.model == "scripted/model"
    assert [spec.name for spec in kept.tools] == ["look", "set", "write", "ask", "find", "fail"]
    agent = world.agent("two", system=kept.system, options=kept.options, limits=kept.limits)
    go(lambda: agent.run("b"))
    assert not [fact for fact in world.facts() if isinstance(fact, ConfigChanged)]
    assert len({fact.options for fact in world.facts() if isinstance(fact, AgentStart)}) == 1


def test_what_is_another_is_said_right_after_the_start(go: Go, world: World) -> None:
    go(lambda: world.agent("one", system="Be brief.").run("a"))
    agent = world.agent("two", system="Be brief.", tools=world.tools(write={"title": "Write"}))
    go(lambda: agent.run("b"))
    start, changed, *rest = facts_of_run(world.facts(), 2)
    assert isinstance(start, AgentStart) and isinstance(changed, ConfigChanged)
    assert changed.tools == start.tools == agent.state.tools
    assert (changed.model, changed.options, changed.system, changed.limits) == (None,) * 4
    assert not [fact for fact in rest if isinstance(fact, ConfigChanged)]
    agent = world.agent("three", system="Be brief.", tools=world.tools(write={"title": "Write"}))
    go(lambda: agent.run("c"))
    assert not [fact for fact in facts_of_run(world.facts(), 3) if isinstance(fact, ConfigChanged)]


def test_calls_of_a_tool_that_is_not_given_again(go: Go, world: World) -> None:
    go(lambda: world.agent([call("c1", "look"), call("c2", "ask"), call("c3", "write")]).run("go"))
    agent = world.agent("well", tools=[tool for tool in world.tools() if tool.spec.name == "write"])
    go(lambda: agent.resume(Verdict.allow()))
    assert outcomes(world.facts()) == {"c1": "unknown_tool", "c2": "unknown_tool", "c3": "ok"}
    assert [tool for tool, _, _ in world.ran] == ["write"]


def test_a_call_that_may_have_run_of_a_tool_that_is_gone_is_in_doubt(go: Go, world: World) -> None:
    go(lambda: world.agent([call("c1", "look")], "done").run("go"))
    world.died(lambda fact: isinstance(fact, ToolExecDispatch))
    go(world.agent("well", tools=[]).continue_)
    assert outcomes(world.facts()) == {"c1": "unknown"}


# --- calls that were under way -----------------------------------------------------------------


CALLS = [call(f"c{n}", name) for n, name in enumerate(("look", "set", "write", "find", "look"), 1)]


def in_doubt(world: World, go: Go, dispatched: int) -> None:
    """The process dies with so many of the calls dispatched, none of them ended."""
    agent = world.agent(CALLS, "done")
    go(lambda: agent.run("go"))
    kept = [fact for fact in world.facts() if fact.seq < first_of(world.facts(), ToolExecStart)]
    for number, each in enumerate(CALLS[:dispatched], 1):
        kept.append(ToolExecStart(each.id, each.name, run_id="r1"))
        kept.append(ToolExecDispatch(each.id, f"{'s'}:c{number}", run_id="r1"))
    numbered = [replace(fact, seq=seq) for seq, fact in enumerate(kept, 1)]
    world.close()
    world.folder /= "doubt"
    world.place = world.opened(world.folder)
    with world.place.create("s") as log:
        for fact in numbered:
            log.append(fact)
    world.ran.clear()


def first_of(facts: Sequence[Fact], kind: type[Fact]) -> int:
    return next(fact.seq for fact in facts if isinstance(fact, kind))


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("dispatched", range(6))
def test_calls_that_were_dispatched_and_not_ended(
    go: Go, world: World, dispatched: int, forked: bool
) -> None:
    """What does no harm twice runs again, under the key it had; all others are in doubt. B175"""
    in_doubt(world, go, dispatched)
    name = "s"
    if forked:
        name = world.place.fork("s", to="f")
    agent = world.agent("done", [call("n1", "write")], "and done", name=name)
    assert world.ran == []  # nothing runs before somebody goes on
    go(agent.continue_)
    doubtful = {f"c{n}" for n in (3, 4) if n <= dispatched}
    assert outcomes(world.facts(name)) == {
        each.id: "unknown" if each.id in doubtful else "ok" for each in CALLS
    }
    expected = [
        (each.name, f"{'s' if n <= dispatched else name}:{each.id}")
        for n, each in enumerate(CALLS, 1)
        if each.id not in doubtful
    ]
    assert sorted((tool, key) for tool, key, _ in world.ran) == sorted(expected)
    dispatches = [fact for fact in world.facts(name) if isinstance(fact, ToolExecDispatch)]
    keys: dict[str, set[str]] = {}
    for fact in dispatches:
        keys.setdefault(fact.call_id, set()).add(fact.idempotency_key)
    assert all(len(found) == 1 for found in keys.values())
    go(lambda: agent.run("more"))
    assert world.ran[-1][:2] == ("write", f"{name}:n1")


def test_a_prompt_after_the_death_of_a_call(go: Go, world: World) -> None:
    """What was said while a call had begun is answered, and the call does not run by itself. B002"""
    go(lambda: world.agent([call("k9", "write", a="x")], "moved").run("rename it"))
    world.ran.clear()
    world.died(lambda fact: isinstance(fact, ToolExecDispatch))
    size = len(world.facts())
    for _ in range(2):
        world.agent()
        assert len(world.facts()) == size  # loading adds nothing
    agent = world.agent("it is unclear")
    go(lambda: agent.run("status?"))
    (reply, result, prompt) = world.model.requests[0].messages[-3:]
    assert [each.id for each in reply.tool_calls] == ["k9"] and prompt.text == "status?"
    assert (result.tool_call_id, result.is_error) == ("k9", True) and "unknown" in result.text
    assert outcomes(world.facts()) == {"k9": "unknown"} and world.ran == []
    facts = len(world.facts())
    assert len(world.facts()) == facts and world.agent().state.turn is None


def test_a_prompt_after_the_death_before_a_call(go: Go, world: World) -> None:  # B002
    go(lambda: world.agent([call("k9", "write", a="x")], "moved").run("rename it"))
    world.ran.clear()
    world.died(lambda fact: isinstance(fact, ToolExecStart))
    go(lambda: world.agent("not yet").run("status?"))
    assert outcomes(world.facts()) == {"k9": "skipped"} and world.ran == []


# --- again, and otherwise ----------------------------------------------------------------------


def test_a_run_is_tried_again_and_a_message_is_edited(go: Go, world: World) -> None:
    agent = world.agent("one", "two", "three")
    for prompt in ("a", "b", "c"):
        go(lambda prompt=prompt: agent.run(prompt))
    first, second, third = runs(world.facts())
    again = world.place.fork("s", before_run(world.facts(), second.run_id))
    edited = world.place.fork("s", before_message(world.facts(), "m5"))
    for name, prompts in ((again, second.prompts), (edited, [user_message("C?")])):
        agent = world.agent("better", name=name)
        go(lambda agent=agent, prompts=prompts: agent.run(prompts))
        assert agent.state.session == name
    shown = ["user: a", "assistant: one", "user: b"]
    assert texts(world.agent(name=again)) == [*shown, "assistant: better"]
    assert texts(world.agent(name=edited)) == [*shown, "assistant: two", "user: C?", "assistant: better"]
    assert [run.previous_run for run in runs(world.facts(again))] == ["", first.run_id]
    assert [run.previous_run for run in runs(world.facts(edited))] == ["", first.run_id, second.run_id]
    assert [run.previous_run for run in runs(world.facts())] == ["", first.run_id, second.run_id]
    assert third.previous_run == second.run_id and len(world.facts()) == third.last


# --- taking up ---------------------------------------------------------------------------------


def test_taking_up_a_session_again_and_again_changes_nothing(go: Go, world: World) -> None:
    agent = world.agent([call("c1", "look"), call("c2", "ask")], context=Knowing())
    go(lambda: agent.run("go"))
    agent.steer("and this")
    state, records = agent.state, list(world.place.records("s"))
    for _ in range(3):
        agent = world.agent(context=Knowing())
        assert agent.state == state == world.log.state() == world.log.state()
        assert list(world.place.records("s")) == records


def test_messages_for_a_session_that_has_some(go: Go, world: World) -> None:
    go(lambda: world.agent("one").run("a"))
    agent = world.agent("two")
    config = LoopConfig(model=world.model, log=world.log, codec=world.codec)
    with pytest.raises(ValueError, match="the log has a conversation already"):
        agent_loop("b", AgentContext(messages=[user_message("x")]), config)
    records = list(world.place.records("s"))
    agent = world.agent("two", messages=[user_message("x"), assistant_message("y")])
    assert texts(agent) == ["user: x", "assistant: y"]
    *before, replaced = world.place.records("s")
    assert before == records
    assert isinstance(replaced.fact, ContextCompacted) and replaced.fact.reason == "set_messages"
    go(lambda: agent.run("b"))
    assert texts(world.agent()) == ["user: x", "assistant: y", "user: b", "assistant: two"]


def test_messages_for_a_session_whose_calls_wait(go: Go, world: World) -> None:
    go(lambda: world.agent([call("c1", "ask")]).run("a"))
    records = list(world.place.records("s"))
    with pytest.raises(AgentBusyError):
        world.agent(messages=[user_message("x")])
    assert list(world.place.records("s")) == records
    assert world.agent().state.waiting_calls


def test_two_agents_on_one_log(go: Go, world: World) -> None:
    """The one that does not know what the other did is refused, before it asks a model. B173"""
    first = world.agent("one", "two")
    model = ScriptedModel(["never"])
    second: Agent[str] = Agent(model, log=world.log, codec=world.codec)
    go(lambda: first.run("a"))
    records = list(world.place.records("s"))
    with pytest.raises(LogError, match="not the next fact"):
        go(lambda: second.run("b"))
    assert model.requests == [] and list(world.place.records("s")) == records
    go(lambda: first.run("c"))
    assert texts(world.agent()) == ["user: a", "assistant: one", "user: c", "assistant: two"]


def test_two_writers_of_one_session(go: Go, world: World, tmp_path: Path) -> None:  # B173
    agent = world.agent("one")
    link = tmp_path / "link"
    link.symlink_to(world.folder)
    for folder in (world.folder, link):
        other = world.opened(folder)
        with pytest.raises(LogError) as caught:
            other.open("s")
        assert caught.value.details["kind"] == "busy"
        other.close()
    go(lambda: agent.run("a"))
    world.log.close()
    with world.place.open("s") as log:
        assert log.state(world.codec) == agent.state


def test_an_agent_on_a_log_that_was_closed(go: Go, world: World) -> None:
    agent = world.agent("one", "never")
    go(lambda: agent.run("a"))
    world.log.close()
    records = list(world.place.records("s"))
    late: Agent[str] = Agent(world.model, log=world.log, codec=world.codec)
    assert late.state == agent.state
    for each in (agent, late):
        with pytest.raises(LogError, match="closed"):
            go(lambda each=each: each.run("b"))
    assert len(world.model.requests) == 1 and list(world.place.records("s")) == records


# --- however the run before ended --------------------------------------------------------------


def guard(info: Any) -> StopVerdict:
    return StopVerdict("fail", "not good enough") if info.reply.text == "bad" else StopVerdict()


ENDINGS: dict[str, tuple[list[Any], dict[str, Any], bool]] = {
    "stop": (["fine"], {}, False),
    "aborted": ([["half", Wait(9), "more"]], {}, True),
    "error": ([ValueError("a bug")], {}, True),
    "paused": ([[call("c1", "ask")]], {}, True),
    "max_turns": ([[call("c1", "look")]], {"limits": Limits(turns=1)}, True),
    "max_tool_calls": ([[call("c1", "look"), call("c2", "look")]], {"limits": Limits(tool_calls=1)}, True),
    "budget": ([Say([call("c1", "look")], usage=Usage(input_tokens=9))], {"limits": Limits(tokens=9)}, True),
    "stop_guard": (["bad"], {"hooks": Hooks(stop_guard=guard)}, False),
}


@pytest.mark.parametrize("reason", ENDINGS)
def test_a_session_that_ended_in_any_way_goes_on(go: Go, world: World, reason: str) -> None:
    script, options, goes_on = ENDINGS[reason]

    async def first() -> Any:
        agent = world.agent(*script, **options)
        if reason == "aborted":
            world.clock.call_later(1, lambda: agent.abort(marker=False, keep=True))
        await agent.run("go")
        return agent.state

    before = go(first)
    assert before.end_reason == reason
    agent = world.agent("on we go", "and on", **options)
    assert agent.state == before
    assert agent.can_continue is (goes_on and reason != "aborted")  # what was kept of an answer is one
    if not agent.can_continue:
        with pytest.raises(ContinueError):
            go(agent.continue_)
        assert agent.state == before
        result = go(lambda: agent.run("go on"))
    elif reason == "paused":
        result = go(lambda: agent.resume(Verdict.allow()))
    else:
        result = go(agent.continue_)
    assert (result.end_reason, result.text) == ("stop", "on we go")
    assert fold(world.facts()) == agent.state
    assert [fact.reason for fact in world.facts() if isinstance(fact, AgentEnd)] == [reason, "stop"]


@dataclasses.dataclass
class Point:
    x: int


def test_an_answer_of_a_type_after_a_pause(go: Go, world: World) -> None:
    agent = world.agent([call("c1", "ask")], output=Point)
    paused = go(lambda: agent.run("where?"))
    assert (paused.end_reason, paused.output) == ("paused", None)
    agent = world.agent('{"x": "far"}', '{"x": 3}', output=Point)
    result = go(lambda: agent.resume(Verdict.allow()))
    assert result.output == Point(3)
    assert not [fact for fact in world.facts() if isinstance(fact, ConfigChanged)]


def test_an_answer_of_a_type_after_a_death(go: Go, world: World) -> None:
    """Right after an answer: the run that goes on gives the value of it."""
    go(lambda: world.agent('{"x": 3}', output=Point).run("where?"))
    world.died(lambda fact: type(fact).__name__ == "TurnEnd")
    agent = world.agent(output=Point)
    result = go(agent.continue_)
    assert (result.end_reason, result.output) == ("stop", Point(3))
    assert world.model.requests == []


def test_wrong_answers_are_counted_from_the_run_that_goes_on(go: Go, world: World) -> None:
    go(lambda: world.agent("no", "no", "no", output=Point).run("where?"))
    assert world.log.state(world.codec).end_reason == "stop_guard"
    world.died(lambda fact: isinstance(fact, TurnStart) and fact.index == 3)
    agent = world.agent("no", "no", '{"x": 1}', output=Point)
    assert go(agent.continue_).output == Point(1)


# --- a process that dies -----------------------------------------------------------------------

CHILD = """
import os, sys
from unspool import Agent, Hooks, Verdict, raw_tool
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlSessions, SqliteSessions

store, folder, point = sys.argv[1:]
place = JsonlSessions(folder) if store == "jsonl" else SqliteSessions(os.path.join(folder, "sessions.db"))
log = place.create("s")

def die_at(here):
    if here == point:
        agent.steer("are you there?")
        os._exit(9)

async def append_line(args, ctx):
    die_at("before the effect")
    with open(os.path.join(folder, "effects"), "a") as file:
        file.write(ctx.idempotency_key + "\\n")
    die_at("after the effect")
    return "done"

class Model(ScriptedModel):
    async def stream(self, request):
        if self.requests:
            die_at("during the next request")
        async for event in super().stream(request):
            yield event

def hear(event):
    if type(event).__name__ == "ToolExecEnd":
        die_at("after the result")

def gate(use):
    die_at("before the dispatch")
    return Verdict.allow()

tool = raw_tool("append_line", "Appends a line.", {}, append_line)
agent = Agent(Model([[call("c1", "append_line")], "never"]), tools=[tool], log=log, hooks=Hooks(gate=gate))
agent.subscribe(hear)
agent.run_sync("go")
"""

DEATHS = {  # effects before and after somebody goes on, the call's outcome
    "before the dispatch": (0, 0, "skipped"),
    "before the effect": (0, 0, "unknown"),
    "after the effect": (1, 1, "unknown"),
    "after the result": (1, 1, "ok"),
    "during the next request": (1, 1, "ok"),
}


@pytest.mark.parametrize("point", DEATHS)
@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
def test_a_process_that_dies_with_a_message_queued(tmp_path: Path, store: str, point: str) -> None:
    """Nothing that was said is lost, nothing is done twice. B175"""
    folder = tmp_path / "sessions"
    folder.mkdir()
    effects = folder / "effects"
    child = [sys.executable, "-P", "-c", CHILD, store, str(folder), point]
    assert subprocess.run(child, timeout=60, check=False).returncode == 9
    before, after, outcome = DEATHS[point]
    assert count(effects) == before

    world = World(store, folder)
    tool = raw_tool(
        "append_line", "Appends a line.", {}, lambda args, ctx: effects.open("a").write("again\n")
    )
    agent = world.agent("here I am", tools=[tool])
    assert [queued.message.text for queued in agent.state.steering] == ["are you there?"]
    assert agent.state.active and count(effects) == before
    result = anyio.run(agent.continue_)
    assert (result.text, result.end_reason) == ("here I am", "stop")
    assert [text for text in texts(agent) if not text.startswith("tool")] == [
        *("user: go", "assistant: ", "user: are you there?", "assistant: here I am")
    ]
    assert outcomes(world.facts()) == {"c1": outcome} and count(effects) == after
    assert world.place.verify("s").ok and fold(world.facts()) == agent.state
    assert all(request.exact for request in requests(world.facts()))
    world.close()


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_log_in_memory_is_taken_up_too(go: Go) -> None:
    log = MemoryLog()
    go(lambda: Agent(ScriptedModel(["one"]), log=log).run("a"))
    again: Agent[str] = Agent(ScriptedModel(["two"]), log=log)
    go(lambda: again.run("b"))
    assert texts(again) == ["user: a", "assistant: one", "user: b", "assistant: two"]
    assert fold(log.facts) == again.state
