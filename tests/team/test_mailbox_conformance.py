"""The conformance kit for mailboxes: our own pass, and what is broken is found by the check for it."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from anyio import sleep

from unspool.kernel.conformance import ConformanceError
from unspool.team.letters import DeadLetter, Delivery, Letter
from unspool.team.mailbox_conformance import _CHECKS, _TRANSIENT, check_mailbox
from unspool.team.memory_mailbox import MemoryMailbox
from unspool.team.sqlite_mailbox import SqliteMailbox

pytestmark = pytest.mark.anyio


async def test_memory_mailboxes_pass() -> None:
    await check_mailbox(lambda name: MemoryMailbox(), durable=False)


async def test_sqlite_mailboxes_pass(tmp_path: Path) -> None:
    await check_mailbox(lambda name: SqliteMailbox(tmp_path / name))


async def test_only_makers_and_known_checks_are_taken() -> None:
    with pytest.raises(TypeError, match="callable that gives an instance"):
        await check_mailbox(MemoryMailbox())  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(ValueError, match="no such check: wishes"):
        await check_mailbox(lambda name: MemoryMailbox(), skip=["wishes"])


class Backwards(MemoryMailbox):
    async def receive(self, name: str, **options: Any) -> Sequence[Delivery]:
        return (await super().receive(name, **options))[::-1]


class Forgetful(MemoryMailbox):
    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        await super().acknowledge(name, ids)
        self._boxes[name]._seen.clear()


class Keeping(MemoryMailbox):
    async def release(self, name: str, ids: Sequence[str] | None = None, /, *, reader: str = "") -> None:
        return None


class Endless(MemoryMailbox):
    async def receive(self, name: str, **options: Any) -> Sequence[Delivery]:
        return await super().receive(name, **{**options, "lease_s": 1e6})


class OneReader(MemoryMailbox):
    async def receive(self, name: str, **options: Any) -> Sequence[Delivery]:
        return await super().receive(name, **{**options, "reader": ""})


class Boundless(MemoryMailbox):
    async def open(self, name: str, *, capacity: int = 1000) -> None:
        await super().open(name, capacity=1_000_000)


class Restful(MemoryMailbox):
    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        await super().rest(name, notice)
        return True


class Dropping(MemoryMailbox):
    async def close(self, name: str, reason: str = "stopped") -> Sequence[DeadLetter]:
        self._box(name).remove(
            [entry.letter.id for entry in self._box(name)._entries.values() if entry.until]
        )
        return await super().close(name, reason)


class Sleepy(MemoryMailbox):
    async def send(self, letter: Letter, /, *, wait_s: float | None = 0.0) -> bool:
        box = self._box(letter.to)
        readers, box.readers = box.readers, []
        accepted = await super().send(letter, wait_s=wait_s)
        box.readers += readers
        return accepted


class Careless(MemoryMailbox):
    async def receive(self, name: str, **options: Any) -> Sequence[Delivery]:
        taken = await super().receive(name, **options)
        await sleep(0.01)  # cancelled here, they are out for nobody
        return taken


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Backwards, "sends"),
        (Forgetful, "again"),
        (Keeping, "release"),
        (Endless, "lease"),
        (OneReader, "readers"),
        (Boundless, "capacity"),
        (Restful, "rest"),
        (Dropping, "close"),
        (Sleepy, "waits"),
        (Careless, "cancelled"),
    ],
)
async def test_what_is_broken_is_found(broken: type[MemoryMailbox], check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        skip = {each.name for each in _TRANSIENT} - {check}
        await check_mailbox(lambda name: broken(), durable=False, timeout_s=0.4, grace_s=0.2, skip=skip)
    assert caught.value.checks == (check,)


async def test_a_place_that_is_another_each_time_is_found(tmp_path: Path) -> None:
    numbers = count()
    skip = {each.name for each in _CHECKS} - {"reopens", "two"}
    with pytest.raises(ConformanceError) as caught:
        await check_mailbox(lambda name: SqliteMailbox(tmp_path / f"{name}-{next(numbers)}"), skip=skip)
    assert caught.value.checks == ("reopens",)
