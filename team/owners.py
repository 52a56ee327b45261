"""Which process runs a member, and whether that process is still there.

Read with: ``roster.py``, ``roster_steps.py``.
"""

import os
import socket

from .roster import Owner

_tokens: dict[int, str] = {}  # by pid: a forked process is another one


def this_process() -> Owner:
    """This process, as an owner."""
    pid = os.getpid()
    token = _tokens.get(pid) or _tokens.setdefault(pid, os.urandom(8).hex())
    return Owner(host=socket.gethostname(), pid=pid, token=token)


def is_dead(owner: Owner) -> bool:
    """Whether that process is known to have died. Of another host, or of nobody, nothing is known.

    A pid is given to another process in time: then only the heart that beats no more tells.
    """
    here = this_process()
    if owner.host != here.host or owner.pid <= 0:
        return False
    if owner.pid == here.pid:
        return owner.token != here.token
    return not _is_running(owner.pid)


def _is_running(pid: int) -> bool:
    if os.name != "posix":  # elsewhere a signal of 0 is not a question
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it may not be asked, so it is there
        return True
    return True
