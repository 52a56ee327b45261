"""Faults that were reported against other libraries, as answers with the outcome that is right.

What the bytes decide is asked of the decoder; what the run makes of them is asked of an agent
(``bugcase_runs.py``), which talks to a server on this machine.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import Thinking, Usage
from unspool.llm.decoder import AnswerDecoder

from .bugcase_runs import check_run, is_about_the_run
from .exchange import Outcome, cut, cuts, decode
from .formats import FORMATS, decoder_class
from .report import Result, differs, guarded
from .wire_text import answer_with

_FINISHES: Final = {"stop": "stop", "tool_calls": "tool_use", "length": "length", "blocked": "safety"}
_OUTCOMES: Final[dict[str, type[ModelError]]] = {
    "stream_truncated": PartialStreamError,
    "empty_stream": PartialStreamError,
    "provider_error": ModelError,
}
_ERRORS: Final[dict[str, type[ModelError]]] = {
    "invalid_request": BadRequestError,
    "rate_limit": RateLimitError,
    "quota": QuotaError,
    "auth": AuthError,
    "overflow": ContextOverflowError,
    "overloaded": OverloadedError,
    "content_filter": ContentFilterError,
}
_IN_WORDS: Final[dict[str, dict[str, Any]]] = {  # what the folder says in words only
    "B126.incomplete.sse": {"text": "par", "finish": "length", "usage": [5, 16]},
    "B126.call_then_eof.sse": {"outcome": "stream_truncated", "executions": 0},
}


def run(root: Path, *, only: str = "", format: str = "") -> Iterator[Result]:
    """The result of each case of ``root`` that is one answer of a server; ``only`` is an id."""
    for line in (root / "cases.jsonl").read_bytes().strip().split(b"\n"):  # some hold U+2028
        for case in _answers(json.loads(line)):
            id, wire = case["id"], case["trigger"].get("wire", "")
            if (only and id != only) or (format and wire != format):
                continue
            if wire not in FORMATS or (decoder := decoder_class(wire)) is None:
                yield Result(id, skipped=f"{wire or 'its format'} is not built")
            else:
                yield Result(id, guarded(_differences(case, body_of(root, case["trigger"]), decoder)))


def _answers(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A case that is one answer; or each answer of one that is several, as a case of the same id."""
    trigger = case["trigger"]
    kind = trigger.get("kind", "")
    if kind.startswith("http-stream"):
        yield case
    elif kind == "usage-table":
        for row in trigger["rows"]:
            raw = answer_with(row["wire"], row["usage"]).decode() if row["wire"] in FORMATS else ""
            one = {"kind": "http-stream", "wire": row["wire"], "raw": raw}
            yield {"id": case["id"], "trigger": one, "expect": {"counts": row["want"]}}
    elif kind == "variants":
        for file in trigger.get("data_files", ()):
            if (expect := _IN_WORDS.get(Path(file).name)) is not None:
                one = {"kind": "http-stream", "wire": trigger["wire"], "file": file}
                yield {"id": case["id"], "trigger": one, "expect": expect}


def body_of(root: Path, trigger: Mapping[str, Any]) -> bytes:
    """The bytes of a case, from its file, its text, or the steps of one that has times."""
    if "file" in trigger:
        return root.joinpath(trigger["file"]).read_bytes()
    if "raw" in trigger:
        return str(trigger["raw"]).encode()
    return "".join(text for when, text in trigger["steps"] if when != "then").encode()


def _differences(case: Mapping[str, Any], body: bytes, decoder: type[AnswerDecoder]) -> Iterator[str]:
    trigger, expect = case["trigger"], case.get("expect") or {}
    whole = decode(decoder, [body])
    if not _goes_on(trigger):  # what comes after the bytes is in the run
        yield from check_answer(whole, expect)
    chunkings = cuts(body, case["id"])
    if splits := trigger.get("splits"):
        chunkings["split as given"] = cut(body, splits)
    for name, chunks in chunkings.items():
        if (outcome := decode(decoder, chunks)) != whole:
            yield from differs(name, whole, outcome)
    if is_about_the_run(case):
        yield from check_run(case, body, [call.name for call in whole.reply.tool_calls])


def _goes_on(trigger: Mapping[str, Any]) -> bool:
    """Whether the bytes are only a part of what happens: a client that cancels, a server gone silent."""
    return trigger["kind"] == "http-stream-timed" or "cancel" in trigger.get("then", "")


def check_answer(outcome: Outcome, expect: Mapping[str, Any]) -> Iterator[str]:
    """The differences in what the bytes decide."""
    yield from _check_error(outcome, expect)
    for key, get in _VALUES.items():
        if key in expect:
            yield from differs(key, expect[key], get(outcome))
    if "finish" in expect and expect["finish"] in _FINISHES and outcome.error is None:
        yield from differs("finish", _FINISHES[expect["finish"]], outcome.reply.stop_reason)
    if "tool_calls" in expect and not all(call.completed for call in outcome.reply.tool_calls):
        yield "tool_calls: not all are completed"
    if expect.get("executions") == 0 and any(call.completed for call in outcome.reply.tool_calls):
        yield "executions: a call is completed"
    if "never" in expect and any(not call.args_invalid for call in outcome.reply.tool_calls):
        yield "never: a call has arguments that the model did not give"


def _check_error(outcome: Outcome, expect: Mapping[str, Any]) -> Iterator[str]:
    error, finish = outcome.error, expect.get("finish")
    if wanted := _ERRORS.get(expect.get("error_class", "")) or _OUTCOMES.get(expect.get("outcome", "")):
        unspecified = wanted is ModelError
        if not isinstance(error, wanted) or (unspecified and isinstance(error, PartialStreamError)):
            yield from differs("error", wanted.__name__, error)
    elif "text_partial" in expect:
        if not isinstance(error, PartialStreamError):
            yield from differs("error", "PartialStreamError", error)
    elif finish == "malformed_function_call":  # the kernel has no word for it; it is no success
        if error is None and outcome.reply.stop_reason != "error":
            yield from differs("finish", "an error", outcome.reply.stop_reason)
    elif error is not None and not (finish == "blocked" and isinstance(error, ContentFilterError)):
        yield from differs("error", None, error)


def _calls(outcome: Outcome) -> list[Any]:
    return [[call.name, call.args] for call in outcome.reply.tool_calls]


def _usage(outcome: Outcome) -> list[int]:
    usage = outcome.reply.usage or Usage()
    return [usage.context_tokens, usage.output_tokens]


def _usage_full(outcome: Outcome) -> dict[str, int]:
    usage = outcome.reply.usage or Usage()
    counts = {
        "input": usage.input_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
    }
    return {key: count for key, count in counts.items() if count}


def _counts(outcome: Outcome) -> dict[str, int]:
    usage = outcome.reply.usage or Usage()
    return {
        "input_uncached": usage.input_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "context": usage.context_tokens,
    }


def _signature(outcome: Outcome) -> str | None:
    signed = (block.signature for block in outcome.reply.content if isinstance(block, Thinking))
    return next((signature for signature in signed if signature), None)


def _partial_text(outcome: Outcome) -> str:
    return outcome.error.text if isinstance(outcome.error, PartialStreamError) else outcome.reply.text


_VALUES: Final[dict[str, Callable[[Outcome], Any]]] = {
    "text": lambda outcome: outcome.reply.text,
    "text_partial": _partial_text,
    "tool_calls": _calls,
    "usage": _usage,
    "usage_full": _usage_full,
    "counts": _counts,
    "signature": _signature,
}
