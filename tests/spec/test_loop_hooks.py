"""Code of the host around model calls and before the end; budgets, texts, and what an abort keeps."""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from play import Played, Player, echo, gives, shown

from unspool.kernel import (
    Abort,
    CallOptions,
    ContextProjected,
    Cost,
    ErrorEvent,
    Hooks,
    Inbox,
    Limits,
    Message,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    ModelCallInfo,
    ModelResponse,
    OverloadedError,
    ReplyInfo,
    StopInfo,
    StopVerdict,
    Stored,
    Text,
    Texts,
    ToolContext,
    ToolError,
    ToolExecDispatch,
    Usage,
    Verdict,
    fold,
    make_call,
)
from unspool.kernel.function_tool import raw_tool
from unspool.kernel.lowering import hash_of
from unspool.llm.scripted import Say, Unfinished, Wait, call


def responses(run: Played) -> list[tuple[str, str, int]]:
    """What each model call came to: source, stop reason or error kind, attempt."""
    return [(f.source, f.error_kind or f.stop_reason, f.attempt) for f in run.all_of(ModelResponse)]


def answer(text: str, *calls: Any, **fields: Any) -> Message:
    return Message(role="assistant", content=(*([Text(text)] if text else []), *calls), **fields)


# --- before a model call -----------------------------------------------------------------------


