"""Patterns over a team: what each comes to, what it costs, what happens when somebody fails, and that nothing goes on."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from unspool.kernel.clock import FakeClock
from unspool.kernel.errors import ModelError
from unspool.kernel.function_tool import tool
from unspool.kernel.limits import Retry
from unspool.kernel.messages import Message, Usage
from unspool.kernel.ports import ModelRequest, StreamEvent
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.subagent.definition import AgentDefinition, UnknownAgent
from unspool.team.board import TaskDraft
from unspool.team.limits import TeamLimits
from unspool.team.pattern_flows import map_reduce, pipeline
from unspool.team.pattern_orchestrate import orchestrate
from unspool.team.pattern_talks import Statement, blackboard, debate
from unspool.team.pattern_vote import Ballot, vote
from unspool.team.team import Team

from .team_scripts import Scripts

pytestmark = pytest.mark.anyio

FOREVER = float("inf")


@pytest.fixture
def scripts() -> Scripts:
    return Scripts()


def used(text: str, tokens: int) -> Say:
    return Say([text], usage=Usage(output_tokens=tokens))


class Echo:
    """A model for many members: answers what it is asked, after the seconds that stand in front of it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.now = self.most = 0

    def definition(self, name: str = "worker", **options: Any) -> AgentDefinition:
        return AgentDefinition(name=name, model=_EchoModel(self), retry=Retry(attempts=0), **options)


class _EchoModel(ScriptedModel):
    def __init__(self, echo: Echo) -> None:
        super().__init__(name="scripted/echo", clock=echo.clock)
        self._echo = echo

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        asked = request.messages[-1]
        assert isinstance(asked, Message)
        seconds, _, text = asked.text.rpartition("\n")[2].partition(" ")
        wait = Wait(float(seconds) if seconds.isdecimal() else 1)
        said: Any = ModelError("down") if text == "fail" else Say([wait, text.upper()])
        self._echo.now += 1
        self._echo.most = max(self._echo.most, self._echo.now)
        try:
            one = ScriptedModel([said], clock=self._echo.clock)
            async with aclosing(one.stream(request)) as stream:
                async for event in stream:
                    yield event
        finally:
            self._echo.now -= 1


def nobody_runs(team: Team) -> bool:
    return not any(member.agent.running for member in team.members.values())


async def until_asked(model: ScriptedModel) -> None:
    while not model.requests:
        await anyio.lowlevel.checkpoint()


# --- pipeline ---------------------------------------------------------------------------------------


