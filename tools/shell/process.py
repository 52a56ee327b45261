"""A command that runs: started without waiting, read while it runs, ended with everything that it started.

For the tool ``bash`` and for a registry of background tasks alike::

    command = start_command(CommandRequest(argv=["/bin/bash", "-c", "make"], env=env, cwd="/src"), output)
    command.add_listener(tell)       # in the command's thread, at most ten times a second: started, output, ended
    command.output.since(0)          # what it has said so far
    ended = await command.wait()     # on any event loop, any number of times; being cancelled does not stop the command
    ended = await command.stop()     # TERM to all of it, KILL after the grace time; ``request_stop`` does not wait

1. A thread of its own conducts each command: nothing here belongs to an event loop, so a command may outlive one.
   ``start_command`` awaits nothing: there is no moment at which a cancelled caller could lose what it has started.
2. The command is a child of ``supervise.py``, which ends every descendant, also when our process is killed.
3. Output is read as it comes, both streams in one pipe; the buffer is what bounds it.
4. Stopping takes at most ``grace_s`` and about two seconds more, whatever the command does.

Read with: ``supervise.py`` (ends the processes), ``conduct.py`` (the thread), ``output.py`` (the buffer), ``bash.py`` (the tool).
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from unspool.kernel.errors import ToolError
from unspool.kernel.spawn import current_backend

from .conduct import Conductor, Ties
from .output import OutputBuffer
from .request import CommandRequest, Ended, Killed, StopReason

__all__ = ["Command", "CommandRequest", "Ended", "Killed", "StopReason", "start_command"]


def start_command(request: CommandRequest, output: OutputBuffer) -> "Command":
    """Start ``request``; its output goes to ``output``, which is finished when the command has ended.

    ``request.fd`` is closed by the caller, when the command has ended and not before.

    Raises:
        ToolError: there can't be another thread. What else goes wrong is told by ``Ended.error``.
    """
    command = Command(request, output)
    try:
        threading.Thread(target=command._run, name="unspool-command", daemon=True).start()
    except RuntimeError as error:
        raise ToolError("the command could not be started: too many threads run already") from error
    return command


class Command:
    """A started command. Everything may be called from any thread.

    ``async with`` stops it where its block is left by an exception, a cancellation for instance.
    """

    def __init__(self, request: CommandRequest, output: OutputBuffer) -> None:
        self.request = request
        self.output = output
        self.pid = 0  # of the shell, and of its process group; 0 until it runs
        self.ended: Ended | None = None
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._stop: StopReason = ""
        self._control: socket.socket | None = None

    def __repr__(self) -> str:
        state = "ended" if self.ended else "running" if self.pid else "starting"
        return f"<command {self.pid or ''} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if isinstance(error, GeneratorExit):  # the event loop is gone: nothing can be awaited
            self.request_stop()
        elif error is not None:
            await self.stop()

    async def started(self) -> int:
        """The process id; 0 where it could not be started, which ``ended`` then tells."""
        await self._until(lambda: self.pid != 0 or self.ended is not None)
        return self.pid

    async def wait(self) -> Ended:
        """How it ended, once nothing of it runs and its output is complete."""
        await self._until(lambda: self.ended is not None)
        assert self.ended is not None
        return self.ended

    async def stop(self) -> Ended:
        """Stop it and wait, also when the caller is cancelled meanwhile, which is delivered afterwards."""
        self.request_stop()
        backend = current_backend()
        await backend.shielded(self._wait, lambda: self.ended is not None)
        assert self.ended is not None
        return self.ended

    def request_stop(self, reason: StopReason = "stop") -> None:
        """Have it stopped, without waiting; the first reason stays. Nothing happens to one that has ended."""
        with self._lock:
            self._stop = self._stop or reason
            if self._control is not None:
                with suppress(OSError):  # the supervisor is gone: the thread sees that too
                    self._control.send(b"s")

    def add_listener(self, fn: Callable[[], None]) -> None:
        """Call ``fn`` in the command's thread when it has started, has output (seldom) or has ended; at once if it has.

        It must return soon and not raise.
        """
        with self._lock:
            if self.ended is None:
                self._listeners.append(fn)
                return
        fn()

    def remove_listener(self, fn: Callable[[], None]) -> None:
        with self._lock, suppress(ValueError):
            self._listeners.remove(fn)

    async def _wait(self) -> None:
        await self.wait()

    async def _until(self, reached: Callable[[], bool]) -> None:
        backend = current_backend()
        waker = backend.waker()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed just now: nobody waits any more
                backend.call_soon(waker.set)

        self.add_listener(tell)
        try:
            while not reached():
                await waker.wait()
        finally:
            self.remove_listener(tell)

    # --- in the command's thread ---

    def _run(self) -> None:
        ties = Ties(self._attach, lambda: self._stop, self.request_stop, self._running, self._tell)
        try:
            ended = Conductor(self.request, self.output, ties).conduct()
            self.output.finish()
        except Exception as error:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
            ended = Ended(pid=self.pid, error=f"{type(error).__name__}: {error}")
        with self._lock:
            self.ended = ended
        self._tell()
        self._listeners.clear()

    def _running(self, pid: int) -> None:
        self.pid = pid
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for fn in listeners:
            fn()

    def _attach(self, control: socket.socket | None) -> None:
        """From now on stopping goes through ``control``; what was asked for before is told now."""
        with self._lock:
            self._control = control
            if control is not None and self._stop:
                with suppress(OSError):
                    control.send(b"s")
