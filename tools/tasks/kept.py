"""The tasks that are kept, what is known of them, and who was told of their end. Any thread.

Read with: ``registry.py`` (``Tasks``, the whole), ``entry.py``, ``notice.py``.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Literal, TypeAlias

from msgspec.structs import replace

from unspool.kernel.errors import ToolError, describe
from unspool.kernel.events import Event
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import Clock
from unspool.tools.text import shown_list

from .entry import Entry, Piece, Reader, Task
from .notice import MAX_TAIL, notice
from .restore import lost, number_of, tasks_of

Deliver: TypeAlias = Callable[[Message], object]
"""Takes a notice: ``agent.follow_up`` for instance. It is called on the event loop of the task, or in the
thread that calls ``notify`` or ``restore``, and must not block."""

MAX_PENDING = 1000  # messages to one task


class KeptTasks:
    """See ``Tasks``."""

    def __init__(self, clock: Clock, notify: Deliver | None, keep: int, keep_s: float) -> None:
        self._clock = clock
        self._deliver = notify
        self._keep, self._keep_s = keep, keep_s
        self._lock = RLock()
        self._entries: dict[str, Entry] = {}
        self._numbers = itertools.count(1)

    def notify(self, deliver: Deliver) -> None:
        """Tell ends to ``deliver`` from now on, first those that could not be told before."""
        with self._lock:
            self._deliver = deliver
            entries = list(self._entries.values())
        for entry in entries:
            if entry.settled:
                self._tell(entry)

    def _find(self, id: str) -> Entry:
        with self._lock:
            entry = self._entries.get(id)
            if entry is None:
                raise ToolError(
                    f"no such task: {id}; there are: {shown_list(list(self._entries), 20) or 'none'}"
                )
            return entry

    def get(self, id: str) -> Task | None:
        """The task as it stands now; None where there is none, or it was pruned. Any thread."""
        with self._lock:
            entry = self._entries.get(id)
            return None if entry is None else entry.snapshot()

    def output(self, id: str, offset: int = 0, limit: int = 1 << 20) -> Piece:
        """At most ``limit`` bytes of a task's output from byte ``offset`` on; a negative one counts from the end. Any
        thread.

        Raises:
            ToolError: there is no such task.
        """
        work = self._find(id).work
        if work is None:
            return Piece("", 0, 0, 0)
        return work.read(offset if offset >= 0 else max(0, work.output_bytes + offset), limit)

    def unread_output(self, id: str, reader: Reader, limit: int) -> tuple[int, Piece]:
        """The next ``limit`` bytes of output that ``reader`` has not had, and from where on. Any thread.

        Raises:
            ToolError: there is no such task.
        """
        entry = self._find(id)
        with self._lock:
            offset = entry.offsets.get(reader, 0)
            piece = self.output(id, offset, limit)
            entry.offsets[reader] = piece.end
        return offset, piece

    def list(self, session: str | None = None) -> tuple[Task, ...]:
        """All tasks that are kept, or those that one session may see: its own and the host's. By their start. Any
        thread."""
        with self._lock:
            self._prune()
            tasks = [entry.snapshot() for entry in self._entries.values()]
        tasks = [task for task in tasks if session is None or task.session in ("", session)]
        return tuple(sorted(tasks, key=lambda task: task.started_at))

    def _prune(self) -> None:
        ended = [
            entry
            for entry in self._entries.values()
            if entry.settled and entry.task.told and not entry.readers
        ]
        ended.sort(key=lambda entry: entry.task.ended_at or 0.0)
        oldest = self._clock.time() - self._keep_s
        for place, entry in enumerate(ended):
            if len(ended) - place > self._keep or (entry.task.ended_at or 0.0) < oldest:
                del self._entries[entry.task.id]

    # --- telling -------------------------------------------------------------------------------

    def _tell(self, entry: Entry) -> None:
        """Send the notice, unless the end is known or a call that waits for it will tell it."""
        with self._lock:
            deliver = self._deliver
            if deliver is None or entry.task.told or entry.readers or not entry.task.ended:
                return
            entry.task = replace(entry.task, told="sent", notice_error="")
        try:
            deliver(notice(entry.snapshot(), _tail(entry)))
        except Exception as error:  # noqa: BLE001 (a host's code; the end stays to be told)
            with self._lock:
                entry.task = replace(entry.task, told="", notice_error=describe(error))

    @contextmanager
    def reading(self, ids: Iterable[str]) -> Iterator[None]:
        """While a call waits for these tasks, their ends send no notice: the call calls ``mark_read``. What it has
        not told when it leaves, because it was cancelled for instance, is sent then."""
        with self._lock:
            entries = [self._entries[id] for id in ids if id in self._entries]
            for entry in entries:
                entry.readers += 1
        try:
            yield
        finally:
            for entry in entries:
                with self._lock:
                    entry.readers -= 1
                if entry.settled:
                    self._tell(entry)

    def mark_read(self, tasks: Iterable[Task]) -> None:
        """The agent has read how these tasks ended; those that had not ended are left alone."""
        with self._lock:
            for task in tasks:
                entry = self._entries.get(task.id)
                if entry is not None and task.ended and not entry.task.told:
                    entry.task = replace(entry.task, told="read")

    def untold(self, session: str) -> tuple[Task, ...]:
        """Ends that no notice could tell and that no tool has shown to this session."""
        with self._lock:
            waited_for = {id for id, entry in self._entries.items() if entry.readers}
        found = [task for task in self.list(session) if task.ended and not task.told]
        return tuple([task for task in found if task.id not in waited_for])

    # --- messages to a task --------------------------------------------------------------------------

    def append_pending(self, id: str, message: str | AgentMessage) -> Literal["ok", "not_found", "terminal"]:
        """Leave a message for a task that runs: it takes it with ``drain_pending``. Any thread.

        Raises:
            ToolError: too many wait already.
        """
        with self._lock:
            entry = self._entries.get(id)
            if entry is None:
                return "not_found"
            if entry.sealed:
                return "terminal"
            if len(entry.pending) >= MAX_PENDING:
                raise ToolError(f"{id} has {MAX_PENDING} messages that it has not read: wait until it does")
            entry.pending.append(message)
            return "ok"

    def drain_pending(self, id: str, *, last: bool = False) -> tuple[str | AgentMessage, ...]:
        """The messages for a task, each once, in order. Any thread.

        A task that is about to end asks with ``last``: where there is nothing, no message is taken from then on, so
        that none is lost between the two.
        """
        with self._lock:
            entry = self._entries.get(id)
            if entry is None:
                return ()
            messages = tuple(entry.pending)
            entry.pending.clear()
            entry.sealed = entry.sealed or (last and not messages)
            return messages

    # --- after a resume --------------------------------------------------------------------------

    def restore(self, facts: Iterable[Event]) -> tuple[Task, ...]:
        """Tell the tasks that ran when the process of this session ended: they are ``lost``. New ids go on after
        theirs. Called once, with the facts of the log, before the agent runs.
        """
        known = tasks_of(facts)
        now = self._clock.time()
        with self._lock:
            told = [replace(lost(task), ended_at=now) for task in known if not task.ended]
            told = [task for task in told if task.id not in self._entries]
            last = max(
                [number_of(each) for each in (*(task.id for task in known), *self._entries)], default=0
            )
            self._numbers = itertools.count(max(last + 1, next(self._numbers)))
            entries = [Entry(task, None, None) for task in told]
            self._entries |= {entry.task.id: entry for entry in entries}
        for entry in entries:
            entry.sealed = entry.settled = True
            self._tell(entry)
        return tuple([entry.snapshot() for entry in entries])


def _tail(entry: Entry) -> str:
    work = entry.work
    if work is None:
        return ""
    return work.read(max(0, work.output_bytes - MAX_TAIL), MAX_TAIL).text
