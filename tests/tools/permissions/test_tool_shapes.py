"""The table of built-in tools fits the tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.ports import Tool
from unspool.tools import file_tools
from unspool.tools.ask_user import ask_user_tool
from unspool.tools.files.apply_patch import apply_patch_tool
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.multi_edit import multi_edit_tool
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool
from unspool.tools.permissions.requests import request_of
from unspool.tools.permissions.tool_shapes import TABLE
from unspool.tools.shell import bash_tool
from unspool.tools.tasks import Tasks, task_tools
from unspool.tools.todo import todo_tool
from unspool.tools.web import fetch_url_tool

PATCH = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
ARGS: dict[str, tuple[dict[str, Any], str]] = {
    "read_file": ({"path": "a"}, "read"),
    "list_dir": ({}, "read"),
    "glob": ({"pattern": "*"}, "read"),
    "grep": ({"pattern": "x"}, "read"),
    "write_file": ({"path": "a", "content": ""}, "write"),
    "edit_file": ({"path": "a", "old_string": "x", "new_string": "y"}, "write"),
    "multi_edit": ({"path": "a", "edits": []}, "write"),
    "apply_patch": ({"patch": PATCH}, "write"),
    "bash": ({"command": "ls"}, "exec"),
    "fetch_url": ({"url": "https://example.com"}, "network"),
    "todo": ({}, "internal"),
    "ask_user": ({}, "internal"),
    "task_list": ({}, "internal"),
    "task_output": ({"task_id": "x"}, "internal"),
    "task_wait": ({"task_ids": ["x"]}, "internal"),
    "task_stop": ({"task_id": "x"}, "internal"),
}


def built_in(root: Path) -> Iterator[Tool]:
    workspace = Workspace(root)
    yield from file_tools(root)
    for make in (write_file_tool, edit_file_tool, multi_edit_tool, apply_patch_tool):
        yield make(workspace)
    yield from (bash_tool(root), fetch_url_tool(), todo_tool(), ask_user_tool())
    yield from task_tools(Tasks())


@pytest.mark.parametrize("name", ARGS)
def test_the_table_names_arguments_that_there_are(name: str, tmp_path: Path) -> None:
    spec = {tool.spec.name: tool.spec for tool in built_in(tmp_path)}[name]
    shape = TABLE[name]
    named = [*shape.reads, *shape.writes, shape.url, shape.command, shape.code, shape.cwd, shape.patch]
    assert set(filter(None, named)) <= set(spec.schema["properties"])
    args, capability = ARGS[name]
    request = request_of(name, args, spec)
    assert (request.capability, request.unclear) == (capability, "")


def test_every_built_in_tool_is_in_the_table(tmp_path: Path) -> None:
    assert {tool.spec.name for tool in built_in(tmp_path)} == set(ARGS) <= set(TABLE)
