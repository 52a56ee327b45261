"""What a child runs with: its definition, over what it inherits from its caller.

A fork runs with its caller's model, system prompt, tools and options, so that its requests begin as those of the
caller did: caches hit. Its own system prompt comes with the task.

Read with: ``child.py`` (the caller), ``definition.py``.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from unspool.kernel.codec import transcript_entry
from unspool.kernel.hooks import Hooks
from unspool.kernel.limits import Limits
from unspool.kernel.messages import AgentMessage, Message, user_message
from unspool.kernel.nesting import Nest
from unspool.kernel.ports import (
    CallOptions,
    ChatModel,
    ContextManager,
    Renews,
    SystemBlock,
    ThinkingLevel,
    Tool,
)

from . import definition_checks as checks
from .budget import Budget
from .definition import AgentDefinition, select_tools
from .tally import MARK, Tally

GRACE = 0.8  # of the caller's grace time: who is further down ends first
_NOT_FORKED = ("model", "tools", "leave_out", "thinking", "options")


def check_fork(agent: AgentDefinition) -> None:
    """See that an agent which forks leaves to its caller what requests begin with.

    Raises:
        DefinitionError: it does not.
    """
    own = [name for name in _NOT_FORKED if getattr(agent, name) not in (None, (), [])]
    if agent.context == "fork" and own:
        raise checks.refusal(
            agent.name, own[0], "an agent that forks has the model, tools and options of its caller"
        )


def settings_of(
    agent: AgentDefinition, nest: Nest, *, model: ChatModel, thinking: ThinkingLevel | None, background: bool
) -> dict[str, Any]:
    """The options of the child's ``Agent``, without its log, its limits and its conversation."""
    config, context = nest.config, nest.context
    forks = agent.context == "fork"
    return {
        "name": agent.name,
        "output": agent.output,
        "system": context.system if forks else agent.system,
        "tools": tools_of(agent, nest),
        "options": _options(agent, config.options, thinking),
        "retry": agent.retry or config.retry,
        "context": _manager(agent, config.context, model),
        "hooks": _hooks(agent, config.hooks, background=background),
        "texts": config.texts,
        "run_context": context.run_context,
        "clock": config.clock,
        "codec": config.codec,
        "rand": config.rand,
        "lineage": nest.lineage,
    }


def tools_of(agent: AgentDefinition, nest: Nest) -> Sequence[Tool]:
    """The child's tools.

    Raises:
        UnknownTool: the definition names one that the caller does not have.
    """
    return nest.context.tools if agent.context == "fork" else select_tools(agent, nest.context.tools)


def _options(agent: AgentDefinition, base: CallOptions, thinking: ThinkingLevel | None) -> CallOptions:
    """The caller's options without what is about its own answer, under those of the definition."""
    options = replace(base, response_format=None)
    if agent.context != "fork":
        options = replace(options, tool_choice=None, session_id=None)
        if base.cache_key:
            options = replace(options, cache_key=f"{base.cache_key}#{agent.name}")
        if agent.options is not None:
            plain, own = CallOptions(), agent.options
            given = {name: getattr(own, name) for name in CallOptions.__struct_fields__}
            said = {name: value for name, value in given.items() if value != getattr(plain, name)}
            options = replace(options, **said)
    level = thinking or agent.thinking
    return replace(options, thinking=level) if level is not None else options


def _hooks(agent: AgentDefinition, base: Hooks, *, background: bool) -> Hooks:
    """The definition's hooks, or the caller's gate and middlewares. In the background there is no call that could
    wait for a person: there the caller's host is asked at once, where it wants to be."""
    if agent.hooks is not None:
        return agent.hooks
    return Hooks(
        gate=base.gate,
        middlewares=base.middlewares,
        approve=base.approve if background else None,
        stop_after_tool=agent.stop_after_tool,
    )


def _manager(
    agent: AgentDefinition, callers: ContextManager | None, model: ChatModel
) -> ContextManager | None:
    if agent.context_manager is not None:
        return agent.context_manager(model)
    return callers.renewed() if isinstance(callers, Renews) else None  # one serves one conversation


def limits_of(budget: Budget, base: Limits, left: tuple[int | None, float | None], before: Tally) -> Limits:
    """What a run of a child may use: the smaller of its budget, less what this call had of it before, and of what
    its caller has left."""
    tokens, cost = left
    spent = before.usage.cost.total if before.usage.cost else 0.0
    limits = replace(
        budget.limits(base),
        grace_s=base.grace_s * GRACE,
        tokens=_smaller(_less(budget.tokens, before.usage.total_tokens), tokens),
        cost=_smaller(_less(budget.cost, spent), cost),
    )
    if before.turns and budget.turns is not None:
        limits = replace(limits, turns=max(1, budget.turns - before.turns))
    if before.tools and budget.tool_calls is not None:
        limits = replace(limits, tool_calls=max(0, budget.tool_calls - before.tools))
    return limits


def _less(amount: Any, used: Any) -> Any:
    return None if amount is None else max(0, amount - used)


def _smaller(ours: Any, theirs: Any) -> Any:
    return min((each for each in (ours, theirs) if each is not None), default=None)


def prompt_of(agent: AgentDefinition, task: str, key: str) -> Message:
    """The message that a child begins with; it names the call that it is from."""
    if agent.context == "fork" and agent.system:
        task = f"{_text_of(agent.system)}\n\n{task}"
    return user_message(task, metadata={MARK: key})


def shown_to_caller(nest: Nest) -> list[AgentMessage]:
    """What the caller's model was shown when it made this call: the transcript before that reply, as projected."""
    state = nest.state
    if state.projection is None:
        return []
    by_id = dict(zip(state.ids.since(0), state.messages.since(0), strict=True))
    view = state.projection.view.since(0)
    return [
        by_id[each] if isinstance(each, str) else transcript_entry(each.message, each.app) for each in view
    ]


def _text_of(system: str | Sequence[SystemBlock]) -> str:
    return system if isinstance(system, str) else "\n\n".join([block.text for block in system])
