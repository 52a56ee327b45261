"""Well-formed answers with any contents, for Hypothesis: what is said must be what is read, and a part of it never.

Read with: ``seeds.py`` (how the formats write it), ``checks.py``.
"""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from . import seeds
from .formats import decoders


class Call(NamedTuple):
    name: str
    args: dict[str, Any]


class Said(NamedTuple):
    """Text in pieces, then calls; ``size`` is that of the pieces that arguments come in."""

    texts: list[str]
    calls: list[Call]
    size: int


_CHARS: Final = st.characters(
    exclude_categories=["Cs"]
)  # lone surrogates are replaced, so they do not come back
_WORDS: Final = st.text(_CHARS, max_size=12)
_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_NAMES: Final = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
CALLS: Final = st.builds(Call, _NAMES, st.dictionaries(_WORDS, _VALUES, max_size=3))
SAID: Final = st.builds(
    Said, st.lists(_WORDS.filter(bool), max_size=4), st.lists(CALLS, max_size=3), st.integers(1, 20)
).filter(lambda said: bool(said.texts or said.calls))


def _pieces(call: Call, size: int) -> list[str]:
    text = json.dumps(call.args)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _chat(said: Said) -> bytes:
    events = [seeds.chat_chunk({"content": text}) for text in said.texts]
    for index, call in enumerate(said.calls):
        start = {"index": index, "id": f"call_{index}", "function": {"name": call.name, "arguments": ""}}
        events.append(seeds.chat_chunk({"tool_calls": [start]}))
        events += [
            seeds.chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _pieces(call, said.size)
        ]
    finish = seeds.chat_chunk({}, "tool_calls" if said.calls else "stop")
    return seeds.sse(*events, finish, end=seeds.DONE)


def _messages(said: Said) -> bytes:
    deltas = [{"type": "text_delta", "text": text} for text in said.texts]
    events = seeds.messages_block(0, {"type": "text", "text": ""}, *deltas) if deltas else []
    for index, call in enumerate(said.calls, 1):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": call.name, "input": {}}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(call, said.size)]
        events += seeds.messages_block(index, block, *pieces)
    return seeds.sse(seeds.MESSAGES_START, *events, *seeds.MESSAGES_END, name="type")


def _responses(said: Said) -> bytes:
    events, output = [], []
    if said.texts:
        part = {"type": "output_text", "text": "".join(said.texts), "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
        kind = "response.output_text.delta"
        deltas = [{"type": kind, "content_index": 0, "delta": text} for text in said.texts]
        events += seeds.responses_output(0, item, *deltas)
        output.append(item)
    for call in said.calls:
        place, text = len(output), json.dumps(call.args)
        named = {"id": f"fc_{place}", "call_id": f"call_{place}", "name": call.name}
        item = {"type": "function_call", **named, "arguments": text}
        kind = "response.function_call_arguments.delta"
        deltas = [{"type": kind, "delta": piece} for piece in _pieces(call, said.size)]
        events += seeds.responses_output(place, item, *deltas)
        output.append(item)
    done = {**seeds.RESPONSE, "output": output}
    return seeds.sse(*events, {"type": "response.completed", "response": done}, name="type")


def _gemini(said: Said) -> bytes:
    parts: list[Any] = [{"text": text} for text in said.texts]
    parts += [{"functionCall": call._asdict()} for call in said.calls]
    last = seeds.gemini_chunk({"text": ""}, finish="STOP")
    return seeds.sse(*[seeds.gemini_chunk(part) for part in parts], last)


_WRITERS: Final[dict[str, Callable[[Said], bytes]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _messages,
    "gemini": _gemini,
}
FORMATS: Final = st.sampled_from(sorted(decoders()))
LINE_ENDS: Final = st.sampled_from([b"\n", b"\r\n", b"\r"])
WRITTEN: Final = st.tuples(FORMATS, SAID, LINE_ENDS, st.lists(st.integers(0, 3000), max_size=6))
"""What ``check_written`` takes."""


def written(format: str, said: Said, line_end: bytes) -> bytes:
    """The stream that says it."""
    return _WRITERS[format](said).replace(b"\n", line_end)
