"""Answers of generateContent: reasons to stop reasons, what is no answer at all, metadata and usage."""

import json
from typing import Any

import pytest

from unspool.kernel.errors import (
    BadRequestError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    PartialStreamError,
    RateLimitError,
)
from unspool.kernel.messages import Usage
from unspool.llm.gemini_stream import GeminiDecoder
from unspool.llm.gemini_usage import usage_of

from .gemini_decoding import (  # tests/llm/, not llm/
    CODE,
    answer,
    call,
    decode,
    same,
    sse,
    stream,
    text,
)

ENDS: dict[str, tuple[str | int, list[dict[str, Any]], str, list[bool]]] = {
    "stop": ("STOP", [text("a")], "stop", []),
    "stop, empty": ("STOP", [], "stop", []),
    "stop as a number": (1, [text("a")], "stop", []),
    "calls": ("STOP", [call("f"), call("g")], "tool_use", [True, True]),
    "a call without a name": ("STOP", [call(id="i", args={})], "stop", [False]),
    "invalid arguments: the model hears of it": ("STOP", [call("f", args='{"x"')], "tool_use", [True]),
    "length": ("MAX_TOKENS", [text("a")], "length", []),
    "length, empty": ("MAX_TOKENS", [], "length", []),
    "length after calls": (
        "MAX_TOKENS",
        [call("f"), call("g", args="{"), call("h")],
        "length",
        [True, False, False],
    ),
    **{
        reason: (reason, [text("a"), call("f")], "safety", [False])
        for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")
    },
    "safety, empty": ("SAFETY", [], "safety", []),
    "other": ("OTHER", [text("a"), call("f"), call("g", args="{")], "tool_use", [True, False]),
    "language": ("LANGUAGE", [text("a")], "stop", []),
    "unknown": ("SOMETHING_NEW", [text("a")], "stop", []),
    "unknown number": (77, [text("a")], "stop", []),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name: str) -> None:
    reason, parts, stop, completed = ENDS[name]
    outcome = decode(stream(*parts, finish=reason))
    assert outcome.error is None
    assert outcome.reply.stop_reason == stop
    assert [found.completed for found in outcome.reply.tool_calls] == completed
    usual = reason in ("STOP", 1, "MAX_TOKENS")
    assert outcome.reply.metadata == ({} if usual else {"finish_reason": str(reason)})
    assert same(decode(json.dumps(answer(*parts, finish=reason)).encode()), outcome)


FAILS: dict[str, tuple[bytes, type[ModelError], str]] = {
    "no reason": (stream(text("a"), finish=None), PartialStreamError, "ended early"),
    "an unspecified reason": (stream(text("a"), finish=0), PartialStreamError, "ended early"),
    "a gateway's end marker is no reason": (
        sse(answer(text("a"), finish=None)) + b"data: [DONE]\n\n",
        PartialStreamError,
        "ended early",
    ),
    "nothing": (b"", PartialStreamError, "ended early"),
    **{
        f"cut, and the prompt was not blocked: {reason!r}": (
            sse({"promptFeedback": {"blockReason": reason}}, answer(text("a"), finish=None)),
            PartialStreamError,
            "ended early",
        )
        for reason in ("BLOCK_REASON_UNSPECIFIED", 0, "", None)
    },
    "no candidates": (sse({"candidates": []}), PartialStreamError, "ended early"),
    "no candidates, whole": (b'{"candidates": []}', PartialStreamError, "ended early"),
    "an empty array": (b"[]", PartialStreamError, "ended early"),
    "a malformed call": (
        sse(answer(finish="MALFORMED_FUNCTION_CALL", finishMessage="not JSON")),
        MalformedReplyError,
        "finish_message='not JSON'",
    ),
    "a call of no tool": (stream(finish="UNEXPECTED_TOOL_CALL"), MalformedReplyError, "UNEXPECTED_TOOL_CALL"),
    "an unknown reason and no content": (stream(finish="OTHER"), MalformedReplyError, "OTHER"),
    "a missing signature": (stream(finish="MISSING_THOUGHT_SIGNATURE"), BadRequestError, "signature"),
    "an error in the stream": (
        sse(
            answer(text("a"), finish=None),
            {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}},
        ),
        OverloadedError,
        "busy",
    ),
    "an error in an array": (
        b'[{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "bad"}}]',
        BadRequestError,
        "bad",
    ),
    "an error in an array in an event": (sse([{"error": {"code": 400}}]), BadRequestError, "400"),
    "a named error event": (b"event: error\ndata: no\n\n", ModelError, "no"),
    "half an event": (sse(answer(text("a"), finish=None)) + b'data: {"cand', PartialStreamError, "early"),
    "half an array": (json.dumps([answer(text("a"))]).encode()[:-5], PartialStreamError, "early"),
    "something else": (b'{"choices": []}', ModelError, "not a Gemini answer"),
    "an array of something else": (b"[1]", ModelError, "not a Gemini answer"),
    "HTML": (b"<html>", ModelError, "HTML"),
    "a part that is none": (sse({"candidates": [{"content": {"parts": [1]}}]}), PartialStreamError, "not a"),
    "a call that is none": (stream(call("f", args=[1])), PartialStreamError, "a call in the answer"),
}


