"""Ways out of a workspace, tried on every tool that takes a path: refused, and nothing outside is read or changed.

Beside them stand paths that look alike and are fine. Random trees and paths at the end.
"""

import contextlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import Refused, ToolContext
from unspool.tools.files.glob import glob_tool
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.list_dir import list_dir_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.saving import sha256
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

SECRET = "canary-5d1f"
OUTSIDE = "is outside the root directory"
MISSING = "there is no"
LOOP = "too many links"
SPECIAL = "is a pipe, device or socket"
NOT_DIR = "is not a directory"
IS_DIR = "directory"
HOME = "is not expanded"
TEXT = "not valid text"
LONG = "too long"
NUL = "NUL"

FILES = [
    "a.txt",
    "sub/b.txt",
    "sub/deep/c.txt",
    "..hidden",
    "a..b",
    "...",
    "-dash",
    " space ",
    "b\\c",
    "line\nbreak",
]
FILES += [
    "~x",
    "~/x",
    "%2e%2e",
    "Case.txt",
    "re\u0301sume\u0301.txt",
    "it\u2019s.txt",
    "10.15\u202fPM.png",
    "@at",
    "trail.",
]
FILES += ["me@home", "de\u0301/f.txt", "nbsp\u00a0name.txt"]
LINKS = {
    "link_dir": "sub",
    "link_file": "a.txt",
    "link_dot": ".",
    "link_abs": "{root}/sub/b.txt",
    "link_root": "{root}",
    "link_chain": "link_file",
    "link_through": "link_dir/deep/../b.txt",
    "sub/up": "../a.txt",
    "sub/deep/up": "../../a.txt",
    "dangling_in": "sub/new.txt",
    "dangling_deep": "sub/more/new.txt",
    "out_dir": "../outside",
    "out_file": "../outside/secret.txt",
    "out_new": "../outside/new.txt",
    "out_new_deep": "../outside/new/new.txt",
    "out_abs": "{outside}/secret.txt",
    "out_abs_new": "{outside}/new.txt",
    "out_abs_dir": "{outside}",
    "out_up": "..",
    "out_up_and_back": "../root/a.txt",
    "out_chain": "out_file",
    "out_chain_new": "out_new",
    "out_through": "link_dir/../../outside/secret.txt",
    "out_through_root": "link_root/../outside/secret.txt",
    "out_proc": "/proc/self/root",
    "out_proc_cwd": "/proc/self/cwd",
    "out_fd": "/dev/fd/0",
    "out_prefix": "{root}-but-longer/secret.txt",
    "out_dots": "{root}/../outside/secret.txt",
    "out_slashes": "//{outside}//secret.txt",
    "out_top": "/",
    "out_zero": "/dev/zero",
    "out_tty": "/dev/tty",
    "sub/deep/out": "../../../outside/secret.txt",
    "sub/deep/out_dir": "../../../outside",
    "re\u0301_out": "../outside/secret.txt",
    "it\u2019s_out": "../outside",
    "loop": "loop",
    "loop_a": "loop_b",
    "loop_b": "loop_a",
    "loop_grows": "loop_grows/x",
    "link_fifo": "fifo",
    "file_as_dir": "a.txt/../sub/b.txt",
    "dangling_back": "nothing/../a.txt",
} | {f"long{number}": f"long{number + 1}" if number < 44 else "a.txt" for number in range(45)}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A root full of temptations beside ``outside``, where a secret is."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    for place in (outside, tmp_path / "root-but-longer"):
        place.mkdir()
        (place / "secret.txt").write_text(SECRET)
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    for name, target in LINKS.items():
        (root / name).symlink_to(target.format(root=root, outside=outside))
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(root):
        server.bind("socket")
        yield root


def state_of(place: Path) -> dict[str, object]:
    """All there is in a directory: kinds, modes, times, contents."""
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_mode, info.st_ino, info.st_mtime_ns, info.st_nlink, content)
    return found


