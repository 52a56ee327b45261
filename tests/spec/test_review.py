"""Faults that a review found, each as the behaviour that is right."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from msgspec import structs

from unspool.kernel import (
    Abort,
    AgentContext,
    Codec,
    CodecError,
    Compaction,
    ContextCompacted,
    ContextOverflowError,
    ContextProjected,
    Cost,
    Edit,
    ErrorEvent,
    Fact,
    FakeClock,
    Hooks,
    Inbox,
    Limits,
    LogError,
    LoopConfig,
    Message,
    MessageUpdate,
    ModelRequest,
    ModelResponse,
    NetworkError,
    OpaqueMessage,
    Projection,
    QueueChanged,
    Replaced,
    Retry,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolContext,
    ToolExecDispatch,
    ToolExecEnd,
    ToolSpec,
    Transcript,
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
from unspool.kernel.recorder import Recorder
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

    async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Projection:
        return Projection(messages=view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: Any, /) -> Compaction:
        edits = [Edit(start=77, stop=78, messages=(user_message("sum"),))]
        return Compaction(changed=True, commit=True, edits=edits)

    def sync(self, view: Sequence[AgentMessage], /) -> None: ...
    def usage(self) -> None: ...
    def snapshot(self) -> None: ...


def test_a_compaction_of_what_is_not_there_ends_the_run_in_order(backend: str) -> None:
    async def play() -> None:
        log = MemoryLog()
        config = LoopConfig(
            model=ScriptedModel([ContextOverflowError("too long")]), context=NamesNothing(), log=log
        )
        run = agent_loop("go", AgentContext(), config)
        result = await run.result()
        assert (result.end_reason, result.error_kind) == ("error", "context_overflow")
        assert any(
            isinstance(f, ErrorEvent) and "does not fit the transcript" in f.message for f in log.facts
        )
        assert fold(log.facts) == run.state

    anyio.run(play, backend=backend)


def test_a_fact_that_cannot_be_folded_is_not_stored(backend: str) -> None:
    log = MemoryLog()
    recorder = Recorder(log=log, clock=FakeClock(), codec=Codec())
    with pytest.raises(LogError, match="cannot follow"):
        recorder.record(
            ContextCompacted(committed=True, replaced=Replaced(first="m7", last="m8"), reason="overflow")
        )
    assert log.facts == [] and recorder.state.seq == 0


class SteeringLog(MemoryLog):
    """A log that steers while it stores."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self.inbox = inbox

    def append(self, fact: Fact, /) -> None:
        super().append(fact)
        if isinstance(fact, ToolExecDispatch) or (isinstance(fact, QueueChanged) and len(self.facts) == 2):
            self.inbox.steer(f"from fact {fact.seq}")


def test_a_log_may_steer(backend: str) -> None:
    async def play() -> None:
        inbox = Inbox()
        log = SteeringLog(inbox)
        config = LoopConfig(model=ScriptedModel([[call("c1", "echo")], "done"]), log=log, inbox=inbox)
        run = agent_loop("go", AgentContext(tools=[Echo()]), config)
        with anyio.fail_after(5):
            await run.result()
        assert [fact.seq for fact in log.facts] == list(range(1, len(log.facts) + 1))
        assert fold(log.facts) == run.state
        assert (
            sum(message.text.startswith("from fact") for message in run.state.messages) == 2 - inbox.waiting
        )

    anyio.run(play, backend=backend)


def test_a_message_that_cannot_be_stored_does_not_block_the_inbox(backend: str) -> None:
    class Unregistered(OpaqueMessage):
        pass

    async def play() -> None:
        inbox = Inbox()
        inbox.steer(Unregistered("x", {"bytes": object()}, user_message("hi")))
        inbox.steer("kept")
        config = LoopConfig(model=ScriptedModel(["one", "two"]), inbox=inbox)
        with pytest.raises(CodecError):
            await agent_loop("go", AgentContext(), config).result()
        run = agent_loop("go", AgentContext(), config)
        await run.result()
        assert "kept" in [message.text for message in run.state.messages]

    anyio.run(play, backend=backend)


