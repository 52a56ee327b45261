"""The set of file tools: what a host and a model are told, and what an import costs."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.errors import ToolDefinitionError
from unspool.tools import Root, file_tools
from unspool.tools.files.glob import glob_tool
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.list_dir import list_dir_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool


def test_the_tools(root: Path) -> None:
    tools = file_tools(root)
    assert [tool.spec.name for tool in tools] == ["read_file", "list_dir", "glob", "grep"]
    for tool in tools:
        assert (tool.spec.read_only, tool.spec.concurrency_safe) == (True, None)
        properties = tool.spec.schema["properties"]
        assert "ctx" not in properties
        assert tool.spec.description and all(shown["description"] for shown in properties.values())
    assert len(file_tools(Root(root))) == 4


def test_a_root_that_does_not_exist(root: Path) -> None:
    with pytest.raises(ToolDefinitionError, match=r"root: does not exist \(path="):
        file_tools(root / "none")


def test_importing_loads_nothing_heavy() -> None:
    code = """if True:
        import sys, unspool.tools
        print([name for name in ("jsonschema_rs", "pydantic", "regex") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.anyio
async def test_they_are_tools(tmp_path: Path) -> None:
    """They keep to the protocol, each in a tree of its own; those that edit: ``test_edit_file.py``."""
    count = itertools.count()

    def tree() -> Workspace:
        root = tmp_path / str(next(count))
        (root / "d").mkdir(parents=True)
        (root / "d" / "f.txt").write_text("a\nb\n")
        return Workspace(root, read_before_write=False)

    await check_tool(
        lambda: read_file_tool(tree()),
        args=[{"path": "d/f.txt"}, {"path": "d/f.txt", "offset": 2, "limit": 1, "column": 1}, {"path": "d"}],
        bad_args=[{}, {"path": 1}, {"path": "d", "offset": "1"}],
        failing_args=[{"path": "g"}, {"path": "../x"}, {"path": "d/f.txt", "offset": 3}],
    )
    await check_tool(
        lambda: list_dir_tool(tree()),
        args=[{}, {"path": "d", "depth": 9}],
        bad_args=[{"path": 1}],
        failing_args=[{"path": "g"}, {"path": "d/f.txt"}],
    )
    await check_tool(
        lambda: glob_tool(tree()),
        args=[{"pattern": "*"}, {"pattern": "*.txt", "path": "d", "no_ignore": True}],
        bad_args=[{}, {"pattern": 1}],
        failing_args=[{"pattern": ""}, {"pattern": "/*"}, {"pattern": "*", "path": "g"}],
    )
    await check_tool(
        lambda: grep_tool(tree()),
        args=[{"pattern": "a"}, {"pattern": ".", "path": "d", "glob": "*.txt", "context": 1, "limit": 1}],
        bad_args=[{}, {"pattern": "a", "context": "1"}],
        failing_args=[{"pattern": "("}, {"pattern": "a", "path": "g"}],
    )
    await check_tool(
        lambda: write_file_tool(tree()),
        args=[{"path": "d/f.txt", "content": "c\n"}, {"path": "e/g", "content": ""}],
        bad_args=[{"path": "f"}, {"path": "f", "content": 1}],
        failing_args=[{"path": "d", "content": ""}, {"path": "../x", "content": ""}],
    )
