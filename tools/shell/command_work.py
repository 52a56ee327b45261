"""A shell command as the work of a background task.

Read with: ``process.py`` (``Command``), ``unspool.tools.tasks.entry`` (``Work``).
"""

from unspool.tools.tasks.entry import Cause, Outcome, Piece

from .process import Command, Ended


class CommandWork:
    """``command``, which has been started."""

    def __init__(self, command: Command) -> None:
        self._command = command

    @property
    def pid(self) -> int | None:
        return self._command.pid or None

    @property
    def output_bytes(self) -> int:
        return self._command.output.size

    @property
    def output_file(self) -> str:
        return str(self._command.output.file or "")

    def read(self, offset: int, limit: int, /) -> Piece:
        """The output from ``offset`` on; where that is too much, its end."""
        output = self._command.output
        total = output.size
        given = output.since(min(offset, total))
        start = min(offset, total) + given.skipped
        text = given.text
        if len(text) > limit:
            text = text[-limit:]
            start = given.next - len(text.encode())
        return Piece(text, start, given.next, max(total, given.next))

    async def wait(self) -> Outcome:
        """How the command ended, and whether its output could be kept."""
        ended = await self._command.wait()
        cause: Cause = _CAUSES[ended.stopped]
        errors = [ended.error, f"killed by {ended.signal}" if ended.signal and not cause else ""]
        if ended.left:
            errors.append(f"still running: {', '.join(f'{name} ({pid})' for pid, name in ended.left)}")
        if self._command.output.file_error:
            errors.append(f"copy of the output to its file: {self._command.output.file_error}")
        return Outcome(exit_code=_exit_code(ended), errors=tuple(filter(None, errors)), cause=cause)

    async def stop(self) -> None:
        await self._command.stop()

    def kill(self) -> None:
        """Its own thread ends it, or the supervisor of the command when this process is gone."""
        self._command.request_stop()


_CAUSES: dict[str, Cause] = {"": "", "stop": "stopped", "timeout": "timed_out"}


def _exit_code(ended: Ended) -> int | None:
    return None if ended.exit_code < 0 else ended.exit_code
