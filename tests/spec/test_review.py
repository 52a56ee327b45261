"""Faults that a review found, each as the behaviour that is right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from unspool.kernel import (
    Abort,
    AgentContext,
    Compaction,
    ContextOverflowError,
    Hooks,
    Inbox,
    Limits,
    LoopConfig,
    Projection,
    ToolContext,
    ToolSpec,
    TurnInfo,
    agent_loop,
    assistant_message,
    fold,
    tool_message,
    user_message,
)
from unspool.kernel.lowering import Lowering
from unspool.kernel.messages import AgentMessage
from unspool.kernel.sequence import repair_message_sequence, to_messages
from unspool.llm.scripted import Say, ScriptedModel, Wait, call
from unspool.trajectory.memory import MemoryLog

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Echo:
    spec = ToolSpec(name="echo")

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        return "echoed"


def test_a_model_that_says_aborted_has_failed(backend: str) -> None:
    async def play() -> None:
        model = ScriptedModel([Say(["no"], stop_reason="aborted")] * 5)
        result = await agent_loop(
            "go", AgentContext(), LoopConfig(model=model, limits=Limits(turns=2))
        ).result()
        assert (result.end_reason, len(model.requests)) == ("error", 1)

    anyio.run(play, backend=backend)


def test_an_assistant_message_of_a_hook_is_not_the_reply(backend: str) -> None:
    async def before_turn(info: TurnInfo) -> Sequence[AgentMessage]:
        return [assistant_message("an example")] if info.index == 1 else []

    async def play() -> None:
        log = MemoryLog()
        config = LoopConfig(
            model=ScriptedModel([[call("c1", "echo")], "done"]), hooks=Hooks(before_turn=before_turn), log=log
        )
        run = agent_loop("go", AgentContext(tools=[Echo()]), config)
        result = await run.result()
        assert (result.text, run.state.tool_calls) == ("done", 1)

    anyio.run(play, backend=backend)


def test_a_run_that_ends_late_leaves_the_next_one_its_inbox_and_abort(backend: str) -> None:
    async def play() -> None:
        inbox, abort = Inbox(), Abort()
        config = LoopConfig(model=ScriptedModel(["one", [Wait(float("inf"))]]), inbox=inbox, abort=abort)
        first = agent_loop("go", AgentContext(), config)
        await anext(first)
        second = agent_loop("go", AgentContext(), replace(config))
        await anext(second)
        await first.aclose()
        inbox.steer("hello")
        assert [queued.message.text for queued in second.state.steering] == ["hello"]
        abort.fire()
        assert (await second.result()).end_reason == "aborted"

    anyio.run(play, backend=backend)


class NamesNothing:
    """A context manager whose compaction names a message that is not there."""

    async def project(self, view: Sequence[AgentMessage], call_model: Any, /) -> Projection:
        return Projection(messages=view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, call_model: Any, /) -> Compaction:
        return Compaction(changed=True, commit=True, messages=(user_message("sum"),), first="m77", last="m78")

    def sync(self, view: Sequence[AgentMessage], /) -> None: ...
    def usage(self) -> None: ...
    def snapshot(self) -> None: ...


def test_a_fact_that_cannot_be_folded_is_not_stored(backend: str) -> None:
    async def play() -> None:
        log = MemoryLog()
        config = LoopConfig(
            model=ScriptedModel([ContextOverflowError("too long")]), context=NamesNothing(), log=log
        )
        run = agent_loop("go", AgentContext(), config)
        with pytest.raises(ValueError):
            await run.result()
        assert fold(log.facts) == run.state

    anyio.run(play, backend=backend)


def test_a_result_that_is_expected_is_kept_though_a_failed_reply_had_its_id(backend: str) -> None:
    failed = assistant_message("", call("c1", "echo"), stop_reason="safety")
    good = assistant_message("", call("c3", "echo"), call("c1", "echo"))
    results = [tool_message(call("c1", "echo"), "one"), tool_message(call("c3", "echo"), "three")]
    view: list[AgentMessage] = [user_message("go"), failed, good, *results]
    lowered, _ = Lowering().extend(view, b"")
    assert [m.text for m in lowered] == [m.text for m in repair_message_sequence(to_messages(view))]
