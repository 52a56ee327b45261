"""What a server said, decoded and sent back: beside what it said, it must be the same.

Every recorded answer that holds its message as the next request would (all but some kinds of streams) is decoded,
and the reply is sent to the very model that made it, with results of its calls or a word of the user after it.

Read with: ``roundtrip.py`` (the runner), the ``roundtrip_*.py`` of the formats.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from unspool.kernel.messages import Message, tool_message, user_message
from unspool.kernel.ports import ModelRequest
from unspool.llm.anthropic import AnthropicModel
from unspool.llm.gemini import GeminiModel
from unspool.llm.http_model import HttpModel
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.openai_responses import OpenAIResponsesModel
from unspool.llm.openai_responses_request import ResponsesDialect
from unspool.llm.origins import origin_of

from .exchange import decode
from .formats import decoder_class
from .requests import body_of
from .roundtrip_chat import chat_dialect, no_words_beside_calls
from .roundtrip_classes import Body, Class, null_is_absent, objects

_MODEL: Final = "m"
_RESULTS: Final = ("function_call_output", "custom_tool_call_output")


def said_and_sent(format: str, provider: str, stream: bool, answer: str) -> tuple[Body, Body] | None:
    """A recorded answer's message, and what is sent back of it; None where that cannot be compared.

    Both as they stand in a request: ``messages``, ``input`` or ``contents``; of chat beside them ``takes``, the field
    that the dialect wants reasoning back in.
    """
    reply = reply_of(format, f"{provider}/{_MODEL}", answer)
    if reply is None or not (reply.text.strip() or reply.tool_calls):
        return None
    values = list(_values(answer)) if stream else [json.loads(answer)] if answer[:1] in "{[" else []
    said = _said(format, values[0] if len(values) == 1 else values) if values else None
    if said is None:
        return None
    results = [tool_message(call, "done") for call in reply.tool_calls]
    paused = '"pause_turn"' in answer  # it is sent back alone, to go on
    messages = [user_message("go"), reply, *(results or ([] if paused else [user_message("on")]))]
    body = body_of(_model(format, provider, said), ModelRequest(messages=messages))
    takes = (
        {"takes": chat_dialect(provider, said["messages"]).replay_thinking} if format == "openai-chat" else {}
    )
    return {**said, **takes}, {**_assistant(format, body), **takes}


def reply_of(format: str, model: str, answer: str) -> Message | None:
    """What ``model`` said in an answer; None where that is no reply, or one that is not replayed."""
    decoder = decoder_class(format)
    if decoder is None:
        return None
    outcome = decode(decoder, [answer.encode()])
    reply = outcome.reply
    usable = outcome.error is None and not reply.failed and all(call.completed for call in reply.tool_calls)
    return replace(reply, origin=origin_of(format, model)) if usable else None


def _model(format: str, provider: str, said: Body) -> HttpModel:
    name = f"{provider}/{_MODEL}"
    if format == "openai-chat":
        return OpenAIChatModel(name, base_url="http://h", dialect=chat_dialect(provider, said["messages"]))
    if format == "openai-responses":
        return OpenAIResponsesModel(name, base_url="http://h", dialect=ResponsesDialect(store=True))
    if format == "anthropic-messages":
        return AnthropicModel(name, base_url="http://h")
    return GeminiModel(name, base_url="http://h")


def _values(answer: str) -> Iterator[Any]:
    """The data of a stream's events."""
    for line in answer.splitlines():
        if line.startswith("data:") and (data := line[5:].strip()) != "[DONE]":
            yield json.loads(data)


def _said(format: str, value: Any) -> Body | None:
    match format, value:
        case "openai-chat", {"choices": [{"message": dict(message)}, *_]}:
            return {"messages": [message]}
        case "openai-responses", {"output": [_, *_] as output}:
            return {"input": output}
        case "openai-responses", [
            *_,
            {"type": "response.completed", "response": {"output": [_, *_] as output}},
        ]:
            return {"input": output}
        case "anthropic-messages", {"type": "message", "content": [_, *_] as content}:
            return {"messages": [{"role": "assistant", "content": content}]}
        case "anthropic-messages", list():
            blocks = list(_blocks(value))
            return {"messages": [{"role": "assistant", "content": blocks}]} if blocks else None
        case "gemini", dict():
            return _contents([value])
        case "gemini", list():
            return _contents(value)
        case _:
            return None


def _blocks(events: list[Any]) -> Iterator[Body]:
    """The content blocks of a stream that leaves nothing out."""
    blocks: dict[int, Body] = {}
    for event in events:
        match event:
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                _grow(blocks[index], delta)
            case _:
                pass
    for _, block in sorted(blocks.items()):
        if partial := block.pop("partial_json", ""):
            block["input"] = json.loads(partial)
        yield block


def _grow(block: Body, delta: Body) -> None:
    if delta["type"] == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return
    for key, piece in delta.items():
        if isinstance(piece, str) and key != "type":
            block[key] = (block.get(key) or "") + piece


