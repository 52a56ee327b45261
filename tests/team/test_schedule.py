"""The order of the facts of many sessions, and what replaying a team says of its letters."""

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_trees import Tree, pay, paying, three_deep

from unspool import Verdict
from unspool.kernel.errors import LogError
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ChildEnded,
    ChildStarted,
    Fact,
    ModelResponse,
    QueueChanged,
    ToolExecDispatch,
    ToolExecStart,
)
from unspool.kernel.messages import Usage, user_message
from unspool.kernel.state import fold
from unspool.llm.scripted import call
from unspool.team.letters import Cause, Letter
from unspool.team.limits import TeamLimits
from unspool.team.schedule import Schedule, schedule
from unspool.team.schedule_links import Link, Point
from unspool.team.schedule_replay import replay_schedule
from unspool.team.team import Team
from unspool.team.texts import letter_message
from unspool.trajectory import JsonlSessions

from .team_scripts import Scripts

LONG = os.environ.get("UNSPOOL_LONG") == "1"
Logs = Mapping[str, Sequence[Fact]]


@pytest.fixture
def scripts() -> Scripts:
    return Scripts()


# --- facts by hand ----------------------------------------------------------------------------------


def log(*facts: Fact) -> list[Fact]:
    """Facts numbered from 1; their times are those given, or that of the one before."""
    numbered, time = [], 0.0
    for number, fact in enumerate(facts, 1):
        time = fact.time or time
        numbered.append(msgspec.structs.replace(fact, seq=number, time=time))
    return numbered


def start(time: float = 0.0, parent: str = "") -> Fact:
    return AgentStart(time=time)


def end(reason: str = "stop", time: float = 0.0) -> Fact:
    return AgentEnd(reason=reason, time=time)


def got(session: str, seq: int, time: float = 0.0) -> Fact:
    letter = Letter(id=f"{session}/{seq}", sender="x", to="y", cause=Cause(session=session, seq=seq))
    return QueueChanged(
        lane="follow_up", action="queued", ids=("q",), message=letter_message(letter), time=time
    )


def begun(used: int = 0) -> Fact:
    return ChildStarted("kid", used=Usage(output_tokens=used))


def over(reason: str = "stop", usage: int = 0) -> Fact:
    return ChildEnded("kid", end_reason=reason, usage=Usage(output_tokens=usage))


def spent(tokens: int) -> Fact:
    return ModelResponse(usage=Usage(output_tokens=tokens))


def order(plan: Schedule) -> str:
    return " ".join(f"{step.session}{step.fact.seq}" for step in plan.steps)


def links(plan: Schedule) -> list[str]:
    return [
        f"{each.cause.session}{each.cause.seq} > {each.effect.session}{each.effect.seq}"
        for each in plan.links
    ]


def test_times_order_what_nothing_else_does() -> None:
    plan = schedule({"b": log(start(1), end(time=4)), "a": log(start(2), end(time=3))})
    assert order(plan) == "b1 a1 a2 b2"
    assert order(schedule({"b": log(start(), end()), "a": log(start(), end())})) == "a1 a2 b1 b2"
    assert (plan.links, plan.problems) == ([], [])
    assert schedule({}).steps == []
    assert schedule({"a": []}).steps == []


def test_a_letter_comes_after_what_its_sender_did_whatever_the_clocks_say() -> None:
    plan = schedule({"a": log(start(9), end(time=9)), "b": log(got("a", 2, time=1), start())})
    assert order(plan) == "a1 a2 b1 b2"
    assert plan.causes_of("b", 1) == [Link(Point("a", 2), Point("b", 1), "letter")]
    assert [each.kind for each in plan.causes_of("b", 2)] == ["session"]
    assert plan.causes_of("a", 1) == []
    with pytest.raises(KeyError):
        plan.causes_of("a", 3)


def test_a_letter_to_itself_is_no_link() -> None:
    plan = schedule({"a": log(start(), got("a", 1), end())})
    assert (plan.links, plan.problems) == ([], [])


@pytest.mark.parametrize(
    ("facts", "cause"), [(log(got("a", 9)), "fact 9 of a"), (log(got("gone", 1)), "fact 1 of gone")]
)
def test_a_cause_that_is_missing_is_told(facts: list[Fact], cause: str) -> None:
    plan = schedule({"a": log(start()), "b": facts})
    assert [str(each) for each in plan.problems] == [
        f"fact 1 of b follows from {cause} (letter), which is not there"
    ]
    assert order(plan) == "a1 b1"