# What is refused to whoever reads and to whoever writes, and what is said.
ATTACKS: dict[str, tuple[str, str]] = {
    # up
    "parent": ("..", IS_DIR),
    "parent's file": ("../outside/secret.txt", OUTSIDE),
    "parent's new file": ("../new.txt", OUTSIDE),
    "parent, later": ("sub/../../outside/secret.txt", OUTSIDE),
    "parent, from deep": ("sub/deep/../../../outside/secret.txt", OUTSIDE),
    "parent after dots": ("./.././outside/secret.txt", OUTSIDE),
    "parent after slashes": (".//..//outside//secret.txt", OUTSIDE),
    "many parents": ("../" * 50 + "etc/passwd", OUTSIDE),
    "many parents, absolute": ("{root}/" + "../" * 50 + "etc/passwd", OUTSIDE),
    "out and back": ("../root/a.txt", OUTSIDE),
    "beside, with the same beginning": ("../root-but-longer/secret.txt", OUTSIDE),
    "up from a missing directory": ("nothing/../a.txt", MISSING),
    "up and out from a missing directory": ("nothing/../../outside/secret.txt", MISSING),
    "up from missing directories": ("no/no/../../../outside/new.txt", MISSING),
    "up from a file": ("a.txt/../../outside/secret.txt", NOT_DIR),
    "up from a file, staying": ("a.txt/../sub/b.txt", NOT_DIR),
    # absolute
    "absolute": ("/etc/passwd", OUTSIDE),
    "absolute, of the secret": ("{outside}/secret.txt", OUTSIDE),
    "absolute, new": ("{outside}/new.txt", OUTSIDE),
    "the top": ("/", OUTSIDE),
    "two slashes": ("//etc/passwd", OUTSIDE),
    "three slashes": ("///etc/passwd", OUTSIDE),
    "two slashes and the root": ("/{root}/../outside/secret.txt", OUTSIDE),
    "absolute beside": ("{root}-but-longer/secret.txt", OUTSIDE),
    "absolute and up": ("{root}/../outside/secret.txt", OUTSIDE),
    "absolute, in and up": ("{root}/sub/../../outside/secret.txt", OUTSIDE),
    "absolute, its parent": ("{root}/..", IS_DIR),
    "absolute in other case": ("{upper}/a.txt", OUTSIDE),
    "proc's root": ("/proc/self/root/etc/passwd", OUTSIDE),
    "proc's root and the way back": ("/proc/self/root{root}/a.txt", OUTSIDE),
    "proc of the thread": ("/proc/thread-self/root/etc/passwd", OUTSIDE),
    "proc's working directory": ("/proc/self/cwd/../outside/secret.txt", OUTSIDE),
    "proc's environment": ("/proc/self/environ", OUTSIDE),
    "proc's memory": ("/proc/self/mem", OUTSIDE),
    "descriptor": ("/dev/fd/0", OUTSIDE),
    "descriptor of proc": ("/proc/self/fd/0", OUTSIDE),
    "standard input": ("/dev/stdin", OUTSIDE),
    "device": ("/dev/zero", OUTSIDE),
    "terminal": ("/dev/tty", OUTSIDE),
    # links
    "link to a file": ("out_file", OUTSIDE),
    "link to a directory": ("out_dir/secret.txt", OUTSIDE),
    "link to a directory, new": ("out_dir/new.txt", OUTSIDE),
    "link to a directory, new and deep": ("out_dir/new/deep.txt", OUTSIDE),
    "link to a directory itself": ("out_dir", OUTSIDE),
    "link to nothing": ("out_new", OUTSIDE),
    "link to nothing in nothing": ("out_new_deep", OUTSIDE),
    "link to nothing as a directory": ("out_new/deep.txt", OUTSIDE),
    "absolute link": ("out_abs", OUTSIDE),
    "absolute link to nothing": ("out_abs_new", OUTSIDE),
    "absolute link to a directory": ("out_abs_dir/secret.txt", OUTSIDE),
    "link to the parent": ("out_up/outside/secret.txt", OUTSIDE),
    "link to the parent, new": ("out_up/new.txt", OUTSIDE),
    "link out and back": ("out_up_and_back", OUTSIDE),
    "link to the parent and back": ("out_up/root/a.txt", OUTSIDE),
    "link to a link": ("out_chain", OUTSIDE),
    "link to a link to nothing": ("out_chain_new", OUTSIDE),
    "link up from a link's target": ("out_through", OUTSIDE),
    "link up from the root": ("out_through_root", OUTSIDE),
    "link to proc's root": ("out_proc/etc/passwd", OUTSIDE),
    "link to proc's root and the way back": ("out_proc{root}/a.txt", OUTSIDE),
    "link to the working directory": ("out_proc_cwd/a.txt", OUTSIDE),
    "link to a descriptor": ("out_fd", OUTSIDE),
    "link beside": ("out_prefix", OUTSIDE),
    "absolute link and up": ("out_dots", OUTSIDE),
    "absolute link with slashes": ("out_slashes", OUTSIDE),
    "link to the top": ("out_top/etc/passwd", OUTSIDE),
    "link to a device": ("out_zero", OUTSIDE),
    "link to the terminal": ("out_tty", OUTSIDE),
    "link from deep": ("sub/deep/out", OUTSIDE),
    "link to a directory from deep": ("sub/deep/out_dir/new.txt", OUTSIDE),
    "link in, then out": ("link_dir/deep/out", OUTSIDE),
    "link in, then up": ("link_dir/../../outside/secret.txt", OUTSIDE),
    "link to here, many times, then up": ("link_dot/" * 9 + "../outside/secret.txt", OUTSIDE),
    "link to the root, then up": ("link_root/../outside/secret.txt", OUTSIDE),
    "link below a file": ("link_file/x", NOT_DIR),
    "link that names a file as a directory": ("file_as_dir", NOT_DIR),
    "link up from a missing directory": ("dangling_back", MISSING),
    "loop": ("loop", LOOP),
    "loop as a directory": ("loop/new.txt", LOOP),
    "loop of two": ("loop_a", LOOP),
    "loop that grows": ("loop_grows", LOOP),
    "41 links and more": ("long0", LOOP),
    # names that are looked for under other forms
    "mention of the parent": ("@../outside/secret.txt", OUTSIDE),
    "mention of a link": ("@out_file", OUTSIDE),
    "mention of a file outside": ("@{outside}/secret.txt", OUTSIDE),
    "mention of home": ("@~/.ssh/id_rsa", HOME),
    "mention below a link": ("@out_dir/secret.txt", OUTSIDE),
    "composed name of a link": ("r\u00e9_out", OUTSIDE),
    "straight quote of a link": ("it's_out/secret.txt", OUTSIDE),
    "straight quote of a link, new": ("it's_out/new.txt", OUTSIDE),
    "invisible space in a link's name": ("out_\u200bfile", OUTSIDE),
    "space after a link's name": ("out_dir /new.txt", OUTSIDE),
    # what is no path
    "home": ("~", HOME),
    "home's file": ("~/.ssh/id_rsa", HOME),
    "NUL": ("a.txt\0", NUL),
    "NUL before an end": ("../outside/secret.txt\0.md", NUL),
    "NUL inside": ("sub\0/../../outside/secret.txt", NUL),
    "lone surrogate": ("\ud800", TEXT),
    "lone surrogate in a directory": ("sub/\udfff/x", TEXT),
    "long": ("a/" * 3000, LONG),
    "long name": ("a" * 300, LONG),
    "long name, 255 characters of two bytes": ("é" * 255, LONG),
    "long name of a directory": ("b" * 300 + "/x", LONG),
    "long name further down": ("nothing/" + "c" * 300, LONG),
    # what is no file
    "pipe": ("fifo", SPECIAL),
    "link to a pipe": ("link_fifo", SPECIAL),
    "pipe as a directory": ("fifo/x", NOT_DIR),
    "socket": ("socket", SPECIAL),
    "file as a directory": ("a.txt/b", NOT_DIR),
}