def _contents(chunks: list[Any]) -> Body | None:
    candidates = [chunk["candidates"][0] for chunk in chunks if chunk.get("candidates")]
    parts = [part for each in candidates for part in (each.get("content") or {}).get("parts") or ()]
    if any(part.get("functionCall", {}).keys() & {"partialArgs", "willContinue"} for part in parts):
        return None  # calls in pieces, which only an answer has
    return {"contents": [{"role": "model", "parts": copy.deepcopy(parts)}]} if parts else None


def _assistant(format: str, body: Body) -> Body:
    """Of a request what the model said."""
    if format == "openai-responses":
        said = [item for item in body["input"][1:] if item.get("role") != "user"]
        return {"input": [item for item in said if item.get("type") not in _RESULTS]}
    key = "contents" if format == "gemini" else "messages"
    return {key: [each for each in body[key] if each["role"] in ("assistant", "model")]}


# --- what may differ ----------------------------------------------------------------------------


def parts_joined(recorded: Body, ours: Body) -> None:
    """Texts of a stream that follow each other are one, and so are thoughts; the last signature is theirs."""
    for content in recorded.get("contents", ()):
        joined: list[Body] = []
        for part in content["parts"]:
            last = joined[-1] if joined else None
            alike = (
                last is not None
                and "text" in part
                and "text" in last
                and part.get("thought") == last.get("thought")
            )
            if alike and last is not None:
                joined[-1] = {**last, **part, "text": last["text"] + part["text"]}
            elif part != {"text": ""}:
                joined.append(part)
        content["parts"] = joined


def empty_fields(recorded: Body, ours: Body) -> None:
    """A field that holds nothing says nothing."""
    for each in [*objects(recorded), *objects(ours)]:
        for key in [key for key, value in each.items() if value in ([], "") and key != "summary"]:
            del each[key]


def called_by_the_model(recorded: Body, ours: Body) -> None:
    """That the model itself called is the ordinary case."""
    for each in [*objects(recorded), *objects(ours)]:
        if each.get("caller") == {"type": "direct"}:
            del each["caller"]


_TOLD: Final = frozenset(
    {"reasoning_content", "reasoning", "refusal", "padding"}
    | {"provider_metadata", "extra_content", "thought_signature", "annotations"}
)


def what_only_answers_have(recorded: Body, ours: Body) -> None:
    """Fields of a chat message that tell the host something, or that the dialect does not take back."""
    for theirs, message in _both(recorded, ours):
        for key in _TOLD:
            if key not in message and key != ours.get("takes"):
                theirs.pop(key, None)
        for call in theirs.get("tool_calls") or ():
            call.pop("index", None)


def legacy_call(recorded: Body, ours: Body) -> None:
    """A call in the form that there was before several could come goes back in the newer one."""
    for theirs, message in _both(recorded, ours):
        call = theirs.pop("function_call", None)
        if call is not None and (now := message.get("tool_calls")):
            theirs["tool_calls"] = [{"id": now[0]["id"], "type": "function", "function": call}]


def audio_by_its_id(recorded: Body, ours: Body) -> None:
    """What was spoken goes back as its id alone."""
    for theirs, message in _both(recorded, ours):
        if "audio" in theirs and theirs["audio"]["id"] == message["audio"]["id"]:
            theirs["audio"] = message["audio"]


def content_parsed_by_the_server(recorded: Body, ours: Body) -> None:
    """A content that is an object goes back as the text that it was."""
    for theirs, message in _both(recorded, ours):
        content, text = theirs.get("content"), message.get("content")
        if isinstance(content, dict) and isinstance(text, str) and json.loads(text) == content:
            theirs["content"] = text


def arguments_that_do_not_parse(recorded: Body, ours: Body) -> None:
    """Arguments that are missing or no JSON are sent back as none."""
    for theirs, message in _both(recorded, ours):
        for call, our in zip(theirs.get("tool_calls") or (), message.get("tool_calls") or (), strict=False):
            if our.get("function", {}).get("arguments") == "{}" and not _parses(
                call["function"].get("arguments")
            ):
                call["function"]["arguments"] = "{}"


def ids_that_were_never_given(recorded: Body, ours: Body) -> None:
    """A call without an id gets one from us."""
    for theirs, message in _both(recorded, ours):
        for call, our in zip(theirs.get("tool_calls") or (), message.get("tool_calls") or (), strict=False):
            call["id"] = call.get("id") or our["id"]


def _both(recorded: Body, ours: Body) -> Iterator[tuple[Body, Body]]:
    return zip(recorded["messages"], ours["messages"], strict=False)


def _parses(text: Any) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


def blank_text(recorded: Body, ours: Body) -> None:
    """Blank text is not sent."""
    for message in recorded["messages"]:
        if isinstance(message["content"], list):
            message["content"] = [part for part in message["content"] if part.get("text", "x").strip()]


CLASSES: Final[dict[str, tuple[Class, ...]]] = {
    "openai-chat": (
        null_is_absent,
        no_words_beside_calls,
        empty_fields,
        legacy_call,
        what_only_answers_have,
        ids_that_were_never_given,
        arguments_that_do_not_parse,
        audio_by_its_id,
        content_parsed_by_the_server,
    ),
    "openai-responses": (null_is_absent, empty_fields),
    "anthropic-messages": (null_is_absent, called_by_the_model, empty_fields, blank_text),
    "gemini": (parts_joined,),
}
