"""One worker process in the sandbox, and one call at a time to it.

1. The process is started by the thread of the event loop: the sandbox ends with the thread that started it.
2. A call that takes too long, or is cancelled, is interrupted as by Ctrl-C; one that goes on for all that
   is killed with its process, and the variables are lost.
3. What the process says is bounded here, whatever it sends.
"""

import os
import signal
import struct
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, cast

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

from unspool.tools.sandbox import Sandbox
from unspool.tools.shell.supervise import descendants

from .head_tail import HeadTail

START_S = 30.0  # for Python to be up, on a busy machine
GRACE_S = 2.0  # from an interrupt to the kill
_MAX_REPLY = 32 << 20
_CHUNK = 1 << 16
_MAX_PIPE = 1 << 20  # bytes; a pipe of Linux holds no more, unless root said so
_WORKER = Path(__file__).with_name("worker.py")


class Reply(Struct, frozen=True):
    """What the worker says of a call: the class of its error or ``""``, figures as base64 PNG, files with sizes."""

    error: str = ""
    figures: list[str] = []
    files: list[tuple[str, int]] = []
    files_complete: bool = True


class WorkerLostError(Exception):
    """The process ended, or was killed, before it replied."""


class Worker:
    """A running Python. Only for the event loop that started it, and closed by whoever did."""

    def __init__(self, sandbox: Sandbox, python: str, cwd: str) -> None:
        self.busy = self.timed_out = self._is_up = False
        self._is_owed = True  # a reply: the first says that it is up
        self._outgoing, self._incoming = bytearray(), bytearray()
        self._replies, theirs = os.pipe()
        try:
            command = [python, "-I", "-c", _WORKER.read_text(encoding="utf-8"), str(theirs), *sandbox.roots]
            self._process = subprocess.Popen(
                sandbox.wrap(command),
                cwd=cwd,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                start_new_session=True,  # Ctrl-C in the terminal is for the host, which may go on
                env={},
            )
        except BaseException:
            os.close(self._replies)
            raise
        finally:
            os.close(theirs)
        self._requests = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        for fd in (self._replies, self._requests.fileno(), self._output.fileno()):
            os.set_blocking(fd, False)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_text(self) -> str:
        """How the process ended: ``exit code 3``, ``signal 9``."""
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def run(self, code: str, timeout_s: float, output: HeadTail) -> tuple[Reply, bool]:
        """What came of the code, and whether it was interrupted for its time; it prints to ``output``.

        Raises:
            WorkerLostError: there is no process any more.
        """
        self.busy = True
        try:
            if not self._is_up:  # the time for the code begins when there is something to run it
                self._is_up = await self._asked(None, START_S, output) is not None
            reply = await self._asked({"code": code}, timeout_s, output) if self._is_up else None
            if reply is not None:
                return reply, False
            reply = await self._asked({"interrupt": True}, GRACE_S, output)
            if reply is None:
                self.timed_out = True
                self.kill()
                self._drain(output)
                self.close()
                raise WorkerLostError
            return reply, True
        except BaseException as error:
            if not isinstance(error, WorkerLostError):
                await self._stop(output)
            raise
        finally:
            self.busy = False

    async def _stop(self, output: HeadTail) -> None:
        """Leave nothing running of a call that is given up; its variables are kept where that can be."""
        if not self._is_up:
            self.close()
            return
        if not self._is_owed:  # it came as the call was given up
            self._drain(output)
            return
        try:
            with anyio.CancelScope(shield=True):
                if await self._asked({"interrupt": True}, GRACE_S, output) is None:
                    self.close()
        except WorkerLostError:
            return
        except BaseException:
            self.close()
            raise

    async def _asked(
        self, request: dict[str, object] | None, timeout_s: float, output: HeadTail
    ) -> Reply | None:
        """The next reply, None when it does not come in time."""
        reply: Reply | None = None
        is_lost = False
        if request is not None:
            self._is_owed = True
            self._outgoing += msgspec.json.encode(request) + b"\n"
        with anyio.move_on_after(timeout_s):
            async with anyio.create_task_group() as group:
                group.start_soon(self._collect, output)
                try:
                    await self._send()
                    reply = await self._receive()
                except WorkerLostError:
                    is_lost = True
                group.cancel_scope.cancel()
        if is_lost:
            await self._ended(output)
            raise WorkerLostError
        self._drain(output)
        return reply

    async def _collect(self, output: HeadTail) -> None:
        fd = self._output.fileno()
        while True:
            await anyio.wait_readable(fd)
            data = _read(fd)
            if data == b"":
                return
            output.feed(data or b"")

    def _drain(self, output: HeadTail) -> None:
        """Take what is in the pipe, and not what a process in the background writes meanwhile."""
        for _ in range(_MAX_PIPE // _CHUNK):
            data = _read(self._output.fileno())
            if not data:
                return
            output.feed(data)

    async def _send(self) -> None:
        while self._outgoing:
            try:
                count = os.write(self._requests.fileno(), self._outgoing[:_CHUNK])
            except BlockingIOError:
                await anyio.wait_writable(self._requests.fileno())
            except BrokenPipeError:
                raise WorkerLostError from None
            else:
                del self._outgoing[:count]

    async def _receive(self) -> Reply:
        """The next reply. What has come of it stays when this is cancelled."""
        size = struct.unpack(">I", await self._incoming_bytes(4))[0]
        if size > _MAX_REPLY:
            raise self._forged()
        data = await self._incoming_bytes(4 + size)
        del self._incoming[: 4 + size]
        try:
            reply = msgspec.json.decode(data[4:], type=Reply)
        except msgspec.MsgspecError:
            raise self._forged() from None
        self._is_owed = False
        return reply

    def _forged(self) -> WorkerLostError:
        """The code wrote to the descriptor of the replies: there is no telling any more what is one."""
        self.kill()
        return WorkerLostError()

    async def _incoming_bytes(self, count: int) -> bytes:
        while len(self._incoming) < count:
            await anyio.wait_readable(self._replies)
            data = _read(self._replies)
            if data == b"":
                raise WorkerLostError
            self._incoming += data or b""
        return bytes(self._incoming[:count])

    async def _ended(self, output: HeadTail) -> None:
        """Wait until the process is gone, so that its exit code is its own; kill one that stays."""
        with suppress(subprocess.TimeoutExpired):
            await to_thread.run_sync(partial(self._process.wait, GRACE_S))
        if not self._output.closed:
            self._drain(output)
        self.close()

    def kill(self) -> None:
        """End the process, and with it all in its sandbox; whoever runs a call in it is told."""
        pid = self._process.pid
        if self._process.poll() is None:
            # bwrap may have a child that is only beginning, in a session of its own, and not yet tied to its parent:
            # it must be found while the parent is there, and there must not be one more meanwhile
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            for child, _ in descendants(pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Kill the process and let go of it; no call may be running. Doing it again changes nothing."""
        self.kill()
        for pipe in (self._requests, self._output):
            pipe.close()
        if self._replies >= 0:
            os.close(self._replies)
            self._replies = -1


def _read(fd: int) -> bytes | None:
    """What is there, ``b""`` at the end, None when there is nothing yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
