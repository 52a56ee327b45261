"""Answers of chat/completions, from bytes to stream events, without I/O.

When an answer is over, and what that means:

=====================================  ==========  ==============================================================
``finish_reason``                      ``[DONE]``  the answer is
=====================================  ==========  ==============================================================
``stop``, ``tool_calls`` and such      yes or no   complete (some servers close without the marker); every call
                                                   is completed, valid arguments or not, so that the model hears
                                                   of its mistake
``length`` and such                    yes or no   cut for ``length``; calls but the last are completed if whole
``content_filter`` and such            yes or no   stopped for ``safety``, as a refusal is; no call is completed
``malformed_function_call`` and such   yes or no   none: ``MalformedReplyError``, asking again may help
``error``, ``network_error`` and such  yes or no   broken off: an error, ``PartialStreamError`` if nothing says
                                                   which
one we do not know                     yes or no   complete, the reason in its metadata; calls are completed that
                                                   certainly are whole
none                                   yes         complete: the server says so itself; calls are completed if
                                                   whole
none                                   no          cut: ``PartialStreamError`` with the text so far
=====================================  ==========  ==============================================================

A call is completed (``ToolCallEnd``) only then (``openai_chat_finish.py``). A refusal has no block of its own: the
reply stops for ``safety`` and carries the words in its metadata.

The format has one text and one reasoning per answer and says nothing of their order: reasoning is block 0, text
block 1, calls follow. Signed reasoning stands beside the reasoning, annotations beside the text, all else that
is kept after the calls (``openai_chat_kept.py``); sources that are of the whole answer, and the probabilities of tokens
where they were asked for, are in its metadata.

Read with: ``decoder.py``, ``openai_chat_calls.py``, ``tests/llm/test_openai_chat_stream.py`` (the tables).
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from unspool.kernel.errors import MalformedReplyError, ModelError, OverloadedError, PartialStreamError
from unspool.kernel.json_edge import encode_text
from unspool.kernel.ports import BlockEvent, StreamEnd, StreamEvent, TextDelta, ThinkingDelta, ToolCallEnd

from .decoder import UNREADABLE, AnswerDecoder, json_or_text
from .openai_chat_calls import CallAssembler
from .openai_chat_faults import is_flat_fault
from .openai_chat_finish import BROKEN_OFF, MALFORMED, OVERLOADED, completed, reason_of, stop_of
from .openai_chat_kept import DETAILS, FORMAT, KeptFields
from .openai_chat_logprobs import Logprobs
from .openai_chat_usage import usage_of
from .openai_chat_wire import Chunk, Delta, FirstChunk, UsageFields, decode_chunk, decode_first
from .origins import origin_of
from .sse import SseEvent

_THINKING, _TEXT, _FIRST_CALL = 0, 1, 2
_PLACES = {DETAILS: _THINKING, "annotations": _TEXT}  # of what is beside the text; all else follows the calls


class ChatDecoder(AnswerDecoder):
    """One answer of chat/completions."""

    kind = "a chat completion"

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        super().__init__(model=model, secret=secret, seed=seed)
        self._chose = False  # a chunk held a choice
        self._refusal: list[str] = []
        self._kept = KeptFields()
        self._sources: dict[str, Any] = {}
        self._logprobs = Logprobs()
        self._calls = CallAssembler(_FIRST_CALL)
        self._usage: UsageFields = {}
        self._finish: str | None = None
        self._answer_model = ""
        self._answer_id = ""

    @property
    def finished(self) -> bool:
        return self.done or self._finish is not None

    def _is_complete(self) -> bool:
        return self.finished and self._chose

    def _event(self, event: SseEvent) -> list[StreamEvent]:
        data = event.data
        if self.done:
            return []
        if event.name == "error":
            raise self._fault(json_or_text(data) or "the stream reported an error without saying which")
        if data[:1] != b"{":
            stripped = data.strip()
            if stripped == b"[DONE]":
                self.done = True
                return []
            if not stripped or data[:1] == b":":  # a proxy's keepalive put into a data field
                return []
        if not self._answer_id:
            return self._first(self._read(data, decode_first, FirstChunk), data)
        try:
            chunk = decode_chunk(data)
        except UNREADABLE:
            chunk = self._read(data, decode_chunk, Chunk)
        return self._chunk(chunk, data)

    def _first(self, chunk: FirstChunk, data: bytes = b"") -> list[StreamEvent]:
        """What the first chunk means; a chunk after one without an id is a first one too."""
        events = self._chunk(chunk, data)
        self._answer_id = str(chunk.id or "")
        self._answer_model = chunk.model or self._answer_model
        return events

    def _chunk(self, chunk: Chunk, data: bytes) -> list[StreamEvent]:
        """What a chunk means; ``data`` is what it was read from, for what is none."""
        if chunk.error:
            raise self._fault({"error": chunk.error})
        events: list[StreamEvent] = []
        if choices := chunk.choices:
            self._chose = True
            for choice in choices:
                if choice.index and choice.index != "0":  # none or 0: the one answer we asked for
                    continue
                if (delta := choice.delta) is not None or (delta := choice.message) is not None:
                    if text := delta.content:
                        if type(text) is str:
                            self._pieces.append(text)
                            events.append(TextDelta(text, _TEXT))
                        else:
                            events += self._in_parts(text)
                    if thinking := delta.reasoning_content or delta.reasoning or delta.reasoning_text:
                        if type(thinking) is not str:
                            thinking = _flat_text(thinking)
                        events.append(ThinkingDelta(thinking, _THINKING))
                    if parts := delta.tool_calls:
                        for part in parts:
                            if (piece := self._calls.add(part)) is not None:
                                events.append(piece)
                    if (
                        delta.refusal
                        or delta.reasoning_details
                        or delta.annotations
                        or delta.audio
                        or delta.images
                        or delta.function_call
                        or delta.executed_tools
                        or delta.context
                    ):
                        self._keep(delta)
                if choice.error:
                    raise self._broken_off(choice.error)
                if choice.finish_reason:
                    self._finish = choice.finish_reason
                if choice.logprobs:
                    self._logprobs.add(choice.logprobs)
        elif chunk.usage is None and data:
            self._refuse_fault(json_or_text(data))
        if chunk.usage is not None or chunk.x_groq is not None:
            self._note_usage(chunk)
        if chunk.citations or chunk.search_results:  # Perplexity: each chunk has all of them
            self._sources = {"citations": chunk.citations, "search_results": chunk.search_results}
        return events

    def _in_parts(self, content: Any) -> Iterator[StreamEvent]:
        """What content means that is not a string: parts, or the JSON of parsed output."""
        texts = [encode_text(content)] if isinstance(content, dict) else []
        for part in content if isinstance(content, list) else ():
            match part:
                case {"type": "thinking"}:  # Mistral
                    if said := _flat_text(part.get("thinking")):
                        yield ThinkingDelta(said, _THINKING)
                case str(text) | {"text": str(text)}:
                    texts.append(text)
                case {"type": str()}:
                    self._kept.add_part(part)
        if text := "".join(texts):
            self._pieces.append(text)
            yield TextDelta(text, _TEXT)

    def _keep(self, delta: Delta) -> None:
        if delta.refusal:
            self._refusal.append(_flat_text(delta.refusal))
        self._kept.add(delta)

    def _broken_off(self, error: Any) -> ModelError:
        """The error for an answer that the server says it broke off: what it names, else one to be retried."""
        fault = self._fault({"error": error})
        if type(fault) is not ModelError:
            return fault
        return PartialStreamError(fault.args[0], text=self.text, **fault.details)

    def _refuse_fault(self, value: Any) -> None:
        if is_flat_fault(value):
            raise self._fault(value)

    def _note_usage(self, chunk: Chunk) -> None:
        """Counts are cumulative: the last value of a field holds, and null erases nothing."""
        extra = chunk.x_groq
        if extra is not None and extra.error:
            raise self._broken_off(extra.error)
        fields = chunk.usage or (extra.usage if extra is not None else None)
        if isinstance(fields, dict):
            self._usage.update((key, value) for key, value in fields.items() if value is not None)

    def _whole(self, value: dict[str, Any]) -> list[StreamEvent]:
        try:
            chunk = msgspec.convert(value, FirstChunk)
        except msgspec.ValidationError:
            raise self._not_an_answer() from None
        if not chunk.choices:
            self._refuse_fault(value)
        choices = [
            choice if choice.message is None else replace(choice, delta=choice.message)
            for choice in chunk.choices or ()
        ]
        events = self._first(replace(chunk, choices=choices))
        if not self._chose:
            raise self._not_an_answer()
        self.done = True
        return events

    def _end(self) -> Iterator[StreamEvent]:
        reason = reason_of(self._finish)
        if reason == OVERLOADED:
            raise OverloadedError(
                "provider: broke off the answer", model=self._model, finish_reason=self._finish
            )
        if reason in BROKEN_OFF:
            raise self._partial("the provider broke off the answer")
        if reason in MALFORMED:
            raise MalformedReplyError(
                "provider: the model's answer cannot be used",
                text=self.text,
                model=self._model,
                finish_reason=self._finish,
            )
        yield from self._calls.finish(f"{self._seed}/{self._answer_id}")
        stop = stop_of(reason) or "stop"
        if self._refusal and stop != "length":
            stop = "safety"
        ended = list(completed(self._calls.calls, reason, stop))
        for call in ended:
            yield ToolCallEnd(call.block)
        free = count(_FIRST_CALL + len(self._calls.calls))
        for field, block in self._kept.blocks():
            yield BlockEvent(block, _PLACES[field] if field in _PLACES else next(free))
        if stop in ("stop", "tool_use"):
            stop = "tool_use" if ended else "stop"
        yield StreamEnd(
            stop_reason=stop,
            usage=usage_of(self._usage),
            model=self._answer_model,
            response_id=self._answer_id,
            metadata=self._metadata(stop),
            origin=origin_of(FORMAT, self._model),
        )

    def _metadata(self, stop: str) -> dict[str, Any]:
        """What the reply would otherwise not tell: an unusual reason, a refusal, repeated arguments."""
        metadata: dict[str, Any] = {key: value for key, value in self._sources.items() if value}
        if self._finish is not None and (stop == "safety" or stop_of(reason_of(self._finish)) != stop):
            metadata["finish_reason"] = self._finish
        if self._refusal:
            metadata["refusal"] = "".join(self._refusal)
        if self._logprobs.value:
            metadata["logprobs"] = self._logprobs.value
        if self._calls.repeated:
            metadata["repeated_arguments"] = list(self._calls.repeated)
        return metadata


def _flat_text(value: Any) -> str:
    """The text of what should be one, or of its parts."""
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "".join([text for text in texts if isinstance(text, str)])
