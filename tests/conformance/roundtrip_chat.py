"""Recorded requests of chat/completions as requests of ours, and what may differ of the way back."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    make_call,
)
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.openai_chat_dialect import ChatDialect
from unspool.llm.openai_chat_kept import FORMAT
from unspool.llm.presets import PRESETS, Preset

from .roundtrip_classes import (
    Body,
    Class,
    added,
    empty_is_absent,
    false_stream,
    level_of,
    null_is_absent,
    schema_in_closed_form,
)

_PRESETS: Final = {"azure-openai": "azure", "gemini": "openai-compat", "github-copilot": "openai-compat"}
_SOUNDS: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_OURS: Final = frozenset(
    {"messages", "model", "stream", "stream_options", "tools", "tool_choice"}
    | {"max_tokens", "max_completion_tokens", "temperature", "stop", "response_format"}
)
_THINKING: Final = ("reasoning_effort", "thinking", "enable_thinking", "reasoning", "chat_template_kwargs")


def imported(body: Body, provider: str, path: str) -> tuple[OpenAIChatModel, ModelRequest]:
    """The model that would send ``body``, and the request it would send it for."""
    messages = body["messages"]
    known = _preset(provider) is not None
    dialect = chat_dialect(provider, messages)
    first = messages[0]
    system: tuple[SystemBlock, ...] = ()
    if first["role"] in ("system", "developer"):
        parts = _parts(first.get("content"))
        system = tuple([SystemBlock(text=part["text"], cache=_ttl(part)) for part in parts])
        messages = messages[1:]
    tools = body.get("tools") or []
    ours = all(tool["type"] == "function" and "function" in tool for tool in tools)
    specs = [_spec(tool["function"]) for tool in tools] if ours else []
    taken = [*_OURS, *(_THINKING if known else ())]
    extra = {key: value for key, value in body.items() if key not in taken and value is not None}
    request = ModelRequest(
        messages=[_message(message) for message in messages],
        system=system,
        tools=tuple(specs),
        options=_options(body, known, messages, extra if ours else {**extra, "tools": tools}),
    )
    name, stream = f"{provider}/{body['model']}", body.get("stream") is True
    return OpenAIChatModel(name, base_url="http://h", dialect=dialect, streaming=stream), request


def _preset(provider: str) -> Preset | None:
    return PRESETS.get(_PRESETS.get(provider, provider))


def chat_dialect(provider: str, messages: list[Body]) -> ChatDialect:
    """The dialect of a provider, or what its ``messages`` show of it."""
    preset, roles = _preset(provider), {message["role"] for message in messages}
    known = preset is not None and isinstance(preset.dialect, ChatDialect)
    dialect = (
        preset.dialect if preset is not None and isinstance(preset.dialect, ChatDialect) else ChatDialect()
    )
    if not known and any("reasoning_content" in message for message in messages):
        dialect = replace(dialect, replay_thinking="reasoning_content")
    return replace(dialect, system_role="developer" if "developer" in roles else "system")


def _parts(content: Any) -> list[Body]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _ttl(part: Body) -> str | None:
    mark = part.get("cache_control")
    return None if mark is None else mark.get("ttl", "")


def _message(message: Body) -> Message:
    role = message["role"]
    blocks = [_block(part) for part in _parts(message.get("content"))]
    if role == "tool":
        return Message(role="tool", content=tuple(blocks), tool_call_id=message["tool_call_id"])
    if role != "assistant":
        return Message(role="user" if role == "user" else "system", content=tuple(blocks))
    thinking = message.get("reasoning_content") or message.get("reasoning")
    thought: list[Content] = [Thinking(text=thinking)] if thinking else []
    kept = [
        Opaque(provider=FORMAT, data={"type": key, key: message[key]})
        for key in ("reasoning_details", "annotations", "audio")
        if message.get(key)
    ]
    calls = [
        make_call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return Message(role="assistant", content=(*thought, *kept, *blocks, *calls))


def _block(part: Body) -> Content:
    match {key: value for key, value in part.items() if value is not None}:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url), **rest}} if not rest:
            head, comma, data = url.partition(";base64,")
            return Image(data=data, mime_type=head.removeprefix("data:")) if comma else Image(url=url)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return Document(data=data, mime_type=_SOUNDS[kind])
        case {"type": "file", "file": {"filename": str(name), "file_data": str(url)}}:
            head, _, data = url.partition(";base64,")
            return Document(data=data, mime_type=head.removeprefix("data:"), name=name)
        case _:
            return Opaque(provider=FORMAT, data=part)


def _spec(function: Body) -> ToolSpec:
    return ToolSpec(
        name=function["name"],
        description=function.get("description") or "",
        schema=function.get("parameters") or {},
        strict=function.get("strict"),
    )


def _options(body: Body, known: bool, messages: list[Body], extra: Body) -> CallOptions:
    choice = body.get("tool_choice")
    stop = body.get("stop") or ()
    marks = [_ttl(part) for part in _parts(messages[-1].get("content"))] if messages else []
    return CallOptions(
        thinking=level_of(_level(body)) if known else None,
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        temperature=body.get("temperature"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        tool_choice=choice["function"]["name"] if isinstance(choice, dict) else choice,
        response_format=_format(body.get("response_format")),
        cache_last=marks[-1] if marks else None,
        extra=extra,
    )


def _level(body: Body) -> str | None:
    """The thinking that a body asks for, in whichever server's words."""
    match body:
        case {"reasoning_effort": str(effort)} | {"reasoning": {"effort": str(effort)}}:
            return effort
        case (
            {"thinking": {"type": "disabled"}}
            | {"enable_thinking": False}
            | {"reasoning": {"enabled": False}}
        ):
            return "off"
        case {"thinking": _} | {"enable_thinking": True} | {"reasoning": {"enabled": True}}:
            return "medium"
        case _:
            return None


