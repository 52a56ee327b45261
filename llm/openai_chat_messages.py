"""The messages of chat/completions requests.

What the format cannot take is left out or put where it can be read, never sent broken:

- an assistant message with neither text nor calls is not sent; one with calls only has null content;
- images and documents of tool results go into one user message after the last consecutive result;
- reasoning is not sent, except where the dialect says how; that of another format becomes text between tags;
- a call id or name that the format does not allow is replaced, alike in the call and in its result;
- the input of a free-form tool goes to other providers as the one argument of an ordinary call;
- WAV and MP3 go as ``input_audio``, PDFs as files, documents of text and those that are a URL only as text;
- images and documents of other kinds, which OpenAI refuses, become a line that says what is missing.

Read with: ``openai_chat_request.py`` (the caller), ``encoding.py`` (pieces), ``openai_chat_kept.py``.
"""

import re
from collections.abc import Iterator, Sequence

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
)
from unspool.kernel.ports import SystemBlock

from .cache_marks import marked_system
from .encoding import Part, Piece
from .free_form import free_form_input, sent_arguments
from .media import PDF, Source, image_source, left_out, source_of
from .openai_chat_dialect import ChatDialect
from .openai_chat_documents import SOUNDS, document_text, is_seen_or_heard, is_text
from .openai_chat_kept import DETAILS, FORMAT, KeptCall, kept_fields, kept_of
from .origins import is_of_format, thinking_as_text, warn_left_out
from .wire_ids import wire_id, wire_name

_ID = re.compile(r"[!-~]{1,40}")  # longer ids of other providers are refused by OpenAI
_BETWEEN = "(results received)"  # said where a server wants an assistant message after results


def system_messages(blocks: tuple[SystemBlock, ...], dialect: ChatDialect) -> Iterator[Part]:
    """The system prompt as one message, in parts where some of it is marked; none where it is empty."""
    blocks = tuple([block for block in blocks if block.text.strip()])
    text = "\n\n".join([block.text for block in blocks])
    if dialect.cache_marks and any(block.cache is not None for block in blocks):
        yield {"role": dialect.system_role, "content": marked_system(blocks)}
    elif text:
        yield {"role": dialect.system_role, "content": text}


def cut(
    messages: Sequence[Message], provider: str, dialect: ChatDialect, drop_reasoning: bool
) -> Iterator[Piece]:
    """Each message by itself, but results that follow each other together with what is attached to them."""
    results: list[Part] = []
    attached: list[Part] = []  # what the results so far could not hold
    for message in messages:
        if message.role == "tool":
            results.append(_result(message, dialect, attached))
            continue
        parts = list(_message(message, provider, dialect, drop_reasoning))
        if results and dialect.assistant_after_results and message.role == "user":
            yield len(results) + 1, [*_results(results, attached, dialect, parts), *parts]
        else:
            if results:
                yield len(results), _results(results, attached, dialect)
            yield 1, parts
        results, attached = [], []
    if results:
        yield len(results), _results(results, attached, dialect)


def _results(
    results: list[Part], attached: list[Part], dialect: ChatDialect, then: Sequence[Part] = ()
) -> list[Part]:
    """Results and what is attached to them, before the user message that ``then`` is."""
    parts = list(results)
    if dialect.assistant_after_results and (attached or then):
        parts.append({"role": "assistant", "content": _BETWEEN})
    if attached:
        parts.append({"role": "user", "content": attached})
    return parts


def _message(message: Message, provider: str, dialect: ChatDialect, drop_reasoning: bool) -> Iterator[Part]:
    match message.role:
        case "assistant":
            yield from _assistant(message, provider, dialect, drop_reasoning)
        case "user":
            if content := _user_content(message.content):
                yield {"role": "user", "content": content}
        case _:
            if message.text.strip():
                yield {"role": dialect.system_role, "content": message.text}


