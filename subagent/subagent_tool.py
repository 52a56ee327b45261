"""The tool ``subagent``: one agent, several side by side, or a chain of them.

Read with: ``subagents.py`` (the owner), ``child.py``, ``results.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from unspool.kernel.errors import ToolError, describe
from unspool.kernel.events import NestedCall
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.nesting import Suspended
from unspool.kernel.ports import JSON, ChatModel, ToolContext, ToolResult

from .background import OpenOutput, start_in_background
from .call import Assignment, Call, Host
from .child import run_child
from .definition import AgentDefinition, find
from .listening import Waiting
from .results import ChildResult, Failed, chain_result, parallel_result
from .texts import ABOUT_TASK, ABOUT_THREAD, ONE_MODE

MAX_CHILDREN = 32  # in one call
PREVIOUS = "{previous}"
_ABOUT = "Have an agent do a task in a conversation of its own; you get its answer."


def subagent_tool(
    host: Host, agents: Sequence[AgentDefinition], name: str, open_output: OpenOutput | None, *, models: bool
) -> RawTool:
    """The tool on these agents, sorted by name; ``models`` says whether a call may choose the model."""

    async def run(args: JSON, ctx: ToolContext) -> object:
        return await _Request(host, agents, ctx, open_output, models=models).answer(args)

    return raw_tool(
        name,
        describe_agents(agents),
        _schema(agents, background=host.tasks is not None, models=models),
        run,
        idempotent=True,  # a call that runs again finds its children
        concurrency_safe=True,
        activity=_activity,
    )


def describe_agents(agents: Sequence[AgentDefinition]) -> str:
    """What the tool says of itself: the same bytes for the same agents."""
    lines = [
        f"- {agent.name}: {agent.description}" if agent.description else f"- {agent.name}" for agent in agents
    ]
    return "\n".join([_ABOUT, "Give agent and task, or tasks, or chain.", "", "Agents:", *lines])


def _schema(agents: Sequence[AgentDefinition], *, background: bool, models: bool) -> dict[str, Any]:
    agent = {"type": "string", "enum": [each.name for each in agents]}
    task = {"type": "string", "description": ABOUT_TASK}
    step = {
        "type": "object",
        "properties": {"agent": agent, "task": {"type": "string"}},
        "required": ["agent", "task"],
    }
    several = {"type": "array", "items": step, "maxItems": MAX_CHILDREN}
    properties: dict[str, Any] = {
        "agent": agent,
        "task": task,
        "thread": {"type": "string", "description": ABOUT_THREAD},
        "tasks": {**several, "description": "run these side by side"},
        "chain": {**several, "description": f"run these one after another; {PREVIOUS} is the answer before"},
        "description": {"type": "string", "description": "what it is about, in a few words"},
    }
    if background:
        properties["background"] = {
            "type": "boolean",
            "description": "return at once, with the id of a task; you are told when it has ended",
        }
    if models:
        properties["model"] = {"type": "string", "description": "another model than the agent's"}
    return {"type": "object", "properties": properties}


def _activity(args: JSON) -> str:
    for name in ("tasks", "chain"):
        if isinstance(several := args.get(name), list) and several:
            return f"running {len(several)} agents"
    return f"running agent {str(args.get('agent', ''))[:64]}"


class _Request:
    """One call of the tool."""

    def __init__(
        self,
        host: Host,
        agents: Sequence[AgentDefinition],
        ctx: ToolContext,
        open_output: OpenOutput | None,
        *,
        models: bool,
    ) -> None:
        self._host, self._agents, self._ctx = host, agents, ctx
        self._open_output, self._models = open_output, models

    async def answer(self, args: JSON) -> object:
        """The result of the call."""
        model = self._model(args)
        modes = [name for name in ("tasks", "chain") if args.get(name)]
        single = "agent" in args or "task" in args
        if len(modes) + single != 1 or (single and not (args.get("agent") and args.get("task"))):
            raise ToolError(ONE_MODE)
        if not single:
            return await self._several(args, modes[0], model)
        agent = find(self._agents, args["agent"])
        work = Assignment(agent, check_task(args["task"]), model=model, thread=args.get("thread", ""))
        if args.get("background", agent.background):
            description = args.get("description", "")
            return await in_background(self._host, self._ctx, work, self._open_output, description)
        return await alone(self._host, self._ctx, work)

    def _model(self, args: JSON) -> ChatModel | None:
        name = args.get("model")
        if not name:
            return None
        if not self._models:
            raise ToolError("model: there is no choice of models here, leave it out")
        return self._host.resolve_model(name)

    async def _several(self, args: JSON, mode: str, model: ChatModel | None) -> ToolResult:
        if args.get("background"):
            raise ToolError("background: for one agent and task only")
        if args.get("thread"):
            raise ToolError("thread: for one agent and task only")
        steps: list[Mapping[str, str]] = args[mode]
        if len(steps) > MAX_CHILDREN:
            raise ToolError(f"{mode}: at most {MAX_CHILDREN}")
        kind = "parallel" if mode == "tasks" else "chain"
        works = [
            Assignment(find(self._agents, step["agent"]), check_task(step["task"]), str(number), kind, model)
            for number, step in enumerate(steps, 1)
        ]
        call = Call(self._host, self._ctx)
        async with call.waiting():
            return await (_parallel(call, works) if kind == "parallel" else _chain(call, works))


def check_task(task: str) -> str:
    """The task itself.

    Raises:
        ToolError: it says nothing.
    """
    if not task.strip():
        raise ToolError("task: it is empty; say what the agent is to do")
    return task


async def alone(host: Host, ctx: ToolContext, work: Assignment) -> object:
    """The result of a call of one agent.

    Raises:
        ToolError: it has none.
        Suspended: it waits for a person.
    """
    call = Call(host, ctx)
    async with call.waiting():
        result = await run_child(call, work, Waiting(call, work.agent.name, work.place))
    if result.cancelled and call.stopping:
        raise ToolError(result.text, **result.details)  # the call is told as cancelled, with these words
    return result.answer()


async def in_background(
    host: Host, ctx: ToolContext, work: Assignment, open_output: OpenOutput | None, description: str
) -> ToolResult:
    """The result of a call that starts a task; also where it may start none."""
    tasks = host.tasks
    if tasks is None:
        raise ToolError("background: there is no task runtime here; call the agent without background")
    work = work._replace(mode="background")
    call = Call(host, ctx, detached=True)
    try:
        task = await start_in_background(call, work, tasks, open_output, description)
    except ToolError as error:
        return ToolResult(content={"error": error.args[0]}, details=dict(error.details), is_error=True)
    finally:
        call.node.drop_if_idle()
    thread = await call.session_of(work)
    told = {"task_id": task.id, "description": task.description, "status": task.status, "thread": thread}
    return ToolResult(
        content=told, details={"task": task.details, "agent": work.agent.name, "session": thread}
    )


async def _one(
    call: Call, work: Assignment, started: Callable[[], None] = lambda: None
) -> ChildResult | Failed | Suspended:
    """What one of several came to, whatever it is."""
    try:
        return await run_child(call, work, Waiting(call, work.agent.name, work.place, started))
    except Suspended as suspended:
        return suspended
    except Exception as error:  # noqa: BLE001 (of a log, or of what a definition gives: the others go on)
        text = error.args[0] if isinstance(error, ToolError) and error.args else describe(error)
        return Failed(work.agent.name, text)


async def _parallel(call: Call, works: Sequence[Assignment]) -> ToolResult:
    found: dict[str, ChildResult | Failed | Suspended] = {}

    async def run(work: Assignment, begun: anyio.Event) -> None:
        try:
            found[work.place] = await _one(call, work, begun.set)
        finally:
            begun.set()

    async with anyio.create_task_group() as group:
        for work in works:
            begun = anyio.Event()
            group.start_soon(run, work, begun)
            await begun.wait()  # they begin in order, and run side by side
    in_order = [found[work.place] for work in works]
    waiting: list[NestedCall] = []
    results: list[ChildResult | Failed] = []
    for each in in_order:
        if isinstance(each, Suspended):
            waiting.extend(each.calls)
        else:
            results.append(each)
    if waiting:
        raise Suspended(waiting)
    return _unless_stopped(call, parallel_result(results))


async def _chain(call: Call, works: Sequence[Assignment]) -> ToolResult:
    results: list[ChildResult | Failed] = []
    previous = ""
    for work in works:
        result = await _one(call, work._replace(task=work.task.replace(PREVIOUS, previous)))
        if isinstance(result, Suspended):
            raise result
        results.append(result)
        if isinstance(result, Failed) or result.problem:
            break
        previous = result.display
    return _unless_stopped(call, chain_result(results, len(works)))


def _unless_stopped(call: Call, result: ToolResult) -> ToolResult:
    """The result, unless the call is to end and not all has an answer.

    Raises:
        ToolError: the same as what the call came to before it was cancelled.
    """
    if call.stopping and result.details["succeeded"] < result.details["total"]:
        raise ToolError(str(result.content), **result.details)
    return result
