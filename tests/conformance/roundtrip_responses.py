"""Recorded requests of the Responses API as requests of ours, and what may differ of the way back."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from unspool.kernel.messages import Content, Document, Image, Message, Opaque, Text, Thinking, make_call
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm.openai_responses import OpenAIResponsesModel
from unspool.llm.openai_responses_kept import FORMAT, kept_call, kept_message, kept_reasoning
from unspool.llm.openai_responses_request import ResponsesDialect

from .roundtrip_classes import (
    Body,
    Class,
    deferred_tools_in_full,
    empty_is_absent,
    false_stream,
    level_of,
    null_is_absent,
    objects,
    order_of_tools,
)

_ENCRYPTED: Final = "reasoning.encrypted_content"
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_OURS: Final = frozenset(
    {"model", "input", "stream", "store", "instructions", "tools", "tool_choice"}
    | {"include", "max_output_tokens", "temperature", "reasoning", "text"}
)


def imported(body: Body, provider: str, path: str) -> tuple[OpenAIResponsesModel, ModelRequest]:
    """The model that would send ``body``, and the request it would send it for."""
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    include, tools = body.get("include") or [], body.get("tools") or []
    roles = {item.get("role") for item in items}
    reasoning = body.get("reasoning") or {}
    dialect = ResponsesDialect(
        store=body.get("store") is not False,
        encrypted_reasoning=_ENCRYPTED in include,
        efforts=_EFFORTS,
        summary=reasoning.get("summary"),
        system_role="system" if "system" in roles else "developer",
    )
    extra = {key: value for key, value in body.items() if key not in _OURS and value is not None}
    if others := [each for each in include if each != _ENCRYPTED]:
        extra["include"] = others
    if served := [tool for tool in tools if tool["type"] != "function"]:
        extra["tools"] = served
    choice, format = body.get("tool_choice"), (body.get("text") or {}).get("format")
    options = CallOptions(
        thinking=level_of(reasoning.get("effort")),
        max_tokens=body.get("max_output_tokens"),
        temperature=body.get("temperature"),
        tool_choice=choice["name"] if isinstance(choice, dict) else choice,
        response_format=format,
        extra=extra,
    )
    instructions = body.get("instructions")
    request = ModelRequest(
        messages=list(messages_of(items)),
        system=(SystemBlock(text=instructions),) if instructions else (),
        tools=tuple([_spec(tool) for tool in tools if tool["type"] == "function"]),
        options=options,
    )
    name, stream = f"{provider}/{body['model']}", body.get("stream") is True
    return OpenAIResponsesModel(name, base_url="http://h", dialect=dialect, streaming=stream), request


def messages_of(items: list[Body]) -> Iterator[Message]:
    """Items as messages: what a model said up to the next word of someone else is one reply."""
    said: list[Content] = []
    reasoning = ""  # the id of the last reasoning
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        others = kind in ("function_call_output", "custom_tool_call_output")
        if said and (others or role not in (None, "assistant")):
            yield Message(role="assistant", content=tuple(said))
            said, reasoning = [], ""
        if others:
            content = tuple(map(_block, _parts(item["output"])))
            yield Message(role="tool", content=content, tool_call_id=item["call_id"])
        elif kind == "message" and role != "assistant":
            of_user = role == "user"
            content = tuple(map(_block, _parts(item["content"])))
            yield Message(role="user" if of_user else "system", content=content)
        else:
            said += _said(item, reasoning)
            reasoning = item.get("id", "") if kind == "reasoning" else reasoning
    if said:
        yield Message(role="assistant", content=tuple(said))


def _said(item: Body, reasoning: str) -> Iterator[Content]:
    """An item of the model as blocks."""
    match item.get("type", "message"):
        case "message":
            parts = _parts(item["content"])
            yield from [Text(part["text"]) for part in parts]
            if fields := kept_message({**item, "content": parts}, reasoning):
                yield fields
        case "reasoning":
            shown = "content" if item.get("content") else "summary"
            texts = [part["text"] for part in item.get(shown) or ()]
            yield Thinking(text="\n\n".join(filter(None, texts)), signature=kept_reasoning(item, shown))
        case "function_call" | "custom_tool_call":
            given = item["arguments"] if "arguments" in item else item["input"]
            call = make_call(item["call_id"], item["name"], given)
            yield replace(call, thought_signature=kept_call(item, reasoning))
        case _:
            yield Opaque(provider=FORMAT, data=item)


def _parts(content: Any) -> list[Body]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _block(part: Body) -> Content:
    match part:
        case {"type": "input_text", "text": str(text), **rest} if not rest:
            return Text(text)
        case {"type": "input_image", "image_url": str(url), **rest} if rest.get("detail", "auto") == "auto":
            head, comma, data = url.partition(";base64,")
            return Image(data=data, mime_type=head.removeprefix("data:")) if comma else Image(url=url)
        case {"type": "input_file", "filename": str(name), "file_data": str(url)}:
            head, _, data = url.partition(";base64,")
            return Document(data=data, mime_type=head.removeprefix("data:"), name=name)
        case _:
            return Opaque(provider=FORMAT, data=part)


def _spec(tool: Body) -> ToolSpec:
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or "",
        schema=tool.get("parameters") or {},
        strict=tool.get("strict"),
        deferred=bool(tool.get("defer_loading")),
    )


# --- what may differ ----------------------------------------------------------------------------


def input_of_one_string(recorded: Body, ours: Body) -> None:
    """The input may be the words of a user alone."""
    if isinstance(recorded["input"], str):
        recorded["input"] = [{"role": "user", "content": recorded["input"]}]


def type_of_a_message_left_out(recorded: Body, ours: Body) -> None:
    """An item without a type that has a role is a message."""
    for item in _items(recorded, ours):
        if "role" in item:
            item.setdefault("type", "message")


def string_or_one_text(recorded: Body, ours: Body) -> None:
    """A content of one text is a string, or a part."""
    for item in _items(recorded, ours):
        for key in ("content", "output"):
            if isinstance(item.get(key), str) and (key == "content" or item["type"].endswith("_output")):
                kind = "output_text" if item.get("role") == "assistant" else "input_text"
                item[key] = [{"type": kind, "text": item[key]}]


def detail_of_images(recorded: Body, ours: Body) -> None:
    """How closely to look at an image is up to the server, said or not."""
    for item in _items(recorded, ours):
        for part in item.get("content") or ():
            if part.get("type") == "input_image" and part.get("detail") == "auto":
                del part["detail"]


def strict_said(recorded: Body, ours: Body) -> None:
    """We say of each tool whether it is strict; the default is true, which would change its arguments."""
    for theirs, tool in zip(recorded.get("tools") or (), ours.get("tools") or (), strict=False):
        if tool.get("strict") is False:
            theirs.setdefault("strict", False)


def stored_by_default(recorded: Body, ours: Body) -> None:
    """A server stores answers unless told otherwise."""
    for body in (recorded, ours):
        body.setdefault("store", True)


def message_without_an_id(recorded: Body, ours: Body) -> None:
    """A message of the model that has no id is its text: the rest of the item belongs to the id."""
    for item in recorded["input"]:
        if item.get("role") == "assistant" and "id" not in item:
            item.pop("status", None)
            for part in item["content"]:
                part.pop("annotations", None)


def sound_in_words(recorded: Body, ours: Body) -> None:
    """A server refuses sound as a file: we say that there is some."""
    for part in objects(recorded["input"]):
        mime = str(part.get("file_data", "")).partition(";")[0].removeprefix("data:")
        if part.get("type") == "input_file" and mime.startswith("audio/"):
            text = f"{part['filename']}: {mime}, which cannot be shown here"
            part.clear()
            part.update(type="input_text", text=text)


def _items(*bodies: Body) -> Iterator[Body]:
    for body in bodies:
        yield from body["input"]


CLASSES: Final[tuple[Class, ...]] = (
    false_stream,
    null_is_absent,
    input_of_one_string,
    type_of_a_message_left_out,
    sound_in_words,
    string_or_one_text,
    detail_of_images,
    strict_said,
    stored_by_default,
    empty_is_absent,
    order_of_tools,
    deferred_tools_in_full,
    message_without_an_id,
)
