"""Requests of the Responses API, from the kernel's form to JSON bytes.

The system prompt is ``instructions``, messages are ``input`` items. The server is asked to store nothing, and to
give the reasoning encrypted, so that the whole conversation is in each request and may be cut anywhere.

- ``strict`` is always sent for a tool: where it is left out, OpenAI takes it for true and makes every
  argument required. A schema that has no strict form goes as an ordinary one;
- the API has no stop sequences: they are left out, with a warning.

Read with: ``openai_responses.py`` (the caller), ``openai_responses_input.py`` (the items),
``tests/llm/test_openai_responses_request.py`` (the tables).
"""

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from unspool.kernel.ports import CallOptions, ModelRequest, ToolSpec

from .closed_schemas import strict_schema
from .context_management import context_management, warn_unmanaged
from .encoding import Cut, Part, encode, encode_messages
from .openai_chat_thinking import effort_of, is_known_to_reason, level_of, openai_efforts
from .openai_responses_chain import link_of
from .openai_responses_input import cut_input
from .openai_responses_kept import FORMAT
from .origins import LeftOutWarning
from .response_formats import neutral_format

_CHOICES: Final = frozenset({"auto", "none", "required"})


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """Where servers of this format differ.

    ``store`` lets the server keep the answers. ``chained`` does so too and refers to them instead of sending what
    they answered (``openai_responses_chain.py``). ``encrypted_reasoning`` says whether it is asked
    for; a model that does not reason refuses to be. None: where ``efforts`` or else the model's name says that it
    reasons, and where it is asked to think. A deployment with a name of its own that is not asked to think needs a
    True, or what it reasoned does not go back to it. ``efforts`` are the reasoning efforts known by name, the least first, ``none`` among them where
    thinking can be switched off; None: the model's name tells. ``summary`` is the kind of reasoning summary asked
    for whenever reasoning is, None for none. ``cache_key`` says whether
    ``prompt_cache_key`` is known, ``retention`` how long the cache is asked to last (``24h``).
    ``session_headers`` are headers that carry the session id. ``system_role`` is the role of system messages
    within the conversation. ``rich_results``: images and files may be in the output of a call; where not, they
    follow in a user message.
    """

    store: bool = False
    chained: bool = False
    encrypted_reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    summary: str | None = "auto"
    cache_key: bool = True
    retention: str | None = None
    session_headers: tuple[str, ...] = ()
    system_role: str = "developer"
    rich_results: bool = True

    def __post_init__(self) -> None:
        if self.chained:
            object.__setattr__(self, "store", True)


def encode_request(
    request: ModelRequest, name: str, dialect: ResponsesDialect, *, stream: bool = True
) -> bytes:
    """The JSON body of a request; ``name`` is ``provider/model``.

    ``options.extra`` comes last: a field set to None is not sent, an object is merged into the one that is
    there, ``tools`` and ``include`` are added to what is there, anything else wins.
    """
    options, model = request.options, name.partition("/")[2] or name
    cut, key = cut_of(request, name, dialect)
    body: dict[str, Any] = {"model": model}
    if dialect.chained and (link := link_of(request.messages, name, cut, key)) is not None:
        body.update(previous_response_id=link.response_id, input=link.items)
    else:
        body["input"] = encode_messages(request.messages, cut, key)
    body["store"] = dialect.store
    if stream:
        body["stream"] = True
    if texts := [block.text for block in request.system if block.text.strip()]:
        body["instructions"] = "\n\n".join(texts)
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if (choice := options.tool_choice) is not None and (request.tools or options.extra.get("tools")):
        body["tool_choice"] = choice if choice in _CHOICES else {"type": "function", "name": choice}
    efforts = openai_efforts(model) if dialect.efforts is None else dialect.efforts
    body.update(_options(options, dialect, efforts))
    if _wants_encrypted(dialect, model, "reasoning" in body):
        body["include"] = ["reasoning.encrypted_content"]
    _merge(body, options.extra)
    return encode(body)


def cut_of(request: ModelRequest, name: str, dialect: ResponsesDialect) -> tuple[Cut, Hashable]:
    """How the messages of a request become items, and what that depends on."""
    drop = request.options.drop_reasoning
    return partial(cut_input, name=name, dialect=dialect, drop_reasoning=drop), (FORMAT, name, dialect, drop)


def _wants_encrypted(dialect: ResponsesDialect, model: str, thinks: bool) -> bool:
    """Whether reasoning is asked for in a form that can be sent back."""
    if dialect.encrypted_reasoning is not None:
        return dialect.encrypted_reasoning
    return thinks or (is_known_to_reason(model) if dialect.efforts is None else bool(dialect.efforts))


def _options(options: CallOptions, dialect: ResponsesDialect, efforts: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if options.max_tokens is not None:
        fields["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if (level := level_of(options)) and (effort := effort_of(level, efforts)) is not None:
        summary = {"summary": dialect.summary} if dialect.summary and effort != "none" else {}
        fields["reasoning"] = {"effort": effort, **summary}
    if options.response_format is not None:
        fields["text"] = {"format": _format(options.response_format)}
    if dialect.cache_key and (key := options.cache_key or options.session_id):
        fields["prompt_cache_key"] = key
        if dialect.retention:
            fields["prompt_cache_retention"] = dialect.retention
    if (threshold := context_management(options).compact_at) is not None:
        fields["context_management"] = [{"type": "compaction", "compact_threshold": threshold}]
    warn_unmanaged(options, FORMAT, "compact_at")
    if options.stop:
        warnings.warn(f"stop sequences are not sent in {FORMAT}", LeftOutWarning, stacklevel=2)
    return fields


def _format(neutral: dict[str, Any]) -> dict[str, Any]:
    """The wire's ``text.format`` (see ``response_formats.py``); other forms of the wire pass as they are."""
    match neutral_format(neutral) or neutral:
        case {"type": "json"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "schema": dict()} as form:
            return _strictly({"name": "reply", **form})
        case _:
            return neutral


def _strictly(form: dict[str, Any], key: str = "schema") -> dict[str, Any]:
    """``form`` with its schema as strict mode wants it; one without a strict form is not strict."""
    if not form.get("strict") or not isinstance(schema := form.get(key), dict):
        return form
    closed = strict_schema(schema)
    return {**form, key: closed or schema, "strict": closed is not None}


def _tool(spec: ToolSpec) -> Part:
    tool: Part = {"type": "function", "name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    tool["parameters"] = spec.schema or {"type": "object", "properties": {}}
    tool["strict"] = bool(spec.strict)
    return _strictly(tool, "parameters")


def _merge(body: dict[str, Any], extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        there = body.get(key)
        if value is None:
            body.pop(key, None)
        elif isinstance(value, dict) and isinstance(there, dict):
            body[key] = {**there, **value}
        elif key in ("tools", "include") and isinstance(value, list) and isinstance(there, list):
            body[key] = [*there, *value]
        else:
            body[key] = value
