"""``write_file``: exact bytes before and after, what a file keeps, and what is said of it."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import Previews, Refused, ToolContext, ToolResult, Validates
from unspool.tools.files.saving import sha256
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

Agent = Callable[..., ToolContext]
BOM = b"\xef\xbb\xbf"


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@pytest.fixture
def write(workspace: Workspace) -> FunctionTool[..., ToolResult]:
    return write_file_tool(workspace)


@pytest.fixture
def read(workspace: Workspace, ctx: ToolContext) -> Callable[[str], None]:
    """Lets the agent have read a file."""

    def saw(path: str) -> None:
        with workspace.open_file(path) as file:
            workspace.saw(path, sha256(file.read()), partial=False, ctx=ctx)

    return saw


# --- bytes: byte order marks as in B192, what is no text as in B200 ------------------------------

BYTES: dict[str, tuple[bytes | None, str, bytes, str]] = {
    "new": (None, "a\nb\n", b"a\nb\n", "created f: 4 bytes"),
    "new, empty": (None, "", b"", "created f: 0 bytes"),
    "new, one byte": (None, "a", b"a", "created f: 1 byte"),
    "new, not ASCII": (None, "é€😀", "é€😀".encode(), "created f: 9 bytes"),
    "new, CRLF as given": (None, "a\r\nb", b"a\r\nb", "created f: 4 bytes"),
    "new, with a mark as given": (None, "\ufeffa", BOM + b"a", "created f: 4 bytes"),
    "over": (b"old\n", "new\n", b"new\n", "overwrote f: 4 bytes"),
    "over an empty one": (b"", "new\n", b"new\n", "overwrote f: 4 bytes"),
    "emptied": (b"old\n", "", b"", "overwrote f: 0 bytes"),
    "the same": (b"old\n", "old\n", b"old\n", "overwrote f: 4 bytes"),
    "CRLF kept": (
        b"a\r\nb\r\n",
        "c\nd\n",
        b"c\r\nd\r\n",
        "overwrote f: 6 bytes\n[its CRLF newlines were kept]",
    ),
    "CRLF given for CRLF": (b"a\r\n", "c\r\nd\r\n", b"c\r\nd\r\n", "overwrote f: 6 bytes"),
    "both given for CRLF": (b"a\r\n", "c\r\nd\n", b"c\r\nd\n", "overwrote f: 5 bytes"),
    "CRLF given for LF": (b"a\n", "c\r\n", b"c\r\n", "overwrote f: 3 bytes"),
    "LF over mixed newlines": (b"a\r\nb\n", "c\n", b"c\n", "overwrote f: 2 bytes"),
    "LF over CR": (b"a\rb\r", "c\n", b"c\n", "overwrote f: 2 bytes"),
    "LF over CRLF and CR": (b"a\r\nb\r", "c\n", b"c\n", "overwrote f: 2 bytes"),
    "one line over CRLF": (b"a\r\n", "c", b"c", "overwrote f: 1 byte"),
    "mark kept": (
        BOM + b"a\n",
        "b\n",
        BOM + b"b\n",
        "overwrote f: 5 bytes\n[its byte order mark was kept (UTF-8)]",
    ),
    "mark not doubled": (
        BOM + b"a\n",
        "\ufeffb\n",
        BOM + b"b\n",
        "overwrote f: 5 bytes\n[its byte order mark was kept (UTF-8)]",
    ),
    "mark in the middle": (
        BOM + b"a\n",
        "b\ufeffc",
        BOM + b"b" + BOM + b"c",
        "overwrote f: 8 bytes\n[its byte order mark was kept (UTF-8)]",
    ),
    "mark and CRLF": (
        BOM + b"a\r\n",
        "b\n",
        BOM + b"b\r\n",
        "overwrote f: 6 bytes\n[its CRLF newlines were kept]\n[its byte order mark was kept (UTF-8)]",
    ),
    "UTF-16": (
        b"\xff\xfe" + "aé\n".encode("utf-16-le"),
        "b€\n",
        b"\xff\xfe" + "b€\n".encode("utf-16-le"),
        "overwrote f: 8 bytes\n[its byte order mark was kept (UTF-16-LE)]",
    ),
    "UTF-16, the other end first": (
        b"\xfe\xff" + "a\r\n".encode("utf-16-be"),
        "b\n",
        b"\xfe\xff" + "b\r\n".encode("utf-16-be"),
        "overwrote f: 8 bytes\n[its CRLF newlines were kept]\n[its byte order mark was kept (UTF-16-BE)]",
    ),
    "UTF-32": (
        b"\xff\xfe\0\0" + "a".encode("utf-32-le"),
        "b",
        b"\xff\xfe\0\0" + "b".encode("utf-32-le"),
        "overwrote f: 8 bytes\n[its byte order mark was kept (UTF-32-LE)]",
    ),
    "Latin-1": (
        b"caf\xe9\n",
        "é\n",
        "é\n".encode(),
        "overwrote f: 3 bytes\n[it was not all UTF-8, now it is]",
    ),
}


@pytest.mark.parametrize(("before", "content", "after", "said"), BYTES.values(), ids=BYTES)
def test_bytes(
    root: Path,
    write: FunctionTool[..., ToolResult],
    read: Callable[[str], None],
    ctx: ToolContext,
    before: bytes | None,
    content: str,
    after: bytes,
    said: str,
) -> None:
    if before is not None:
        (root / "f").write_bytes(before)
        read("f")
    result = write("f", content, ctx)
    assert ((root / "f").read_bytes(), result.content) == (after, said)
    assert result.details["file"] == {"path": "f", "sha256": sha256(after), "partial": False}
    assert (result.details["created"], result.details["bytes"]) == (before is None, len(after))
    assert os.listdir(root) == ["f"]


REFUSED: dict[str, tuple[bytes, str, str]] = {
    "binary": (b"\x7fELF\0\0", "a", "f is a binary file, not text"),
    "binary after 10 KB of text": (b"text\n" * 2000 + b"\0", "a", "f is a binary file, not text"),
    "UTF-16 with half a character": (b"\xff\xfea\0b", "a", "f begins like UTF-16 text and is not valid"),
    "UTF-16 with half a pair": (b"\xff\xfe\0\xd8", "a", "f begins like UTF-16 text and is not valid"),
    "UTF-32 beyond Unicode": (b"\0\0\xfe\xff\x7f\0\0\0", "a", "f begins like UTF-32 text and is not valid"),
    "NULs in UTF-16": (b"\xff\xfea\0\0\0", "a", "f is a binary file, not text"),
    "what could not be read again": (
        b"old",
        "a\0",
        "the text can't be stored: it has a NUL, or many control characters, and would be taken for binary",
    ),
    "what could not be read again, UTF-16": (
        b"\xff\xfea\0",
        "a\0",
        "the text can't be stored: it has a NUL, or many control characters, and would be taken for binary",
    ),
    "mostly control characters": (
        b"old",
        "\x01\x02a",
        "the text can't be stored: it has a NUL, or many control characters, and would be taken for binary",
    ),
    "half a pair": (b"old", "a\ud800", "the text can't be stored: U+D800 is half a surrogate pair"),
    "half a pair for UTF-16": (
        b"\xff\xfea\0",
        "\udc80",
        "the text can't be stored: U+DC80 is half a surrogate pair",
    ),
}


@pytest.mark.parametrize(("before", "content", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(
    root: Path,
    write: FunctionTool[..., ToolResult],
    read: Callable[[str], None],
    ctx: ToolContext,
    before: bytes,
    content: str,
    said: str,
) -> None:
    (root / "f").write_bytes(before)
    read("f")
    with pytest.raises(ToolError) as caught:
        write("f", content, ctx)
    assert str(caught.value) == said
    assert (root / "f").read_bytes() == before
    assert os.listdir(root) == ["f"]


def test_huge_files(
    root: Path,
    write: FunctionTool[..., ToolResult],
    workspace: Workspace,
    ctx: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(root / "sparse", "wb") as file:
        file.truncate(2 << 30)  # read whole it would not fit
    refused = workspace.check("sparse", ctx, must_exist=False)
    assert refused == Refused("sparse is too large to be changed: over 64.0 MB")
    with pytest.raises(ToolError, match="too large to be changed"):
        write("sparse", "a", ctx)
    assert (root / "sparse").stat().st_size == 2 << 30
    monkeypatch.setattr("unspool.tools.files.change.MAX_FILE", 10)
    with pytest.raises(ToolError, match="the text is too large: 11 B of at most 10 B"):
        write("new", "x" * 11, ctx)
    assert not (root / "new").exists()


# --- what a file keeps -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755, 0o666, 0o222])
def test_mode_bits(
    root: Path,
    write: FunctionTool[..., ToolResult],
    read: Callable[[str], None],
    ctx: ToolContext,
    mode: int,
) -> None:
    if mode == 0o222 and os.geteuid() != 0:
        pytest.skip("only root may read what nobody may read")
    (root / "f").write_text("old")
    (root / "f").chmod(mode)
    read("f")
    write("f", "new", ctx)
    assert stat.S_IMODE((root / "f").stat().st_mode) == mode & 0o777


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_new_files_and_directories_heed_the_umask(
    root: Path, write: FunctionTool[..., ToolResult], ctx: ToolContext
) -> None:
    write("a/b/f", "new", ctx)
    modes = [stat.S_IMODE((root / path).stat().st_mode) for path in ("a", "a/b", "a/b/f")]
    assert modes == [0o750, 0o750, 0o640]


def test_a_read_only_file(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root / "f").write_text("old")
    (root / "f").chmod(0o444)
    read("f")
    with pytest.raises(ToolError, match=r"f is read-only \(mode 0444\): nothing was changed"):
        write("f", "new", ctx)
    assert (root / "f").read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root / "f").write_text("old")
    os.chown(root / "f", 1234, 4321)
    read("f")
    write("f", "new", ctx)
    assert ((root / "f").stat().st_uid, (root / "f").stat().st_gid) == (1234, 4321)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes")
def test_attributes(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root / "f").write_text("old")
    try:
        os.setxattr(root / "f", "user.note", b"kept")
    except OSError:
        pytest.skip("not on this file system")
    read("f")
    write("f", "new", ctx)
    assert os.getxattr(root / "f", "user.note") == b"kept"


def test_a_shared_file_becomes_one_of_its_own(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root.parent / "outside").write_text("old")
    os.link(root.parent / "outside", root / "f")
    read("f")
    result = write("f", "new", ctx)
    assert str(result.content).endswith("[it had 2 names (hard links): the others keep the old text]")
    assert ((root / "f").read_text(), (root.parent / "outside").read_text()) == ("new", "old")


def test_a_link_stays_and_its_target_is_written(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root / "real").mkdir()
    (root / "real" / "f").write_text("old")
    (root / "link").symlink_to("real/f")
    (root / "dangling").symlink_to("real/deep/new")
    read("link")
    assert write("link", "new", ctx).content == "overwrote real/f: 3 bytes"
    assert write("dangling", "new", ctx).content == "created real/deep/new: 3 bytes"
    assert (root / "link").is_symlink() and (root / "dangling").is_symlink()
    assert (root / "real" / "f").read_text() == (root / "real" / "deep" / "new").read_text() == "new"


# --- whole or not at all -----------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "fchmod", "rename"])
def test_a_write_that_fails_changes_nothing(
    root: Path,
    write: FunctionTool[..., ToolResult],
    read: Callable[[str], None],
    ctx: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    (root / "f").write_text("old")
    read("f")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(ToolError, match="f can't be changed: No space left on device"):
            write("f", "new", ctx)
    assert ((root / "f").read_text(), os.listdir(root)) == ("old", ["f"])
    write("f", "new", ctx)  # what was read still holds


def test_without_hard_links(
    root: Path,
    write: FunctionTool[..., ToolResult],
    workspace: Workspace,
    ctx: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    write("f", "new", ctx)
    with workspace.changing("f", ctx) as change:
        change.move_to("g")
    assert ((root / "g").read_text(), os.listdir(root)) == ("new", ["g"])


def test_between_file_systems(
    root: Path, workspace: Workspace, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    write_file_tool(workspace)("f", "new", ctx)
    monkeypatch.setattr(os, "link", fail)
    with workspace.changing("f", ctx) as change:
        with pytest.raises(ToolError, match="f can't be changed: Invalid cross-device link"):
            change.move_to("g")
        change.write("newer")  # it goes on where it was
    assert ((root / "f").read_text(), os.listdir(root)) == ("newer", ["f"])


# --- what is asked before, and shown -----------------------------------------------------------

pytestmark = pytest.mark.anyio


async def test_validate(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    (root / "dir").mkdir()
    (root / "f").write_text("old")
    os.mkfifo(root / "pipe")

    async def refusal(path: str) -> tuple[object, str]:
        validates: Any = write
        assert isinstance(write, Validates)
        refused = await validates.validate({"path": path, "content": ""}, ctx)
        return (refused.code, refused.message) if refused else (None, "")

    assert await refusal("new") == await refusal("deep/new") == (None, "")
    assert await refusal("dir") == (None, "dir is a directory, not a file")
    assert await refusal("new/") == (None, "new/ names a directory, not a file")
    assert await refusal("f/new") == (None, "f is not a directory")
    assert await refusal("../new") == (
        None,
        "../new is outside the root directory: give a path below it",
    )
    assert await refusal("pipe") == (
        None,
        "pipe is a pipe, device or socket: only regular files can be opened",
    )
    assert await refusal("f") == (2, "f exists and you have not read it: read it first")
    read("f")
    assert await refusal("f") == (None, "")
    (root / "f").write_text("odd")
    assert await refusal("f") == (3, "f changed since you read it: read it again")
    assert sorted(os.listdir(root)) == ["dir", "f", "pipe"]


async def test_preview(
    root: Path, write: FunctionTool[..., ToolResult], read: Callable[[str], None], ctx: ToolContext
) -> None:
    async def shown(path: str, content: str) -> str:
        previews: Any = write
        assert isinstance(write, Previews)
        return str((await previews.preview({"path": path, "content": content}, ctx))["text"])

    lines = [f"line {n}" for n in range(1, 31)]
    assert await shown("new", "a\nb\n") == "1 + a\n2 + b"
    assert await shown("new", "") == ""
    assert await shown("d/new", "\n".join(lines)) == "\n".join(
        [*(f"{n} + line {n}" for n in range(1, 13)), "… 18 more lines"]
    )
    assert await shown("new", "x" * 1000) == f"1 + {'x' * 196}…"
    (root / "f").write_text("\r\n".join(lines) + "\r\n")
    read("f")
    assert await shown("f", "\n".join(lines)) == "no line changes"
    assert await shown("f", "\n".join([*lines[:10], "other", *lines[11:]])) == (
        "@@ -8,7 +8,7 @@\n line 8\n line 9\n line 10\n-line 11\n+other\n line 12\n line 13\n line 14"
    )
    assert (await shown("f", "none")).splitlines()[-1] == "… 20 more lines"
    assert await shown("f", "x\n" * 5000) == "30 lines before, 5000 after: too many to compare"
    assert os.listdir(root) == ["f"]


def test_what_a_model_and_a_host_are_told(write: FunctionTool[..., ToolResult]) -> None:
    spec = write.spec
    assert (spec.name, spec.read_only, spec.concurrency_safe, spec.destructive) == (
        "write_file",
        False,
        None,
        True,
    )
    assert list(spec.schema["properties"]) == ["path", "content"]
    assert spec.description.startswith("Write a text file")


def test_a_directory_that_cannot_be_made(
    root: Path, write: FunctionTool[..., ToolResult], ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(ToolError, match=r"^d/f can't be opened: permission denied$"):
        write("d/f", "x", ctx)
