"""Token counts of Anthropic Messages answers in the kernel's form.

``input_tokens`` are the uncached ones already. Counts come at the start of a stream and again at its end, where
some are missing or null: those of the start hold then.

Read with: ``anthropic_stream.py`` (the caller), ``tests/llm/test_anthropic_stream.py``.
"""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.messages import Usage

from .anthropic_wire import Fields, fields_of
from .usage_fields import count, object_of, told_cost


def merge_usage(fields: Fields, more: Any) -> None:
    """Take over what ``more`` says; null and absent erase nothing."""
    fields.update((key, value) for key, value in fields_of(more).items() if value is not None)


def usage_of(fields: Mapping[str, Any]) -> Usage:
    """Usage from the wire's fields; anything missing or not a count is 0.

    >>> usage = usage_of({"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 2})
    >>> usage.input_tokens, usage.context_tokens
    (5, 9)
    """
    output = count(fields, "output_tokens")
    written = object_of(fields, "cache_creation")
    return Usage(
        input_tokens=count(fields, "input_tokens"),
        output_tokens=output,
        cache_read_tokens=count(fields, "cache_read_input_tokens"),
        cache_write_tokens=count(fields, "cache_creation_input_tokens")
        or sum(count(written, key) for key in written),
        reasoning_tokens=min(count(object_of(fields, "output_tokens_details"), "thinking_tokens"), output),
        cost=told_cost(fields),  # of gateways
    )


def usage_details(fields: Mapping[str, Any]) -> Fields:
    """What is billed and ``Usage`` has no place for: tokens cached for an hour, requests of server tools,
    and the calls inside a call that did something besides answering (a compaction)."""
    details: Fields = {}
    written = object_of(fields, "cache_creation")
    if count(written, "ephemeral_1h_input_tokens"):
        details["cache_creation"] = written
    served = object_of(fields, "server_tool_use")
    if any(count(served, key) for key in served):
        details["server_tool_use"] = served
    calls = fields.get("iterations")
    if isinstance(calls, list) and any(fields_of(call).get("type") != "message" for call in calls):
        details["iterations"] = calls
    return details


def compactions(metadata: Mapping[str, Any]) -> list[Usage]:
    """The usage of the compactions in a reply of this metadata: it is not in that of the reply."""
    calls = object_of(metadata, "usage_details").get("iterations", ())
    return [usage_of(call) for each in calls if (call := fields_of(each)).get("type") == "compaction"]
