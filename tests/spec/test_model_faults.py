"""What goes wrong with a model call: retries, partial streams, overflow, silence."""

from collections.abc import Sequence

import pytest
from play import Player, echo, gives, lines

from unspool.kernel import (
    AgentMessage,
    AuthError,
    Compaction,
    ContextOverflowError,
    ContextUsage,
    Limits,
    ModelError,
    OverloadedError,
    PassThrough,
    Projection,
    QuotaError,
    RateLimitError,
    Retry,
    RetryEvent,
    assistant_message,
    user_message,
)
from unspool.kernel.errors import error_kind
from unspool.kernel.ports import ContextScope
from unspool.llm.scripted import Cut, Say, Unfinished, Wait, call

ONCE = Retry(attempts=0)


def test_stream_that_cannot_be_opened(play: Player) -> None:  # T37
    run = play(ModelError("provider unavailable"))
    assert run.trace == lines("""
        agent_start prompt
        queue_changed [prompt] queued 'go'
        turn_start 1
        queue_changed [prompt] taken
        message_start user
        message_end user 'go'
        context_projected 1 message
        model_response unknown, attempt 1
        error unknown: provider unavailable
        turn_end 1
        agent_end error
    """)
    assert run.texts == ["user: go"]


def test_partial_stream(play: Player) -> None:  # T38
    run = play(["half a sente", Cut()], retry=ONCE)
    assert run.brief == [
        "message_end user 'go'",
        "error stream_partial: model: the stream ended without its end event",
        "agent_end error",
    ]
    assert "message_discarded stream_partial" in run.trace


def test_partial_stream_with_a_finished_call_is_tried_again(play: Player) -> None:  # T39
    run = play(
        ["half", call("c1", "echo", value="x"), Cut()],
        "recovered",
        tools=[echo()],
        retry=Retry(attempts=2),
    )
    assert run.texts == ["user: go", "assistant: recovered"]
    assert len(run.requests) == 2
    assert run.outcomes() == {}


def test_error_after_a_finished_call(play: Player) -> None:  # T27
    run = play([call("c1", "echo", value="x"), ModelError("broken")], tools=[echo()])
    assert run.outcomes() == {}
    assert run.brief[-2:] == ["error unknown: broken", "agent_end error"]


def test_adapter_with_a_bug(play: Player) -> None:  # T40
    run = play(RuntimeError("boom"))
    assert run.brief[-2:] == ["error unknown: boom", "agent_end error"]


def test_adapter_that_raises_a_base_exception(play: Player) -> None:
    class Stop(BaseException):
        pass

    run = play(["half", Stop("boom")])
    assert run.brief[-2:] == ["error unknown: boom", "agent_end error"]


def test_every_start_is_balanced(play: Player) -> None:  # T474
    run = play(["ha", OverloadedError("busy")], ["hal", Cut()], "whole")
    assert [row for row in run.trace.splitlines() if row.startswith(("message_", "retry"))][2:] == [
        "message_start assistant",
        "message_update text 'ha'",
        "message_discarded overloaded",
        "retry 1/3 in 1 s: overloaded",
        "message_start assistant",
        "message_update text 'hal'",
        "message_discarded stream_partial",
        "retry 2/3 in 2 s: stream_partial",
        "message_start assistant",
        "message_update text 'whole'",
        "message_end assistant 'whole'",
    ]


def test_delays_double(play: Player) -> None:  # T435
    run = play(*[RateLimitError("slow down")] * 3, "fine")
    assert [row for row in run.brief if row.startswith("retry")] == [
        "retry 1/3 in 1 s: rate_limit",
        "retry 2/3 in 2 s: rate_limit",
        "retry 3/3 in 4 s: rate_limit",
    ]
    assert run.now == 7.0
    assert run.end.reason == "stop"
    assert run.end.turns == 1


def test_delays_are_spread(play: Player) -> None:  # I-22
    run = play(OverloadedError("busy"), "fine", rand=lambda: 0.25)
    assert "retry 1/3 in 0.25 s: overloaded" in run.brief


def test_retries_are_bounded(play: Player) -> None:
    run = play(*[OverloadedError("busy")] * 4)
    assert len(run.requests) == 4
    assert run.brief[-2:] == ["error overloaded: busy", "agent_end error"]


def test_retry_after_is_honoured(play: Player) -> None:  # T435
    run = play(RateLimitError("slow down", retry_after_s=7), "fine")
    assert "retry 1/3 in 7 s: rate_limit" in run.brief
    assert run.now == 7.0


def test_retry_after_beyond_the_cap_gives_up(play: Player) -> None:  # I-22
    run = play(RateLimitError("come back tomorrow", retry_after_s=90), "never")
    assert run.brief[1:] == ["error rate_limit: come back tomorrow", "agent_end error"]
    assert run.now == 0.0


def test_abort_during_the_delay(play: Player) -> None:  # T435, B094
    run = play(RateLimitError("wait", retry_after_s=30), "never", at={2.0: lambda o: o.stop(marker=False)})
    assert run.brief[1:] == ["retry 1/3 in 30 s: rate_limit", "agent_end aborted"]
    assert (run.now, len(run.requests)) == (2.0, 1)


def test_steering_during_the_delay_is_not_lost(play: Player) -> None:  # B094
    run = play(
        RateLimitError("wait", retry_after_s=30),
        "fine",
        "in metres",
        at={1.0: lambda o: o.steer("metric")},
    )
    assert run.now == 30.0
    assert run.texts.count("user: metric") == 1
    assert run.sent()[-1] == "user: metric"


