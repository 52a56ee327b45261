"""``list_dir``: order, depth, caps, and what is left out."""

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

Call = Callable[..., Awaitable[str]]
pytestmark = pytest.mark.anyio


def make(root: Path, *paths: str) -> None:
    for path in paths:
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("x" * 10)


async def test_listing(root: Path, call: Call) -> None:
    make(root, "b.txt", "A.txt", "src/deep/c.py", "src/B.py", "src/a.py", ".env", "empty/", "line\nbreak")
    (root / "link").symlink_to("/etc")
    (root / "big").write_bytes(b"x" * 1_300_000)
    os.mkfifo(root / "fifo")
    assert (await call("list_dir")).splitlines() == [
        ".env  10 B",
        "A.txt  10 B",
        "b.txt  10 B",
        "big  1.2 MB",
        "empty/",
        "fifo  (pipe, device or socket)",
        '"line\\nbreak"  10 B',
        "link  (link)",
        "src/",
    ]
    assert (await call("list_dir", path="src", depth=2)).splitlines() == [
        "src/a.py  10 B",
        "src/B.py  10 B",
        "src/deep/",
        "src/deep/c.py  10 B",
    ]
    assert await call("list_dir", path="empty") == "[the directory is empty]"


async def test_what_cannot_be_looked_at_is_told(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in directories that may be listed and not entered, or where the descriptors are used up."""
    make(root, "a", "d/f")
    scandir = os.scandir
    inodes = {os.stat(root).st_ino: 0, os.stat(root / "d").st_ino: errno.EACCES}

    def refusing(fd: int) -> Iterator[os.DirEntry[str]]:
        if code := inodes[os.fstat(fd).st_ino]:
            raise OSError(code, os.strerror(code))
        return scandir(fd)

    monkeypatch.setattr(os, "scandir", refusing)
    assert await call("list_dir", depth=2) == "a  10 B\nd/  (not readable)"
    assert await call("list_dir", path="d") == "error: d can't be opened: permission denied"
    inodes[os.stat(root).st_ino] = errno.EMFILE
    assert await call("list_dir") == "error: . can't be opened: Too many open files"


async def test_depth(root: Path, call: Call) -> None:
    make(root, "1/2/3/4/5/6/7")
    for depth, shown in ((-3, 1), (0, 1), (1, 1), (3, 3), (5, 5), (99, 5)):
        assert len((await call("list_dir", depth=depth)).splitlines()) == shown


async def test_what_is_left_out_is_told(root: Path, call: Call) -> None:
    make(root, "a", ".git/config", "node_modules/x/y", "src/__pycache__/z", "venv/", ".venv/bin/")
    output = await call("list_dir", depth=3)
    assert output.splitlines() == [
        "a  10 B",
        "src/",
        "venv/",
        "[left out: .git/, .venv/, node_modules/, src/__pycache__/]",
    ]
    assert (await call("list_dir", path="node_modules", depth=2)).splitlines() == [
        "node_modules/x/",
        "node_modules/x/y  10 B",
    ]
    assert await call("list_dir", path="src") == "[nothing to list]\n[left out: src/__pycache__/]"


async def test_at_most_500_entries(root: Path, call: Call) -> None:
    make(root, *(f"big/{n:03}" for n in range(600)), "z/last")
    output = (await call("list_dir", depth=2)).splitlines()
    assert output[-1].startswith("[the first 500 entries; there are more")
    assert len(output) == 501
    assert "z/" in output  # what is high up is shown before what is deep
    make(root, *(f"exact/{n:03}" for n in range(500)))
    assert len((await call("list_dir", path="exact")).splitlines()) == 500


async def test_output_is_bounded_by_bytes(root: Path, call: Call) -> None:
    make(root, *(f"{'n' * 200}{n:03}" for n in range(400)))
    output = await call("list_dir")
    assert output.endswith("[cut after 50.0 KB]")
    assert len(output) < 51 * 1024


async def test_errors(root: Path, call: Call) -> None:
    make(root, "file")
    assert await call("list_dir", path="file") == "error: file is a file, not a directory"
    assert await call("list_dir", path="none") == "error: there is no none"
    assert "outside the root" in await call("list_dir", path="..")
