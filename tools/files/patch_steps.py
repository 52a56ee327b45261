"""The changes of a patch carried out one after another, and undone if one fails.

Read with: ``apply_patch.py``.
"""

import os
import stat
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .change import Change, unlink_link
from .patching import FilePatch
from .root import Roots


class Planned(NamedTuple):
    """A file and what is to become of it; ``target`` is the path that it is moved to."""

    patch: FilePatch
    change: Change
    after: str
    target: str = ""
    notes: Sequence[str] = ()
    fuzz: int = 0


class LinkRemoval:
    """A link that is removed, wherever it leads: what is there is not touched, and may be outside."""

    def __init__(self, roots: Roots, given: str, path: str, target: str) -> None:
        self.path = roots.relative(path)
        self.details = {"path": roots.recorded(path), "deleted": True}
        self._roots = roots
        self._given = given
        self._target = target
        self._is_gone = False

    @classmethod
    def of(cls, roots: Roots, path: str) -> "LinkRemoval | None":
        """That of the link at ``path``; None where there is none."""
        with roots.place(path, follow=False) as place:
            if place.info is None or not stat.S_ISLNK(place.info.st_mode):
                return None
            return cls(roots, path, place.path, os.readlink(place.name, dir_fd=place.fd))

    def do(self) -> None:
        if not unlink_link(self._roots, self._given):
            raise ToolError("it is no link any more: try again")
        self._is_gone = True

    def undo(self) -> str:
        """Put the link back; what could not be put back, in words."""
        if not self._is_gone:
            return ""
        try:
            with self._roots.place(self._given, follow=False) as place:
                os.symlink(self._target, place.name, dir_fd=place.fd)
        except (ToolError, OSError) as error:
            return f"{shown(self.path)} stays deleted: {error}"
        return ""


def carry_out(plans: Sequence[Planned], links: Sequence[LinkRemoval]) -> None:
    """Do all that is planned, deletions last: they are the hardest to undo.

    Raises:
        ToolError: something could not be done; it says what stands now.
    """
    begun: list[_Step | LinkRemoval] = []
    try:
        for plan in sorted(plans, key=lambda each: each.patch.kind == "delete"):
            begun.append(_Step(plan))
            begun[-1].do()
        for link in links:
            begun.append(link)
            link.do()
    except BaseException as error:
        failed = shown(begun[-1].path)
        stands = [text for step in reversed(begun) if (text := step.undo())]
        told = "; ".join(stands) if stands else "nothing was changed"
        if isinstance(error, (ToolError, OSError)):
            raise ToolError(f"{failed} could not be changed: {error}\n{told}") from error
        raise


class _Step:
    """One file being changed; remembers how far it came."""

    def __init__(self, plan: Planned) -> None:
        self.path = plan.change.path
        self._plan = plan
        self._before, self._sha256 = plan.change.text, plan.change.sha256
        self._mark = "\ufeff" if plan.change.file.bom == BOM_UTF8 else ""

    def do(self) -> None:
        change, after, target = self._plan.change, self._plan.after, self._plan.target
        if self._plan.patch.kind == "delete":
            change.delete()
            return
        if not change.exists or after != change.text:
            change.write(after)
        if target:
            change.move_to(self._plan.patch.move_to)

    def undo(self) -> str:
        """Put the file back; what could not be put back, in words."""
        change = self._plan.change
        try:
            if change.path != self.path:
                change.move_to(self.path)
            if self._sha256 is None:
                if change.exists:
                    change.delete()
            elif change.sha256 != self._sha256:
                change.write(self._before if change.exists else self._mark + self._before)
        except ToolError as error:
            return f"{shown(self.path)} stays changed: {error}"
        if change.sha256 != self._sha256:
            return f"{shown(self.path)} was put back, but not as the same bytes"
        return ""
