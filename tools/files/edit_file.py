"""``edit_file``: one text of a file replaced by another."""

from typing import Any

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, ToolContext, ToolResult
from unspool.tools.text import count_text, shown

from .editing import edit_text
from .one_file import edit_result, edit_traits, editing, foresee_edit
from .workspace import Workspace


def edit_file_tool(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    """The tool ``edit_file`` in ``workspace``.

    ``details`` has ``file`` (path and content hash), ``diff``, ``first_changed_line``, ``matcher`` and
    ``replacements``. The preview is made by the same matcher and never writes.
    """

    foresight = foresee_edit(workspace, _edit)

    @tool(**edit_traits(editing), validate=foresight.validate, preview=foresight.preview)
    def edit_file(
        path: str, old_string: str, new_string: str, ctx: ToolContext, replace_all: bool = False
    ) -> ToolResult:
        """Replace a text in a file that you have read.

        Args:
            path: the file, relative to the root directory
            old_string: the text to replace, exactly as it is in the file and without line numbers; with
                enough of the lines around it to be unique
            new_string: what takes its place
            replace_all: replace every occurrence instead of requiring that there is only one
        """
        with workspace.changing(path, ctx) as change:
            before = change.text
            edited = edit_text(before, old_string, new_string, replace_all=replace_all)
            if ctx.cancelled:
                raise ToolError("cancelled: nothing was changed")
            change.write(edited.text)
            where = f" (line {edited.lines[0]})" if len(edited.lines) == 1 else ""
            replaced = f"replaced {count_text(len(edited.lines), 'occurrence')}{where}"
            said = [
                f"edited {shown(change.path)}: {replaced}",
                *([f"[{edited.note}]"] if edited.note else []),
            ]
            more = {"matcher": edited.matcher, "replacements": len(edited.lines)}
            return edit_result(change, before, edited.text, said, more)

    return edit_file


def _edit(text: str, args: JSON, ctx: ToolContext) -> tuple[str, dict[str, Any]]:
    edited = edit_text(
        text, args["old_string"], args["new_string"], replace_all=args.get("replace_all", False)
    )
    return edited.text, {"matcher": edited.matcher}
