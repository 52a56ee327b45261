"""Agents read from Markdown files: what each key becomes, and which files of a folder are read."""

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from play import echo

from unspool.kernel.ports import CallOptions, ChatModel
from unspool.llm.scripted import ScriptedModel
from unspool.subagent import markdown
from unspool.subagent.budget import Budget
from unspool.subagent.definition import AgentDefinition, definitions, select_tools
from unspool.subagent.definition_checks import DefinitionError
from unspool.subagent.markdown import parse_definition, read_definition, read_definitions

WHOLE = """\
---
name: reviewer
description: >
  Reviews a change.
  Use it before each commit.
tools: read_file, grep, mcp__github__*
disallowed-tools: [mcp__github__push]
model: openai/gpt-5
thinking: high
temperature: 0
max_turns: 20
budget: {tokens: 50000, cost: 0.5, seconds: 90}
context: isolated
background: true
handoffs: writer
color: blue
x-team: docs
metadata:
  owner: [ann, bob]
---

# Review

You review code.

---
Say what is wrong.
"""


def test_a_whole_file(tmp_path: Path) -> None:
    (path := tmp_path / "any.md").write_text(WHOLE)
    assert read_definition(path) == AgentDefinition(
        name="reviewer",
        description="Reviews a change. Use it before each commit.",
        system="# Review\n\nYou review code.\n\n---\nSay what is wrong.",
        model="openai/gpt-5",
        tools=("read_file", "grep", "mcp__github__*"),
        leave_out=("mcp__github__push",),
        thinking="high",
        options=CallOptions(temperature=0.0),
        context="isolated",
        budget=Budget(turns=20, tokens=50_000, cost=0.5, seconds=90.0),
        background=True,
        handoffs=("writer",),
        metadata={"owner": ["ann", "bob"], "x-team": "docs", "color": "blue"},
        source=str(path),
    )


def test_nothing_is_required_but_a_prompt(tmp_path: Path) -> None:
    (path := tmp_path / "code-reviewer.md").write_text("---\n---\nReview.")
    assert read_definition(path) == AgentDefinition(name="code-reviewer", system="Review.", source=str(path))


def test_the_example_of_the_documentation() -> None:
    example = (markdown.__doc__ or "").partition("::\n\n")[2].partition("\n\nKeys:")[0]
    agent = parse_definition(textwrap.dedent(example))
    assert (agent.name, agent.budget) == ("reviewer", Budget(turns=20))
    assert agent.tools == ("read_file", "grep", "mcp__github__*")


KEYS: list[tuple[str, dict[str, Any]]] = [
    ("model: inherit", {"model": None}),
    ("model: sonnet", {"model": "sonnet"}),
    ("tools: []", {"tools": ()}),
    ('tools: "*"', {"tools": ("*",)}),
    ("tools: read_file,grep ,", {"tools": ("read_file", "grep")}),
    ("tools:\n  - read_file\n  - grep", {"tools": ("read_file", "grep")}),
    ("leave_out: shell", {"leave_out": ("shell",)}),
    ("leave-out: shell", {"leave_out": ("shell",)}),
    ("disallowedTools: shell", {"leave_out": ("shell",)}),
    ("disallowed_tools: [shell]", {"leave_out": ("shell",)}),
    ("thinking: off", {"thinking": "off"}),  # which YAML reads as false
    ("thinking: 'off'", {"thinking": "off"}),
    ("effort: max", {"thinking": "max"}),
    ("maxTurns: 3", {"budget": Budget(turns=3)}),
    ("max-turns: 3", {"budget": Budget(turns=3)}),
    ("max_turns: 3\nbudget: {cost: 1}", {"budget": Budget(turns=3, cost=1.0)}),
    ("budget: {turns: 3, tool_calls: 9}", {"budget": Budget(turns=3, tool_calls=9)}),
    ("budget: {}", {"budget": Budget()}),
    ("context: fork", {"context": "fork"}),
    ("background: no", {"background": False}),
    ("handoffs: [b, c]", {"handoffs": ("b", "c")}),
    ("mode: subagent", {"metadata": {"mode": "subagent"}}),
    ("x-a: 1\nx-b: {c: null}", {"metadata": {"x-a": 1, "x-b": {"c": None}}}),
    ("description: 'yes: it is'", {"description": "yes: it is"}),
    ("# a comment\nname: other", {"name": "other"}),
]


@pytest.mark.parametrize(("front", "fields"), KEYS, ids=[front for front, _ in KEYS])
def test_keys(front: str, fields: dict[str, Any]) -> None:
    agent = parse_definition(f"---\n{front}\n---\nGo.", name="a")
    assert agent == AgentDefinition(**{"name": "a", "system": "Go.", **fields})


