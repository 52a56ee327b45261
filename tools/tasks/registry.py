"""Background tasks: started here, watched until they end, told to the agent, stopped with their owner.

1. A task belongs to the event loop on which it was started, not to the call or the run that started it: neither a
   cancelled call nor an aborted run stops it. ``stop``, ``stop_all`` and ``aclose`` do.
2. The end of a task is told once: by a notice, before any ``wait`` returns, or by the tool that waited for it.
3. What nobody has been told stays: it is never pruned, and the next tool of the agent tells it.
4. Without ``aclose``, tasks are killed when their event loop ends or the interpreter exits, with a
   ``ResourceWarning``.

Read with: ``kept.py`` (what is known and told), ``entry.py``, ``restore.py``, ``task_tools.py``.
"""

import re
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

from unspool.kernel.clock import SystemClock
from unspool.kernel.errors import ToolError, describe
from unspool.kernel.json_edge import clean_text
from unspool.kernel.ports import Clock
from unspool.kernel.spawn import Backend, Job, current_backend

from .entry import MAX_TEXT, Cause, Entry, Outcome, Task, Work
from .kept import Deliver, KeptTasks
from .leftovers import kill_all, warn_killed
from .sleepers import Sleepers

Launch: TypeAlias = Callable[[str], Awaitable[Work]]
"""Starts the work of a task, given the task's id."""
MAX_UNTOLD = 200  # tasks whose end nobody has been told
_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PREFIXES = {"subagent": "agent"}