@pytest.mark.parametrize("name", FAILS)
def test_fails(name: str) -> None:
    body, kind, said = FAILS[name]
    outcome = decode(body)
    assert type(outcome.error) is kind
    assert said in str(outcome.error)
    assert same(decode(body, 3), outcome)
    if isinstance(outcome.error, PartialStreamError) and b'"a"' in body and not body.startswith(b"["):
        assert outcome.error.text == "a"


def test_a_rate_limit_says_how_long() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    outcome = decode(sse({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [info]}}))
    assert isinstance(outcome.error, RateLimitError)
    assert outcome.error.retry_after_s == 7.0


def test_a_blocked_prompt() -> None:
    feedback = {"blockReason": "SAFETY", "blockReasonMessage": "no", "safetyRatings": [{"blocked": True}]}
    for body in (sse({"promptFeedback": feedback}), json.dumps({"promptFeedback": feedback}).encode()):
        outcome = decode(body)
        assert outcome.error is None
        assert (outcome.reply.stop_reason, outcome.reply.content) == ("safety", ())
        assert outcome.reply.metadata == {
            "block_reason": "SAFETY",
            "block_reason_message": "no",
            "safety_ratings": [{"blocked": True}],
        }


def test_content_after_a_reason_takes_it_back() -> None:
    step = answer(CODE, finish="STOP")
    assert decode(sse(step)).reply.stop_reason == "stop"
    assert type(decode(sse(step, answer(text("a"), finish=None))).error) is PartialStreamError
    assert decode(sse(step, answer(text("a"), finish="STOP"))).reply.text == "a"
    late = decode(sse(answer(text("a")), {"usageMetadata": {"promptTokenCount": 3}}))
    assert late.reply.usage == Usage(input_tokens=3)


def test_an_array_of_chunks_is_a_stream() -> None:
    chunks = [answer(text("a"), finish=None), answer(text("b"))]
    assert same(decode(json.dumps(chunks).encode()), decode(sse(*chunks)))
    assert same(decode(json.dumps([chunks]).encode(), 7), decode(sse(*chunks)))


def test_other_candidates_are_not_the_answer() -> None:
    chunk = answer(text("a"))
    chunk["candidates"].append({"index": 1, "content": {"parts": [text("b")]}, "finishReason": "STOP"})
    assert decode(sse(chunk)).reply.text == "a"


