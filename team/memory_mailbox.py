"""Boxes in the memory of one process, for the tasks of one event loop.

Everything happens between two awaits, so that no lock is needed. A letter is put into a full box by whoever makes
room in it, for the sender that waits longest.

Read with: ``mailbox.py`` (what is promised), ``memory_box.py`` (what lies in a box).
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from anyio.lowlevel import checkpoint

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock
from unspool.kernel.spawn import Waker, current_backend

from .errors import TeamError
from .letters import DeadLetter, Delivery, Letter
from .mailbox import CLOSED, FULL, KEPT_DEAD_LETTERS, UNKNOWN, BoxInfo
from .memory_box import MemoryBox
from .refusals import check_capacity, check_receive, closed, full, gone, unknown


class _Sender:
    """A letter that waits for room; ``accepted`` once it was dealt with."""

    __slots__ = ("accepted", "error", "left", "letter", "waker")

    def __init__(self, letter: Letter) -> None:
        self.letter = letter
        self.waker = current_backend().waker()
        self.accepted: bool | None = None
        self.error: TeamError | None = None
        self.left = False


class _Box(MemoryBox):
    """A box, and who waits at it."""

    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(name, capacity)
        self.readers: list[Waker] = []
        self.senders: deque[_Sender] = deque()
        self.stop_timer: Callable[[], None] | None = None
        self.timer_at = inf

    def wake_readers(self) -> None:
        for waker in self.readers:
            waker.set()

    def deliver(self, letter: Letter) -> None:
        self.put(letter)
        if self.readers:
            self.wake_readers()

    def admit(self) -> None:
        """Put letters of waiting senders into what room there is."""
        while self.senders and (self.senders[0].left or not self.is_full):
            sender = self.senders.popleft()
            if not sender.left:
                sender.accepted = not self.knows(sender.letter.id)
                if sender.accepted:
                    self.deliver(sender.letter)
                sender.waker.set()

    def turn_away(self, error: Callable[[], TeamError]) -> None:
        """Nobody waits here any longer."""
        for sender in self.senders:
            sender.error = error()
            sender.waker.set()
        self.senders.clear()
        self.wake_readers()


class MemoryMailbox:
    """A ``Mailbox`` that is gone with the process. One event loop uses it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._boxes: dict[str, _Box] = {}
        self._dead: deque[DeadLetter] = deque(maxlen=KEPT_DEAD_LETTERS)
        self._gone = False

    def _box(self, name: str) -> _Box:
        if self._gone:
            raise gone()
        box = self._boxes.get(name)
        if box is None:
            raise unknown(name)
        return box

    async def open(self, name: str, *, capacity: int = 1000) -> None:
        check_capacity(capacity)
        if self._gone:
            raise gone()
        box = self._boxes.get(name)
        if box is None:
            self._boxes[name] = _Box(name, capacity)
        elif box.state == "closed":
            box.state = "busy"
            box.capacity = capacity

    async def close(self, name: str, reason: str = "stopped") -> Sequence[DeadLetter]:
        box = self._box(name)
        if box.state == "closed":
            return ()
        box.state = "closed"
        box.closings += 1
        dead = box.clear(reason, self._clock.time())
        self._dead.extend(dead)
        box.turn_away(lambda: closed(name))
        return tuple(dead)

    async def send(self, letter: Letter, /, *, wait_s: float | None = 0.0) -> bool:
        box = self._box(letter.to)
        if box.knows(letter.id):
            return False
        if box.state == "closed":
            raise closed(box.name)
        if not box.is_full:
            box.deliver(letter)
            return True
        if wait_s is not None and wait_s <= 0:
            await checkpoint()  # so that one who tries again and again lets the reader read
            raise full(box.name, box.capacity)
        return await self._send_later(box, letter, wait_s)

    async def _send_later(self, box: _Box, letter: Letter, wait_s: float | None) -> bool:
        sender = _Sender(letter)

        def give_up() -> None:
            if sender.accepted is None and sender.error is None:
                sender.error = full(box.name, box.capacity)
                sender.left = True
                sender.waker.set()

        box.senders.append(sender)
        stop_timer = None if wait_s is None else self._clock.call_later(wait_s, give_up)
        try:
            while sender.accepted is None and sender.error is None:
                await sender.waker.wait()
        finally:
            sender.left = True
            if box.senders and box.senders[0].left:
                box.admit()
            if stop_timer is not None:
                stop_timer()
        if sender.error is not None:
            raise sender.error
        return bool(sender.accepted)

    async def receive(
        self,
        name: str,
        *,
        limit: int = 100,
        wait_s: float | None = 0.0,
        lease_s: float = 60.0,
        reader: str = "",
    ) -> Sequence[Delivery]:
        check_receive(limit, lease_s)
        box = self._box(name)
        taken = self._take(box, limit, lease_s, reader)
        if taken:
            return taken
        if wait_s is not None and wait_s <= 0:
            await checkpoint()  # so that one who asks again and again lets others send
            return ()
        over, closings = False, box.closings
        waker = current_backend().waker()

        def expire() -> None:
            nonlocal over
            over = True
            waker.set()

        box.readers.append(waker)
        stop_timer = None if wait_s is None else self._clock.call_later(wait_s, expire)
        try:
            self._watch_leases(box)
            while not taken and not over:
                await waker.wait()
                if self._gone:
                    raise gone()
                if box.closings != closings:  # it may be open again, for another reader
                    raise closed(name)
                taken = self._take(box, limit, lease_s, reader)
        finally:
            box.readers.remove(waker)
            self._watch_leases(box)
            if stop_timer is not None:
                stop_timer()
        return taken

    def _take(self, box: _Box, limit: int, lease_s: float, reader: str) -> list[Delivery]:
        if box.state == "closed":
            raise closed(box.name)
        now = self._clock.monotonic()
        box.expire(now)
        taken = box.take(reader, limit, now + lease_s)
        if box.readers:
            self._watch_leases(box)
        return taken

    def _watch_leases(self, box: _Box) -> None:
        """Have a timer for the next lease that may be over, while somebody waits."""
        wanted = box.next_expiry if box.readers and box.out else inf
        if wanted == box.timer_at:
            return
        if box.stop_timer is not None:
            box.stop_timer()
            box.stop_timer = None
        box.timer_at = wanted
        if wanted < inf:
            box.stop_timer = self._clock.call_later(
                max(0.0, wanted - self._clock.monotonic()), lambda: self._leases_over(box)
            )

    def _leases_over(self, box: _Box) -> None:
        box.stop_timer = None
        box.timer_at = inf
        if box.expire(self._clock.monotonic()):
            box.wake_readers()
        self._watch_leases(box)

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        box = self._box(name)
        box.remove(ids)
        self._moved_on(box)

    async def renew(
        self, name: str, ids: Sequence[str], /, *, lease_s: float = 60.0, reader: str = ""
    ) -> None:
        box = self._box(name)
        box.renew(ids, reader, self._clock.monotonic() + lease_s)
        self._watch_leases(box)

    async def release(self, name: str, ids: Sequence[str] | None = None, /, *, reader: str = "") -> None:
        box = self._box(name)
        if box.put_back(ids, reader):
            box.wake_readers()

    async def refuse(
        self, name: str, ids: Sequence[str], /, *, reason: str = "too_many_attempts"
    ) -> Sequence[DeadLetter]:
        box, at = self._box(name), self._clock.time()
        dead = [DeadLetter(letter=letter, reason=reason, at=at) for letter in box.remove(ids)]
        self._dead.extend(dead)
        self._moved_on(box)
        return tuple(dead)

    def _moved_on(self, box: _Box) -> None:
        """Letters left the box: there is room, and the next ones of their senders may go to other readers."""
        if box.senders:
            box.admit()
        if box.readers:
            box.wake_readers()

    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        box = self._box(name)
        if box.state == "closed":
            raise closed(name)
        if not box.is_empty:
            return False
        box.state = "resting"
        if notice is not None:
            self._notify(notice)
        return True

    def _notify(self, notice: Letter) -> None:
        box = self._boxes.get(notice.to)
        if box is not None and box.knows(notice.id):
            return
        if box is not None and box.state != "closed" and not box.is_full:
            box.deliver(notice)
            return
        reason = UNKNOWN if box is None else CLOSED if box.state == "closed" else FULL
        self._dead.append(DeadLetter(letter=notice, reason=reason, at=self._clock.time()))

    async def boxes(self) -> Sequence[BoxInfo]:
        if self._gone:
            raise gone()
        now = self._clock.monotonic()
        for box in self._boxes.values():
            if box.expire(now):
                box.wake_readers()
        return tuple(self._boxes[name].info() for name in sorted(self._boxes))

    async def dead_letters(self, sender: str | None = None) -> Sequence[DeadLetter]:
        if self._gone:
            raise gone()
        return tuple(dead for dead in self._dead if sender is None or dead.letter.sender == sender)

    async def aclose(self) -> None:
        self._gone = True
        for box in self._boxes.values():
            box.turn_away(gone)
