"""Answers of Gemini's generateContent, from bytes to stream events, without I/O.

Parts come in order and become blocks in that order; texts that follow each other are one block, and so are
thoughts, up to one that is signed or has other fields than those before. ``thought`` says what is a thought, never
the signature. The signature of a thought or a call has a field; that of a text or an image follows it as an
``Opaque`` of nothing else, and so do other fields of a part: see ``gemini_parts.py``.

There is no end marker: the answer is over with a ``finishReason``, unless more content follows.

========================================  =======================================================================
``finishReason``                          the answer is
========================================  =======================================================================
STOP                                      complete, even when it is empty; every call is completed
MAX_TOKENS                                cut for ``length``; calls but the last are completed
SAFETY and its kin, a blocked prompt      stopped for ``safety``; no call is completed
a call or an answer that was malformed    none: ``MalformedReplyError``, asking again may help
MISSING_THOUGHT_SIGNATURE                 none: ``BadRequestError``
OTHER, LANGUAGE, one we do not know       complete, and the reason in its metadata; an empty one is none:
                                          ``MalformedReplyError``
none                                      cut: ``PartialStreamError`` with the text so far
========================================  =======================================================================

A call is completed (``ToolCallEnd``) only then, and never one that was still to continue.

Read with: ``decoder.py``, ``gemini_calls.py``, ``gemini_finish.py``, ``gemini_metadata.py``,
``tests/llm/test_gemini_stream.py`` and ``test_gemini_blocks.py`` (the tables).
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from unspool.kernel.errors import BadRequestError, MalformedReplyError
from unspool.kernel.messages import Image, Opaque
from unspool.kernel.ports import BlockEvent, StreamEnd, StreamEvent, TextDelta, ThinkingDelta, ToolCallEnd

from .decoder import AnswerDecoder, check_blocks, json_of, json_or_text
from .faults import hide
from .gemini_calls import CallAssembler
from .gemini_finish import MALFORMED, blocked_for, completed, is_known, reason_of, stop_of
from .gemini_metadata import NO_METADATA, CandidateMetadata, metadata_of
from .gemini_parts import OF_WORDS, fields_block, image_of, other_fields, signature_block
from .gemini_usage import usage_of
from .gemini_wire import (
    FORMAT,
    CallPart,
    Candidate,
    Chunk,
    PromptFeedback,
    UsageFields,
    decode_chunk,
    decode_chunks,
)
from .origins import origin_of
from .sse import SseEvent

_TEXT, _THINKING = "text", "thinking"


class GeminiDecoder(AnswerDecoder):
    """One answer of generateContent."""

    kind = "a Gemini answer"

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        super().__init__(model=model, secret=secret, seed=seed)
        self._index = -1  # of the newest block
        self._open = ""  # its kind, where more of it may come
        self._flows = False  # the open block is a text that may go on: not signed, and without other fields
        self._spoken = False  # the open block has text
        self._signature = ""  # of the open block
        self._fields: dict[str, Any] = {}  # the other fields of its parts
        self._calls = CallAssembler()
        self._usage: UsageFields = {}
        self._finish = ""
        self._finish_message = ""
        self._blocked = ""
        self._metadata: dict[str, Any] = {}
        self._of_candidates = CandidateMetadata(self._metadata)
        self._answer_model = ""
        self._answer_id = ""

    @property
    def finished(self) -> bool:
        return bool(self._finish or self._blocked)

    def _event(self, event: SseEvent) -> Iterable[StreamEvent]:
        if self.done:
            return ()
        data = event.data.strip()
        if event.name == "error":
            raise self._fault(json_or_text(data) or "the stream reported an error without saying which")
        if data[:1] == b"{":
            return self._chunk(self._read(data, decode_chunk, Chunk))
        if data[:1] == b"[" and data != b"[DONE]":
            return chain.from_iterable(map(self._chunk, self._read(data, decode_chunks, list[Chunk])))
        if data == b"[DONE]":  # of a gateway
            self.done = True
        elif data and data[:1] != b":":  # a proxy's keepalive put into a data field
            self._read(data, decode_chunk, Chunk)
        return ()

    def _document(self, body: bytes) -> Iterator[StreamEvent]:
        """An answer that is no event stream: one object, or the array of a stream's chunks."""
        try:
            value = json_of(body)
        except ValueError:
            raise self._partial("the answer ended early") from None
        for chunk in _unwrapped(value):
            yield from self._whole(chunk)
        self.done = True

    def _whole(self, value: Any) -> Iterator[StreamEvent]:
        try:
            chunk = msgspec.convert(value, Chunk)
        except msgspec.ValidationError:
            raise self._not_an_answer() from None
        if chunk == Chunk():
            raise self._not_an_answer()
        yield from self._chunk(chunk)

    def _chunk(self, chunk: Chunk) -> list[StreamEvent]:
        if chunk.error:
            raise self._fault({"error": chunk.error})
        self._answer_id = self._answer_id or chunk.response_id or ""
        self._answer_model = chunk.model_version or self._answer_model
        if fields := chunk.usage_metadata:  # cumulative: the last value of a field holds
            if None in fields.values():
                fields = {key: value for key, value in fields.items() if value is not None}
            self._usage.update(fields)
        if chunk.prompt_feedback is not None:
            self._note_feedback(chunk.prompt_feedback)
        events: list[StreamEvent] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:  # None or 0: the one answer we asked for
                self._candidate(candidate, events)
        return events

    def _note_feedback(self, feedback: PromptFeedback) -> None:
        if reason := blocked_for(feedback.block_reason):
            self._blocked = reason
            self._metadata["block_reason"] = feedback.block_reason
            if feedback.block_reason_message:
                self._metadata["block_reason_message"] = feedback.block_reason_message
        if feedback.safety_ratings:
            self._metadata["safety_ratings"] = feedback.safety_ratings

    def _candidate(self, candidate: Candidate, events: list[StreamEvent]) -> None:
        """Add what a candidate says to ``events``."""
        before = len(events)
        content = candidate.content
        for part in (content.parts if content is not None else None) or ():
            if self._flows and len(part) == 1 and (text := part.get("text")) and type(text) is str:
                self._pieces.append(text)  # the text goes on: what most parts are
                events.append(TextDelta(text, self._index))
            else:
                events += self._part(part)
        if reason := reason_of(candidate.finish_reason):
            self._finish, self._finish_message = reason, candidate.finish_message or ""
        elif len(events) > before:  # what went before was the end of a step, not of the answer
            self._finish = ""
        if (said := metadata_of(candidate)) != NO_METADATA:
            self._of_candidates.add(said)

    # --- parts ----------------------------------------------------------------------------------

    def _part(self, part: dict[str, Any]) -> Iterator[StreamEvent]:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) else ""
        thought = part.get("thought") is True
        text = part.get("text")
        fields = {} if part.keys() <= OF_WORDS else other_fields(part)
        if isinstance(call := fields.get("functionCall"), dict):
            del fields["functionCall"]
            if isinstance(text, str):
                yield from self._words(text, thought, "", {})
            yield from self._call(self._call_part(call), signature)
            yield from self._beside("", fields)
        elif isinstance(text, str) and (text or not fields):
            yield from self._words(text, thought, signature, fields)
        elif not fields and text is None:
            yield from self._words("", thought, signature, fields)
        elif not thought and (image := image_of(fields)) is not None:
            yield from self._close()
            yield self._block(image)
            yield from self._beside(signature, fields)
        else:
            yield from self._close()
            yield self._block(Opaque(provider=FORMAT, data=part))

    def _words(
        self, text: str, thought: bool, signature: str, fields: dict[str, Any]
    ) -> Iterator[StreamEvent]:
        if not text and not signature:
            return
        kind = _THINKING if thought else _TEXT
        is_other = self._signature not in ("", signature) or (text and fields != self._fields)
        if self._open != kind or is_other:
            yield from self._close()
            self._next_block()
            self._open, self._spoken, self._fields = kind, False, fields
        self._signature = signature or self._signature
        self._flows = not (thought or self._signature or self._fields)
        if not text:
            return
        self._spoken = True
        if thought:
            yield ThinkingDelta(text, self._index)
        else:
            self._pieces.append(text)
            yield TextDelta(text, self._index)

    def _call(self, part: CallPart, signature: str) -> Iterator[StreamEvent]:
        call = self._calls.continued(part)
        if call is None:
            if part == CallPart():  # it says nothing, and there is nothing that it could end
                yield from self._words("", False, signature, {})
                return
            yield from self._close()
            self._next_block()
            yield from self._calls.start(part, self._index, f"{self._seed}/{self._answer_id}")
            call = self._calls.calls[-1]
        try:
            yield from self._calls.add(call, part, signature)
        except ValueError:
            raise self._partial("the pieces of a call's arguments do not fit together") from None

    def _call_part(self, value: dict[str, Any]) -> CallPart:
        try:
            return msgspec.convert(value, CallPart)
        except msgspec.ValidationError:
            raise self._partial(f"a call in the answer is not that of {self.kind}") from None

    def _next_block(self) -> None:
        self._index += 1
        check_blocks(self._index)

    def _block(self, block: Image | Opaque) -> BlockEvent:
        self._next_block()
        return BlockEvent(block, self._index)

    def _beside(self, signature: str, fields: dict[str, Any]) -> Iterator[StreamEvent]:
        """What else was said with a part that is a block of its own."""
        if signature or fields:
            yield from self._close()
        if signature:
            yield self._block(signature_block(signature))
        if fields:
            yield self._block(fields_block(fields))

    def _close(self) -> Iterator[StreamEvent]:
        """End the open block with what is kept beside it."""
        kind, signature, fields = self._open, self._signature, self._fields
        self._open, self._signature, self._fields, self._flows = "", "", {}, False
        if signature and kind == _THINKING:
            yield ThinkingDelta("", self._index, signature=signature)
        elif signature:
            yield self._block(signature_block(signature, alone=not self._spoken))
        if fields:
            yield self._block(fields_block(fields))

    # --- the end --------------------------------------------------------------------------------

    def _end(self) -> Iterator[StreamEvent]:
        reason = self._finish
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise BadRequestError("provider: a thought signature is missing", **self._details())
        if reason in MALFORMED or (self._index < 0 and not is_known(reason) and not self._blocked):
            raise MalformedReplyError(
                "provider: the model's answer cannot be used", text=self.text, **self._details()
            )
        yield from self._close()
        yield from self._calls.finish()
        stop = stop_of(reason)
        ended = list(completed(self._calls.calls, reason, stop))
        for call in ended:
            yield ToolCallEnd(call.block)
        if reason not in ("STOP", "MAX_TOKENS", ""):
            self._metadata["finish_reason"] = reason
            if self._finish_message:
                self._metadata["finish_message"] = self._finish_message
        yield StreamEnd(
            stop_reason="tool_use" if stop == "stop" and ended else stop,
            usage=usage_of(self._usage),
            model=self._answer_model,
            response_id=self._answer_id,
            metadata=self._metadata,
            origin=origin_of(FORMAT, self._model),
        )

    def _details(self) -> dict[str, Any]:
        details = {"model": self._model, "finish_reason": hide(self._finish, self._secret)}
        said = hide(self._finish_message, self._secret)
        return details | ({"finish_message": said} if said else {})


def _unwrapped(value: Any) -> list[Any]:
    """The chunks of a document; some wrap an array into another."""
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return value if isinstance(value, list) else [value]