async def test_each_stage_of_a_pipeline_gets_what_the_one_before_it_said(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", used("one", 1), used("three", 4)))
        await team.add(scripts.agent("ben", used("two", 2)))
        result = await pipeline(team, ["ann", "ben", "ann"], "zero")
        assert (result.text, result.end_reason) == ("three", "stop")
        assert [(each.name, each.text, each.usage.output_tokens) for each in result.answers] == [
            ("ann", "one", 1),
            ("ben", "two", 2),
            ("ann", "three", 4),
        ]
        assert {name: each.output_tokens for name, each in result.spent.by_member.items()} == {
            "ann": 5,
            "ben": 2,
        }
        assert result.spent.total.output_tokens == 7
    assert (scripts.read("ann"), scripts.read("ben")) == (["zero", "two"], ["one"])
    scripts.check()


async def test_a_pipeline_stops_at_the_first_stage_that_fails(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", "one"))
        await team.add(scripts.agent("ben", ModelError("down")))
        await team.add(scripts.agent("eve", "never"))
        result = await pipeline(team, ["ann", "ben", "eve"], "zero")
        assert (result.text, result.end_reason) == ("", "failed")
        assert [(each.name, each.text, each.end_reason) for each in result.answers] == [
            ("ann", "one", "stop"),
            ("ben", "", "error"),
        ]
        assert "down" in result.answers[-1].error
        assert set(result.spent.by_member) == {"ann", "ben", "eve"}
    assert scripts.read("eve") == []


async def test_definitions_join_for_a_pattern_and_leave_with_it(scripts: Scripts) -> None:
    echo = Echo(scripts.clock)
    async with Team(clock=scripts.clock, definitions=[echo.definition("upper")]) as team:
        result = await pipeline(team, ["upper", echo.definition("Other")], "0 0 a")
        assert result.text == "A"
        assert {each.name: each.status for each in await team.roster.members()} == {
            "upper": "stopped",
            "other": "stopped",
        }
        again = await pipeline(team, ["upper"], "0 b")
        assert again.text == "B"
        with pytest.raises(UnknownAgent, match="there are upper"):
            await pipeline(team, ["upper", "nobody"], "0 b")
        assert nobody_runs(team)
        assert not await team.names()


async def test_a_member_that_works_is_asked_when_it_rests(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", [Wait(5), "first"], "second"), prompt="work")
        await until_asked(scripts.models["ann"])
        assert (await pipeline(team, ["ann"], "and this")).text == "second"


@pytest.mark.parametrize("how", ["stopped", "paused", "budget", "letters"])
async def test_who_cannot_answer_is_told_with_the_reason(scripts: Scripts, how: str) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    limits = TeamLimits(tokens=1 if how == "budget" else None, messages=1 if how == "letters" else None)
    async with Team(clock=scripts.clock, limits=limits) as team:
        script = [[call("1", "pay")]] if how == "paused" else [used("a", 5), "b"]
        await team.add(scripts.agent("ann", *script, tools=[pay]))
        if how == "stopped":
            await team.request_shutdown("ann", force=True)
        result = await pipeline(team, ["ann", "ann"], "go")
        last = result.answers[-1]
        wanted = {"letters": "undelivered"}.get(how, how)
        assert (last.ok, last.end_reason) == (False, wanted)
        assert result.end_reason == ("budget" if how == "budget" else "failed")
        assert nobody_runs(team)


# --- map-reduce -------------------------------------------------------------------------------------


async def test_map_reduce_keeps_the_order_and_its_bound_and_reports_what_failed(scripts: Scripts) -> None:
    echo = Echo(scripts.clock)
    items = ["5 a", "1 b", "3 fail", "0 d", "2 e"]
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", used("all", 3)))
        result = await map_reduce(
            team, items, worker=echo.definition(), reducer="boss", task="Shout.", at_once=2
        )
        assert [each.text for each in result.answers] == ["A", "B", "", "D", "E"]
        assert [each.end_reason for each in result.answers] == ["stop", "stop", "error", "stop", "stop"]
        assert (result.text, result.end_reason, result.failed) == ("all", "incomplete", [2])
        assert echo.most == 2
        assert set(result.spent.by_member) == {"boss", "worker", *(f"worker-{n}" for n in range(2, 6))}
        assert await team.names() == ("boss",)
    (asked,) = scripts.read("boss")
    assert "1. 5 a\nA" in asked
    assert "1 of them failed" in asked
    assert "3. 3 fail\n(failed: error: " in asked


async def test_more_items_than_members_may_live(scripts: Scripts) -> None:
    echo = Echo(scripts.clock)
    async with Team(clock=scripts.clock, limits=TeamLimits(members=3)) as team:
        await team.add(scripts.agent("boss", "all"))
        items = [f"1 {number}" for number in range(20)]
        result = await map_reduce(team, items, worker=echo.definition(), reducer="boss", at_once=2)
        assert [each.text for each in result.answers] == [str(number) for number in range(20)]
        assert result.end_reason == "stop"
        assert echo.most == 2
        full = await map_reduce(
            team, items[:3], worker=echo.definition(), reducer=echo.definition("last"), at_once=2
        )
        assert [each.end_reason for each in full.answers].count("undelivered") >= 1
        assert all("full" in each.error for each in full.answers if not each.ok)


async def test_a_member_maps_one_item_after_another_in_its_conversation(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", "1", "2"))
        await team.add(scripts.agent("boss", ModelError("down")))
        result = await map_reduce(team, ["a", "b"], worker="ann", reducer="boss")
        assert [each.text for each in result.answers] == ["1", "2"]
        assert (result.text, result.end_reason) == ("", "failed")
        assert result.reduced is not None
        assert "down" in result.reduced.error
    assert scripts.asked("ann")[-1] == ["a", "b"]


async def test_where_every_item_failed_nothing_is_reduced(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", "never"))
        result = await map_reduce(
            team, ["0 fail", "0 fail"], worker=Echo(scripts.clock).definition(), reducer="boss"
        )
        assert (result.end_reason, result.reduced, result.failed) == ("failed", None, [0, 1])


# --- debate -----------------------------------------------------------------------------------------


async def test_a_debate_shows_each_side_what_is_new_and_the_judge_everything(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("pro", "yes <b>", "still"))
        await team.add(scripts.agent("con", "no", "never"))
        await team.add(scripts.agent("judge", "con wins"))
        result = await debate(team, "Tabs?", ["pro", "con"], 2, judge="judge")
        assert (result.text, result.end_reason, result.failures) == ("con wins", "stop", [])
        assert result.statements == [
            Statement("pro", 1, "yes <b>"),
            Statement("con", 1, "no"),
            Statement("pro", 2, "still"),
            Statement("con", 2, "never"),
        ]
    first, second = scripts.read("con")
    assert '<statement by="pro" round="1">\nyes &lt;b&gt;\n</statement>' in first
    assert "still" in second
    assert "yes" not in second
    (judged,) = scripts.read("judge")
    assert judged.count("<statement") == 4


async def test_a_debate_ends_with_a_side_that_fails(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("pro", "yes"))
        await team.add(scripts.agent("con", ModelError("down")))
        await team.add(scripts.agent("judge", "never"))
        result = await debate(team, "Tabs?", ["pro", "con"], 2, judge="judge")
        assert (result.text, result.end_reason) == ("", "failed")
        assert [each.name for each in result.failures] == ["con"]
        assert result.statements == [Statement("pro", 1, "yes")]
    assert scripts.read("judge") == []


# --- vote -------------------------------------------------------------------------------------------


def ballot(choice: str) -> str:
    return f'{{"choice": "{choice}", "reason": "so"}}'


VOTES: dict[str, tuple[Sequence[str], str, bool, Sequence[str], dict[str, int]]] = {
    "majority": (["a", "a", "b"], "a", True, (), {"a": 2, "b": 1, "c": 0}),
    "all": (["c", "c"], "c", True, (), {"a": 0, "b": 0, "c": 2}),
    "most, no majority": (["a", "a", "b", "c", "abstain"], "a", False, (), {"a": 2, "b": 1, "c": 1}),
    "half is none": (["a", "abstain"], "a", False, (), {"a": 1, "b": 0, "c": 0}),
    "tie": (["b", "a", "c", "b", "a"], "", False, ["a", "b"], {"a": 2, "b": 2, "c": 1}),
    "nobody": (["abstain", "abstain"], "", False, (), {"a": 0, "b": 0, "c": 0}),
}


@pytest.mark.parametrize("case", VOTES)
async def test_votes_are_counted(scripts: Scripts, case: str) -> None:
    choices, winner, majority, tied, counts = VOTES[case]
    async with Team(clock=scripts.clock) as team:
        names = [f"v{number}" for number in range(len(choices))]
        for name, choice in zip(names, choices, strict=True):
            await team.add(scripts.agent(name, ballot(choice)))
        result = await vote(team, "Which?", names, ["a", "b", "c"])
    assert (result.winner, result.majority, result.tied, result.counts) == (winner, majority, tied, counts)
    assert list(result.ballots) == names
    assert result.abstained == [n for n, c in zip(names, choices, strict=True) if c == "abstain"]
    assert (result.invalid, result.failures, result.end_reason) == ({}, [], "stop")


async def test_an_invalid_ballot_is_asked_for_once_more(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("fence", f"```json\n{ballot('a')}\n```"))
        await team.add(scripts.agent("late", "I like a", ballot("a")))
        await team.add(scripts.agent("wrong", ballot("d"), ballot("d"), "never"))
        await team.add(scripts.agent("dead", ModelError("down")))
        result = await vote(team, "Which?", ["fence", "late", "wrong", "dead"], ["a", "b"])
        assert result.ballots == {"fence": Ballot("a", "so"), "late": Ballot("a", "so")}
        assert result.invalid == {"wrong": "there is no option 'd'"}
        assert [each.name for each in result.failures] == ["dead"]
        assert (result.winner, result.majority, result.end_reason) == ("a", False, "incomplete")
    assert "there is no option 'd'" in scripts.read("wrong")[1]
    assert "This ballot cannot be counted" in scripts.read("late")[1]


# --- blackboard -------------------------------------------------------------------------------------


async def test_a_blackboard_ends_when_nobody_adds_anything(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", "it is the cache", "NOTHING", "nothing."))
        await team.add(scripts.agent("ben", "clear it", "then test", "NOTHING"))
        result = await blackboard(team, "Slow?", ["ann", "ben"], 9)
        assert result.end_reason == "stop"
        assert result.notes == [
            Statement("ann", 1, "it is the cache"),
            Statement("ben", 1, "clear it"),
            Statement("ben", 2, "then test"),
        ]
    first, second, third = scripts.read("ann")
    assert "There are no new notes" in first
    assert "clear it" in second
    assert "it is the cache" not in second
    assert "then test" in third


@pytest.mark.parametrize(("scripted", "end"), [("note", "rounds"), (ModelError("down"), "failed")])
async def test_the_other_ends_of_a_blackboard(scripts: Scripts, scripted: Any, end: str) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", scripted, scripted))
        await team.add(scripts.agent("ben", ModelError("down"), "never"))
        result = await blackboard(team, "Slow?", ["ann", "ben"], 2)
        assert result.end_reason == end
        assert [each.name for each in result.failures] == (["ben"] if end == "rounds" else ["ann", "ben"])
        assert len(result.notes) == (2 if end == "rounds" else 0)


# --- orchestrator and workers -----------------------------------------------------------------------


async def test_a_worker_does_the_tasks_of_an_orchestrator(scripts: Scripts) -> None:
    add = [
        call("1", "add_task", title="first"),
        call("2", "add_task", title="second", depends_on=["t2"]),
        call("3", "add_task", title="urgent", priority=1),
    ]
    finish = [call("f", "finish_task", id="t3", result="own words")]
    async with Team(clock=scripts.clock) as team:
        await team.board.add("host", TaskDraft(title="of somebody else"))
        await team.add(scripts.agent("boss", *[[each] for each in add], "added", used("the sum", 2)))
        await team.add(scripts.agent("ann", "urgent is done", "first is done", finish, "ok"))
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=["ann"])
        assert (result.text, result.end_reason, result.failures) == ("the sum", "stop", [])
        assert [(task.title, task.status, task.result) for task in result.tasks] == [
            ("first", "done", "first is done"),
            ("second", "done", "own words"),
            ("urgent", "done", "urgent is done"),
        ]
        assert result.spent.by_member == {"boss": Usage(output_tokens=2), "ann": Usage()}
        assert (await team.board.get("t1")).status == "open"
    assert "t3 done: second -> own words" in scripts.read("boss")[-1]
    scripts.check()


async def test_workers_work_side_by_side(scripts: Scripts) -> None:
    echo = Echo(scripts.clock)
    add = [call(str(n), "add_task", title=f"task {n}") for n in range(6)]
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", add, "added", "the sum"))
        workers = [echo.definition(name) for name in ("ann", "ben", "eve")]
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=workers)
        assert result.end_reason == "stop"
        assert {task.status for task in result.tasks} == {"done"}
        assert {task.assignee for task in result.tasks} == {"ann", "ben", "eve"}
        assert echo.most == 3
        assert await team.names() == ("boss",)


async def test_what_workers_fail_at_is_told(scripts: Scripts) -> None:
    add = [call("1", "add_task", title="first"), call("2", "add_task", title="second", depends_on=["t1"])]
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", *[[each] for each in add], "added", "could not"))
        await team.add(scripts.agent("ann", *[ModelError("down")] * 9))
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=["ann"])
        assert (result.text, result.end_reason) == ("could not", "incomplete")
        assert [task.status for task in result.tasks] == ["failed", "open"]
        assert [each.name for each in result.failures] == ["ann", "ann"]
    news = scripts.read("boss")[-1]
    assert "t1 failed: first" in news
    assert "t2 not done: second" in news


async def test_a_task_that_is_given_back_again_and_again_is_cancelled(scripts: Scripts) -> None:
    def give(id: str) -> list[Any]:
        return [[call(id, "finish_task", id="t1", result="", outcome="given_back")], "I cannot"]

    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", [call("1", "add_task", title="x")], "added", "no"))
        await team.add(scripts.agent("ann", *give("a"), *give("b"), *give("c")))
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=["ann"], attempts=2)
        assert (result.tasks[0].status, result.tasks[0].attempts) == ("cancelled", 2)
        assert result.end_reason == "incomplete"


async def test_an_orchestrator_adds_tasks_in_bounded_rounds(scripts: Scripts) -> None:
    more = [each for n in range(9) for each in ([call(f"c{n}", "add_task", title=f"n{n}")], f"round {n}")]
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("boss", *more))
        await team.add(scripts.agent("ann", *["done"] * 9))
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=["ann"], rounds=2)
        assert (result.end_reason, result.text) == ("rounds", "round 2")
        assert [task.status for task in result.tasks] == ["done", "done", "open"]
    assert "Add more tasks" not in scripts.read("boss")[-1]


