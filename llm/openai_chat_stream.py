"""Answers of chat/completions, from bytes to stream events, without I/O.

``feed`` takes the body in any chunking and yields the events that it completes; ``close`` yields
what remains at the end. The body is a stream of server-sent events, or one JSON document from a
server that does not stream: the first byte that is not white space tells which.

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

Read with: ``sse.py``, ``openai_chat_calls.py``, ``tests/llm/test_openai_chat_stream.py`` (the tables).
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.kernel.errors import ModelError, OverloadedError, PartialStreamError
from unspool.kernel.json_edge import encodable_json, encode_text
from unspool.kernel.ports import StreamEnd, StreamEvent, TextDelta, ThinkingDelta, ToolCallEnd

from .faults import error_of, fault_of_body
from .openai_chat_calls import CallAssembler, PartialCall
from .openai_chat_usage import usage_of
from .openai_chat_wire import Chunk, Delta, UsageFields, decode_chunk
from .sse import MAX_EVENT_BYTES, EventTooLargeError, SseDecoder, SseEvent

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


class ChatDecoder:
    """One answer. ``model`` names it in errors; ``secret`` is masked in them.

    ``seed`` goes into the ids made up for calls that come without one. After ``done`` nothing more
    needs to be read.
    """

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        self.done = False  # the end marker was seen
        self._model = model
        self._secret = secret
        self._seed = seed
        self._sse = SseDecoder()
        self._body: list[bytes] | None = None  # of an answer that is one JSON document
        self._body_bytes = 0
        self._sniffed = False
        self._chunks = 0  # that held a choice
        self._pieces: list[str] = []
        self._refusal: list[str] = []
        self._calls = CallAssembler(_FIRST_CALL)
        self._usage: UsageFields = {}
        self._finish: str | None = None
        self._answer_model = ""
        self._answer_id = ""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    @property
    def finished(self) -> bool:
        """Whether the answer is known to be complete, so that losing the connection loses nothing."""
        return self.done or self._finish is not None

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """The events that ``data`` completes.

        Raises:
            ModelError: the stream holds an error, by its own class.
            PartialStreamError: an event is not what the format allows.
        """
        if not self._sniffed:
            self._sniff(data)
        if self._body is not None:
            self._body.append(data)
            self._body_bytes += len(data)
            if self._body_bytes > MAX_EVENT_BYTES:
                raise EventTooLargeError("provider: the answer is too large", max_bytes=MAX_EVENT_BYTES)
            return
        for event in self._sse.feed(data):
            if self.done:
                return
            yield from self._event(event)

    def close(self) -> Iterator[StreamEvent]:
        """The last events, ending with ``StreamEnd``; call it at the end of the body or when ``done``.

        Raises:
            ModelError: as ``feed``; or what came is no chat completion at all.
            PartialStreamError: the answer was cut; ``text`` is what had come.
        """
        if self._body is not None:
            yield from self._whole(b"".join(self._body))
        elif not self.done:
            for event in self._sse.close():
                yield from self._last_event(event)
        if not self.finished or not self._chunks:
            raise self._partial("the stream ended early")
        yield from self._end()

    def _sniff(self, data: bytes) -> None:
        start = data.lstrip()[:1]
        self._sniffed = bool(start)
        if start in (b"{", b"["):
            self._body = []
        elif start == b"<":
            raise ModelError("provider: the answer is HTML, not a chat completion", model=self._model)

    def _event(self, event: SseEvent) -> Iterator[StreamEvent]:
        data = event.data
        if event.name == "error":
            raise self._fault(_json_or_text(data) or "the stream reported an error without saying which")
        if data[:1] == b"{":
            try:
                chunk = decode_chunk(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                chunk = self._repaired(data)
            yield from self._chunk(chunk)
        elif data.strip() == b"[DONE]":
            self.done = True
        elif data.strip() and data[:1] != b":":  # a proxy's keepalive put into a data field
            yield from self._chunk(self._repaired(data))

    def _repaired(self, data: bytes) -> Chunk:
        """The chunk in data with bad UTF-8 or lone surrogates; anything else is an error."""
        try:
            value, _ = encodable_json(json.loads(data.decode("utf-8", "replace"), strict=False))
            return msgspec.convert(value, Chunk)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            raise self._partial("an event of the stream is not a chat completion chunk") from None

    def _last_event(self, event: SseEvent) -> Iterator[StreamEvent]:
        """An event the body's end left open: cut data ends a finished answer without harm."""
        try:
            yield from self._event(event)
        except PartialStreamError:
            if not self._finish:
                raise self._partial("the stream ended early") from None

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

    def _whole(self, body: bytes) -> Iterator[StreamEvent]:
        """The events of an answer that is one JSON document."""
        try:
            chunk = decode_chunk(body.decode("utf-8", "replace"))
        except msgspec.ValidationError:
            raise ModelError("provider: the answer is not a chat completion", model=self._model) from None
        except msgspec.DecodeError:
            raise self._partial("the answer ended early") from None
        yield from self._chunk(chunk)
        if not self._chunks:
            raise ModelError("provider: the answer is not a chat completion", model=self._model)
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

    def _partial(self, what: str) -> PartialStreamError:
        return PartialStreamError(f"provider: {what}", text=self.text, model=self._model)

    def _fault(self, error: Any) -> ModelError:
        return error_of(fault_of_body(error), model=self._model, secret=self._secret)


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


def _json_or_text(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")
