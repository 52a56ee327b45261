"""Letters that come at every point between a member's last words and its rest: each is read once, none is slept over.

The model of every member, and whoever sends, makes its next step when a seed says so.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.team.team_scripts import Scripts

from unspool.kernel import Agent, Retry
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent, TextDelta
from unspool.team.letters import Letter
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.team import Team
from unspool.trajectory.memory import MemoryLog

pytestmark = pytest.mark.anyio
SEEDS = 2_000 if os.environ.get("UNSPOOL_LONG") else 40
LETTERS = 4


class Echo:
    """A model that answers with how many user messages it has read, after a random number of steps."""

    name = "test/echo"
    supports_tools = True

    def __init__(self, random: Random) -> None:
        self.random = random

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        await pause(self.random)
        yield TextDelta(str(sum(message.role == "user" for message in request.messages)))
        await pause(self.random)
        yield StreamEnd(stop_reason="stop")


async def pause(random: Random) -> None:
    for _ in range(random.randrange(12)):
        await checkpoint()


class Slow(MemoryMailbox):
    """Takes a random number of steps before and after what it does; nobody rests who has something to do."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.team: Team | None = None

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        await pause(self.random)
        await super().acknowledge(name, ids)
        await pause(self.random)

    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        await pause(self.random)
        rests = await super().rest(name, notice)
        if rests and self.team is not None:
            assert not self.team.members[name].has_input
        await pause(self.random)
        return rests


async def play(seed: int) -> None:
    random, clock = Random(seed), Scripts().clock
    agents = {
        name: Agent(
            Echo(random),
            name=name,
            clock=clock,
            log=MemoryLog(session=name),
            retry=Retry(attempts=0, idle_s=None, call_s=None),
        )
        for name in ("lead", "ann", "ben")
    }
    mailbox = Slow(random)
    async with Team(clock=clock, mailbox=mailbox) as team:
        mailbox.team = team
        for agent in agents.values():
            await team.add(agent)

        async def send(name: str) -> None:
            for number in range(LETTERS):
                await pause(random)
                await team.send(name, f"{name} {number}")

        async with anyio.create_task_group() as senders:
            senders.start_soon(send, "ann")
            senders.start_soon(send, "ben")
            for _ in range(random.randrange(3)):
                await pause(random)
                await team.wait_idle()  # whatever is under way
        await team.wait_idle()
        assert {name: each.status for name, each in team.members.items()} == dict.fromkeys(agents, "resting")
        for name in ("ann", "ben"):
            messages = agents[name].export_messages()
            read = [message.text for message in messages if message.role == "user"]
            assert read == [f"{name} {number}" for number in range(LETTERS)]
            assert messages[-1].role == "assistant"
            assert messages[-1].text == str(LETTERS)
        notices = [each.text for each in agents["lead"].export_messages() if each.role == "user"]
        for name in ("ann", "ben"):
            mine = [text for text in notices if f'from="{name}"' in text]
            assert 1 <= len(mine) <= agents[name].state.runs
            assert f"\n{LETTERS}\n" in mine[-1]  # the last news is about everything
            assert not any(f"\n{LETTERS}\n" in text for text in mine[:-1])
        assert agents["lead"].export_messages()[-1].role == "assistant"


async def test_no_letter_is_slept_over() -> None:
    for seed in range(SEEDS):
        with anyio.fail_after(20):
            await play(seed)