async def test_workers_that_are_gone_leave_the_rest_open(scripts: Scripts) -> None:
    add = [call(str(n), "add_task", title=str(n)) for n in range(3)]
    async with Team(clock=scripts.clock, limits=TeamLimits(failures=1)) as team:
        await team.add(scripts.agent("boss", add, "added", "sorry"))
        await team.add(scripts.agent("ann", ModelError("down")))
        result = await orchestrate(team, "Do it.", orchestrator="boss", workers=["ann"])
        assert {task.status for task in result.tasks} == {"open"}
        assert (result.text, result.end_reason) == ("sorry", "rounds")


# --- the end ----------------------------------------------------------------------------------------


async def run_pattern(name: str, team: Team, slow: AgentDefinition) -> Any:
    match name:
        case "pipeline":
            return await pipeline(team, ["ann", slow], "go")
        case "map_reduce":
            return await map_reduce(team, ["a", "b", "c"], worker=slow, reducer="ann", at_once=2)
        case "debate":
            return await debate(team, "?", ["ann", slow], 1, judge="ben")
        case "vote":
            return await vote(team, "?", ["ann", "ben", slow], ["a", "b"])
        case "blackboard":
            return await blackboard(team, "?", ["ann", slow], 1)
        case _:
            return await orchestrate(team, "?", orchestrator="boss", workers=["ann", slow])


