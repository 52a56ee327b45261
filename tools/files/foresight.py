"""What a tool that edits files can tell of a call before it runs: that it can't work, and what it would do.

Read with: ``edit_file.py``, ``multi_edit.py``, ``apply_patch.py`` (the tools).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import JSON, Refused, ToolContext

from .workspace import Workspace

Check: TypeAlias = Callable[[JSON, ToolContext], Refused | None]
Plan: TypeAlias = Callable[[JSON, ToolContext], JSON]


class Foresight(NamedTuple):
    """The ``validate`` and the ``preview`` of a tool."""

    validate: Check
    preview: Plan


def foresee(workspace: Workspace, check: Check, plan: Plan) -> Foresight:
    """``check`` looks whether the files may be changed, ``plan`` makes the changes without writing any.

    Why a plan fails tells what is in the files. The model has read them, else ``check`` refuses; in a workspace that does
    not ask for that, the model is told once its call is let pass.
    """

    def validate(args: JSON, ctx: ToolContext) -> Refused | None:
        try:
            if refused := check(args, ctx):
                return refused
            if workspace.read_before_write:
                plan(args, ctx)
        except ToolError as error:
            return Refused(str(error))
        return None

    def preview(args: JSON, ctx: ToolContext) -> JSON:
        try:
            return plan(args, ctx)
        except ToolError as error:
            if workspace.read_before_write:
                raise
            return {"text": f"can't be done: {error}"}

    return Foresight(validate, preview)