# Paths that are fine, and what they name.
FINE: dict[str, tuple[str, str]] = {
    "plain": ("a.txt", "a.txt"),
    "below": ("sub/deep/c.txt", "sub/deep/c.txt"),
    "dot": ("./a.txt", "a.txt"),
    "dots": ("././sub/./b.txt", "sub/b.txt"),
    "slashes": ("sub//b.txt", "sub/b.txt"),
    "parent inside": ("sub/../a.txt", "a.txt"),
    "parents inside": ("sub/deep/../../a.txt", "a.txt"),
    "dots before a name": ("..hidden", "..hidden"),
    "dots within a name": ("a..b", "a..b"),
    "three dots": ("...", "..."),
    "dash": ("-dash", "-dash"),
    "spaces": (" space ", " space "),
    "backslash": ("b\\c", "b\\c"),
    "line break": ("line\nbreak", "line\nbreak"),
    "percent signs": ("%2e%2e", "%2e%2e"),
    "tilde before a name": ("~x", "~x"),
    "directory named ~": ("./~/x", "~/x"),
    "dot at the end": ("trail.", "trail."),
    "case": ("Case.txt", "Case.txt"),
    "at before a name": ("@at", "@at"),
    "at within a name": ("me@home", "me@home"),
    "absolute": ("{root}/a.txt", "a.txt"),
    "absolute with dots": ("{root}/sub/../a.txt", "a.txt"),
    "absolute by an alias of the root": ("{alias}/sub/b.txt", "sub/b.txt"),
    "link to a directory": ("link_dir/b.txt", "sub/b.txt"),
    "up from a link's target": ("link_dir/deep/../../a.txt", "a.txt"),
    "link to a file": ("link_file", "a.txt"),
    "link to here": ("link_dot/link_dot/a.txt", "a.txt"),
    "absolute link": ("link_abs", "sub/b.txt"),
    "link to the root": ("link_root/sub/b.txt", "sub/b.txt"),
    "link to a link": ("link_chain", "a.txt"),
    "link through a link": ("link_through", "sub/b.txt"),
    "link upwards": ("sub/up", "a.txt"),
    "link upwards from deep": ("sub/deep/up", "a.txt"),
    "40 links": ("long5", "a.txt"),
    "composed for decomposed": ("r\u00e9sum\u00e9.txt", "re\u0301sume\u0301.txt"),
    "decomposed": ("re\u0301sume\u0301.txt", "re\u0301sume\u0301.txt"),
    "composed directory": ("d\u00e9/f.txt", "de\u0301/f.txt"),
    "straight for curly quote": ("it's.txt", "it\u2019s.txt"),
    "plain for narrow space": ("10.15 PM.png", "10.15\u202fPM.png"),
    "plain for no-break space": ("nbsp name.txt", "nbsp\u00a0name.txt"),
    "space after a name": ("a.txt ", "a.txt"),
    "mention": ("@a.txt", "a.txt"),
    "mention below": ("@sub/b.txt", "sub/b.txt"),
    "absolute mention": ("@{root}/sub/b.txt", "sub/b.txt"),
    "composed mention": ("@r\u00e9sum\u00e9.txt", "re\u0301sume\u0301.txt"),
}

