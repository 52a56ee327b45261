"""How a turn opens and closes: settings taken over, queued messages delivered, hooks of the host.

Read with: ``loop.py`` (the caller), ``config.py`` (``Settings``), ``hooks.py``.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from .cleaning import clean_system, clean_tools
from .config import AgentContext, LoopConfig, Settings
from .errors import HookError, LogError, ToolDefinitionError, describe
from .events import ConfigChanged, QueueChanged, TurnEnd, TurnStart
from .hooks import AfterTurn, BeforeTurn, TurnInfo
from .json_edge import plain_json
from .messages import user_message
from .ports import ContextManager, Describes, SystemBlock, window_of
from .projection import RequestConfig
from .pull import pull
from .redaction import holds_key
from .run import Run
from .state import AgentState, Queued
from .toolbox import Toolbox


def request_config(
    context: AgentContext, toolbox: Toolbox, config: LoopConfig, active: Sequence[str]
) -> RequestConfig:
    """System prompt, tools and options of the requests to come.

    A plain system prompt gets the cache mark of the last message; blocks keep their own. A model that
    takes no tools is offered none. What tools say of themselves is sent, and recorded, without keys of model
    providers.

    Raises:
        ValueError: the model's name or its options hold one.
        ToolDefinitionError: a tool's name holds one.
    """
    if holds_key(config.model.name):
        raise ValueError("model: its name is recorded and holds no secrets, give keys to the model")
    replace(config.options)  # raises: ``extra`` may hold more than it did when it was looked through
    options = config.options
    offered = toolbox.offered(active) if config.model.supports_tools else ()
    system = context.system
    if isinstance(system, str):
        blocks: tuple[SystemBlock, ...] = (
            (SystemBlock(text=system, cache=options.cache_last),) if system else ()
        )
    else:
        blocks = tuple(system)
    held_back = len(offered) < len(toolbox.specs)
    all_tools = clean_tools(toolbox.specs) if held_back else ()
    return RequestConfig(clean_system(blocks), clean_tools(offered), options, all_tools)


def described(manager: ContextManager | None) -> dict[str, Any]:
    """What a context manager says of itself, as JSON; empty where it says nothing."""
    return dict(plain_json(manager.describe())) if isinstance(manager, Describes) else {}


def start_turn(run: Run) -> None:
    """Take over what changed in the settings and open the turn."""
    try:
        _refresh(run)
    except LogError:
        raise
    except ToolDefinitionError as error:
        run.fail(error)
        return
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: refresh raised", reason=describe(error)))
        return
    run.record(TurnStart(run.state.turn_index + 1))
    run.fresh_turn = True


def _refresh(run: Run) -> None:
    """Take over new settings, and deferred tools that a result referred to."""
    refresh = run.config.refresh
    active = run.state.active_tools if run.toolbox.deferred else run.active_tools
    if refresh is None:
        if active is not run.active_tools:
            _take(run, Settings(run.config, run.context), active)
        return
    new = refresh()
    if new.config is not run.config or new.context is not run.context or active is not run.active_tools:
        _take(run, new, active)


def _take(run: Run, new: Settings, active: tuple[str, ...]) -> None:
    old, config = run.config, new.config
    if config is not old:
        config = dataclasses.replace(  # what the run is bound to stays
            config, inbox=old.inbox, abort=old.abort, log=old.log, clock=old.clock, codec=old.codec
        )
    toolbox = run.toolbox if new.context.tools is run.context.tools else Toolbox(new.context.tools)
    request = request_config(new.context, toolbox, config, active)
    before = run.request
    changes = ConfigChanged(
        model=config.model.name if config.model.name != old.model.name else None,
        tools=request.tools_hash if request.tools_hash != before.tools_hash else None,
        options=request.options_hash if request.options_hash != before.options_hash else None,
        system=request.system_hash if request.system_hash != before.system_hash else None,
        limits=config.limits if config.limits != old.limits else None,
        active_tools=active if active != run.active_tools else None,
        blobs=request.blobs(run.state.blobs),
        toolbox=request.toolbox_hash if request.toolbox_hash != before.toolbox_hash else None,
        window=window_of(config.model) if window_of(config.model) != window_of(old.model) else None,
        context=context if (context := described(config.context)) != run.state.context else None,
    )
    run.config, run.context, run.toolbox, run.request = config, new.context, toolbox, request
    run.active_tools = active
    said = (
        changes.model,
        changes.tools,
        changes.options,
        changes.system,
        changes.limits,
        changes.active_tools,
        changes.toolbox,
        changes.window,
        changes.context,
    )
    if any(value is not None for value in said):
        run.record(changes)
    if config.model is not old.model:
        tell_if_no_tools(run)


def tell_of_changes(run: Run, before: AgentState) -> None:
    """Say what is another than in the last run of the session; its start has said it by hashes already."""
    now = run.state
    names = ("model", "tools", "options", "system", "limits", "window", "context")
    changed = {name: value for name in names if (value := getattr(now, name)) != getattr(before, name)}
    if changed:
        run.record(ConfigChanged(**changed))


def tell_if_no_tools(run: Run) -> None:
    """Say so where the model takes no tools and there are some."""
    if run.toolbox.specs and not run.config.model.supports_tools:
        run.warn("no_tools", f"{run.config.model.name} takes no tools: none are offered to it")


async def before_turn(run: Run, hook: BeforeTurn) -> None:
    """Run the hook once for a turn that this run opened, and commit what it gives."""
    fresh, run.fresh_turn = run.fresh_turn, False
    if not fresh:
        return
    await pull()  # the hook may take its time
    info = TurnInfo(run.state.turn_index, run.state)
    try:
        given = await run.ask_host(lambda: hook(info))
        messages = [given] if isinstance(given, str) else list(given or ())
        for message in messages:
            run.commit(user_message(message) if isinstance(message, str) else message, cause="before_turn")
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: before_turn raised", reason=describe(error)))


async def close_turn(run: Run) -> None:
    """Record that the turn is complete and tell the host."""
    run.record(TurnEnd(run.state.turn_index))
    hook = run.config.hooks.after_turn
    if hook is not None:
        await _after_turn(run, hook)


async def _after_turn(run: Run, hook: AfterTurn) -> None:
    await pull()  # the hook may take its time
    info = TurnInfo(run.state.turn_index, run.state)
    try:
        await run.ask_host(lambda: hook(info))
    except Exception as error:  # noqa: BLE001 (a hook that raises ends the run, in an orderly way)
        run.fail(HookError("hook: after_turn raised", reason=describe(error)))


def deliver(run: Run, lanes: tuple[str, ...]) -> None:
    """Move queued messages into the transcript; they stay facts at every moment in between."""
    if run.state.turn is None and run.state.turns < run.limits.turns:
        start_turn(run)
    if run.state.failed:
        return
    with run.recorder.lock:
        for lane in lanes:
            queue = _due(run, lane)
            if queue:
                run.record(QueueChanged(lane, "taken", tuple([queued.id for queued in queue])))
    for queued in sorted(run.state.taken, key=_number):  # as they came, whatever their lane
        run.commit(queued.message, queue_id=queued.id)


def _number(queued: Queued) -> int:
    return int(queued.id[1:])


def _due(run: Run, lane: str) -> tuple[Queued, ...]:
    """The queued messages of a lane that this turn takes."""
    state, config = run.state, run.config
    match lane:
        case "prompt":
            return state.prompts
        case "steering":
            return state.steering if config.steering_mode == "all" else state.steering[:1]
        case _:
            return state.follow_ups if config.follow_up_mode == "all" else state.follow_ups[:1]