def test_a_cycle_is_told_and_left_out_at_its_earliest_fact() -> None:
    logs = {
        "a": log(start(), got("b", 2, time=5), end()),
        "b": log(got("c", 1, time=4), end()),
        "c": log(got("a", 2, time=6), end()),
        "d": log(got("c", 2)),
    }
    plan = schedule(logs)
    assert [(each.what, each.at, each.cause) for each in plan.problems] == [
        ("cycle", Point("b", 1), Point("c", 1))
    ]
    assert order(plan) == "a1 b1 b2 a2 a3 c1 c2 d1"
    assert links(plan) == ["b2 > a2", "a2 > c1", "c2 > d1"]
    assert plan.causes_of("b", 1) == []


def test_a_fact_that_follows_from_itself_is_a_cycle() -> None:
    (problem,) = schedule({"a": log(start(), got("a", 2), end())}).problems
    assert (problem.what, problem.at) == ("cycle", Point("a", 2))


def test_a_log_with_a_gap_is_refused() -> None:
    with pytest.raises(LogError, match="missing"):
        schedule({"a": [*log(start()), *log(start(), end(), end())[2:]]})


NESTED: dict[str, tuple[list[Fact], list[Fact], list[str]]] = {
    "one run": ([begun(), over(usage=2)], [start(), spent(2), end()], ["p1 > kid1", "kid3 > p2"]),
    "two runs": (
        [begun(), over("paused", 2), begun(2), over(usage=1)],
        [start(), spent(2), end("paused"), start(), spent(1), end()],
        ["p1 > kid1", "kid3 > p2", "p3 > kid4", "kid6 > p4"],
    ),
    "told by what was used": (
        [begun(2), over(usage=3)],
        [start(), spent(2), end(), start(), spent(3), end()],
        ["p1 > kid4", "kid6 > p2"],
    ),
    "begun again after a crash": (
        [begun(), begun(1), over(usage=2)],
        [start(), spent(1), start(), spent(2), end()],
        ["p1 > kid1", "p2 > kid3", "kid5 > p3"],
    ),
    "crashed before it began": (
        [begun(), begun(), over(usage=2)],
        [start(), spent(2), end()],
        ["p1 > kid1", "kid3 > p3"],
    ),
    "crashed before its end was told": ([begun(), over(usage=2)], [start(), spent(2), end()], ["p1 > kid1", "kid3 > p2"]),
    "not ended": ([begun()], [start(), spent(2)], ["p1 > kid1"]),
    "stopped before it began": ([begun(), over("aborted")], [], []),
}  # fmt: skip


@pytest.mark.parametrize("case", NESTED)
def test_runs_of_nested_sessions(case: str) -> None:
    above, below, expected = NESTED[case]
    plan = schedule({"p": log(*above), "kid": log(*below)})
    assert sorted(links(plan)) == sorted(expected)
    assert plan.problems == []
    check(plan, {"p": log(*above), "kid": log(*below)})


@pytest.mark.parametrize("below", [None, [start(), spent(2)], []])
def test_an_end_of_a_nested_run_that_is_missing_is_told(below: list[Fact] | None) -> None:
    logs = {"p": log(begun(), over(usage=2))}
    if below is not None:
        logs["kid"] = log(*below)
    (problem,) = schedule(logs).problems
    assert (
        str(problem) == "fact 2 of p follows from the end of a run of kid (child_ended), which is not there"
    )


# --- recorded teams ---------------------------------------------------------------------------------


def check(plan: Schedule, logs: Logs) -> None:
    """The schedule holds every fact once, and keeps all links; looked at from outside."""
    place = {(step.session, step.fact.seq): number for number, step in enumerate(plan.steps)}
    assert len(place) == len(plan.steps) == sum(map(len, logs.values()))
    for session, facts in logs.items():
        assert [step.fact for step in plan.steps if step.session == session] == list(facts)
    for link in plan.links:
        assert place[link.cause] < place[link.effect]


def check_links(plan: Schedule, came: Sequence[tuple[str, int]]) -> None:
    """What the schedule takes for causes really came first."""
    place = {point: number for number, point in enumerate(came)}
    for link in plan.links:
        assert place[link.cause] < place[link.effect], link