def _format(wire: Body | None) -> Body | None:
    match wire:
        case {"type": "json_object"}:
            return {"type": "json"}
        case {"type": "json_schema", "json_schema": dict(inner)}:
            return {"type": "json_schema", **inner}
        case _:
            return wire


# --- what may differ ----------------------------------------------------------------------------


def string_or_one_text(recorded: Body, ours: Body) -> None:
    """A content of texts alone is a string, or parts."""
    for message in _messages(recorded, ours):
        if isinstance(message.get("content"), str):
            message["content"] = _parts(message["content"])


def system_texts_joined(recorded: Body, ours: Body) -> None:
    """Several texts of the system prompt or of a reply are one."""
    for theirs, message in zip(recorded["messages"], ours["messages"], strict=False):
        gap = {"assistant": "", "system": "\n\n", "developer": "\n\n"}.get(theirs["role"])
        parts = theirs.get("content")
        if (
            gap is not None
            and isinstance(parts, list)
            and len(message.get("content") or ()) == 1 < len(parts)
        ):
            theirs["content"] = [{"type": "text", "text": gap.join([part["text"] for part in parts])}]


def max_tokens_by_its_newer_name(recorded: Body, ours: Body) -> None:
    """The field is called one or the other, as the server knows it."""
    for body in (recorded, ours):
        if "max_completion_tokens" in body:
            body["max_tokens"] = body.pop("max_completion_tokens")


def index_of_a_replayed_call(recorded: Body, ours: Body) -> None:
    """A client sent back the number that a stream gives to a call."""
    for message in _messages(recorded, ours):
        for call in message.get("tool_calls") or ():
            call.pop("index", None)


def no_words_beside_calls(recorded: Body, ours: Body) -> None:
    """A reply of calls alone has no content, null, or an empty one."""
    for message in _messages(recorded, ours):
        content = message.get("content")
        if message.get("tool_calls") and not (content.strip() if isinstance(content, str) else content):
            message.pop("content", None)


def strict_where_it_is_known(recorded: Body, ours: Body) -> None:
    """The dialect says that the server does not know strict tools, so that none is asked for."""
    if re.search(r"deepseek|glm", ours["model"]):
        for tool in recorded.get("tools") or ():
            tool.get("function", {}).pop("strict", None)


def schema_with_a_name(recorded: Body, ours: Body) -> None:
    """A schema must have a name, which is ``reply`` where none is given."""
    theirs, our = [(body.get("response_format") or {}).get("json_schema") or {} for body in (recorded, ours)]
    if our.get("name") == "reply":
        theirs.setdefault("name", "reply")


def thinking_in_the_dialects_words(recorded: Body, ours: Body) -> None:
    """Another word, or more of them, for the same; where one of them is a switch, thinking is on or off in both."""
    theirs, our = _level(recorded), _level(ours)
    switched = any(not _says_effort(body) for body in (recorded, ours))
    if our is not None and (theirs == our or (switched and _off(recorded) == _off(ours))):
        for body in (recorded, ours):
            for key in _THINKING:
                body.pop(key, None)


def _says_effort(body: Body) -> bool:
    reasoning = body.get("reasoning") or {}
    return "reasoning_effort" in body or "effort" in reasoning


def _off(body: Body) -> bool:
    return _level(body) in ("off", "none")


def marks_elsewhere(recorded: Body, ours: Body) -> None:
    """Marks of a cache beside a content or on a tool: of a gateway, we mark content alone."""
    for holder in [*recorded["messages"], *(recorded.get("tools") or ())]:
        holder.pop("cache_control", None)


def calls_with_empty_reasoning(recorded: Body, ours: Body) -> None:
    """A reply with calls has reasoning, though empty, for servers whose reasoning models refuse one without."""
    for theirs, message in zip(recorded["messages"], ours["messages"], strict=False):
        if message.get("tool_calls") and message.get("reasoning_content") == "":
            theirs.setdefault("reasoning_content", "")


def images_beside_the_content(recorded: Body, ours: Body) -> None:
    """A field of Ollama's own format in a message of this one."""
    for message in recorded["messages"]:
        message.pop("images", None)


def _messages(*bodies: Body) -> Iterator[Body]:
    for body in bodies:
        yield from body["messages"]


CLASSES: Final[tuple[Class, ...]] = (
    false_stream,
    no_words_beside_calls,
    null_is_absent,
    added("stream_options", "usage_asked_of_streams"),
    max_tokens_by_its_newer_name,
    index_of_a_replayed_call,
    string_or_one_text,
    system_texts_joined,
    empty_is_absent,
    strict_where_it_is_known,
    schema_in_closed_form,
    schema_with_a_name,
    thinking_in_the_dialects_words,
    marks_elsewhere,
    calls_with_empty_reasoning,
    images_beside_the_content,
)