SAME: dict[str, bytes] = {
    "as it is": b"---\nname: a\n---\nOne.\n\nTwo.\n",
    "BOM": b"\xef\xbb\xbf---\nname: a\n---\nOne.\n\nTwo.\n",
    "CRLF": b"---\r\nname: a\r\n---\r\nOne.\r\n\r\nTwo.\r\n",
    "CR": b"---\rname: a\r---\rOne.\r\rTwo.\r",
    "spaces after the fences": b"--- \nname: a\n---\t\nOne.\n\nTwo.",
    "empty lines around the text": b"---\nname: a\n---\n\n\nOne.\n\nTwo.\n\n\n",
}


@pytest.mark.parametrize("data", SAME.values(), ids=SAME)
def test_read_the_same_however_it_was_saved(data: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "b.md").write_bytes(data)
    agent = read_definition(path)
    assert (agent.name, agent.system) == ("a", "One.\n\nTwo.")


# --- models and tools of the host --------------------------------------------------------------


def test_names_of_models_that_the_host_knows() -> None:
    small = ScriptedModel()
    models: dict[str, ChatModel | str] = {"haiku": small, "sonnet": "openai/gpt-5"}
    found = [
        parse_definition(f"---\nmodel: {name}\n---\nGo.", name="a", models=models).model
        for name in ("haiku", "sonnet", "opus", "inherit")
    ]
    assert found == [small, "openai/gpt-5", "opus", None]


def test_tools_are_looked_up_early_where_they_are_known() -> None:
    tools = [echo("read_file"), echo("shell")]
    text = "---\ntools: [read_file, mcp__*]\nleave_out: shell\n---\nGo."
    agent = parse_definition(text, name="a", tools=tools)
    assert [tool.spec.name for tool in select_tools(agent, tools)] == ["read_file"]


@pytest.mark.parametrize(
    ("front", "text"),
    [
        ("name: a\ntools: read_file, Grep", "a.md:3: tools: no such tool: Grep; there are read_file, shell"),
        # a misspelled tool that is left out would be given
        (
            "disallowedTools: [Shell]",
            "a.md:2: disallowedTools: no such tool: Shell; there are read_file, shell",
        ),
    ],
)
def test_unknown_tools(front: str, text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_definition(
            f"---\n{front}\n---\nGo.", name="a", source="a.md", tools=[echo("read_file"), echo("shell")]
        )
    assert str(caught.value) == text


# --- folders -----------------------------------------------------------------------------------


def put(path: Path, front: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}\n---\nGo.")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "agents" / "z.md", "name: alpha")
    put(tmp_path / "agents" / "b.md")
    put(tmp_path / "agents" / "below" / "c.md")
    put(tmp_path / "agents" / "below" / "deeper" / "d.md")
    put(tmp_path / "agents" / ".hidden.md", "no such key: x")
    put(tmp_path / "agents" / ".git" / "e.md")
    put(tmp_path / "agents" / "notes.txt", "no such key: x")
    (tmp_path / "agents" / "f.md").mkdir()
    put(tmp_path / "elsewhere" / "g.md")
    (tmp_path / "agents" / "link.md").symlink_to(tmp_path / "elsewhere" / "g.md")
    (tmp_path / "agents" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "agents" / "below" / "loop").symlink_to(tmp_path / "agents")
    return tmp_path / "agents"


def test_regular_files_of_the_folder_sorted_by_name(folder: Path) -> None:
    assert [agent.name for agent in read_definitions(folder)] == ["alpha", "b"]
    assert [agent.name for agent in read_definitions(str(folder), recursive=True)] == ["alpha", "b", "c", "d"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    assert len(read_definitions(folder)) == 2
    with pytest.raises(DefinitionError, match=r"pipe\.md: not a regular file"):
        read_definition(folder / "pipe.md")


def test_two_files_of_one_name(folder: Path) -> None:
    other = put(folder / "y.md", "name: alpha")
    with pytest.raises(DefinitionError) as caught:
        read_definitions(folder)
    assert str(caught.value).startswith("agents: two agents have one name: 'alpha'")
    assert caught.value.details == {"files": [str(other), str(folder / "z.md")]}


def test_agents_of_files_and_of_code_hand_over_to_each_other(tmp_path: Path) -> None:
    put(tmp_path / "triage.md", "handoffs: sales")
    read = read_definitions(tmp_path)
    both = definitions([*read, AgentDefinition(name="sales", handoffs=("triage",))])
    assert [agent.name for agent in both] == ["sales", "triage"]
    with pytest.raises(DefinitionError, match="no such agent: sales; there are triage"):
        definitions(read)


def test_an_empty_folder_and_one_that_is_not_there(tmp_path: Path) -> None:
    assert read_definitions(tmp_path) == ()
    with pytest.raises(FileNotFoundError):
        read_definitions(tmp_path / "agents")
    with pytest.raises(FileNotFoundError):
        read_definition(tmp_path / "a.md")


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError) as caught:
        parse_definition(WHOLE)
    assert str(caught.value) == "agents: PyYAML is not installed: pip install 'unspool[agents]'"
