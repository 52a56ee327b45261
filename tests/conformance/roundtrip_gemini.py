"""Recorded requests of generateContent as requests of ours, and what may differ of the way back."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from unspool.kernel.messages import Content, Document, Image, Message, Opaque, Text, Thinking, ToolCall
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm.gemini import GeminiModel
from unspool.llm.gemini_request import GeminiDialect
from unspool.llm.gemini_wire import FORMAT
from unspool.llm.origins import origin_of
from unspool.llm.wire_ids import made_up_id

from .request_models import spelled
from .roundtrip_classes import (
    Body,
    Class,
    empty_is_absent,
    level_of,
    null_is_absent,
    objects,
    order_of_tools,
)

_CHOICES: Final = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
_OURS: Final = ("contents", "systemInstruction", "generationConfig", "tools", "toolConfig")
_OF_CONFIG: Final = frozenset(
    {"maxOutputTokens", "temperature", "stopSequences", "thinkingConfig"}
    | {"responseMimeType", "responseJsonSchema", "responseSchema"}
)


def imported(body: Body, provider: str, path: str) -> tuple[GeminiModel, ModelRequest]:
    """The model that would send ``body``, and the request it would send it for."""
    body = spelled(body)
    found = re.search(r"/models/([^:]+):(\w+)", path)
    name = f"{provider}/{found[1] if found else 'm'}"
    config = body.get("generationConfig") or {}
    tools = [tool for tool in body.get("tools") or ()]
    functions = [each for tool in tools for each in tool.get("functionDeclarations") or ()]
    extra = {key: value for key, value in body.items() if key not in _OURS and value is not None}
    thinking = config.get("thinkingConfig") or {}
    rest = {key: value for key, value in config.items() if key not in _OF_CONFIG}
    if thinking and not thinking.keys() & {"thinkingLevel", "thinkingBudget"}:
        rest["thinkingConfig"] = thinking
    if rest:
        extra["generationConfig"] = rest
    if served := [tool for tool in tools if not tool.get("functionDeclarations")]:
        extra["tools"] = served
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if calling is None and body.get("toolConfig"):
        extra["toolConfig"] = body["toolConfig"]
    calling = calling or {}
    names = calling.get("allowedFunctionNames")
    options = CallOptions(
        thinking=level_of((thinking.get("thinkingLevel") or "").lower()),
        thinking_budget=thinking.get("thinkingBudget"),
        max_tokens=config.get("maxOutputTokens"),
        temperature=config.get("temperature"),
        stop=tuple(config.get("stopSequences") or ()),
        tool_choice=names[0] if names else _CHOICES.get(calling.get("mode", "")),
        response_format=_format(config),
        extra=extra,
    )
    system = (body.get("systemInstruction") or {}).get("parts") or ()
    request = ModelRequest(
        messages=[
            each for content in body["contents"] for each in _messages(content, origin_of(FORMAT, name))
        ],
        system=tuple([SystemBlock(text=part["text"]) for part in system]),
        tools=tuple(map(_spec, functions)),
        options=options,
    )
    older = any("parameters" in function for function in functions) or "responseSchema" in config
    streams = found is not None and found[2].startswith("stream")
    dialect = GeminiDialect(json_schema=not older)
    return GeminiModel(name, base_url="http://h", dialect=dialect, streaming=streams), request


def _format(config: Body) -> Body | None:
    if config.get("responseMimeType") != "application/json":
        return None
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return {"type": "json"} if schema is None else {"type": "json_schema", "schema": lowered(schema)}


def lowered(schema: Any) -> Any:
    """A schema whose types are in capitals, as JSON Schema has them."""
    if isinstance(schema, list):
        return [lowered(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: lowered(value) for key, value in schema.items()}
    if isinstance(found.get("type"), str):
        found["type"] = found["type"].lower()
    return found


def _spec(function: Body) -> ToolSpec:
    schema = function.get("parametersJsonSchema") or lowered(function.get("parameters")) or {}
    return ToolSpec(name=function["name"], description=function.get("description") or "", schema=schema)


def _messages(content: Body, origin: str) -> Iterator[Message]:
    parts = content["parts"]
    if content.get("role") == "model":
        blocks = [block for part in parts for block in _said(part)]
        yield Message(role="assistant", content=tuple(blocks), origin=origin)
        return
    others: list[Content] = []
    for part in parts:
        if (answer := part.get("functionResponse")) is not None:
            content_of = (Text(result_text(answer["response"])),)
            id, name = answer.get("id") or _id(answer["name"]), answer["name"]
            yield Message(role="tool", content=content_of, tool_call_id=id, tool_name=name)
        else:
            others.append(_block(part))
    if others:
        yield Message(role="user", content=tuple(others))


def result_text(response: Any) -> str:
    """What a tool said: a text alone as it is, anything else as JSON."""
    if isinstance(response, dict) and len(response) == 1:
        (said,) = response.values()
        return said if isinstance(said, str) else json.dumps(said)
    return json.dumps(response)


def _id(name: str) -> str:
    """An id that was never given, as the decoder makes one."""
    return made_up_id(name, "local_")


def _said(part: Body) -> Iterator[Content]:
    signature = part.get("thoughtSignature")
    if (call := part.get("functionCall")) is not None:
        id = call.get("id") or _id(call["name"])
        yield ToolCall(id=id, name=call["name"], args=call.get("args") or {}, thought_signature=signature)
    elif part.get("thought"):
        yield Thinking(text=part["text"], signature=signature)
    elif part.keys() <= {"text", "thoughtSignature", "thought"}:
        yield Text(part["text"])
        if signature:
            yield Opaque(provider=FORMAT, data={"thoughtSignature": signature})
    else:
        yield Opaque(provider=FORMAT, data=part)


def _block(part: Body) -> Content:
    match {key: value for key, value in part.items() if (key, value) != ("thought", False)}:
        case {"text": str(text), **rest} if not rest:
            return Text(text)
        case {"inlineData": {"mimeType": str(mime), "data": str(data)}}:
            is_image = mime.startswith("image/")
            return Image(data=data, mime_type=mime) if is_image else Document(data=data, mime_type=mime)
        case _:
            return Opaque(provider=FORMAT, data=part)


# --- what may differ ----------------------------------------------------------------------------


def other_spelling(recorded: Body, ours: Body) -> None:
    """Names of fields in snake_case, and of types in capitals, are the same."""
    for body in (recorded, ours):
        respelled = spelled(body)
        body.clear()
        body.update(respelled)


def a_result_is_named_output(recorded: Body, ours: Body) -> None:
    """A result is any object: we send its text as ``output``."""
    for theirs, answer in zip(_answers(recorded), _answers(ours), strict=False):
        text = answer["response"].get("output")
        if theirs["response"] != answer["response"] and result_text(theirs["response"]) == text:
            theirs["response"] = {"output": text}


def no_thought_is_the_default(recorded: Body, ours: Body) -> None:
    """A part is no thought unless it is said to be one."""
    for part in _parts(recorded):
        if part.get("thought") is False:
            del part["thought"]


def role_of_the_system_prompt(recorded: Body, ours: Body) -> None:
    """Whoever a system prompt is said to be from."""
    (recorded.get("systemInstruction") or {}).pop("role", None)


def empty_config(recorded: Body, ours: Body) -> None:
    """A config without fields says nothing."""
    if recorded.get("generationConfig") == {}:
        del recorded["generationConfig"]


def contents_of_one_role_joined(recorded: Body, ours: Body) -> None:
    """Contents of one role that follow each other are one."""
    joined: list[Body] = []
    for content in recorded["contents"]:
        if joined and joined[-1].get("role") == content.get("role"):
            joined[-1]["parts"] += content["parts"]
        else:
            joined.append(content)
    recorded["contents"] = joined


def parameters_of_none(recorded: Body, ours: Body) -> None:
    """A function without arguments goes without parameters, an empty list of required ones says nothing."""
    for function in _functions(recorded):
        parameters = function.get("parameters") or {}
        if parameters.get("required") == []:
            del parameters["required"]
        if parameters and not parameters.get("properties"):
            del function["parameters"]


def schemas_of_results(recorded: Body, ours: Body) -> None:
    """A schema of what a function gives back; the kernel's tools have none."""
    for function in _functions(recorded):
        function.pop("responseJsonSchema", None)


