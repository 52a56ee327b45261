"""What an independent judge says of an agent over each format and each fault it can inject."""

import pytest

from .llmock import FAULTS, PROVIDERS, Fault, Llmock, Turn, every_place, faults_of, turns_of

ONE_PER_FORMAT = {played.format: name for name, played in reversed(PROVIDERS.items())}
ALIKE = ("none", "rate_limit", "context_overflow", "truncate", "malformed arguments")  # once more, elsewhere

# How many events may be lost at the end of a stream because all that matters has come before.
IDLE_EVENTS = {"openai-chat": 2, "openai-responses": 0, "anthropic-messages": 1, "gemini": 0}


@pytest.mark.parametrize(("name", "turn"), [(name, turn) for name in FAULTS for turn in turns_of(name)])
@pytest.mark.parametrize("format_name", ONE_PER_FORMAT)
def test_the_verdict(llmock: Llmock, format_name: str, name: str, turn: Turn) -> None:
    fault = FAULTS[name]
    outcome = llmock.play(ONE_PER_FORMAT[format_name], fault, turn)
    assert faults_of(outcome, fault, turn) == []


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name not in ONE_PER_FORMAT.values()])
def test_the_other_providers(llmock: Llmock, provider: str, name: str) -> None:
    fault = FAULTS[name]
    assert faults_of(llmock.play(provider, fault, "call", "trio"), fault, "call") == []


@pytest.mark.parametrize("turn", ["call", "answer"])
@pytest.mark.parametrize("kind", ["truncate", "disconnect", "malformed"])
@pytest.mark.parametrize("format_name", ONE_PER_FORMAT)
def test_a_stream_that_breaks_anywhere(llmock: Llmock, format_name: str, kind: str, turn: Turn) -> None:
    provider = ONE_PER_FORMAT[format_name]
    whole = llmock.play(provider, Fault(), turn)
    events = whole.requests[("call", "answer").index(turn)]["chunks_sent"]
    assert events > 0
    accepted = []
    for place, fault in zip(range(events), every_place(kind), strict=False):
        outcome = llmock.play(provider, fault, turn)
        assert (outcome.ends, outcome.tool_runs) == ("stop", 1), (place, outcome.result.error)
        assert outcome.result.text == whole.result.text, place
        if not outcome.retries:
            accepted.append(place)
    assert all(place >= events - IDLE_EVENTS[format_name] for place in accepted), (events, accepted)


@pytest.mark.parametrize("kind", ["truncate", "disconnect", "malformed"])
@pytest.mark.parametrize("format_name", ONE_PER_FORMAT)
def test_a_stream_that_always_breaks_is_no_success(llmock: Llmock, format_name: str, kind: str) -> None:
    fault = next(every_place(kind))
    always = Fault(tuple({**behavior, "times": None} for behavior in fault.behaviors))
    outcome = llmock.play(ONE_PER_FORMAT[format_name], always, "answer")
    assert outcome.result.end_reason == "error"
    assert outcome.ends in ("stream_partial", "network")
    assert (outcome.retries, outcome.tool_runs) == (3, 1)
