"""Whether a team is at rest: no member works, no letter is under way, nothing is claimed that somebody works on.

It is looked at twice: what is read of mailbox and board counts only if nothing has changed here meanwhile. Members of
other processes are seen through the mailbox: a box rests only if its reader does.

Read with: ``team.py``, ``mailbox.py``.
"""

from collections.abc import Awaitable, Callable, Sequence

from unspool.kernel.ports import Clock
from unspool.kernel.spawn import Waker, current_backend

from .mailbox import BoxInfo
from .member import Members

POLL_S = 0.2  # how often members of other processes are looked at


class Changes:
    """Counts what happens, and wakes those who wait for it."""

    def __init__(self) -> None:
        self.version = 0
        self._waiting: list[Waker] = []

    def changed(self) -> None:
        self.version += 1
        for waker in self._waiting:
            waker.set()

    async def since(self, version: int, clock: Clock, poll_s: float | None) -> None:
        """Wait until something has happened after ``version``, or for ``poll_s`` seconds."""
        waker = current_backend().waker()
        self._waiting.append(waker)
        stop = None if poll_s is None else clock.call_later(poll_s, waker.set)
        try:
            if self.version == version:
                await waker.wait()
        finally:
            self._waiting.remove(waker)
            if stop is not None:
                stop()


def all_settled(members: Members) -> bool:
    """Whether no member of this process does anything."""
    return all(member.settled for member in members.values())


def is_quiet(boxes: Sequence[BoxInfo], members: Members) -> bool:
    """Whether everybody rests, waits for a person, or has ended, and no letter is under way."""
    if not all_settled(members):
        return False
    for box in boxes:
        if box.state == "closed":
            continue
        member = members.get(box.name)
        waits = member is not None and member.status == "waiting"
        if box.waiting or box.out or (box.state != "resting" and not waits):
            return False
    return True


async def wait_until(
    changes: Changes,
    clock: Clock,
    holds: Callable[[], Awaitable[bool]],
    *,
    poll_s: Callable[[], float | None],
) -> None:
    """Return when ``holds`` says yes and nothing has changed while it looked."""
    while True:
        version = changes.version
        if await holds() and version == changes.version:
            return
        await changes.since(version, clock, poll_s())
