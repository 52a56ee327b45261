"""A small process between ours and a command, which leaves no process behind.

It is started with ``python -I -S`` for each command, so it imports nothing of the library and little else: what looks
odd below (``_signal``, ``_ctypes``, no tidying up at the end) halves the time that it takes. On Linux it adopts every descendant of the command
that loses its parent (a "child subreaper"), so a process can leave its group and session but not this one's sight:
the command is over when this process has no child left. It ends them all

- when it is told to (a byte on the control socket),
- when the other end of the socket is closed, or it has another parent: our process is gone, however it died,
- ``linger_s`` after the shell ended: what still runs then was left in the background.

The command has a process group of its own, in the session of this process, which our process knows: should this one be
killed itself, that much can still be found. First TERM, after the grace time KILL until nothing is left or
``_GIVE_UP_S`` is over (a process of another user, one that hangs in the kernel). Where there is no ``/proc``, only the
process group is known.

Read with: ``conduct.py`` (the other end).
"""

import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # as in ``typing``, which is not imported for it
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the module around it takes as long to import as Python takes to start
if sys.platform == "linux":
    from _ctypes import call_function, dlopen, dlsym  # nor is ``ctypes`` needed for one call

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_TICK_S = 0.01  # between two looks at what is left
_REAP_S = 1.0  # between two rounds for adopted processes that ended while the shell runs
_GIVE_UP_S = 1.0
_MAX_TOLD = 100  # processes named to the host


def main(control: int) -> None:
    """Run the request that comes over ``control``; every answer is a line (see ``conduct.py``)."""
    _run(control)
    os._exit(0)  # at once: nothing is left to tidy up


def _run(control: int) -> None:
    os.set_inheritable(control, False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, no exit status is ever seen
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the socket says when it is over
    if sys.platform == "linux":
        program = dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # typeshed does not know of None, the program
        call_function(dlsym(program, "prctl"), (_SUBREAPER, 1, 0, 0, 0))
    argv, env, cwd, given, inside, parent, linger_s, quick_s, grace_s = marshal.loads(_request(control))
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, given, inside)] if given >= 0 else []
    if given not in (-1, inside):
        actions.append((os.POSIX_SPAWN_CLOSE, given))
    if select.select([control], [], [], 0)[0]:
        _tell(control, "done")  # to be stopped before it began
        return
    try:
        os.chdir(cwd)
        pid = os.posix_spawn(
            argv[0], argv, env, file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=_resettable()
        )
    except OSError as error:
        _tell(control, f"error {error.errno or 0}")
        return
    _tell(control, f"pid {pid}")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):  # the end of the output is when the command and its children have closed it
        os.dup2(null, fd)
    if given >= 0:
        os.close(given)
    _Family(control, parent, pid).conduct(linger_s, quick_s, grace_s)


class _Family:
    """The command and all its descendants."""

    def __init__(self, control: int, parent: int, pid: int) -> None:
        self._control = control
        self._parent = parent
        self._main = pid
        self._told: set[int] = set()
        self._stop = False
        self._status: int | None = None

    def conduct(self, linger_s: float, quick_s: float, grace_s: float) -> None:
        """Wait for the shell, then for the rest; end what is left."""
        alive = self._wait_for_shell()
        if alive and not self._stop:
            alive = self._wait(linger_s, stoppable=True)
        if alive:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # what is stopped hears no TERM
            alive = self._wait(grace_s if self._stop else quick_s)
        give_up = time.monotonic() + _GIVE_UP_S
        while alive and time.monotonic() < give_up:
            self._signal(signal.SIGKILL)
            alive = self._wait(_TICK_S)
        for pid, name in descendants(os.getpid()) if alive else ():
            _tell(self._control, f"left {pid} {name}")
        _tell(self._control, "done")

    def _wait_for_shell(self) -> bool:
        """Until the shell ended or all is to stop; whether any process is left."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        pause_s = _TICK_S
        if hasattr(os, "pidfd_open"):
            try:
                poll.register(os.pidfd_open(self._main), select.POLLIN)
                pause_s = _REAP_S
            except OSError:
                pause_s = _TICK_S  # an old kernel: look often
        alive = True
        while alive and self._status is None and not self._stop:
            self._listen(poll, pause_s)
            alive = self._reap()
        return alive

    def _wait(self, seconds: float, stoppable: bool = False) -> bool:
        """At most so long, until no process is left; whether any is. Being told to stop may end it."""
        poll = select.poll()
        if not self._stop:
            poll.register(self._control, select.POLLIN)
        until = time.monotonic() + seconds
        alive = self._reap()
        while alive and time.monotonic() < until and not (stoppable and self._stop):
            self._listen(poll, _TICK_S)
            alive = self._reap()
        return alive

    def _listen(self, poll: "select.poll", seconds: float) -> None:
        for fd, _ in poll.poll(seconds * 1000):
            if fd == self._control:
                self._stop = True
                poll.unregister(fd)
        if os.getppid() != self._parent:  # it died, and something that it forked has the socket
            self._stop = True

    def _reap(self) -> bool:
        """Collect those that ended; whether any process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return sys.platform != "linux" and _exists(-self._main)
            if pid == 0:
                return True
            if pid == self._main:
                self._status = status
                _tell(self._control, f"exit {status}")

    def _signal(self, number: int) -> None:
        """To every descendant, at once; each is told to the host, the shell itself apart."""
        if sys.platform != "linux":
            _kill(-self._main, number)
            return
        for pid, name in descendants(os.getpid()):
            _kill(pid, number)
            if pid != self._main and pid not in self._told and len(self._told) < _MAX_TOLD:
                self._told.add(pid)
                _tell(self._control, f"killed {pid} {name}")


def descendants(root: int) -> "list[tuple[int, str]]":
    """Process ids and names, parents before children; those that ended but were not collected are left out.

    Empty where there is no ``/proc``.
    """
    children: dict[int, list[tuple[int, str, bool]]] = {}
    for entry in os.listdir("/proc") if sys.platform == "linux" else ():
        if entry.isdecimal() and (stat := _stat(entry)):
            parent, name, dead = stat
            children.setdefault(parent, []).append((int(entry), name, dead))
    found, waiting = [], [root]
    while waiting:
        for pid, name, dead in children.get(waiting.pop(0), ()):
            waiting.append(pid)
            if not dead:
                found.append((pid, name))
    return found


def _stat(pid: str) -> "tuple[int, str, bool] | None":
    """The parent, the name and whether it is dead; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("ascii", "replace")
    except OSError:
        return None
    start, end = text.index("("), text.rindex(")")
    state, parent = text[end + 2 :].split(" ", 2)[:2]
    name = "".join(char if " " < char <= "~" else "?" for char in text[start + 1 : end])
    return int(parent), name, state in "ZX"


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or told as left


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _resettable() -> "list[int]":
    fixed = {signal.SIGKILL, signal.SIGSTOP}
    return [number for number in signal.valid_signals() - fixed if number < 32]


def _request(control: int) -> bytes:
    """Eight bytes that say the length, then the request."""
    size = int.from_bytes(_exactly(control, 8), "big")
    return _exactly(control, size)


def _exactly(control: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(control, size - len(data))
        if not piece:
            sys.exit(1)  # our process went away before it had asked for anything
        data += piece
    return data


def _tell(control: int, line: str) -> None:
    """A line to the host; nobody is told where it is gone."""
    try:
        os.write(control, line.encode() + b"\n")
    except OSError:
        return
