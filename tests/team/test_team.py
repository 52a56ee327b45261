"""A team as a host sees it: members send each other letters, rest, wake, and come to an end."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.team.team_scripts import Scripts, tag

from unspool.kernel import Verdict
from unspool.kernel.errors import ModelError
from unspool.kernel.events import ToolExecDispatch
from unspool.kernel.function_tool import tool
from unspool.kernel.messages import Usage
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.subagent import AgentDefinition
from unspool.team.board import TaskDraft
from unspool.team.errors import BoxClosed, NameTaken, TeamError, UnknownMember
from unspool.team.letters import Letter
from unspool.team.limits import TeamLimits
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.memory_roster import MemoryRoster
from unspool.team.roster import WrongStatus
from unspool.team.team import Team
from unspool.trajectory import JsonlSessions

pytestmark = pytest.mark.anyio


@pytest.fixture
def scripts() -> Iterator[Scripts]:
    made = Scripts()
    yield made
    made.check()


def send(id: str, to: str, text: str) -> object:
    return call(id, "send_message", to=to, text=text)


async def test_members_exchange_messages_and_rest(scripts: Scripts) -> None:
    lead = scripts.agent("lead", [send("c1", "bob", "2 + 2?")], "asked", "bob says 4", "all done")
    bob = scripts.agent("bob", [send("b1", "lead", "4 <b>")], "done")
    async with Team(clock=scripts.clock) as team:
        await team.add(lead)
        await team.add(bob)
        result = await team.run("ask bob")
    assert scripts.read("bob") == [tag("lead", "2 + 2?", "lead/c1/bob")]
    assert scripts.read("lead") == [
        "ask bob",
        tag("bob", "4 &lt;b&gt;", "bob/b1/lead"),
        tag("bob", "done", "bob/idle/r1", kind="idle"),
    ]
    assert (result.text, result.end_reason) == ("all done", "stop")
    assert {name: each.text for name, each in result.members.items()} == {"bob": "done", "lead": "all done"}
    assert {name: each.status for name, each in result.members.items()} == {
        "bob": "resting",
        "lead": "resting",
    }


async def test_a_letter_says_what_it_followed_from(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("lead", [send("c1", "bob", "hello")], "sent"), prompt="go")
        await team.add(scripts.agent("bob", "read"))
        await team.wait_idle()
    (message,) = [each for each in scripts.agents["bob"].export_messages() if each.role == "user"]
    about = message.metadata["unspool.letter"]
    assert (about["sender"], about["cause"]["session"], about["cause"]["call_id"]) == ("lead", "lead", "c1")
    seq = about["cause"]["seq"]
    fact = scripts.logs["lead"].facts[seq - 1]
    assert isinstance(fact, ToolExecDispatch)
    assert fact.call_id == "c1"


# --- what is read, and in which order (T204-T208, T213, T214) ---------------------------------------


async def test_the_first_prompt_is_verbatim_and_a_team_may_wrap_it(scripts: Scripts) -> None:
    def wrap(letter: object) -> str:
        return f"[{letter.sender}] {letter.text}"  # type: ignore[attr-defined]  # a Letter

    async with Team(clock=scripts.clock) as plain:
        await plain.add(scripts.agent("ann", "a"), prompt="do <it>")
        await plain.wait_idle()
    async with Team("other", clock=scripts.clock, format_letter=wrap) as wrapped:
        await wrapped.add(scripts.agent("ben", "b"), prompt="do <it>")
        await wrapped.wait_idle()
    assert scripts.read("ann") == ["do <it>"]
    assert scripts.read("ben") == ["[host] do <it>"]


async def test_a_letter_goes_on_with_the_conversation(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("ann", "ack 0", "ack 1"), prompt="one")
        await team.wait_idle()
        await team.send("ann", "two")
        await team.wait_idle()
        assert team.result("ann") == "ack 1"
    sent = scripts.models["ann"].requests[1].messages
    assert [each.text for each in sent] == ["one", "ack 0", "two"]


async def test_letters_of_lead_and_host_come_first_and_the_rest_is_worked_without_another_wake(
    scripts: Scripts,
) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("ann", "0", "1", "2", "3", follow_up_mode="one"), prompt="begin")
        await team.wait_idle()
        for sender, text in (("peer", "a"), ("lead", "b"), ("peer", "c")):
            await team.send("ann", text, sender=sender)
        await team.wait_idle()
    read = [text.split("\n")[1] if "\n" in text else text for text in scripts.read("ann")]
    assert read == ["begin", "b", "a", "c"]
    assert len(scripts.models["ann"].requests) == 4


async def test_urgent_letters_steer(scripts: Scripts) -> None:
    @tool
    async def look() -> str:
        """Look."""
        await team.send("ann", "stop looking")
        while not team.members["ann"].agent.state.steering:
            await anyio.lowlevel.checkpoint()
        return "seen"

    async with Team(clock=scripts.clock, deliver="steer", notices="none") as team:
        await team.add(
            scripts.agent("ann", [call("1", "look"), call("2", "look")], "ok", tools=[look]), prompt="go"
        )
        await team.wait_idle()
    assert scripts.read("ann") == ["go", "stop looking"]
    assert scripts.agents["ann"].state.tool_skips == 0 or len(scripts.models["ann"].requests) == 2


# --- news that a member rests (T210, T211) -----------------------------------------------------------


@pytest.mark.parametrize(
    ("notices", "read"),
    [
        ("wake", ["go", "news"]),
        ("queue", ["go", "news", "All members rest now."]),  # it is asked to sum up
        ("none", ["go"]),
    ],
)
async def test_what_becomes_of_the_news_that_a_member_rests(
    scripts: Scripts, notices: str, read: list[str]
) -> None:
    async with Team(clock=scripts.clock, notices=notices) as team:  # type: ignore[arg-type]  # a Notices
        await team.add(scripts.agent("lead", [send("1", "bob", "work")], "asked", "summed up", "summed up"))
        await team.add(scripts.agent("bob", "my result"))
        result = await team.run("go")
    news = tag("bob", "my result", "bob/idle/r1", kind="idle")
    said = ["news" if text == news else text for text in scripts.read("lead")]
    assert [text[: len(wanted)] for text, wanted in zip(said, read, strict=True)] == read
    assert result.text == ("asked" if notices == "none" else "summed up")


async def test_one_notice_for_each_rest_and_none_before_the_report(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("lead", *["ok"] * 9))
        await team.add(scripts.agent("bob", [send("1", "lead", "report")], "done 1", "done 2"), prompt="work")
        await team.wait_idle()
        await team.send("bob", "again")
        await team.wait_idle()
    assert scripts.read("lead") == [
        tag("bob", "report", "bob/1/lead"),
        tag("bob", "done 1", "bob/idle/r1", kind="idle"),
        tag("bob", "done 2", "bob/idle/r2", kind="idle"),
    ]


# --- tasks of the board (T224-T227) -----------------------------------------------------------------


async def test_a_resting_member_claims_tasks_one_after_the_other(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.board.add("host", TaskDraft(title="first"), TaskDraft(title="second", tags=("x",)))
        done = [[call(f"c{n}", "finish_task", id=f"t{n}", result="ok")] for n in (1, 2, 3)]
        script = [done[0], "1", done[1], "2", done[2], "3"]
        await team.add(scripts.agent("ann", *script), claims=True)
        await team.wait_idle()
        assert [task.status for task in await team.board.list()] == ["done", "done"]
        await team.board.add("host", TaskDraft(title="later"))
        await team.wait_idle()
        assert [task.status for task in await team.board.list()] == ["done"] * 3
    assert [text.split("\n")[0] for text in scripts.read("ann")] == ["first", "second", "later"]


async def test_a_letter_beats_a_task(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.board.add("host", TaskDraft(title="task"))
        await team.add(scripts.agent("ann", "1", "2"), claims=True, prompt="letter")
        await team.wait_idle()
    assert [text.split("\n")[0] for text in scripts.read("ann")] == ["letter", "task"]


async def test_tasks_that_nobody_works_on_are_a_deadlock(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("lead", [call("1", "add_task", title="x")], "added", "never"))
        await team.add(scripts.agent("bob", "I only talk"), claims=True)
        result = await team.run("go")
    assert result.end_reason == "deadlock"


# --- failures (I-31) --------------------------------------------------------------------------------


async def test_a_failed_run_does_not_end_a_member(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("lead", *["ok"] * 9))
        await team.add(scripts.agent("bob", ModelError("down"), "back"), prompt="work")
        await team.wait_idle()
        assert team.member("bob").status == "resting"
        await team.send("bob", "again")
        await team.wait_idle()
        assert (team.result("bob"), team.member("bob").failures) == ("back", 0)
    first, second = scripts.read("lead")
    assert 'kind="error"' in first
    assert "down" in first
    assert 'kind="idle"' in second


async def test_a_member_that_fails_again_and_again_ends(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("lead", *["ok"] * 9))
        await team.add(scripts.agent("bob", *[ModelError("down")] * 3), prompt="1")
        for text in ("2", "3"):
            await team.wait_idle()
            await team.send("bob", text)
        await team.wait_idle()
        assert team.member("bob").status == "failed"
        with pytest.raises(BoxClosed):
            await team.send("bob", "4")
        assert (await team.roster.get("bob")).status == "failed"
    kinds = [text.split('kind="')[1].split('"')[0] for text in scripts.read("lead")]
    assert kinds.count("error") == 3
    assert kinds.count("ended") == 1


# --- persons ----------------------------------------------------------------------------------------


async def test_a_call_that_waits_for_a_person(scripts: Scripts) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("lead", [call("p", "pay")], "paid it", tools=[pay]))
        result = await team.run("pay")
        assert (result.end_reason, result.members["lead"].status) == ("paused", "waiting")
        assert [each.call.id for each in team.pending()["lead"]] == ["p"]
        assert (await team.roster.get("lead")).waiting_for == ("host",)
        with pytest.raises(UnknownMember):
            team.decide("nobody", Verdict.allow())
        team.decide("lead", Verdict.allow())
        await team.wait_idle()
        assert (team.result("lead"), team.pending()) == ("paid it", {})
        assert (await team.roster.get("lead")).waiting_for == ()


# --- limits -----------------------------------------------------------------------------------------


async def test_one_slot_is_enough_for_members_that_wait_for_each_other(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, limits=TeamLimits(concurrency=1), notices="none") as team:
        await team.add(scripts.agent("lead", [send("1", "ann", "q")], "waiting", "got it"))
        await team.add(
            scripts.agent("ann", [send("2", "ben", "q")], "waiting", [send("3", "lead", "a")], "done")
        )
        await team.add(scripts.agent("ben", [send("4", "ann", "a")], "done"))
        with anyio.fail_after(10):
            result = await team.run("go")
    assert result.text == "got it"


async def test_two_that_only_answer_each_other_are_stopped(scripts: Scripts) -> None:
    def chatty(other: str) -> list[object]:
        return [each for n in range(40) for each in ([send(f"c{n}", other, "and you?")], "sent")]

    async with Team(clock=scripts.clock, limits=TeamLimits(per_pair=4), notices="none") as team:
        await team.add(scripts.agent("lead", "go", *["noted"] * 9))
        await team.add(scripts.agent("ann", *chatty("ben")), prompt="talk")
        await team.add(scripts.agent("ben", *chatty("ann")))
        with anyio.fail_after(10):
            result = await team.run("go")
    assert result.end_reason == "ping_pong"
    assert len(scripts.read("ann")) + len(scripts.read("ben")) == 1 + 5
    assert sum('kind="ping_pong"' in text for text in scripts.read("lead")) == 1


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(TeamLimits(tokens=25), "budget"), (TeamLimits(seconds=30), "deadline")],
)
async def test_a_team_ends_when_it_has_used_up_what_it_may(
    scripts: Scripts, limits: TeamLimits, reason: str
) -> None:
    used = Usage(input_tokens=5, output_tokens=5)
    step = Say([Wait(10), call("1", "list_members")], usage=used)
    async with Team(clock=scripts.clock, limits=limits, notices="none") as team:
        await team.add(scripts.agent("ann", *[step] * 20), prompt="go")
        await team.add(scripts.agent("lead", *[step] * 20))
        result = await team.run("go")
        assert result.end_reason == reason
        assert not any(agent.running for agent in scripts.agents.values())
        assert result.usage == sum((agent.total_usage for agent in scripts.agents.values()), Usage())
    assert sum(len(model.requests) for model in scripts.models.values()) <= 6


async def test_letters_are_counted(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, limits=TeamLimits(messages=2), notices="none") as team:
        await team.add(scripts.agent("ann", *["ok"] * 5))
        await team.send("ann", "1")
        await team.send("ann", "2")
        with pytest.raises(TeamError, match="as many messages as it may"):
            await team.send("ann", "3")
        await team.wait_idle()


# --- who there is -----------------------------------------------------------------------------------


async def test_the_lead_spawns_members_and_is_told_what_is_wrong(scripts: Scripts) -> None:
    writer = AgentDefinition(
        name="writer", description="Writes.", system="You write.", model=ScriptedModel(["a text", "more"])
    )
    lead = scripts.agent(
        "lead",
        [
            call("1", "spawn_member", agent="writer", prompt="write"),
            call("2", "spawn_member", agent="painter", prompt="paint"),
            call("3", "spawn_member", agent="writer", prompt="again", member_name="writer"),
            send("4", "nobody", "hello"),
            call("5", "list_members"),
        ],
        "spawned",
        "it wrote",
    )
    async with Team(clock=scripts.clock, definitions=[writer], limits=TeamLimits(members=2)) as team:
        await team.add(lead)
        result = await team.run("go")
        spawned = team.member("writer")
        assert spawned.info.spawned_by == "lead"
        assert (spawned.info.depth, spawned.agent.state.session) == (1, spawned.info.session)
        system = spawned.agent.settings.context.system
        assert str(system).startswith("You write.\n\nYou are 'writer', a member of the team 'team'.")
    results = [each.text for each in lead.state.messages if each.role == "tool"]
    assert results[0] == "writer has joined and begins. End your turn to wait for it."
    assert "no such agent: 'painter'; there are writer" in results[1]
    assert "the team is full" in results[2] or "NameTaken" in results[2]
    assert "there is no member 'nobody'; there are lead, writer" in results[3]
    assert "- lead (you, lead): running" in results[4]
    assert result.text == "it wrote"


async def test_names(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("ann", "ok"))
        for name, error in (("ann", NameTaken), ("all", NameTaken), ("host", NameTaken), ("A b", TeamError)):
            with pytest.raises(error):
                await team.add(scripts.agent("other"), name=name)
        with pytest.raises(UnknownMember, match="there are ann"):
            await team.send("nobody", "hello")
        with pytest.raises(UnknownMember, match="there are ann"):
            team.result("nobody")
        with pytest.raises(TeamError, match="needs a text"):
            await team.send("ann", "  ")


async def test_a_broadcast_reaches_everybody_else(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("lead", [send("1", "all", "listen")], "said"))
        await team.add(scripts.agent("ann", "ok"))
        await team.add(scripts.agent("ben", "ok"))
        await team.run("go")
        assert await team.broadcast("from the host") == {"ann": "", "ben": "", "lead": ""}
    for name in ("ann", "ben"):
        assert scripts.read(name)[0] == tag("lead", "listen", f"lead/1/{name}", kind="broadcast")
    assert [each.text for each in scripts.agents["lead"].state.messages if each.role == "tool"] == [
        "Sent to ann, ben."
    ]


# --- the end ----------------------------------------------------------------------------------------


async def test_leaving_ends_everything(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        ann = scripts.agent("ann", [Wait(float("inf"))])
        await team.add(ann, prompt="go")
        while not ann.running:
            await anyio.lowlevel.checkpoint()
    assert not ann.running
    assert ann.state.end_reason == "aborted"
    assert (await team.roster.get("ann")).status == "lost"


async def test_an_error_of_the_host_comes_out_as_it_is(scripts: Scripts) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Team(clock=scripts.clock) as team:
            await team.add(scripts.agent("ann", [Wait(float("inf"))]), prompt="go")
            _ = 1 / 0


async def test_shutting_down_lets_runs_finish_within_bounds(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("quick", [Wait(2), "finished"]), prompt="go")
        await team.add(scripts.agent("slow", [Wait(1000), "never"]), prompt="go")
        await team.add(scripts.agent("idle"))
        while not all(scripts.agents[name].running for name in ("quick", "slow")):
            await anyio.lowlevel.checkpoint()
        began = scripts.clock.now
        await team.shutdown(timeout_s=10)
        assert scripts.clock.now - began < 20
        assert {each.name: each.status for each in await team.roster.members()} == {
            "idle": "stopped",
            "quick": "stopped",
            "slow": "stopped",
        }
        assert (team.result("quick"), team.result("slow")) == ("finished", "")
        assert (await team.outcome()).end_reason == "stopped"


async def test_another_goes_on_where_a_team_was_left(tmp_path: Path) -> None:
    mailbox, roster = MemoryMailbox(), MemoryRoster()  # files are read in threads: in real time
    with JsonlSessions(tmp_path) as sessions:

        def team(model: ScriptedModel) -> Team:
            definitions = [AgentDefinition(name="ann", model=model)]
            return Team(mailbox=mailbox, roster=roster, sessions=sessions, definitions=definitions)

        async with team(ScriptedModel(["one", [Wait(float("inf"))]])) as first:
            member = await first.spawn("ann", prompt="begin")
            await first.wait_idle()
            await first.send("ann", "go on")
            while member.status != "working":
                await anyio.lowlevel.checkpoint()
        await mailbox.send(Letter(id="late", sender="host", to="ann", text="late"))
        model = ScriptedModel(["two", "three"])
        async with team(model) as second:
            member = await second.join("ann")
            await second.wait_idle()
            assert second.result("ann") in ("two", "three")  # the late letter may have come with the other
            assert member.generation > 1
            with pytest.raises(WrongStatus):
                await second.join("ann")
    said = [each.text for each in member.agent.state.messages if each.role == "user"]
    assert said == ["begin", "go on", "late"]


async def test_a_call_that_runs_again_spawns_nobody_twice(scripts: Scripts) -> None:
    writer = AgentDefinition(name="writer", model=ScriptedModel(["a text", "never"]))
    async with Team(clock=scripts.clock, definitions=[writer], notices="none") as team:
        await team.add(scripts.agent("lead"))
        first = await team.spawn_for("lead", "writer", "", "write", "session/c1/spawn")
        again = await team.spawn_for("lead", "writer", "", "write", "session/c1/spawn")
        await team.wait_idle()
        assert first is again
        assert await team.names() == ("lead", "writer")
        assert first.result == "a text"
        assert len(first.agent.state.messages) == 2


async def test_members_are_spawned_only_so_deep(scripts: Scripts) -> None:
    model = ScriptedModel()
    async with Team(clock=scripts.clock, definitions=[AgentDefinition(name="x", model=model)]) as team:
        above = (await team.add(scripts.agent("lead"))).name
        for depth in (1, 2, 3):
            member = await team.spawn_for(above, "x", "", "", f"k{depth}")
            assert (member.info.depth, (await team.roster.get(member.name)).depth) == (depth, depth)
            above = member.name
        with pytest.raises(TeamError, match="3 levels deep"):
            await team.spawn_for(above, "x", "", "", "k4")
