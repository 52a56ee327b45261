"""A member: what it is asked to stop with, what becomes of its letters, what it takes in once."""

from collections.abc import Iterator, Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.team.team_scripts import Scripts, tag

from unspool.llm.scripted import Wait, call
from unspool.team.errors import BoxClosed
from unspool.team.letters import Letter
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.shutdown import ShutdownAnswer
from unspool.team.team import Team

pytestmark = pytest.mark.anyio
FOREVER = Wait(float("inf"))


@pytest.fixture
def scripts() -> Iterator[Scripts]:
    made = Scripts()
    yield made
    made.check()


async def running(scripts: Scripts, name: str) -> None:
    while not scripts.agents[name].running:
        await checkpoint()


def kinds(scripts: Scripts, name: str) -> list[str]:
    return [text.split('kind="')[1].split('"')[0] for text in scripts.read(name) if 'kind="' in text]


def answer(id: str, approve: bool, reason: str = "") -> object:
    return call(id, "answer_shutdown", approve=approve, reason=reason)


async def test_a_member_approves_and_stops(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(scripts.agent("lead", *["ok"] * 5))
        await team.add(scripts.agent("bob", [answer("1", True, "all done")], "bye"))
        assert await team.request_shutdown("bob", "we are through") == ShutdownAnswer(True, "all done")
        await team.wait_idle()
        info = await team.roster.get("bob")
        assert (info.status, info.reason) == ("stopped", "all done")
        with pytest.raises(BoxClosed):
            await team.send("bob", "still there?")
        assert team.member("bob").status == "stopped"
    assert kinds(scripts, "lead") == ["ended"]
    assert "we are through" in scripts.read("bob")[0]
    assert "answer_shutdown" in scripts.read("bob")[0]


async def test_a_member_rejects_and_goes_on(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(
            scripts.agent(
                "lead", [call("1", "stop_member", member_name="bob", reason="hurry")], "asked", "fine"
            )
        )
        await team.add(scripts.agent("bob", [answer("1", False, "one more page")], "going on", "read"))
        result = await team.run("stop bob")
        assert result.text == "fine"
        assert team.member("bob").status == "resting"
        await team.send("bob", "go on")
        await team.wait_idle()
        assert team.result("bob") == "read"
    assert "one more page" in scripts.read("lead")[1]
    assert kinds(scripts, "lead") == ["shutdown_rejected"]


@pytest.mark.parametrize(("force", "seconds"), [(False, 7.0), (True, 0.0)])
async def test_a_member_that_does_not_answer_is_stopped(
    scripts: Scripts, force: bool, seconds: float
) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("bob", [FOREVER]), prompt="work")
        await running(scripts, "bob")
        began = scripts.clock.now
        assert (await team.request_shutdown("bob", force=force, grace_s=7)).stopped
        assert scripts.clock.now - began == seconds
        assert (await team.roster.get("bob")).status == "stopped"
        assert not scripts.agents["bob"].running


async def test_nobody_stops_who_was_not_asked(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock) as team:
        await team.add(
            scripts.agent("bob", [answer("1", True, "bored"), answer("2", False)], "well"), prompt="x"
        )
        await team.wait_idle()
        assert team.member("bob").status == "resting"
    results = [each.text for each in scripts.agents["bob"].state.messages if each.role == "tool"]
    assert "nobody has asked you to stop" in results[0]


async def test_what_a_stopped_member_did_not_read_is_told_to_the_senders(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("bob", [FOREVER]), prompt="work")
        await running(scripts, "bob")
        await team.add(scripts.agent("ann", [call("1", "send_message", to="bob", text="x")], "sent", "oh"))
        await team.send("ann", "write to bob")
        await team.wait_idle(timeout_s=1)
        await team.request_shutdown("bob", force=True)
        await team.wait_idle()
        assert team.member("bob").status == "stopped"
        assert team.member("ann").status == "resting"
    assert kinds(scripts, "ann") == ["undeliverable"]
    assert scripts.read("bob") == ["work"]


async def test_a_name_is_free_again_after_the_end(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("bob", "1"), prompt="go")
        await team.request_shutdown("bob", force=True)
        first = team.member("bob")
        await team.add(scripts.agent("bob2", "2"), name="bob", prompt="go")
        await team.wait_idle()
        second = team.member("bob")
        assert second.generation > first.generation
        assert team.result("bob") == "2"


class Repeating(MemoryMailbox):
    """Delivers each letter again, as to a reader that died before it acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.forgot: set[str] = set()

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        new = [id for id in ids if id not in self.forgot]
        self.forgot.update(new)
        await self.release(name, new, reader=name)
        await super().acknowledge(name, [id for id in ids if id not in new])


async def test_a_letter_that_is_delivered_again_is_shown_once(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, mailbox=Repeating()) as team:
        await team.add(scripts.agent("lead", *["ok"] * 5))
        await team.add(scripts.agent("bob", "1", "2"), prompt="one")
        await team.wait_idle()
        await team.send("bob", "two")
        await team.wait_idle()
    assert scripts.read("bob") == ["one", "two"]
    assert scripts.read("lead") == [tag("bob", text, f"bob/idle/r{text}", kind="idle") for text in ("1", "2")]


class Watching(MemoryMailbox):
    """Notes how many letters the reader's log holds when they are acknowledged."""

    def __init__(self, scripts: Scripts) -> None:
        super().__init__()
        self.scripts = scripts
        self.acknowledged: list[str] = []

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        facts = repr(self.scripts.logs[name].facts)
        assert all(id in facts for id in ids)
        self.acknowledged += ids
        await super().acknowledge(name, ids)


async def test_a_letter_is_acknowledged_when_the_log_holds_it(scripts: Scripts) -> None:
    mailbox = Watching(scripts)
    async with Team(clock=scripts.clock, mailbox=mailbox) as team:
        await team.add(scripts.agent("bob", "1"), prompt="go")
        await team.wait_idle()
    assert mailbox.acknowledged == ["bob/prompt/0"]


async def test_a_letter_that_cannot_be_shown_becomes_a_dead_letter(scripts: Scripts) -> None:
    def nothing(letter: Letter) -> str:
        return "" if letter.text == "bad" else letter.text

    async with Team(clock=scripts.clock, format_letter=nothing, notices="none") as team:
        await team.add(scripts.agent("bob", "1"))
        await team.send("bob", "bad")
        await team.send("bob", "good")
        await team.wait_idle()
        (dead,) = await team.mailbox.dead_letters()
        assert "empty" in dead.reason
    assert scripts.read("bob") == ["good"]


async def test_a_closed_box_ends_its_member(scripts: Scripts) -> None:
    async with Team(clock=scripts.clock, notices="none") as team:
        await team.add(scripts.agent("bob", "1"), prompt="go")
        await team.wait_idle()
        await team.mailbox.close("bob")
        with anyio.fail_after(5):
            while not team.member("bob").finished:
                await checkpoint()
        assert team.member("bob").status == "stopped"