def test_metadata_is_the_last_of_each() -> None:
    first = answer(text("a"), finish=None, groundingMetadata={"a": 1}, citationMetadata={"c": 1})
    last = answer(
        text("b"),
        groundingMetadata={"a": 2},
        urlContextMetadata={"u": 1},
        safetyRatings=[{"category": "X"}],
        avgLogprobs=-0.5,
    )
    outcome = decode(sse(first, answer(finish=None, groundingMetadata={}), last))
    assert outcome.reply.metadata == {
        "grounding_metadata": {"a": 2},
        "citation_metadata": {"c": 1},
        "url_context_metadata": {"u": 1},
        "safety_ratings": [{"category": "X"}],
        "avg_logprobs": -0.5,
    }
    assert outcome.reply.origin == "gemini:p/m"


def test_lists_in_the_metadata_are_joined() -> None:
    chunks = [
        {
            "citationMetadata": {"citationSources": [{"uri": "1"}]},
            "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": ["a"]},
            "logprobsResult": {"chosenCandidates": [{"token": "x"}], "logProbabilitySum": -1},
        },
        {
            "citationMetadata": {"citationSources": [{"uri": "2"}]},
            "groundingMetadata": {"groundingChunks": ["b", "a"]},
            "logprobsResult": {"chosenCandidates": [{"token": "x"}], "logProbabilitySum": -2},
        },
        {
            "citationMetadata": {"citationSources": [{"uri": "2"}], "citations": [1]},
            "logprobsResult": {"topCandidates": []},
        },
    ]
    events = [answer(text(str(at)), finish=None, **fields) for at, fields in enumerate(chunks)]
    outcome = decode(sse(*events, answer()))
    assert outcome.reply.metadata == {
        "citation_metadata": {"citationSources": [{"uri": "1"}, {"uri": "2"}], "citations": [1]},
        "grounding_metadata": {"webSearchQueries": ["q"], "groundingChunks": ["b", "a"]},
        "logprobs_result": {
            "chosenCandidates": [{"token": "x"}, {"token": "x"}],
            "logProbabilitySum": -2,
            "topCandidates": [],
        },
    }


USAGE: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [  # input, cache read, output, reasoning
    ({}, (0, 0, 0, 0)),
    ({"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, (9, 0, 5, 3)),
    ({"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}, (5, 4, 2, 0)),
    ({"promptTokenCount": 9, "toolUsePromptTokenCount": 6, "totalTokenCount": 18}, (15, 0, 3, 0)),
    ({"promptTokenCount": 9, "thoughtsTokenCount": 4, "totalTokenCount": 13}, (9, 0, 4, 4)),
    ({"candidatesTokenCount": 4, "totalTokenCount": 13}, (9, 0, 4, 0)),
    ({"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 3}, (9, 0, 2, 0)),
    ({"promptTokenCount": "9", "candidatesTokenCount": None, "totalTokenCount": -1}, (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("fields", "expected"), USAGE)
def test_usage(fields: dict[str, Any], expected: tuple[int, int, int, int]) -> None:
    usage = usage_of(fields)
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens)
    assert counts == expected


def test_usage_is_that_of_the_last_chunk() -> None:
    first, last = answer(text("a"), finish=None), answer(text("b"))
    first["usageMetadata"] = {"promptTokenCount": 5, "candidatesTokenCount": 1}
    last["usageMetadata"] = {"promptTokenCount": 6, "candidatesTokenCount": 2, "trafficType": "X"}
    assert decode(sse(first, last)).reply.usage == Usage(input_tokens=6, output_tokens=2)


def test_a_reason_that_echoes_the_key_does_not_tell_it() -> None:
    decoder = GeminiDecoder(model="p/m", secret="zq-secret-0123")
    body = sse(answer(finish="zq-secret-0123", finishMessage="is zq-secret-0123 wrong?"))
    with pytest.raises(MalformedReplyError) as caught:
        list(decoder.feed(body))
        list(decoder.close())
    assert "zq-secret" not in f"{caught.value} {caught.value.details}"
