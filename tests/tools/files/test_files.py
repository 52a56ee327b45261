"""The set of file tools: what a host and a model are told, and what an import costs."""

import subprocess
import sys
from pathlib import Path

import pytest

from unspool.kernel.errors import ToolDefinitionError
from unspool.tools import Root, file_tools


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
