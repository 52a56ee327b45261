"""What the thread of one command does: start the supervisor, read, watch the clock, say how it ended.

Read with: ``process.py`` (starts the thread), ``supervise.py`` (the lines that come over the socket).
"""

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .killing import end_supervisor, kill_while, session_members
from .output import OutputBuffer
from .request import CommandRequest, Ended, Killed, StopReason

if sys.platform == "linux":
    import fcntl

_CHUNK = 1 << 18  # bytes of one read
_PIPE = 1 << 18  # bytes that a pipe holds, where it may; 64 KiB are usual
_START_S = 30.0  # for the supervisor to be up, on a busy machine; it is not the command's time
_TICK_S = 0.5  # the longest sleep: a stop is noticed then at the latest
_DRAIN_S = 0.5  # for the pipe, after the last process that we know of
_TELL_S = 0.1  # between two reports of output
_MARGIN_S = 1.5  # beyond the grace time, until a supervisor that does not answer is given up
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import supervise; supervise.main(int(sys.argv[2]))"
# all that Python itself may need: nothing else of our environment is a supervisor's business
_FOR_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


class Ties(NamedTuple):
    """How a conductor and the command's owner talk; all are called in the conductor's thread."""

    attach: Callable[[socket.socket | None], None]  # what a byte is sent to, to stop
    reason: Callable[[], StopReason]  # why it is to stop
    stop: Callable[[StopReason], None]
    running: Callable[[int], None]  # it runs, as this process
    changed: Callable[[], None]  # there is output


class Conductor:
    """One command, from its start to its end."""

    def __init__(self, request: CommandRequest, output: OutputBuffer, ties: Ties) -> None:
        self._request = request
        self._output = output
        self._ties = ties
        self._began = time.monotonic()
        self._ran_at: float | None = None
        self._pid = 0
        self._status: int | None = None
        self._stopped: StopReason = ""
        self._stop_by: float | None = None  # when a stopping supervisor is given up
        self._killed: list[Killed] = []
        self._left: list[Killed] = []
        self._error = ""
        self._unread = b""  # the start of a line
        self._done = False  # the supervisor has said all
        self._open = True  # somebody may still write
        self._told_at = 0.0
        self._news = False

    def conduct(self) -> Ended:
        """Run it. Blocks until it has ended.

        Raises:
            OSError: there can't be another pipe or process.
        """
        if self._ties.reason():
            return Ended(stopped=self._ties.reason())
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                reader, writer = _pipe()
                try:
                    supervisor = self._launch(theirs.fileno(), writer)
                except BaseException:
                    os.close(reader)
                    raise
                finally:
                    os.close(writer)
            with supervisor:  # waits for it
                try:
                    self._converse(ours, reader)
                except BaseException:
                    ours.close()  # then it ends everything
                    end_supervisor(supervisor, self._request.grace_s + _MARGIN_S)
                    raise
                finally:
                    self._ties.attach(None)
                    os.close(reader)
                end_supervisor(supervisor, 0.2)
        if not self._done:
            self._error = "the process that watches over the command was killed"
            kill_while(lambda: session_members(supervisor.pid))
        return self._ended()

    def _launch(self, control: int, writer: int) -> "subprocess.Popen[bytes]":
        given = (self._request.fd,) if self._request.fd >= 0 else ()
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parent), str(control)],
            env={name: os.environ[name] for name in _FOR_PYTHON if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            pass_fds=(control, *given),
            start_new_session=True,
        )

    def _converse(self, control: socket.socket, reader: int) -> None:
        """Ask, then read both the lines and the output until there is nothing more to come."""
        request = self._request
        env = {os.fsencode(name): os.fsencode(value) for name, value in request.env.items()}
        argv = [os.fsencode(arg) for arg in request.argv]
        times = (request.linger_s, request.quick_s, request.grace_s)
        body = marshal.dumps(
            (argv, env, os.fsencode(request.cwd), request.fd, request.fd_inside, os.getpid(), *times)
        )
        with suppress(BrokenPipeError, ConnectionResetError):  # it died: no line comes
            control.sendall(len(body).to_bytes(8, "big") + body)
        self._ties.attach(control)
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(reader, select.POLLIN)
        listening, drain_by = True, None
        while listening or self._open:
            now = time.monotonic()
            if drain_by is not None and now >= drain_by:
                return
            for fd, _ in poll.poll(self._pause(now, drain_by) * 1000):
                if fd == reader:
                    self._read(reader)
                    if not self._open:
                        poll.unregister(reader)
                elif not self._hear(control):
                    poll.unregister(control)
                    listening, drain_by = False, time.monotonic() + _DRAIN_S
            if self._is_late(time.monotonic()) and listening:
                return
            self._report(time.monotonic())

    def _pause(self, now: float, drain_by: float | None) -> float:
        """Seconds until something is due."""
        due = now + _TICK_S
        if drain_by is not None:
            due = min(due, drain_by)
        if self._deadline is not None and self._status is None and not self._stopped:
            due = min(due, self._deadline)
        if self._news:
            due = min(due, self._told_at + _TELL_S)
        return max(due - now, 0.0)

    @property
    def _deadline(self) -> float | None:
        limit_s = self._request.timeout_s
        if limit_s is None:
            return None
        return limit_s + (self._began + _START_S if self._ran_at is None else self._ran_at)

    def _is_late(self, now: float) -> bool:
        """Stop what takes too long; whether the supervisor has taken too long to do so."""
        if self._status is None and self._deadline is not None and now >= self._deadline:
            self._ties.stop("timeout")
        if self._status is None:
            self._stopped = self._ties.reason()
        if self._ties.reason() and self._stop_by is None:
            self._stop_by = now + self._request.grace_s + _MARGIN_S
        return self._stop_by is not None and now >= self._stop_by

    def _read(self, reader: int) -> None:
        try:
            data = os.read(reader, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._output.add(data)
            self._news = True
        else:
            self._open = False

    def _report(self, now: float) -> None:
        if self._news and now >= self._told_at + _TELL_S:
            self._told_at, self._news = now, False
            self._ties.changed()

    def _hear(self, control: socket.socket) -> bool:
        """Lines of the supervisor; False when no more come."""
        try:
            data = control.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._note(line.decode("ascii"))
        return bool(data)

    def _note(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "pid":
                self._pid, self._ran_at = int(rest), time.monotonic()
                self._ties.running(self._pid)
            case "exit":
                self._stopped = self._ties.reason()
                self._status = int(rest)
            case "killed" | "left":
                pid, _, name = rest.partition(" ")
                (self._killed if word == "killed" else self._left).append(Killed(int(pid), name))
            case "error":
                self._error, self._done = os.strerror(int(rest)), True
            case _:
                self._done = True

    def _ended(self) -> Ended:
        status, name = self._status, ""
        code = -1 if status is None else os.waitstatus_to_exitcode(status)
        if status is not None and code < 0:
            code, name = 128 - code, _signal_name(-code)
        return Ended(
            pid=self._pid,
            exit_code=code,
            signal=name,
            stopped=self._stopped,
            killed=tuple(self._killed),
            left=tuple(self._left),
            duration_s=time.monotonic() - (self._ran_at or self._began),
            error=self._error,
        )


def _pipe() -> tuple[int, int]:
    """Both ends; as roomy as it may be, because each round trip through Python costs the command time."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    if sys.platform == "linux":
        with suppress(PermissionError):  # the user's pipes hold much already
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE)
    return reader, writer


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one
