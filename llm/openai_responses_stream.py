"""Answers of the Responses API, from bytes to stream events, without I/O.

An answer is over when one of the terminal events came, whatever else the body does; a stream without one is
cut: ``PartialStreamError`` with the text so far. What they mean:

===========================  ===========================================================================
the response is              the reply
===========================  ===========================================================================
``completed``                stops for ``tool_use`` if there are calls, else ``stop``; every call is
                             completed (``ToolCallEnd``), valid arguments or not, so that the model hears
                             of its mistake
``incomplete``               stops for ``length``; a call is completed if its arguments are whole and
                             another item follows it. After ``content_filter``: ``safety``, and no call is
``failed``, ``cancelled``    an error, by its own class
``queued``, ``in_progress``  an error where it is all that the server gives: background answers are not
                             waited for
===========================  ===========================================================================

A refusal has no block of its own: the reply stops for ``safety`` and carries the words in its metadata.

Read with: ``decoder.py``, ``openai_responses_items.py``, ``openai_responses_kept.py`` (what becomes which block),
``tests/llm/test_openai_responses_stream.py`` (the tables).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from unspool.kernel.errors import ModelError
from unspool.kernel.json_edge import decode_arguments
from unspool.kernel.ports import StreamEnd, StreamEvent, TextDelta, ToolCallEnd

from .decoder import UNREADABLE, AnswerDecoder, json_or_text
from .openai_chat_faults import is_flat_fault
from .openai_responses_item import CALLS, MESSAGE, REASONING, Item
from .openai_responses_items import ItemAssembler, as_text
from .openai_responses_kept import FORMAT
from .openai_responses_usage import usage_of
from .openai_responses_wire import Event, Response, decode_event, decode_loosely, loosened
from .origins import origin_of
from .sse import SseEvent

_TEXTS: Final = {  # events that carry texts: the kind of the item, and which of its texts
    "response.output_text": (MESSAGE, "text"),
    "response.refusal": (MESSAGE, "refusal"),
    "response.reasoning_text": (REASONING, "content"),
    "response.reasoning_summary_text": (REASONING, "summary"),
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
}
_DELTAS: Final = {f"{name}.delta": texts for name, texts in _TEXTS.items()}
_DONES: Final = {f"{name}.done": texts for name, texts in _TEXTS.items()}
_TERMINAL: Final = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_ERRORS: Final = frozenset({"error", "response.error"})
_ENDS: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
_STOP_REASONS: Final = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "safety"}
_SILENT: Final = {"type": "server_error", "message": "the response failed without an explanation"}


class ResponsesDecoder(AnswerDecoder):
    """One answer of the Responses API."""

    kind = "a response"

    def __init__(self, *, model: str = "", secret: str = "", seed: str = "") -> None:
        super().__init__(model=model, secret=secret, seed=seed)
        self._items = ItemAssembler()
        self._status = ""  # of an answer that is over
        self._reason = ""  # why it is incomplete
        self._usage: dict[str, Any] = {}
        self._answer_model = ""
        self._answer_id = ""

    @property
    def finished(self) -> bool:
        return bool(self._status)

    def _event(self, event: SseEvent) -> Iterable[StreamEvent]:
        if self.done:
            return ()
        data = event.data
        if event.name == "error":
            raise self._said(json_or_text(data) or "the stream reported an error without saying which")
        if data[:1] != b"{":
            stripped = data.strip()
            if stripped == b"[DONE]":
                self.done = True
                return ()
            if not stripped or data[:1] == b":":  # a proxy's keepalive put into a data field
                return ()
        try:
            fields = decode_event(data)
        except UNREADABLE:
            fields = self._read(data, decode_loosely, Event)
        kind = fields.type or event.name
        if fields.error or kind in _ERRORS:
            raise self._said(json_or_text(data))
        if (texts := _DELTAS.get(kind)) is None:
            if fields.type is None and is_flat_fault(fault := json_or_text(data)):
                raise self._said(fault)
            return self._noting_text(self._meaning(kind, fields))
        item = self._items.find(texts[0], fields.item_id, fields.output_index)  # what most events are
        said = self._items.add(item, texts[1], _index(fields, texts[1]), as_text(fields.delta))
        if texts[1] == "text":
            self._pieces += [event.text for event in said if type(event) is TextDelta]
        return said

    def _meaning(self, kind: str, event: Event) -> Iterator[StreamEvent]:
        """What an event means that is no delta, by its type; those that are not known mean nothing."""
        items, place = self._items, event.output_index
        if (texts := _DONES.get(kind)) is not None:
            item = items.find(texts[0], event.item_id, place)
            whole = {"refusal": event.refusal, "arguments": event.arguments, "input": event.input}
            text = as_text(whole.get(texts[1], event.text))
            yield from items.complete(item, texts[1], _index(event, texts[1]), text)
        elif kind == "response.output_item.added" and isinstance(event.item, dict):
            yield from items.announce(event.item, place)
        elif kind == "response.output_item.done" and isinstance(event.item, dict):
            yield from items.take(event.item, place)
        elif kind == "response.output_text.annotation.added":
            item = items.find(MESSAGE, event.item_id, place)
            item.annotations.append((_index(event, "text"), event.annotation))
        elif kind in _TERMINAL:
            yield from self._over(event.response or Response(), _TERMINAL[kind])
        elif event.response is not None:
            self._note(event.response)

    def _over(self, response: Response, status: str) -> Iterator[StreamEvent]:
        """The answer is over, and ``response`` is the whole of it."""
        self._note(response)
        if response.status in _ENDS:  # some servers send one terminal event for all
            status = response.status
        if status == "failed":
            raise self._said({"error": response.error or _SILENT})
        if status == "cancelled":
            raise ModelError("provider: the response was cancelled", model=self._model)
        yield from self._items.take_all(response.output or [])
        if status == "incomplete":
            details = response.incomplete_details
            reason = details.get("reason") if isinstance(details, dict) else None
            self._reason = reason if isinstance(reason, str) else "incomplete"
        self._status = status
        self.done = True

    def _note(self, response: Response) -> None:
        self._answer_id = response.id or self._answer_id
        self._answer_model = response.model or self._answer_model
        if response.usage is not None:
            self._usage = response.usage

    def _whole(self, value: dict[str, Any]) -> Iterator[StreamEvent]:
        try:
            response = msgspec.convert(loosened(value), Response)
        except msgspec.ValidationError:
            raise self._not_an_answer() from None
        if response.status in ("queued", "in_progress"):
            raise ModelError(
                "provider: the response is not finished", model=self._model, status=response.status
            )
        if response.error and response.status not in ("completed", "incomplete"):
            raise self._said({"error": response.error})
        if response.output is None and is_flat_fault(value):
            raise self._said(value)
        if response.output is None and response.status not in _ENDS:
            raise self._not_an_answer()
        yield from self._noting_text(self._over(response, "completed"))

    def _end(self) -> Iterator[StreamEvent]:
        items = self._items
        yield from self._noting_text(items.finish(f"{self._seed}/{self._answer_id}"))
        refusal = "".join([item.text("refusal") for item in items.items])
        stop = _STOP_REASONS.get(self._reason, "length") if self._reason else "safety" if refusal else "stop"
        ended = list(_completed(items.items, stop))
        for call in ended:
            yield ToolCallEnd(call.block)
        stop = "tool_use" if ended and stop == "stop" else stop
        metadata: dict[str, Any] = {}
        if stop == "safety" or (self._reason and self._reason not in _STOP_REASONS):
            metadata["finish_reason"] = self._reason or "completed"
        if refusal:
            metadata["refusal"] = refusal
        yield StreamEnd(
            stop_reason=stop,
            usage=usage_of(self._usage),
            model=self._answer_model,
            response_id=self._answer_id,
            metadata=metadata,
            origin=origin_of(FORMAT, self._model),
        )

    def _noting_text(self, events: Iterator[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            if type(event) is TextDelta:
                self._pieces.append(event.text)
            yield event

    def _said(self, value: Any) -> ModelError:
        """The error of an ``error`` event, flat or with an object in it, or of a failed response."""
        if not isinstance(value, dict):
            return self._fault(value)
        error = value.get("error")
        if not isinstance(error, dict):
            flat = {key: each for key, each in value.items() if key != "type"}
            return self._fault({"error": error} if error else flat)
        status = value.get("status_code") or value.get("status")
        return self._fault({"error": {"status_code": status, **error}})


def _index(event: Event, slot: str) -> int:
    index = event.summary_index if slot == "summary" else event.content_index
    return index if index is not None and index >= 0 else 0


def _completed(items: list[Item], stop: str) -> Iterator[Item]:
    """The calls that may be run, by how the answer ended; see the top of the file."""
    for place, item in enumerate(items):
        if item.kind not in CALLS or not item.name or stop == "safety":
            continue
        if stop != "length" or (place + 1 < len(items) and _is_whole(item)):
            yield item


def _is_whole(item: Item) -> bool:
    if item.best.get("status") == "incomplete":
        return False
    slot = CALLS[item.kind]
    return slot == "input" or decode_arguments(item.text(slot)).error is None
