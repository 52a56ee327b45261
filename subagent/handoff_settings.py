"""What an agent runs with when it has the conversation: its definition over what all of them share.

Read with: ``handoffs.py``.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from typing import Any, NamedTuple

from msgspec.structs import replace

from unspool.kernel.agent_options import Changes
from unspool.kernel.config import AgentContext, LoopConfig
from unspool.kernel.hooks import BeforeRequest, Hooks
from unspool.kernel.messages import Message
from unspool.kernel.ports import CallOptions, ChatModel, ContextManager, Tool

from .definition import AgentDefinition, find, select_tools
from .handoff_filters import HandoffView, InputFilter, keep_all
from .handoff_tool import Trail, transfer_tool


class Base(NamedTuple):
    """What definitions leave open."""

    config: LoopConfig
    context: AgentContext


def settings_of(
    agent: AgentDefinition,
    base: Base,
    *,
    model: ChatModel,
    tools: tuple[Tool, ...],
    view: HandoffView | None,
    manager: ContextManager | None,
) -> Changes:
    """All that ``Agent.configure`` has to be told, but for the name."""
    config, context = base
    return Changes(
        model=model,
        tools=tools,
        system=agent.system,
        limits=agent.budget.limits(config.limits),
        retry=config.retry if agent.retry is None else agent.retry,
        options=_options_of(agent, config.options),
        hooks=_hooks_of(agent, config.hooks, view),
        context=config.context if manager is None else manager,
        texts=config.texts,
        steering_mode=config.steering_mode,
        follow_up_mode=config.follow_up_mode,
        run_context=context.run_context,
    )


def tools_of(
    agents: Mapping[str, AgentDefinition], name: str, root: str | None, shared: Sequence[Tool], trail: Trail
) -> tuple[Tool, ...]:
    """The tools of an agent, with the one that hands over where there is somebody to hand over to.

    ``root`` can be handed back to, where one is given.

    Raises:
        UnknownTool: the definition names a tool that is not ``shared``.
    """
    agent = agents[name]
    names = {*agent.handoffs, *([root] if root is not None else [])} - {name}
    chosen = select_tools(agent, shared)
    if not names:
        return chosen
    return (*chosen, transfer_tool(name, [agents[each] for each in sorted(names)], trail))


def views_of(
    agents: Mapping[str, AgentDefinition],
    root: str,
    given: InputFilter | Mapping[str, InputFilter] | None,
) -> dict[str, HandoffView]:
    """What applies the filters, by the agent that takes over; not for the root, which sees everything.

    Raises:
        UnknownAgent: a filter is for an agent that is not there.
        TypeError: a filter is no function.
    """
    if given is None:
        return {}
    by_name = given if isinstance(given, Mapping) else dict.fromkeys(agents, given)
    for name, each in by_name.items():
        find(agents.values(), name)
        if not callable(each):
            raise TypeError(f"input_filter: expected a function, got a {type(each).__name__} ({name})")
    return {
        name: HandoffView(name, each)
        for name, each in by_name.items()
        if name != root and each is not keep_all
    }


def _options_of(agent: AgentDefinition, base: CallOptions) -> CallOptions:
    own, plain = agent.options, CallOptions()
    said: dict[str, Any] = {
        name: value
        for name in (CallOptions.__struct_fields__ if own is not None else ())
        if (value := getattr(own, name)) != getattr(plain, name)
    }
    if agent.thinking is not None:
        said["thinking"] = agent.thinking
    return replace(base, **said) if said else base


def _hooks_of(agent: AgentDefinition, base: Hooks, view: HandoffView | None) -> Hooks:
    hooks = base if agent.hooks is None else agent.hooks
    if agent.stop_after_tool is not None:
        hooks = dataclasses.replace(hooks, stop_after_tool=agent.stop_after_tool)
    if view is not None:
        hooks = dataclasses.replace(hooks, before_request=_after(view, hooks.before_request))
    return hooks


def _after(view: HandoffView, hook: BeforeRequest | None) -> BeforeRequest:
    """The filter, and then the host's hook on what it leaves."""
    if hook is None:
        return view

    async def before_request(messages: Sequence[Message]) -> Sequence[Message]:
        given = hook(view(messages))
        return await given if isawaitable(given) else given

    return before_request
