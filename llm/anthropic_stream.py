"""Answers of Anthropic Messages, from bytes to stream events, without I/O.

An answer is complete when the server says why it stopped, or that it did (``message_stop``). Otherwise it is cut:
``PartialStreamError`` with the text so far.

==================================================  =============  ==============================================
``stop_reason``                                     the reply's    calls that are completed
==================================================  =============  ==============================================
``end_turn``, ``stop_sequence``, ``tool_use``       ``stop``,      all that were closed, valid arguments or not,
                                                    ``tool_use``   so that the model hears of its mistake
``max_tokens``, ``model_context_window_exceeded``   ``length``     closed ones with whole arguments, and never
                                                                   the block that came last
``refusal``, ``sensitive``                          ``safety``     none
``pause_turn``, ``compaction``                      ``pause``      as for ``end_turn``
none, or one not known                              ``stop``       closed ones with whole arguments
==================================================  =============  ==============================================

``pause`` means: ask again with this reply as the last message, and the server goes on with its own tools, which
``AnthropicModel`` does (``anthropic_pauses.py``). A reply
that has completed calls stops for ``tool_use``. A reason that is not the ordinary one stays in the metadata as
``finish_reason``.

Read with: ``decoder.py``, ``anthropic_blocks.py``, ``tests/llm/test_anthropic_stream.py`` (the tables).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from unspool.kernel.ports import StreamEnd, StreamEvent, TextDelta, ToolCallEnd

from .anthropic_blocks import BlockAssembler, PartialBlock
from .anthropic_usage import merge_usage, usage_details, usage_of
from .anthropic_wire import FORMAT, Event, Fields, decode_event, fields_of, text_of
from .decoder import AnswerDecoder, json_or_text
from .origins import origin_of
from .sse import SseEvent

_STOP_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "safety",
    "sensitive": "safety",  # of other servers
    "pause_turn": "pause",
    "compaction": "pause",  # of the server, asked to pause after it
}
_ORDINARY: Final = {"stop": "end_turn", "tool_use": "tool_use", "length": "max_tokens"}
_UNSAID: Final = "the stream reported an error without saying which"


class AnthropicDecoder(AnswerDecoder):
    """One answer of Anthropic Messages."""

    kind = "a message"

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        super().__init__(model=model, secret=secret, seed=seed)
        self._blocks = BlockAssembler()
        self._usage: Fields = {}
        self._began = False
        self._finish = ""
        self._answer_model = ""
        self._answer_id = ""
        self._said: Fields = {}  # for the metadata

    @property
    def finished(self) -> bool:
        return self.done or bool(self._finish)

    def _is_complete(self) -> bool:
        return self.finished and self._began

    def _event(self, event: SseEvent) -> Sequence[StreamEvent]:
        if self.done:
            return ()
        data = event.data.strip()
        if event.name == "error":
            raise self._fault(_told(json_or_text(data)))
        if not data or data[:1] == b":" or data == b"[DONE]":  # what proxies put into data fields
            return ()
        fields = self._read(data, decode_event, Event)
        events = self._take(fields, fields.type or event.name)
        for said in events:
            if type(said) is TextDelta:
                self._pieces.append(said.text)
        return events

    def _take(self, event: Event, kind: Any) -> Sequence[StreamEvent]:
        if kind == "content_block_delta":  # what most events are
            self._began = True
            return self._blocks.delta(event.index, fields_of(event.delta))
        match kind:
            case "content_block_start":
                self._began = True
                return [*self._blocks.start(event.index, fields_of(event.content_block))]
            case "content_block_stop":
                return [*self._blocks.stop(event.index)]
            case "message_start":
                self._start(fields_of(event.message))
            case "message_delta":
                self._stop(fields_of(event.delta))
                self._note({"context_management": event.context_management})
                merge_usage(self._usage, event.usage)
            case "message_stop":
                self.done = True
            case "error":
                raise self._fault(_told({"type": "error", "error": event.error, "message": event.message}))
            case _:
                if event.error:
                    raise self._fault({"error": event.error})
        return ()

    def _start(self, message: Fields) -> None:
        self._began = True
        self._answer_id = text_of(message.get("id"))
        self._answer_model = text_of(message.get("model"))
        self._blocks.seed = f"{self._seed}/{self._answer_id}"
        merge_usage(self._usage, message.get("usage"))

    def _stop(self, fields: Fields) -> None:
        self._finish = text_of(fields.get("stop_reason")) or self._finish
        self._note({key: fields.get(key) for key in ("stop_sequence", "stop_details", "container")})

    def _note(self, fields: Fields) -> None:
        self._said.update((key, value) for key, value in fields.items() if value)

    def _whole(self, value: Fields) -> Iterator[StreamEvent]:
        content = value.get("content")
        if value.get("error") or value.get("type") == "error":
            raise self._fault(_told(value))
        if not isinstance(content, list):
            raise self._not_an_answer()
        self._start(value)
        for block in content:
            for said in self._blocks.whole(fields_of(block)):
                if type(said) is TextDelta:
                    self._pieces.append(said.text)
                yield said
        self._stop(value)
        self._note({"context_management": value.get("context_management")})
        self.done = True

    def _end(self) -> Iterator[StreamEvent]:
        yield from self._blocks.close()
        stop = _STOP_REASONS.get(self._finish, "stop")
        ended = list(_completed(self._blocks, self._finish, stop))
        for call in ended:
            yield ToolCallEnd(call.position)
        if ended and stop in ("stop", "pause"):
            stop = "tool_use"
        elif stop == "tool_use" and not ended:
            stop = "stop"
        yield StreamEnd(
            stop_reason=stop,
            usage=usage_of(self._usage),
            model=self._answer_model,
            response_id=self._answer_id,
            metadata=self._metadata(stop),
            origin=origin_of(FORMAT, self._model),
        )

    def _metadata(self, stop: str) -> dict[str, Any]:
        """What the reply would otherwise not tell."""
        metadata: dict[str, Any] = {}
        if self._finish and _ORDINARY.get(stop) != self._finish:
            metadata["finish_reason"] = self._finish
        metadata.update(self._said)
        if words := text_of(fields_of(self._said.get("stop_details")).get("explanation")):
            metadata["refusal"] = words
        if details := usage_details(self._usage):
            metadata["usage_details"] = details
        return metadata


def _completed(blocks: BlockAssembler, reason: str, stop: str) -> Iterator[PartialBlock]:
    """The calls that may be run, by how the answer ended; see the top of the file."""
    match stop:
        case "length":
            yield from (call for call in blocks.calls if call.runnable and call is not blocks.blocks[-1])
        case "safety":
            return
        case _ if reason in _STOP_REASONS:
            yield from (call for call in blocks.calls if call.stopped and call.name)
        case _:
            yield from (call for call in blocks.calls if call.runnable)


def _told(error: Any) -> Any:
    """What an error says; an event of that name without more in it says nothing."""
    if isinstance(error, dict) and error.get("type") == "error" and not error.get("error"):
        error = error.get("message")
    return error or _UNSAID