@pytest.mark.parametrize(
    "error", [AuthError("bad key"), QuotaError("all spent"), ContextOverflowError("too long")], ids=error_kind
)
def test_no_retry_where_it_cannot_help(play: Player, error: ModelError) -> None:  # T436
    run = play(error, "never")
    assert len(run.requests) == 1
    assert run.brief[-2:] == [f"error {error_kind(error)}: {error}", "agent_end error"]


@pytest.mark.parametrize("reason", ["error", "safety"])
def test_reply_that_says_it_failed(play: Player, reason: str) -> None:  # A.2.2
    run = play(Say(["sorry", call("c1", "echo", value="x")], stop_reason=reason), tools=[echo()])
    assert run.outcomes() == {}
    assert run.brief == [
        "message_end user 'go'",
        f"message_end assistant 'sorry' echo#c1 {reason}",
        "agent_end error",
    ]


def test_silence_is_bounded(play: Player) -> None:  # I-22
    run = play(["He", Wait(500), "llo"], "Hello", retry=Retry(idle_s=5, base_s=0))
    assert "message_discarded stream_idle" in run.trace
    assert run.texts[-1] == "assistant: Hello"
    assert run.now == 5.0


def test_whole_call_is_bounded(play: Player) -> None:
    drip = [part for _ in range(20) for part in ("x", Wait(1.0))]
    run = play(drip, "fine", retry=Retry(idle_s=5, call_s=10, base_s=0))
    assert "retry 1/3 in 0 s: timeout" in run.brief
    assert run.now == 10.0


def test_a_consumer_that_stays_away_does_not_use_up_the_time_of_the_call(play: Player) -> None:
    run = play(["x"] * 600, away={"message_update": 1000}, retry=Retry(idle_s=5, call_s=10))
    assert run.brief[-2:] == [f"message_end assistant {'x' * 600!r}", "agent_end stop"]
    assert run.all_of(RetryEvent) == []


class Shrinking(PassThrough):
    """Keeps the last message when told that all are too many."""

    def __init__(self, *, shrinks: bool = True, commits: bool = False) -> None:
        self.shrinks = shrinks
        self.commits = commits
        self.small = False

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        return Projection(messages=view[-1:] if self.small else view)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        self.small = self.shrinks
        return Compaction(changed=True)

    def usage(self) -> ContextUsage | None:
        return None


HISTORY = [user_message("long ago"), assistant_message("yes")]


def test_overflow_is_mended_once(play: Player) -> None:  # T437
    run = play(ContextOverflowError("too long"), "fine", messages=HISTORY, context=Shrinking())
    assert [len(request.messages) for request in run.requests] == [3, 1]
    assert run.trace.count("context_compacted overflow") == 1
    assert run.end.reason == "stop"


def test_view_that_did_not_shrink_is_not_sent_again(play: Player) -> None:  # T437, I-11
    run = play(ContextOverflowError("too long"), "never", messages=HISTORY, context=Shrinking(shrinks=False))
    assert len(run.requests) == 1
    assert run.brief[-2].startswith("error context_overflow: context: could not be made smaller")


def test_second_overflow_ends_the_run(play: Player) -> None:  # T437, I-11
    run = play(*[ContextOverflowError("too long")] * 2, messages=HISTORY, context=Shrinking())
    assert len(run.requests) == 2
    assert run.brief[-2:] == ["error context_overflow: too long", "agent_end error"]


class Broken(PassThrough):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        raise ZeroDivisionError("strategy")


def test_failing_projection_sends_the_whole_view(play: Player) -> None:  # T473, I-11
    run = play("fine", messages=HISTORY, context=Broken())
    assert len(run.requests[0].messages) == 3
    assert run.end.reason == "stop"
    assert any(row.startswith("error warning context: projection failed") for row in run.brief)


class LastTwo(PassThrough):
    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        return Projection(messages=view[-2:])


def test_projection_comes_before_lowering(play: Player) -> None:  # T260
    history = [user_message(str(number)) for number in range(4)]
    run = play("fine", messages=history, context=LastTwo())
    assert run.sent() == ["user: 3", "user: go"]


def test_projection_is_announced_before_each_call(play: Player) -> None:  # T451 (projection)
    run = play([call("c1", "tool")], OverloadedError("busy"), "fine", tools=[gives("x")])
    kinds = [row for row in run.trace.splitlines() if row.startswith(("context_", "model_response"))]
    assert kinds == [
        "context_projected 1 message",
        "model_response tool_use, attempt 1",
        "context_projected 3 messages",
        "model_response overloaded, attempt 1",
        "context_projected 3 messages",
        "model_response stop, attempt 2",
    ]


def test_only_replies_are_counted(play: Player) -> None:
    run = play(OverloadedError("busy"), "fine", limits=Limits(turns=1))
    assert (run.end.turns, run.end.reason) == (1, "stop")


def test_unfinished_call_of_a_normal_reply_is_not_run(play: Player) -> None:
    script = Say([Unfinished("c1", "echo", '{"value":"x"}')], stop_reason="tool_use")
    run = play(script, "sorry", tools=[echo()])
    assert run.outcomes() == {"c1": "invalid"}


# T475: labels of errors, with numbers that only look like codes
KINDS = [
    (None, ""),
    (RateLimitError("x"), "rate_limit"),
    (QuotaError("x"), "quota"),
    (OverloadedError("x"), "overloaded"),
    (AuthError("x"), "auth"),
    (ContextOverflowError("x"), "context_overflow"),
    (TimeoutError(), "timeout"),
    (ConnectionResetError(), "network"),
    (ModelError("HTTP 4290"), "unknown"),
    (ModelError("14298 tokens, eof at 403"), "unknown"),
    (RuntimeError("429 too many requests"), "unknown"),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=repr)
def test_error_kind(error: BaseException | None, kind: str) -> None:  # T475, I-22
    assert error_kind(error) == kind
