"""An agent made of a definition, as a member of a team.

Read with: ``unspool.subagent.definition`` (what is defined), ``team.py``.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from unspool.kernel.agent import Agent
from unspool.kernel.agent_options import AgentOptions
from unspool.kernel.hooks import Hooks
from unspool.kernel.limits import Limits
from unspool.kernel.model_names import model_of
from unspool.kernel.ports import ChatModel, Clock, EventLog, SystemBlock, Tool
from unspool.subagent.definition import AgentDefinition, select_tools

from .errors import TeamError


def agent_of(
    definition: AgentDefinition,
    *,
    name: str,
    model: ChatModel | str | None,
    tools: Sequence[Tool],
    team_tools: Sequence[Tool],
    introduction: str,
    log: EventLog | None,
    clock: Clock,
    hooks: Hooks | None,
) -> Agent[Any]:
    """The agent of a member; ``model``, ``tools`` and ``hooks`` are the team's, for what the definition leaves open.

    Raises:
        TeamError: neither names a model.
        UnknownTool: the definition names a tool that the team does not have.
        ToolDefinitionError: the tools cannot be used together.
    """
    wanted = definition.model if definition.model is not None else model
    if wanted is None:
        raise TeamError(
            f"agent {definition.name!r} names no model, and the team has none", agent=definition.name
        )
    chat = model_of(wanted)
    options: dict[str, Any] = {
        "name": name,
        "log": log,
        "clock": clock,
        "limits": definition.budget.limits(Limits()),
        "hooks": _hooks(definition, hooks),
    }
    for key, value in (
        ("options", definition.options),
        ("thinking", definition.thinking),
        ("retry", definition.retry),
        ("output", definition.output),
    ):
        if value is not None:
            options[key] = value
    if definition.context_manager is not None:
        options["context"] = definition.context_manager(chat)
    system = with_introduction(definition.system, introduction)
    chosen = (*select_tools(definition, tools), *team_tools)
    return Agent(chat, tools=chosen, system=system, **cast("AgentOptions", options))


def with_introduction(
    system: str | Sequence[SystemBlock], introduction: str
) -> str | tuple[SystemBlock, ...]:
    """A prompt, and after it what it says of the team."""
    if isinstance(system, str):
        return f"{system}\n\n{introduction}" if system else introduction
    return (*system, SystemBlock(text=introduction))


def _hooks(definition: AgentDefinition, inherited: Hooks | None) -> Hooks:
    """Hooks of its own; else the gate and the approvals of the team."""
    if definition.hooks is not None:
        return definition.hooks
    base = Hooks() if inherited is None else Hooks(gate=inherited.gate, approve=inherited.approve)
    return dataclasses.replace(base, stop_after_tool=definition.stop_after_tool)
