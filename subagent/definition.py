"""What an agent is, as a value: who it is, what it may use, and how a call of it is run.

1. A definition is checked when it is made; what is wrong is a ``DefinitionError`` that names the field.
2. What it does not say is the caller's: model, tools, limits, hooks.
3. Lists of agents are sorted by name, so that what models read of them is the same each time.

Read with: ``definition_checks.py``, ``budget.py``, ``markdown.py`` (definitions in files).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from unspool.kernel.errors import ToolError
from unspool.kernel.events import ToolExecEnd
from unspool.kernel.hooks import Hooks
from unspool.kernel.limits import Retry
from unspool.kernel.messages import AgentMessage
from unspool.kernel.ports import CallOptions, ChatModel, ContextManager, SystemBlock, ThinkingLevel, Tool

from . import definition_checks as checks
from .budget import Budget
from .definition_checks import DefinitionError

ContextMode: TypeAlias = Literal["none", "isolated", "fork"]
"""What a call of an agent begins with. See ``AgentDefinition.context``."""
OnMessage: TypeAlias = Callable[[str, str, AgentMessage], None]
"""Is told each message of a run: the agent's name, its task, the message."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AgentDefinition:
    """An agent that others can call.

    - ``name``: 1 to 64 letters, digits, ``_`` and ``-``. ``description`` says when to use the agent; the model
      that calls it reads that. ``system`` is its prompt.
    - ``model``: None is the caller's. ``thinking`` goes before ``options``; what neither says is the caller's.
    - ``tools``: tools of its own, and names of the caller's tools or patterns with ``*`` at the end; None
      is all of the caller's. ``leave_out`` names those of the caller's that it never gets.
    - ``context``: with ``none`` each call is a new conversation, unless the model gives a thread id; with
      ``isolated`` there is one conversation per calling session; with ``fork`` it begins with the caller's
      transcript. ``context_manager`` makes the context manager of a run, for the run's model.
    - ``input``: the type of the arguments, a pydantic model, a TypedDict or a dataclass; None is a task in
      words. ``output``: the type of the answer, as for ``Agent``.
    - ``budget`` and ``retry`` bound a run. ``background``: whether calls go on in the background.
    - ``hooks``: None inherits the caller's gate and approvals; hooks of its own replace them.
      ``stop_after_tool`` is that of the hooks, for an agent without any. ``on_message`` is told each message.
    - ``handoffs``: the agents that it may transfer the conversation to.
    - ``metadata`` is the host's; ``source`` is the file that the definition was read from.

    Raises:
        DefinitionError: a field cannot be used; a ``ValueError``.
        ToolDefinitionError: a tool of its own cannot be used.
    """

    name: str
    description: str = ""
    system: str | Sequence[SystemBlock] = ""
    model: ChatModel | str | None = None
    tools: Sequence[Tool | str] | None = None
    leave_out: Sequence[str] = ()
    thinking: ThinkingLevel | None = None
    options: CallOptions | None = None
    context: ContextMode = "none"
    context_manager: Callable[[ChatModel], ContextManager] | None = None
    input: Any = None
    output: Any = None
    budget: Budget = field(default_factory=Budget)
    retry: Retry | None = None
    hooks: Hooks | None = None
    stop_after_tool: Callable[[ToolExecEnd], bool] | None = None
    on_message: OnMessage | None = None
    background: bool = False
    handoffs: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        checks.check_name(self.name)
        agent = self.name
        for name, kind, expected in _KINDS:
            checks.check_kind(agent, name, getattr(self, name), kind, expected)
        checks.check_model(agent, self.model)
        checks.check_thinking(agent, self.thinking)
        checks.check_context(agent, self.context)
        checks.check_context_manager(agent, self.context_manager)
        checks.check_callable(agent, "stop_after_tool", self.stop_after_tool, "a function of a result")
        checks.check_callable(agent, "on_message", self.on_message, "a function")
        if self.stop_after_tool is not None and self.hooks is not None:
            raise checks.refusal(agent, "stop_after_tool", "there are hooks: set it there")
        checks.check_types(agent, self.input, self.output)
        for name, value in (
            ("system", checks.system_of(agent, self.system)),
            ("tools", checks.tools_of(agent, self.tools)),
            ("leave_out", checks.patterns_of(agent, "leave_out", self.leave_out)),
            ("handoffs", checks.handoffs_of(agent, self.handoffs)),
            ("metadata", dict(self.metadata)),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<agent {self.name!r}>"


_KINDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    ("description", str, "a text"),
    ("source", str, "a text"),
    ("options", (CallOptions, type(None)), "CallOptions or None"),
    ("budget", Budget, "a Budget"),
    ("retry", (Retry, type(None)), "Retry or None"),
    ("hooks", (Hooks, type(None)), "Hooks or None"),
    ("background", bool, "True or False"),
    ("metadata", Mapping, "a mapping"),
)


