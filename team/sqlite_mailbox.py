"""Boxes in an SQLite file, for several processes of one machine at once.

An accepted letter is committed: it survives the death of any process (see ``durability``). Who waits is woken at
once by what happens in its own process, and by what happens in others within ``poll_s`` seconds.

Read with: ``mailbox.py`` (what is promised), ``sqlite_worker.py``, ``sqlite_boxes.py``.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock
from unspool.kernel.spawn import current_backend
from unspool.trajectory.durability import BUFFERED, EACH_FLUSH, Durability

from .errors import BoxClosed
from .letters import DeadLetter, Delivery, Letter
from .mailbox import BoxInfo
from .refusals import check_capacity, check_receive, full
from .sqlite_boxes import LATER, Boxes, Later, encode
from .sqlite_worker import Place, Request, Worker

T = TypeVar("T")


class SqliteMailbox:
    """A ``Mailbox`` in a file, which is made if it is missing; its folder must be on a local disk.

    Leases end by ``clock.time()``, which is the machine's for all processes. With ``durability=BUFFERED`` a letter
    survives the death of the process; with ``EACH_FLUSH`` also that of the machine, and each commit waits for the
    disk. A process that is forked makes its own. Close it: its thread and its connection are there until then.

    Raises:
        TeamError: the file cannot be opened, or is no mailbox; (all methods) it cannot be read or written.
        ValueError: ``poll_s`` is not positive, or there is no such durability of a mailbox.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        *,
        poll_s: float = 0.03,
        durability: Durability = BUFFERED,
    ) -> None:
        if poll_s <= 0:
            raise ValueError(
                f"SqliteMailbox: expected more than 0 s between looks at the file (poll_s={poll_s})"
            )
        if durability not in (BUFFERED, EACH_FLUSH):
            raise ValueError(f"SqliteMailbox: BUFFERED or EACH_FLUSH (durability={durability!r})")
        self._clock: Clock = clock or SystemClock()
        self._reader = f"{os.getpid()}-{os.urandom(8).hex()}"  # who reads here without a name
        self._worker = Worker(os.fspath(path), self._clock, poll_s, full=durability == EACH_FLUSH)

    async def _do(self, step: Callable[[Boxes], T]) -> T:
        """Carry out a step that need not wait for anybody."""
        value: T = await self._outcome(Request(step, None, at_once=True), None)
        return value

    async def _outcome(self, request: Request, wait_s: float | None) -> Any:
        """What the request came to; ``LATER`` where the time was up."""
        worker = self._worker
        worker.ask(request)

        def expire() -> None:
            worker.leave(request)
            request.waker.set()

        stop_timer = None if wait_s is None or request.leaving else self._clock.call_later(wait_s, expire)
        try:
            while not request.done:
                await request.waker.wait()
        except BaseException:
            if not worker.leave(request):
                await request.backend.shielded(request.waker.wait, lambda: request.done)
            raise
        finally:
            if stop_timer is not None:
                stop_timer()
        if request.error is not None:
            raise request.error
        return request.value

    async def open(self, name: str, *, capacity: int = 1000) -> None:
        check_capacity(capacity)
        await self._do(lambda boxes: boxes.open(name, capacity))

    async def close(self, name: str, reason: str = "stopped") -> Sequence[DeadLetter]:
        return tuple(await self._do(lambda boxes: boxes.close(name, reason)))

    async def send(self, letter: Letter, /, *, wait_s: float | None = 0.0) -> bool:
        line = encode(letter)
        closings: int | None = None
        capacity = 0

        def step(boxes: Boxes) -> bool | Later:
            nonlocal closings, capacity
            accepted = boxes.send(letter, line, closings)
            if accepted is LATER and closings is None:
                closings, capacity = boxes.closings(letter.to), boxes.capacity(letter.to)
            return accepted

        at_once = wait_s is not None and wait_s <= 0
        request = Request(step, Place("room", letter.to), at_once=at_once)
        accepted = await self._outcome(request, wait_s)
        if accepted is LATER:
            raise full(letter.to, capacity)
        return bool(accepted)

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
        reader = reader or self._reader
        closings: int | None = None

        def step(boxes: Boxes) -> list[Delivery] | Later:
            nonlocal closings
            taken = boxes.receive(name, limit, lease_s, reader, closings)
            if taken is LATER and closings is None:
                closings = boxes.closings(name)
            return taken

        at_once = wait_s is not None and wait_s <= 0
        request = Request(step, Place("letter", name), at_once=at_once)
        try:
            taken = await self._outcome(request, wait_s)
        except BaseException:
            if request.error is None and request.value is not LATER:  # cancelled: nobody has them
                self._undo(name, [delivery.letter.id for delivery in request.value], reader)
            raise
        return [] if taken is LATER else taken

    def _undo(self, name: str, ids: Sequence[str], reader: str) -> None:
        undo = Request(lambda boxes: boxes.release(name, ids, reader, undo=True), None, at_once=True)
        try:
            self._worker.ask(undo)  # before whatever is asked for after this
        except BoxClosed:
            return  # closed meanwhile: their lease ends

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        await self._do(lambda boxes: boxes.acknowledge(name, ids))

    async def renew(
        self, name: str, ids: Sequence[str], /, *, lease_s: float = 60.0, reader: str = ""
    ) -> None:
        await self._do(lambda boxes: boxes.renew(name, ids, lease_s, reader or self._reader))

    async def release(self, name: str, ids: Sequence[str] | None = None, /, *, reader: str = "") -> None:
        await self._do(lambda boxes: boxes.release(name, ids, reader or self._reader))

    async def refuse(
        self, name: str, ids: Sequence[str], /, *, reason: str = "too_many_attempts"
    ) -> Sequence[DeadLetter]:
        return tuple(await self._do(lambda boxes: boxes.refuse(name, ids, reason)))

    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        line = encode(notice)
        return await self._do(lambda boxes: boxes.rest(name, notice, line))

    async def boxes(self) -> Sequence[BoxInfo]:
        return tuple(await self._do(lambda boxes: boxes.infos()))

    async def dead_letters(self, sender: str | None = None) -> Sequence[DeadLetter]:
        return tuple(await self._do(lambda boxes: boxes.dead_letters(sender)))

    async def aclose(self) -> None:
        """Let go of the file; closing again does nothing."""
        request = Request(lambda boxes: None, None, at_once=True)
        if self._worker.close(request):
            await current_backend().shielded(request.waker.wait, lambda: request.done)
