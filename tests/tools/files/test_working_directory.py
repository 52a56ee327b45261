"""Calls whose relative paths start elsewhere than at the first root, as those of an agent with another worktree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from unspool.kernel import ToolExecEnd
from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import Refused, ToolContext, ToolResult
from unspool.tools.files import file_tools
from unspool.tools.files.apply_patch import apply_patch_tool
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool

Agent = Callable[..., ToolContext]


@pytest.fixture
def trees(root: Path) -> Path:
    """Worktrees ``a`` and ``b/deep``, each with a file of its own and one they share the name of."""
    for name in ("a", "b/deep"):
        (root / name / "d").mkdir(parents=True)
        (root / name / "f").write_text(f"in {name}\n")
        (root / name / f"only_{name[0]}").write_text("")
    (root / "f").write_text("in root\n")
    return root


class Where:
    """Says for each agent where its paths start."""

    def __init__(self, **where: str) -> None:
        self.where = where

    def __call__(self, ctx: ToolContext) -> str:
        return self.where.get(ctx.agent[0], "")


@pytest.fixture
def where() -> Where:
    return Where(b="b/deep")


@pytest.fixture
def workspace(trees: Path, where: Where) -> Workspace:
    return Workspace(trees, cwd=where)


Call = Callable[..., str]


@pytest.fixture
def call(workspace: Workspace) -> Call:
    tools: dict[str, Any] = {tool.spec.name: tool for tool in file_tools(workspace)}
    for make in (write_file_tool, edit_file_tool, apply_patch_tool):
        tool = make(workspace)
        tools[tool.spec.name] = tool

    def run(name: str, ctx: ToolContext, /, **args: Any) -> str:
        try:
            result = cast(FunctionTool[..., Any], tools[name])(ctx=ctx, **args)
        except ToolError as error:
            return f"error: {error}"
        return str(result.content if isinstance(result, ToolResult) else result)

    return run


def test_a_tool_finds_files_where_the_call_starts(call: Call, agent: Agent, where: Where) -> None:  # T144
    a, b = agent("a"), agent("b")
    assert call("read_file", a, path="only_b").startswith("error: there is no only_b")
    assert call("read_file", b, path="only_b") == "[the file is empty: 0 lines]"
    assert "in root" in call("read_file", a, path="f")
    assert "in b/deep" in call("read_file", b, path="f")
    where.where["b"] = "a"  # asked for each call
    assert "in a" in call("read_file", b, path="f")


def test_what_tools_show_can_be_given_back(call: Call, agent: Agent, trees: Path) -> None:
    b = agent("b")
    assert call("list_dir", b).splitlines() == ["d/", "f  10 B", "only_b  0 B"]
    assert call("glob", b, pattern="only_*") == "only_b"
    found = call("glob", b, pattern="f", path="../..").splitlines()
    assert sorted(found) == ["../../a/f", "../../b/deep/f", "../../f"]
    assert call("grep", b, pattern="in") == "f:1:in b/deep"
    assert call("grep", b, pattern="in", path=str(trees / "b")) == f"{trees}/b/deep/f:1:in b/deep"
    assert call("grep", b, pattern="in", path=str(trees / "a")) == f"{trees}/a/f:1:in a"
    assert call("read_file", b, path=f"{trees}/a/f") == call("read_file", b, path="../../a/f")


def test_what_is_changed_is_there(call: Call, agent: Agent, trees: Path) -> None:
    b = agent("b")
    assert call("write_file", b, path="f", content="x").startswith("error: f exists and you have not read it")
    call("read_file", b, path="f")
    assert call("edit_file", b, path="f", old_string="in", new_string="out").startswith("edited f:")
    assert call("write_file", b, path="d/new", content="x\n").startswith("created d/new:")
    patch = "*** Begin Patch\n*** Update File: d/new\n*** Move to: moved\n@@\n-x\n+y\n*** End Patch"
    assert "R d/new -> moved" in call("apply_patch", b, patch=patch)
    tree = trees / "b" / "deep"
    assert ((tree / "f").read_text(), (tree / "moved").read_text()) == ("out b/deep\n", "y\n")
    assert (trees / "f").read_text() == "in root\n"
    assert not (tree / "d" / "new").exists()


def test_a_file_is_one_wherever_a_call_starts(
    workspace: Workspace, call: Call, agent: Agent, where: Where, trees: Path
) -> None:
    b = agent("b")
    call("read_file", b, path="f")
    where.where["b"] = ""
    assert call("write_file", b, path="b/deep/f", content="x").startswith("overwrote b/deep/f:")


def test_hosts_are_told_paths_from_the_first_root(workspace: Workspace, agent: Agent, trees: Path) -> None:
    b = agent("b")
    entries = [
        workspace.saw("f", "0" * 64, partial=False, ctx=b),
        write_file_tool(workspace)("new", "x", b).details["file"],
    ]
    assert [entry["path"] for entry in entries] == ["b/deep/f", "b/deep/new"]
    patch = "*** Begin Patch\n*** Update File: new\n*** Move to: moved\n@@\n-x\n+y\n*** End Patch"
    files = apply_patch_tool(workspace)(patch, b).details["files"]
    assert [entry["path"] for entry in files] == ["b/deep/new", "b/deep/moved"]
    later = Workspace(trees)
    later.restore(
        [ToolExecEnd(call_id="c", details={"files": files})], session=b.session, agent=tuple(b.agent)
    )
    assert later.check("b/deep/moved", b, must_exist=True) is None


def test_rules_above_are_obeyed(call: Call, agent: Agent, trees: Path) -> None:
    (trees / ".git").mkdir()
    (trees / ".gitignore").write_text("/b/deep/only_*\n")
    assert call("glob", agent("b"), pattern="*") == "f\n[left out: only_b]"


@pytest.mark.parametrize("start", ["..", "/", "out", "none", "f", "../outside", "~", "a\0"])
def test_it_must_be_a_directory_in_the_roots(
    trees: Path, workspace: Workspace, call: Call, agent: Agent, where: Where, start: str
) -> None:
    (trees.parent / "outside").mkdir()
    (trees / "out").symlink_to("../outside")
    where.where["b"] = start
    b = agent("b")
    for name, args in (("read_file", {"path": "f"}), ("list_dir", {}), ("glob", {"pattern": "*"})):
        assert call(name, b, **args).startswith("error: the working directory can't be used: ")
    for name, args in (("grep", {"pattern": "x"}), ("write_file", {"path": "new", "content": "x"})):
        assert call(name, b, **args).startswith("error: the working directory can't be used: ")
    refused = workspace.check("f", b, must_exist=True)
    assert isinstance(refused, Refused) and "the working directory can't be used" in refused.message


@pytest.mark.parametrize(
    "path", ["../../../outside/f", "d/../../../../outside/f", "out/f", "@../../../outside/f", "~/f"]
)
def test_no_way_leads_out(trees: Path, call: Call, agent: Agent, path: str) -> None:
    (trees.parent / "outside").mkdir()
    (trees.parent / "outside" / "f").write_text("canary\n")
    (trees / "b" / "deep" / "out").symlink_to("../../../outside")
    b = agent("b")
    for name, more in (("read_file", {}), ("grep", {"pattern": "c"}), ("write_file", {"content": "x"})):
        said = call(name, b, path=path, **more)
        assert said.startswith("error: ") and "canary" not in said
    assert (trees.parent / "outside" / "f").read_text() == "canary\n"


def test_a_start_that_is_swapped_for_a_link(trees: Path, workspace: Workspace, agent: Agent) -> None:
    """The way is walked from the root each time: nothing that was looked at before is believed."""
    (trees.parent / "outside" / "deep").mkdir(parents=True)
    (trees.parent / "outside" / "deep" / "f").write_text("canary")
    here = workspace.at(agent("b"))
    (trees / "b").rename(trees / "c")
    (trees / "b").symlink_to("../outside")
    with pytest.raises(ToolError, match="is outside the root directory"):
        here.open_file("f")
    with pytest.raises(ToolError, match="is outside the root directory"), here.place("new"):
        pass


def test_a_start_may_be_a_link_or_in_another_root(tmp_path: Path, trees: Path, agent: Agent) -> None:
    other = tmp_path / "other"
    (other / "d").mkdir(parents=True)
    (other / "d" / "f").write_text("in other")
    (trees / "link").symlink_to("b/deep")
    where = Where(a="link", b=str(other / "d"))
    workspace = Workspace(trees, other, cwd=where)
    for name, text in (("a", "in b/deep\n"), ("b", "in other"), ("c", "in root\n")):
        here = workspace.at(agent(name))
        assert here.at(agent("c")) is here
        with here.open_file("f") as file:
            assert file.read().decode() == text
        assert here.relative(here.where("f")) == "f"
    assert workspace.recorded(workspace.at(agent("b")).where("f")) == f"{other}/d/f"


def test_mentions(trees: Path, workspace: Workspace, agent: Agent) -> None:
    here = workspace.at(agent("b"))
    with here.open_file("@only_b"):
        pass
    with pytest.raises(ToolError, match="there is no @only_a"):
        here.open_file("@only_a")
