"""Faults that a review found, each as the behaviour that is right."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from unspool.kernel import (
    Abort,
    AgentContext,
    Codec,
    Compaction,
    ContextOverflowError,
    Cost,
    Hooks,
    Inbox,
    Limits,
    LoopConfig,
    Message,
    ModelRequest,
    Projection,
    Retry,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolSpec,
    TurnInfo,
    Usage,
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


NONSENSE: list[list[Any]] = [
    [TextDelta(None)],  # type: ignore[arg-type]  # what an adapter may send by mistake
    [ToolCallDelta(0, args=None)],  # type: ignore[arg-type]
    [StreamEnd(stop_reason="stop", usage=None)],  # type: ignore[arg-type]
    [StreamEnd(stop_reason="stop", usage=Usage(cost=Cost(input=float("nan"))))],
    [StreamEnd(stop_reason=None)],  # type: ignore[arg-type]
]


@pytest.mark.parametrize("events", NONSENSE)
def test_an_adapter_that_sends_nonsense_is_a_failed_call(backend: str, events: list[Any]) -> None:
    class Adapter(ScriptedModel):
        async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
            for event in events:
                yield event

    async def play() -> None:
        log, codec = MemoryLog(), Codec()
        run = agent_loop("go", AgentContext(), LoopConfig(model=Adapter(), log=log, retry=Retry(attempts=0)))
        assert (await run.result()).end_reason == "error"
        assert fold(codec.decode(codec.encode(fact)) for fact in log.facts) == run.state

    anyio.run(play, backend=backend)


def test_seeds_have_the_ids_that_the_state_gives_them(backend: str) -> None:
    async def play() -> None:
        context = AgentContext(messages=[user_message("before"), assistant_message("", call("c1", "echo"))])
        model = ScriptedModel([[call("c1", "echo")], "done"])
        run = agent_loop("go", replace(context, tools=[Echo()]), LoopConfig(model=model))
        await run.result()
        assert [getattr(message, "id", "") for message in run.state.messages] == list(run.state.ids)
        calls = [c.id for m in run.state.messages if isinstance(m, Message) for c in m.tool_calls]
        assert calls == ["c1", "c1~2"]

    anyio.run(play, backend=backend)


def test_a_call_cancelled_before_its_first_step_never_ran(backend: str) -> None:
    async def play() -> None:
        abort, log = Abort(), MemoryLog()
        config = LoopConfig(model=ScriptedModel([[call("c1", "echo")]]), abort=abort, log=log)
        async with anyio.create_task_group() as group:
            dispatched = anyio.Event()

            async def fire() -> None:
                await dispatched.wait()
                abort.fire()

            group.start_soon(fire)
            async for event in agent_loop("go", AgentContext(tools=[Echo()]), config):
                if isinstance(event, ToolExecDispatch):
                    dispatched.set()
        (end,) = [fact for fact in log.facts if isinstance(fact, ToolExecEnd)]
        assert end.outcome in ("cancelled", "ok") and not end.abandoned

    anyio.run(play, backend=backend)


def test_a_result_that_is_expected_is_kept_though_a_failed_reply_had_its_id(backend: str) -> None:
    failed = assistant_message("", call("c1", "echo"), stop_reason="safety")
    good = assistant_message("", call("c3", "echo"), call("c1", "echo"))
    results = [tool_message(call("c1", "echo"), "one"), tool_message(call("c3", "echo"), "three")]
    view: list[AgentMessage] = [user_message("go"), failed, good, *results]
    lowered, _ = Lowering().extend(view, b"")
    assert [m.text for m in lowered] == [m.text for m in repair_message_sequence(to_messages(view))]
