"""``edit_file``: one text of a file replaced by another."""

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, ToolContext, ToolResult
from unspool.tools.text import MAX_RESULT, count_text, shown

from .diffing import diff_texts
from .editing import edit_text
from .foresight import Check, foresee
from .workspace import Workspace


def edit_file_tool(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    """The tool ``edit_file`` in ``workspace``.

    ``details`` has ``file`` (path and content hash), ``diff``, ``first_changed_line``, ``matcher`` and
    ``replacements``. The preview is made by the same matcher and never writes.
    """

    def plan(args: JSON, ctx: ToolContext) -> JSON:
        with workspace.changing(args["path"], ctx) as change:
            path, text = change.path, change.text
        edited = edit_text(
            text, args["old_string"], args["new_string"], replace_all=args.get("replace_all", False)
        )
        diff = diff_texts(text, edited.text, path)
        return {"text": diff.text, "path": path, "matcher": edited.matcher}

    foresight = foresee(workspace, known(workspace), plan)

    @tool(
        read_only=False,
        destructive=True,
        open_world=False,
        concurrency_safe=False,
        activity=lambda args: f"editing {shown(args['path'])}",
        max_result_bytes=MAX_RESULT,
        validate=foresight.validate,
        preview=foresight.preview,
    )
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
            diff = diff_texts(before, edited.text, change.path)
            where = f" (line {edited.lines[0]})" if len(edited.lines) == 1 else ""
            said = (
                f"edited {shown(change.path)}: replaced {count_text(len(edited.lines), 'occurrence')}{where}"
            )
            notes = [f"[{edited.note}]"] if edited.note else []
            return ToolResult(
                content="\n".join([said, *notes, diff.text]),
                details={
                    "file": change.details,
                    "diff": diff.text,
                    "first_changed_line": diff.first_changed_line,
                    "matcher": edited.matcher,
                    "replacements": len(edited.lines),
                },
            )

    return edit_file


def known(workspace: Workspace) -> Check:
    """Whether the file ``path`` is there and has been read."""
    return lambda args, ctx: workspace.check(args["path"], ctx, must_exist=True, whole=False)
