"""Requests of generateContent, from the kernel's form to JSON bytes.

Schemas go as JSON Schema (``parametersJsonSchema``, ``responseJsonSchema``), which today's Gemini API and Vertex
both take and which loses nothing; a dialect can ask for the older subset instead. References are inlined either
way. Thinking, contents, and the format of the answer have files of their own.

Read with: ``gemini.py`` (the caller), ``gemini_contents.py``, ``gemini_thinking.py``, ``gemini_format.py``,
``tests/llm/test_gemini_request.py`` (the tables).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from unspool.kernel.ports import CallOptions, ModelRequest, ToolSpec

from .context_management import warn_unmanaged
from .encoding import Part, encode, encode_messages
from .gemini_contents import Target, cut
from .gemini_format import excludes_tools, format_in_words, response_format
from .gemini_schema import gemini_parameters
from .gemini_thinking import generation_of, thinking_config
from .gemini_wire import FORMAT
from .origins import LeftOutWarning
from .schemas import plain_schema

_MAX_STOPS = 5  # more are refused, and so is an empty one
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


@dataclass(frozen=True, slots=True)
class GeminiDialect:
    """Where servers of this format differ.

    ``bearer`` sends the key as a bearer token, as Vertex wants it, and not as ``x-goog-api-key``.
    ``json_schema`` says whether schemas go as JSON Schema; the older fields take a subset of OpenAPI.
    ``generation`` is that of the model (2.5, 3) where its name does not tell.
    """

    bearer: bool = False
    json_schema: bool = True
    generation: float | None = None


def encode_request(request: ModelRequest, name: str, dialect: GeminiDialect) -> bytes:
    """The JSON body of a request; ``name`` is ``provider/model``.

    ``options.extra`` is merged last and wins, its ``generationConfig`` field by field; a field it sets to None
    is not sent, its ``tools`` are added to ours. What Gemini alone has goes there: ``cachedContent``, ``safetySettings``, ``labels``.
    """
    options, tools, shape = request.options, request.tools, request.options.response_format
    generation = generation_of(name) if dialect.generation is None else dialect.generation
    target = Target(name, generation, options.drop_reasoning)
    body: dict[str, Any] = {}
    system = [{"text": block.text} for block in request.system if block.text.strip()]
    if shape is not None and excludes_tools(shape, generation):
        tools = () if options.tool_choice == "none" else tools
        if tools or options.extra.get("tools"):
            system.append({"text": format_in_words(shape)})
            shape = None
    if system:
        body["systemInstruction"] = {"parts": system}
    body["contents"] = encode_messages(
        request.messages, partial(cut, target=target), key=(FORMAT, target), before=_opening(request)
    )
    if tools:
        body["tools"] = [{"functionDeclarations": [_function(spec, dialect) for spec in tools]}]
        if options.tool_choice is not None:
            body["toolConfig"] = {"functionCallingConfig": _choice(options.tool_choice)}
    config = _config(options, name, generation)
    if shape is not None:
        config |= response_format(shape, json_schema=dialect.json_schema)
    if config:
        body["generationConfig"] = config
    return encode(_merged(body, options.extra))


def _opening(request: ModelRequest) -> list[Part]:
    """A user's word where a conversation would begin with the model's, which is refused."""
    if request.messages and request.messages[0].role == "assistant":
        return [{"role": "user", "parts": [{"text": "(the conversation goes on)"}]}]
    return []


def _merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in extra.items():
        if value is None:
            body.pop(key, None)
        elif key == "generationConfig" and isinstance(value, Mapping):
            body[key] = _merged(body.get(key, {}), value)
        elif key == "tools":
            body[key] = [*body.get(key, ()), *value]
        else:
            body[key] = value
    return body


def _function(spec: ToolSpec, dialect: GeminiDialect) -> Part:
    function: Part = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    if dialect.json_schema:
        function["parametersJsonSchema"] = plain_schema(spec.schema or {"type": "object", "properties": {}})
    elif (parameters := gemini_parameters(spec.schema))["properties"]:  # of none is refused by some versions
        function["parameters"] = parameters
    return function


def _choice(choice: str) -> Part:
    mode = _MODES.get(choice)
    return {"mode": mode} if mode else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _config(options: CallOptions, name: str, generation: float) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if options.max_tokens is not None:
        config["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if stop := _stop_sequences(options.stop):
        config["stopSequences"] = stop
    if (thinking := thinking_config(options, name, generation)) is not None:
        config["thinkingConfig"] = thinking
    warn_unmanaged(options, FORMAT)
    return config


def _stop_sequences(stop: Sequence[str]) -> list[str]:
    sequences = list(dict.fromkeys(filter(None, stop)))
    if more := sequences[_MAX_STOPS:]:
        warnings.warn(f"{len(more)} stop sequences are not sent in {FORMAT}", LeftOutWarning, stacklevel=2)
    return sequences[:_MAX_STOPS]
