"""The tools with which a member's model works on the team's task board.

Read with: ``board.py``, ``team_tools.py``.
"""

from typing import Any, Final, Literal

from unspool.kernel.function_tool import tool
from unspool.kernel.ports import Tool, ToolContext, ToolResult

from .board import Board, BoardTask, TaskDraft

_TRAITS: Final[dict[str, Any]] = {
    "read_only": False,
    "destructive": False,
    "idempotent": True,
    "open_world": False,
    "concurrency_safe": False,  # ids in the order of the calls
}
_CLAIMING: Final[dict[str, Any]] = {**_TRAITS, "idempotent": False}
_SHOWN: Final = 2000  # characters of a task's text or result in a list


def board_tools(board: Board, name: str) -> list[Tool]:
    """``add_task``, ``claim_task``, ``finish_task`` and ``list_tasks`` for the member ``name``."""
    own = _BoardTools(board, name)
    return [own.add_task, own.claim_task, own.finish_task, own.list_tasks]


class _BoardTools:
    """The tools as one member has them: what they say to a model is made once, for all members."""

    def __init__(self, board: Board, name: str) -> None:
        self._board, self._name = board, name

    @tool(**_TRAITS, activity="adding a task")
    async def add_task(
        self,
        ctx: ToolContext,
        title: str,
        text: str = "",
        depends_on: tuple[str, ...] = (),
        priority: int = 0,
        tags: tuple[str, ...] = (),
    ) -> ToolResult:
        """Add a task to the team's board, for whoever claims it.

        Args:
            title: what is to be done, in a few words
            text: everything that whoever does it needs to know
            depends_on: ids of tasks that have to be done first
            priority: higher comes first
            tags: who claims tasks by tags finds it by these
        """
        draft = TaskDraft(
            title=title,
            text=text,
            depends_on=depends_on,
            priority=priority,
            tags=tags,
            key=f"{ctx.session}/{ctx.call_id}",
        )
        (task,) = await self._board.add(self._name, draft)
        return _told(f"Added {task.id}.", task)

    @tool(**_CLAIMING, activity="claiming a task")
    async def claim_task(self, id: str = "", tags: tuple[str, ...] = ()) -> ToolResult:
        """Take a task of the board: it is yours until you finish it.

        Args:
            id: which; the next one that can be begun if left out
            tags: only one that has all these tags
        """
        task = await self._board.claim(self._name, id=id or None, tags=tags)
        if task is None:
            return ToolResult(content="There is no task to claim now.")
        return _told(f"{task.id} is yours: {task.title}" + (f"\n{task.text}" if task.text else ""), task)

    @tool(**_TRAITS, activity="finishing a task")
    async def finish_task(
        self, id: str, result: str, outcome: Literal["done", "failed", "given_back"] = "done"
    ) -> ToolResult:
        """Say what came of a task that you hold.

        Args:
            id: which
            result: what came of it, or why it failed
            outcome: done, failed, or given_back to be claimed by another
        """
        if outcome == "given_back":
            task = await self._board.release(id, self._name)
        elif outcome == "failed":
            task = await self._board.fail(id, self._name, result)
        else:
            task = await self._board.complete(id, self._name, result)
        return _told(f"{task.id} is {task.status}.", task)

    @tool(read_only=True, idempotent=True, open_world=False, activity="looking at the board")
    async def list_tasks(self, status: Literal["all", "open", "claimed", "done", "failed"] = "all") -> str:
        """List the tasks of the team's board.

        Args:
            status: only those that stand so
        """
        tasks = await self._board.list(None if status == "all" else {status})
        return "\n".join(_line(task, self._name) for task in tasks) or "There are no tasks."


def _told(text: str, task: BoardTask) -> ToolResult:
    return ToolResult(content=text, details={"task": task.id, "status": task.status})


def _line(task: BoardTask, name: str) -> str:
    by = f" by {'you' if task.assignee == name else task.assignee}" if task.assignee else ""
    needs = f", after {', '.join(task.depends_on)}" if task.depends_on and task.status == "open" else ""
    said = task.result if len(task.result) <= _SHOWN else f"{task.result[:_SHOWN]}…"
    return f"- {task.id} {task.status}{by}{needs}: {task.title}" + (f" -> {said}" if said else "")
