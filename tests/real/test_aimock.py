"""Whole runs over each format of a server that is not ours, its answers written in ``aimock.json``, and with chaos."""

from typing import Any

import pytest

from unspool import Retry

from .aimock import PROVIDERS, Aimock, Played

FAST = Retry(attempts=2, base_s=0.01)
DAYS = ["Monday", "Tuesday", "Wednesday"]
CHAOS = {  # what aimock does, and what the run must say of it
    "drop": "overloaded",
    "malformed": "stream_partial",
    "disconnect": "network",
    "rateLimit": "rate_limit",
}

each_provider = pytest.mark.parametrize("provider", PROVIDERS)
streamed_or_not = pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])


def stop_reasons(played: Played) -> list[str]:
    return [message.stop_reason for message in replies(played)]


def replies(played: Played) -> list[Any]:
    return [message for message in played.result.messages if message.role == "assistant"]


@streamed_or_not
@each_provider
def test_text_and_usage(aimock: Aimock, provider: str, streaming: bool) -> None:
    played = aimock.play(provider, "Say hello.", streaming=streaming)
    assert played.result.text == "Hello there, all of you: nice to meet you."
    assert stop_reasons(played) == ["stop"]
    usage = played.result.usage
    assert (usage.input_tokens, usage.output_tokens) == (11, 7)


@streamed_or_not
@each_provider
def test_a_tool_call_then_the_answer(aimock: Aimock, provider: str, streaming: bool) -> None:
    played = aimock.play(provider, "What is the weather in Paris?", streaming=streaming, backend="trio")
    assert (played.result.text, played.tool_args) == ("It is raining in Paris.", ["Paris"])
    assert stop_reasons(played) == ["tool_use", "stop"]
    assert len(played.journal) == 2


@streamed_or_not
@each_provider
def test_text_with_two_calls(aimock: Aimock, provider: str, streaming: bool) -> None:
    played = aimock.play(provider, "What is the weather in two cities?", streaming=streaming)
    assert played.result.text == "Rome is dry, Oslo is not."
    assert sorted(played.tool_args) == ["Oslo ü € 😀", "Rome"]
    first = replies(played)[0]
    assert first.text == "I will look at both."
    assert len({call.id for call in first.tool_calls}) == 2


@streamed_or_not
@each_provider
def test_thinking(aimock: Aimock, provider: str, streaming: bool) -> None:
    played = aimock.play(provider, "Think first.", streaming=streaming)
    [reply] = replies(played)
    assert (reply.thinking, reply.text) == ("Two and two are four.", "It is four.")


@streamed_or_not
@each_provider
def test_an_answer_cut_by_the_limit(aimock: Aimock, provider: str, streaming: bool) -> None:
    played = aimock.play(provider, "Go on and on.", streaming=streaming)
    assert (played.result.text, stop_reasons(played)) == ("And so on and so", ["length"])


@each_provider
def test_an_error_that_passes(aimock: Aimock, provider: str) -> None:
    played = aimock.play(provider, "Fail once.", retry=FAST)
    assert (played.result.text, played.failures) == ("Here I am again.", ["overloaded"])


@pytest.mark.parametrize(
    ("prompt", "kind"), [("Fail for ever.", "bad_request"), ("Say too much.", "context_overflow")]
)
@each_provider
def test_an_error_that_does_not(aimock: Aimock, provider: str, prompt: str, kind: str) -> None:
    played = aimock.play(provider, prompt, retry=FAST)
    assert (played.result.error_kind, played.failures, len(played.journal)) == (kind, [kind], 1)


@each_provider
def test_a_stream_cut_once(aimock: Aimock, provider: str) -> None:
    played = aimock.play(provider, "Break off once.", retry=FAST)
    assert (played.result.text, played.failures) == ("This answer is whole.", ["stream_partial"])
    assert [reply.text for reply in replies(played)] == ["This answer is whole."]


@each_provider
def test_a_stream_cut_always_is_no_success(aimock: Aimock, provider: str) -> None:
    played = aimock.play(provider, "Break off always.", retry=FAST)
    assert (played.result.end_reason, played.result.error_kind) == ("error", "stream_partial")
    assert len(played.journal) == 3


@pytest.mark.parametrize("action", CHAOS)
@each_provider
def test_tools_run_once_whatever_breaks(aimock: Aimock, provider: str, action: str) -> None:
    """Luck decides which request breaks, never how it ends: the whole run comes out the same."""
    rate = 0.2 if action == "rateLimit" else 0.5  # each of those costs a real second
    played = aimock.play(provider, "What is the weather day by day?", chaos={action: rate})
    went_well(played)
    assert set(played.chaos) <= {action}


@each_provider
def test_all_of_it_at_once(aimock: Aimock, provider: str) -> None:
    rates = {"drop": 0.2, "malformed": 0.2, "disconnect": 0.2, "rateLimit": 0.05, "latency": 5}
    went_well(aimock.play(provider, "What is the weather day by day?", chaos=rates, backend="trio"))


def went_well(played: Played) -> None:
    """The run came to its end, and each fault on the way, no more, is among its events."""
    assert (played.result.text, played.tool_args) == ("Rain on all three days.", DAYS)
    assert stop_reasons(played) == ["tool_use", "tool_use", "tool_use", "stop"]
    assert played.failures == played.retries == [CHAOS[action] for action in played.chaos]
    assert len(played.journal) == 4 + len(played.chaos)


@pytest.mark.parametrize("action", [name for name in CHAOS if name != "rateLimit"])
@each_provider
def test_chaos_without_end_is_an_error(aimock: Aimock, provider: str, action: str) -> None:
    played = aimock.play(provider, "Say hello.", retry=FAST, chaos={action: 1})
    assert (played.result.end_reason, played.result.error_kind) == ("error", CHAOS[action])
    assert played.failures == [CHAOS[action]] * 3
    assert played.retries == [CHAOS[action]] * 2
