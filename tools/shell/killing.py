"""Ending a supervisor, and what is left where it was killed itself.

Read with: ``conduct.py`` (the caller), ``supervise.py``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .supervise import descendants

KILL_S = 1.0  # for what is killed to be gone


def end_supervisor(supervisor: "subprocess.Popen[bytes]", patience_s: float) -> None:
    """Have it gone: it ends by itself where it has said all, or is told to."""
    try:
        supervisor.wait(patience_s)
    except subprocess.TimeoutExpired:
        kill_while(lambda: [pid for pid, _ in descendants(supervisor.pid)])
        supervisor.kill()


def kill_while(find: Callable[[], Sequence[int]]) -> None:
    """Kill processes that are not ours to wait for, until none is found or the time is over."""
    until = time.monotonic() + KILL_S
    while (found := find()) and time.monotonic() < until:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def session_members(session: int) -> list[int]:
    """The processes of a session that are alive; none where there is no ``/proc``."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc") if sys.platform == "linux" else ()):
        with suppress(OSError, ValueError):
            stat = Path("/proc", name, "stat").read_bytes()
            state, _, _, id, *_ = stat[stat.rindex(b")") + 2 :].split()
            if int(id) == session and state not in b"ZX":
                found.append(int(name))
    return found