class UnknownAgent(ToolError):
    """There is no agent of that name; the message lists those there are."""


class UnknownTool(ToolError):
    """An agent is to have a tool that its caller does not have."""


def definitions(items: Iterable[AgentDefinition]) -> tuple[AgentDefinition, ...]:
    """Agents that can be called and handed over to, sorted by name.

    Raises:
        DefinitionError: two have one name, or one hands over to an agent that is not among them.
    """
    agents = unique(items)
    names = {agent.name for agent in agents}
    for agent in agents:
        missing = [name for name in agent.handoffs if name not in names]
        if missing:
            raise checks.refusal(
                agent.name, "handoffs", f"no such agent: {', '.join(missing)}; {listed(names)}"
            )
    return agents


def unique(items: Iterable[AgentDefinition]) -> tuple[AgentDefinition, ...]:
    """Agents sorted by name.

    Raises:
        DefinitionError: two have one name.
    """
    by_name: dict[str, AgentDefinition] = {}
    for agent in items:
        if (other := by_name.get(agent.name)) is not None:
            files = [found.source for found in (other, agent) if found.source]
            details = {"files": files} if files else {}
            raise DefinitionError(f"agents: two agents have one name: {agent.name!r}", **details)
        by_name[agent.name] = agent
    return tuple([by_name[name] for name in sorted(by_name)])


def find(agents: Iterable[AgentDefinition], name: str) -> AgentDefinition:
    """The agent of this name.

    Raises:
        UnknownAgent: there is none.
    """
    names = []
    for agent in agents:
        if agent.name == name:
            return agent
        names.append(agent.name)
    shown = name if len(name) <= 64 else f"{name[:64]}…"
    raise UnknownAgent(f"no such agent: {shown!r}; {listed(names)}")


def select_tools(definition: AgentDefinition, available: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of an agent, given those of its caller: in the order of the caller's, then its own.

    A tool of its own stands in for one of the same name that a pattern finds, or that it would inherit; it is
    never left out. A pattern may find nothing.

    Raises:
        UnknownTool: it names a tool that the caller does not have; the message lists those there are.
    """
    wanted = ("*",) if definition.tools is None else definition.tools
    own = [item for item in wanted if not isinstance(item, str)]
    patterns = [item for item in wanted if isinstance(item, str)]
    theirs = {tool.spec.name: tool for tool in available}
    missing = unknown_names(patterns, theirs)
    if missing:
        raise UnknownTool(f"agent {definition.name!r}: no such tool: {', '.join(missing)}; {listed(theirs)}")
    replaced = {tool.spec.name for tool in own}
    chosen = [
        tool
        for name, tool in theirs.items()
        if name not in replaced and _fits(name, patterns) and not _fits(name, definition.leave_out)
    ]
    return (*chosen, *own)


def unknown_names(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """Those of ``patterns`` that are names, and not among ``names``."""
    return [name for name in patterns if not name.endswith("*") and name not in names]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns stands for the name."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns
    )


def listed(names: Iterable[str]) -> str:
    """What there is, as errors say it."""
    names = sorted(names)
    return f"there are {', '.join(names)}" if names else "there are none"
