"""A directory or a file that is swapped for a link out of the root, over and over, while tools work on it.

A second in all; ten seconds for each swap with ``UNSPOOL_LONG=1``.
"""

import ctypes
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ToolContext
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.list_dir import list_dir_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

LIBC = ctypes.CDLL(None, use_errno=True)
LONG_RUN = os.environ.get("UNSPOOL_LONG") == "1"
SPAN_S = 10.0 if LONG_RUN else 0.25
PATIENCE_S = 10.0  # for a slow machine to show each outcome once
SECRET = "canary-77ab"
OUTSIDE = "is outside the root directory"
BOTH = [("read", "ok"), ("read", "refused"), ("write", "ok"), ("write", "refused")]

# Names in the root that are exchanged, the path that tools are given, and what must have come of it in the end.
Swap = tuple[tuple[str, str], str, list[tuple[str, str]]]
NEW = [("write", "ok"), ("write", "refused"), ("move", "ok"), ("move", "refused")]
SWAPS: dict[str, Swap] = {
    "directory": (("d", "evil_dir"), "d/f", BOTH),
    "directory above": (("d", "evil_dir"), "d/sub/f", BOTH),
    "file": (("d/f", "evil_file"), "d/f", BOTH),
    "new file": (("d/new", "evil_new"), "d/new", [*NEW, ("delete", "ok")]),
    "new directories": (("d", "evil_dir"), "d/{n}/deep/f", NEW),
}
LINKS = {"evil_dir": "../outside", "evil_file": "../../outside/f", "evil_new": "../../outside/new"}


@pytest.fixture
def tree(root: Path) -> Path:
    for place, text in ((root / "d", "inside"), (root.parent / "outside", SECRET)):
        (place / "sub").mkdir(parents=True)
        for path in ("f", "sub/f"):
            (place / path).write_text(text)
    for name in ("evil_dir", "evil_file"):
        (root / name).symlink_to(LINKS[name])
    return root


