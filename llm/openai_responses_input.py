"""Messages as input items of the Responses API.

A reply of the model that is asked goes back item by item as it came (``openai_responses_kept.py``), with these
exceptions, each of which a provider would refuse:

- reasoning with no item after it in its reply is not sent, nor is reasoning that the server can neither
  read nor look up: it has no encrypted content, no text of its own, and the server stores nothing;
- an item whose reasoning is not sent goes without its id, and a provider's own item (a web search, say) not
  at all; but a compaction goes, since it stands for all that came before it.

A reply of another model, or of another format, is adapted: its text in one message before its calls, its
reasoning between tags, no ids of items. A reply and the results of its calls are one piece, because the
result of a free-form tool must say that it is one, which only the call knows.

Read with: ``openai_responses_request.py`` (the caller), ``tests/llm/test_openai_responses_request.py`` (the tables).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

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

from .encoding import Part, Piece
from .free_form import free_form_input, sent_arguments
from .media import PDF, Source, image_source, left_out, source_of
from .openai_chat_documents import document_text, is_archive, is_seen_or_heard, is_text
from .openai_responses_kept import FORMAT, GAP, Kept, fields_of, filled, is_fields, kept_of
from .origins import is_of_format, is_of_model, origin_of, thinking_as_text, warn_left_out
from .wire_ids import wire_id, wire_name

_ID: Final = re.compile(r"[!-~]{1,64}")
_COMPACTION: Final = "compaction"


class InputDialect(Protocol):
    """What the encoding of messages goes by; see ``ResponsesDialect``."""

    @property
    def store(self) -> bool: ...
    @property
    def system_role(self) -> str: ...
    @property
    def rich_results(self) -> bool: ...


def cut_input(
    messages: Sequence[Message], name: str, dialect: InputDialect, drop_reasoning: bool
) -> Iterator[Piece]:
    """Each message by itself, but results together with each other and the reply that called.

    ``name`` is the model's, ``provider/model``.
    """
    start = 0
    for index, message in enumerate(messages):
        if index > start and message.role != "tool":
            yield index - start, list(_group(messages[start:index], name, dialect, drop_reasoning))
            start = index
    if start < len(messages):
        yield len(messages) - start, list(_group(messages[start:], name, dialect, drop_reasoning))


def _group(
    messages: Sequence[Message], name: str, dialect: InputDialect, drop_reasoning: bool
) -> Iterator[Part]:
    """One message and the results after it."""
    first = messages[0]
    calls: dict[str, Part] = {}
    if first.role == "assistant":
        own = is_of_model(first, FORMAT, name)
        items = _own(first, dialect, drop_reasoning) if own else _adapted(first, name, drop_reasoning)
        calls = {
            item["call_id"]: item for item in items if item.get("type") in _OUTPUTS and "call_id" in item
        }
        yield from items
    elif first.role == "user":
        if content := _content(first.content):
            yield {"role": "user", "content": content}
    elif first.role == "system" and first.text.strip():
        yield {"role": dialect.system_role, "content": first.text}
    attached: list[Part] = []
    for message in messages[first.role != "tool" :]:
        yield _result(message, calls, dialect, attached)
    if attached:
        yield {"role": "user", "content": attached}


# --- replies -------------------------------------------------------------------------------------


def _own(message: Message, dialect: InputDialect, drop_reasoning: bool) -> list[Part]:
    """The items of a reply that this very model made, or that was made by hand."""
    items: list[Part] = []
    texts: list[str] = []
    sent: set[str] = set()  # ids of reasoning
    dropped = False  # whether reasoning before this block is not sent
    for block in message.content:
        if type(block) is Text:
            texts.append(block.text)
            continue
        if type(block) is Opaque and is_fields(block):
            items += _message("".join(texts), fields_of(block) or Kept(), sent)
            texts.clear()
            continue
        items += _message("".join(texts), Kept(), sent)
        texts.clear()
        if type(block) is Thinking:
            item = None if drop_reasoning else _reasoning(block, dialect)
            dropped = item is None
            if item is not None:
                items.append(item)
                sent.add(item.get("id", ""))
        elif type(block) is ToolCall:
            items.append(_call(block, kept_of(block.thought_signature) or Kept(), sent))
        elif type(block) is Opaque:
            if _is_item(block) and (not dropped or block.data["type"] == _COMPACTION):
                items.append(block.data)
            else:
                warn_left_out(block, FORMAT)
        elif type(block) is Image or type(block) is Document:
            warn_left_out(block, FORMAT)
    items += _message("".join(texts), Kept(), sent)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _is_item(block: Opaque) -> bool:
    """Whether a block is an item of this format."""
    data = block.data
    return block.provider == FORMAT and isinstance(data, dict) and isinstance(data.get("type"), str)


def _adapted(message: Message, name: str, drop_reasoning: bool) -> list[Part]:
    """A reply of another model: nothing in it that only the other one understands."""
    texts: list[str] = []
    items: list[Part] = []
    known = message.origin.startswith(origin_of(FORMAT, name.partition("/")[0] + "/"))
    for block in message.content:
        if type(block) is Text:
            texts.append(block.text)
        elif type(block) is Thinking:
            known = False  # what comes after it belongs to reasoning that is not sent
            if (said := thinking_as_text(block, drop=drop_reasoning)) is not None:
                texts.append(f"{said.text}\n\n")
        elif type(block) is Opaque and not is_fields(block):
            if _is_item(block) and known:
                items.append(block.data)
            else:
                warn_left_out(block, FORMAT)
        elif type(block) is Image or type(block) is Document:
            warn_left_out(block, FORMAT)
    items += _message("".join(texts), Kept(), set())
    alike = is_of_format(message, FORMAT)
    for call in message.tool_calls:
        kept = kept_of(call.thought_signature) if alike else None
        kind = {"type": kept.item["type"]} if kept is not None and "type" in kept.item else {}
        items.append(_call(call, Kept(item=kind), set()))
    return items


def _message(text: str, kept: Kept, sent: set[str]) -> list[Part]:
    """The message item of a text; none where there is no text."""
    if not text.strip():
        return []
    rest = {key: value for key, value in kept.item.items() if key != "content"}
    parts = filled(kept.item.get("content"), text)
    if parts and rest.get("id") and _follows(kept, sent):
        return [{"type": "message", "role": "assistant", **rest, "content": parts}]
    phase = {"phase": rest["phase"]} if "phase" in rest else {}
    # OpenAI can do without the type; llama.cpp refuses a message of the assistant that has none.
    return [{"type": "message", "role": "assistant", "content": text, **phase}]


def _reasoning(block: Thinking, dialect: InputDialect) -> Part | None:
    """The item of a model's own reasoning; None where the server could not use it."""
    kept = kept_of(block.signature)
    if kept is None:
        return None
    item = {key: value for key, value in kept.item.items() if value is not None}
    for key, kind in (("content", "reasoning_text"), ("summary", "summary_text")):
        if any(type(part.get("text")) is int for part in _dicts(item.get(key))):
            text = block.text
            item[key] = filled(item[key], text, GAP) or [{"type": kind, "text": text}]
    usable = dialect.store or item.get("encrypted_content") or item.get("content")
    return {"type": "reasoning", **item} if usable else None