def shuffled(plan: Schedule, logs: Logs, rand: random.Random) -> list[tuple[str, Fact]]:
    """Any order of the facts that keeps the links: what is ready is taken at random."""
    left = {session: list(facts) for session, facts in logs.items()}
    done: set[Point] = set()
    causes: dict[Point, list[Point]] = {}
    for link in plan.links:
        causes.setdefault(link.effect, []).append(link.cause)
    taken = []
    while any(left.values()):
        ready = [
            session
            for session, facts in left.items()
            if facts and done.issuperset(causes.get(Point(session, facts[0].seq), ()))
        ]
        session = rand.choice(ready)
        fact = left[session].pop(0)
        done.add(Point(session, fact.seq))
        taken.append((session, fact))
    return taken


class Recorded:
    """A team in which each member does what its plan says: a name to write to, or nothing. ``order`` is that in which
    its facts really came."""

    def __init__(self) -> None:
        self.scripts = Scripts()
        self.order: list[Point] = []

    async def run(self, plans: Sequence[Sequence[str]]) -> dict[str, list[Fact]]:
        scripts = self.scripts
        async with Team(clock=scripts.clock, notices="none", limits=TeamLimits(per_pair=3)) as team:
            for number, plan in enumerate(plans):
                script: list[Any] = [
                    [call(f"c{place}", "send_message", to=to, text=f"<{number}.{place}>")] if to else "done"
                    for place, to in enumerate(plan)
                ]
                agent = scripts.agent(f"m{number}", *script, *["ok"] * 40)
                self._watch(f"m{number}")
                await team.add(agent)
            await team.broadcast("begin")
            with anyio.fail_after(20):
                await team.wait_idle()
        return {name: list(log.facts) for name, log in scripts.logs.items()}

    def _watch(self, name: str) -> None:
        log = self.scripts.logs[name]
        append = log.append

        def noted(fact: Fact, /) -> object:
            self.order.append(Point(name, fact.seq))
            return append(fact)

        vars(log)["append"] = noted


plans = st.integers(2, 8).flatmap(
    lambda count: st.lists(
        st.lists(st.sampled_from(["", "all", *(f"m{number}" for number in range(count))]), max_size=4),
        min_size=count,
        max_size=count,
    )
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=200 if LONG else 12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans=plans, seed=st.integers(0, 2**32))
def test_any_order_that_keeps_the_causes_folds_to_the_same_states(
    backend: str, plans: list[list[str]], seed: int
) -> None:
    team = Recorded()
    logs = anyio.run(team.run, plans, backend=backend)
    plan = schedule(logs)
    assert plan.problems == []
    check(plan, logs)
    check_links(plan, team.order)
    letters = [
        fact
        for facts in logs.values()
        for fact in facts
        if isinstance(fact, QueueChanged) and fact.action == "queued" and "<message from=\"m" in fact.message.text  # type: ignore[union-attr]  # it is there
    ]  # fmt: skip
    assert len(plan.links) == len(letters)
    states = {name: agent.state for name, agent in team.scripts.agents.items()}
    rand = random.Random(seed)  # no secret
    for steps in (list(plan.steps), shuffled(plan, logs, rand)):
        folded: dict[str, Any] = dict.fromkeys(logs)
        for session, fact in steps:
            folded[session] = fold([fact], folded[session])
        assert folded == states


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=50 if LONG else 4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans=plans)
def test_every_team_replays_as_it_was_recorded(backend: str, plans: list[list[str]]) -> None:
    async def run() -> None:
        logs = await Recorded().run(plans)
        team = await replay_schedule(logs)
        assert team.same, [*map(str, team.differences), *map(str, team.schedule.problems)]
        assert team.letters == len(team.schedule.links)

    anyio.run(run, backend=backend)


