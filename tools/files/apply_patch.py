"""``apply_patch``: changes to several files, all of them or none.

All files are locked, read and patched in memory before the first is written. If a write fails, what was done before
is undone; where that fails too, the result says what stands.
Read with: ``patching.py`` and the two forms, ``patch_v4a.py`` and ``patch_unified.py``; ``patch_steps.py``, ``patch_report.py``.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import JSON, Refused, ToolContext, ToolResult
from unspool.tools.text import count_text, shown, shown_list

from .change import Change
from .foresight import foresee
from .one_file import edit_traits
from .patch_report import details_of, diffs_of, summaries_of
from .patch_steps import LinkRemoval, Planned, carry_out
from .patch_unified import parse_unified
from .patch_v4a import is_v4a, parse_v4a
from .patching import FilePatch, Patched, patch_text
from .path_locks import Key, lock_key
from .workspace import Workspace

MAX_FILES = 200
_MARK = "\ufeff"


def parse_patch(patch: str) -> list[FilePatch]:
    """What a patch, V4A or unified, does with each file.

    Raises:
        ToolError: it is neither, is not complete, or names no file or too many.
    """
    found = parse_v4a(patch) if is_v4a(patch) else parse_unified(patch)
    if len(found) > MAX_FILES:
        raise ToolError(f"the patch changes {len(found)} files, at most {MAX_FILES} are possible")
    return found


def apply_patch_tool(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    """The tool ``apply_patch`` in ``workspace``.

    ``details`` has ``files`` (path and content hash of each, or ``deleted``), ``diff``, and ``fuzz``, which is 0 where
    every hunk fitted exactly.
    """

    def check(args: JSON, ctx: ToolContext) -> Refused | None:
        patches = parse_patch(args["patch"])
        links = _links(workspace.at(ctx), patches)
        for each in patches:
            if each.path in links:
                continue
            must_exist = each.kind != "add"
            if refused := workspace.check(each.path, ctx, must_exist=must_exist, whole=False):
                return refused
        return None

    def plan(args: JSON, ctx: ToolContext) -> JSON:
        with _planned(workspace, parse_patch(args["patch"]), ctx) as (plans, links):
            return {"text": "\n".join(diffs_of(plans)), "files": summaries_of(plans, links)}

    foresight = foresee(workspace, check, plan)

    @tool(**edit_traits(_activity), validate=foresight.validate, preview=foresight.preview)
    def apply_patch(patch: str, ctx: ToolContext) -> ToolResult:
        """Change several places, in one or more files that you have read: all of them, or none if a part doesn't fit.

        The patch is a unified diff, or has this form:
        *** Begin Patch
        *** Update File: src/a.py
        *** Move to: src/b.py
        @@ def f():
         unchanged line, with a blank before it
        -removed line
        +added line
        *** Add File: src/new.py
        +each line of it
        *** Delete File: src/old.py
        *** End Patch
        Give 3 unchanged lines before and after each change; where these are not unique, after @@ a line further above.
        Move to only renames.

        Args:
            patch: the whole patch
        """
        return _apply(workspace, patch, ctx)

    return apply_patch


def _apply(workspace: Workspace, patch: str, ctx: ToolContext) -> ToolResult:
    with _planned(workspace, parse_patch(patch), ctx) as (plans, links):
        texts, summaries = diffs_of(plans), summaries_of(plans, links)
        old_paths = [plan.change.details["path"] for plan in plans]
        if ctx.cancelled:
            raise ToolError("cancelled: nothing was changed")
        carry_out(plans, links)
        files = [details_of(plan, path) for plan, path in zip(plans, old_paths, strict=True)]
        files.append([link.details for link in links])
        notes = [f"[{note}]" for plan in plans for note in plan.notes]
        said = [f"patched {count_text(len(summaries), 'file')}:", *summaries, *notes, *texts]
        return ToolResult(
            content="\n".join(said),
            details={
                "files": [entry for entries in files for entry in entries],
                "diff": "\n".join(texts),
                "fuzz": sum(plan.fuzz for plan in plans),
            },
        )


def _activity(args: JSON) -> str:
    return f"patching {shown_list([each.path for each in parse_patch(args['patch'])])}"


def _links(workspace: Workspace, patches: Sequence[FilePatch]) -> dict[str, LinkRemoval]:
    """The links that are to be deleted, by the paths that the patch gives."""
    deleted = [each.path for each in patches if each.kind == "delete" and not each.hunks]
    found = {path: LinkRemoval.of(workspace, path) for path in deleted}
    return {path: link for path, link in found.items() if link}


@contextmanager
def _planned(
    workspace: Workspace, patches: Sequence[FilePatch], ctx: ToolContext
) -> Iterator[tuple[list[Planned], list[LinkRemoval]]]:
    """The files of a patch, held, with what is to become of them; and the links that are removed.

    They are taken in the order of where they really are, so that two calls can't wait for each other.
    """
    workspace = workspace.at(ctx)
    taken: set[Key] = set()
    places: list[tuple[str, FilePatch]] = []
    links = _links(workspace, patches)
    for each in patches:
        with workspace.place(each.path, follow=each.path not in links) as place:
            key = lock_key(place)
            if each.path not in links:
                places.append((place.path, each))
        _take(taken, key, each.path)
        if each.move_to:
            with workspace.place(each.move_to) as place:
                target = lock_key(place)
            if target != key:  # as it is where a name changes only its case
                _take(taken, target, each.move_to)
    with ExitStack() as stay:
        held = {
            each.path: stay.enter_context(workspace.changing(each.path, ctx, create=each.kind == "add"))
            for _, each in sorted(places, key=lambda pair: pair[0])
        }
        plans = [_plan(workspace, each, held[each.path]) for each in patches if each.path not in links]
        yield plans, list(links.values())


def _take(taken: set[Key], key: Key, path: str) -> None:
    if key in taken:
        raise ToolError(
            f"{shown(path)} is in the patch twice, or under names that differ only in case: put all changes of a "
            "file together"
        )
    taken.add(key)


def _plan(workspace: Workspace, patch: FilePatch, change: Change) -> Planned:
    name = shown(change.path)
    notes = [f"{name}: {patch.note}"] if patch.note else []
    if patch.kind == "add":
        if change.exists:
            raise ToolError(f"{name} exists already: update it, or delete it first; nothing was changed")
        return Planned(patch, change, patch.text, notes=notes)
    target = _target(workspace, patch.move_to, change) if patch.move_to else ""
    done = _patched(patch, change)
    notes += [f"{name}: {note}" for note in done.notes]
    if patch.kind == "delete" and patch.hunks and done.text:
        raise ToolError(f"{name} has more lines than the patch removes; nothing was changed")
    if patch.kind == "update" and not target and done.text == change.text:
        raise ToolError(f"{name}: the patch changes nothing in it; nothing was changed")
    return Planned(patch, change, done.text, target, notes, done.fuzz)


def _target(workspace: Workspace, path: str, change: Change) -> str:
    """The path, as it is shown, that a file can be moved to; empty where it is there."""
    with workspace.place(path) as place:
        target = workspace.relative(place.path)
        if target == change.path:
            return ""
        if place.info is not None:
            raise ToolError(
                f"{shown(target)} exists already: nothing can be moved there; nothing was changed"
            )
    return target


def _patched(patch: FilePatch, change: Change) -> Patched:
    """The file's text with the hunks applied; with its byte order mark meanwhile, where the hunks have it."""
    lines = (line.text for hunk in patch.hunks for line in hunk.old)
    mark = _MARK if change.file.bom and any(text.startswith(_MARK) for text in lines) else ""
    try:
        done = patch_text(mark + change.text, patch.hunks)
    except ToolError as error:
        raise ToolError(f"{shown(change.path)}: {error}\nnothing was changed") from error
    return done._replace(text=done.text.removeprefix(mark))
