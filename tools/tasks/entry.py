"""A background task: what runs, what is known of it, and what is told.

Read with: ``registry.py`` (who changes an ``Entry``), ``notice.py``.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.json_edge import clean_json
from unspool.kernel.messages import AgentMessage
from unspool.kernel.spawn import Backend
from unspool.tools.text import shown

Status: TypeAlias = Literal["running", "stopping", "completed", "failed", "stopped", "timed_out", "lost"]
"""Where a task stands. Ends: ``completed``; ``failed`` with an exit code or an error; ``stopped`` by the agent or
the host; ``timed_out``; ``lost`` with the process that ran it."""
Told: TypeAlias = Literal["", "sent", "read"]
"""Whether an end is known to the agent: by a notice, or because a tool showed it."""
Cause: TypeAlias = Literal["", "stopped", "timed_out"]
"""Why work was ended before it ended by itself."""
Reader: TypeAlias = tuple[str, tuple[str, ...]]
"""Who reads output: the session and the agent of a call."""
MAX_TEXT = 2000  # characters of an error, a command, a description
MAX_NAME = 80  # characters of a description in a line


class Outcome(Struct, frozen=True, kw_only=True):
    """How work ended: its exit code, where it has one, and everything that went wrong. ``cause``: somebody else than
    the registry stopped it, or it had a time of its own, which was over."""

    exit_code: int | None = None
    errors: tuple[str, ...] = ()
    cause: Cause = ""


class Piece(NamedTuple):
    """Output from byte ``start`` up to ``end``, of ``total`` bytes so far, as text."""

    text: str
    start: int
    end: int
    total: int


class Work(Protocol):
    """Something that runs: a command, a sub-agent."""

    @property
    def pid(self) -> int | None: ...
    @property
    def output_bytes(self) -> int:
        """How much it has written so far."""
        ...

    @property
    def output_file(self) -> str:
        """The path of the whole output; ``""`` where it is not in a file."""
        ...

    def read(self, offset: int, limit: int, /) -> Piece:
        """About ``limit`` bytes of output at most, from byte ``offset`` on or from a later one. Any thread."""
        ...

    async def wait(self) -> Outcome:
        """Wait until it has ended, with nothing of it left; also after ``stop``. Called once."""
        ...

    async def stop(self) -> None:
        """End it; returns within bounded time, when nothing of it is left."""
        ...

    def kill(self) -> None:
        """Have it ended, without an event loop and without waiting."""
        ...


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a task at one moment.

    Times are seconds since the epoch. Of a long ``command`` the beginning is kept. ``session`` and ``agent`` are those of the call that started it, empty where
    the host did. ``unread`` counts messages to the task that it has not taken.
    """

    id: str
    kind: str
    status: Status
    started_at: float
    description: str = ""
    command: str = ""
    pid: int | None = None
    exit_code: int | None = None
    error: str = ""
    ended_at: float | None = None
    output_bytes: int = 0
    output_file: str = ""
    session: str = ""
    agent: tuple[str, ...] = ()
    unread: int = 0
    told: Told = ""
    notice_error: str = ""

    @property
    def ended(self) -> bool:
        return self.status not in ("running", "stopping")

    @property
    def details(self) -> dict[str, Any]:
        """The task as JSON: for ``ToolResult.details`` and for the metadata of a message."""
        plain: dict[str, Any] = clean_json(msgspec.to_builtins(self))[0]
        return plain


class Entry:
    """A task as the registry keeps it; changed under the registry's lock.

    ``cause`` is why it was asked to stop, ``trouble`` what went wrong then. ``settled`` comes after the end was told. ``readers`` are calls that wait
    for the end and tell it themselves. ``offsets`` is where each agent goes on reading.
    """

    __slots__ = (
        "backend",
        "cancel_timer",
        "cause",
        "offsets",
        "pending",
        "readers",
        "sealed",
        "settled",
        "task",
        "trouble",
        "work",
    )

    def __init__(self, task: Task, work: Work | None, backend: Backend | None) -> None:
        self.task = task
        self.work = work
        self.backend = backend
        self.cause: Cause = ""
        self.trouble = ""
        self.settled = False
        self.readers = 0
        self.sealed = False
        self.pending: deque[str | AgentMessage] = deque()
        self.offsets: dict[Reader, int] = {}
        self.cancel_timer: Callable[[], None] = _nothing

    def snapshot(self) -> Task:
        """The task as it stands now."""
        task, work = self.task, self.work
        if work is not None:
            task = replace(task, pid=work.pid, output_bytes=work.output_bytes, output_file=work.output_file)
        status: Status = "stopping" if task.status == "running" and self.cause else task.status
        return replace(task, status=status, unread=len(self.pending))

    def end(self, outcome: Outcome, ended_at: float) -> None:
        """The work has ended; the first reason to stop it stays the reason."""
        errors = "; ".join(filter(None, (*outcome.errors, self.trouble)))
        failed = errors or outcome.exit_code
        status: Status = self.cause or outcome.cause or ("failed" if failed else "completed")
        self.task = replace(
            self.snapshot(),
            status=status,
            exit_code=outcome.exit_code,
            error=errors if len(errors) <= MAX_TEXT else f"{errors[:MAX_TEXT]}…",
            ended_at=ended_at,
        )
        self.sealed = True


_WORDS: Final[dict[Status, str]] = {"timed_out": "timed out"}


def summary(task: Task, now: float) -> str:
    """One line: ``shell-1 (npm test): failed, exit code 1, after 12 s``."""
    name = f"{task.id} ({shown(task.description[:MAX_NAME])})" if task.description else task.id
    parts = [_WORDS.get(task.status, task.status)]
    if task.exit_code:
        parts.append(f"exit code {task.exit_code}")
    if task.status != "lost":
        seconds = max(0.0, (now if task.ended_at is None else task.ended_at) - task.started_at)
        parts.append(f"{'after' if task.ended else 'for'} {seconds:.0f} s")
    if task.unread:
        parts.append(f"{task.unread} of the messages to it not read")
    return f"{name}: {', '.join(parts)}"


def _nothing() -> None:
    """No timer is set."""
