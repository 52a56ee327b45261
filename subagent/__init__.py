"""Agents as tools, and handoffs: an agent that runs others, each in a session of its own."""

if __name__ != "unspool.subagent":
    raise ImportError("subagent/ is not a top-level package: import unspool.subagent")

from .budget import Budget, TreeLimits
from .definition import AgentDefinition, UnknownAgent, UnknownTool, definitions
from .definition_checks import DefinitionError
from .markdown import parse_definition, read_definition, read_definitions

__all__ = [
    "AgentDefinition",
    "Budget",
    "DefinitionError",
    "TreeLimits",
    "UnknownAgent",
    "UnknownTool",
    "definitions",
    "parse_definition",
    "read_definition",
    "read_definitions",
]
