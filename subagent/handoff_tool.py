"""The tool by which a model hands the conversation to another agent.

1. Each agent has its own: the agents that it may hand over to, sorted, are in the schema, and the agent's name is
   in ``meta``. So a log says whose tools a turn was given.
2. The ``handoff`` fact is durable before the call ends; the agent takes over with the next turn. Calls beside it
   in the reply run with the tools of the agent that made them.
3. Of several in one reply the first that succeeds counts.

Read with: ``handoffs.py``, ``unspool.kernel.nesting``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from unspool.kernel.errors import ToolError
from unspool.kernel.events import Handoff
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.nesting import nest_of
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.kernel.state import AgentState

from .definition import AgentDefinition

TRANSFER: Final = "transfer_to_agent"
_ABOUT: Final = (
    "Hand the conversation to another agent, which sees it and answers the user from now on. "
    "Hand over once, when that agent is the right one to go on."
)
MAX_SAME: Final = 2  # how often in a run one agent may hand over to the same other one


class Trail:
    """The handoffs of the newest run, so that agents do not hand a conversation round for ever."""

    def __init__(self, max_handoffs: int) -> None:
        self._max = max_handoffs
        self._run_id = ""
        self._made: list[tuple[str, str]] = []

    def check(self, run_id: str, source: str, target: str) -> None:
        """Refuse one handoff too many.

        Raises:
            ToolError: this run has had ``max_handoffs``, or this very one ``MAX_SAME`` times.
        """
        if run_id != self._run_id:
            self._run_id, self._made = run_id, []
        total, same = len(self._made), self._made.count((source, target))
        if total >= self._max or same >= MAX_SAME:
            often = f", {same} times from {source} to {target}" if same >= MAX_SAME else ""
            raise ToolError(
                f"handed over {total} times in this run{often}: answer yourself, or ask the user",
                handoffs=total,
            )

    def add(self, source: str, target: str) -> None:
        """One was made in the run that was checked last."""
        self._made.append((source, target))


def transfer_tool(source: str, targets: Sequence[AgentDefinition], trail: Trail) -> RawTool:
    """The tool of the agent ``source``, which may hand over to ``targets``."""
    by_name = {target.name: target for target in targets}
    names = sorted(by_name)
    lines = [f"- {name}: {about}" if (about := by_name[name].description) else f"- {name}" for name in names]
    schema = {
        "type": "object",
        "properties": {
            "agent": {"type": "string", "enum": names, "description": "Who takes over."},
            "reason": {"type": "string", "description": "Why, in a few words."},
            "message": {"type": "string", "description": "What that agent must know to go on."},
        },
        "required": ["agent"],
        "additionalProperties": False,
    }

    async def transfer(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        target = args["agent"]
        nest = nest_of(ctx)
        nest.on_stop(lambda: None)  # not cancelled between the fact and its result
        state = nest.state
        if _is_handed_over(state, ctx.call_id):
            raise ToolError(f"the conversation goes to {state.agent} already: hand over once in a reply")
        if state.agent != target:  # else it was recorded before the process died
            trail.check(state.run_id, source, target)
            await nest.record(Handoff(target, source=source, call_id=ctx.call_id))
            trail.add(source, target)
        details = {"source": source, "target": target, "reason": args.get("reason", "")}
        return ToolResult(content=f"{target} has the conversation now.", details=details)

    return raw_tool(
        TRANSFER,
        "\n".join([_ABOUT, *lines]),
        schema,
        transfer,
        title="Transfer",
        idempotent=True,
        concurrency_safe=False,
        meta={"agent": source},
    )


def acting_agent(state: AgentState) -> str:
    """Whose tools the open turn was given, as far as the session says; empty where no turn is open, or where the
    agent could not hand over."""
    if state.turn is None or not state.tools:
        return ""
    for spec in state.blobs.get(state.tools, ()):
        if spec.get("name") == TRANSFER:
            return str(spec.get("meta", {}).get("agent", ""))
    return ""


def _is_handed_over(state: AgentState, call_id: str) -> bool:
    """Whether another call of the open turn has handed over."""
    calls = state.turn.calls.states if state.turn is not None else ()
    return any(
        each.call.name == TRANSFER and each.outcome == "ok" and each.call.id != call_id for each in calls
    )
