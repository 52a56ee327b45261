"""``todo``: the list of steps that a model keeps for itself.

The model writes the whole list each time. The list is in the result's ``details["todo"]``, and nowhere else: the
facts of a session hold it, so it is there after a resume, and a fork or a second agent has its own.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from unspool.kernel.errors import ToolError
from unspool.kernel.events import Event, ToolExecEnd
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.ports import JSON, ToolContext, ToolResult

from .text import MAX_RESULT, shown

Status: TypeAlias = Literal["pending", "in_progress", "completed"]
MAX_ITEMS = 50
MAX_CONTENT = 300  # characters of one item
_MARKS: Final[dict[Status, str]] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "maxItems": MAX_ITEMS,
            "description": "the whole list, in order; it replaces the list before",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT},
                    "status": {"type": "string", "enum": list(_MARKS)},
                },
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["items"],
    "additionalProperties": False,
}


class TodoItem(Struct, frozen=True):
    """One step of the list."""

    content: str
    status: Status = "pending"


def todo_tool() -> RawTool:
    """The tool ``todo``. It keeps nothing itself: ``current`` reads the list from the facts of a session."""
    return raw_tool(
        "todo",
        "Write your list of steps for a task of several steps: the whole list each time, at most one item "
        "in_progress. Mark an item completed as soon as it is done.",
        _SCHEMA,
        _write,
        title="Todo list",
        activity=_activity,
        read_only=True,  # of the world; the list is the model's own
        concurrency_safe=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        max_result_bytes=MAX_RESULT,
    )


def current(facts: Iterable[Event]) -> tuple[TodoItem, ...]:
    """The list as the last ``todo`` call of these facts left it; empty where there was none."""
    stored: list[Any] = []
    for fact in facts:
        if isinstance(fact, ToolExecEnd) and fact.outcome == "ok" and "todo" in fact.details:
            stored = fact.details["todo"]
    return tuple(msgspec.convert(stored, list[TodoItem]))


async def _write(args: JSON, ctx: ToolContext) -> ToolResult:
    items = msgspec.convert(args["items"], list[TodoItem])
    active = [item.content for item in items if item.status == "in_progress"]
    if len(active) > 1:
        names = ", ".join(shown(content) for content in active)
        raise ToolError(
            f"only one item may be in_progress, these are: {names}; the list was not changed, write it again "
            "with the others pending"
        )
    return ToolResult(content=_text(items), details={"todo": msgspec.to_builtins(items)})


def _text(items: list[TodoItem]) -> str:
    if not items:
        return "the list is empty"
    done = sum(item.status == "completed" for item in items)
    lines = [f"{_MARKS[item.status]} {shown(item.content)}" for item in items]
    return "\n".join([f"{done} of {len(items)} completed", *lines])


def _activity(args: JSON) -> str:
    """What is under way, where the list says so."""
    items = args.get("items")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("status") == "in_progress":
            return str(item.get("content", ""))[:MAX_CONTENT]
    return "writing the todo list"
