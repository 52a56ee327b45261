"""A child that goes on in the background, as the work of a task.

Its output is a line of JSON for each message, a line for each tool call, and the answer at the end. What is sent to
the task steers the child; what comes before it ends is answered before it ends.

Read with: ``child.py``, ``unspool.tools.tasks`` (``Work``).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from unspool.kernel.agent import Agent
from unspool.kernel.errors import ToolError, describe
from unspool.kernel.events import Event, MessageEnd, ToolExecStart
from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import AgentMessage
from unspool.kernel.spawn import Job, current_backend
from unspool.tools.tasks import Outcome, Piece, Task, Tasks

from .call import Assignment, Call
from .child import run_child
from .listening import committed

MAX_KEPT = 1 << 20  # bytes of output
MAX_ARGS = 60  # characters of the arguments of a call
MAX_DESCRIPTION = 80


class OutputFile(Protocol):
    """Where output is written, a binary file for instance; ``name`` is its path."""

    @property
    def name(self) -> str: ...
    def write(self, data: bytes, /) -> object: ...
    def close(self) -> object: ...


OpenOutput: TypeAlias = Callable[[str], OutputFile]
"""Opens the file for the output of a task, given the id of the task."""


class ChildWork:
    """See the module; a ``Work``, and the ``Audience`` of its child."""

    pid: int | None = None
    detached = True

    def __init__(
        self, call: Call, work: Assignment, tasks: Tasks, id: str, open_output: OpenOutput | None
    ) -> None:
        self._call, self._work, self._tasks, self._id = call, work, tasks, id
        self._backend = current_backend()
        self._news = self._backend.waker()
        self._ended_news = self._backend.waker()
        self._output = bytearray()
        self._start = 0  # of what is kept of it
        self._open_output = open_output
        self._file: OutputFile | None = None
        self._path = ""
        self._errors: list[str] = []
        self._job: Job | None = None
        self.has_started = self.has_ended = self._was_stopped = False
        self.refused: Exception | None = None  # why nothing was started

    # --- its life --------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Start the child; returns when that is recorded.

        Raises:
            ToolError, LogError: it cannot be started.
        """
        self._job = self._backend.spawn(self._perform)
        self._job.on_done(self._end)
        try:
            while not (self.has_started or self.has_ended):
                await self._news.wait()
        except BaseException:  # the call is given up: the child, which may be opening its log, ends by itself
            self._call.stop()
            raise
        if self.refused is not None:
            raise self.refused

    def _end(self) -> None:
        self.has_ended = True
        self._news.set()
        self._ended_news.set()

    async def _perform(self) -> None:
        try:
            if self._open_output is not None:
                self._file = self._open_output(self._id)
                self._path = str(self._file.name)
        except Exception as error:  # noqa: BLE001 (a host's code; the task fails with it)
            self._errors.append(f"its output cannot be opened: {describe(error)}")
            self.started()
            return
        try:
            result = await run_child(self._call, self._work, self)
            self.started()  # one that had ended before
            self._write(result.text)
            self._was_stopped = result.cancelled
            if result.problem and not result.cancelled:
                self._errors.append(result.text)
        except Exception as error:  # noqa: BLE001 (the end of the task tells it)
            if not self.has_started:
                self.refused = error
            self._errors.append(error.args[0] if isinstance(error, ToolError) else describe(error))
        finally:
            self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except Exception as error:  # noqa: BLE001 (a host's code; the task fails with it)
                self._errors.append(f"its output cannot be closed: {describe(error)}")

    async def wait(self) -> Outcome:
        """See ``Work``."""
        while not self.has_ended:
            await self._ended_news.wait()
        self._ended_news.set()
        return Outcome(errors=tuple(self._errors), cause="stopped" if self._was_stopped else "")

    async def stop(self) -> None:
        """See ``Work``; the child has its grace time."""
        self._call.stop()
        while not self.has_ended:
            await self._news.wait()
        self._news.set()

    def kill(self) -> None:
        """See ``Work``."""
        self._call.stop()
        if self._job is not None:
            self._job.cancel()

    # --- what it says ----------------------------------------------------------------------------

    def started(self) -> None:
        """See ``Audience``."""
        self.has_started = True
        self._news.set()

    async def see(self, session: str, agent: Agent[Any], event: Event) -> None:
        """See ``Audience``."""
        match event:
            case MessageEnd():
                message = committed(agent.state, event)
                if (lowered := message and message.to_message()) is not None:
                    self._write(msgspec.json.encode(lowered).decode())
            case ToolExecStart():
                args = encode_text(event.args)
                shown = args if len(args) <= MAX_ARGS else f"{args[:MAX_ARGS]}…"
                self._write(f"[tool] {event.tool}({shown})")
            case _:
                return
        for sent in self._tasks.drain_pending(self._id):
            agent.steer(sent)

    def last_look(self) -> Sequence[str | AgentMessage]:
        """See ``Audience``."""
        return self._tasks.drain_pending(self._id, last=True)

    # --- output ----------------------------------------------------------------------------------

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode()
        self._output += data
        if (over := len(self._output) - MAX_KEPT) > 0:
            del self._output[:over]
            self._start += over
        if self._file is not None:
            try:
                self._file.write(data)
            except Exception as error:  # noqa: BLE001 (a host's code; the task fails with it)
                self._errors.append(f"its output cannot be written: {describe(error)}")
                self._close()

    @property
    def output_bytes(self) -> int:
        """See ``Work``."""
        return self._start + len(self._output)

    @property
    def output_file(self) -> str:
        """See ``Work``."""
        return self._path

    def read(self, offset: int, limit: int, /) -> Piece:
        """See ``Work``."""
        start = max(offset, self._start)
        part = bytes(self._output[start - self._start : start - self._start + limit])
        return Piece(part.decode(errors="replace"), start, start + len(part), self.output_bytes)


async def start_in_background(
    call: Call, work: Assignment, tasks: Tasks, open_output: OpenOutput | None, description: str
) -> Task:
    """The task of a child that goes on by itself.

    Raises:
        ToolError: it, or the task, cannot be started.
    """

    async def launch(id: str) -> ChildWork:
        child = ChildWork(call, work, tasks, id, open_output)
        await child.begin()
        return child

    return await tasks.start(
        "subagent",
        launch,
        description=(description or work.task)[:MAX_DESCRIPTION],
        session=call.ctx.session,
        agent=call.ctx.agent,
    )
