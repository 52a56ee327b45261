"""``multi_edit``: all edits or none, one after another, and which one could not be made."""

import tracemalloc
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import Refused, ToolContext, ToolResult
from unspool.tools.files.multi_edit import TextEdit, edit_all, multi_edit_tool
from unspool.tools.files.saving import sha256
from unspool.tools.files.workspace import Workspace

Edit = FunctionTool[..., ToolResult]
pytestmark = pytest.mark.anyio


@pytest.fixture
def edit(root: Path) -> Edit:
    return multi_edit_tool(Workspace(root, read_before_write=False))


def edits(*pairs: tuple[str, str] | tuple[str, str, bool]) -> list[dict[str, Any]]:
    names = ("old_string", "new_string", "replace_all")
    return [dict(zip(names, pair, strict=False)) for pair in pairs]


CASES: dict[str, tuple[bytes, list[dict[str, Any]], bytes | str]] = {
    "one": (b"a\n", edits(("a", "b")), b"b\n"),
    "several": (b"a\r\nb\r\nc\r\n", edits(("c", "z"), ("a", "x\ny")), b"x\r\ny\r\nb\r\nz\r\n"),
    "one in what the one before made": (b"a\n", edits(("a", "b"), ("b", "c")), b"c\n"),
    "everywhere": (b"a a b", edits(("a", "b", True), ("b", "c", True)), b"c c c"),
    "none": (b"a\n", [], "edits has 0 entries: give 1 to 200"),
    "the second is not there": (
        b"a\nb\n",
        edits(("a", "x"), ("zzz", "y")),
        (
            "edit 2 of 2 (in the text after edit 1): old_string was not found, nor anything like it: read the file again "
            "and copy the text exactly; nothing was changed"
        ),
    ),
    "the first is not unique": (b"a\na\n", edits(("a", "x"), ("b", "y")), "edit 1 of 2: Found 2 occurrences"),
    "the second finds what the first made unclear": (
        b"a\nb\n",
        edits(("a", "b"), ("b", "c")),
        "edit 2 of 2 (in the ",
    ),
    "empty old text": (
        b"a\n",
        edits(("a", "b"), ("", "x")),
        "edit 2 of 2 (in the text after edit 1): old_string is empty",
    ),
    "there and back": (b"a\n", edits(("a", "b"), ("b", "a")), "the edits together change nothing"),
}


@pytest.mark.parametrize(("before", "given", "after"), CASES.values(), ids=CASES)
async def test_bytes(
    root: Path,
    read_all: Callable[[], Workspace],
    ctx: ToolContext,
    before: bytes,
    given: list[dict[str, Any]],
    after: bytes | str,
) -> None:
    """The same from ``validate`` and ``execute``; where ``after`` is a text it is in the error."""
    path = root / "f"
    path.write_bytes(before)
    edit = multi_edit_tool(read_all())
    args = {"path": "f", "edits": given}
    assert edit.check_arguments(args) == ()
    assert edit.validate is not None
    refused = await edit.validate(args, ctx)
    if isinstance(after, bytes):
        assert refused is None
        assert path.read_bytes() == before
        await edit.execute(args, ctx)
        assert path.read_bytes() == after
        return
    assert isinstance(refused, Refused)
    with pytest.raises(ToolError) as caught:
        await edit.execute(args, ctx)
    assert after in str(caught.value)
    assert str(caught.value) == refused.message
    assert path.read_bytes() == before


async def test_what_is_said_and_shown(root: Path, edit: Edit, ctx: ToolContext) -> None:
    (root / "f").write_text("a\n‘b’\n")
    args = {"path": "f", "edits": edits(("a", "x"), ("'b'", "y"))}
    diff = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n-‘b’\n+x\n+y"
    assert edit.preview is not None
    assert await edit.preview(args, ctx) == {"text": diff, "path": "f", "matchers": ["exact", "fuzzy"]}
    result = await edit.execute(args, ctx)
    assert isinstance(result, ToolResult)
    assert result.content == (
        "edited f: made 2 edits\n[edit 2: not an exact match: old_string fits apart from blanks at line ends, or "
        "quotes, dashes, spaces and other characters that look alike. Replaced: ‘b’]\n" + diff
    )
    assert result.details == {
        "file": {"path": "f", "sha256": sha256(b"x\ny\n"), "partial": False},
        "diff": diff,
        "first_changed_line": 1,
        "matchers": ["exact", "fuzzy"],
        "replacements": [1, 1],
    }


async def test_no_file(edit: Edit, ctx: ToolContext) -> None:
    assert edit.validate is not None
    refused = await edit.validate({"path": "f", "edits": edits(("a", "b"))}, ctx)
    assert refused == Refused("there is no f")


async def test_many_edits_of_a_large_file_take_no_copy_each() -> None:
    text = "".join(f"value_{number} = 0\n" for number in range(100_000))
    given = [TextEdit(f"value_{number} = 0\n", f"value_{number} = 1\n") for number in range(40)]
    tracemalloc.start()
    try:
        edit_all(text, given)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(text)
    finally:
        tracemalloc.stop()


async def test_a_cancel_is_noticed_between_edits() -> None:
    looks = count(1)
    with pytest.raises(ToolError, match="cancelled: nothing was changed"):
        edit_all(
            "a b c", [TextEdit("a", "x"), TextEdit("b", "y"), TextEdit("c", "z")], lambda: next(looks) == 2
        )
    assert next(looks) == 3