def _call(call: ToolCall, kept: Kept, sent: set[str]) -> Part:
    item = dict(kept.item)
    kind = item.pop("type", "function_call")
    if not _follows(kept, sent):
        item.pop("id", None)
    part: Part = {"type": kind, **item, "call_id": wire_id(call.id, _ID), "name": wire_name(call.name)}
    if kind == "custom_tool_call":
        return {**part, "input": free_form_input(call)}
    return {**part, "type": "function_call", "arguments": sent_arguments(call)}


def _follows(kept: Kept, sent: set[str]) -> bool:
    """Whether the reasoning that an item came after is sent, if there was any."""
    return not kept.reasoning or kept.reasoning in sent


def _dicts(value: Any) -> list[Part]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- results and users ---------------------------------------------------------------------------

_OUTPUTS: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def _result(message: Message, calls: dict[str, Part], dialect: InputDialect, attached: list[Part]) -> Part:
    """The output of a call; what this server cannot take in one is added to ``attached``."""
    id = wire_id(message.tool_call_id, _ID)
    call = calls.get(id, {})
    output = _content(message.content, "\n") or "(no output)"
    if not isinstance(output, str) and not dialect.rich_results:
        texts = [part["text"] for part in output if part.get("type") == "input_text"]
        what = f"Attached to the result of {message.tool_name or 'the tool'}:"
        attached.append({"type": "input_text", "text": what})
        attached += [part for part in output if part.get("type") != "input_text"]
        output = "\n".join([*texts, "[attached below]"])
    caller = {"caller": call["caller"]} if "caller" in call else {}
    kind = _OUTPUTS[call.get("type", "function_call")]
    return {"type": kind, "call_id": id, "output": output, **caller}


def _content(blocks: tuple[Content, ...], gap: str | None = None) -> str | list[Part]:
    """A string where there is one text, or a ``gap`` to join them; else parts, empty where nothing can be sent."""
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if parts and all(part.keys() == {"type", "text"} for part in parts) and (gap or len(parts) == 1):
        return (gap or "").join([part["text"] for part in parts])
    return parts


def _part(block: Content) -> Part | None:
    """A block as a content part; None for one that is empty or that the format does not know."""
    match block:
        case Text(text) if text:
            return {"type": "input_text", "text": text}
        case Image():
            return _image(block)
        case Document():
            return _document(block)
        case ToolReference(name):
            return {"type": "input_text", "text": f"tool {name!r} is now available"}
        case Opaque(provider=provider, data=dict(data)) if provider == FORMAT:
            return None if is_fields(block) else data
        case Opaque():
            warn_left_out(block, FORMAT)
            return None
        case _:
            return None


def _image(block: Image) -> Part | None:
    match image_source(block, FORMAT):
        case Source(kind, data, url):
            url = url or f"data:{kind};base64,{data}"
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case str(line):
            return {"type": "input_text", "text": line}
        case _:
            return None


def _document(block: Document) -> Part | None:
    """A document as text or as a file; of one that the format does not take, that there is one."""
    source = source_of(block)
    if source is None:
        return None
    kind, url = source.kind or ("" if source.url else PDF), source.url
    if is_text(kind) and not url and (text := document_text(source, block.name)) is not None:
        return {"type": "input_text", "text": text} if text else None
    if is_seen_or_heard(kind) or is_archive(kind):
        line = left_out(block, f"{kind} at {url}" if url else kind, FORMAT)
        return {"type": "input_text", "text": line}
    if url:
        return {"type": "input_file", "file_url": url}
    data = f"data:{kind};base64,{source.data}"
    return {"type": "input_file", "filename": block.name or "document", "file_data": data}
