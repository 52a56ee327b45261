"""Tasks that outlive a ``yield``, on asyncio and on trio: the only backend-specific file.

No cancel scope or task group may be held across a ``yield`` of an async generator (PEP 789), so
the kernel owns plain tasks: started here, cancelled and awaited under a shield when the generator
ends. A job's function catches everything itself and hands its outcome over by other means.

Read with: ``run.py`` (the owner of all jobs).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

import anyio

if TYPE_CHECKING:
    import trio


class Job(Protocol):
    """A task the kernel owns."""

    @property
    def done(self) -> bool: ...
    def cancel(self) -> None:
        """Ask the task to stop; asking again changes nothing, so that its cleanup is left alone."""
        ...

    def on_done(self, fn: Callable[[], None]) -> None:
        """Call ``fn`` when the task has ended, even if it was cancelled before its first step."""
        ...


class Waker(Protocol):
    """Lets one task sleep until something happened; resets itself."""

    def set(self) -> None: ...
    async def wait(self) -> None: ...


class Backend(Protocol):
    """What differs between event loops. Made inside the loop it serves."""

    def spawn(self, fn: Callable[[], Coroutine[Any, Any, None]]) -> Job: ...
    def waker(self) -> Waker: ...
    def call_later(self, seconds: float, fn: Callable[[], None]) -> Callable[[], None]: ...
    def call_soon(self, fn: Callable[[], None]) -> None:
        """From any thread; ignored when the loop is gone."""
        ...

    async def shielded(self, wait: Callable[[], Awaitable[None]], until: Callable[[], bool]) -> None:
        """Repeat ``wait`` until ``until()``; a cancellation is delivered afterwards."""
        ...


def current_backend() -> Backend:
    """The backend of the running event loop.

    Raises:
        RuntimeError: no event loop runs here.
    """
    try:
        return _Asyncio(asyncio.get_running_loop())
    except RuntimeError:
        if "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run():
            return _Trio()
        raise RuntimeError("unspool: needs a running asyncio or trio event loop") from None


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        current_backend()
    except RuntimeError:
        return False
    return True


# --- asyncio -----------------------------------------------------------------------------------


class _AsyncioJob:
    __slots__ = ("_cancelled", "_task")

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task
        self._cancelled = False

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def on_done(self, fn: Callable[[], None]) -> None:
        self._task.add_done_callback(lambda task: fn())


class _AsyncioWaker:
    __slots__ = ("_future", "_loop", "_set")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self._set = False

    def set(self) -> None:
        self._set = True
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self) -> None:
        if not self._set:
            self._future = self._loop.create_future()
            try:
                await self._future
            finally:
                self._future = None
        self._set = False


class _Asyncio:
    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def spawn(self, fn: Callable[[], Coroutine[Any, Any, None]]) -> Job:
        return _AsyncioJob(self._loop.create_task(fn()))

    def waker(self) -> Waker:
        return _AsyncioWaker(self._loop)

    def call_later(self, seconds: float, fn: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_later(seconds, fn).cancel

    def call_soon(self, fn: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(fn)

    async def shielded(self, wait: Callable[[], Awaitable[None]], until: Callable[[], bool]) -> None:
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):  # anyio delivers its cancellation again and again
            while not until():
                try:
                    await wait()
                except asyncio.CancelledError as error:  # a native cancel knows no shield
                    cancelled = error
        if cancelled is not None:
            raise cancelled


# --- trio --------------------------------------------------------------------------------------


class _TrioJob:
    __slots__ = ("_on_done", "done", "scope")

    def __init__(self, scope: "trio.CancelScope") -> None:
        self.scope = scope
        self.done = False
        self._on_done: list[Callable[[], None]] = []

    def on_done(self, fn: Callable[[], None]) -> None:
        self._on_done.append(fn)

    def cancel(self) -> None:
        self.scope.cancel()

    async def run(self, fn: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            with self.scope:
                await fn()
        finally:
            self.done = True
            for tell in self._on_done:
                tell()


class _TrioWaker:
    __slots__ = ("_event", "_set")

    def __init__(self) -> None:
        self._event: trio.Event | None = None
        self._set = False

    def set(self) -> None:
        self._set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if not self._set:
            event = self._event = sys.modules["trio"].Event()
            try:
                await event.wait()
            finally:
                self._event = None
        self._set = False


class _Trio:
    __slots__ = ("_token", "_trio")

    def __init__(self) -> None:
        self._trio: Any = sys.modules["trio"]
        self._token = self._trio.lowlevel.current_trio_token()

    def spawn(self, fn: Callable[[], Coroutine[Any, Any, None]]) -> Job:
        job = _TrioJob(self._trio.CancelScope())
        self._trio.lowlevel.spawn_system_task(job.run, fn, context=copy_context())
        return job

    def waker(self) -> Waker:
        return _TrioWaker()

    def call_later(self, seconds: float, fn: Callable[[], None]) -> Callable[[], None]:
        async def later() -> None:
            await self._trio.sleep(seconds)
            fn()

        return self.spawn(later).cancel

    def call_soon(self, fn: Callable[[], None]) -> None:
        try:
            self._token.run_sync_soon(fn)
        except self._trio.RunFinishedError:
            return  # nobody is left to be told

    async def shielded(self, wait: Callable[[], Awaitable[None]], until: Callable[[], bool]) -> None:
        with self._trio.CancelScope(shield=True):
            while not until():
                await wait()
