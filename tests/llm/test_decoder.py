"""What holds for the decoders of all formats: how large an answer may be, and where it ends."""

import pytest

from unspool.kernel.errors import ModelError
from unspool.kernel.ports import StreamEvent, TextDelta
from unspool.llm import decoder as decoder_module
from unspool.llm.anthropic_stream import AnthropicDecoder
from unspool.llm.decoder import MAX_ANSWER_BYTES, AnswerDecoder
from unspool.llm.gemini_stream import GeminiDecoder
from unspool.llm.openai_chat_stream import ChatDecoder
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


BLOCKS: dict[str, tuple[type[AnswerDecoder], bytes]] = {  # an event that begins a block each time
    "items": (
        ResponsesDecoder,
        b'{"type":"response.output_item.added","item":{"type":"message","id":"%d"}}',
    ),
    "calls": (ChatDecoder, b'{"choices":[{"delta":{"tool_calls":[{"id":"c%d","function":{"name":"f"}}]}}]}'),
    "calls by index": (
        ChatDecoder,
        b'{"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"name":"f"}}]}}]}',
    ),
    "images": (
        ChatDecoder,
        b'{"choices":[{"delta":{"images":[{"image_url":{"url":"https://h/%d"}}]}}]}',
    ),
    "blocks": (
        AnthropicDecoder,
        b'{"type":"content_block_start","index":%d,"content_block":{"type":"text"}}',
    ),
    "unknown blocks": (AnthropicDecoder, b'{"type":"content_block_start","content_block":{"type":"x%d"}}'),
    "parts": (GeminiDecoder, b'{"candidates":[{"content":{"parts":[{"x":%d}]}}]}'),
    "calls of Gemini": (
        GeminiDecoder,
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f%d"}}]}}]}',
    ),
    "signed texts": (
        GeminiDecoder,
        b'{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"%d"}]}}]}',
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_an_answer_with_too_many_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MAX_ANSWER_BYTES", MAX_ANSWER_BYTES)
    monkeypatch.setattr(decoder_module, "MAX_BLOCKS", 20)
    make, event = BLOCKS[name]
    _, error = read(make(), *[b"data: %b\n\n" % (event % number) for number in range(19)])
    assert (error is None) is (name != "signed texts")  # each is two
    _, error = read(make(), *[b"data: %b\n\n" % (event % number) for number in range(21)])
    assert type(error) is EventTooLargeError and "has too many blocks (max_blocks=20)" in str(error)


FULL: dict[type[AnswerDecoder], tuple[bytes, bytes]] = {  # around values that say nothing
    ChatDecoder: (b'{"choices":[{"index":0,"message":{"content":[', b'{}]},"finish_reason":"stop"}]}'),
    AnthropicDecoder: (b'{"content":[', b'{}],"type":"message","stop_reason":"end_turn"}'),
    ResponsesDecoder: (b'{"output":[', b'{}],"status":"completed"}'),
    GeminiDecoder: (b'{"candidates":[{"content":{"parts":[', b'{}]},"finishReason":"STOP"}]}'),
}


@ANY
@pytest.mark.parametrize("value", [b"{},", b"[],", b"1,", b'"",'])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_large_answer_of_too_many_values(
    make: type[AnswerDecoder], value: bytes, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted before they are made into objects, which take far more memory than their text."""
    monkeypatch.setattr(decoder_module, "MAX_ANSWER_BYTES", MAX_ANSWER_BYTES)
    monkeypatch.setattr(decoder_module, "LARGE_BYTES", 500)
    monkeypatch.setattr(decoder_module, "MAX_VALUES", {b"{[": 100, b",": 200})
    before, after = FULL[make]
    decoder, body = make(), before + value * 300 + after
    first = [TEXTS[make]] * 10 if streamed else []
    events, error = read(decoder, b"".join(first) + (b"data: %b\n\n" % body if streamed else body))
    if not streamed:
        with pytest.raises(EventTooLargeError, match="holds too many values"):
            list(decoder.close())
    else:
        assert len(events) == 10  # what came before is given
        assert type(error) is EventTooLargeError and "holds too many values" in str(error)


@ANY
def test_a_large_answer_of_few_values(make: type[AnswerDecoder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MAX_ANSWER_BYTES", MAX_ANSWER_BYTES)
    monkeypatch.setattr(decoder_module, "LARGE_BYTES", 10)
    decoder = make()
    events, error = read(decoder, TEXTS[make] * 3 + ENDS[make])
    assert (len(events), error, decoder.text) == (3, None, "aaa")


@ANY
@pytest.mark.parametrize("before", [b"\x0b\n", b"\x0c", b" \t\r\n"])
def test_white_space_before_a_document_is_that_of_json(make: type[AnswerDecoder], before: bytes) -> None:
    """So it does not matter where the answer was cut."""
    body = before + b"{}"
    results = []
    for chunks in ([body], [bytes([each]) for each in body]):
        decoder = make()
        events, error = read(decoder, *chunks)
        with pytest.raises(ModelError) as caught:
            events += decoder.close()
        results.append((events, str(error), type(caught.value), str(caught.value)))
    assert results[0] == results[1]


@ANY
def test_many_events_of_too_many_values(make: type[AnswerDecoder], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them holds too many by itself."""
    monkeypatch.setattr(decoder_module, "MAX_ANSWER_BYTES", MAX_ANSWER_BYTES)
    monkeypatch.setattr(decoder_module, "LARGE_BYTES", 200)
    monkeypatch.setattr(decoder_module, "MAX_VALUES", {b"{[": 300, b",": 600})
    before, after = FULL[make]
    event = b"data: %b\n\n" % (before + b"{}," * 80 + after)
    _, error = read(make(), event, event, event)
    assert error is None
    for chunks in ([event] * 5, [event * 5]):
        _, error = read(make(), *chunks)
        assert type(error) is EventTooLargeError and "holds too many values" in str(error)
