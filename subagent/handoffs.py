"""Handoffs: one conversation, and several agents of which one has it at a time.

1. Who has the conversation is ``state.agent``, folded from ``agent_start`` and ``handoff``; nothing else remembers
   it. So an agent that is made from a log, a fork, or a run after a crash goes on with the right one.
2. A turn keeps the agent it began with: its calls run with that one's tools, also those after the handoff, also
   in another process. The next turn is the new agent's: system prompt, tools, model, options, limits, hooks,
   context manager, type of the answer. The kernel records what changed as ``config_changed``.
3. ``handoff`` facts without a call are made here, when a run begins: the root takes over again for a new prompt
   (where not ``sticky``), or where nobody here is the agent that had the conversation.

Read with: ``handoff_options.py``, ``handoff_settings.py``, ``handoff_tool.py``, ``handoff_filters.py``.
"""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, Unpack, cast, overload

from unspool.kernel.agent import Agent
from unspool.kernel.agent_options import AgentOptions, Changes, change
from unspool.kernel.agent_runs import Ticket
from unspool.kernel.config import LoopConfig, Settings
from unspool.kernel.events import AgentEnd, Event, Handoff
from unspool.kernel.loop import Beginning, open_stream
from unspool.kernel.model_names import model_of
from unspool.kernel.output import Output
from unspool.kernel.ports import ChatModel, ContextManager, Renews, Tool
from unspool.kernel.stream import EventStream
from unspool.kernel.toolbox import Toolbox

from .definition import AgentDefinition, definitions, find
from .handoff_options import HandoffOptions, check_names, choices_of
from .handoff_settings import Base, settings_of, tools_of, views_of
from .handoff_tool import Trail, acting_agent

OutT = TypeVar("OutT")
_PROMPTED = ("prompt", "inject")  # causes of runs that begin with something new of the user
_BOUND = ("agent", "inbox", "abort", "refresh", "log", "lineage", "model", "context")


