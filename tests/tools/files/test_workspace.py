"""Who may change which file: what was read, by whom, what happened since; and what can be done to a file."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from play import Player

from unspool.kernel import Fact, ToolExecEnd, make_call
from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.kernel.events import AgentStart
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import Refused, ToolContext, ToolResult
from unspool.tools import Root
from unspool.tools.files import path_locks
from unspool.tools.files.descent import MissingFileError
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.saving import sha256
from unspool.tools.files.text_file import NotTextError
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

Agent = Callable[..., ToolContext]

UNREAD = "f exists and you have not read it: read it first"
CHANGED = "f changed since you read it: read it again"
PART = "you have read only a part of f: read the rest first"


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


def read(workspace: Workspace, path: str, ctx: ToolContext) -> str:
    """Read a file as a tool does; gives its text."""
    with workspace.open_file(path) as file:
        data = file.read()
    workspace.saw(path, sha256(data), partial=False, ctx=ctx)
    return data.decode()


def write(workspace: Workspace, path: str, text: str, ctx: ToolContext) -> str:
    """Write as a tool does; what is wrong, or nothing."""
    try:
        with workspace.changing(path, ctx, create=True, whole=True) as change:
            change.write(text)
    except ToolError as error:
        return str(error)
    return ""


# --- read before written -----------------------------------------------------------------------


def test_a_file_changed_on_disk(root: Path, workspace: Workspace, ctx: ToolContext) -> None:  # B202
    file = root / "f"
    file.write_text("old")
    assert write(workspace, "f", "x", ctx) == UNREAD
    read(workspace, "f", ctx)
    file.write_text("by the user")
    assert write(workspace, "f", "x", ctx) == CHANGED
    assert file.read_text() == "by the user"
    read(workspace, "f", ctx)
    assert write(workspace, "f", "one", ctx) == ""
    assert write(workspace, "f", "two", ctx) == ""  # an agent knows what it wrote
    os.utime(file, (1, 1))
    assert write(workspace, "f", "three", ctx) == ""  # the same bytes at another time are no change


def test_a_refusal_tells_what_changed(root: Path, workspace: Workspace, ctx: ToolContext) -> None:  # B202
    """It shows the lines, and is not a reading."""
    tool = read_file_tool(workspace)
    lines = [f"line {number}\n" for number in range(100)]
    (root / "f").write_text("".join(lines))
    tool("f", ctx, offset=3, limit=1)
    (root / "f").write_text("".join([*lines[:50], "by the user\n", *lines[50:]]))
    change = "@@ -48,6 +48,7 @@\n line 47\n line 48\n line 49\n+by the user\n line 50\n line 51\n line 52"
    for _ in range(2):
        assert workspace.check("f", ctx, must_exist=True) == Refused(f"{CHANGED}; the change:\n{change}", 3)
    tool("f", ctx)
    assert write(workspace, "f", "agent's\n", ctx) == ""
    (root / "f").write_text("agent's\n" + "x" * 300 + "\n" + "".join(lines))
    said = write(workspace, "f", "x", ctx)
    assert said.startswith(f"{CHANGED}; the change:\n@@ -1 +1,102 @@\n agent's\n+xxx")
    assert said.endswith("\n+line 8\n… 91 more lines") and len(said) < 600
    (root / "f").write_bytes(b"binary\0")
    assert write(workspace, "f", "x", ctx) == "f is a binary file, not text"


def test_other_bytes_of_the_same_size_and_time(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_text("aaaa")
    os.utime(root / "f", (1, 1))
    read(workspace, "f", ctx)
    (root / "f").write_text("bbbb")
    os.utime(root / "f", (1, 1))
    assert write(workspace, "f", "x", ctx) == CHANGED


def test_two_agents(root: Path, workspace: Workspace, agent: Agent) -> None:  # B202
    (root / "f").write_text("old")
    a, b, again = agent("a"), agent("b"), agent("a", "another session")
    read(workspace, "f", a)
    assert write(workspace, "f", "b's", b) == write(workspace, "f", "x", again) == UNREAD
    read(workspace, "f", b)
    assert write(workspace, "f", "b's", b) == ""
    assert write(workspace, "f", "a's", a) == CHANGED
    assert (root / "f").read_text() == "b's"


def test_a_file_made_by_another_agent(workspace: Workspace, agent: Agent) -> None:
    assert write(workspace, "f", "a's", agent("a")) == ""
    assert write(workspace, "f", "b's", agent("b")) == UNREAD


def test_a_part(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_text("1\n2\n3\n")
    digest = sha256(b"1\n2\n3\n")

    def saw(first: int, last: int) -> object:
        return workspace.saw("f", digest, partial=True, ctx=ctx, lines=(first, last), total_lines=3)

    entry = {"path": "f", "sha256": digest, "partial": True, "lines": [1, 1], "total_lines": 3}
    assert saw(1, 1) == entry
    assert write(workspace, "f", "x", ctx) == PART
    assert workspace.check("f", ctx, must_exist=True) == Refused(PART, 2)
    assert workspace.check("f", ctx, must_exist=True, whole=False) is None
    with workspace.changing("f", ctx):  # an exact edit needs to know no more than what it edits
        pass
    saw(2, 3)
    assert write(workspace, "f", "x", ctx) == ""


def test_not_asked_of_the_past(root: Path, ctx: ToolContext) -> None:
    workspace = Workspace(root, read_before_write=False)
    (root / "f").write_text("old")
    assert workspace.check("f", ctx, must_exist=True) is None
    assert write(workspace, "f", "new", ctx) == ""


def test_two_spellings_are_one_file(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "d").mkdir()
    (root / "d" / "f").write_text("old")
    (root / "link").symlink_to("d")
    read(workspace, f"{root}/link/../link/./f", ctx)
    assert workspace.where("link/f") == workspace.where("d//f") == f"{root}/d/f"
    assert write(workspace, "d/f", "new", ctx) == ""


def test_a_read_and_a_write_in_one_batch(root: Path, workspace: Workspace) -> None:  # B202
    (root / "c").write_text("old")
    calls = [
        make_call("c1", "write_file", '{"path": "c", "content": "too early"}'),
        make_call("c2", "read_file", '{"path": "c"}'),
        make_call("c3", "write_file", '{"path": "c", "content": "new"}'),
    ]
    run = Player("asyncio")(
        calls, "done", tools=[read_file_tool(workspace), write_file_tool(workspace)], real_time=True
    )
    assert run.outcomes() == {"c1": "invalid", "c2": "ok", "c3": "ok"}
    assert "read it first" in run.results()["c1"]
    assert (root / "c").read_text() == "new"


# --- a session that goes on in another process -------------------------------------------------


def test_restoring(root: Path, workspace: Workspace, ctx: ToolContext, agent: Agent) -> None:  # B202
    for name in ("known", "changed", "part", "gone", "unknown"):
        (root / name).write_text("old\n")
    digest = sha256(b"old\n")

    def end(**details: object) -> Fact:
        return ToolExecEnd(call_id="c", details=json.loads(json.dumps(details)))

    seen = [{"path": name, "sha256": digest, "partial": False} for name in ("changed", "gone", "known")]
    part = {"path": "part", "sha256": digest, "partial": True}
    odd = [3, None, {"path": 3}, {"path": "unknown"}, {"path": "unknown", "sha256": 3, "partial": False}]
    facts: list[Fact] = [
        AgentStart(session="session", agent="root"),
        end(files=seen),
        end(file=part | {"lines": [1, 1], "total_lines": 2}),
        *(end(file=entry) for entry in odd),
        end(file="text", files="text"),
        end(file={"path": "gone", "deleted": True}),
        ToolExecEnd(call_id="d"),
    ]
    (root / "changed").write_text("new\n")
    workspace.restore(facts)
    refused = {
        path: refusal.code
        for path in os.listdir(root)
        if (refusal := workspace.check(path, ctx, must_exist=True))
    }
    assert refused == {"changed": 3, "part": 2, "unknown": 2, "gone": 2}
    workspace.restore(
        [end(file=part | {"lines": [2, 2], "total_lines": 2})], session="session", agent=("root",)
    )
    assert workspace.check("part", ctx, must_exist=True) is None
    fork = agent("root", "fork")
    assert workspace.check("known", fork, must_exist=True)
    workspace.restore(facts, session="fork")
    assert workspace.check("known", fork, must_exist=True) is None


def test_restoring_a_run(root: Path, workspace: Workspace, agent: Agent) -> None:
    (root / "r").write_text("old")
    (root / "part").write_text("1\n2\n")
    script = [
        make_call("c1", "write_file", '{"path": "d/c", "content": "new"}'),
        make_call("c2", "read_file", '{"path": "r"}'),
        make_call("c3", "read_file", '{"path": "part", "limit": 1}'),
    ]
    run = Player("asyncio")(
        script, "done", tools=[read_file_tool(workspace), write_file_tool(workspace)], real_time=True
    )
    start = next(fact for fact in run.facts if isinstance(fact, AgentStart))
    ctx = agent(start.agent, start.session)
    later = Workspace(root)
    assert [bool(later.check(path, ctx, must_exist=True)) for path in ("d/c", "r", "part")] == [True] * 3
    later.restore(run.facts)
    assert [bool(later.check(path, ctx, must_exist=True)) for path in ("d/c", "r", "part")] == [
        False,
        False,
        True,
    ]
    assert later.check("part", ctx, must_exist=True, whole=False) is None


# --- the file in hand --------------------------------------------------------------------------


def test_what_a_change_tells(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfa\xe9\r\nb\xef\xbb\xbf\n")
    workspace.saw("f", sha256((root / "f").read_bytes()), partial=False, ctx=ctx)
    with workspace.changing(f"{root}/f", ctx) as change:
        assert (change.path, change.exists, change.newline) == ("f", True, "\r\n")
        assert change.text == "a\udce9\r\nb\ufeff\n"
        assert change.write(change.text.replace("b", "c")) == 12
        assert change.text == "a\udce9\r\nc\ufeff\n"
        change.write(change.text + "d")
    assert (root / "f").read_bytes() == b"\xef\xbb\xbfa\xe9\r\nc\xef\xbb\xbf\nd"
    with workspace.changing("new", ctx, create=True) as change:
        assert (change.exists, change.text, change.newline, change.sha256) == (False, "", "\n", None)
    assert os.listdir(root) == ["f"]


def test_files_that_are_not_there(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    with pytest.raises(MissingFileError, match="there is no none"), workspace.changing("none", ctx):
        pass
    assert workspace.check("d/none", ctx, must_exist=True) == Refused("there is no d/none")
    with workspace.changing("a/b/none", ctx, create=True):
        pass
    assert os.listdir(root) == []  # directories are made with the file


def test_changed_while_it_is_changed(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_text("old")
    read(workspace, "f", ctx)
    words = "f was changed by somebody else just now: read it again"
    for act in ("write", "delete", "move_to"):
        with workspace.changing("f", ctx) as change:
            (root / "f").write_text("by the user")
            with pytest.raises(ToolError, match=words):
                getattr(change, act)(*["g"] * (act != "delete"))
            assert (root / "f").read_text() == "by the user"
        (root / "f").write_text("old")
    with workspace.changing("g", ctx, create=True) as change:
        (root / "g").write_text("by the user")
        with pytest.raises(ToolError, match="g was changed by somebody else"):
            change.write("x")
    assert (root / "g").read_text() == "by the user"
    assert sorted(os.listdir(root)) == ["f", "g"]


def test_made_at_the_last_moment(
    root: Path, workspace: Workspace, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def meanwhile(*args: object, **kwargs: object) -> None:
        (root / "f").write_text("by the user")
        link(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(os, "link", meanwhile)
    assert write(workspace, "f", "x", ctx) == "f was changed by somebody else just now: read it again"
    assert ((root / "f").read_text(), os.listdir(root)) == ("by the user", ["f"])


def test_deleting(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    for name in ("f", "g"):
        (root / name).write_text("old")
    (root.parent / "outside").write_text("kept")
    for name, target in (("inside", "g"), ("out", "../outside"), ("dangling", "none"), ("via", "g")):
        (root / name).symlink_to(target)
    with pytest.raises(ToolError, match=UNREAD):
        workspace.delete("f", ctx)
    read(workspace, "f", ctx)
    assert workspace.delete("f", ctx) == {"path": "f", "deleted": True}
    for name in ("inside", "out", "dangling"):  # B198: the link only, wherever it leads
        assert workspace.delete(name, ctx) == {"path": name, "deleted": True}
    read(workspace, "via", ctx)
    with workspace.changing("via", ctx) as change:
        change.delete()
    assert os.listdir(root) == ["g"]
    assert (root.parent / "outside").read_text() == "kept"
    (root / "d").mkdir()
    for path, words in (("none", "there is no none"), ("d", "is a directory"), ("../outside", "is outside")):
        with pytest.raises(ToolError, match=words):
            workspace.delete(path, ctx)


def test_written_again_after_its_end(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfold")
    workspace.saw("f", sha256(b"\xef\xbb\xbfold"), partial=False, ctx=ctx)
    with workspace.changing("f", ctx) as change:
        change.delete()
        assert (change.exists, change.text) == (False, "")
        with pytest.raises(MissingFileError):
            change.move_to("g")
        change.write("new")
    assert (root / "f").read_bytes() == b"new"
    assert write(workspace, "f", "newer", ctx) == ""


def test_moving(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    (root / "f").write_text("old")
    (root / "taken").write_text("kept")
    (root / "link").symlink_to("f")
    (root / "out").symlink_to("..")
    read(workspace, "f", ctx)
    with workspace.changing("f", ctx) as change:
        for path, words in (
            ("taken", "taken exists: nothing was moved"),
            ("f", "f exists: nothing was moved"),
            ("link", "link exists: nothing was moved"),
            ("out/f", "is outside the root directory"),
            ("../f", "is outside the root directory"),
            ("new/", "names a directory"),
        ):
            with pytest.raises(ToolError, match=words):
                change.move_to(path)
        change.move_to("a/b/g")
        assert change.path == "a/b/g"
        change.write("new")
    assert (root / "a" / "b" / "g").read_text() == "new"
    assert write(workspace, "a/b/g", "newer", ctx) == ""  # still known
    assert (root / "taken").read_text() == "kept" and not (root / "f").exists()
    (root / "link").unlink()
    (root / "link").symlink_to("taken")
    read(workspace, "taken", ctx)
    with (
        workspace.changing("link", ctx) as change,
        pytest.raises(ToolError, match="link is a link: move taken"),
    ):
        change.move_to("x")


def test_binary_files_are_not_changed(root: Path, workspace: Workspace, ctx: ToolContext) -> None:  # B200
    (root / "f").write_bytes(b"text, it seems" * 100 + b"\0")
    with pytest.raises(NotTextError, match="f is a binary file, not text"), workspace.changing("f", ctx):
        pass
    assert workspace.check("f", ctx, must_exist=True) == Refused("f is a binary file, not text")


# --- locks -------------------------------------------------------------------------------------


def test_changes_of_one_file_wait_for_each_other(root: Path, agent: Agent) -> None:
    (root / "d").mkdir()
    (root / "d" / "f").write_text("")
    (root / "link").symlink_to("d")
    spellings = ["d/f", "link/f", f"{root}/d/f", "./d/../d/f", "link/../d/f"]
    failures: list[BaseException] = []

    def add(name: str, path: str) -> None:
        workspace = Workspace(root, read_before_write=False)  # one for each: the locks are the process's
        try:
            for _ in range(20):
                with workspace.changing(path, agent(name)) as change:
                    change.write(f"{change.text}{name}")
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=add, args=(str(n), path)) for n, path in enumerate(spellings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted((root / "d" / "f").read_text()) == sorted("01234" * 20)


def test_waiting_for_a_lock_ends(
    root: Path, workspace: Workspace, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_locks, "_POLL_S", 0.001)
    said: list[str] = []

    def wait(ctx: ToolContext) -> None:
        said.append(write(workspace, "F", "x", ctx))

    def waited(ctx: ToolContext) -> str:
        thread = threading.Thread(target=wait, args=(ctx,))
        thread.start()
        thread.join()
        return said.pop()

    cancelled = agent("b")
    cancelled.cancelled = True  # type: ignore[misc]  # the fake's may be set
    with workspace.changing("f", agent("a"), create=True):  # upper and lower case may be one file
        assert waited(cancelled) == "cancelled"
        monkeypatch.setattr(path_locks, "_WAIT_S", 0.01)
        assert waited(agent("b")) == "F is being changed by another call: try again later"
        assert write(workspace, "g", "x", agent("b")) == ""
        with pytest.raises(RuntimeError, match="changing it already"):
            write(workspace, "f", "x", agent("a"))
    assert waited(agent("b")) == ""
    assert not path_locks._known


class Waiting:
    """The context of a call that tells when it has begun to wait for a lock."""

    def __init__(self) -> None:
        self.session, self.agent, self.began = "s", ("waiting",), threading.Event()

    @property
    def cancelled(self) -> bool:
        self.began.set()
        return False


@pytest.mark.parametrize(
    ("path", "meanwhile", "said", "left"),
    [
        ("d/f", lambda root: None, "", {"d/f": "waited"}),
        ("link/f", lambda root: None, "", {"d/f": "waited"}),
        (
            "link/f",
            lambda root: ((root / "link").unlink(), (root / "link").symlink_to("e")),
            "link/f was moved by somebody else just now: try again",
            {"d/f": "first"},
        ),
        (
            "link/f",
            lambda root: ((root / "link").unlink(), (root / "link").symlink_to("..")),
            "link/f is outside the root directory: give a path below it",
            {"d/f": "first"},
        ),
    ],
)
def test_what_happened_while_a_change_waited(
    root: Path,
    agent: Agent,
    path: str,
    meanwhile: Callable[[Path], object],
    said: str,
    left: dict[str, str],
) -> None:
    for name in ("d", "e"):
        (root / name).mkdir()
    (root / "link").symlink_to("d")
    workspace, waiting, results = Workspace(root, read_before_write=False), Waiting(), list[str]()
    thread = threading.Thread(
        target=lambda: results.append(write(workspace, path, "waited", cast(ToolContext, waiting)))
    )
    with workspace.changing("d/f", agent("a"), create=True) as change:
        thread.start()
        assert waiting.began.wait(10)
        change.write("first")
        meanwhile(root)
    thread.join()
    assert results == [said]
    assert {str(file.relative_to(root)): file.read_text() for file in root.glob("[de]/*")} == left


# --- several roots -----------------------------------------------------------------------------


def test_several_roots(tmp_path: Path, ctx: ToolContext) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    one, two = tmp_path / "one", tmp_path / "two"
    workspace = Workspace(one, Root(two))
    assert [root.path for root in workspace.roots] == [str(one), str(two)]
    assert read(workspace, "f", ctx) == "one"
    assert read(workspace, f"{two}/f", ctx) == "two"
    assert write(workspace, f"{two}/f", "new", ctx) == write(workspace, f"{two}/d/g", "new", ctx) == ""
    assert (two / "d" / "g").read_text() == "new"
    with workspace.changing(f"{two}/f", ctx) as change:
        assert change.path == f"{two}/f"
        change.move_to("moved")
        assert change.path == "moved"
    assert (one / "moved").read_text() == "new"
    words = f"is outside the root directories: give a path below one of {one}, {two}"
    assert write(workspace, f"{tmp_path}/three/f", "x", ctx) == f"{tmp_path}/three/f {words}"
    with pytest.raises(ToolDefinitionError, match="give at least one directory"):
        Workspace()
    assert repr(workspace) == f"Workspace({str(one)!r}, {str(two)!r})"


def written_by(tool: FunctionTool[..., ToolResult], path: str, ctx: ToolContext) -> str:
    return str(tool(path, "x", ctx).content)


def test_a_link_of_one_root_may_lead_into_another(tmp_path: Path, ctx: ToolContext) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "absolute").symlink_to(tmp_path / "two")
    (tmp_path / "one" / "relative").symlink_to("../two")
    (tmp_path / "one" / "out").symlink_to("../three")
    (tmp_path / "one" / "through").symlink_to("../three/../two")
    two = str(tmp_path / "two")
    for given in (Workspace(tmp_path / "one", two), Workspace(two, tmp_path / "one")):
        tool = write_file_tool(given)
        one = str(tmp_path / "one")
        for way in ("absolute", "relative"):
            assert "created" in written_by(tool, f"{one}/{way}/{way}", ctx)
            os.unlink(f"{two}/{way}")
        for way in ("out", "through"):  # a directory outside may be a link, whatever it is called
            with pytest.raises(ToolError, match="is outside the root directories"):
                written_by(tool, f"{one}/{way}/f", ctx)
