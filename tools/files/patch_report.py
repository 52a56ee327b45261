"""What is told of a patch that is carried out: a line for each file, the diffs, and the files for a host.

Read with: ``apply_patch.py``.
"""

from collections.abc import Sequence
from typing import Any

from unspool.tools.text import shown, shown_list

from .diffing import diff_texts
from .patch_steps import LinkRemoval, Planned

_MAX_DIFFS = 24_000  # characters of all diffs together


def summaries_of(plans: Sequence[Planned], links: Sequence[LinkRemoval]) -> list[str]:
    """A line for each file, the links at the end."""
    return [*map(_summary, plans), *(f"D {shown(link.path)}" for link in links)]


def _summary(plan: Planned) -> str:
    """A file as in ``git status``: A, M, D or R."""
    name = shown(plan.change.path)
    match plan.patch.kind:
        case "add":
            return f"A {name}"
        case "delete":
            return f"D {name}"
        case "update":
            return f"R {name} -> {shown(plan.target)}" if plan.target else f"M {name}"


def diffs_of(plans: Sequence[Planned]) -> list[str]:
    """The changes of all files but the deleted ones; what is too much is only named."""
    texts: list[str] = []
    left_out: list[str] = []
    size = 0
    for plan in plans:
        if plan.patch.kind == "delete":
            continue
        diff = diff_texts(plan.change.text, plan.after, plan.change.path).text
        size += len(diff)
        if size > _MAX_DIFFS:
            left_out.append(plan.change.path)
        elif diff:
            texts.append(diff)
    if left_out:
        texts.append(f"… (left out: the diffs of {shown_list(left_out)})")
    return texts


def details_of(plan: Planned, old_path: str) -> list[dict[str, Any]]:
    """A file as it is now, for ``details["files"]``; and the path that it was moved from."""
    gone = [{"path": old_path, "deleted": True}] if plan.target else []
    return [*gone, plan.change.details]