@pytest.mark.parametrize("scripted", [three_deep, paying])
def test_agents_below_agents_killed_anywhere(tmp_path: Path, scripted: Any) -> None:
    """The links are true of the order in which the facts really came, and none is missing in what a kill leaves."""
    store = JsonlSessions(tmp_path)
    with Tree(store, *scripted(), tools=[pay]) as tree:
        if tree.run() == "paused":
            tree.decide(Verdict.allow())
    whole = {info.session: list(store.facts(info.session)) for info in store.list()}
    plan = schedule({})
    for cut in range(len(tree.order) + 1):
        came = tree.order[:cut]
        logs = {name: [fact for fact in facts if (name, fact.seq) in came] for name, facts in whole.items()}
        plan = schedule(logs)
        assert plan.problems == [], cut
        check(plan, logs)
        check_links(plan, came)
    kinds = [link.kind for link in plan.links]
    runs = sum(
        isinstance(fact, AgentStart) for name, facts in whole.items() for fact in facts if name != "root"
    )
    assert (kinds.count("child_started"), kinds.count("child_ended")) == (runs, runs)


@pytest.mark.anyio
async def test_what_is_not_as_the_sender_says_is_named(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        send = call("1", "send_message", to="ann", text="<do it>", summary="work")
        await team.add(scripts.agent("lead", [send], "sent", *["noted"] * 9))
        await team.add(scripts.agent("ann", "did it", "stopping", *["ok"] * 9))
        await team.run("go")
        stop = call("2", "stop_member", member_name="ann")
        scripts.models["lead"]._script.insert(len(scripts.models["lead"].requests), [stop])
        answer = call("3", "answer_shutdown", approve=True)
        scripts.models["ann"]._script.insert(len(scripts.models["ann"].requests), [answer])
        await team.run("stop ann")
    logs: dict[str, list[Fact]] = {name: list(log.facts) for name, log in scripts.logs.items()}
    result = await replay_schedule(logs)
    assert result.same, (result.differences, result.sessions, result.schedule.problems)
    assert result.letters >= 4

    def with_args(fact: Fact, **args: Any) -> Fact:
        if isinstance(fact, ToolExecStart) and fact.call_id == "1":
            return msgspec.structs.replace(fact, args={**fact.args, **args})
        return fact

    def with_about(fact: Fact, kind: str, **about: Any) -> Fact:
        if not isinstance(fact, QueueChanged) or fact.message is None:
            return fact
        old: Any = fact.message.metadata.get("unspool.letter", {})
        if old.get("kind") != kind:
            return fact
        new = {key: value for key, value in {**old, **about}.items() if value is not None}
        return msgspec.structs.replace(
            fact, message=user_message(fact.message.text, metadata={"unspool.letter": new})
        )

    async def said(session: str, change: Any) -> list[str]:
        changed = {**logs, session: [change(fact) for fact in logs[session]]}
        return [each.message for each in (await replay_schedule(changed)).differences]

    assert await said("lead", lambda fact: with_args(fact, text="do that")) == [
        "its text is not what call '1' was given"
    ]
    assert await said("lead", lambda fact: with_args(fact, summary="other")) == [
        "its text is not what call '1' was given"
    ]
    assert await said("ann", lambda fact: with_about(fact, "message", id="lead/9/ann")) == [
        "its id is not that of call '1' of session lead",
        "its text is not what call '1' was given",
    ]
    assert await said("ann", lambda fact: with_about(fact, "message", cause=None)) == [
        "it does not say which fact it followed"
    ]
    other = {"session": "lead", "seq": len(logs["lead"]), "call_id": "nine"}
    assert await said("ann", lambda fact: with_about(fact, "message", cause=other)) == [
        "no call 'nine' was dispatched in session lead"
    ]
    stopping = {"session": "lead", "seq": len(logs["lead"]), "call_id": "2"}
    assert "it is of kind 'message', and the call was one of 'stop_member'" in await said(
        "ann", lambda fact: with_about(fact, "message", cause=stopping)
    )


@pytest.mark.anyio
async def test_a_letter_that_came_twice_is_named(scripts: Scripts) -> None:
    letter = Letter(id="a/1/b", sender="a", to="b", text="hi", cause=Cause(session="a", seq=3, call_id="1"))
    queued = QueueChanged(lane="follow_up", action="queued", ids=("q",), message=letter_message(letter))
    sender = log(
        start(),
        ToolExecStart("1", "send_message", args={"to": "b", "text": "edited"}),
        ToolExecDispatch("1", args={"to": "b", "text": "hi"}),
    )
    result = await replay_schedule({"a": sender, "b": log(queued, queued)})
    assert [str(each) for each in result.differences] == ["fact 2 of b: letter 'a/1/b': it came before"]
    assert not result.same
