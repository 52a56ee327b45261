"""The background runs of an agent: tasks of ``async with agent``, started from any thread.

Read with: ``agent.py`` (the owner).
"""

from collections import deque
from collections.abc import Callable, Coroutine
from threading import RLock, get_ident
from types import TracebackType
from typing import Any, TypeAlias

import anyio

from .spawn import current_backend

Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]
Drop: TypeAlias = Callable[[], None]


class _Given:
    """Work that was given and may not have begun."""

    def __init__(self, work: Work, drop: Drop) -> None:
        self._work = work
        self.drop = drop
        self.begun = False

    async def run(self) -> None:
        self.begun = True
        await self._work()


class Background:
    """A task group that other threads may start tasks in."""

    def __init__(self) -> None:
        self._backend = current_backend()
        self._thread = get_ident()
        self._group = anyio.create_task_group()
        self._lock = RLock()
        self._given: deque[_Given] = deque()  # by other threads, not started yet
        self._started: list[_Given] = []
        self._wake = self._backend.waker()
        self._closed = False

    async def open(self) -> None:
        """Begin to take work."""
        await self._group.__aenter__()
        self._group.start_soon(self._take)

    def start(self, work: Work, drop: Drop) -> None:
        """Run ``work`` in a task; what it raises ends the group. ``drop`` is called where it never begins.

        As in any task group, what already runs may start more while the owner is leaving.

        Raises:
            RuntimeError: the owner has left, or is leaving and this is another thread.
        """
        given = _Given(work, drop)
        if self._thread == get_ident():
            self._start(given)
            return
        with self._lock:
            if self._closed:
                raise RuntimeError("agent: the owner of its background runs is leaving")
            self._given.append(given)
        self._backend.call_soon(self._wake.set)

    def _start(self, given: _Given) -> None:
        self._group.start_soon(given.run)
        self._started = [each for each in self._started if not each.begun]
        self._started.append(given)

    async def _take(self) -> None:
        while True:
            while self._given:
                self._start(self._given.popleft())
            if self._closed:
                return
            await self._wake.wait()

    async def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Take no more work and wait for what is under way; the owner's own error stays as it was raised."""
        with self._lock:
            self._closed = True
        self._wake.set()
        try:
            return await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if error is not None and group.exceptions == (error,):
                return False
            raise
        finally:
            for given in (*self._given, *self._started):
                if not given.begun:
                    given.drop()
