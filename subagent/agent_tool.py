"""One agent as a tool of its own, with typed arguments and a typed answer.

Read with: ``subagents.py``, ``subagent_tool.py``.
"""

from typing import TYPE_CHECKING, Any

from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.json_edge import encode_text
from unspool.kernel.ports import JSON, ToolContext
from unspool.kernel.type_schema import as_tool_schema

from .background import OpenOutput
from .call import Assignment, Host
from .definition import AgentDefinition
from .subagent_tool import alone, check_task, in_background
from .texts import ABOUT_TASK, ABOUT_THREAD
from .typed import problem_with

if TYPE_CHECKING:
    from .subagents import Subagents


def agent_tool(
    definition: AgentDefinition, *, subagents: "Subagents", name: str = "", description: str = ""
) -> RawTool:
    """A tool that calls one agent; it need not be among those of ``subagents``, which runs it.

    The arguments are those of ``definition.input``, which the agent gets as JSON; without it a task in words. The
    answer is JSON where ``definition.output`` says of which type.

    Raises:
        ToolDefinitionError: the name can't be used.
        DefinitionError: the agent cannot be called so.
    """
    return subagents.tool_for(definition, name=name, description=description)


def _schema(*, threads: bool) -> dict[str, Any]:
    """The arguments of an agent that is given its task in words."""
    properties = {"task": {"type": "string", "description": ABOUT_TASK}}
    if threads:
        properties["thread"] = {"type": "string", "description": ABOUT_THREAD}
    return {"type": "object", "properties": properties, "required": ["task"], "additionalProperties": False}


def make_agent_tool(
    host: Host, agent: AgentDefinition, open_output: OpenOutput | None, name: str, description: str
) -> RawTool:
    """See ``agent_tool``."""
    typed = agent.input is not None
    threads = not typed and agent.context != "isolated"

    async def run(args: JSON, ctx: ToolContext) -> object:
        task = encode_text(dict(args)) if typed else check_task(args["task"])
        work = Assignment(agent, task, thread=args.get("thread", "") if threads else "", threads=threads)
        if agent.background:
            return await in_background(host, ctx, work, open_output, "")
        return await alone(host, ctx, work)

    def validate(args: JSON, ctx: ToolContext) -> str | None:
        return problem_with(agent.input, args)

    return raw_tool(
        name or agent.name,
        description or agent.description or f"Have the agent {agent.name} do a task.",
        as_tool_schema(agent.input) if typed else _schema(threads=threads),
        run,
        validate=validate if typed else None,
        idempotent=True,
        concurrency_safe=True,
        activity=f"running agent {agent.name}",
    )