class Tasks(KeptTasks):
    """The background tasks of one conversation, or of several that share their tools.

    A run that ends, is cancelled or aborted stops none of them. The registry may be made before any event loop runs;
    whoever made it awaits ``aclose``, or uses ``async with``.

    ``notify`` is called with a user message when a task has ended: ``agent.follow_up`` tells an agent that is running
    before it stops, and an idle one in its next run. To wake an idle agent, give ``agent.inject`` instead, inside
    ``async with agent``: it starts a run, and a run under way takes the message at once, as steering; a function of
    yours that looks at ``agent.running`` may choose between the two. Where several conversations share the tasks,
    ``message.metadata["task"]["session"]`` says whom to tell.

    Of the tasks that have ended and were told, the newest ``keep`` are kept, for ``keep_s`` seconds. At most
    ``max_running`` run at a time. Looking at tasks, and messages to them, work from any thread; the rest belongs on
    the event loop.
    """

    def __init__(
        self,
        *,
        notify: Deliver | None = None,
        clock: Clock | None = None,
        keep: int = 32,
        keep_s: float = 3600.0,
        max_running: int = 64,
    ) -> None:
        super().__init__(clock or SystemClock(), notify, keep, keep_s)
        self._max_running = max_running
        self._starting = 0
        self._jobs: set[Job] = set()  # watchers and stoppers that have not ended
        self._sleepers = Sleepers(self._clock)
        self._closed = False
        self._alive: dict[str, Work] = {}
        self._finalizer = weakref.finalize(self, kill_all, self._alive)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()

    # --- starting and ending ---------------------------------------------------------------------

    async def start(
        self,
        kind: str,
        launch: Launch,
        *,
        description: str = "",
        command: str = "",
        session: str = "",
        agent: tuple[str, ...] = (),
        timeout_s: float | None = None,
    ) -> Task:
        """Start work in the background. ``launch`` gets the id of the task: ``shell-1``, ``agent-2``.

        ``kind`` is ``shell``, ``subagent``, ``teammate`` or another word of small letters. ``session`` and ``agent``
        are those of the call that starts it; the tools show a task to its own session only. After ``timeout_s``
        seconds it is stopped as ``timed_out``.

        Raises:
            ToolError: too many tasks run, or the registry is closed.
            ValueError: ``kind`` is no such word.
            And what ``launch`` raises: nothing has been started then.
        """
        if not _KIND.fullmatch(kind):
            raise ValueError(f"tasks: a kind is a word of small letters (kind={kind!r})")
        backend = current_backend()
        with self._lock:
            self._check_room()
            id = f"{_PREFIXES.get(kind, kind)}-{next(self._numbers)}"
            self._starting += 1
        task = Task(
            id=id,
            kind=kind,
            status="running",
            started_at=self._clock.time(),
            description=clean_text(description[:MAX_TEXT]),
            command=clean_text(command[:MAX_TEXT]),
            session=session,
            agent=agent,
        )
        try:
            work = await launch(id)
            entry = Entry(task, work, backend)
            with self._lock:
                self._entries[id] = entry
                self._alive[id] = work
            self._spawn(backend, partial(self._watch, entry, work), partial(self._give_up, entry, work))
        finally:
            with self._lock:
                self._starting -= 1
            self._sleepers.wake()
        if timeout_s is not None:
            entry.cancel_timer = self._clock.call_later(
                timeout_s, partial(self._request_stop, entry, "timed_out")
            )
        if self._closed:  # while it was launched
            self._request_stop(entry, "stopped")
        return entry.snapshot()

    def _check_room(self) -> None:
        self._prune()
        running = self._starting + len(self._alive)
        if self._closed:
            raise ToolError("background tasks are closed: nothing can be started any more")
        if running >= self._max_running:
            raise ToolError(f"{running} background tasks run already: stop one first, or wait for one to end")
        if sum(entry.settled and not entry.task.told for entry in self._entries.values()) >= MAX_UNTOLD:
            raise ToolError("too many tasks have ended without anybody looking: call task_list first")

    async def stop(self, id: str) -> Task:
        """Stop a task and wait until it has ended. Cancelling this call does not keep it running.

        Raises:
            ToolError: there is no such task.
        """
        entry = self._find(id)
        self._request_stop(entry, "stopped")
        await self._sleepers.until(lambda: entry.settled)
        return entry.snapshot()

    async def stop_all(self, session: str | None = None) -> int:
        """Stop the tasks that run, or those of one session, and wait for them; how many there were."""
        with self._lock:
            running = [entry for entry in self._entries.values() if not entry.task.ended]
        stopping = [entry for entry in running if session in (None, entry.task.session)]
        for entry in stopping:
            self._request_stop(entry, "stopped")
        await self._sleepers.until(lambda: all(entry.settled for entry in stopping))
        return len(stopping)

    async def aclose(self) -> None:
        """Stop every task and start no more. A cancellation is held off until that is done."""
        with self._lock:
            self._closed = True
            entries = list(self._entries.values())
        for entry in entries:
            self._request_stop(entry, "stopped")
        await self._sleepers.until(self._is_idle, shielded=True)
        self._finalizer.detach()

    def _is_idle(self) -> bool:
        return not (self._starting or self._jobs)

    def _request_stop(self, entry: Entry, cause: Cause) -> None:
        """Have the work stopped on its event loop; asking again changes nothing."""
        with self._lock:
            if entry.cause or entry.task.ended or entry.backend is None:
                return
            entry.cause = cause
        stop = partial(self._stop_work, entry)
        entry.backend.call_soon(partial(self._spawn, entry.backend, stop, _nothing))

    def _spawn(
        self, backend: Backend, fn: Callable[[], Coroutine[Any, Any, None]], done: Callable[[], None]
    ) -> None:
        job = backend.spawn(fn)
        self._jobs.add(job)  # asyncio itself does not keep a task alive

        def ended() -> None:
            self._jobs.discard(job)
            done()
            self._sleepers.wake()

        job.on_done(ended)

    async def _stop_work(self, entry: Entry) -> None:
        work = entry.work
        if work is None or entry.task.ended:
            return
        try:
            await work.stop()
        except BaseException as error:  # noqa: BLE001 (what can't be stopped in an orderly way is killed; its end tells why)
            entry.trouble = f"stop: {describe(error)}"
            work.kill()

    async def _watch(self, entry: Entry, work: Work) -> None:
        try:
            outcome = await work.wait()
        except Exception as error:  # noqa: BLE001 (a failure of the task, and told as its end)
            outcome = Outcome(errors=(describe(error),))
        self._end(entry, outcome)

    def _give_up(self, entry: Entry, work: Work) -> None:
        """The watcher has ended; where it was cancelled, with its event loop, the work is not to go on."""
        if entry.task.ended:
            return
        work.kill()
        entry.cause = entry.cause or "stopped"
        self._end(entry, Outcome(errors=("its event loop ended",)))
        warn_killed(entry.task.id)

    def _end(self, entry: Entry, outcome: Outcome) -> None:
        with self._lock:
            entry.end(outcome, self._clock.time())
            del self._alive[entry.task.id]
        entry.cancel_timer()
        self._tell(entry)
        entry.settled = True
        self._sleepers.wake()
        with self._lock:
            self._prune()

    # --- looking and waiting -----------------------------------------------------------------------

    async def wait(self, *ids: str, first: bool = False, timeout_s: float | None = None) -> tuple[Task, ...]:
        """Wait until these tasks have ended, or the ``first`` of them, or the time is up; how they stand then.
        Without ids, all tasks that are kept. Cancelling this call stops no task.

        Raises:
            ToolError: there is no such task.
        """
        with self._lock:
            entries = [self._find(id) for id in ids] or list(self._entries.values())
        enough = any if first else all
        await self._sleepers.until(lambda: not entries or enough(each.settled for each in entries), timeout_s)
        return tuple([entry.snapshot() for entry in entries])


def _nothing() -> None:
    """Nobody waits for this end."""