def state_of(place: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        info = path.lstat()
        found[str(path)] = (info.st_ino, info.st_mode, info.st_mtime_ns, path.is_file() and path.read_text())
    return found


def exchange(one: str, other: str) -> bool:
    """Exchange two names at once, where the system can: nobody ever finds one of them missing."""
    if not hasattr(LIBC, "renameat2"):
        return False
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(LIBC.renameat2(here, os.fsencode(one), here, os.fsencode(other), both) == 0)


def rename(source: str, target: str) -> None:
    """Rename; what a tool has made at the new name meanwhile gives way."""
    while True:
        try:
            os.rename(source, target)
        except FileNotFoundError:
            return
        except OSError:
            shutil.rmtree(target, ignore_errors=True)
        else:
            return


def swap_once(tree: Path, name: str, evil: str) -> None:
    """Put the link in the place of ``name`` and take it away again."""
    one, other, aside = str(tree / name), str(tree / evil), str(tree / "aside")
    if not (os.path.islink(one) or os.path.islink(other)):  # a tool has put a file in its place
        Path(other).unlink(missing_ok=True)
        os.symlink(LINKS[evil], other)
    if not os.path.lexists(one):  # there is nothing to exchange it with
        rename(other, one)
        rename(one, aside)
    elif not (exchange(one, other) and exchange(one, other)):
        for source, target in ((one, aside), (other, one), (one, other), (aside, one)):
            rename(source, target)


def outcome(call: Callable[[], object]) -> str:
    try:
        said = str(call())
    except ToolError as error:
        said = str(error)
    assert SECRET not in said
    if OUTSIDE in said:
        return "refused"
    return "missing" if "there is no" in said else "ok"


class Race:
    """Threads that do something over and over, until they are stopped or one fails."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.failures: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def run(self, work: Callable[[], None]) -> None:
        def loop() -> None:
            try:
                while not self.stop.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001 (shown by the test)
                self.failures.append(error)
                self.stop.set()

        self.threads.append(threading.Thread(target=loop))

    def until(self, done: Callable[[], bool]) -> None:
        """Go on for ``SPAN_S``, and longer if it is not done by then."""
        start = time.monotonic()
        for thread in self.threads:
            thread.start()
        while not self.stop.wait(0.01):
            spent = time.monotonic() - start
            if spent > SPAN_S + PATIENCE_S or (spent > SPAN_S and done()):
                self.stop.set()
        for thread in self.threads:
            thread.join()


def tools_on(tree: Path, path: str, ctx: ToolContext) -> dict[str, Callable[[], object]]:
    """What takes a path, by name; ``{n}`` in it is another number each time."""
    workspace, numbers = Workspace(tree, read_before_write=False), itertools.count()
    read, write = read_file_tool(workspace), write_file_tool(workspace)

    def fresh() -> str:
        return path.format(n=next(numbers))

    def move() -> None:
        with workspace.changing("moving", ctx, create=True) as change:
            change.write("moved")
            change.move_to(fresh())

    return {
        "read": lambda: read(fresh(), ctx),
        "grep": lambda: grep_tool(workspace)(".", ctx, "d"),
        "list": lambda: list_dir_tool(workspace)(ctx, "d", 2),
        "check": lambda: workspace.check(fresh(), ctx, must_exist=False),
        "move": move,
        "delete": lambda: workspace.delete(fresh(), ctx),
        "write": lambda: write(fresh(), "written", ctx),
    }


@pytest.mark.parametrize(("swap", "path", "wanted"), SWAPS.values(), ids=SWAPS)
def test_swapped_all_the_time(
    tree: Path,
    agent: Callable[..., ToolContext],
    swap: tuple[str, str],
    path: str,
    wanted: list[tuple[str, str]],
) -> None:
    tools, race = tools_on(tree, path, agent()), Race()
    if ("delete", "ok") not in wanted:
        del tools["delete"]
    write = tools.pop("write")
    outside, said = state_of(tree.parent / "outside"), Counter[tuple[str, str]]()

    def use_tools() -> None:
        for name, call in tools.items():
            said[name, outcome(call)] += 1

    def use_write() -> None:
        said["write", outcome(write)] += 1

    for work in (lambda: swap_once(tree, *swap), use_tools, use_write):
        race.run(work)
    race.until(lambda: said.keys() >= set(wanted))
    assert race.failures == []
    assert said.keys() >= set(wanted), said
    assert state_of(tree.parent / "outside") == outside
    assert not [name for _, _, names in os.walk(tree) for name in names if name.endswith(".tmp")]


# --- every order there is, one after the other -----------------------------------------------------

FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None
BACK = [1, 2, 3, 1000] if LONG_RUN else [1, 1000]  # system calls until the names are exchanged again
SYSTEM_CALLS = ("open", "stat", "fstat", "scandir", "readlink", "mkdir", "link", "rename", "unlink")


@contextmanager
def before_system_calls(act: Callable[[int], None]) -> Iterator[None]:
    """Inside the ``with``, ``act`` is called with 0, 1, … right before each system call that takes a name."""
    count, acting = itertools.count(), False

    def acts_before(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal acting
            if not acting:
                acting = True
                act(next(count))
                acting = False
            return call(*args, **kwargs)

        return called

    with pytest.MonkeyPatch.context() as patch:
        supports = set(os.supports_dir_fd)
        for name in SYSTEM_CALLS:
            wrapped = acts_before(getattr(os, name))
            supports.add(wrapped)
            patch.setattr(os, name, wrapped)
        patch.setattr(os, "supports_dir_fd", supports)
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.mark.parametrize("tool", ["read", "write", "move", "delete"])
@pytest.mark.parametrize(
    ("name", "evil", "path"), [(*swap, path) for swap, path, _ in SWAPS.values()], ids=SWAPS
)
def test_swapped_before_each_system_call(
    tree: Path, agent: Callable[..., ToolContext], name: str, evil: str, path: str, tool: str
) -> None:
    if not exchange(str(tree / "d"), str(tree / "evil_dir")):
        pytest.skip("names can't be exchanged at once here")
    exchange(str(tree / "d"), str(tree / "evil_dir"))
    outside, at, calls = state_of(tree.parent / "outside"), 0, 1
    while at < calls:
        for back in BACK:
            with tempfile.TemporaryDirectory(dir=FAST) as place:
                copy = Path(place) / "root"
                shutil.copytree(tree, copy, symlinks=True)
                for link in copy.glob("evil_*"):
                    link.unlink()
                    link.symlink_to(tree / LINKS[link.name].replace("../..", ".."))
                made = tools_on(copy, path, agent())
                if evil == "evil_new":
                    (copy / evil).symlink_to(tree.parent / "outside" / "new")
                    (copy / name).write_text("inside")

                def act(n: int, at: int = at, back: int = back, copy: Path = copy) -> None:
                    nonlocal calls
                    calls = max(calls, n + 1)
                    if n in (at, at + back):
                        exchange(str(copy / name), str(copy / evil))

                with before_system_calls(act):
                    outcome(made[tool])
                assert not [file for file in copy.rglob("*.tmp")]
        assert state_of(tree.parent / "outside") == outside
        at += 1
    assert calls > 5
