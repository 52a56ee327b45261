"""Open buffers of a host: the tools see and change what is in them instead of what is on the disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import Refused, ToolContext
from unspool.tools.files import grep
from unspool.tools.files.apply_patch import apply_patch_tool
from unspool.tools.files.buffers import Buffer
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.multi_edit import TextEdit, multi_edit_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.saving import MAX_FILE, sha256
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

Agent = Callable[..., ToolContext]
MEANWHILE = "f was changed by somebody else just now: read it again"


class Editor:
    """A host with buffers; each change gives them a new version."""

    def __init__(self, **texts: str) -> None:
        self.open = {path: Buffer(text.encode(), "v1") for path, text in texts.items()}
        self.asked: list[str] = []
        self.before_write: Callable[[], object] = lambda: None

    def paths(self) -> list[str]:
        return list(self.open)

    def read(self, path: str) -> Buffer | None:
        self.asked.append(path)
        return self.open.get(path)

    def write(self, path: str, data: bytes, over: Buffer) -> Buffer | None:
        self.before_write()
        if path not in self.open:
            return None
        if self.open[path] != over:
            raise ToolError("somebody is typing: try again")
        return self.type(path, data.decode())

    def type(self, path: str | Path, text: str) -> Buffer:
        """What a person does."""
        old = self.open.get(str(path))
        version = f"v{int(old.version[1:]) + 1 if old else 1}"
        self.open[str(path)] = Buffer(text.encode(), version)
        return self.open[str(path)]

    def text(self, path: str | Path) -> str:
        return self.open[str(path)].data.decode()


@pytest.fixture
def editor(root: Path) -> Editor:
    """Has ``f`` open with the text ``typed``; on the disk it is ``saved``."""
    (root / "f").write_text("saved\n")
    (root / "g").write_text("other\n")
    editor = Editor()
    editor.type(root / "f", "typed\n")
    return editor


@pytest.fixture
def workspace(root: Path, editor: Editor) -> Workspace:
    return Workspace(root, buffers=editor)


@pytest.fixture
def read(workspace: Workspace, ctx: ToolContext) -> Callable[..., str]:
    tool = read_file_tool(workspace)

    def run(path: str, **args: Any) -> str:
        result = tool(path, ctx, **args)
        return str(result if isinstance(result, str) else result.content)

    return run


Read = Callable[..., str]


def refusal(workspace: Workspace, path: str, ctx: ToolContext) -> Refused | None:
    return workspace.check(path, ctx, must_exist=False)


# --- what is read ------------------------------------------------------------------------------


def test_what_is_read_is_the_buffer(root: Path, editor: Editor, workspace: Workspace, read: Read) -> None:
    (root / "link").symlink_to("f")
    assert "1\ttyped" in read("f")
    assert "1\ttyped" in read("link") and "1\ttyped" in read(f"{root}/./f")
    assert "1\tother" in read("g")
    editor.open.clear()
    assert "1\tsaved" in read("f")


def test_a_new_file_that_was_never_saved(root: Path, editor: Editor, read: Read) -> None:
    editor.type(root / "new" / "n", "unsaved\n")
    assert "1\tunsaved" in read("new/n")
    with pytest.raises(ToolError, match="there is no new/m"):
        read("new/m")
    assert not (root / "new").exists()


def test_the_host_is_asked_only_for_what_is_in_the_roots(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (root / "out").symlink_to(outside)
    (root / "out_file").symlink_to("../outside/f")
    (root / "out_new").symlink_to("../outside/new")
    for name in ("f", "new"):
        editor.type(outside / name, "canary")
    for path in ("out/f", "out_file", "out_new", "../outside/f", f"{outside}/f", "out/new"):
        with pytest.raises(ToolError, match="is outside the root directory"):
            read(path)
        with pytest.raises(ToolError, match="is outside"), workspace.changing(path, ctx, create=True):
            pass
        assert "is outside" in str(refusal(workspace, path, ctx))
    assert workspace.buffers_below(".") == {"f": b"typed\n"}
    assert {os.path.dirname(path) for path in editor.asked} <= {str(root)}


def test_a_buffer_may_be_too_large(
    root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext
) -> None:
    editor.open[f"{root}/f"] = Buffer(b"x" * (MAX_FILE + 1))
    with pytest.raises(ToolError, match="f is too large to be changed"), workspace.changing("f", ctx):
        pass


GREP = {
    "typed": "f:1:typed",
    "saved": "no line matches saved in .",
    "other": "g:1:other",
    "canary": "no line matches canary in .",
}


@pytest.mark.parametrize("few", [0, 300])  # with and without ripgrep
@pytest.mark.parametrize(("pattern", "found"), GREP.items())
def test_grep_searches_the_buffers(
    root: Path,
    editor: Editor,
    workspace: Workspace,
    ctx: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    pattern: str,
    found: str,
) -> None:
    monkeypatch.setattr(grep, "FEW", few)
    tool = grep_tool(workspace)
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("")
    editor.type(root / "ignored", "canary\n")
    assert tool(pattern, ctx) == f"{found}\n[left out: ignored]"
    assert tool(pattern, ctx, path="f") == (
        found if found.startswith("f:") else f"no line matches {pattern} in f"
    )


def test_grep_below_a_directory(root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "d" / "e").mkdir(parents=True)
    (root / "link").symlink_to("d")
    for name in ("d/e/f", "d/large"):
        (root / name).write_text("typed\n")
    editor.type(root / "d" / "e" / "f", "new\n")
    os.truncate(root / "d" / "large", grep.MAX_FILE + 1)
    editor.type(root / "d" / "large", "new\n")
    tool = grep_tool(workspace)
    assert tool("new", ctx, path="d") == "d/e/f:1:new\nd/large:1:new"
    assert tool("new", ctx, path="link/e") == "link/e/f:1:new"
    editor.open[f"{root}/d/e/f"] = Buffer(b"\0new\n")
    assert tool("new", ctx, path="d/e") == "no line matches new in d/e"


# --- what is changed ---------------------------------------------------------------------------


def test_edits_go_to_the_buffer(  # T147
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    editor.type(root / "f", "alpha\n")
    read("f")
    edit_file_tool(workspace)("f", "alpha", "beta", ctx)
    assert (editor.text(root / "f"), (root / "f").read_text()) == ("beta\n", "saved\n")
    multi_edit_tool(workspace)("f", [TextEdit("beta", "gamma")], ctx)
    patch = "*** Begin Patch\n*** Update File: f\n@@\n-gamma\n+delta\n*** End Patch"
    result = apply_patch_tool(workspace)(patch, ctx)
    assert editor.text(root / "f") == "delta\n"
    assert result.details["files"] == [{"path": "f", "sha256": sha256(b"delta\n"), "partial": False}]
    write_file_tool(workspace)("f", "epsilon\n", ctx)
    assert editor.text(root / "f") == "epsilon\n"
    assert (root / "f").read_text() == "saved\n"
    assert sorted(os.listdir(root)) == ["f", "g"]


def test_a_new_file_in_a_buffer_is_written_there(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    editor.type(root / "new" / "n", "unsaved\n")
    with pytest.raises(ToolError, match="new/n exists and you have not read it"):
        write_file_tool(workspace)("new/n", "x", ctx)
    read("new/n")
    write_file_tool(workspace)("new/n", "x", ctx)
    assert editor.text(root / "new" / "n") == "x"
    assert not (root / "new").exists()


def test_files_without_a_buffer_go_to_the_disk(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    read("g")
    for path in ("g", "new"):
        write_file_tool(workspace)(path, "x", ctx)
        assert (root / path).read_text() == "x"
    assert list(editor.open) == [f"{root}/f"]


def test_encoding_and_mark_are_kept(
    root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext
) -> None:
    data = b"\xef\xbb\xbfa\r\n"
    editor.open[f"{root}/f"] = Buffer(data, "v1")
    workspace.saw("f", sha256(data), partial=False, ctx=ctx)
    with workspace.changing("f", ctx) as change:
        assert (change.text, change.newline, change.names) == ("a\r\n", "\r\n", 0)
        change.write("b\r\n")
        assert change.text == "b\r\n"
    assert editor.open[f"{root}/f"].data == b"\xef\xbb\xbfb\r\n"


# --- read before written -----------------------------------------------------------------------


def test_the_version_counts(  # T145, T146
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    assert refusal(workspace, "f", ctx) == Refused("f exists and you have not read it: read it first", 2)
    read("f")
    assert refusal(workspace, "f", ctx) is None  # T146
    editor.type(root / "f", "typed\n")  # T145: the same text, another version
    assert refusal(workspace, "f", ctx) == Refused("f changed since you read it: read it again", 3)
    read("f")
    write_file_tool(workspace)("f", "one\n", ctx)
    write_file_tool(workspace)("f", "two\n", ctx)  # an agent knows what it wrote
    assert editor.open[f"{root}/f"] == Buffer(b"two\n", "v4")


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (Buffer(b"a"), Buffer(b"a"), None),
        (Buffer(b"a"), Buffer(b"b"), 3),
        (Buffer(b"a", "1"), Buffer(b"a", "2"), 3),
        (Buffer(b"a", "1"), Buffer(b"b", "1"), 3),  # a host that counts wrong
        (Buffer(b"a", "1"), Buffer(b"a"), None),
        (Buffer(b"a", "1"), None, 3),  # closed, not saved
        (Buffer(b"saved\n", "1"), None, None),  # saved and closed
        (None, Buffer(b"saved\n", "1"), None),  # opened since
        (None, Buffer(b"a", "1"), 3),
    ],
)
def test_what_is_a_change(
    root: Path,
    editor: Editor,
    workspace: Workspace,
    ctx: ToolContext,
    before: Buffer | None,
    after: Buffer | None,
    code: int | None,
) -> None:
    def put(buffer: Buffer | None) -> None:
        editor.open = {} if buffer is None else {f"{root}/f": buffer}

    put(before)
    data = before.data if before else b"saved\n"
    workspace.saw("f", sha256(data), partial=False, ctx=ctx)
    put(after)
    refused = refusal(workspace, "f", ctx)
    assert (refused and refused.code) == code


def test_typed_in_while_it_is_changed(
    root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext
) -> None:
    workspace.saw("f", sha256(b"typed\n"), partial=False, ctx=ctx)
    with workspace.changing("f", ctx) as change:
        editor.type(root / "f", "more\n")
        for act in (lambda: change.write("x"), change.delete, lambda: change.move_to("h")):
            with pytest.raises(ToolError, match=MEANWHILE):
                act()
    assert (editor.text(root / "f"), (root / "f").read_text()) == ("more\n", "saved\n")


def test_typed_in_at_the_last_moment(
    root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext
) -> None:
    workspace.saw("f", sha256(b"typed\n"), partial=False, ctx=ctx)
    editor.before_write = lambda: editor.type(root / "f", "more\n")
    with workspace.changing("f", ctx) as change, pytest.raises(ToolError, match="somebody is typing"):
        change.write("x")
    assert editor.text(root / "f") == "more\n"


@pytest.mark.parametrize(("saved", "said", "left"), [("typed\n", "", "x"), ("saved\n", MEANWHILE, "saved\n")])
def test_closed_at_the_last_moment(
    root: Path, editor: Editor, workspace: Workspace, ctx: ToolContext, saved: str, said: str, left: str
) -> None:
    """The file on the disk is written, if what was in the buffer is there."""
    workspace.saw("f", sha256(b"typed\n"), partial=False, ctx=ctx)

    def close() -> None:
        (root / "f").write_text(saved)
        editor.open.clear()

    editor.before_write = close
    result = ""
    with workspace.changing("f", ctx) as change:
        try:
            change.write("x")
        except ToolError as error:
            result = str(error)
    assert (result, (root / "f").read_text()) == (said, left)


# --- deleted and moved -------------------------------------------------------------------------


def test_what_is_not_saved_is_not_taken_away(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    read("f")
    words = "f is open and not saved: it can't be moved or deleted before"
    with workspace.changing("f", ctx) as change:
        for act in (change.delete, lambda: change.move_to("h")):
            with pytest.raises(ToolError, match=words):
                act()
    (root / "f").write_text("typed\n")
    with workspace.changing("f", ctx) as change:
        change.move_to("h")
        editor.open.clear()  # as an editor does, which sees that the file is gone
        change.write("x")
    assert ((root / "h").read_text(), (root / "f").exists()) == ("x", False)


def test_nothing_is_moved_over_a_buffer(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    read("g")
    editor.type(root / "new", "unsaved\n")
    with (
        workspace.changing("g", ctx) as change,
        pytest.raises(ToolError, match="new exists: nothing was moved"),
    ):
        change.move_to("new")
    assert (root / "g").read_text() == "other\n"


def test_a_patch_that_fails_is_undone_in_buffers(
    root: Path, editor: Editor, workspace: Workspace, read: Read, ctx: ToolContext
) -> None:
    read("f")
    read("g")
    (root / "g").chmod(0o444)
    parts = ["*** Update File: f", "@@", "-typed", "+x", "*** Update File: g", "@@", "-other", "+y"]
    with pytest.raises(ToolError, match="nothing was changed"):
        apply_patch_tool(workspace)("\n".join(["*** Begin Patch", *parts, "*** End Patch"]), ctx)
    assert (editor.text(root / "f"), (root / "g").read_text()) == ("typed\n", "other\n")