# New files where they belong, however odd their names look.
NEW: dict[str, tuple[str, str]] = {
    "plain": ("new.txt", "new.txt"),
    "directories": ("new/deep/new.txt", "new/deep/new.txt"),
    "absolute": ("{root}/new/new.txt", "new/new.txt"),
    "through a link": ("link_dir/new.txt", "sub/new.txt"),
    "link to nothing": ("dangling_in", "sub/new.txt"),
    "link to nothing in nothing": ("dangling_deep", "sub/more/new.txt"),
    "backslashes": ("..\\outside\\new.txt", "..\\outside\\new.txt"),
    "percent signs": ("%2E%2E/new.txt", "%2E%2E/new.txt"),
    "slash of another script": ("..\u2215outside\u2215new.txt", "..\u2215outside\u2215new.txt"),
    "wide dots": ("\uff0e\uff0e/new.txt", "\uff0e\uff0e/new.txt"),
    "two dots in one": ("\u2025/new.txt", "\u2025/new.txt"),
    "someone's home": ("~root/new.txt", "~root/new.txt"),
    "drive": ("C:\\new.txt", "C:\\new.txt"),
    "variable": ("$HOME/new.txt", "$HOME/new.txt"),
    "address": ("file:///new.txt", "file:/new.txt"),
    "scope of a package": ("@scope/pkg.json", "@scope/pkg.json"),
    "mention of a new file": ("@sub/new.txt", "sub/new.txt"),
    "other case": ("case.txt", "case.txt"),
    "composed directory": ("d\u00e9/new.txt", "de\u0301/new.txt"),
    "joined emoji": ("\U0001f469\u200d\U0001f4bb.txt", "\U0001f469\u200d\U0001f4bb.txt"),
    "dot at the end": ("a.txt.", "a.txt."),
    "two bytes, 127 times": ("é" * 127, "é" * 127),
}

# Refused only to whoever would write there.
NOT_MADE = {
    "directory": "sub",
    "link to a directory inside": "link_dir",
    "the root": "{root}",
    "the root, by nothing": "",
    "the root, by a dot": ".",
    "the root, from below": "sub/..",
    "slash at the end": "new/",
    "slash after a file": "a.txt/",
    "dot at the end": "new/.",
    "parent at the end": "new/..",
    "control character": "new\x1b[2K.txt",
    "line break": "new\nline.txt",
    "deleted": "new\x7f.txt",
    "direction": "new\u202etxt.exe",
    "nothing to be seen": "\u200b\u200b",
    "only spaces": "   ",
    "space at the end": "new.txt ",
    "space at the end of a directory": "new /f.txt",
    "mark": "\ufeffnew.txt",
    "bytes that are not text": "new\udcff.txt",
}


