"""Recorded requests of Anthropic Messages as requests of ours, and what may differ of the way back."""

from collections.abc import Iterator
from typing import Any, Final

from unspool.kernel.messages import Content, Document, Image, Message, Opaque, Text, Thinking, ToolCall
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm.anthropic import AnthropicModel
from unspool.llm.anthropic_dialect import AnthropicDialect
from unspool.llm.anthropic_wire import FORMAT

from .roundtrip_classes import (
    Body,
    Class,
    deferred_tools_in_full,
    empty_is_absent,
    false_stream,
    level_of,
    null_is_absent,
    order_of_tools,
    schema_in_closed_form,
)

_CHOICES: Final = {"auto": "auto", "none": "none", "any": "required"}
_MODELLED: Final = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
_OURS: Final = frozenset(
    {"model", "messages", "system", "stream", "tools", "tool_choice", "max_tokens"}
    | {"temperature", "stop_sequences", "thinking", "output_config"}
)


def imported(body: Body, provider: str, path: str) -> tuple[AnthropicModel, ModelRequest]:
    """The model that would send ``body``, and the request it would send it for."""
    tools, choice = body.get("tools") or [], body.get("tool_choice") or {}
    own = [tool for tool in tools if tool.get("type", "custom") == "custom" and "input_schema" in tool]
    extra = {key: value for key, value in body.items() if key not in _OURS and value is not None}
    if served := [tool for tool in tools if tool not in own]:
        extra["tools"] = served
    if choice.get("disable_parallel_tool_use"):
        extra["disable_parallel_tool_use"] = True
    thinking, output = body.get("thinking") or {}, body.get("output_config") or {}
    budget = thinking.get("budget_tokens")
    if thinking.get("type") == "adaptive" and not output.get("effort"):
        budget = 1024  # any: without a level it is thinking without an effort
    if "model" not in body:  # it is in the path
        extra["model"] = None
    kind = choice.get("type", "")
    options = CallOptions(
        thinking=level_of("off" if thinking.get("type") == "disabled" else output.get("effort")),
        thinking_budget=budget,
        max_tokens=body["max_tokens"],
        temperature=body.get("temperature"),
        stop=tuple(body.get("stop_sequences") or ()),
        tool_choice=_CHOICES.get(kind, choice.get("name")),
        response_format=output.get("format"),
        cache_last=_last_mark(body["messages"]),
        extra=extra,
    )
    request = ModelRequest(
        messages=[each for message in body["messages"] for each in _messages(message)],
        system=tuple(
            [SystemBlock(text=part["text"], cache=_ttl(part)) for part in _parts(body.get("system") or [])]
        ),
        tools=tuple(map(_spec, own)),
        options=options,
    )
    name = body.get("model") or path.rpartition("/")[2].partition(":")[0]
    made = AnthropicModel(
        f"{provider}/{name}",
        base_url="http://h",
        dialect=AnthropicDialect(),
        streaming=body.get("stream") is True,
    )
    return made, request


