"""Runs over each wire format: what the checks about adapters say of a run as a whole."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from play import Player, echo
from wires import FORMATS, Format, sse

from unspool.kernel import MessageStart, ModelRequest, Retry, StreamEvent
from unspool.llm.decoder import AnswerDecoder

ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)


class Replays:
    """A model whose answers are bytes, read as its format is; one that is an event is waited for."""

    supports_tools = True

    def __init__(self, format: Format, *answers: bytes) -> None:
        self.name = f"p/{format.model}"
        self.requests: list[ModelRequest] = []
        self._format, self._answers = format, list(answers)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        self._format.sent(request)  # it can be said in the format
        decoder: AnswerDecoder = self._format.at("http://h")._decoder(request, "")
        for event in [*decoder.feed(self._answers.pop(0))]:
            yield event
        for event in decoder.close():
            yield event


@ALL
def test_an_answer_that_was_empty_at_first(play: Player, format: Format) -> None:  # T303
    model = Replays(format, b"", format.answer("Hello"))
    run = play(model=model, retry=Retry(attempts=2))
    assert (run.end.reason, run.texts) == ("stop", ["user: go", "assistant: Hello"])
    assert len(model.requests) == 2
    begun = [event for event in run.events if isinstance(event, MessageStart) and event.role == "assistant"]
    assert len(begun) == 1


@ALL
def test_a_loop_of_calls(play: Player, format: Format) -> None:  # T351, T346
    call = ("call_1", "echo", {"value": "x"})
    model = Replays(format, format.answer("first", call), format.answer("", call), format.answer("done"))
    run = play(model=model, tools=[echo()])
    assert run.end.reason == "stop" and run.texts[-1] == "assistant: done"
    assert [*run.outcomes().values()] == ["ok", "ok"]


BROKEN: dict[str, bytes] = {  # a text, and then neither an end nor a reason
    "openai-chat": sse({"choices": [{"index": 0, "delta": {"content": "He"}}]}),
    "openai-responses": sse({"type": "response.output_text.delta", "output_index": 0, "delta": "He"}),
    "anthropic-messages": sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "He"}},
    ),
    "gemini": sse({"candidates": [{"content": {"parts": [{"text": "He"}]}}]}),
}


@ALL
def test_an_answer_without_an_end_is_no_success(play: Player, format: Format) -> None:  # E.1.7, T471
    run = play(model=Replays(format, BROKEN[format.name]), retry=Retry(attempts=0))
    assert run.end.reason == "error" and run.texts == ["user: go"]
    assert any("stream_partial" in line for line in run.brief)


@ALL
def test_a_call_that_was_cut_does_not_run(play: Player, format: Format) -> None:  # I-17b
    ran: list[Any] = []
    whole = format.answer("", ("call_1", "echo", {"value": "x"}))
    cut = whole[: whole.rindex(b"value")]
    run = play(model=Replays(format, cut), tools=[echo()], retry=Retry(attempts=0))
    assert run.end.reason == "error" and run.outcomes() == {} and ran == []
