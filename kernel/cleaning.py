"""What a request says besides its messages, without keys of model providers.

Read with: ``redaction.py``, ``turn.py`` (the run's own requests), ``request.py`` (those of strategies).
"""

import msgspec
from msgspec.structs import replace

from .errors import ToolDefinitionError
from .json_edge import clean_json, clean_text
from .messages import clean_message
from .ports import ModelRequest, SystemBlock, ToolSpec
from .redaction import holds_key, may_hold_key

_encode = msgspec.json.Encoder().encode


def clean_system(blocks: tuple[SystemBlock, ...]) -> tuple[SystemBlock, ...]:
    """System blocks as they are sent and recorded."""
    return tuple([replace(block, text=clean_text(block.text)) for block in blocks])


def clean_tools(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Tools as they are offered and recorded; the same tuple where nothing is to be taken out.

    Raises:
        ToolDefinitionError: a tool's name holds a key.
    """
    if not may_hold_key(_encode(specs)):
        return specs
    cleaned = [_cleaned(spec) for spec in specs]
    return specs if all(a is b for a, b in zip(cleaned, specs, strict=True)) else tuple(cleaned)


def _cleaned(spec: ToolSpec) -> ToolSpec:
    if not may_hold_key(_encode(spec)) or not holds_key(
        (spec.name, spec.description, spec.schema, spec.title, spec.activity, spec.meta)
    ):
        return spec
    if holds_key(spec.name):
        raise ToolDefinitionError("tool: its name holds a key of a model provider", tool=spec.name)
    return replace(
        spec,
        description=clean_text(spec.description),
        schema=clean_json(spec.schema)[0],
        title=clean_text(spec.title),
        activity=clean_text(spec.activity),
        meta=clean_json(spec.meta)[0],
    )


def clean_request(request: ModelRequest) -> ModelRequest:
    """A request that was put together by somebody else, as it is sent and recorded.

    Raises:
        TypeError, ValueError: a message holds what JSON does not have, or an option a key.
        ToolDefinitionError: a tool's name holds a key.
    """
    replace(request.options)  # raises: ``extra`` may hold more than it did when it was looked through
    return replace(
        request,
        messages=[clean_message(message) for message in request.messages],
        system=clean_system(tuple(request.system)),
        tools=clean_tools(tuple(request.tools)),
    )