def test_a_reply_is_kept_when_only_the_closing_of_its_stream_fails(backend: str) -> None:
    class Adapter(ScriptedModel):
        async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
            self.requests.append(request)
            try:
                yield TextDelta("whole")
                yield StreamEnd(stop_reason="stop")
            finally:
                raise NetworkError("the connection broke")

    async def play() -> None:
        model, log = Adapter(), MemoryLog()
        result = await agent_loop("go", AgentContext(), LoopConfig(model=model, log=log)).result()
        assert (result.text, result.end_reason, len(model.requests)) == ("whole", "stop", 1)
        assert [f.kind for f in log.facts if isinstance(f, ErrorEvent)] == ["stream_close"]

    anyio.run(play, backend=backend)


def test_a_call_that_the_consumer_leaves_is_accounted_for(backend: str) -> None:
    async def play() -> None:
        log = MemoryLog()
        config = LoopConfig(model=ScriptedModel([["half", Wait(float("inf"))]]), log=log)
        async with agent_loop("go", AgentContext(), config) as run:
            async for event in run:
                if isinstance(event, MessageUpdate):
                    break
        assert [f.error_kind for f in log.facts if isinstance(f, ModelResponse)] == ["canceled"]

    anyio.run(play, backend=backend)


class Lists(NamesNothing):
    """A context manager that gives a new list, or equal copies, each time."""

    def __init__(self, copies: bool) -> None:
        self.copies = copies

    async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Projection:
        messages = [structs.replace(m) if isinstance(m, Message) and self.copies else m for m in view]
        return Projection(messages=messages)


@pytest.mark.parametrize("copies", [False, True])
def test_a_manager_that_gives_lists_costs_what_is_new(backend: str, copies: bool) -> None:
    async def play() -> None:
        turns = 30
        model = ScriptedModel([[call(f"c{n}", "echo")] for n in range(turns)] + ["done"])
        log = MemoryLog()
        config = LoopConfig(model=model, log=log, context=Lists(copies))
        run = agent_loop("go", AgentContext(tools=[Echo()]), config)
        await run.result()
        projected = [fact for fact in log.facts if isinstance(fact, ContextProjected)]
        assert {len(fact.append) for fact in projected[1:]} == {2}
        assert run.counters.lowered == 2 * turns + 1

    anyio.run(play, backend=backend)


def test_a_manager_that_gives_no_view_has_the_whole_transcript_sent(backend: str) -> None:
    class Nothing(NamesNothing):
        async def project(self, view: Sequence[AgentMessage], scope: Any, /) -> Any:
            return [None, Projection(messages=()), Projection(messages=["a"])][len(view) % 3]  # type: ignore[list-item]

    async def play() -> None:
        model, log = ScriptedModel([[call("c1", "echo")], "done"]), MemoryLog()
        config = LoopConfig(model=model, log=log, context=Nothing())
        result = await agent_loop("go", AgentContext(tools=[Echo()]), config).result()
        assert result.text == "done" and [len(r.messages) for r in model.requests] == [1, 3]

    anyio.run(play, backend=backend)


def test_a_prompt_that_ends_with_an_answer_is_refused(backend: str) -> None:
    with pytest.raises(ValueError, match="must be a user's"):
        agent_loop(
            [user_message("a"), assistant_message("b")], AgentContext(), LoopConfig(model=ScriptedModel())
        )


@pytest.mark.parametrize("limits", [{"grace_s": float("inf")}, {"cost": float("nan")}])
def test_limits_that_a_log_cannot_hold_are_refused(backend: str, limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        Limits(**limits)  # type: ignore[arg-type]


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
    view = Transcript[AgentMessage]([user_message("go"), failed, good, *results])
    lowered, _ = Lowering().extend(view, b"")
    assert [m.text for m in lowered] == [m.text for m in repair_message_sequence(to_messages(view))]