def _parts(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _ttl(part: Body) -> str | None:
    mark = part.get("cache_control")
    return None if mark is None else mark.get("ttl", "")


def _last_mark(messages: list[Body]) -> str | None:
    parts = _parts(messages[-1]["content"])
    return _ttl(parts[-1]) if parts else None


def _messages(message: Body) -> Iterator[Message]:
    parts = _parts(message["content"])
    if message["role"] == "assistant":
        yield Message(role="assistant", content=tuple([block for part in parts for block in _said(part)]))
        return
    others: list[Content] = []
    for part in parts:
        if part["type"] == "tool_result":
            content = tuple(map(_block, _parts(part.get("content") or [])))
            failed = bool(part.get("is_error"))
            yield Message(role="tool", content=content, tool_call_id=part["tool_use_id"], is_error=failed)
        else:
            others.append(_block(part))
    if others:
        yield Message(role="user", content=tuple(others))


def _said(part: Body) -> Iterator[Content]:
    kind = part["type"]
    match kind:
        case "text":
            yield Text(part["text"])
        case "thinking":
            yield Thinking(text=part["thinking"], signature=part.get("signature"))
        case "redacted_thinking":
            yield Thinking(redacted=part["data"])
        case "tool_use":
            yield ToolCall(id=part["id"], name=part["name"], args=part["input"])
        case _:
            yield Opaque(provider=FORMAT, data=part)
            return
    if fields := {key: value for key, value in part.items() if key not in _MODELLED[kind]}:
        yield Opaque(provider=FORMAT, data={"type": f"fields_of_{kind}", **fields})


def _block(part: Body) -> Content:
    match {key: value for key, value in part.items() if key != "cache_control"}:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return Text(text)
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime), "data": str(data)}}:
            return Image(data=data, mime_type=mime)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return Image(url=url)
        case {"type": "document", "source": {"type": "base64", "data": str(data)}, **rest} if not {*rest} - {
            "title"
        }:
            return Document(data=data, mime_type="application/pdf", name=rest.get("title", ""))
        case _:
            return Opaque(provider=FORMAT, data=part)


def _spec(tool: Body) -> ToolSpec:
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or "",
        schema=tool["input_schema"],
        strict=tool.get("strict"),
        deferred=bool(tool.get("defer_loading")),
    )


# --- what may differ ----------------------------------------------------------------------------


def string_or_one_text(recorded: Body, ours: Body) -> None:
    """A content of one text is a string, or a part."""
    for body in (recorded, ours):
        if "system" in body:
            body["system"] = _parts(body["system"])
        for message in body["messages"]:
            message["content"] = _parts(message["content"])
            for part in message["content"]:
                if part["type"] == "tool_result" and "content" in part:
                    part["content"] = _parts(part["content"])


def no_error_is_the_default(recorded: Body, ours: Body) -> None:
    """A result is no error unless it is said to be one."""
    for message in recorded["messages"]:
        for part in message["content"]:
            if part.get("is_error") is False:
                del part["is_error"]


def type_of_a_tool_left_out(recorded: Body, ours: Body) -> None:
    """A tool without a type is the client's own."""
    for body in (recorded, ours):
        for tool in body.get("tools") or ():
            tool.setdefault("type", "custom")


def mark_of_an_earlier_block(recorded: Body, ours: Body) -> None:
    """Of messages we mark the last block alone."""
    for message in recorded["messages"]:
        for part in message["content"][:-1]:
            part.pop("cache_control", None)


def parallel_calls_by_default(recorded: Body, ours: Body) -> None:
    """Calls may come together unless that is said not to be."""
    choice = recorded.get("tool_choice") or {}
    if choice.get("disable_parallel_tool_use") is False:
        del choice["disable_parallel_tool_use"]


def thinking_is_shown(recorded: Body, ours: Body) -> None:
    """We ask for thinking that can be read."""
    for body in (recorded, ours):
        (body.get("thinking") or {}).pop("display", None)


def adaptive_instead_of_a_budget(recorded: Body, ours: Body) -> None:
    """Models from 4.6 on think by effort; the budget that they still take is of the past."""
    theirs, our = recorded.get("thinking") or {}, ours.get("thinking") or {}
    if (theirs.get("type"), our.get("type")) == ("enabled", "adaptive"):
        recorded["thinking"] = our


def temperature_that_thinking_sets(recorded: Body, ours: Body) -> None:
    """With thinking the temperature is 1, said or not."""
    if ours.get("thinking") and recorded.get("temperature") == 1:
        del recorded["temperature"]


CLASSES: Final[tuple[Class, ...]] = (
    false_stream,
    null_is_absent,
    string_or_one_text,
    no_error_is_the_default,
    type_of_a_tool_left_out,
    empty_is_absent,
    order_of_tools,
    deferred_tools_in_full,
    schema_in_closed_form,
    mark_of_an_earlier_block,
    parallel_calls_by_default,
    thinking_is_shown,
    adaptive_instead_of_a_budget,
    temperature_that_thinking_sets,
)