PATTERNS = ["pipeline", "map_reduce", "debate", "vote", "blackboard", "orchestrate"]


async def make(scripts: Scripts, team: Team) -> tuple[AgentDefinition, ScriptedModel]:
    model = ScriptedModel([[Wait(FOREVER)]] * 9, clock=scripts.clock)
    for name in ("ann", "ben"):
        await team.add(scripts.agent(name, *["said"] * 9))
    await team.add(
        scripts.agent("boss", [call(str(n), "add_task", title=str(n)) for n in range(4)], *["ok"] * 9)
    )
    return AgentDefinition(name="slow", model=model), model


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_pattern_that_is_cancelled_leaves_nothing_running(scripts: Scripts, name: str) -> None:
    async with Team(clock=scripts.clock) as team:
        slow, model = await make(scripts, team)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_pattern, name, team, slow)
            await until_asked(model)
            tasks.cancel_scope.cancel()
        assert nobody_runs(team)
        with anyio.fail_after(10):
            await team.wait_idle()
        assert await team.names() == ("ann", "ben", "boss")
        assert not await team.board.list({"claimed"})
        asked = len(model.requests)
        await scripts.clock.sleep(1000)
        assert len(model.requests) == asked
    scripts.check()


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_pattern_ends_when_its_team_does(scripts: Scripts, name: str) -> None:
    async with Team(clock=scripts.clock, limits=TeamLimits(seconds=60)) as team:
        slow, _ = await make(scripts, team)
        with anyio.fail_after(10):
            result = await run_pattern(name, team, slow)
        assert result.end_reason == "deadline"
        assert nobody_runs(team)


