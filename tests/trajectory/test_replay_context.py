"""Sessions with a context manager are replayed to the byte: without its code, and with it."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from tests.context.windowed import Windowed

from unspool.context import Engine, default, keep_tokens, keep_turns
from unspool.kernel import (
    Agent,
    AgentMessage,
    AgentStart,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    ErrorEvent,
    Fact,
    Hooks,
    Limits,
    Message,
    MessageEnd,
    ModelRequest,
    ModelResponse,
    PassThrough,
    Projection,
    ToolCall,
    TurnStart,
    fold,
    tool,
    user_message,
)
from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.hooks import ModelCallInfo
from unspool.kernel.ports import Compaction, ContextScope, Edit
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import MemoryLog, replay

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@tool
def read_file(path: str, size: int = 900) -> str:
    """Read a file."""
    return "\n".join(f"line {n} of {path}: some content" for n in range(size // 7 + 1))


def reads(count: int) -> Callable[[ModelRequest], Any]:
    """Answers with one file after the other, and then with a text."""
    asked = iter(range(count))

    def answer(request: ModelRequest) -> Any:
        n = next(asked, None)
        return "All read." if n is None else [(f"c{n}", "read_file", {"path": f"{n}.txt"})]

    return answer


def agent(model: Any, context: Any, log: MemoryLog, **options: Any) -> Agent[str]:
    options.setdefault("limits", Limits(turns=1000))
    return Agent(model, context=context, tools=[read_file], log=log, **options)


def engine() -> Engine:
    return default(counter="estimate")


def remembering() -> Engine:
    """One whose rewrites are not committed."""
    return keep_tokens(3000, counter="estimate")


# --- without the code of the host -------------------------------------------------------------------


async def two_overflows(log: MemoryLog) -> None:
    answer, asked = reads(20), iter(range(99))

    def too_long_twice(request: ModelRequest) -> Any:
        return ContextOverflowError("prompt is too long") if next(asked) in (8, 9) else answer(request)

    await agent(Windowed(20_000, too_long_twice), engine(), log).run("x")
    assert overflows(log.facts) == 2


async def overflow_with_no_recoveries(log: MemoryLog) -> None:
    manager = default(window=100_000, counter="estimate")
    model = Windowed(8_000, reads(20), tells=False)
    await agent(model, manager, log, limits=Limits(overflow_recoveries=0)).run("x")
    assert overflows(log.facts) == 1


async def overflow_once_the_manager_is_gone(log: MemoryLog) -> None:
    await configured(agent(Windowed(8_000, reads(60)), engine(), log), at=10, context=None)
    assert overflows(log.facts) == 1


async def another_model(log: MemoryLog) -> None:
    other = Windowed(6_000, reads(5))
    other.name = "test/other"
    await configured(agent(Windowed(16_000, reads(60)), engine(), log), at=10, model=other)
    assert changes(log.facts, "window") == [6_000]


async def another_manager(log: MemoryLog) -> None:
    made = agent(Windowed(16_000, reads(30)), engine(), log)
    await configured(made, at=10, context=keep_turns(3, counter="estimate"))
    assert [said["manager"] for said in changes(log.facts, "context")] == ["keep_turns"]


async def a_summariser_with_a_bug(log: MemoryLog) -> None:
    def broken(request: ModelRequest) -> Exception:
        return ValueError("a bug of the adapter")

    await agent(Windowed(8_000, reads(20), summary=broken), engine(), log).run("x")
    kinds = {
        fact.error_kind for fact in log.facts if isinstance(fact, ModelResponse) and fact.purpose != "reply"
    }
    assert kinds == {"unknown"}


async def remembered_and_rewritten(log: MemoryLog) -> None:
    hooks = Hooks(before_request=lambda messages: [*messages[:1], user_message("a note"), *messages[1:]])
    await agent(Windowed(8_000, reads(20)), remembering(), log, hooks=hooks).run("x")
    assert any(remembered(fact) for fact in log.facts)


async def remembered_and_answered_by_a_hook(log: MemoryLog) -> None:
    def every_third(info: ModelCallInfo) -> Message | None:
        if info.state.turn_index % 3:
            return None
        call = ToolCall(id=f"h{info.state.turn_index}", name="read_file", args={"path": "hook"})
        return Message(role="assistant", content=(call,))

    hooks = Hooks(before_model_call=every_third)
    await agent(Windowed(8_000, reads(20)), remembering(), log, hooks=hooks).run("x")
    last = [
        fact for fact, then in zip(log.facts, log.facts[1:], strict=False) if isinstance(then, MessageEnd)
    ]
    assert any(remembered(fact) for fact in last)


async def killed_after_a_remembered_rewrite(log: MemoryLog) -> None:
    await killed(log, remembered, remembering)


async def killed_before_the_response(log: MemoryLog) -> None:
    await killed(log, has_usage, engine)


def has_usage(fact: Fact) -> bool:
    return isinstance(fact, MessageEnd) and fact.message is not None and fact.message.usage is not None


async def killed(log: MemoryLog, after: Callable[[Fact], bool], context: Callable[[], Engine]) -> None:
    """A session whose process died after a fact, and that another one took up again."""
    before = MemoryLog()
    await agent(Windowed(8_000, reads(20)), context(), before).run("x")
    for fact in before.facts:
        log.append(fact)
        if after(fact):
            break
    taken_up = agent(Windowed(8_000, lambda request: "ok"), context(), log, state=fold(log.facts))
    await taken_up.continue_()


def remembered(fact: Fact) -> bool:
    return isinstance(fact, ContextCompacted) and not fact.committed


def overflows(facts: Sequence[Fact]) -> int:
    """Overflows, where the run failed by one."""
    assert any(isinstance(fact, ErrorEvent) and fact.kind == "context_overflow" for fact in facts)
    return sum(isinstance(fact, ModelResponse) and fact.error_kind == "context_overflow" for fact in facts)


def changes(facts: Sequence[Fact], name: str) -> list[Any]:
    found = [getattr(fact, name) for fact in facts if isinstance(fact, ConfigChanged)]
    return [value for value in found if value is not None]


async def configured(made: Agent[str], at: int, **settings: Any) -> None:
    """A run whose settings change in mid-run."""
    async with made.stream("x") as events:
        async for event in events:
            if isinstance(event, TurnStart) and event.index == at:
                made.configure(**settings)


SESSIONS = [
    two_overflows,
    overflow_with_no_recoveries,
    overflow_once_the_manager_is_gone,
    another_model,
    another_manager,
    a_summariser_with_a_bug,
    remembered_and_rewritten,
    remembered_and_answered_by_a_hook,
    killed_after_a_remembered_rewrite,
    killed_before_the_response,
]


@BACKENDS
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.__name__)
def test_a_log_is_enough(backend: str, session: Callable[[MemoryLog], Any]) -> None:
    async def main() -> None:
        log = MemoryLog()
        await session(log)
        result = await replay(log)
        assert result.same, str(result.difference)

    anyio.run(main, backend=backend)


# --- the model's window -----------------------------------------------------------------------------


def test_the_window_of_the_model_is_recorded() -> None:
    async def main() -> None:
        log = MemoryLog()
        made = agent(Windowed(9_000, lambda request: "ok"), None, log)
        await made.run("one")
        assert made.state.window == 9_000
        made.configure(model=Windowed(7_000, lambda request: "ok"))
        await made.run("two")
        assert made.state.window == 7_000
        starts = [fact.window for fact in log.facts if isinstance(fact, AgentStart)]
        assert (starts, changes(log.facts, "window")) == ([9_000, 7_000], [7_000])
        assert (await replay(log)).same

    anyio.run(main)


def test_another_model_has_the_window_of_the_one_that_it_stands_for() -> None:
    async def main() -> None:
        log = MemoryLog()
        await agent(Windowed(9_000, lambda request: "ok"), engine(), log).run("x")
        result = await replay(log, model=ScriptedModel(["something else"]))
        assert result.difference is not None and result.difference.recorded == "message_end"

    anyio.run(main)


# --- with the code of the host ----------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("manager", [engine, remembering], ids=["committed", "remembered"])
def test_the_manager_of_an_agent_that_goes_on_is_left_alone(
    backend: str, manager: Callable[[], Engine]
) -> None:
    """What it has learnt is of the end of the session; a replay begins where that began."""

    async def main() -> None:
        log = MemoryLog()
        made = agent(Windowed(8_000, reads(40)), manager(), log)
        await made.run("x")
        await made.run("and then?")
        before = (made.context_usage, made.baseline_context_usage)
        result = await replay(log, made.settings)
        assert result.same, str(result.difference)
        assert (made.context_usage, made.baseline_context_usage) == before
        await made.run("and now?")
        result = await replay(log, made.settings)
        assert result.same, str(result.difference)

    anyio.run(main, backend=backend)


class Counting(PassThrough):
    """Says how often it was asked since it was told of the conversation; another of its kind begins anew."""

    def __init__(self) -> None:
        self.asked = 0

    def renewed(self) -> "Counting":
        return Counting()

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        self.asked += 1
        return Projection(messages=view, tokens=self.asked)

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        self.asked = 100 * len(view)


def test_a_manager_remembers_as_long_as_its_process_and_hears_what_it_heard() -> None:
    async def main() -> None:
        log = MemoryLog()
        made = agent(ScriptedModel(["a", "b"]), Counting(), log)
        await made.run("one")
        made.set_messages([user_message("from before")])
        await made.run("two")
        assert [fact.tokens for fact in log.facts if isinstance(fact, ContextProjected)] == [1, 101]
        result = await replay(log, made.settings)
        assert result.same, str(result.difference)

    anyio.run(main)


# --- what managers of others do ---------------------------------------------------------------------


class Talkative(PassThrough):
    """Announces what it does after an overflow, and remembers it."""

    def __init__(self) -> None:
        self.shown = 0

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        return Projection(messages=view[self.shown :])

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        scope.announce(reason, "only the newest")
        self.shown = len(view) - 1
        return Compaction(changed=True, edits=[Edit(start=0, stop=self.shown)], shown=1)


@BACKENDS
def test_an_announcement_of_a_managers_own(backend: str) -> None:
    async def main() -> None:
        log = MemoryLog()
        model = ScriptedModel(["one", ContextOverflowError("too long"), "two"])
        made = agent(model, Talkative(), log)
        await made.run("x")
        assert (await made.run("y")).end_reason == "stop"
        counts = [
            (fact.messages_before, fact.messages_after)
            for fact in log.facts
            if isinstance(fact, ContextCompacted)
        ]
        assert counts == [(3, 1)]
        result = await replay(log)
        assert result.same, str(result.difference)

    anyio.run(main, backend=backend)
