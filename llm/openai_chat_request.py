"""Requests of chat/completions, from the kernel's form to JSON bytes.

``options.extra`` is merged last and wins; a field it sets to None is not sent, its ``tools`` are added to ours.

Read with: ``openai_chat.py`` (the caller), ``openai_chat_messages.py`` (the messages), ``openai_chat_dialect.py``,
``tests/llm/test_openai_chat_request.py`` (the tables).
"""

import warnings
from functools import partial
from typing import Any

from unspool.kernel.ports import CallOptions, ModelRequest, ToolSpec

from .cache_marks import mark_last
from .closed_schemas import strict_schema
from .context_management import warn_unmanaged
from .encoding import Part, encode, encode_messages
from .openai_chat_dialect import ChatDialect
from .openai_chat_kept import FORMAT
from .openai_chat_messages import cut, system_messages
from .openai_chat_thinking import level_of
from .origins import LeftOutWarning
from .response_formats import neutral_format

_CHOICES = frozenset({"auto", "none", "required"})


def encode_request(request: ModelRequest, name: str, dialect: ChatDialect, *, stream: bool = True) -> bytes:
    """The JSON body of a request to the model ``name``, which is ``provider/model``."""
    options = request.options
    provider, _, model = name.partition("/")
    ttl = options.cache_last if dialect.cache_marks else None
    messages = encode_messages(
        request.messages,
        partial(cut, provider=provider, dialect=dialect, drop_reasoning=options.drop_reasoning),
        key=(FORMAT, provider, dialect, options.drop_reasoning),
        mark=None if ttl is None else partial(mark_last, ttl=ttl),
        before=list(system_messages(request.system, dialect)),
    )
    body: dict[str, Any] = {"model": model or name, "messages": messages}
    if stream:
        body["stream"] = True
        if dialect.stream_usage:
            body["stream_options"] = {"include_usage": True}
    if tools := [*[_tool(spec, dialect) for spec in request.tools], *(options.extra.get("tools") or ())]:
        body["tools"] = tools
        if (choice := options.tool_choice) is not None:
            named = {"type": "function", "function": {"name": choice}}
            body["tool_choice"] = choice if choice in _CHOICES else named
    elif dialect.empty_tools and any(message.has_tool_calls for message in request.messages):
        body["tools"] = []
    body.update(_options(options, model or name, dialect))
    for key, value in options.extra.items():
        if value is None:
            body.pop(key, None)
        elif key != "tools":
            body[key] = value
    return encode(body)


def _options(options: CallOptions, model: str, dialect: ChatDialect) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if options.max_tokens is not None:
        fields[dialect.max_tokens] = options.max_tokens
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if options.stop:
        fields["stop"] = list(options.stop)
    if level := level_of(options):
        fields |= dialect.thinking(level, options.thinking_budget, model)
    if options.response_format is not None:
        fields["response_format"] = _response_format(options.response_format, dialect)
    if dialect.cache_key and (key := options.cache_key or options.session_id):
        fields["prompt_cache_key"] = key
    warn_unmanaged(options, FORMAT)
    return fields


def _response_format(neutral: dict[str, Any], dialect: ChatDialect) -> dict[str, Any]:
    """The wire's ``response_format`` (see ``response_formats.py``); other forms of the wire pass as they are."""
    match neutral_format(neutral) or neutral:
        case {"type": "json"}:
            return {"type": "json_object"}
        case {"type": "json_schema"} if not dialect.json_schema:
            what = "the schema of response_format"
            warnings.warn(f"{what} is not sent: this server knows none", LeftOutWarning, stacklevel=2)
            return {"type": "json_object"}
        case {"type": "json_schema", "schema": schema, **rest}:
            if rest.get("strict"):
                closed = strict_schema(schema)
                rest["strict"], schema = closed is not None, closed or schema
            return {"type": "json_schema", "json_schema": {"name": "reply", **rest, "schema": schema}}
        case _:
            return neutral


def _tool(spec: ToolSpec, dialect: ChatDialect) -> Part:
    function: Part = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    schema, strict = spec.schema or {"type": "object", "properties": {}}, spec.strict
    if strict and dialect.strict:  # one without a strict form goes as an ordinary one
        closed = strict_schema(schema)
        strict, schema = closed is not None, closed or schema
    function["parameters"] = schema
    if strict is not None and dialect.strict:
        function["strict"] = strict
    return {"type": "function", "function": function}
