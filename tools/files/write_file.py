"""``write_file``: a whole text file, new or over an old one.

Over an old one its byte order mark and its encoding are kept; so are its newlines, where all were ``\\r\\n`` and the
new text has only ``\\n``. The result says so.
"""

from typing import Any

from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, Refused, ToolContext, ToolResult
from unspool.tools.text import count_text, shown

from .change import Change
from .preview import changed_lines, new_lines
from .text_file import in_newlines_of
from .workspace import Workspace


def write_file_tool(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    """The tool ``write_file`` in ``workspace``."""

    def validate(args: JSON, ctx: ToolContext) -> Refused | None:
        return workspace.check(args["path"], ctx, must_exist=False)

    def preview(args: JSON, ctx: ToolContext) -> JSON:
        with workspace.changing(args["path"], ctx, create=True, whole=True) as change:
            if not change.exists:
                return {"text": new_lines(args["content"]), "path": change.path, "created": True}
            text = changed_lines(change.text, args["content"])
            return {"text": text, "path": change.path, "created": False}

    @tool(
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        validate=validate,
        preview=preview,
    )
    def write_file(path: str, content: str, ctx: ToolContext) -> ToolResult:
        """Write a text file: a new one, with its directories, or all of an existing one that you have read.

        Args:
            path: the file, relative to the root directory
            content: all of its text
        """
        with workspace.changing(path, ctx, create=True, whole=True) as change:
            notes = _notes(change, content)
            created, old = not change.exists, change.text
            size = change.write(content if created else in_newlines_of(old, content))
            said = "created" if created else "overwrote"
            text = f"{said} {shown(change.path)}: {count_text(size, 'byte')}"
            details: dict[str, Any] = {
                "file": change.details,
                "created": created,
                "bytes": size,
                "preview": new_lines(content) if created else changed_lines(old, content),
            }
        return ToolResult(content="\n".join([text, *(f"[{note}]" for note in notes)]), details=details)

    return write_file


def _notes(change: Change, content: str) -> list[str]:
    """What is kept of an old file, and what is not."""
    if not change.exists:
        return []
    notes, file = [], change.file
    if in_newlines_of(file.text, content) != content:
        notes.append("its CRLF newlines were kept")
    if file.bom:
        notes.append(f"its byte order mark was kept ({file.encoding.upper()})")
    if file.encoding == "utf-8" and not file.is_utf8:
        notes.append("it was not all UTF-8, now it is")
    if change.names > 1:
        notes.append(f"it had {change.names} names (hard links): the others keep the old text")
    return notes