def test_how_many_there_are() -> None:
    assert len(ATTACKS) >= 80 and len(FINE) >= 30


def filled(path: str, root: Path) -> str:
    for name, value in (
        ("{root}", root),
        ("{outside}", root.parent / "outside"),
        ("{upper}", str(root).upper()),
        ("{alias}", root.parent / "alias"),
    ):
        path = path.replace(name, str(value))
    return path


def calls(workspace: Workspace, ctx: ToolContext) -> dict[str, Callable[[str], object]]:
    """All that takes a path: by name, and what it gives."""

    def change(path: str) -> None:
        with workspace.changing(path, ctx, create=True) as change:
            change.write("written")

    def move(path: str) -> None:
        with workspace.changing("a.txt", ctx) as change:
            change.move_to(path)

    def check(path: str) -> None:
        refused = workspace.check(path, ctx, must_exist=False)
        if isinstance(refused, Refused):
            raise ToolError(refused.message)

    write, read = write_file_tool(workspace), read_file_tool(workspace)  # type: ignore[arg-type,unused-ignore]
    return {
        "read": lambda path: read(path, ctx),
        "write": lambda path: write(path, "written", ctx),
        "check": check,
        "change": change,
        "move": move,
    }


@pytest.mark.parametrize(("path", "words"), ATTACKS.values(), ids=ATTACKS)
def test_attacks(tree: Path, ctx: ToolContext, path: str, words: str) -> None:
    path = filled(path, tree)
    workspace = Workspace(tree, read_before_write=False)
    before, outside = state_of(tree), state_of(tree.parent / "outside")
    for name, call in calls(workspace, ctx).items():
        with pytest.raises(ToolError) as caught:
            call(path)
        assert words in str(caught.value), name
        assert SECRET not in str(caught.value) and "\0" not in str(caught.value)
    assert state_of(tree) == before
    searches: list[Any] = [
        lambda: list_dir_tool(workspace)(ctx, path, 5),
        lambda: grep_tool(workspace)(SECRET[:6], ctx, path),
        lambda: glob_tool(workspace)("secret*", ctx, path),
    ]
    for search in searches:  # what is inside may be listed
        with contextlib.suppress(ToolError):
            assert SECRET not in search() and "secret.txt" not in search()
    with contextlib.suppress(ToolError):  # a link may be removed, what it leads to not
        workspace.delete(path, ctx)
    assert state_of(tree.parent / "outside") == outside


@pytest.mark.parametrize(("path", "real"), FINE.values(), ids=FINE)
def test_fine_paths(tree: Path, ctx: ToolContext, path: str, real: str) -> None:
    (tree.parent / "alias").symlink_to("root")
    path = filled(path, tree)
    workspace = Workspace(tree.parent / "alias", read_before_write=False)
    outside, names = state_of(tree.parent / "outside"), set(state_of(tree))
    with workspace.open_file(path) as file:
        assert file.read().decode() == real
    assert workspace.where(path) == f"{tree}/{real}"
    calls(workspace, ctx)["write"](path)
    assert (tree / real).read_text() == "written"
    assert set(state_of(tree)) == names  # nothing came beside it
    assert state_of(tree.parent / "outside") == outside


@pytest.mark.parametrize(("path", "real"), NEW.values(), ids=NEW)
def test_new_files(tree: Path, ctx: ToolContext, path: str, real: str) -> None:
    path = filled(path, tree)
    workspace = Workspace(tree)
    around = {name: state_of(tree.parent / name) for name in ("outside", "root-but-longer")}
    names = set(state_of(tree))
    with pytest.raises(ToolError, match=MISSING):
        calls(workspace, ctx)["read"](path)
    calls(workspace, ctx)["write"](path)
    assert (tree / real).read_text() == "written"
    assert [name for name in set(state_of(tree)) - names if Path(name).is_file()] == [f"{tree}/{real}"]
    assert around == {name: state_of(tree.parent / name) for name in around}


