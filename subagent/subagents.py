"""Agents that others call, and what their calls share.

Read with: ``definition.py``, ``subagent_tool.py``, ``agent_tool.py``, ``child.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from unspool.kernel.errors import AgentError, ToolError, describe
from unspool.kernel.function_tool import RawTool
from unspool.kernel.model_names import model_of
from unspool.kernel.ports import ChatModel, ThinkingLevel
from unspool.tools.tasks import Tasks
from unspool.trajectory.sessions import Sessions

from . import definition_checks as checks
from .agent_tool import make_agent_tool
from .background import OpenOutput
from .budget import TreeLimits
from .call import RunningChild, Steered
from .child_logs import ChildLogs
from .child_settings import check_fork
from .definition import AgentDefinition, definitions
from .subagent_tool import subagent_tool
from .tree import Trees


class Subagents:
    """Agents that an agent calls by a tool, each call a session of its own below that of the caller.

    - ``sessions`` is where their logs are kept, in the namespace of the root session; None keeps them in memory,
      as long as this object lives.
    - With ``tasks`` a call may go on in the background; ``output`` then opens the file that the output of a task
      goes to. ``tree`` bounds everything below one root.
    - ``models`` makes models of names, those in definitions too; with it a call may choose the model.
    - ``thinking``, by the agent's name, goes before what definitions say; it may be changed at any time.

    Raises:
        DefinitionError: two agents have one name, or one cannot be called as it is defined.
        ToolDefinitionError: ``name``, the tool's, can't be used.
    """

    def __init__(
        self,
        agents: Iterable[AgentDefinition],
        *,
        sessions: Sessions | None = None,
        tasks: Tasks | None = None,
        tree: TreeLimits = TreeLimits(),  # noqa: B008 (immutable)
        models: Callable[[str], ChatModel] | None = None,
        thinking: Mapping[str, ThinkingLevel] | None = None,
        output: OpenOutput | None = None,
        name: str = "subagent",
    ) -> None:
        self.agents = definitions(agents)
        self.logs, self.trees = ChildLogs(sessions), Trees()
        self.limits, self.tasks = tree, tasks
        self.thinking: dict[str, ThinkingLevel] = dict(thinking or {})
        self.runs: dict[str, Steered] = {}
        self.runs_lock = Lock()
        self._models, self._output = models, output
        if not self.agents:
            raise checks.DefinitionError("subagents: there are no agents")
        for agent in self.agents:
            self._check(agent)
        self.tool = subagent_tool(self, self.agents, name, output, models=models is not None)

    def _check(self, agent: AgentDefinition) -> None:
        check_fork(agent)
        if agent.background and self.tasks is None:
            raise checks.refusal(agent.name, "background", "needs tasks, as Subagents(tasks=…)")

    @property
    def tools(self) -> list[RawTool]:
        """A tool of its own for each agent, sorted by name; see ``agent_tool``."""
        return [self.tool_for(agent) for agent in self.agents]

    def tool_for(self, agent: AgentDefinition, *, name: str = "", description: str = "") -> RawTool:
        """See ``agent_tool``."""
        self._check(agent)
        return make_agent_tool(self, agent, self._output, name, description)

    # --- for hosts -------------------------------------------------------------------------------

    def running(self) -> tuple[RunningChild, ...]:
        """The children that run now, in the order in which they began. Any thread."""
        return tuple([run.info for run in list(self.runs.values())])

    def steer(self, session: str, text: str) -> bool:
        """Send a message to a child that runs; False where none runs in that session any more. Any thread.

        Raises:
            ValueError: the message is empty.
            LogError: its log refused it.
        """
        run = self.runs.get(session)
        return run is not None and run.steer(text)

    def stop(self, session: str) -> bool:
        """End a child that runs, and those below it; False where none runs in that session. What it said is kept, and
        its call ends as cancelled."""
        run = self.runs.get(session)
        if run is not None:
            run.stop("")
        return run is not None

    # --- for calls -------------------------------------------------------------------------------

    def model_for(self, agent: AgentDefinition, callers: ChatModel) -> ChatModel:
        """The model of an agent: that of its definition, or the caller's."""
        if agent.model is None:
            return callers
        return self.resolve_model(agent.model) if isinstance(agent.model, str) else agent.model

    def resolve_model(self, name: str) -> ChatModel:
        """The model of a name.

        Raises:
            ToolError: there is none.
        """
        try:
            return self._models(name) if self._models is not None else model_of(name)
        except (AgentError, ValueError, LookupError) as error:
            raise ToolError(f"model: {name!r} cannot be used: {describe(error)}") from error
