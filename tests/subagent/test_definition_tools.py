"""Which tools an agent gets, given those of its caller."""

from typing import Any

import pytest
from play import echo

from unspool.kernel.errors import ToolError
from unspool.subagent.definition import AgentDefinition, UnknownTool, select_tools

THEIRS = [echo(name) for name in ("read_file", "shell", "mcp__git__log", "mcp__git__push", "write_file")]
OWN = echo("own")
OWN_SHELL = echo("shell")

GETS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all of the caller's": ({}, ["read_file", "shell", "mcp__git__log", "mcp__git__push", "write_file"]),
    "none": ({"tools": []}, []),
    "by name, in the caller's order": ({"tools": ["write_file", "read_file"]}, ["read_file", "write_file"]),
    "by pattern": ({"tools": ["mcp__git__*"]}, ["mcp__git__log", "mcp__git__push"]),
    "by name and pattern, each once": (
        {"tools": ["mcp__*", "mcp__git__log", "read_file", "read_file"]},
        ["read_file", "mcp__git__log", "mcp__git__push"],
    ),
    "a pattern that finds nothing": ({"tools": ["mcp__jira__*", "shell"]}, ["shell"]),
    "a pattern is no part of a name": ({"tools": ["hell*"]}, []),
    "all but some": (
        {"leave_out": ["shell", "mcp__*"]},
        ["read_file", "write_file"],
    ),
    "what is left out was never there": ({"leave_out": ["browser"], "tools": ["shell"]}, ["shell"]),
    "left out goes before named": ({"tools": ["shell", "read_file"], "leave_out": ["shell"]}, ["read_file"]),
    "everything left out": ({"leave_out": ["*"]}, []),
    "its own after the caller's": ({"tools": [OWN, "read_file"]}, ["read_file", "own"]),
    "its own are not left out": ({"tools": [OWN], "leave_out": ["*"]}, ["own"]),
}


@pytest.mark.parametrize(("fields", "names"), GETS.values(), ids=GETS)
def test_gets(fields: dict[str, Any], names: list[str]) -> None:
    chosen = select_tools(AgentDefinition(name="a", **fields), THEIRS)
    assert [tool.spec.name for tool in chosen] == names


def test_its_own_stands_in_for_the_callers() -> None:
    chosen = select_tools(AgentDefinition(name="a", tools=["*", OWN_SHELL]), THEIRS)
    assert [tool for tool in chosen if tool.spec.name == "shell"] == [OWN_SHELL]
    assert len(chosen) == len(THEIRS)


def test_a_tool_that_the_caller_lacks_is_not_given() -> None:
    agent = AgentDefinition(name="writer", tools=["read_file", "browser", "Shell", "mcp__*"])
    with pytest.raises(UnknownTool) as caught:
        select_tools(agent, THEIRS)
    assert str(caught.value) == (
        "agent 'writer': no such tool: browser, Shell; "
        "there are mcp__git__log, mcp__git__push, read_file, shell, write_file"
    )
    assert isinstance(caught.value, ToolError)
    with pytest.raises(UnknownTool, match="there are none"):
        select_tools(agent, [])
