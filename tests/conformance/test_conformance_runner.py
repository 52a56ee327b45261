"""The runner over the shared folders, and over small ones of its own: it finds what is wrong, and nothing else."""

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.ports import StreamEvent, TextDelta
from unspool.llm.openai_chat_stream import ChatDecoder

from . import bugcases, corpus
from .__main__ import main
from .exchange import exchanges
from .formats import FORMATS
from .meaning import stop_reason, usage_row
from .report import Result

_ROOT = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).resolve().parents[3] / "shared")
_MAX_BYTES = 3000  # read byte by byte here; the command reads all
_NO_SHARED = "no shared test material beside the repository: set UNSPOOL_SHARED"
needs_shared = pytest.mark.skipif(not _ROOT.joinpath("corpus").exists(), reason=_NO_SHARED)


def failed(results: Iterator[Result]) -> list[str]:
    return [f"{result.id}: {line}" for result in results for line in result.differences]


@needs_shared
@pytest.mark.parametrize("format", FORMATS)
def test_recorded_answers(format: str) -> None:
    assert failed(corpus.run(_ROOT / "corpus", format=format, max_bytes=_MAX_BYTES)) == []


@needs_shared
@pytest.mark.parametrize("format", FORMATS)
def test_reported_faults(format: str) -> None:
    assert failed(bugcases.run(_ROOT / "bugcases", format=format)) == []


# --- what the runner finds ----------------------------------------------------------------------

_CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_EVENTS = [
    {"choices": [{"index": 0, "delta": {"reasoning": "Hm."}}]},
    {"choices": [{"index": 0, "delta": {"content": "Grüße"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [_CALL]}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": _USAGE},
]
_EXPECTED: dict[str, Any] = {
    "text": "Grüße",
    "thinking": "Hm.",
    "tool_calls": [{"id": "c1", "name": "add", "arguments": {"x": 1}}],
    "stop_reason": "tool_calls",
    "usage": _USAGE,
    "error": None,
}
_REFUSED = {
    "class": "openai.RateLimitError",
    "status": 429,
    "code": "rate_limit_exceeded",
    "message": "slow down",
}


def sse(*events: Any) -> str:
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)


def put(
    folder: Path, id: str, body: str, *, status: int = 200, format: str = "openai-chat", **expected: Any
) -> None:
    headers = {"retry-after": "7"} if status == 429 else {}
    exchange = {
        "id": id,
        "api": format,
        "stream": True,
        "response": {"status": status, "headers": headers, "body": body},
        "expected": {**copy.deepcopy(_EXPECTED), **expected},
    }
    folder.joinpath(f"{id}.json").write_text(json.dumps(exchange), encoding="utf-8")


RIGHT: dict[str, dict[str, Any]] = {
    "a stream": {"body": sse(*_EVENTS)},
    "a refusal": {
        "body": json.dumps({"error": _REFUSED}),
        "status": 429,
        "text": "",
        "thinking": "",
        "error": _REFUSED,
    },
    "a cut stream": {"body": sse(*_EVENTS[:2])[:-4], "truncated": True, "text": "", "tool_calls": []},
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"text": "Hello"}, "text: expected 'Hello', got 'Grüße'"),
    "thinking": ({"thinking": ""}, "thinking: expected '', got 'Hm.'"),
    "no call": ({"tool_calls": []}, "number of calls: expected 0, got 1"),
    "arguments": (
        {"tool_calls": [{"id": "c1", "name": "add", "arguments": {"x": 2}}]},
        "call 0, arguments: expected {'x': 2}, got {'x': 1}",
    ),
    "name": (
        {"tool_calls": [{"id": "c1", "name": "sub", "arguments": {"x": 1}}]},
        "call 0, name: expected 'sub', got 'add'",
    ),
    "id": (
        {"tool_calls": [{"id": "c2", "name": "add", "arguments": {"x": 1}}]},
        "call 0, id: expected 'c2', got 'c1'",
    ),
    "stop reason": ({"stop_reason": "length"}, "stop_reason: expected 'length', got 'tool_use'"),
    "usage": ({"usage": {"prompt_tokens": 9}}, "usage: expected (9, 0, 0, 0, 0), got (9, 4, 0, 0, 0)"),
    "an error": ({"error": _REFUSED}, "error: expected 'RateLimitError', got 'no error'"),
    "a cut": ({"truncated": True}, "error: expected 'PartialStreamError', got 'no error'"),
    "a server's item": (
        {"extra": {"server_items": ["web_search_call"]}},
        "server items: expected ['web_search_call'], got []",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str, tmp_path: Path) -> None:
    row = dict(RIGHT[name])
    put(tmp_path, "right", row.pop("body"), **row)
    assert failed(corpus.run(tmp_path)) == []


@pytest.mark.parametrize("name", WRONG)
def test_each_difference_is_found(name: str, tmp_path: Path) -> None:
    expected, line = WRONG[name]
    put(tmp_path, "wrong", sse(*_EVENTS), **expected)
    assert f"wrong: {line}" in failed(corpus.run(tmp_path))


class Forgetful(ChatDecoder):
    """Loses what the second chunk of a body holds."""

    chunks = 0

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        self.chunks += 1
        return iter(()) if self.chunks == 2 else super().feed(data)


class Hasty(ChatDecoder):
    """Takes every answer for complete."""

    @property
    def finished(self) -> bool:
        return True


class Careless(ChatDecoder):
    """Lets an error out that callers do not know."""

    def close(self) -> Iterator[StreamEvent]:
        yield TextDelta("")
        raise KeyError("choices")


def test_every_chunking_must_give_the_same(tmp_path: Path) -> None:
    put(tmp_path, "id", sse(*_EVENTS))
    (exchange,) = exchanges(tmp_path)
    lines = list(corpus.differences(exchange, Forgetful, None))
    assert [line.partition(":")[0] for line in lines] == ["cut at random", "byte by byte"]
    lines = list(corpus.differences(exchange, Forgetful, 10))
    assert [line.partition(":")[0] for line in lines] == ["cut at random"]


def test_an_answer_that_was_cut_is_no_success(tmp_path: Path) -> None:
    put(tmp_path, "id", sse(*_EVENTS))
    (exchange,) = exchanges(tmp_path)
    lines = list(corpus.differences(exchange, Hasty, None))
    assert lines and all("is a success with less in it" in line for line in lines)


def test_an_error_of_another_kind_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "id", sse(*_EVENTS))
    monkeypatch.setattr(corpus, "decoder_class", lambda format: Careless)
    assert failed(corpus.run(tmp_path)) == ["id: raised KeyError: \"'choices'\""]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", sse(*_EVENTS))
    put(tmp_path, "b", sse(*_EVENTS), text="Hello")
    put(tmp_path, "c", "", format="smoke-signals")
    assert main([str(tmp_path), "-v"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL b: text: expected 'Hello', got 'Grüße'",
        "SKIP c: smoke-signals is not built",
        "1 passed, 1 failed, 1 skipped",
    ]
    assert main([str(tmp_path), "--only", "a", "--format", "openai-chat"]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"


def test_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"raw": sse(*_EVENTS) + "data: [DONE]\n\n", "kind": "http-stream", "wire": "openai-chat"}
    cut = {**call, "raw": sse(*_EVENTS[:2])}
    silent = {
        "kind": "http-stream-timed",
        "wire": "openai-chat",
        "steps": [["0s", sse(_EVENTS[1])], ["then", "-"]],
    }
    ok: dict[str, Any] = {"tool_calls": [["add", {"x": 1}]], "finish": "tool_calls", "usage": [9, 4]}
    ok |= {"executions": 1, "requests": 2, "replay_blocks": ["text", "tool_call"], "unique_ids": True}
    cases = [
        {"id": "A", "trigger": {**call, "splits": [3, 40]}, "expect": ok},
        {"id": "B", "trigger": cut, "expect": {"text_partial": "Grüße", "outcome": "stream_truncated"}},
        {"id": "C", "trigger": {**call, "repeat": "always"}, "expect": {"max_requests": 2, "executions": 0}},
        {"id": "D", "trigger": silent},
        {"id": "E", "trigger": {"kind": "history"}},
        {"id": "F", "trigger": {**call, "wire": "smoke-signals"}},
    ]
    tmp_path.joinpath("cases.jsonl").write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    assert main(["--bugcases", str(tmp_path), "-v"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL C: executions: a call is completed",
        "FAIL C: executions: expected 0, got 100",
        "FAIL C: requests, at most: expected 2, got 100",
        "SKIP F: smoke-signals is not built",
        "3 passed, 1 failed, 1 skipped",
    ]


STOPS = [
    ("openai-chat", "tool_calls", False, "stop"),
    ("openai-chat", "stop", True, "tool_use"),
    ("openai-responses", "max_output_tokens", True, "length"),
    ("anthropic-messages", "refusal", False, "safety"),
    ("gemini", 1, True, "tool_use"),
    ("gemini", "NEW", False, "unknown: 'NEW'"),
]


@pytest.mark.parametrize(("format", "raw", "has_calls", "wanted"), STOPS)
def test_stop_reasons(format: str, raw: Any, has_calls: bool, wanted: str) -> None:
    assert stop_reason(format, raw, has_calls) == wanted


USAGES: list[tuple[str, dict[str, Any] | None, tuple[int, ...]]] = [
    ("openai-chat", None, (0, 0, 0, 0, 0)),
    ("openai-chat", {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 15}, (9, 6, 0, 0, 5)),
    ("openai-chat", {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, (9, 0, 4, 0, 0)),
    ("openai-responses", {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}}, (9, 0, 4, 0, 0)),
    (
        "anthropic-messages",
        {"input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 2},
        (5, 2, 4, 0, 0),
    ),
    ("gemini", {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, (5, 5, 0, 0, 3)),
]


@pytest.mark.parametrize(("format", "raw", "wanted"), USAGES)
def test_usages(format: str, raw: dict[str, Any] | None, wanted: tuple[int, ...]) -> None:
    assert usage_row(format, raw) == wanted
