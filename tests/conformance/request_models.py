"""What the providers' own clients take as a request: their types, asked about a body as it is sent.

The types of OpenAI's and Anthropic's clients become a JSON Schema, with no fields beside the declared ones.
Google's are pydantic models, which refuse other fields themselves; a body is put into them in the wire's spelling,
and what the client would send of it to the Gemini API and to Vertex must be that body again.

The clients are optional: they are imported here only, by name, when a check is made.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import jsonschema_rs
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from .json_compare import differences

Body: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[Body], list[str]]
"""What a client's types say against a body; nothing where they take it."""

_PARAMS: Final = {
    "openai-chat": "openai.types.chat.completion_create_params:CompletionCreateParams",
    "openai-responses": "openai.types.responses.response_create_params:ResponseCreateParams",
    "anthropic-messages": "anthropic.types.message_create_params:MessageCreateParams",
}
_BETA: Final = {"anthropic-messages": "anthropic.types.beta.message_create_params:MessageCreateParams"}
PACKAGES: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "google.genai",
}


class _Schemas(GenerateJsonSchema):
    """What JSON cannot hold, an open file say, fits nothing."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {"not": {}}


def check_of(format: str) -> dict[bool, Check]:
    """The checks for bodies of a format, for True that of requests which ask for what is in beta.

    Raises:
        ModuleNotFoundError: the provider's client is not installed.
    """
    importlib.import_module(PACKAGES[format])
    if format == "gemini":
        return dict.fromkeys((False, True), _google())
    released = _PARAMS[format]
    places = {False: released, True: _BETA.get(format, released)}
    return {beta: schema_check(closed(_schema_of(place))) for beta, place in places.items()}


def _schema_of(place: str) -> Body:
    module, _, name = place.partition(":")
    params: Any = getattr(importlib.import_module(module), name)
    return TypeAdapter(params).json_schema(schema_generator=_Schemas)


def closed(schema: Any) -> Any:
    """The schema, in which an object that lists its fields has no others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    is_object = isinstance(found.get("properties"), dict) and found.get("type") == "object"
    if is_object and found.get("additionalProperties") in (None, True):
        found["additionalProperties"] = False
    return found


def schema_check(schema: Body) -> Check:
    """A check by a JSON Schema."""
    validator = jsonschema_rs.validator_for(schema)
    return lambda body: [_why(error) for error in validator.iter_errors(body)]


def _why(error: Any) -> str:
    """An error as one line; of several possible forms, by the one that fits best."""
    branches = getattr(error.kind, "context", None)
    best = max(filter(None, branches or ()), key=_fit, default=None)
    if best is not None:
        return "; ".join(map(_why, best))
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return f"${path}: {error.message[:300]}"


def _fit(errors: list[Any]) -> tuple[bool, int]:
    """How far a form fits: that its ``type`` or ``role`` is right counts most, then how deep the fault is."""
    paths = [list(error.instance_path) for error in errors]
    named = any(path[-1:] in (["type"], ["role"]) for path in paths)
    return not named, max(map(len, paths))


# --- Google -------------------------------------------------------------------------------------

_CONFIG: Final = frozenset(  # fields of the body that the client has in its config
    [
        "systemInstruction",
        "tools",
        "toolConfig",
        "safetySettings",
        "cachedContent",
        "labels",
        "modelArmorConfig",
    ]
)
_NOT_IN: Final = {"mldev": ("modelArmorConfig", "labels"), "vertex": ()}


def _google() -> Check:
    genai, types, models, common = (
        importlib.import_module(f"google.genai{name}") for name in ("", ".types", ".models", "._common")
    )
    api = genai.Client(api_key="none")._api_client

    def sent(send: str, given: Any) -> Body:
        """What the client sends."""
        made = getattr(models, f"_GenerateContentParameters_to_{send}")(api, given)
        body: Body = common.encode_unserializable_types(common.convert_to_dict(made))
        body.get("generationConfig", {}).get("responseSchema", {}).pop(
            "property_ordering", None
        )  # it adds that
        return {key: value for key, value in body.items() if key != "_url" and value != {}}

    def check(body: Body) -> list[str]:
        return list(_google_errors(types, sent, body))

    return check


def _google_errors(types: Any, sent: Callable[[str, Any], Body], body: Body) -> Iterator[str]:
    rest = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    if unknown := rest.keys() - _CONFIG:
        yield f"$: fields that the client does not send: {sorted(unknown)}"
        return
    try:
        config = {**body.get("generationConfig", {}), **rest}
        types.GenerationConfig.model_validate_json(json.dumps(body.get("generationConfig", {})))
        given = types._GenerateContentParameters(
            model="m",
            contents=[types.Content.model_validate_json(json.dumps(each)) for each in body["contents"]],
            config=types.GenerateContentConfig.model_validate_json(json.dumps(config)),
        )
    except (ValueError, TypeError, AttributeError) as error:  # pydantic's is the first, the others escape it
        yield f"$: {' '.join(str(error).split())[:600]}"
        return
    for server, lacks in _NOT_IN.items():
        if body.keys() & {*lacks}:
            continue
        try:
            theirs = sent(server, given)
        except ValueError as error:
            yield f"$: {server}: {error}"
            continue
        yield from (f"{server}: {line}" for line in differences(spelled(body), spelled(theirs)))


_DATA: Final = (
    "args",
    "response",
    "parametersJsonSchema",
    "responseJsonSchema",
)  # whose keys are not Google's


def spelled(value: Any, *, schema: bool = False) -> Any:
    """A body in one spelling: the client writes most fields in snake_case and types of schemas in capitals."""
    if isinstance(value, list):
        return [spelled(each, schema=schema) for each in value]
    if not isinstance(value, dict):
        return value
    found: Body = {}
    for key, each in value.items():
        name = re.sub(r"_([a-z])", lambda letter: letter[1].upper(), key)
        if name in _DATA:
            found[name] = each
        elif name == "properties":
            found[name] = {field: spelled(inner, schema=True) for field, inner in each.items()}
        elif name == "type" and schema:
            found[name] = str(getattr(each, "value", each)).upper()
        else:
            found[name] = spelled(each, schema=schema or name in ("parameters", "responseSchema"))
    return found
