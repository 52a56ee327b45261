"""``list_dir``: what is in a directory, some levels deep."""

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_OUTPUT, MAX_RESULT, render, shown, shown_list, size_text

from .root import Entry, Roots
from .sweep import IGNORED

MAX_ENTRIES = 500
MAX_DEPTH = 5
MAX_READ = 2000  # entries shown at once by ``read_file``


def list_dir_tool(root: Roots) -> FunctionTool[..., str]:
    """The tool ``list_dir`` on ``root``."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT)
    def list_dir(ctx: ToolContext, path: str = ".", depth: int = 1) -> str:
        """List a directory: one path a line, directories end in /, files have their size.

        Args:
            path: the directory, relative to the root directory
            depth: how many levels to list, 1 to 5
        """
        levels = min(max(depth, 1), MAX_DEPTH)
        found: dict[str, Entry] = {}
        ignored: list[str] = []
        more = False
        for entry in root.at(ctx).walk(path, depth=levels, ignore=IGNORED, stop=lambda: ctx.cancelled):
            if entry.kind == "ignored":
                ignored.append(entry.path)
            elif entry.path in found or len(found) < MAX_ENTRIES:
                found[entry.path] = entry
            else:
                more = True
                break
        lines = [_line(entry) for entry in sorted(found.values(), key=_tree_order)]
        return render(lines, _notes(len(lines), ignored, more))

    return list_dir


def read_dir(root: Roots, path: str, ctx: ToolContext, first: int, limit: int) -> str:
    """What is in a directory, as ``list_dir`` shows it: entries from ``first`` on, at most ``limit``.

    Raises:
        ToolError: there are fewer, or the call was cancelled.
    """
    entries = list(root.walk(path, depth=1, stop=lambda: ctx.cancelled))
    total = len(entries)
    if not total:
        return "[the directory is empty]"
    if first > total:
        raise ToolError(f"offset {first} is past the end: the directory has {_entries_text(total)}")
    limit = min(limit, MAX_READ) if limit > 0 else MAX_READ
    lines: list[str] = []
    size = 0
    for entry in entries[first - 1 : first - 1 + limit]:
        lines.append(_line(entry))
        size += len(lines[-1].encode()) + 1
        if size >= MAX_OUTPUT:
            break
    last = first + len(lines) - 1
    if last < total:
        note = f"entries {first}-{last} of {total}; next: offset={last + 1}"
    else:
        note = f"end of the directory: {_entries_text(total)}"
    return "\n".join([*lines, f"[{note}]"])


def _entries_text(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _tree_order(entry: Entry) -> list[tuple[str, str]]:
    return [(name.casefold(), name) for name in entry.path.split("/")]


def _line(entry: Entry) -> str:
    name = shown(entry.path)
    match entry.kind:
        case "file":
            return f"{name}  {size_text(entry.size)}"
        case "dir":
            return f"{name}/"
        case "unreadable":
            return f"{name}/  (not readable)"
        case "link":
            return f"{name}  (link)"
        case _:
            return f"{name}  (pipe, device or socket)"


def _notes(count: int, ignored: list[str], more: bool) -> list[str]:
    notes = []
    if not count:
        notes.append("nothing to list" if ignored else "the directory is empty")
    if more:
        notes.append(f"the first {MAX_ENTRIES} entries; there are more: list a directory below, or less deep")
    if ignored:
        notes.append(f"left out: {shown_list([f'{path}/' for path in ignored], 5)}")
    return notes
