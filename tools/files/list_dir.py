"""``list_dir``: what is in a directory, some levels deep."""

from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_RESULT, render, shown, shown_list, size_text

from .root import Entry, Root
from .sweep import IGNORED

MAX_ENTRIES = 500
MAX_DEPTH = 5


def list_dir_tool(root: Root) -> FunctionTool[..., str]:
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
        for entry in root.walk(path, depth=levels, ignore=IGNORED, stop=lambda: ctx.cancelled):
            if entry.kind == "ignored":
                ignored.append(entry.path)
            elif entry.path in found or len(found) < MAX_ENTRIES:
                found[entry.path] = entry
            else:
                more = True
                break
        lines = [_line(entry, path) for entry in sorted(found.values(), key=_tree_order)]
        return render(lines, _notes(len(lines), ignored, more))

    return list_dir


def _tree_order(entry: Entry) -> list[tuple[str, str]]:
    return [(name.casefold(), name) for name in entry.path.split("/")]


def _line(entry: Entry, start: str) -> str:
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
