"""Agents in bad company: logs that act, threads that come late, listeners that interrupt, crashes half way."""

import signal
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from making import Made, wait
from msgspec import Struct
from scenarios import check_requests

from unspool import Agent, AgentBusyError, Hooks, LogError, Message, assistant_message, fold, user_message
from unspool.kernel import (
    AgentEnd,
    BaseMessage,
    CallOptions,
    Codec,
    Event,
    Fact,
    ModelRequest,
    PassThrough,
    Projection,
    QueueChanged,
    StreamEvent,
    Text,
    TextDelta,
    TurnEnd,
    TurnStart,
    tool_message,
)
from unspool.kernel.messages import make_call
from unspool.kernel.trace import line
from unspool.llm.scripted import ScriptedModel, Wait
from unspool.trajectory.memory import MemoryLog

Go = Callable[[Any], Any]


class Acting(MemoryLog):
    """A log that does something when it stores the first fact of a kind."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind
        self.acts: list[Callable[[], object]] = []

    def append(self, fact: Fact, /) -> None:
        super().append(fact)
        if isinstance(fact, self.kind) and self.acts:
            self.acts.pop()()


@pytest.mark.parametrize("what", ["clear_queue", "steer", "follow_up", "inject", "abort"])
def test_a_log_that_acts_on_the_agent(go: Go, what: str) -> None:
    log = Acting(TurnStart)
    made = Made("one", "two", "three", log=log)
    act = getattr(made.agent, what)
    log.acts.append(act if what in ("clear_queue", "abort") else lambda: act("from the log"))
    made.agent.follow_up("later")
    go(lambda: made.agent.run("x"))
    assert [fact.seq for fact in log.facts] == list(range(1, len(log.facts) + 1))
    assert fold(log.facts) == made.agent.state
    if what == "clear_queue":
        assert "user: later" not in made.texts


def test_a_log_that_changes_more_than_queues_is_told_so(go: Go) -> None:
    log = Acting(QueueChanged)
    made = Made(log=log, messages=[user_message("a")])
    log.acts.append(lambda: made.agent.set_messages([]))
    with pytest.raises(LogError, match="append may queue messages"):
        made.agent.steer("x")


def test_a_log_that_aborts_while_a_thread_injects(go: Go) -> None:
    log = Acting(TurnStart)
    made = Made([Wait(1), "one"], "two", log=log)

    def abort() -> None:
        thread = threading.Thread(target=made.agent.inject, args=("x",))
        thread.start()
        made.agent.abort(marker=False)

    log.acts.append(abort)
    go(lambda: made.agent.run("go"))
    assert made.agent.state.end_reason == "aborted"


def test_two_agents_on_one_log(go: Go) -> None:
    log = MemoryLog()
    first, second = Made("one", log=log), Made("two", log=log)  # both begin where the log stands
    go(lambda: first.agent.run("x"))
    with pytest.raises(LogError, match="a log belongs to one session"):
        go(lambda: second.agent.run("x"))


def test_an_agent_on_a_log_goes_on_with_its_session(go: Go) -> None:
    log = MemoryLog()
    first = Made("one", log=log)
    go(lambda: first.agent.run("x"))
    second = Made("two", log=log)
    assert second.agent.state == first.agent.state
    assert [message.text for message in go(lambda: second.agent.run("y")).messages] == ["y", "two"]
    assert second.agent.state == log.state()


# --- order of what listeners hear --------------------------------------------------------------


def in_order(events: list[Event]) -> bool:
    places = [(event.seq, getattr(event, "sub", 0)) for event in events]
    return places == sorted(places)


def test_a_message_at_the_end_of_a_run_is_heard_after_the_end(go: Go) -> None:
    made = Made("hi")

    async def main() -> None:
        async for event in made.agent.stream("x"):
            if isinstance(event, TurnEnd):
                made.agent.steer("psst")
            assert event.run_id

    go(main)
    assert in_order(made.heard)
    made.check()


def test_threads_that_steer_an_idle_agent_are_heard_in_order(go: Go) -> None:
    made = Made()
    first_is_told, second_is_queued = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        if event.seq == 1:
            first_is_told.set()
            second_is_queued.wait(5)

    heard: list[int] = []
    made.agent.subscribe(slow)
    made.agent.subscribe(lambda event: heard.append(event.seq))
    thread = threading.Thread(target=made.agent.steer, args=("first",))
    thread.start()
    first_is_told.wait(5)
    made.agent.steer("second")
    second_is_queued.set()
    thread.join()
    assert heard == [1, 2]


def test_a_listener_may_take_a_lock_that_others_hold_while_they_abort(go: Go) -> None:
    made = Made(messages=[assistant_message("hi")])
    lock = threading.Lock()

    def locks(event: Event) -> None:
        assert lock.acquire(timeout=5)
        lock.release()

    made.agent.subscribe(locks)
    with lock:
        thread = threading.Thread(target=made.agent.inject, args=("x",))
        thread.start()
        made.agent.abort()
    thread.join()


# --- the right to run is given back ------------------------------------------------------------


def test_work_of_a_thread_that_came_too_late_holds_nobody_up(go: Go) -> None:
    made = Made("answered", "answered")

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with made.agent:
                await anyio.lowlevel.checkpoint()
                thread = threading.Thread(target=made.agent.prompt, args=("hello",))
                thread.start()
                thread.join()
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert (await made.agent.run("x")).text == "answered"

    go(main)


def test_options_that_cannot_be_recorded_are_refused(go: Go) -> None:
    with pytest.raises(TypeError):
        Agent(ScriptedModel(), options=CallOptions(extra={"k": object()}))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_listener_that_ends_the_program_leaves_the_agent_free(go: Go, error: type[BaseException]) -> None:
    made = Made("one", "two")

    def interrupts(event: Event) -> None:
        raise error

    async def main() -> None:
        ends = made.agent.subscribe(interrupts)
        with pytest.raises(error):
            async with made.agent.stream("x") as run:
                async for _ in run:
                    pass
        ends()
        assert not made.agent.running
        assert (await made.agent.run("again")).end_reason == "stop"

    go(main)
    assert fold(made.log.facts) == made.agent.state


def test_a_signal_handler_may_abort(go: Go) -> None:
    class Silent(ScriptedModel):
        async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
            signal.raise_signal(signal.SIGUSR1)
            await anyio.sleep(30)
            yield TextDelta("never")

    agent = Agent(Silent())

    async def main() -> str:
        before = signal.signal(signal.SIGUSR1, lambda *_: agent.abort())
        try:
            with anyio.fail_after(5):
                return (await agent.run("x")).end_reason
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert go(main) == "aborted"


def test_an_interrupter_goes_before_those_that_wait(go: Go) -> None:
    made = Made([Wait(100)], "to the interrupter", "to the one that waited")
    results: dict[str, str] = {}

    async def run(text: str, **how: Any) -> None:
        results[text] = (await made.agent.run(text, **how)).text

    async def main() -> None:
        async with made.agent, anyio.create_task_group() as tasks:
            made.agent.prompt("first")
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(lambda: run("waits", busy="queue"))
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(lambda: run("interrupts", busy="interrupt"))

    go(main)
    assert results == {"interrupts": "to the interrupter", "waits": "to the one that waited"}


# --- results ------------------------------------------------------------------------------------


def test_a_result_is_that_of_its_run(go: Go) -> None:
    made = Made("one", "two", "three")

    async def main() -> None:
        late = made.agent.stream("late")
        await made.agent.run("first")
        assert [message.text for message in (await late.result()).messages] == ["late", "two"]
        async with made.agent:
            run = made.agent.stream("again")
            async for event in run:
                if isinstance(event, AgentEnd):
                    made.agent.steer("while idle")
            result = await run.result()
        assert (result.end_reason, [m.text for m in result.messages]) == ("stop", ["again", "three"])

    go(main)


def test_a_run_that_never_began_has_no_result(go: Go) -> None:
    made = Made("one")

    async def main() -> None:
        closed = made.agent.stream("never")
        await closed.aclose()
        with pytest.raises(RuntimeError, match="never began"):
            await closed.result()
        async with made.agent:
            made.agent.prompt("first")
            busy = made.agent.stream("second")
            with pytest.raises(AgentBusyError):
                await busy.result()
            with pytest.raises(RuntimeError, match="never began"):
                await busy.result()

    go(main)


def test_a_typed_answer_that_was_stored_before_a_crash(go: Go) -> None:
    first = Made('{"a": 1}', output=dict[str, int])
    go(lambda: first.agent.run("x"))
    facts = first.log.facts
    cut = next(n for n, fact in enumerate(facts, 1) if line(fact).startswith("message_end assistant"))
    second = Made(output=dict[str, int], state=fold(facts[:cut]), log=None)
    result = go(second.agent.continue_)
    assert result.output == {"a": 1}


def test_reminders_are_bounded_whatever_is_configured(go: Go) -> None:
    made = Made(*["no"] * 20, output=int)

    async def main() -> None:
        made.agent.configure(
            hooks=Hooks(before_turn=lambda info: made.agent.configure(run_context={"n": info.index}))
        )
        result = await made.agent.run("x")
        assert (result.error_kind, len(made.model.requests)) == ("stop_guard", 3)

    go(main)


def test_types_that_are_no_classes(go: Go) -> None:
    model = ScriptedModel(['"left"'])
    agent = Agent(model, output=Literal["left", "right"])
    assert go(lambda: agent.run("x")).output == "left"


# --- conversations ------------------------------------------------------------------------------


def test_reset_forgets_what_was_taken_and_not_committed(go: Go) -> None:
    first = Made("one")
    go(lambda: first.agent.run("secret"))
    taken = next(n for n, fact in enumerate(first.log.facts, 1) if getattr(fact, "action", "") == "taken")
    made = Made("reply", state=fold(first.log.facts[:taken]), log=None)

    async def main() -> None:
        await made.agent.reset()
        await made.agent.run("new")

    go(main)
    assert made.texts == ["user: new", "assistant: reply"]


def test_a_reply_of_a_hook_that_cannot_be_stored(go: Go) -> None:
    given = Message(role="assistant", content=(Text("from the hook"),), metadata={"x": object()})
    made = Made("next", hooks=Hooks(before_model_call=lambda info: given))

    async def main() -> None:
        assert (await made.agent.run("x")).error_kind == "hook"
        made.agent.configure(hooks=Hooks())
        assert (await made.agent.run("y")).end_reason == "stop"

    go(main)
    made.check()


def test_a_conversation_with_nothing_for_the_model(go: Go) -> None:
    made = Made(messages=[tool_message(make_call("c1", "t", "{}"), "orphan")])
    result = go(made.agent.continue_)
    assert (result.end_reason, result.error) == ("error", "nothing in the conversation is for the model")


def test_a_fork_has_a_context_manager_of_its_own(go: Go) -> None:
    made = Made("one", context=PassThrough())
    with pytest.raises(TypeError, match="give the fork its own"):
        made.agent.fork()
    other = PassThrough()
    assert made.agent.fork(context=other).settings.config.context is other
    assert made.agent.fork(context=None).settings.config.context is None


def test_a_fork_renews_a_context_manager(go: Go) -> None:
    class Renewable(PassThrough):
        renewals = 0

        def renewed(self) -> "Renewable":
            self.renewals += 1
            return Renewable()

    manager = Renewable()
    made = Made("one", "two", context=manager)
    go(lambda: made.agent.run("first"))
    fork = made.agent.fork()
    assert isinstance(fork.settings.config.context, Renewable) and manager.renewals == 1
    assert fork.settings.config.context is not manager
    assert go(lambda: fork.run("in the fork")).text == "two"
    made.agent.fork(context=None)
    assert manager.renewals == 1


@pytest.mark.parametrize("queue", ["steer", "follow_up", "inject"])
def test_only_a_users_message_is_queued(go: Go, queue: str) -> None:
    made = Made()
    with pytest.raises(ValueError, match="must be a user's"):
        getattr(made.agent, queue)(assistant_message("I am the model"))
    assert made.log.facts == []


def test_inject_while_a_request_is_built(go: Go) -> None:
    told: list[str] = []

    class Slow(PassThrough):
        async def project(self, view: Any, scope: Any, /) -> Any:
            told.append(made.agent.inject("hello"))
            return await super().project(view, scope)

    made = Made("hi", messages=[user_message("a")], context=Slow())
    go(made.agent.build_request)
    assert told == ["queued"]


# --- what a call costs and what it says ---------------------------------------------------------


def lowered(made: Made, go: Go) -> list[int]:
    """Messages lowered and bytes encoded by each of three runs over a long history."""

    async def main() -> list[int]:
        costs, before = [], 0
        for number in range(3):
            async with made.agent.stream(f"prompt {number}") as run:
                await run.result()
                cost = run.counters.lowered + run.counters.encoded // 100
                costs.append(cost - before)
                before = cost
        return costs

    return list(go(main))[1:]


LONG = [message for n in range(300) for message in (user_message(f"q{n}"), assistant_message(f"a{n}"))]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"hooks": Hooks(before_model_call=lambda info: CallOptions(temperature=info.state.seq / 1000))},
        {"hooks": Hooks(before_request=lambda messages: messages)},
        {"hooks": Hooks(before_request=lambda messages: messages), "context": PassThrough()},
        {"hooks": Hooks(before_request=lambda messages: [*messages, user_message("be quick")])},
        {"hooks": Hooks(before_turn=lambda info: None), "thinking": "low"},
    ],
    ids=["plain", "options per call", "rewriting", "rewriting a manager's view", "a reminder", "turn hook"],
)
def test_a_run_costs_what_is_new_in_it(go: Go, how: dict[str, Any]) -> None:
    made = Made("a", "b", "c", messages=LONG, **how)
    assert max(lowered(made, go)) <= 12


def test_what_is_equal_but_not_the_same_is_sent(go: Go) -> None:
    values: list[Any] = [1, 1.0, True]

    def rewrite(messages: Any) -> Any:
        asked = make_call("c0", "wait", "{}")
        first = Message(role="assistant", content=(type(asked)(id="c0", name="wait", args={"v": values[0]}),))
        return [first, tool_message(asked, "x"), *messages]

    made = Made("a", "b", "c", hooks=Hooks(before_request=rewrite), tools=[wait])

    async def main() -> list[Any]:
        sent = []
        for _ in range(3):
            await made.agent.run("x")
            sent.append(made.model.requests[-1].messages[0].tool_calls[0].args["v"])
            values.pop(0)
        return sent

    assert [type(value) for value in go(main)] == [int, float, bool]


class Clumsy(PassThrough):
    """Gives a view that cannot be lowered, once."""

    def __init__(self) -> None:
        self.broken = True

    async def project(self, view: Any, scope: Any, /) -> Any:
        broken, self.broken = self.broken, False
        return Projection(messages=[view[0], None] if broken else list(view))  # type: ignore[list-item]  # the fault


def test_a_view_that_cannot_be_lowered_spoils_no_later_one(go: Go) -> None:
    made = Made("one", "two", messages=[user_message(text) for text in "abc"], context=Clumsy())

    async def main() -> None:
        await made.agent.run("p1")
        await made.agent.run("p2")

    go(main)
    assert [m.text for m in made.model.requests[1].messages] == ["a", "b", "c", "p1", "one", "p2"]
    check_requests(made.log.facts)


def test_a_projection_that_is_not_recorded_is_no_base(go: Go) -> None:
    made = Made("one", "two")

    async def main() -> None:
        await made.agent.run("p1")
        made.agent.set_messages([tool_message(make_call("c9", "t", "{}"), "orphan")])
        await made.agent.continue_()
        await made.agent.run("p2")

    go(main)
    assert [m.text for m in made.model.requests[-1].messages] == ["p2"]
    check_requests(made.log.facts)


class Note(BaseMessage, Struct, frozen=True):
    body: str

    def to_message(self) -> Message:
        return user_message(self.body)


def test_requests_of_a_conversation_that_begins_again_can_be_rebuilt(go: Go) -> None:
    codec = Codec()
    codec.register("note", Note)

    class Lists(PassThrough):
        async def project(self, view: Any, scope: Any, /) -> Any:
            return Projection(messages=list(view))

    made = Made("one", "two", codec=codec, context=Lists())

    async def main() -> None:
        await made.agent.run(Note("a"))
        await made.agent.reset()
        await made.agent.run(Note("a"))

    go(main)
    check_requests(made.log.facts)


def test_a_listener_that_ends_the_program_keeps_nothing_from_the_others(go: Go) -> None:
    made = Made("one")

    def interrupts(event: Event) -> None:
        if event.seq == 3:
            raise KeyboardInterrupt

    async def main() -> None:
        made.agent.subscribe(interrupts)
        last: list[Event] = []
        made.agent.subscribe(last.append)
        with pytest.raises(KeyboardInterrupt):
            await made.agent.run("x")
        assert last == made.heard

    go(main)
