"""``task_output``, ``task_wait``, ``task_stop`` and ``task_list``: how an agent deals with its background tasks.

A task shows itself to the session that started it, and those of the host to all. Waiting ends with a steering message,
and that stops no task. An end that one of these tools has told sends no notice.

Read with: ``registry.py``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, Tool, ToolContext, ToolResult
from unspool.tools.text import MAX_OUTPUT, MAX_RESULT, render, shown, shown_list

from .entry import Piece, Task, summary
from .registry import Tasks

MAX_TAIL = 2000  # bytes of output of each task that was waited for
MAX_IDS = 20
MAX_WAIT_S = 600.0
_LOOKS: Final[dict[str, Any]] = {"read_only": True, "open_world": False, "max_result_bytes": MAX_RESULT}


def task_tools(tasks: Tasks) -> list[Tool]:
    """The four tools on ``tasks``."""
    return [make(tasks) for make in (task_output_tool, task_wait_tool, task_stop_tool, task_list_tool)]


def task_output_tool(tasks: Tasks) -> FunctionTool[..., Any]:
    """The tool ``task_output``."""

    @tool(**_LOOKS, interrupt="cancel", activity=_activity("reading the output of"))
    async def task_output(
        ctx: ToolContext,
        task_id: str,
        wait: bool = False,
        timeout: float = 30,  # noqa: ASYNC109 (the word that models know)
        offset: int | None = None,
    ) -> ToolResult:
        """Read what a background task has written since you last asked, and how it stands.

        Args:
            task_id: the id of the task
            wait: wait until the task has ended, or for timeout seconds
            timeout: the longest wait in seconds, at most 600
            offset: read from this byte on instead; a negative one counts from the end
        """
        _visible(tasks, ctx, [task_id])
        with tasks.reading([task_id]):
            if wait:
                await tasks.wait(task_id, timeout_s=_seconds(timeout))
            (task,) = _visible(tasks, ctx, [task_id])
            if offset is None:
                asked, piece = tasks.unread_output(task_id, (ctx.session, ctx.agent), MAX_OUTPUT)
            else:
                asked, piece = offset, tasks.output(task_id, offset, MAX_OUTPUT)
            tasks.mark_read([task])
        lines = [*_status(task, ctx.clock.time()), *([piece.text.rstrip("\n")] if piece.text else [])]
        return _result(tasks, ctx, lines, _output_notes(task, piece, asked), [task])

    return task_output


def task_wait_tool(tasks: Tasks) -> FunctionTool[..., Any]:
    """The tool ``task_wait``."""

    @tool(**_LOOKS, interrupt="cancel", activity=_activity("waiting for"))
    async def task_wait(
        ctx: ToolContext,
        task_ids: list[str],
        mode: Literal["all", "any"] = "all",
        timeout: float = 60,  # noqa: ASYNC109 (the word that models know)
    ) -> ToolResult:
        """Wait until background tasks have ended, where you can't go on without them. Stops none of them.

        Args:
            task_ids: the ids of the tasks, at most 20
            mode: all of them, or any one
            timeout: the longest wait in seconds, at most 600
        """
        ids = list(dict.fromkeys(task_ids))
        if not 1 <= len(ids) <= MAX_IDS:
            raise ToolError(f"task_ids: name 1 to {MAX_IDS} tasks")
        _visible(tasks, ctx, ids)
        with tasks.reading(ids):
            found = await tasks.wait(*ids, first=mode == "any", timeout_s=_seconds(timeout))
            lines = [line for task in found for line in _with_tail(tasks, task, ctx.clock.time())]
            tasks.mark_read(found)
        ended = sum(task.ended for task in found)
        enough = ended if mode == "any" else ended == len(found)
        waited = f"still running after {_seconds(timeout):g} s; wait again, or stop it with task_stop"
        return _result(tasks, ctx, lines, [] if enough else [waited], found)

    return task_wait


def task_stop_tool(tasks: Tasks) -> FunctionTool[..., Any]:
    """The tool ``task_stop``."""

    @tool(
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        max_result_bytes=MAX_RESULT,
        activity=_activity("stopping"),
    )
    async def task_stop(ctx: ToolContext, task_id: str) -> ToolResult:
        """Stop a background task with everything that it started.

        Args:
            task_id: the id of the task
        """
        (before,) = _visible(tasks, ctx, [task_id])
        with tasks.reading([task_id]):
            task = await tasks.stop(task_id)
            lines = _with_tail(tasks, task, ctx.clock.time())
            tasks.mark_read([task])
        notes = ["it had ended already"] if before.ended else []
        return _result(tasks, ctx, lines, notes, [task])

    return task_stop


def task_list_tool(tasks: Tasks) -> FunctionTool[..., Any]:
    """The tool ``task_list``."""

    @tool(**_LOOKS, activity="listing background tasks")
    async def task_list(ctx: ToolContext) -> ToolResult:
        """List your background tasks: those that run, and those that ended not long ago."""
        found = tasks.list(ctx.session)
        tasks.mark_read(found)
        now = ctx.clock.time()
        lines = [summary(task, now) for task in found]
        return ToolResult(
            content=render(lines, []) or "there are no background tasks",
            details={"tasks": [task.details for task in found]},
        )

    return task_list


def _visible(tasks: Tasks, ctx: ToolContext, ids: Sequence[str]) -> list[Task]:
    """The tasks of these ids that the call may see.

    Raises:
        ToolError: one of them is not there.
    """
    known = {task.id: task for task in tasks.list(ctx.session)}
    missing = [id for id in ids if id not in known]
    if missing:
        there = f"there are: {shown_list(list(known), MAX_IDS)}" if known else "there are no background tasks"
        raise ToolError(f"no such task: {shown_list(missing)}; {there}")
    return [known[id] for id in ids]


def _result(
    tasks: Tasks, ctx: ToolContext, lines: Iterable[str], notes: Iterable[str], about: Sequence[Task]
) -> ToolResult:
    """A result with the tasks it is about, and the ends that nothing else has told."""
    untold = tasks.untold(ctx.session)
    tasks.mark_read(untold)
    now = ctx.clock.time()
    notes = [*notes, *(f"ended meanwhile: {summary(task, now)}" for task in untold)]
    return ToolResult(
        content="\n".join([*lines, *(f"[{note}]" for note in notes)]),
        details={"tasks": [task.details for task in (*about, *untold)]},
    )


def _status(task: Task, now: float) -> list[str]:
    return [summary(task, now), *([f"error: {task.error}"] if task.error else [])]


def _with_tail(tasks: Tasks, task: Task, now: float) -> list[str]:
    """How a task stands, with the end of its output where it has ended."""
    lines = _status(task, now)
    if not task.ended:
        return lines
    tail = tasks.output(task.id, -MAX_TAIL, MAX_TAIL)
    if tail.start:
        lines.append(f"[the end of {tail.total} bytes; read all with task_output]")
    return [*lines, tail.text.rstrip("\n")] if tail.text else lines


def _output_notes(task: Task, piece: Piece, asked: int) -> list[str]:
    """Which part of the output this is; ``asked`` is the offset that was asked for."""
    if not piece.total:
        return ["no output" if task.ended else "no output so far"]
    if not piece.text:
        return ["no new output"]
    notes = [f"bytes {piece.start} to {piece.end} of {piece.total}"]
    if 0 <= asked < piece.start:
        where = f"; the whole output is in {task.output_file}" if task.output_file else ""
        notes.append(f"bytes {asked} to {piece.start} are left out{where}")
    if piece.end < piece.total:
        notes.append("there is more: call task_output again, or with offset=-8000 for the end")
    return notes


def _seconds(timeout: float) -> float:
    return min(max(timeout, 0.0), MAX_WAIT_S)


def _activity(doing: str) -> Callable[[JSON], str]:
    """What a call is doing, from arguments that nobody has checked."""

    def activity(args: JSON) -> str:
        ids = args.get("task_ids", args.get("task_id", ""))
        return f"{doing} {shown_list([str(id)[:40] for id in ids]) if isinstance(ids, list) else shown(str(ids)[:40])}"

    return activity
