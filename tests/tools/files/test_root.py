"""A root can't be left: tricks with paths, links, special files, and swaps during the walk."""

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.tools import Root
from unspool.tools.files.root import MissingFileError

OUTSIDE = "is outside the root directory"
MISSING = "there is no"
LOOP = "too many links"
SPECIAL = "is a pipe, device or socket"
NOT_DIR = "is not a directory"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """``tmp_path/outside/secret.txt``, and a root beside it full of temptations."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (tmp_path / "root-but-longer").mkdir()
    (tmp_path / "root-but-longer" / "secret.txt").write_text("secret")
    for name in (
        "a.txt",
        "sub/b.txt",
        "sub/deep/c.txt",
        "..hidden",
        "a..b",
        "...",
        "-dash",
        " space ",
        "b\\c",
    ):
        (root / name).write_text(name)
    for name in ("line\nbreak", "~x", "%2e%2e", "é"):
        (root / name).write_text(name)
    (root / "~").mkdir()
    (root / "~" / "x").write_text("tilde")
    links = {
        "link_dir": "sub",
        "link_file": "a.txt",
        "link_dot": ".",
        "link_abs": f"{root}/sub/b.txt",
        "link_root": str(root),
        "link_chain": "link_file",
        "link_through": "link_dir/deep/../b.txt",
        "sub/up": "../a.txt",
        "sub/deep/up": "../../a.txt",
        "out_dir": "../outside",
        "out_file": "../outside/secret.txt",
        "out_abs": f"{outside}/secret.txt",
        "out_abs_dir": str(outside),
        "out_up": "..",
        "out_up_and_back": "../root/a.txt",
        "out_chain": "out_file",
        "out_proc": "/proc/self/root",
        "out_prefix": f"{root}-but-longer/secret.txt",
        "out_dots": f"{root}/../outside/secret.txt",
        "sub/deep/out": "../../../outside/secret.txt",
        "out_zero": "/dev/zero",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "loop_grows": "loop_grows/x",
        "dangling": "nothing",
        "file_as_dir": "a.txt/../sub/b.txt",
    }
    for number in range(45):
        links[f"long{number}"] = f"long{number + 1}" if number < 44 else "a.txt"
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "fifo")
    (root / "link_fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(root):
        server.bind("socket")
        yield root


FINE = {
    "plain": ("a.txt", "a.txt"),
    "below": ("sub/deep/c.txt", "sub/deep/c.txt"),
    "dot": ("./a.txt", "a.txt"),
    "dots": ("././sub/./b.txt", "sub/b.txt"),
    "doubled slashes": ("sub//b.txt", "sub/b.txt"),
    "parent inside": ("sub/../a.txt", "a.txt"),
    "parents inside": ("sub/deep/../../a.txt", "a.txt"),
    "dots in a name": ("..hidden", "..hidden"),
    "dots within a name": ("a..b", "a..b"),
    "three dots": ("...", "..."),
    "a dash": ("-dash", "-dash"),
    "spaces": (" space ", " space "),
    "a backslash": ("b\\c", "b\\c"),
    "a line break": ("line\nbreak", "line\nbreak"),
    "not ascii": ("é", "é"),
    "percent signs": ("%2e%2e", "%2e%2e"),
    "a tilde in a name": ("~x", "~x"),
    "a directory named ~": ("./~/x", "tilde"),
    "absolute": ("{root}/a.txt", "a.txt"),
    "absolute with dots": ("{root}/sub/../a.txt", "a.txt"),
    "link to a directory": ("link_dir/b.txt", "sub/b.txt"),
    "parent of a link's target": ("link_dir/deep/../../a.txt", "a.txt"),
    "link to a file": ("link_file", "a.txt"),
    "link to itself, harmless": ("link_dot/link_dot/a.txt", "a.txt"),
    "absolute link inside": ("link_abs", "sub/b.txt"),
    "link to the root": ("link_root/sub/b.txt", "sub/b.txt"),
    "link to a link": ("link_chain", "a.txt"),
    "link through a link": ("link_through", "sub/b.txt"),
    "link upwards": ("sub/up", "a.txt"),
    "link upwards, deep": ("sub/deep/up", "a.txt"),
    "40 links": ("long5", "a.txt"),
}

REFUSED = {
    "parent": ("..", OUTSIDE),
    "parent's file": ("../outside/secret.txt", OUTSIDE),
    "parent, later": ("sub/../../outside/secret.txt", OUTSIDE),
    "many parents": ("../" * 50 + "etc/passwd", OUTSIDE),
    "out and back": ("../root/a.txt", OUTSIDE),
    "absolute": ("/etc/passwd", OUTSIDE),
    "the top": ("/", OUTSIDE),
    "two slashes": ("//etc/passwd", OUTSIDE),
    "absolute beside": ("{root}-but-longer/secret.txt", OUTSIDE),
    "absolute and out": ("{root}/../outside/secret.txt", OUTSIDE),
    "proc": ("/proc/self/root/etc/passwd", OUTSIDE),
    "link to a directory": ("out_dir/secret.txt", OUTSIDE),
    "link to a file": ("out_file", OUTSIDE),
    "absolute link": ("out_abs", OUTSIDE),
    "absolute link to a directory": ("out_abs_dir/secret.txt", OUTSIDE),
    "link to the parent": ("out_up/outside/secret.txt", OUTSIDE),
    "link out and back": ("out_up_and_back", OUTSIDE),
    "link to a link out": ("out_chain", OUTSIDE),
    "link to proc": ("out_proc/etc/passwd", OUTSIDE),
    "link beside": ("out_prefix", OUTSIDE),
    "absolute link with dots": ("out_dots", OUTSIDE),
    "link out from deep": ("sub/deep/out", OUTSIDE),
    "link in, then out": ("link_dir/deep/out", OUTSIDE),
    "parent of a link": ("link_dir/../../outside/secret.txt", OUTSIDE),
    "link to a device": ("out_zero", OUTSIDE),
    "home": ("~", "is not expanded"),
    "home's file": ("~/secret", "is not expanded"),
    "someone's home": ("~root/secret", MISSING),
    "NUL": ("a.txt\0", "NUL"),
    "NUL inside": ("sub\0/../../outside/secret.txt", "NUL"),
    "lone surrogate": ("\ud800", "not valid text"),
    "too long": ("a/" * 3000, "too long"),
    "long name": ("a" * 300, "too long"),
    "loop": ("loop", LOOP),
    "loop of two": ("loop_a", LOOP),
    "loop that grows": ("loop_grows", LOOP),
    "41 links and more": ("long0", LOOP),
    "dangling": ("dangling", MISSING),
    "missing": ("nothing", MISSING),
    "missing directory": ("nothing/../a.txt", MISSING),
    "percent is not decoded": ("%2e%2e/outside/secret.txt", NOT_DIR),
    "backslashes are no separators": ("..\\outside\\secret.txt", MISSING),
    "file as a directory": ("a.txt/b", NOT_DIR),
    "file as a directory, by link": ("file_as_dir", NOT_DIR),
    "pipe": ("fifo", SPECIAL),
    "link to a pipe": ("link_fifo", SPECIAL),
    "socket": ("socket", SPECIAL),
    "directory": ("sub", "use list_dir"),
    "the root itself": ("", "use list_dir"),
}


@pytest.mark.parametrize(("path", "content"), FINE.values(), ids=FINE)
def test_paths_inside(tree: Path, path: str, content: str) -> None:
    with Root(tree).open_file(path.format(root=tree)) as file:
        assert file.read().decode() == content


@pytest.mark.parametrize(("path", "words"), REFUSED.values(), ids=REFUSED)
def test_paths_refused(tree: Path, path: str, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        Root(tree).open_file(path.format(root=tree))
    assert words in str(caught.value)
    assert "\0" not in str(caught.value)


def test_devices_are_not_opened(root: Path) -> None:
    try:
        os.mknod(root / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs privileges")
    with pytest.raises(ToolError, match=SPECIAL):
        Root(root).open_file("null")


def test_a_missing_file_is_told_from_other_errors(tree: Path) -> None:
    with pytest.raises(MissingFileError):
        Root(tree).open_file("sub/none")


def test_no_descriptor_is_lost(tree: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    root = Root(tree)
    before = len(os.listdir("/proc/self/fd"))
    for path, _ in REFUSED.values():
        with contextlib.suppress(ToolError):
            root.open_file(path.format(root=tree)).close()
        with contextlib.suppress(ToolError), root.open_dir(path.format(root=tree)):
            pass
    list(root.walk())
    assert len(os.listdir("/proc/self/fd")) == before


def test_walk(tree: Path) -> None:
    entries = {entry.path: entry.kind for entry in Root(tree).walk("sub", ignore={"deep"})}
    assert entries == {"sub/b.txt": "file", "sub/deep": "ignored", "sub/up": "link"}
    everything = {entry.path: entry.kind for entry in Root(tree).walk()}
    assert everything["fifo"] == everything["socket"] == "special"
    assert everything["out_dir"] == everything["link_dir"] == "link"
    assert not [path for path in everything if path.startswith(("out_dir/", "link_dir/", "link_root/"))]
    assert [e.path for e in Root(tree).walk("link_dir/deep/../deep")] == [
        f"link_dir/deep/../deep/{name}" for name in ("c.txt", "out", "up")
    ]


def test_walk_goes_level_by_level_in_order_of_names(root: Path) -> None:
    for path in ("b/x/1", "B/2", "a/3", "C", "c"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    assert [entry.path for entry in Root(root).walk()] == [
        *("a", "B", "b", "C", "c"),
        *("a/3", "B/2", "b/x"),
        "b/x/1",
    ]
    assert [entry.path for entry in Root(root).walk(depth=1)] == ["a", "B", "b", "C", "c"]
    assert "b/x/1" not in {entry.path for entry in Root(root).walk(enter=lambda below: below != "b")}


def test_walk_can_be_stopped(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "b").write_text("")
    steps = iter([False, True, True])
    with pytest.raises(ToolError, match="cancelled"):
        list(Root(root).walk(stop=lambda: next(steps)))


def test_a_very_deep_tree(root: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(root)
        for _ in range(300):
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(here)
    assert len(list(Root(root).walk())) == 300


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions(root: Path) -> None:
    (root / "locked").mkdir(mode=0)
    (root / "file").touch(mode=0)
    with pytest.raises(ToolError, match="permission denied"):
        Root(root).open_file("file")
    assert [entry.kind for entry in Root(root).walk()] == ["file", "dir", "unreadable"]


def test_roots(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, words in (("none", "does not exist"), ("file", "is not a directory")):
        with pytest.raises(ToolDefinitionError, match=f"root: {words}"):
            Root(tmp_path / path)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("a")
    (tmp_path / "alias").symlink_to("real")
    alias = Root(tmp_path / "alias")
    for path in ("a", f"{tmp_path}/alias/a", f"{tmp_path}/real/a"):
        alias.open_file(path).close()
    (tmp_path / "real").rename(tmp_path / "moved")
    with pytest.raises(ToolError, match="root directory can't be opened"):
        alias.open_file("a")


def test_a_root_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    root = Root(tmp_path / "root")
    (tmp_path / "root").rmdir()
    (tmp_path / "root").symlink_to("outside")
    with pytest.raises(ToolError, match="root directory can't be opened"):
        root.open_file("secret.txt")


# --- races -------------------------------------------------------------------------------------


def _race(root: Path, swap: list[tuple[str, str]], path: str) -> dict[str, int]:
    """How often reading ``path`` gave which content while renames go on.

    For half a second, or longer on a machine that has not shown both outcomes by then.
    """
    stop = threading.Event()

    def swapper() -> None:
        while not stop.is_set():
            for source, target in swap:
                os.rename(root / source, root / target)

    seen: dict[str, int] = {}
    confined = Root(root)
    thread = threading.Thread(target=swapper)
    thread.start()
    try:
        start = time.monotonic()
        while (spent := time.monotonic() - start) < 0.5 or (len(seen) < 3 and spent < 5):
            try:
                with confined.open_file(path) as file:
                    result = file.read().decode()
            except ToolError as error:
                result = type(error).__name__ if OUTSIDE not in str(error) else "refused"
            seen[result] = seen.get(result, 0) + 1
    finally:
        stop.set()
        thread.join()
    return seen


def test_swapping_a_directory_for_a_link_out(tree: Path) -> None:
    (tree / "dir").mkdir()
    (tree / "dir" / "secret.txt").write_text("inside")
    (tree / "evil").symlink_to("../outside")
    swap = [("dir", "aside"), ("evil", "dir"), ("dir", "evil"), ("aside", "dir")]
    seen = _race(tree, swap, "dir/secret.txt")
    assert "secret" not in seen
    assert seen.get("inside") and seen.get("refused"), seen


def test_swapping_a_file_for_a_link_out(tree: Path) -> None:
    (tree / "file").write_text("inside")
    (tree / "evil").symlink_to("../outside/secret.txt")
    swap = [("file", "aside"), ("evil", "file"), ("file", "evil"), ("aside", "file")]
    seen = _race(tree, swap, "file")
    assert "secret" not in seen
    assert seen.get("inside") and seen.get("refused"), seen
