"""Requests of Anthropic Messages, from the kernel's form to JSON bytes.

Marks for the cache go on the system blocks that ask for one, on the last block of the last message, and on the
last tool where no system block has one. The server takes four: of more, the first system blocks go without.

A deferred tool is sent as one while a result refers to it. Signed thinking always goes back, whatever
``drop_reasoning`` says: the server refuses results of calls without the thinking that led to them.

Read with: ``anthropic.py`` (the caller), ``anthropic_messages.py``, ``anthropic_thinking.py``,
``tests/llm/test_anthropic_request.py`` (the tables).
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from unspool.kernel.errors import BadRequestError
from unspool.kernel.messages import ToolReference
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec

from .anthropic_context import context_betas, context_fields
from .anthropic_dialect import AnthropicDialect
from .anthropic_messages import cut, mark_last
from .anthropic_parts import text_part
from .anthropic_thinking import Model, Plan, model_of, plan
from .anthropic_wire import FORMAT, Fields, fields_of, text_of
from .cache_marks import mark
from .closed_schemas import closed_schema
from .encoding import Cut, Part, encode, encode_messages
from .origins import LeftOutWarning, is_of_provider
from .response_formats import neutral_format, unknown_format
from .schemas import Schema, one_object, plain_schema

_MARKS: Final = 4
_LONG: Final = "1h"  # the longer of the two times that there are
_USUAL_TEMPERATURE: Final = 1.0  # of which nobody needs to hear that it is not sent
_UNIONS: Final = frozenset({"anyOf", "oneOf", "allOf", "$ref"})
_INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_BINDING: Final = "thinking-binding-controls-2026-08-01"
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
_NOT_SENT: Final = ("betas", "disable_parallel_tool_use")  # of ``extra``: not fields of the body


def encode_request(
    request: ModelRequest, name: str, dialect: AnthropicDialect, *, stream: bool = True
) -> bytes:
    """The JSON body of a request; ``name`` is ``provider/model``.

    ``options.extra`` is merged last and wins; a field it sets to None is not sent, its ``tools`` are added
    to ours. Two of its keys are no fields: ``betas`` (see ``betas_of``) and ``disable_parallel_tool_use``, which
    belongs to the tool choice.

    Raises:
        BadRequestError: the response format is JSON without a schema, or of one that the format cannot say, or
            ``context_management`` is not of its form.
    """
    options, model = request.options, name.partition("/")[2] or name
    ttl = _ttl(options.cache_last, dialect)
    references = _references(request) if dialect.tool_references else frozenset[str]()
    system = _system(request.system, dialect, _MARKS if ttl is None else _MARKS - 1, ttl)
    tools = [_tool(spec, references) for spec in request.tools]
    if ttl is not None and tools and not any("cache_control" in block for block in system):
        _mark_last_tool(tools, ttl)
    planned = plan(options, model, dialect)
    body: Fields = {"model": model, "max_tokens": planned.max_tokens}
    if system:
        body["system"] = system
    cut_some = partial(cut, name=name, references=references, drop_reasoning=options.drop_reasoning)
    body["messages"] = encode_messages(
        request.messages,
        cut_some,
        key=(FORMAT, name.partition("/")[0], references, options.drop_reasoning),
        before=_opening(request, cut_some),
        mark=None if ttl is None else partial(mark_last, ttl=ttl),
    )
    if stream:
        body["stream"] = True
    tools += options.extra.get("tools") or ()
    if tools:
        body["tools"] = tools
        if choice := _tool_choice(options, model_of(model)):
            body["tool_choice"] = choice
    body.update(_options(options, planned))
    body.update(context_fields(options))
    if container := _container(request, name):
        body["container"] = container
    for key, value in options.extra.items():
        if value is None or key in _NOT_SENT:
            body.pop(key, None)
        elif key != "tools":
            body[key] = value
    return encode(body)


def betas_of(request: ModelRequest, model: str, dialect: AnthropicDialect) -> list[str]:
    """What goes into the ``anthropic-beta`` header: the dialect's, ``betas`` of ``options.extra``, thinking
    between calls where a model must be told, and what the server is to do to the context."""
    asked = request.options.extra.get("betas") or ()
    betas = [*dialect.betas, *([asked] if isinstance(asked, str) else map(str, asked))]
    planned = plan(request.options, model, dialect)
    if request.tools and planned.budgeted:
        betas.append(_INTERLEAVED)
    if planned.bound:
        betas.append(_BINDING)
    betas += context_betas(request.options)
    return list(dict.fromkeys(betas))


def _ttl(asked: str | None, dialect: AnthropicDialect) -> str | None:
    return asked if asked is None or dialect.cache_ttl else ""


def _opening(request: ModelRequest, cut_some: Cut) -> list[Part]:
    """A user's word where a conversation would begin with the model's, which is refused."""
    first = request.messages[:1]
    if first and first[0].role == "assistant" and any(parts for _, parts in cut_some(first)):
        return [{"role": "user", "content": [text_part("(the conversation goes on)")]}]
    return []


def _container(request: ModelRequest, name: str) -> str:
    """The container in which the server ran code for the last reply: what is under way there needs it."""
    last = next((message for message in reversed(request.messages) if message.role == "assistant"), None)
    if last is None or not is_of_provider(last, FORMAT, name):
        return ""
    return text_of(fields_of(last.metadata.get("container")).get("id"))


def _system(
    blocks: Sequence[SystemBlock], dialect: AnthropicDialect, marks: int, after: str | None
) -> list[Part]:
    """The system prompt, of which the last ``marks`` blocks that ask for a mark get one.

    None may last less long than one that comes after it; ``after`` is what the messages' lasts.
    """
    parts: list[Part] = []
    for block in reversed(blocks):
        if block.text.strip():
            part: Part = {"type": "text", "text": block.text}
            if (ttl := _ttl(block.cache, dialect)) is not None and marks:
                after = _LONG if after == _LONG else ttl
                part["cache_control"] = mark(after)
                marks -= 1
            parts.append(part)
    return parts[::-1]


def _references(request: ModelRequest) -> frozenset[str]:
    """The deferred tools that results refer to. One tool at least must not be deferred."""
    deferred = {spec.name for spec in request.tools if spec.deferred}
    if not deferred or len(deferred) == len(request.tools):
        return frozenset()
    return frozenset(
        block.tool_name
        for message in request.messages
        if message.role == "tool"
        for block in message.content
        if type(block) is ToolReference and block.tool_name in deferred
    )


def _tool(spec: ToolSpec, references: frozenset[str]) -> Part:
    tool: Part = {"name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    closed = closed_schema(spec.schema) if spec.strict else None
    if closed is not None and closed.get("type") != "object":
        closed = None
    tool["input_schema"] = closed or _object(spec.schema)
    if closed is not None:
        tool["strict"] = True
    if spec.name in references:
        tool["defer_loading"] = True
    return tool


def _object(schema: Schema) -> Schema:
    """Arguments are an object by name, without unions at the top."""
    if schema.get("type", "object") == "object" and _UNIONS.isdisjoint(schema):
        return {"type": "object", **(schema or {"properties": {}})}
    return one_object(plain_schema(schema))


def _mark_last_tool(tools: list[Part], ttl: str) -> None:
    """In place. What is loaded later cannot bear a mark."""
    for tool in reversed(tools):
        if "defer_loading" not in tool:
            tool["cache_control"] = mark(ttl)
            return


def _tool_choice(options: CallOptions, model: Model) -> Part:
    asked, alone = options.tool_choice, options.extra.get("disable_parallel_tool_use")
    if asked not in (None, "auto", "none") and not model.can_be_forced:
        warnings.warn(
            "this model takes no tool choice that forces a call: auto is sent", LeftOutWarning, stacklevel=2
        )
        asked = "auto"
    if asked is None and not alone:
        return {}
    kind = _CHOICES.get(asked or "auto")
    choice: Part = {"type": kind} if kind else {"type": "tool", "name": asked}
    if alone and kind != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _options(options: CallOptions, planned: Plan) -> Fields:
    fields: Fields = {}
    output: Fields = {}
    if planned.thinking is not None:
        fields["thinking"] = planned.thinking
    if planned.effort is not None:
        output["effort"] = planned.effort
    if planned.temperature is None and options.temperature not in (None, _USUAL_TEMPERATURE):
        what = "a temperature is not sent: this model takes none, or none while it thinks"
        warnings.warn(what, LeftOutWarning, stacklevel=2)
    if planned.temperature is not None:
        fields["temperature"] = planned.temperature
    if stop := [text for text in options.stop if text.strip()]:
        fields["stop_sequences"] = stop
    if options.response_format is not None and (form := _response_format(options.response_format)):
        output["format"] = form
    if output:
        fields["output_config"] = output
    return fields


def _response_format(form: dict[str, Any]) -> Fields:
    """The wire's output format, which is a schema and nothing else; empty for text."""
    match neutral_format(form):
        case {"type": "text"}:
            return {}
        case {"type": "json"}:
            raise BadRequestError("provider: the format has no JSON without a schema, give one")
        case {"schema": schema}:
            if (closed := closed_schema(schema)) is None:
                what = (
                    "provider: the schema of the answer has no closed form (recursion, patterns of names, …)"
                )
                raise BadRequestError(what, schema=schema.get("title", ""))
            return {"type": "json_schema", "schema": closed}
        case _:
            raise unknown_format(form, FORMAT)
