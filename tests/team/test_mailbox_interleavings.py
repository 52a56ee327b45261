"""A reader that rests when its box is empty, and senders: in thousands of orders, no letter and no wake-up is lost."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint

from unspool.kernel.spawn import Waker, current_backend
from unspool.team.letters import Letter
from unspool.team.mailbox import Mailbox
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.sqlite_mailbox import SqliteMailbox

pytestmark = pytest.mark.anyio
LONG = bool(os.environ.get("UNSPOOL_LONG"))
RUNS = 10_000
MORE_RUNS = 10_000 if LONG else 2_000  # on the other backend
SQLITE_RUNS = 2_000 if LONG else 60
SENDERS, EACH = 2, 3


class Steps:
    """Lets one of several tasks at a time make its next step, as a seed says."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._waiting: list[Waker] = []

    async def next(self) -> None:
        waker = current_backend().waker()
        self._waiting.append(waker)
        await waker.wait()

    async def run(self, over: Callable[[], bool], pause: Callable[[], Awaitable[bool]]) -> None:
        """Until it is over, or all tasks wait for something else and ``pause`` says to give up."""
        while not over():
            if self._waiting:
                self._waiting.pop(self._random.randrange(len(self._waiting))).set()
            elif await pause() and not self._waiting:
                return
            for _ in range(self._random.randrange(1, 4)):
                await checkpoint()


class Scene:
    """A reader, its lead, and senders; what has happened."""

    def __init__(self, mailbox: Mailbox, seed: int) -> None:
        self.mailbox = mailbox
        self.random = Random(seed)
        self.steps = Steps(self.random)
        self.box, self.lead = f"box {seed}", f"lead {seed}"
        self.sent: list[str] = []
        self.read: list[str] = []
        self.notices = 0

    async def send(self, sender: int) -> None:
        for number in range(EACH):
            await self.steps.next()
            letter = Letter(id=f"{sender}-{number}", sender=f"sender {sender}", to=self.box)
            await self.mailbox.send(letter, wait_s=None)
            self.sent.append(letter.id)

    async def receive(self) -> None:
        wait_s: float | None = 0.0
        while True:
            await self.steps.next()
            ids: list[str] = []
            with anyio.CancelScope() as scope:
                if wait_s is None and self.random.random() < 0.2:
                    scope.cancel()  # as by a person who presses a key
                found = await self.mailbox.receive(self.box, limit=self.random.randrange(1, 4), wait_s=wait_s)
                ids = [delivery.letter.id for delivery in found]
            self.read += ids
            if ids:
                await self.steps.next()
                await self.mailbox.acknowledge(self.box, ids)
                wait_s = 0.0
            else:
                await self.steps.next()
                known = len(self.sent)  # a letter that comes after this may be overtaken by the notice
                notice = Letter(id=f"idle {self.notices}", sender=self.box, to=self.lead)
                if await self.mailbox.rest(self.box, notice):
                    assert len(self.read) >= known, "it rests, and a letter lies in its box"
                    self.notices += 1
                    wait_s = None

    def over(self) -> bool:
        return len(self.sent) == SENDERS * EACH == len(self.read)

    async def play(self, pause: Callable[[], Awaitable[bool]]) -> None:
        await self.mailbox.open(self.box, capacity=self.random.randrange(1, 5))
        await self.mailbox.open(self.lead)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.receive)
            for sender in range(SENDERS):
                tasks.start_soon(self.send, sender)
            await checkpoint()
            await self.steps.run(self.over, pause)
            tasks.cancel_scope.cancel()
        assert self.over(), f"sent {self.sent}, read {self.read}"
        for sender in range(SENDERS):
            mine = [id for id in self.read if id.startswith(f"{sender}-")]
            assert mine == [f"{sender}-{number}" for number in range(EACH)]
        assert len(await self.mailbox.receive(self.lead)) == self.notices


async def give_up() -> bool:
    """Whether to: in memory, what does not go on in so many rounds never does."""
    for _ in range(20):
        await checkpoint()
    return True


async def be_patient() -> bool:
    await anyio.sleep(0.0005)  # so that the thread gets on
    return False


async def test_in_memory(anyio_backend: str) -> None:
    for seed in range(RUNS if anyio_backend == "asyncio" else MORE_RUNS):
        await Scene(MemoryMailbox(), seed).play(give_up)


async def test_in_a_file(tmp_path: Path) -> None:
    mailbox = SqliteMailbox(tmp_path / "mailbox.db")
    try:
        with anyio.fail_after(120):
            for seed in range(SQLITE_RUNS):
                await Scene(mailbox, seed).play(be_patient)
    finally:
        await mailbox.aclose()
