"""``unspool replay``: a session of the past, run again.

Read with: ``places.py``, ``unspool.trajectory.replay``.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from unspool.context import manager_of
from unspool.kernel.config import AgentContext, LoopConfig, Settings
from unspool.kernel.hooks import Hooks
from unspool.kernel.ports import ChatModel, ContextManager, ModelRequest, StreamEvent
from unspool.kernel.state import fold
from unspool.trajectory import Replayed, recorded_settings
from unspool.trajectory import replay as replay_facts

from .output import complain, console, write_json
from .places import Place
from .toolset import Toolset, ToolWish, make_tools
from .view import printable


def replay(place: Place, *, tools: ToolWish | None, model: ChatModel | None, as_json: bool) -> int:
    """Run a session again, with ``tools`` and ``model`` in place of what was recorded; 1 where it differs.

    Raises:
        AgentError: the session's tools can't be made here.
    """
    facts = list(place.facts())
    settings, toolset = None, Toolset(())
    if tools is not None:
        state = fold(facts)
        toolset = make_tools(tools, state)
        toolset.keep_in_memory()
        recorded = recorded_settings(state)
        config = LoopConfig(
            model=_Unasked(recorded.model),
            options=recorded.options,
            limits=recorded.limits,
            context=_manager(state.context),
            hooks=Hooks(gate=toolset.gate),
        )
        settings = Settings(config, AgentContext(tools=toolset.tools, system=recorded.system))
    live: Literal["recorded", "live"] = "recorded" if tools is None else "live"

    async def again() -> Replayed:
        try:
            return await replay_facts(facts, settings, tools=live, model=model or "recorded")
        finally:
            await toolset.aclose()

    result = anyio.run(again)
    if as_json:
        write_json(result)
    else:
        _print(place.name, result)
    return 0 if result.same else 1


def _manager(description: Mapping[str, Any]) -> ContextManager | None:
    """The context manager that describes itself so; one that is not from here shows everything."""
    if not description:
        return None
    try:
        return manager_of(description)
    except ValueError as error:
        complain(f"{error}; the whole conversation is shown instead")
        return None


@dataclass(frozen=True, slots=True)
class _Unasked:
    """The model of a configuration whose model is not asked."""

    name: str
    supports_tools: bool = True

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        raise AssertionError("a replay asks the recorded model")


def _print(name: str, result: Replayed) -> None:
    out = console()
    if result.same:
        text = f"{name}: all {result.recorded} facts came out as they were recorded"
        out.print(printable(text), style="green", soft_wrap=True)
        return
    out.print(
        printable(f"{name}: {result.facts} of {result.recorded} facts came out as recorded"), soft_wrap=True
    )
    out.print(printable(str(result.difference)), style="red", soft_wrap=True)