@pytest.mark.parametrize("path", NOT_MADE.values(), ids=NOT_MADE)
def test_names_that_are_not_made(tree: Path, ctx: ToolContext, path: str) -> None:
    workspace, before = Workspace(tree, read_before_write=False), state_of(tree)
    path = filled(path, tree)
    for name, call in calls(workspace, ctx).items():
        if name != "read":
            with pytest.raises(ToolError) as caught:
                call(path)
            assert not set(str(caught.value)) & {"\n", "\x1b", "\u202e", "\x7f"}
    assert state_of(tree) == before


def test_no_second_file_that_looks_the_same(root: Path, ctx: ToolContext) -> None:  # B196
    (root / "re\u0301sume\u0301.txt").write_text("old")
    workspace = Workspace(root)
    write, read = write_file_tool(workspace), calls(workspace, ctx)["read"]
    assert "old" in str(read("r\u00e9sum\u00e9.txt"))
    with pytest.raises(ToolError, match="you have not read it"):
        write_file_tool(Workspace(root))("r\u00e9sum\u00e9.txt", "new", ctx)
    with workspace.open_file("r\u00e9sum\u00e9.txt") as file:
        workspace.saw("r\u00e9sum\u00e9.txt", sha256(file.read()), partial=False, ctx=ctx)
    assert write("r\u00e9sum\u00e9.txt", "new", ctx).details["file"]["path"] == "re\u0301sume\u0301.txt"
    assert [path.read_text() for path in root.iterdir()] == ["new"]
    (root / "r\u00e9sume\u0301.txt").write_text("another")
    with pytest.raises(ToolError, match=r"several names look like it: '.*\\u0301.*', '"):
        write("r\u00e9sum\u00e9.txt", "x", ctx)


def test_a_name_that_is_not_text_is_found_as_it_is_shown(root: Path, ctx: ToolContext) -> None:
    (root / os.fsdecode(b"caf\xe9")).write_text("old")
    workspace = Workspace(root, read_before_write=False)
    assert "old" in str(calls(workspace, ctx)["read"]("caf\ufffd"))
    write = write_file_tool(workspace)
    write("caf\ufffd", "new", ctx)
    assert [path.read_text() for path in root.iterdir()] == ["new"]
    (root / os.fsdecode(b"caf\xe8")).write_text("another")
    with pytest.raises(ToolError, match=r"several names look like it: 'caf\\udce8', 'caf\\udce9'"):
        write("caf\ufffd", "x", ctx)


def test_the_border_of_a_workspace(tmp_path: Path, ctx: ToolContext) -> None:  # B198
    outside, ws = tmp_path / "outside", tmp_path / "ws"
    outside.mkdir()
    (outside / "s").write_text(SECRET)
    (ws / "real").mkdir(parents=True)
    (ws / "real" / "file").write_text("inside")
    for name, target in {"esc": outside, "leaf.txt": outside / "s", "dangling": outside / "new"}.items():
        (ws / name).symlink_to(target)
    (ws / "in").symlink_to(ws / "real")
    (tmp_path / "lnk").symlink_to("ws")
    before = state_of(outside)
    (ws / "a.txt").write_text("")
    for way in (ws, tmp_path / "lnk"):
        workspace = Workspace(way, read_before_write=False)
        call = calls(workspace, ctx)
        for name, path in [
            ("read", "esc/s"),
            ("read", "leaf.txt"),
            ("read", f"{way}/esc/s"),
            ("write", "dangling"),
            ("write", "leaf.txt"),
            ("write", "esc/new/deep.txt"),
            ("move", "esc/new"),
        ]:
            with pytest.raises(ToolError, match=OUTSIDE):
                call[name](path)
        with pytest.raises(ToolError, match=OUTSIDE):
            list_dir_tool(workspace)(ctx, "esc")
        assert SECRET not in str(grep_tool(workspace)("canary|inside", ctx))
        assert "esc/s" not in str(glob_tool(workspace)("**/*", ctx))
        for path in ("in/file", "real/file", f"{tmp_path}/lnk/real/file"):
            if way != ws or not path.startswith("/"):
                assert "inside" in str(call["read"](path))
    assert Workspace(ws).delete("leaf.txt", ctx) == {"path": "leaf.txt", "deleted": True}
    assert state_of(outside) == before
    assert not os.path.lexists(ws / "leaf.txt")