class HandoffAgent(Agent[OutT]):
    """A conversation that its agents hand to each other; an ``Agent`` in everything else.

    ``root`` is the agent that begins; the others can hand back to it, but for ``hand_back=False``. A model hands
    over with the tool ``transfer_to_agent``, to those that its definition lists as ``handoffs``. What definitions
    leave open is given here: ``model``, ``tools``, and the options of ``Agent`` (but for ``name``). ``output`` is the
    type of the last answer whoever gives it; without it each definition's own counts.

    With ``sticky`` the next prompt goes to the agent that has the conversation; without, each prompt begins with
    the root again, and a run that is continued or resumed stays where it was. A run has at most ``max_handoffs``.
    ``on_handoff`` is told each.

    ``input_filter`` says what an agent that takes over sees of the conversation before, one for all or by name; the
    root sees everything. A filter that raises, or gives what cannot be sent, ends the run as failed hooks do. It is
    no redaction: once a context manager no longer shows the reply that handed over, nothing is filtered.

    Of a definition, ``context``, ``input``, ``background``, ``on_message`` and ``budget.seconds`` count only where
    the agent is called, not where it takes over; its other bounds are those of the run as a whole.

    Raises:
        DefinitionError: two agents have one name, or one hands over to an agent that is not there.
        UnknownAgent: there is no agent of the name ``root``, or of one in ``input_filter``.
        UnknownTool, ToolDefinitionError: an agent's tools cannot be had, or not together.
        TypeError, ValueError: an option that does not exist or cannot be used.
    """

    @overload
    def __init__(
        self: "HandoffAgent[Any]",
        agents: Iterable[AgentDefinition],
        *,
        root: str,
        model: ChatModel | str,
        tools: Iterable[Tool] = (),
        **options: Unpack[HandoffOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        agents: Iterable[AgentDefinition],
        *,
        root: str,
        model: ChatModel | str,
        output: type[OutT],
        tools: Iterable[Tool] = (),
        **options: Unpack[HandoffOptions],
    ) -> None: ...
    @overload
    def __init__(  # types that are no classes, as for ``Agent``
        self: "HandoffAgent[Any]",
        agents: Iterable[AgentDefinition],
        *,
        root: str,
        model: ChatModel | str,
        output: Any,
        tools: Iterable[Tool] = (),
        **options: Unpack[HandoffOptions],
    ) -> None: ...
    def __init__(
        self,
        agents: Iterable[AgentDefinition],
        *,
        root: str,
        model: ChatModel | str,
        output: Any = None,
        tools: Iterable[Tool] = (),
        **options: Unpack[HandoffOptions],
    ) -> None:
        choices, rest = choices_of(options)
        self._choices = choices
        self._agents = {agent.name: agent for agent in definitions(agents)}
        self._root = find(self._agents.values(), root).name
        self._trail = Trail(choices.max_handoffs)
        self._views = views_of(self._agents, root, choices.input_filter)
        self._models: dict[str, ChatModel] = {
            name: model_of(agent.model) for name, agent in self._agents.items() if agent.model is not None
        }
        self._managers: dict[str, ContextManager] = {}
        self._planned = ""  # who is to have the conversation in the next run
        self._entered: tuple[str, str] | None = (
            None  # whose settings are in force, and who has the conversation
        )
        make: Any = super().__init__  # the overloads of ``Agent`` are for its own callers
        make(model, tools=tools, output=output, **rest)
        self._base = Base(self._config, self._context)
        self._tools = self._all_tools(self._base)
        self._given_output = self._output
        self._outputs = {
            name: self._output or (None if agent.output in (None, str) else Output[Any](agent.output))
            for name, agent in self._agents.items()
        }
        self._enter()
        self.subscribe(self._see)

    @property
    def definition(self) -> AgentDefinition:
        """The agent that has the conversation; the root where it has not begun."""
        return self._agents[self._holder]

    def configure(self, **changes: Unpack[Changes]) -> None:
        """Change what definitions leave open; each counts, and is recorded, from the next turn on.

        Raises:
            TypeError: there is no such setting, or it is the definitions' (``name``, ``system``).
            UnknownTool, ToolDefinitionError: an agent's tools cannot be had, or not together.
        """
        check_names(changes)
        given: dict[str, Any] = dict(changes)
        if "model" in given:
            given["model"] = model_of(given["model"])
        base = Base(*change(*self._base, given, later=True))
        if "tools" in given:
            self._tools = self._all_tools(base)
        self._base, self._entered = base, None
        self._enter()

    def fork(self, **options: Unpack[AgentOptions]) -> "HandoffAgent[OutT]":
        """As ``Agent.fork``; the fork begins with the agent that has the conversation, as a ``handoff`` says."""
        config, context = self._base
        kept: dict[str, Any] = {
            field.name: getattr(config, field.name)
            for field in dataclasses.fields(config)
            if field.name not in _BOUND
        }
        if config.context is not None and "context" not in options:
            kept["context"] = _renewed(config.context)
        given = {"run_context": context.run_context, "messages": self.state.messages}
        forked: HandoffAgent[OutT] = HandoffAgent(
            self._agents.values(),
            root=self._root,
            model=config.model,
            output=self._given_output.type if self._given_output is not None else None,
            tools=context.tools,
            **cast("HandoffOptions", {**self._choices._asdict(), **kept, **given, **options}),
        )
        if "messages" not in options:
            forked._use(self.state.active_tools)
            if self._holder != self._root:
                forked._hand_to(self._holder)
        return forked

    # --- who has the conversation ------------------------------------------------------------------

    @property
    def _holder(self) -> str:
        name = self._planned or self.state.agent
        return name if name in self._agents else self._root

    @property
    def _acting(self) -> str:
        """Whose settings are in force: those of the agent with which the open turn began."""
        name = acting_agent(self.state)
        return name if name in self._agents else self._holder

    def _hand_to(self, name: str) -> None:
        """Record that ``name`` has the conversation from here on, without a call."""
        recorder = self._session.recorder
        with recorder.lock:
            self._planned, source = "", self.state.agent
            if source != name and (source or name != self._root):
                recorder.record(Handoff(name, source=source))
        self._listeners.drain()

    def _see(self, event: Event) -> None:
        """Whoever looks at the agent between runs sees the settings of the one that has the conversation."""
        if isinstance(event, AgentEnd):
            self._enter()
        elif isinstance(event, Handoff) and self._choices.on_handoff is not None:
            self._choices.on_handoff(event)

    def _enter(self) -> None:
        """Have the settings of the agent whose turn it is in force."""
        acting, holder = self._acting, self._holder
        if self._entered == (acting, holder):
            return
        agent, base = self._agents[acting], self._base
        model = self._models.get(acting, base.config.model)
        settings = settings_of(
            agent,
            base,
            model=model,
            tools=self._tools[acting],
            view=self._views.get(acting),
            manager=self._manager_of(agent, model),
        )
        manager = settings.get("context")
        if manager is not None and manager is not self._config.context:
            manager.sync(self.state.messages)  # it has not seen what came since
        self._output = self._outputs[acting]
        self._entered = acting, holder
        settings["name"] = holder
        super().configure(**settings)

    def _manager_of(self, agent: AgentDefinition, model: ChatModel) -> ContextManager | None:
        if agent.context_manager is None:
            return None
        if agent.name not in self._managers:
            self._managers[agent.name] = agent.context_manager(model)
        return self._managers[agent.name]

    def _all_tools(self, base: Base) -> dict[str, tuple[Tool, ...]]:
        back = self._root if self._choices.hand_back else None
        found = {
            name: tools_of(self._agents, name, back, base.context.tools, self._trail) for name in self._agents
        }
        for tools in (base.context.tools, *found.values()):
            Toolbox(tools)  # refused here, not when an agent takes over
        return found

    # --- where the kernel asks for settings --------------------------------------------------------

    def _config_of_runs(self) -> LoopConfig:
        self._enter()
        return super()._config_of_runs()

    def _refresh(self) -> Settings:
        self._enter()
        return super()._refresh()

    def _stream(self, begin: Beginning, ticket: Ticket) -> EventStream:
        if self._runs.active is None or self._runs.active is ticket:
            anew = not self._choices.sticky and begin.cause in _PROMPTED
            self._planned = self._root if anew else ""
        self._settings = settings = self._settings_of(ticket.abort)
        entering = _Entering(ticket, partial(self._hand_to, settings.config.agent))
        return open_stream(self._session, begin, settings.context, settings.config, entering)


class _Entering:
    """The watcher of a run that records who has the conversation before the run begins."""

    def __init__(self, ticket: Ticket, enter: Callable[[], None]) -> None:
        self._enter = enter
        self._ticket = ticket
        self.tell = ticket.tell
        self.end = ticket.end

    def begin(self) -> None:
        """See ``Watcher``."""
        self._ticket.begin()
        self._enter()


def _renewed(manager: ContextManager) -> ContextManager:
    if not isinstance(manager, Renews):
        raise TypeError("fork: a context manager serves one conversation; give the fork its own, or None")
    return manager.renewed()
