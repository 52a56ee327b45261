"""What a command is, and how it ended: plain values.

Read with: ``process.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

StopReason: TypeAlias = Literal["", "timeout", "stop"]


class CommandRequest(Struct, frozen=True, kw_only=True):
    """What to run. ``argv[0]`` is an absolute path; ``env`` is the whole environment.

    ``timeout_s`` begins when it runs; None waits for ever. ``fd``: a descriptor of ours, which the command gets as ``fd_inside``.
    ``linger_s``: how long processes that the command left in the background may go on once it has ended; then they get
    TERM, and KILL ``quick_s`` later. A command that is stopped, or whose time is over, has ``grace_s`` between the two.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    timeout_s: float | None = None
    linger_s: float = 0.5
    quick_s: float = 0.5
    grace_s: float = 1.5
    fd: int = -1
    fd_inside: int = -1


class Killed(NamedTuple):
    """A process that was ended, and its name (Linux: at most 15 characters)."""

    pid: int
    name: str


class Ended(Struct, frozen=True, kw_only=True):
    """How a command ended.

    ``exit_code`` is 128 + n after signal n, as shells have it, whose name is in ``signal``; -1 where nobody knows.
    ``stopped``: its time was over, or it was told to stop. ``killed`` are the processes that it left in the background,
    or all of them but the shell where it was stopped; at most 100 are named. ``left`` could not be ended. ``error``:
    it could not be started (then ``pid`` is 0, as it is for one that was stopped before), or nobody saw how it ended.
    """

    pid: int = 0
    exit_code: int = -1
    signal: str = ""
    stopped: StopReason = ""
    killed: tuple[Killed, ...] = ()
    left: tuple[Killed, ...] = ()
    duration_s: float = 0.0
    error: str = ""