def _assistant(message: Message, provider: str, dialect: ChatDialect, drop_reasoning: bool) -> Iterator[Part]:
    calls, own = message.tool_calls, is_of_format(message, FORMAT)
    text = message.text if own else _text_of_another(message, drop_reasoning)
    kept = kept_fields(message, provider)
    if drop_reasoning:
        kept.pop(DETAILS, None)
    spoken = bool(text.strip())
    if not (spoken or calls or "audio" in kept):
        return
    part: Part = {"role": "assistant", "content": text if spoken else None, **kept}
    if dialect.replay_thinking:
        thinking = message.thinking if own and not drop_reasoning else ""
        if thinking or (calls and dialect.thinking_with_calls):
            part[dialect.replay_thinking] = thinking
    if calls:
        part["tool_calls"] = [_call(call, kept_of(call, message, provider)) for call in calls]
    yield part


def _text_of_another(message: Message, drop_reasoning: bool) -> str:
    """The text of a reply that was made in another format, its reasoning between tags."""
    texts: list[str] = []
    for block in message.content:
        if type(block) is Text:
            texts.append(block.text)
        elif type(block) is Thinking and (said := thinking_as_text(block, drop=drop_reasoning)):
            texts.append(f"{said.text}\n\n")
    return "".join(texts)


def _call(call: ToolCall, kept: KeptCall) -> Part:
    id, name = wire_id(call.id, _ID), wire_name(call.name)
    if kept.custom:
        return {"id": id, "type": "custom", "custom": {"name": name, "input": free_form_input(call)}}
    function = {"name": name, "arguments": sent_arguments(call)}
    part: Part = {"id": id, "type": "function", "function": function}
    return {**part, "extra_content": kept.extra_content} if kept.extra_content else part


def _result(message: Message, dialect: ChatDialect, attached: list[Part]) -> Part:
    """The result's message; what a result cannot hold is added to ``attached``."""
    parts = [part for block in message.content if (part := _part(block)) is not None]
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    others = [part for part in parts if part.get("type") != "text"]
    if others:
        texts.append("[attached below]")
        attached += [
            {"type": "text", "text": f"Attached to the result of {message.tool_name or 'the tool'}:"},
            *others,
        ]
    part = {
        "role": "tool",
        "tool_call_id": wire_id(message.tool_call_id, _ID),
        "content": "\n".join(texts) or "(no output)",
    }
    return (
        {**part, "name": wire_name(message.tool_name)} if dialect.result_name and message.tool_name else part
    )


def _user_content(blocks: tuple[Content, ...]) -> str | list[Part]:
    """A string where there is only one text, else parts; empty when nothing can be sent."""
    if len(blocks) == 1 and type(block := blocks[0]) is Text:
        return block.text
    parts = [part for block in blocks if (part := _part(block)) is not None]
    return parts[0]["text"] if len(parts) == 1 and parts[0].get("type") == "text" else parts


def _part(block: Content) -> Part | None:
    """A block as a content part; None for one that is empty or that the format does not know."""
    match block:
        case Text(text) if text:
            return {"type": "text", "text": text}
        case Image():
            return _image(block)
        case Document():
            return _document(block)
        case ToolReference(name):
            return {"type": "text", "text": f"tool {name!r} is now available"}
        case Opaque(provider=provider, data=dict(data)) if provider == FORMAT:
            return data
        case Opaque():
            warn_left_out(block, FORMAT)
            return None
        case _:
            return None


def _image(block: Image) -> Part | None:
    match image_source(block, FORMAT):
        case Source(kind, data, url):
            return {"type": "image_url", "image_url": {"url": url or f"data:{kind};base64,{data}"}}
        case str(line):
            return {"type": "text", "text": line}
        case _:
            return None


def _document(block: Document) -> Part | None:
    """A document as text, a file or sound; one that is only a URL as text, since the format takes no URL."""
    source = source_of(block)
    if source is None:
        return None
    if source.url:
        return {"type": "text", "text": f"{block.name or 'document'}: {source.url}"}
    kind = source.kind or PDF
    if sound := SOUNDS.get(kind):
        return {"type": "input_audio", "input_audio": {"data": source.data, "format": sound}}
    if kind == PDF:
        data = f"data:{PDF};base64,{source.data}"
        return {"type": "file", "file": {"filename": block.name or "document", "file_data": data}}
    readable = is_text(kind) or not is_seen_or_heard(kind)
    if (text := document_text(source, block.name) if readable else None) is None:
        text = left_out(block, kind, FORMAT)
    return {"type": "text", "text": text} if text else None
