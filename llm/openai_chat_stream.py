"""Answers of chat/completions, from bytes to stream events, without I/O.

When an answer is over, and what that means:

==================  ==========  ================================================================
``finish_reason``   ``[DONE]``  the answer is
==================  ==========  ================================================================
yes                 yes or no   complete: some servers close without the marker
no                  yes         complete: the server says so itself, though it gives no reason;
                                calls are completed if their arguments are whole
no                  no          cut: ``PartialStreamError`` with the text so far
==================  ==========  ================================================================

A call is completed (``ToolCallEnd``) only then: after ``tool_calls`` or ``stop`` every call is,
valid arguments or not, so that the model hears of its mistake; after ``length`` the earlier calls
with whole arguments are, and never the last; after ``content_filter`` none is. A refusal has no
block of its own: the reply stops for ``safety`` and carries the words in its metadata.

The format has one text and one reasoning per answer and says nothing of their order: reasoning is
block 0, text block 1, calls follow.

Read with: ``decoder.py``, ``openai_chat_calls.py``, ``tests/llm/test_openai_chat_stream.py`` (the tables).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.kernel.errors import OverloadedError
from unspool.kernel.json_edge import encode_text
from unspool.kernel.ports import StreamEnd, StreamEvent, TextDelta, ThinkingDelta, ToolCallEnd

from .decoder import AnswerDecoder, json_or_text
from .openai_chat_calls import CallAssembler, PartialCall
from .openai_chat_usage import usage_of
from .openai_chat_wire import Chunk, Delta, UsageFields, decode_chunk
from .origins import origin_of
from .sse import SseEvent

_THINKING, _TEXT, _FIRST_CALL = 0, 1, 2
_STOP_REASONS = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "function_call": "tool_use",
    "content_filter": "safety",
    "safety": "safety",
}


class ChatDecoder(AnswerDecoder):
    """One answer of chat/completions."""

    kind = "a chat completion"

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        super().__init__(model=model, secret=secret, seed=seed)
        self._chunks = 0  # that held a choice
        self._refusal: list[str] = []
        self._calls = CallAssembler(_FIRST_CALL)
        self._usage: UsageFields = {}
        self._finish: str | None = None
        self._answer_model = ""
        self._answer_id = ""

    @property
    def finished(self) -> bool:
        return self.done or self._finish is not None

    def _is_complete(self) -> bool:
        return self.finished and self._chunks > 0

    def _event(self, event: SseEvent) -> Iterator[StreamEvent]:
        data = event.data
        if event.name == "error":
            raise self._fault(json_or_text(data) or "the stream reported an error without saying which")
        if data[:1] == b"{":
            yield from self._chunk(self._read(data, decode_chunk, Chunk))
        elif data.strip() == b"[DONE]":
            self.done = True
        elif data.strip() and data[:1] != b":":  # a proxy's keepalive put into a data field
            yield from self._chunk(self._read(data, decode_chunk, Chunk))

    def _chunk(self, chunk: Chunk) -> Iterator[StreamEvent]:
        if chunk.error:
            raise self._fault({"error": chunk.error})
        if chunk.choices:
            self._chunks += 1
            for choice in chunk.choices:
                if choice.index:  # None or 0: the one answer we asked for
                    continue
                if (delta := choice.delta) is not None:
                    yield from self._delta(delta)
                if choice.finish_reason:
                    self._finish = choice.finish_reason
        if chunk.usage is not None or chunk.x_groq is not None:
            self._note_usage(chunk)
        if not self._answer_id:
            self._answer_id = chunk.id or ""
            self._answer_model = chunk.model or self._answer_model

    def _delta(self, delta: Delta) -> Iterator[StreamEvent]:
        if content := delta.content:
            text = content if isinstance(content, str) else _flat_text(content)
            self._pieces.append(text)
            yield TextDelta(text, _TEXT)
        if thinking := delta.reasoning_content or delta.reasoning or delta.reasoning_text:
            yield ThinkingDelta(thinking, _THINKING)
        if delta.tool_calls:
            for part in delta.tool_calls:
                yield from self._calls.add(part)
        if delta.refusal:
            self._refusal.append(delta.refusal)

    def _note_usage(self, chunk: Chunk) -> None:
        """Counts are cumulative: the last value of a field holds, and null erases nothing."""
        fields = chunk.usage or (chunk.x_groq.usage if chunk.x_groq is not None else None) or {}
        self._usage.update((key, value) for key, value in fields.items() if value is not None)

    def _whole(self, value: dict[str, Any]) -> Iterator[StreamEvent]:
        try:
            chunk = msgspec.convert(value, Chunk)
        except msgspec.ValidationError:
            raise self._not_an_answer() from None
        yield from self._chunk(chunk)
        if not self._chunks:
            raise self._not_an_answer()
        for choice in chunk.choices or ():
            if not choice.index and choice.message is not None:
                yield from self._delta(choice.message)
        self.done = True

    def _end(self) -> Iterator[StreamEvent]:
        reason = self._finish
        if reason == "insufficient_system_resource":  # DeepSeek: the inference was broken off
            raise OverloadedError("provider: broke off the answer", model=self._model, finish_reason=reason)
        if reason == "error":
            raise self._partial("the provider broke off the answer")
        yield from self._calls.finish(f"{self._seed}/{self._answer_id}")
        stop = _STOP_REASONS.get(reason or "stop", "stop")
        ended = list(_completed(self._calls.calls, reason, stop))
        for call in ended:
            yield ToolCallEnd(call.block)
        if stop in ("stop", "tool_use"):
            stop = "safety" if self._refusal else "tool_use" if ended else "stop"
        yield StreamEnd(
            stop_reason=stop,
            usage=usage_of(self._usage),
            model=self._answer_model,
            response_id=self._answer_id,
            metadata=self._metadata(stop),
            origin=origin_of("openai-chat", self._model),
        )

    def _metadata(self, stop: str) -> dict[str, Any]:
        """What the reply would otherwise not tell: an unusual reason, a refusal, repeated arguments."""
        metadata: dict[str, Any] = {}
        if self._finish is not None and _STOP_REASONS.get(self._finish) != stop:
            metadata["finish_reason"] = self._finish
        if self._refusal:
            metadata["refusal"] = "".join(self._refusal)
        if self._calls.repeated:
            metadata["repeated_arguments"] = list(self._calls.repeated)
        return metadata


def _completed(calls: list[PartialCall], reason: str | None, stop: str) -> Iterator[PartialCall]:
    """The calls that may be run, by how the answer ended; see the top of the file."""
    match stop:
        case "length":
            yield from (call for call in calls[:-1] if call.runnable)
        case "safety":
            return
        case _ if reason in _STOP_REASONS:
            yield from (call for call in calls if call.name)
        case _:  # no reason given, or one we do not know
            yield from (call for call in calls if call.runnable)


def _flat_text(content: list[Any] | dict[str, Any]) -> str:
    """Text of content that is not a string: its text parts, or the JSON of parsed output."""
    if isinstance(content, dict):
        return encode_text(content)
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))
