"""What foreign code gets wrong, tools, hooks, models, logs and hosts, is an answer and never a crash."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from play import EncodedLog, Outside, Player, echo, gives

from unspool.kernel import (
    HookError,
    Hooks,
    Image,
    Message,
    Opaque,
    PassThrough,
    Projection,
    StopVerdict,
    Text,
    ToolError,
    ToolExecEnd,
    ValidationIssue,
    make_call,
    user_message,
)
from unspool.kernel.function_tool import raw_tool
from unspool.llm.scripted import Say, Wait, call

ASKS = [call("c1", "tool")]


class OwnBase(BaseException):
    pass


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [OwnBase("x"), GeneratorExit(), NoText()], ids=lambda e: type(e).__name__)
def test_tool_that_raises_oddly(play: Player, error: BaseException) -> None:
    run = play(ASKS, "done", tools=[gives(error)])  # on trio: TrioInternalError, the whole program dies
    assert run.outcomes() == {"c1": "error"}
    assert type(error).__name__ in run.results()["c1"]  # on asyncio: "the tool cancelled itself"


@pytest.mark.parametrize(
    "text", ["[" * 9999, '{"a":' + "[" * 5000 + "]" * 5000 + "}"], ids=["open", "closed"]
)
def test_arguments_nested_too_deeply(play: Player, text: str) -> None:
    run = play(
        [make_call("c1", "tool", text)], "sorry", tools=[gives("x")]
    )  # make_call raises RecursionError
    assert run.outcomes() == {"c1": "invalid"}


def test_steering_at_a_calls_end_skips_the_next(play: Player) -> None:  # T7, T263
    run = play(
        [call("c1", "echo", value="first"), call("c2", "echo", value="second")],
        "noted",
        tools=[echo()],
        on={"tool_exec_end c1": lambda o: o.steer("interrupt")},
    )
    assert run.outcomes()["c2"] in ("skipped", "interrupted")


def test_result_holds_only_what_the_run_committed(play: Player) -> None:  # T29, T265
    run = play("answer", prompt=None, messages=[user_message("hi")])
    assert run.result is not None
    assert [message.text for message in run.result.messages] == ["answer"]


HALF = Message(role="user", content=(Text("half \ud83d"),))


@pytest.mark.parametrize("where", ["prompt", "history", "steering", "system", "reason", "before_turn"])
def test_lone_surrogates_from_the_host(play: Player, where: str) -> None:
    async def before(info: Any) -> Sequence[Message]:
        return [HALF]

    def steer(outside: Outside) -> None:
        outside.steer(HALF)

    match where:
        case "prompt":
            run = play("ok", prompt=HALF)
        case "history":
            run = play("ok", messages=[HALF])
        case "steering":
            run = play("ok", "ok", on={"message_start assistant": steer})
        case "system":
            run = play("ok", system="half \ud83d")
        case "before_turn":
            run = play("ok", hooks=Hooks(before_turn=before))
        case _:
            run = play([Wait(9)], at={1.0: lambda o: o.stop(reason="half \ud83d")})
    assert run.error is None
    assert run.end.reason in ("stop", "aborted")


@pytest.mark.parametrize("part", ["half \ud83d", make_call("c1", "echo", "\ud800")], ids=["text", "call"])
def test_deltas_can_be_encoded(play: Player, part: Any) -> None:
    assert play([part], "ok", tools=[echo()]).end.reason == "stop"


@pytest.mark.parametrize(
    "result",
    [[Opaque(provider="p", data=object())], [Opaque(provider="p", data=float("nan"))]],
    ids=["object", "nan"],
)
def test_blocks_that_cannot_be_stored_are_an_error_result(play: Player, result: object) -> None:
    run = play(ASKS, "ok", tools=[gives(result)])
    assert run.error is None
    assert run.outcomes() == {"c1": "error"}


def test_a_lone_surrogate_in_a_block_is_replaced_and_reported(play: Player) -> None:
    run = play(ASKS, "ok", tools=[gives([Image(url="\ud800")])])
    (end,) = [fact for fact in run.facts if isinstance(fact, ToolExecEnd)]
    assert (end.outcome, end.content, end.details) == ("ok", (Image(url="\ufffd"),), {"replaced": 1})


@pytest.mark.parametrize("key", [object(), "\ud800"], ids=["object", "surrogate"])
def test_metadata_of_a_reply_that_cannot_be_stored(play: Player, key: object) -> None:
    run = play(Say(["hi"], metadata={"x": key}))
    assert run.error is None
    assert run.texts[-1] == "assistant: hi"


def test_error_text_is_cut_to_size(play: Player) -> None:
    run = play(ASKS, "ok", tools=[gives(ToolError("x" * 1_000_000))])
    assert len(run.results()["c1"]) < 33 * 1024


def test_list_of_tools_is_bounded(play: Player) -> None:  # B143
    run = play([call("c1", "n" * 100_000)], "ok", tools=[gives(1, f"tool{n}") for n in range(2000)])
    assert len(run.results()["c1"]) < 4000


@pytest.mark.parametrize("text", ['{"a":"\t\n"}', '"{\\"a\\":1}"'], ids=["raw control", "encoded twice"])
def test_replayed_arguments_are_a_json_object(text: str) -> None:  # B076, B078
    assert isinstance(json.loads(make_call("c1", "f", text).arguments_text), dict)


@pytest.mark.parametrize("lane", ["steer", "follow_up"])
def test_blank_message_does_not_ask_the_model(play: Player, lane: str) -> None:
    def push(outside: Outside) -> None:
        with pytest.raises(ValueError, match="empty"):
            getattr(outside, lane)("  ")

    run = play("one", "two", on={"message_start assistant": push})
    assert all(request.messages[-1].role == "user" for request in run.requests)


def test_blank_history_is_nothing_to_continue(play: Player) -> None:
    with pytest.raises(Exception, match="continue: "):  # now: a request without messages
        play("never", prompt=None, messages=[user_message("  ")])


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_progress_that_cannot_be_shown(play: Player) -> None:
    async def work(args: Any, ctx: Any) -> object:
        ctx.progress("x", thing=NoRepr())
        await ctx.clock.sleep(1)
        return "done"

    assert play(ASKS, "ok", tools=[raw_tool("tool", "", {}, work)]).outcomes() == {"c1": "ok"}


def fails_in_order(play: Player, **settings: Any) -> None:
    run = play("one", "two", **settings)  # now: the exception comes out of the stream
    assert run.end.reason == "error"
    assert run.result is not None and run.result.error_kind == HookError.error_kind


def test_before_turn_that_gives_nonsense(play: Player) -> None:
    async def before(info: Any) -> Any:
        return [3]

    fails_in_order(play, hooks=Hooks(before_turn=before))


def test_before_turn_that_gives_what_cannot_be_stored(play: Player) -> None:
    async def before(info: Any) -> Any:
        return [user_message("x", metadata={"a": object()})]

    fails_in_order(play, hooks=Hooks(before_turn=before))


def test_before_turn_that_gives_one_text(play: Player) -> None:
    async def before(info: Any) -> Any:
        return "ab"

    run = play("one", hooks=Hooks(before_turn=before))
    assert run.texts == ["user: go", "user: ab", "assistant: one"]  # now: one message a character


def test_guard_that_gives_nothing(play: Player) -> None:
    async def guard(info: Any) -> StopVerdict:
        return None  # type: ignore[return-value]

    fails_in_order(play, hooks=Hooks(stop_guard=guard))


def test_refresh_that_raises(play: Player) -> None:
    def refresh() -> Any:
        raise ZeroDivisionError("oops")

    fails_in_order(play, refresh=refresh)


class Check:
    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self.spec = gives(1).spec

    def check_arguments(self, args: Any, /) -> Any:
        return [self.problem]

    async def execute(self, args: Any, ctx: Any, /) -> object:
        return "ran"


@pytest.mark.parametrize(
    "problem",
    [1, ValidationIssue(kind="value", path="$", message="\ud800")],
    ids=["a number", "a surrogate"],
)
def test_check_that_says_it_oddly(play: Player, problem: Any) -> None:
    run = play(ASKS, "ok", tools=[Check(problem)])
    assert run.error is None
    assert run.outcomes() == {"c1": "invalid"}


class NotDurable(EncodedLog):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def flush(self) -> None:
        raise self.error


def test_flush_that_fails(play: Player) -> None:
    run = play(ASKS, log=NotDurable(OSError("disk")), tools=[gives(1)])  # now: a bare OSError
    assert run.error is not None
    assert run.requests == []
    assert "agent_end" not in [type(fact).__struct_config__.tag for fact in run.facts]  # now: "aborted"


async def for_ever(*_: Any) -> Any:
    await anyio.sleep_forever()


class Hanging(PassThrough):
    async def project(self, view: Any, scope: Any, /) -> Projection:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("where", ["before_turn", "stop_guard", "after_turn", "projection"])
def test_abort_reaches_what_hangs(play: Player, where: str) -> None:
    settings: dict[str, Any] = {"context": Hanging()}
    if where != "projection":
        hooks: dict[str, Any] = {where: for_ever}
        settings = {"hooks": Hooks(**hooks)}
    run = play("one", at={1.0: lambda o: o.stop()}, **settings)
    assert run.end.reason == "aborted"


def test_order_in_a_set_does_not_depend_on_the_process(play: Player) -> None:  # I-28
    run = play(ASKS, "ok", tools=[gives({"b", "a", "d", "c", "e"})])
    assert run.results() == {"c1": '["a","b","c","d","e"]'}
