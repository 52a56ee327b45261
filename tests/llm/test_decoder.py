"""What holds for the decoders of all formats: how large an answer may be, and where it ends."""

import pytest

from unspool.kernel.errors import ModelError
from unspool.kernel.ports import StreamEvent, TextDelta
from unspool.llm import decoder as decoder_module
from unspool.llm.anthropic_stream import AnthropicDecoder
from unspool.llm.decoder import AnswerDecoder
from unspool.llm.gemini_stream import GeminiDecoder
from unspool.llm.openai_chat_stream import ChatDecoder
from unspool.llm.openai_responses_items import MAX_ITEMS
from unspool.llm.openai_responses_stream import ResponsesDecoder
from unspool.llm.sse import EventTooLargeError

MAX = 5000
TEXTS: dict[type[AnswerDecoder], bytes] = {
    ChatDecoder: b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    AnthropicDecoder: b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n',
    ResponsesDecoder: b'data: {"type":"response.output_text.delta","delta":"a"}\n\n',
    GeminiDecoder: b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n',
}
ENDS: dict[type[AnswerDecoder], bytes] = {
    ChatDecoder: b"data: [DONE]\n\n",
    AnthropicDecoder: b'data: {"type":"message_stop"}\n\n',
    ResponsesDecoder: b'data: {"type":"response.completed","response":{}}\n\n',
    GeminiDecoder: b"data: [DONE]\n\n",
}
ANY = pytest.mark.parametrize("make", TEXTS)


def read(decoder: AnswerDecoder, *chunks: bytes) -> tuple[list[StreamEvent], ModelError | None]:
    events: list[StreamEvent] = []
    try:
        for chunk in chunks:
            events.extend(decoder.feed(chunk))
    except ModelError as error:
        return events, error
    return events, None


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MAX_ANSWER_BYTES", MAX)


@ANY
@pytest.mark.parametrize("together", [True, False])
def test_an_answer_that_is_too_large(make: type[AnswerDecoder], together: bool) -> None:
    """What there is room for is given, in one piece or in many."""
    decoder, room = make(), MAX // len(TEXTS[make])
    body = [TEXTS[make]] * (room + 10)
    events, error = read(decoder, *([b"".join(body)] if together else body))
    assert len([event for event in events if type(event) is TextDelta]) == room
    assert type(error) is EventTooLargeError and f"the answer is too large (max_bytes={MAX})" in str(error)
    assert not error.retryable and decoder.text == "a" * room


@ANY
def test_a_document_that_is_too_large(make: type[AnswerDecoder]) -> None:
    events, error = read(make(), b"{" + b" " * (MAX - 2), b"  ")
    assert events == [] and type(error) is EventTooLargeError


@ANY
def test_what_follows_the_end_means_nothing(make: type[AnswerDecoder]) -> None:
    decoder = make()
    first, error = read(decoder, TEXTS[make] + ENDS[make] + TEXTS[make] + b'event: error\ndata: "x"\n\n')
    assert (len(first), error, decoder.done, decoder.text) == (1, None, True, "a")


@ANY
def test_after_the_end_no_size_is_too_large(make: type[AnswerDecoder]) -> None:
    decoder = make()
    events, error = read(decoder, TEXTS[make] + ENDS[make] + b": keepalive\n" * MAX)
    assert (len(events), error, decoder.done) == (1, None, True)


def test_an_answer_with_too_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    item = b'data: {"type":"response.output_item.added","item":{"type":"message","id":"%d"}}\n\n'
    _, error = read(ResponsesDecoder(), *[item % number for number in range(MAX_ITEMS + 1)])
    assert type(error) is EventTooLargeError and f"(max_items={MAX_ITEMS})" in str(error)
