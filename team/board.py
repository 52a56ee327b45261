"""The task board of a team: what there is to do, who does it, and what came of it.

What every implementation promises (``check_board`` tests it):

1. A task is held by at most one member at a time, over all processes. A claim ends when its holder completes, fails
   or releases the task, when its lease is over, when somebody cancels the task or releases all claims of the holder.
   What a member does with a task that it does not hold is refused and changes nothing.
2. A task can be claimed once all tasks that it depends on are done. Among those the one of the highest priority comes
   first, then the one that was added first.
3. A task that was added is never lost: it stays open until it is claimed, and is open again after a claim that ended
   without an outcome. Adding one with a key that is known changes nothing, so that a call can be made again.
4. Each operation happens as a whole or not at all, and all of them are in one order, for all processes.
5. Whoever waits, for a task to claim or for anything else, misses no change.

What is kept is bounded: at most ``MAX_UNFINISHED`` tasks that are open or claimed (more are refused), the newest
``KEPT_FINISHED`` that have an outcome (and those on which one depends that is not done; older ones are forgotten,
their keys too), and ``MAX_TASK_BYTES`` for each.

Read with: ``memory_board.py``, ``sqlite_board.py``, ``board_steps.py`` (the rules), ``board_conformance.py``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from .errors import TeamError

TaskStatus: TypeAlias = Literal["open", "claimed", "done", "failed", "cancelled"]
"""``open`` until it is claimed; ``claimed`` by one member at a time; the others are ends, of which failed and cancelled can be reopened."""
FINISHED: Final = frozenset[TaskStatus]({"done", "failed", "cancelled"})

MAX_UNFINISHED: Final = 10_000
KEPT_FINISHED: Final = 10_000
MAX_TASK_BYTES: Final = 256 * 1024  # as JSON


class UnknownTask(TeamError):
    """There is no task of that id, or not any more."""


class TaskHeld(TeamError):
    """Another member holds the task."""


class WrongTaskStatus(TeamError):
    """What was asked for cannot be done with a task that stands as this one does."""


class BoardFull(TeamError):
    """There are as many unfinished tasks as there may be."""


class TaskDraft(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task to be added.

    ``depends_on`` are ids of tasks, or keys of others that are added with it. ``key`` is the caller's own, unique on
    the board, "" for none; it does not look like an id. ``priority``: higher comes first. ``data`` is plain JSON.
    """

    title: str
    text: str = ""
    depends_on: tuple[str, ...] = ()
    priority: int = 0
    tags: tuple[str, ...] = ()
    key: str = ""
    data: dict[str, Any] = {}


class BoardTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it stands.

    ``assignee`` is who holds it, or brought it to its outcome; "" while it is open. ``attempts`` counts its claims,
    and so is the number of the present one. ``until`` is when the lease is over; 0: it has none. ``result`` is what
    came of it, or why it failed or was cancelled. Times are in seconds since the epoch.
    """

    id: str
    title: str
    text: str = ""
    status: TaskStatus = "open"
    created_by: str = ""
    assignee: str = ""
    depends_on: tuple[str, ...] = ()
    priority: int = 0
    tags: tuple[str, ...] = ()
    key: str = ""
    result: str = ""
    attempts: int = 0
    until: float = 0.0
    created_at: float = 0.0
    changed_at: float = 0.0
    data: dict[str, Any] = {}

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


Tasks: TypeAlias = Sequence[BoardTask]
"""Tasks in the order in which they were added."""


class Board(Protocol):
    """The tasks of one team. All methods are safe for use by several tasks of an event loop; each may be cancelled,
    and has then either happened or not; a cancelled ``claim`` holds nothing.

    ``attempt`` is the number of the claim that the caller means (``BoardTask.attempts``), so that one who lost it
    cannot act for a later one by the same name; None: whichever there is.

    Raises:
        UnknownTask: (all methods that are given an ``id``) there is no such task.
        TaskHeld: (``renew``, ``complete``, ``fail``, ``release``, ``claim`` by id) another member holds it, or holds
            it by another claim.
        WrongTaskStatus: (the same) it is not claimed; or it has an outcome already.
        TeamError: (all methods) ``aclose`` was called; (those that are given text) the task would be too large.
    """

    async def add(self, by: str, /, *drafts: TaskDraft) -> Tasks:
        """Add tasks, all or none of them; as they stand. One whose key is known is not added: the task that has the
        key is given, as it stands.

        Raises:
            UnknownTask: one depends on a task that there is not.
            TeamError: they depend on each other in a circle; a draft has no title; a key looks like an id.
            BoardFull: there are too many unfinished ones.
        """
        ...

    async def claim(
        self,
        by: str,
        /,
        *,
        id: str | None = None,
        tags: Collection[str] = (),
        lease_s: float | None = None,
        wait_s: float | None = 0.0,
    ) -> BoardTask | None:
        """Hold the next task that can be claimed and has all these ``tags``, or the one of that ``id``; None where
        there is none within ``wait_s`` seconds (None: wait for ever). With an ``id`` nothing is waited for.

        The claim is over after ``lease_s`` seconds, unless renewed; None: it lasts. Claiming by id what ``by`` holds
        already renews the claim.

        Raises:
            WrongTaskStatus: the one of that ``id`` depends on others that are not done.
            ValueError: ``lease_s`` is not positive.
        """
        ...

    async def renew(
        self, id: str, by: str, /, *, lease_s: float | None = None, attempt: int | None = None
    ) -> BoardTask:
        """Go on holding a task, for so many seconds from now."""
        ...

    async def complete(
        self,
        id: str,
        by: str,
        result: str = "",
        /,
        *,
        attempt: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> BoardTask:
        """The task is done. ``data``, where given, takes the place of the task's. Completing again what ``by`` has
        completed changes nothing."""
        ...

    async def fail(self, id: str, by: str, reason: str = "", /, *, attempt: int | None = None) -> BoardTask:
        """The task cannot be done. What depends on it cannot be claimed, unless it is released and then done. Failing
        again what ``by`` has failed changes nothing."""
        ...

    async def release(self, id: str, by: str, /, *, attempt: int | None = None) -> BoardTask:
        """Have a task open again: one that ``by`` holds, or, whoever asks, one that failed or was cancelled."""
        ...

    async def release_claims(self, *, of: str) -> Tasks:
        """Have all tasks open again that a member holds which has died; as they stand."""
        ...

    async def cancel(self, id: str, by: str, reason: str = "", /) -> BoardTask:
        """The task is not to be done any more, whoever holds it. Cancelling again changes nothing.

        Raises:
            WrongTaskStatus: it is done or has failed.
        """
        ...

    async def update(
        self,
        id: str,
        /,
        *,
        title: str | None = None,
        text: str | None = None,
        priority: int | None = None,
        tags: tuple[str, ...] | None = None,
        depends_on: tuple[str, ...] | None = None,
        data: dict[str, Any] | None = None,
    ) -> BoardTask:
        """Change a task that has no outcome; None leaves as it is.

        Raises:
            WrongTaskStatus: it has an outcome; or ``depends_on`` is given, and it is claimed.
            UnknownTask: it is to depend on a task that there is not.
            TeamError: it would depend on itself.
        """
        ...

    async def get(self, id: str, /) -> BoardTask:
        """The task as it stands."""
        ...

    async def list(
        self,
        status: Collection[TaskStatus] | None = None,
        *,
        assignee: str | None = None,
        tags: Collection[str] = (),
    ) -> Tasks:
        """All tasks, or those of these statuses, this assignee and all these tags."""
        ...

    async def wait(
        self, until: Callable[[Tasks], bool], /, *, timeout_s: float | None = None
    ) -> Tasks | None:
        """Wait until that is so of all tasks, and give them as they were then; None when the time is up before.

        ``until`` is called at once, and after changes; several may come together.
        """
        ...

    async def version(self) -> int:
        """A number that grows with each change."""
        ...

    async def aclose(self) -> None:
        """Let go of the place; what is durable stays. Whoever waits gets a ``TeamError``."""
        ...