def test_a_device_inside(root: Path, ctx: ToolContext) -> None:
    try:
        os.mknod(root / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs privileges")
    for name, call in calls(Workspace(root, read_before_write=False), ctx).items():
        if name != "move":
            with pytest.raises(ToolError, match=SPECIAL):
                call("null")


def test_no_descriptor_is_lost(tree: Path, ctx: ToolContext) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    workspace = Workspace(tree, read_before_write=False)
    before = len(os.listdir("/proc/self/fd"))
    for path, _ in [*ATTACKS.values(), *NEW.values()]:
        for call in calls(workspace, ctx).values():
            with contextlib.suppress(ToolError):
                call(filled(path, tree))
    assert len(os.listdir("/proc/self/fd")) == before


# --- random trees and paths ----------------------------------------------------------------------

LONG_RUN = os.environ.get("UNSPOOL_LONG") == "1"
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where bringing bytes to the disk costs nothing
NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.sampled_from(["a", "b", "c", "d", "..", ".", "", "@a", "n"])
PATHS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "", "", "", "{root}/", "{outside}/", "/", "@", "{root}/../"]),
    st.lists(STEPS, min_size=1, max_size=6).map("/".join),
)
KINDS = st.one_of(st.sampled_from(["file", "dir"]), PATHS)
THINGS = st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), KINDS), max_size=12)


def plant(things: list[tuple[str, str]], root: Path) -> None:
    """Make files, directories and links, those that can be made where they are asked for."""
    for name, kind in things:
        where = root / name
        with contextlib.suppress(OSError):
            if not f"{os.path.realpath(where.parent)}/".startswith(f"{root}/") or os.path.lexists(where):
                continue
            where.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                where.write_text("inside")
            elif kind == "dir":
                where.mkdir()
            else:
                where.symlink_to(filled(kind, root))


def reference(root: str, path: str) -> str | None:
    """What there is at ``path``, by its real path; None where the way leaves the root or ends in nothing.

    The definition with plain paths, good as long as nobody else is there.
    """
    here, pending, links = root, path.split("/"), 0
    if path.startswith("/"):
        if not f"{path}/".startswith(f"{root}/"):
            return None
        pending = path[len(root) :].split("/")
    while pending:
        name = pending.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            if here == root:
                return None
            here = os.path.dirname(here)
        elif os.path.islink(f"{here}/{name}"):
            links += 1
            target = os.readlink(f"{here}/{name}")
            if links > 40 or (target.startswith("/") and not f"{target}/".startswith(f"{root}/")):
                return None
            pending = [*(target[len(root) :] if target.startswith("/") else target).split("/"), *pending]
            here = root if target.startswith("/") else here
        elif os.path.isdir(here) and os.path.exists(f"{here}/{name}"):
            here = f"{here}/{name}"
            if os.path.isfile(here) and any(part not in ("", ".") for part in pending):
                return None
        else:
            return None
    return here


def around(root: Path) -> dict[str, object]:
    """All there is beside a root."""
    state = state_of(root.parent)
    return {
        path: value for path, value in state.items() if path != str(root) and not path.startswith(f"{root}/")
    }


@given(things=THINGS, paths=st.lists(PATHS, min_size=1, max_size=6))
@settings(max_examples=3000 if LONG_RUN else 150, deadline=None)
def test_random_trees(
    agent: Callable[..., ToolContext], things: list[tuple[str, str]], paths: list[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=FAST) as place:
        root = Path(os.path.realpath(place)) / "root"
        for name in ("a", "b"):
            (root.parent / "outside" / name).mkdir(parents=True)
            (root.parent / "outside" / name / "c").write_text(SECRET)
            (root.parent / name).write_text(SECRET)
        root.mkdir()
        plant(things, root)
        workspace, ctx, before = Workspace(root, read_before_write=False), agent(), around(root)
        for path in (filled(path, root) for path in paths):
            meant = workspace.meant(path)
            there = reference(str(root), meant)
            try:
                with workspace.open_file(path) as file:
                    assert file.read() in (b"inside", b"written")
                    assert there and os.path.samestat(os.fstat(file.fileno()), os.stat(there))
            except ToolError:
                assert there is None or os.path.isdir(there)
            real = os.path.realpath(root / meant)
            try:
                with workspace.changing(path, ctx, create=True) as change:
                    change.write("written")
                assert f"{root}/{change.path}" == real and Path(real).read_text() == "written"
            except ToolError:
                assert there is None or os.path.isdir(there) or meant.endswith(("/", "/.", "/.."))
            with contextlib.suppress(ToolError):
                list(workspace.walk(path))
        assert around(root) == before
