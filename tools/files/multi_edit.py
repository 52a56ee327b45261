"""``multi_edit``: several texts of one file replaced, one after another, all of them or none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, ToolContext, ToolResult
from unspool.tools.text import count_text, shown

from .editing import edit_text
from .matching import Matcher
from .one_file import edit_result, edit_traits, editing, foresee_edit
from .workspace import Workspace

MAX_EDITS = 200


@dataclass(frozen=True)  # pydantic decodes it
class TextEdit:
    """One replacement: as in edit_file."""

    old_string: str
    new_string: str
    replace_all: bool = False


class Edits(NamedTuple):
    """A text after several edits, and how each was made: in how many places, and what is to be told of it."""

    text: str
    matchers: list[Matcher]
    replacements: list[int]
    notes: list[str]


def multi_edit_tool(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    """The tool ``multi_edit`` in ``workspace``.

    ``details`` has ``file`` (path and content hash), ``diff``, ``first_changed_line``, and ``matchers`` and
    ``replacements`` with one entry for each edit.
    """

    foresight = foresee_edit(workspace, _edit)

    @tool(**edit_traits(editing), validate=foresight.validate, preview=foresight.preview)
    def multi_edit(path: str, edits: list[TextEdit], ctx: ToolContext) -> ToolResult:
        """Replace several texts in one file that you have read: all of them, or none if one can't be replaced.

        Args:
            path: the file, relative to the root directory
            edits: the replacements, each made in the text that the one before has left; old_string is the
                text exactly as it is then, with enough of the lines around it to be unique
        """
        with workspace.changing(path, ctx) as change:
            before = change.text
            done = edit_all(before, edits, lambda: ctx.cancelled)
            change.write(done.text)
            notes = [f"[edit {n}: {note}]" for n, note in enumerate(done.notes, 1) if note]
            said = f"edited {shown(change.path)}: made {count_text(len(edits), 'edit')}"
            more = {"matchers": done.matchers, "replacements": done.replacements}
            return edit_result(change, before, done.text, [said, *notes], more)

    return multi_edit


def _edit(text: str, args: JSON, ctx: ToolContext) -> tuple[str, dict[str, Any]]:
    done = edit_all(text, [TextEdit(**edit) for edit in args["edits"]], lambda: ctx.cancelled)
    return done.text, {"matchers": done.matchers}


def edit_all(text: str, edits: Sequence[TextEdit], stop: Callable[[], bool] = lambda: False) -> Edits:
    """The text after each of the edits.

    Raises:
        ToolError: one of them can't be made (it is named by number), all together change nothing, or ``stop`` said so.
    """
    if not 0 < len(edits) <= MAX_EDITS:
        raise ToolError(f"edits has {len(edits)} entries: give 1 to {MAX_EDITS}")
    done = Edits(text, [], [], [])
    for number, edit in enumerate(edits, 1):
        try:
            edited = edit_text(done.text, edit.old_string, edit.new_string, replace_all=edit.replace_all)
        except ToolError as error:
            after = f" (in the text after edit {number - 1})" if number > 1 else ""
            raise ToolError(f"edit {number} of {len(edits)}{after}: {error}; nothing was changed") from error
        done.matchers.append(edited.matcher)
        done.replacements.append(len(edited.lines))
        done.notes.append(edited.note)
        done = done._replace(text=edited.text)
        if stop():
            raise ToolError("cancelled: nothing was changed")
    if done.text == text:
        raise ToolError("the edits together change nothing")
    return done
