"""Agents as tools, and handoffs: an agent that runs others, each in a session of its own."""

if __name__ != "unspool.subagent":
    raise ImportError("subagent/ is not a top-level package: import unspool.subagent")

from .agent_tool import agent_tool
from .background import OpenOutput, OutputFile
from .budget import Budget, TreeLimits
from .call import RunningChild
from .definition import AgentDefinition, UnknownAgent, UnknownTool, definitions
from .definition_checks import DefinitionError
from .handoff_filters import (
    InputFilter,
    as_history,
    keep_all,
    last,
    only_user_and_answers,
    without_tools,
)
from .handoff_options import HandoffOptions, OnHandoff
from .handoff_usage import usage_by_agent
from .handoffs import HandoffAgent
from .markdown import parse_definition, read_definition, read_definitions
from .session_log import Wait
from .session_tree import (
    Problem,
    SessionNode,
    check_accounting,
    read_tree,
    read_trees,
    usage_of_trees,
    waits,
    walk,
)
from .subagents import Subagents

__all__ = [
    "AgentDefinition",
    "Budget",
    "DefinitionError",
    "HandoffAgent",
    "HandoffOptions",
    "InputFilter",
    "OnHandoff",
    "OpenOutput",
    "OutputFile",
    "Problem",
    "RunningChild",
    "SessionNode",
    "Subagents",
    "TreeLimits",
    "UnknownAgent",
    "UnknownTool",
    "Wait",
    "agent_tool",
    "as_history",
    "check_accounting",
    "definitions",
    "keep_all",
    "last",
    "only_user_and_answers",
    "parse_definition",
    "read_definition",
    "read_definitions",
    "read_tree",
    "read_trees",
    "usage_by_agent",
    "usage_of_trees",
    "waits",
    "walk",
    "without_tools",
]
