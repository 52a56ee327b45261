"""What the tools that edit one file share: what they foresee, and what they tell.

Read with: ``edit_file.py``, ``multi_edit.py`` (the tools), ``foresight.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from unspool.kernel.ports import JSON, Refused, ToolContext, ToolResult
from unspool.kernel.tool_traits import Traits
from unspool.tools.text import MAX_RESULT, shown

from .change import Change
from .diffing import diff_texts
from .foresight import Foresight, foresee
from .workspace import Workspace

Edit: TypeAlias = Callable[[str, JSON, ToolContext], tuple[str, dict[str, Any]]]
"""The new text for a file's text and the arguments of a call, and what more a preview tells."""


def edit_traits(activity: Callable[[JSON], str]) -> Traits:
    """The traits of a tool that changes files; ``activity`` says what a call is doing."""
    return {
        "activity": activity,
        "read_only": False,
        "destructive": True,
        "open_world": False,
        "concurrency_safe": False,
        "max_result_bytes": MAX_RESULT,
    }


def foresee_edit(workspace: Workspace, edit: Edit) -> Foresight:
    """The foresight of a tool that makes ``edit`` in the file ``path``, which has to be there and to have been read."""

    def check(args: JSON, ctx: ToolContext) -> Refused | None:
        return workspace.check(args["path"], ctx, must_exist=True, whole=False)

    def plan(args: JSON, ctx: ToolContext) -> JSON:
        with workspace.changing(args["path"], ctx) as change:
            path, text = change.path, change.text
        after, more = edit(text, args, ctx)
        return {"text": diff_texts(text, after, path).text, "path": path, **more}

    return foresee(workspace, check, plan)


def editing(args: JSON) -> str:
    """What a call is doing, for people."""
    return f"editing {shown(args['path'])}"


def edit_result(
    change: Change, before: str, after: str, said: Sequence[str], more: dict[str, Any]
) -> ToolResult:
    """What is told of a file that was written: what was ``said``, then the diff; ``more`` is for the host."""
    diff = diff_texts(before, after, change.path)
    return ToolResult(
        content="\n".join([*said, diff.text]),
        details={
            "file": change.details,
            "diff": diff.text,
            "first_changed_line": diff.first_changed_line,
            **more,
        },
    )
