"""What an agent's definition may say, and how lists of agents are made and searched."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from play import echo
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from unspool.kernel.errors import AgentError, ToolError, error_kind
from unspool.kernel.hooks import Hooks
from unspool.kernel.ports import CallOptions, SystemBlock
from unspool.llm.scripted import ScriptedModel
from unspool.subagent.budget import Budget
from unspool.subagent.definition import AgentDefinition, UnknownAgent, definitions, find
from unspool.subagent.definition_checks import DefinitionError

KEY = "sk-ant-api03-abcDEF1234567890abcDEF"


class Question(BaseModel):
    text: str


class Place(TypedDict):
    path: str


@dataclass
class Span:
    first: int
    last: int


class Manager:
    def project(self) -> None: ...


def test_only_a_name_is_needed() -> None:
    agent = AgentDefinition(name="writer")
    assert (agent.model, agent.tools, agent.context, agent.budget) == (None, None, "none", Budget())
    assert repr(agent) == "<agent 'writer'>"  # never the prompt, which may be long or private


FITS: dict[str, dict[str, Any]] = {
    "64 characters": {"name": "aZ0_-" * 12 + "abcd"},
    "a model": {"model": ScriptedModel()},
    "a model's name": {"model": "openai/gpt-5"},
    "blocks": {"system": [SystemBlock(text="Be brief.", cache="1h")]},
    "no tools": {"tools": []},
    "tools, names, patterns": {"tools": [echo("own"), "read_file", "mcp__github__*", "*", "a.b-c"]},
    "a pydantic model": {"input": Question},
    "a TypedDict": {"input": Place},
    "a dataclass": {"input": Span, "output": Span},
    "a list as the answer": {"output": list[Span]},
    "a text as the answer": {"output": str},
    "a class that makes managers": {"context_manager": Manager},
    "hooks that stop": {"hooks": Hooks(stop_after_tool=lambda end: True)},
    "stops": {"stop_after_tool": lambda end: True},
    "handoffs": {"handoffs": ["billing", "billing", "sales"]},
}


@pytest.mark.parametrize("fields", FITS.values(), ids=FITS)
def test_fits(fields: dict[str, Any]) -> None:
    AgentDefinition(**{"name": "writer", **fields})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "agent name is required"),  # T150
    ({"name": None}, "agent name is required"),
    ({"name": "my agent"}, "agent: name: must be 1 to 64 letters, digits, '_' and '-', and no key"),
    ({"name": "a" * 65}, "agent: name: must be 1 to 64"),
    ({"name": "ärger"}, "agent: name: must be 1 to 64"),
    ({"name": "writer\n"}, "agent: name: must be 1 to 64"),
    ({"name": KEY}, "agent: name: must be 1 to 64"),
    ({"description": None}, "agent 'writer': description: expected a text, got NoneType"),
    ({"system": 5}, "agent 'writer': system: expected a list of a text or SystemBlocks, got int"),
    ({"system": ["Be brief."]}, "agent 'writer': system: expected a text or SystemBlocks, got str"),
    ({"model": ScriptedModel}, "agent 'writer': model: expected a ChatModel, a name or None, got type"),
    ({"model": 5}, "agent 'writer': model: expected a ChatModel, a name or None, got int"),
    ({"model": " "}, "agent 'writer': model: the name is empty"),
    ({"model": f"x/{KEY}"}, "agent 'writer': model: its name is recorded and holds no secrets"),
    ({"tools": "read_file"}, "agent 'writer': tools: expected a list of tools and names of tools, got str"),
    ({"tools": [5]}, "agent 'writer': tools[0]: expected a tool or the name of one, got int"),
    ({"tools": [ScriptedModel]}, "agent 'writer': tools[0]: expected a tool or the name of one, got type"),
    ({"tools": ["grep", "re*d"]}, "agent 'writer': tools[1]: not the name of a tool"),
    ({"tools": ["Bash(git:*)"]}, "agent 'writer': tools[0]: not the name of a tool"),
    ({"tools": [echo("a"), echo("a")]}, "agent 'writer': tools: two tools have one name: 'a'"),
    ({"tools": ["a", echo("a")]}, "agent 'writer': tools: two tools have one name: 'a'"),
    ({"leave_out": "shell"}, "agent 'writer': leave_out: expected a list of names of tools, got str"),
    ({"leave_out": [echo("a")]}, "agent 'writer': leave_out[0]: not the name of a tool"),
    ({"thinking": "hard"}, "agent 'writer': thinking: no such level: 'hard'; there are off, minimal, low"),
    ({"thinking": 3}, "agent 'writer': thinking: no such level: a int"),
    ({"options": {}}, "agent 'writer': options: expected CallOptions or None, got dict"),
    (
        {"context": "shared"},
        "agent 'writer': context: no such mode: 'shared'; there are none, isolated, fork",
    ),
    ({"context": KEY}, "agent 'writer': context: no such mode: a secret"),
    ({"context_manager": Manager()}, "agent 'writer': context_manager: each run needs its own"),
    ({"context_manager": 5}, "agent 'writer': context_manager: expected a function of the model, got int"),
    ({"input": int}, "agent 'writer': input: schema: the arguments of a tool are an object"),
    ({"input": ScriptedModel}, "agent 'writer': input: schema: the type has no JSON form"),
    ({"output": ScriptedModel}, "agent 'writer': output: schema: the type has no JSON form"),
    ({"budget": {"turns": 5}}, "agent 'writer': budget: expected a Budget, got dict"),
    ({"retry": 3}, "agent 'writer': retry: expected Retry or None, got int"),
    ({"hooks": {}}, "agent 'writer': hooks: expected Hooks or None, got dict"),
    ({"hooks": Hooks(), "stop_after_tool": bool}, "agent 'writer': stop_after_tool: there are hooks"),
    (
        {"stop_after_tool": "done"},
        "agent 'writer': stop_after_tool: expected a function of a result, got str",
    ),
    ({"on_message": []}, "agent 'writer': on_message: expected a function, got list"),
    ({"background": 1}, "agent 'writer': background: expected True or False, got int"),
    ({"handoffs": "sales"}, "agent 'writer': handoffs: expected a list of names of agents, got str"),
    ({"handoffs": ["a b"]}, "agent 'writer': handoffs[0]: not the name of an agent"),
    ({"handoffs": ["writer"]}, "agent 'writer': handoffs: an agent cannot hand over to itself"),
    ({"metadata": []}, "agent 'writer': metadata: expected a mapping, got list"),
]


@pytest.mark.parametrize(("fields", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        AgentDefinition(**{"name": "writer", **fields})
    assert str(caught.value).startswith(text)
    assert KEY not in str(caught.value)
    assert isinstance(caught.value, AgentError) and isinstance(caught.value, ValueError)


def test_lists_become_tuples_and_what_was_given_may_change() -> None:
    tools, metadata = ["read_file"], {"team": "docs"}
    agent = AgentDefinition(
        name="a", tools=tools, leave_out=["shell"], metadata=metadata, handoffs=("b", "c", "b")
    )
    tools.append("shell")
    metadata["team"] = "other"
    assert (agent.tools, agent.leave_out, agent.handoffs) == (("read_file",), ("shell",), ("b", "c"))
    assert agent.metadata == {"team": "docs"}


def test_a_definition_is_changed_by_a_copy_that_is_checked_too() -> None:
    agent = AgentDefinition(name="a", options=CallOptions(temperature=0.0))
    other = dataclasses.replace(agent, thinking="high")
    assert (other.thinking, other.options) == ("high", agent.options)
    with pytest.raises(DefinitionError, match="agent 'a': context: no such mode"):
        dataclasses.replace(agent, context="all")  # type: ignore[arg-type]  # as a host without a type checker


# --- lists of agents ---------------------------------------------------------------------------


def agents(*names: str, **handoffs: list[str]) -> list[AgentDefinition]:
    return [AgentDefinition(name=name, handoffs=tuple(handoffs.get(name, ()))) for name in names]


def test_sorted_by_name_so_that_models_read_the_same() -> None:  # G.1.10
    in_order = [agent.name for agent in definitions(agents("b", "a", "B", "_", "a-b"))]
    assert in_order == ["B", "_", "a", "a-b", "b"]
    assert definitions(agents("b", "a")) == definitions(agents("a", "b"))
    assert definitions([]) == ()


def test_two_agents_of_one_name() -> None:  # T151
    with pytest.raises(DefinitionError) as caught:
        definitions(agents("writer", "editor", "writer"))
    assert str(caught.value) == "agents: two agents have one name: 'writer'"
    [agent] = agents("writer")
    with pytest.raises(DefinitionError, match="two agents have one name: 'writer'"):
        definitions([agent, agent])


def test_handing_over_to_nobody() -> None:
    with pytest.raises(DefinitionError) as caught:
        definitions(agents("triage", "sales", triage=["sales", "billing", "legal"]))
    assert str(caught.value) == (
        "agent 'triage': handoffs: no such agent: billing, legal; there are sales, triage"
    )
    assert len(definitions(agents("triage", "sales", triage=["sales"], sales=["triage"]))) == 2  # in circles


def test_found_by_name() -> None:
    both = definitions(agents("writer", "editor"))
    assert find(both, "writer").name == "writer"


@pytest.mark.parametrize(
    ("names", "name", "text"),
    [
        (["writer", "editor"], "ghost", "no such agent: 'ghost'; there are editor, writer"),  # T153, G.1.11
        (["writer"], "Writer", "no such agent: 'Writer'; there are writer"),
        ([], "ghost", "no such agent: 'ghost'; there are none"),
        (["writer"], "x" * 100, f"no such agent: '{'x' * 64}…'; there are writer"),
    ],
)
def test_not_found(names: list[str], name: str, text: str) -> None:
    with pytest.raises(UnknownAgent) as caught:
        find(agents(*names), name)
    assert str(caught.value) == text
    assert isinstance(caught.value, ToolError) and error_kind(caught.value) == "tool_error"


def test_importing_definitions_loads_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys, unspool.subagent.definition, unspool.subagent.markdown\n"
        "print([name for name in ('pydantic', 'yaml', 'jsonschema_rs') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