def test_request_is_shown_before_the_call(play: Player) -> None:
    seen: list[tuple[list[str], int]] = []

    def look(info: ModelCallInfo) -> None:
        seen.append(([shown(message) for message in info.request.messages], info.attempt))

    run = play(OverloadedError("busy"), "fine", system="Be kind.", hooks=Hooks(before_model_call=look))
    assert seen == [(["user: go"], 1), (["user: go"], 2)]
    assert run.texts == ["user: go", "assistant: fine"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_options_for_one_call(play: Player, kind: str) -> None:
    usual, special = CallOptions(temperature=0.5), CallOptions(thinking="high")

    def change(info: ModelCallInfo) -> CallOptions | None:
        return special if info.state.turns == 0 else None

    async def later(info: ModelCallInfo) -> CallOptions | None:
        await anyio.lowlevel.checkpoint()
        return change(info)

    run = play(
        [call("c1", "echo", value="x")],
        "done",
        tools=[echo()],
        options=usual,
        hooks=Hooks(before_model_call=change if kind == "sync" else later),
    )
    assert [request.options for request in run.requests] == [special, usual]
    first, second = run.all_of(ContextProjected)
    assert (first.options, second.options) == (hash_of(special), hash_of(usual))
    assert first.blobs == {hash_of(special): {"thinking": "high"}}  # so that the log can tell
    assert first.fingerprint != second.fingerprint
    assert run.state.blobs[second.options] == {"temperature": 0.5}


def test_reply_in_place_of_the_model(play: Player) -> None:
    used = Usage(input_tokens=3)
    hooks = Hooks(before_model_call=lambda info: answer("from the cache", usage=used))
    run = play(hooks=hooks)
    assert run.requests == []
    assert responses(run) == [("hook", "stop", 1)]
    assert run.texts == ["user: go", "assistant: from the cache"]
    assert (run.end.reason, run.end.usage) == ("stop", used)
    assert run.all_of(ContextProjected) == []


def test_calls_of_such_a_reply_run(play: Player) -> None:
    def first_only(info: ModelCallInfo) -> Message | None:
        return answer("", call("c1", "echo", value="x")) if info.state.turns == 0 else None

    run = play("done", tools=[echo()], hooks=Hooks(before_model_call=first_only))
    assert responses(run) == [("hook", "tool_use", 1), ("model", "stop", 1)]
    assert run.sent() == ["user: go", "assistant: echo#c1", "tool c1: x"]


def test_calls_of_such_a_reply_get_ids_of_their_own(play: Player) -> None:
    hooks = Hooks(
        before_model_call=lambda info: (
            answer("", call("c1", "echo", value="x")) if info.state.turns < 2 else None
        )
    )
    run = play("done", tools=[echo()], hooks=hooks)
    assert list(run.outcomes().values()) == ["ok", "ok"]


NONSENSE: list[Any] = ["text", 1, Message(role="user", content=(Text("x"),))]


@pytest.mark.parametrize("given", [*NONSENSE, ZeroDivisionError("oops")], ids=repr)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_hook_before_a_call_that_fails(play: Player, given: Any, kind: str) -> None:
    def hook(info: ModelCallInfo) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    async def later(info: ModelCallInfo) -> Any:
        return hook(info)

    run = play("never", hooks=Hooks(before_model_call=hook if kind == "sync" else later))
    assert run.requests == []
    assert [row for row in run.brief if row.startswith("error hook: hook: before_model_call raised")]
    assert run.end.reason == "error"


async def hangs(*_: Any) -> Any:
    await anyio.sleep_forever()


@pytest.mark.parametrize("hook", ["before_model_call", "before_request", "after_model_call", "before_stop"])
def test_abort_reaches_a_hook(play: Player, hook: str) -> None:
    hooks: Any = {hook: hangs}
    run = play("answer", hooks=Hooks(**hooks), at={3.0: lambda o: o.stop()})
    assert (run.end.reason, run.now) == ("aborted", 3.0)


# --- the messages of a request -----------------------------------------------------------------


def with_text(message: Message, text: str) -> Message:
    return Message(role=message.role, content=(Text(text),), tool_call_id=message.tool_call_id)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_messages_of_one_call_are_rewritten(play: Player, kind: str) -> None:
    def rewrite(messages: Sequence[Message]) -> Sequence[Message]:
        return [with_text(m, m.text.upper()) if m.role == "user" else m for m in messages]

    async def later(messages: Sequence[Message]) -> Sequence[Message]:
        return rewrite(messages)

    run = play("fine", hooks=Hooks(before_request=rewrite if kind == "sync" else later))
    assert run.sent() == ["user: GO"]
    assert run.texts == ["user: go", "assistant: fine"]  # the transcript stays as it is


def view(run: Played, seq: int) -> list[str]:
    """What the log says the model saw at a projection: texts, transcript ids for what is there."""
    state = fold([fact for fact in run.facts if fact.seq <= seq])
    assert state.projection is not None
    entries = state.projection.view
    return [ref if isinstance(ref, str) else f"+{ref.message.text if ref.message else ''}" for ref in entries]


def test_log_tells_what_was_sent(play: Player) -> None:
    def add_hint(messages: Sequence[Message]) -> Sequence[Message]:
        hint = Message(role="user", content=(Text("be brief"),))
        return [*messages, hint] if len(messages) < 4 else messages

    calls = [[call(f"c{number}", "echo", value="x")] for number in (1, 2)]
    run = play(*calls, "done", tools=[echo()], hooks=Hooks(before_request=add_hint))
    assert run.sent(0) == ["user: go", "user: be brief"]
    assert run.sent(2)[-1] == "tool c2: x"
    views = [view(run, fact.seq) for fact in run.all_of(ContextProjected)]
    assert views == [
        ["m1", "+be brief"],
        ["m1", "m2", "m3", "+be brief"],
        ["m1", "m2", "m3", "m4", "m5"],
    ]
    kept = [(fact.base > 0, fact.keep) for fact in run.all_of(ContextProjected)]
    assert kept == [(False, 0), (True, 1), (True, 3)]  # only the change is recorded
    for fact, request in zip(run.all_of(ContextProjected), run.requests, strict=True):
        assert fact.messages == len(request.messages)


def test_rewritten_messages_are_recorded_whole(play: Player) -> None:
    hooks = Hooks(before_request=lambda messages: [with_text(m, "***") for m in messages])
    run = play("fine", hooks=hooks)
    (fact,) = run.all_of(ContextProjected)
    (entry,) = fact.append
    assert isinstance(entry, Stored) and entry.message is not None and entry.message.text == "***"


def test_rewritten_request_is_repaired(play: Player) -> None:
    def drop_results(messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "tool"]

    run = play(
        [call("c1", "echo", value="x")], "done", tools=[echo()], hooks=Hooks(before_request=drop_results)
    )
    assert [message.role for message in run.requests[1].messages] == ["user", "assistant", "tool"]
    assert run.requests[1].messages[-1].is_error
    assert run.results() == {"c1": "x"}


@pytest.mark.parametrize(
    "given", [[], None, ["text"], ZeroDivisionError("oops")], ids=["empty", "None", "text", "raises"]
)
def test_rewrite_that_leaves_nothing_to_send(play: Player, given: Any) -> None:
    def rewrite(messages: Sequence[Message]) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    run = play("never", hooks=Hooks(before_request=rewrite))
    assert run.requests == []
    assert [row for row in run.brief if row.startswith("error hook: hook: before_request raised")]


def test_hooks_of_one_call_follow_each_other(play: Player) -> None:
    seen: list[str] = []

    def look(info: ModelCallInfo) -> CallOptions:
        seen.extend(shown(message) for message in info.request.messages)
        return CallOptions(max_tokens=5)

    hooks = Hooks(before_request=lambda ms: [with_text(m, "x") for m in ms], before_model_call=look)
    run = play("fine", hooks=hooks)
    assert (seen, run.sent(), run.requests[0].options.max_tokens) == (["user: x"], ["user: x"], 5)


# --- after a model call ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_came_of_each_call_is_shown(play: Player, kind: str) -> None:
    seen: list[tuple[str, str, int]] = []

    def look(info: ReplyInfo) -> None:
        text = info.reply.text if info.reply else "-"
        seen.append((text, info.response.error_kind, info.response.attempt))

    async def later(info: ReplyInfo) -> None:
        look(info)

    run = play(
        OverloadedError("busy"), "fine", hooks=Hooks(after_model_call=look if kind == "sync" else later)
    )
    assert seen == [("-", "overloaded", 1), ("fine", "", 2)]
    assert run.end.reason == "stop"


def test_reply_of_a_hook_is_shown_too(play: Player) -> None:
    seen: list[tuple[str, str]] = []

    def look(info: ReplyInfo) -> None:
        seen.append((info.reply.text if info.reply else "", info.response.source))

    play(hooks=Hooks(before_model_call=lambda info: answer("mine"), after_model_call=look))
    assert seen == [("mine", "hook")]


@pytest.mark.parametrize("script", [["fine"], [OverloadedError("busy"), "never"]], ids=["reply", "attempt"])
def test_hook_after_a_call_that_raises(play: Player, script: Any) -> None:
    def breaks(info: ReplyInfo) -> None:
        raise ZeroDivisionError("oops")

    run = play(*script, hooks=Hooks(after_model_call=breaks))
    assert "error hook: hook: after_model_call raised (reason='oops')" in run.brief
    assert (len(run.requests), run.end.reason) == (1, "error")


def test_calls_do_not_run_when_the_hook_after_their_reply_fails(play: Player) -> None:
    async def breaks(info: ReplyInfo) -> None:
        raise ZeroDivisionError("oops")

    run = play([call("c1", "echo", value="x")], tools=[echo()], hooks=Hooks(after_model_call=breaks))
    assert run.outcomes() == {"c1": "cancelled"}
    assert run.end.reason == "error"


# --- before the end ----------------------------------------------------------------------------


class Lingers:
    """A hook before the end that takes ``seconds`` of the run's clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.log: list[str] = []
        self.clock: Any = None

    def begin(self, outside: Any) -> None:
        self.clock = outside.clock

    async def __call__(self, info: StopInfo) -> None:
        self.log.append(f"turn {info.turns}")
        try:
            await self.clock.sleep(self.seconds)
            self.log.append("done")
        finally:
            self.log.append(f"at {self.clock.monotonic():g}")


def linger(play: Player, hook: Lingers, *script: Any, **settings: Any) -> Played:
    settings["on"] = {"agent_start": hook.begin, **settings.get("on", {})}
    return play(*script, hooks=Hooks(before_stop=hook), **settings)


def test_run_waits_for_the_hook_before_its_end(play: Player) -> None:
    hook = Lingers(7)
    run = linger(play, hook, "answer")
    assert hook.log == ["turn 1", "done", "at 7"]
    assert (run.now, run.end.reason) == (7.0, "stop")


def test_message_cuts_the_hook_short_and_is_answered(play: Player) -> None:
    hook = Lingers(7)
    run = linger(play, hook, "one", "two", at={2.0: lambda o: o.steer("wait")})
    assert hook.log == ["turn 1", "at 2", "turn 2", "done", "at 9"]
    assert run.texts == ["user: go", "assistant: one", "user: wait", "assistant: two"]


def test_follow_up_cuts_the_hook_short_too(play: Player) -> None:
    hook = Lingers(7)
    run = linger(play, hook, "one", "two", at={2.0: lambda o: o.follow_up("more")})
    assert run.texts == ["user: go", "assistant: one", "user: more", "assistant: two"]
    assert run.now == 9.0


def test_abort_cuts_the_hook_short(play: Player) -> None:
    hook = Lingers(7)
    run = linger(play, hook, "one", at={2.0: lambda o: o.stop()})
    assert (hook.log, run.end.reason) == (["turn 1", "at 2"], "aborted")


def test_hook_before_the_end_is_not_asked_when_the_guard_objects(play: Player) -> None:
    log: list[str] = []

    def guard(info: StopInfo) -> StopVerdict:
        log.append("guard")
        return StopVerdict("go_on", "test it") if info.turns == 1 else StopVerdict()

    run = play("one", "two", hooks=Hooks(stop_guard=guard, before_stop=lambda info: log.append("before")))
    assert log == ["guard", "guard", "before"]
    assert run.end.reason == "stop"


def test_hook_before_the_end_is_not_asked_when_a_message_came_first(play: Player) -> None:
    log, inbox = [], Inbox()

    def guard(info: StopInfo) -> StopVerdict:
        if info.turns == 1:
            inbox.steer("wait")
        return StopVerdict()

    hooks = Hooks(stop_guard=guard, before_stop=lambda info: log.append(info.turns))
    play("one", "two", hooks=hooks, inbox=inbox)
    assert log == [2]


@pytest.mark.parametrize("case", ["abort", "error", "limit"])
def test_hook_before_the_end_is_not_asked_about_other_ends(play: Player, case: str) -> None:
    log: list[StopInfo] = []
    hooks = Hooks(before_stop=log.append)
    calls = [call("c1", "echo", value="x")]
    match case:
        case "abort":
            play(calls, tools=[echo()], hooks=hooks, on={"turn_end": lambda o: o.stop()})
        case "error":
            play(RuntimeError("boom"), hooks=hooks)
        case _:
            play(calls, tools=[echo()], hooks=hooks, limits=Limits(turns=1))
    assert log == []


def test_hook_before_the_end_that_raises(play: Player) -> None:
    def breaks(info: StopInfo) -> None:
        raise ZeroDivisionError("oops")

    run = play("one", hooks=Hooks(before_stop=breaks))
    assert run.brief[-2:] == ["error hook: hook: before_stop raised (reason='oops')", "agent_end error"]


def test_nothing_outlives_the_run_that_a_cancelled_hook_still_tidies_up(play: Player) -> None:
    log: list[str] = []
    clock: list[Any] = []

    async def slow(info: StopInfo) -> None:
        if info.turns > 1:
            return
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await clock[0].sleep(2)
            log.append("tidied")

    run = play(
        "one",
        "two",
        hooks=Hooks(before_stop=slow),
        at={1.0: lambda o: o.steer("wait")},
        on={"agent_start": lambda o: clock.append(o.clock), "agent_end": lambda o: log.append("end")},
    )
    assert log == ["tidied", "end"]
    assert run.end.reason == "stop"


# --- budgets -----------------------------------------------------------------------------------


def costs(dollars: float, *parts: Any, tokens: int = 10) -> Say:
    return Say(parts, usage=Usage(input_tokens=tokens, cost=Cost(input=dollars)))


BUDGETS = [Limits(cost=0.02), Limits(tokens=20)]


@pytest.mark.parametrize("limits", BUDGETS, ids=["cost", "tokens"])
def test_budget_ends_a_run_before_its_next_call(play: Player, limits: Limits) -> None:
    turns = [costs(0.01, call(f"c{number}", "tool")) for number in range(5)]
    run = play(*turns, tools=[gives("x")], limits=limits)
    assert len(run.requests) == 2
    assert run.brief[-2].startswith("error budget: run: the budget is used up")
    assert run.end.reason == "budget"
    assert run.outcomes() == {"c0": "ok", "c1": "cancelled"}
    assert run.result is not None and run.result.error_kind == "budget"


@pytest.mark.parametrize("limits", BUDGETS, ids=["cost", "tokens"])
def test_budget_is_that_of_a_run(play: Player, limits: Limits) -> None:
    first = play(costs(0.02, "one", tokens=20), limits=limits)
    assert first.end.reason == "budget"
    second = play(costs(0.01, "two"), prompt="again", state=first.state, limits=limits)
    assert second.end.reason == "stop"


def test_model_without_a_price_costs_nothing_and_it_is_said_once(play: Player) -> None:
    turn = Say([call("c1", "echo")], usage=Usage(input_tokens=99))
    run = play(turn, Say(["one"], usage=Usage(input_tokens=99)), tools=[echo()], limits=Limits(cost=0.01))
    said = [line for line in run.brief if line.startswith("error warning no_price")]
    assert len(said) == 1 and "do not count towards limits.cost" in said[0]
    assert run.end.reason == "stop"


# --- texts -------------------------------------------------------------------------------------


def test_last_words_of_a_run_without_turns(play: Player) -> None:
    texts = Texts(step_limit="I have to stop here.")
    run = play([call("c1", "tool")], tools=[gives("x")], limits=Limits(turns=1), texts=texts)
    assert run.brief[-2:] == [
        "message_end assistant 'I have to stop here.' (step_limit)",
        "agent_end max_turns",
    ]
    assert run.all_of(ErrorEvent) == []
    assert run.result is not None and run.result.text == "I have to stop here."
    later = play("fine", prompt="go on", state=run.state, tools=[gives("x")])
    assert later.sent()[-2:] == ["assistant: I have to stop here.", "user: go on"]


TOLD: dict[str, Callable[[Player, Texts], Played]] = {
    "go_on": lambda play, texts: play(Say(["half"], stop_reason="length"), "rest", texts=texts),
    "cut_off": lambda play, texts: play(
        Say([call("c1", "echo", value="x"), Unfinished("c2", "echo", "{")], stop_reason="length"),
        "ok",
        tools=[echo()],
        texts=texts,
    ),
    "unknown_tool": lambda play, texts: play([call("c1", "nope")], "ok", texts=texts),
    "not_json": lambda play, texts: play([make_call("c1", "echo", "{")], "ok", tools=[echo()], texts=texts),
    "invalid": lambda play, texts: play([call("c1", "echo")], "ok", tools=[echo()], texts=texts),
    "unchecked": lambda play, texts: play(
        [call("c1", "tool")], "ok", tools=[gives("x", validate=breaks)], texts=texts
    ),
    "refused": lambda play, texts: play(
        [call("c1", "tool")], "ok", tools=[gives("x", validate=refuses)], texts=texts
    ),
    "preview_failed": lambda play, texts: play(
        [call("c1", "tool")], "ok", tools=[gives("x", preview=breaks)], texts=texts
    ),
    "disabled": lambda play, texts: play(
        [call("c1", "tool")],
        [call("c2", "tool")],
        "ok",
        tools=[gives(ToolError("no"))],
        limits=Limits(tool_errors=1),
        texts=texts,
    ),
    "denied": lambda play, texts: play(
        [call("c1", "tool")],
        "ok",
        tools=[gives("x")],
        hooks=Hooks(gate=lambda use: Verdict.deny("no")),
        texts=texts,
    ),
    "skipped": lambda play, texts: play(
        [call("c1", "tool")],
        "ok",
        tools=[gives("x")],
        on={"message_end assistant": lambda o: o.steer("wait")},
        texts=texts,
    ),
    "not_started": lambda play, texts: play(
        [call("c1", "tool")],
        tools=[gives("x")],
        on={"message_end assistant": lambda o: o.stop(marker=False)},
        texts=texts,
    ),
    "limit_reached": lambda play, texts: play(
        [call("c1", "tool"), call("c2", "tool")],
        tools=[gives("x")],
        limits=Limits(tool_calls=1),
        texts=texts,
    ),
    "cancelled": lambda play, texts: play(
        [call("c1", "slow")], tools=[slow()], at={1.0: lambda o: o.stop(marker=False)}, texts=texts
    ),
    "interrupted": lambda play, texts: play(
        [call("c1", "slow")],
        "ok",
        tools=[slow(interrupt="cancel")],
        at={1.0: lambda o: o.steer("wait")},
        texts=texts,
    ),
    "timed_out": lambda play, texts: play([call("c1", "slow")], "ok", tools=[slow(timeout_s=1)], texts=texts),
    "cancelled_itself": lambda play, texts: play(
        [call("c1", "tool")], "ok", tools=[gives(CancelledError())], texts=texts
    ),
    "no_result": lambda play, texts: play(
        [call("c1", "tool")], "ok", tools=[gives(float("nan"))], texts=texts
    ),
    "undecided": lambda play, texts: undecided(play, texts),
    "unknown_outcome": lambda play, texts: in_doubt(play, texts),
}


def undecided(play: Player, texts: Texts) -> Played:
    tools = [gives("x", needs_approval=True)]
    paused = play([call("c1", "tool")], tools=tools)
    return play("ok", prompt=None, state=paused.state, decisions={}, tools=tools, texts=texts)


def in_doubt(play: Player, texts: Texts) -> Played:
    run = play([call("c1", "tool")], "ok", tools=[gives("x")])
    (dispatch,) = run.all_of(ToolExecDispatch)
    state = fold(run.facts[: dispatch.seq])
    return play("ok", prompt=None, state=state, tools=[gives("x")], texts=texts)


async def breaks(args: Any, ctx: ToolContext) -> Any:
    raise RuntimeError("no disk")


async def refuses(args: Any, ctx: ToolContext) -> str:
    return "no"


def slow(**traits: Any) -> Any:
    async def wait(args: Any, ctx: ToolContext) -> object:
        await ctx.clock.sleep(60)
        return "late"

    return raw_tool("slow", "", {}, wait, **traits)


@pytest.mark.parametrize("name", TOLD)
def test_host_chooses_the_words(play: Player, name: str) -> None:
    own: Any = {name: f"({name})"}
    run = TOLD[name](play, Texts(**own))
    later = play("fine", prompt="and now?", state=run.state)
    assert any(f"({name})" in message.text for message in later.requests[0].messages)


def test_all_words_are_covered() -> None:
    elsewhere = {"step_limit", "aborted", "aborted_in_tools", "output_invalid"}  # of an agent's typed answer
    elsewhere |= {"left_waiting"}  # of nested sessions
    assert set(Texts.__struct_fields__) - elsewhere == set(TOLD)


@pytest.mark.parametrize(
    ("phase", "text"), [("inference", "stopped thinking"), ("tool_execution", "stopped working")]
)
def test_marker_of_an_abort_by_phase(play: Player, phase: str, text: str) -> None:  # A.9.2
    texts = Texts(aborted="stopped thinking", aborted_in_tools="stopped working")
    script = [[call("c1", "slow")]] if phase == "tool_execution" else [[Wait(60)]]
    run = play(*script, tools=[slow()], at={1.0: lambda o: o.stop()}, texts=texts)
    marker = run.state.messages[-1]
    assert isinstance(marker, Message)
    assert (marker.text, marker.stop_reason, marker.metadata) == (text, "aborted", {"abort_phase": phase})


def test_reason_of_an_abort_goes_before_the_text(play: Player) -> None:
    run = play([Wait(60)], at={1.0: lambda o: o.stop(reason="the window was closed")})
    assert run.texts[-1] == "assistant: the window was closed"


# --- what an abort keeps -----------------------------------------------------------------------


def interrupted(play: Player, *parts: Any, **settings: Any) -> Played:
    """A run that is aborted at second 5, with what is given to ``Abort.fire``."""
    abort = Abort()
    return play([*parts, Wait(60)], abort=abort, at={5.0: lambda o: abort.fire(**settings)})


def test_text_of_an_interrupted_answer_is_kept(play: Player) -> None:  # B121
    run = interrupted(play, "Once upon", keep=True, marker=False)
    last = run.state.messages[-1]
    assert isinstance(last, Message)
    assert (last.text, last.stop_reason) == ("Once upon", "interrupted")
    (started,) = [event for event in run.all_of(MessageStart) if event.role == "assistant"]
    (ended,) = [e for e in run.all_of(MessageEnd) if e.message and e.message.role == "assistant"]
    assert started.id == ended.id
    assert run.all_of(MessageDiscarded) == []
    assert responses(run) == [("model", "canceled", 1)]
    assert run.end.reason == "aborted"
    later = play("fine", prompt="go on", state=run.state)
    assert later.sent() == ["user: go", "assistant: Once upon", "user: go on"]


def test_host_says_what_was_heard(play: Player) -> None:
    run = interrupted(play, "Once upon a time", keep=lambda text: text[:4], marker=False)
    assert run.texts == ["user: go", "assistant: Once"]
    assert run.result is not None and run.result.text == "Once"


def test_marker_follows_what_was_kept(play: Player) -> None:
    run = interrupted(play, "Once upon", keep=True)
    assert run.texts[1:] == ["assistant: Once upon", "assistant: aborted by the user"]
    later = play("fine", prompt="go on", state=run.state)
    assert later.sent()[1:] == ["assistant: Once upon", "user: go on"]


@pytest.mark.parametrize("keep", [True, lambda text: "", lambda text: " \n"], ids=["all", "none", "blank"])
def test_nothing_to_keep(play: Player, keep: Any) -> None:
    parts = [] if keep is True else ["Once upon"]
    run = interrupted(play, *parts, keep=keep, marker=False)
    assert run.texts == ["user: go"]
    assert (run.end.reason, len(run.all_of(MessageDiscarded))) == ("aborted", len(parts))


def test_calls_of_an_interrupted_answer_do_not_run(play: Player) -> None:
    run = interrupted(play, "Let me see", call("c1", "echo", value="x"), keep=True, marker=False)
    assert run.texts == ["user: go", "assistant: Let me see"]
    assert run.outcomes() == {}


def test_answer_is_not_kept_unless_asked_for(play: Player) -> None:  # T434
    run = interrupted(play, "Once upon", marker=False)
    assert run.texts == ["user: go"]


@pytest.mark.parametrize("keep", [lambda text: text[99], lambda text: None], ids=["raises", "no text"])
def test_function_that_cannot_say_what_to_keep(play: Player, keep: Any) -> None:
    run = interrupted(play, "Once upon", keep=keep, marker=False)
    assert (run.texts, run.end.reason) == (["user: go"], "aborted")
    assert [row for row in run.brief if row.startswith("error hook: abort: keep raised")]


# --- one message at a time ---------------------------------------------------------------------


def test_steering_one_by_one(play: Player) -> None:  # T277
    answered = play("hello").state
    inbox = Inbox()
    inbox.steer("first")
    inbox.steer("second")
    run = play("one", "two", prompt=None, state=answered, inbox=inbox, steering_mode="one")
    assert run.texts[2:] == ["user: first", "assistant: one", "user: second", "assistant: two"]
    assert len(run.requests) == 2


def test_steering_all_together(play: Player) -> None:
    answered = play("hello").state
    inbox = Inbox()
    inbox.steer("first")
    inbox.steer("second")
    run = play("one", prompt=None, state=answered, inbox=inbox)
    assert run.texts[2:] == ["user: first", "user: second", "assistant: one"]


def test_steering_one_by_one_while_tools_run(play: Player) -> None:
    def both(outside: Any) -> None:
        outside.steer("first")
        outside.steer("second")

    run = play(
        [call("c1", "echo", value="x")],
        "one",
        "two",
        tools=[echo()],
        steering_mode="one",
        on={"tool_exec_end": both},
    )
    assert run.texts[3:] == ["user: first", "assistant: one", "user: second", "assistant: two"]


@pytest.mark.parametrize("mode", ["all", "one"])
def test_follow_ups(play: Player, mode: str) -> None:
    def both(outside: Any) -> None:
        outside.follow_up("first")
        outside.follow_up("second")

    run = play("hello", "one", "two", follow_up_mode=mode, on={"agent_start": both})
    together = ["user: first", "user: second", "assistant: one"]
    one_by_one = ["user: first", "assistant: one", "user: second", "assistant: two"]
    assert run.texts[2:] == (together if mode == "all" else one_by_one)


def test_steering_goes_before_follow_ups(play: Player) -> None:  # B120
    def both(outside: Any) -> None:
        outside.follow_up("after")
        outside.steer("now")

    run = play("hello", "one", "two", on={"message_end assistant": both})
    assert run.texts[2:] == ["user: now", "assistant: one", "user: after", "assistant: two"]