def types_by_number(recorded: Body, ours: Body) -> None:
    """Types of schemas by the numbers that they have in protocol buffers."""
    for function in [*_functions(recorded), *_functions(ours)]:
        for each in objects(function.get("parameters")):
            if each.get("type") in _NUMBERS:
                each["type"] = _NUMBERS[each["type"]]


_NUMBERS: Final = {"1": "STRING", "2": "NUMBER", "3": "INTEGER", "4": "BOOLEAN", "5": "ARRAY", "6": "OBJECT"}


def _functions(body: Body) -> Iterator[Body]:
    for tool in body.get("tools") or ():
        yield from tool.get("functionDeclarations") or ()


def _parts(body: Body) -> Iterator[Body]:
    yield from (body.get("systemInstruction") or {}).get("parts") or ()
    for content in body["contents"]:
        yield from content["parts"]


def _answers(body: Body) -> list[Body]:
    return [part["functionResponse"] for part in _parts(body) if "functionResponse" in part]


CLASSES: Final[tuple[Class, ...]] = (
    null_is_absent,
    other_spelling,
    empty_config,
    a_result_is_named_output,
    no_thought_is_the_default,
    role_of_the_system_prompt,
    empty_is_absent,
    contents_of_one_role_joined,
    parameters_of_none,
    schemas_of_results,
    types_by_number,
    order_of_tools,
)