async def test_a_pattern_ends_when_its_team_is_left(scripts: Scripts) -> None:
    results: list[Any] = []
    team = Team(clock=scripts.clock)

    async def run(slow: AgentDefinition) -> None:
        results.append(await run_pattern("pipeline", team, slow))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks, team:
            slow, model = await make(scripts, team)
            tasks.start_soon(run, slow)
            await until_asked(model)
    assert results[0].end_reason == "failed"
    assert results[0].answers[-1].end_reason == "lost"


async def test_a_question_that_nobody_has_read_is_aborted_when_it_is(scripts: Scripts) -> None:
    limits = TeamLimits(concurrency=1)
    async with Team(clock=scripts.clock, limits=limits) as team:
        await team.add(scripts.agent("ann", [Wait(50), "long"]), prompt="work")
        await team.add(scripts.agent("ben", "never"))
        await until_asked(scripts.models["ann"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipeline, team, ["ben"], "go")
            while not team.member("ben").has_input:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            await team.wait_idle()
        assert scripts.agents["ben"].state.end_reason == "aborted"
        assert team.result("ben") == ""


@pytest.mark.parametrize(
    "bad",
    [
        lambda team: pipeline(team, [], "x"),
        lambda team: map_reduce(team, [], worker="ann", reducer="ann"),
        lambda team: map_reduce(team, ["a"], worker="ann", reducer="ann", at_once=0),
        lambda team: debate(team, "?", ["ann"], 1, judge="ben"),
        lambda team: debate(team, "?", ["ann", "ben"], 1, judge="ann"),
        lambda team: vote(team, "?", [], ["a", "b"]),
        lambda team: vote(team, "?", ["ann", "ann"], ["a", "b"]),
        lambda team: vote(team, "?", ["ann"], ["a", "a"]),
        lambda team: vote(team, "?", ["ann"], ["a", "abstain"]),
        lambda team: blackboard(team, "?", [], 1),
        lambda team: orchestrate(team, "?", orchestrator="ann", workers=["ann"]),
        lambda team: orchestrate(team, "?", orchestrator="ann", workers=["ben"], rounds=0),
    ],
)
async def test_what_cannot_be_asked_for(scripts: Scripts, bad: Any) -> None:
    async with Team(clock=scripts.clock) as team:
        for name in ("ann", "ben"):
            await team.add(scripts.agent(name))
        with pytest.raises(ValueError, match=r".+: .+"):
            await bad(team)
